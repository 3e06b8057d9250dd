//! Traces written by hand, libraries compiled on the spot, and a replay of one on the other.

#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use freehold_lab::real::{
    Allocator, Measured, Options, Preparation, Prepared, RealError, replay_prepared,
};
use freehold_trace::{Api, Event, ObjectId, ProcessId, Record, Request, ThreadId, Tick};
use tempfile::TempDir;

/// A trace in the making; ticks are microseconds, one per event.
pub struct Script {
    preparation: Preparation,
    tick: u64,
}

impl Script {
    pub fn new() -> Script {
        Script { preparation: Preparation::new(None, 1_000_000).unwrap(), tick: 0 }
    }

    pub fn event(&mut self, thread: u32, event: Event) -> &mut Script {
        self.tick += 1;
        let (tick, process, thread) = (Tick(self.tick), ProcessId(0), ThreadId(thread));
        self.preparation.push(&Record { tick, process, thread, event }).unwrap();
        self
    }

    pub fn make(&mut self, thread: u32, object: u32, request: Request) -> &mut Script {
        self.event(thread, Event::Alloc { object: ObjectId(object), request })
    }

    pub fn malloc(&mut self, thread: u32, object: u32, size: u64) -> &mut Script {
        self.make(thread, object, bytes(size))
    }

    pub fn free(&mut self, thread: u32, object: u32) -> &mut Script {
        self.event(thread, Event::Free { object: ObjectId(object), remote: false })
    }

    pub fn realloc(&mut self, thread: u32, object: u32, size: u64) -> &mut Script {
        let (object, request) = (ObjectId(object), bytes(size));
        self.event(
            thread,
            Event::Realloc { object, request, remote: false, began: Tick(self.tick) },
        )
    }

    pub fn finish(self) -> Prepared {
        self.preparation.finish().unwrap()
    }
}

pub fn bytes(size: u64) -> Request {
    Request { size, align_log2: 0, api: Api::Malloc, usable: 0 }
}

/// Two runs of everything: quick, and enough to notice what only the second one shows.
pub fn quick() -> Options {
    Options { repeats: 2, ..Options::default() }
}

pub fn replay(
    prepared: &Prepared,
    allocators: &[Allocator],
    options: &Options,
) -> Result<Vec<Result<Measured, RealError>>, RealError> {
    let replayer = Path::new(env!("CARGO_BIN_EXE_freehold-replayer"));
    let go_on = AtomicBool::new(false);
    replay_prepared(prepared, allocators, options, replayer, &go_on, &mut || {})
}

/// Replays on one allocator that is expected to work.
pub fn measure(prepared: &Prepared, allocator: &Allocator, options: &Options) -> Measured {
    let mut found = replay(prepared, std::slice::from_ref(allocator), options).unwrap();
    found.pop().unwrap().unwrap_or_else(|error| panic!("{error}"))
}

/// A library made of one of the C files beside the tests, for `LD_PRELOAD`.
pub struct Library {
    folder: TempDir,
    pub path: PathBuf,
}

impl Library {
    /// `defines` are `NAME=value`.
    pub fn compile(source: &str, defines: &[&str]) -> Library {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lib.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(source);
        let counts = format!("-DCOUNTS=\"{}\"", folder.path().join("counts").display());
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-fno-builtin", "-w", "-pthread"])
            .arg(counts)
            .args(defines.iter().map(|define| format!("-D{define}")))
            .arg("-o")
            .args([&path, &source])
            .status()
            .expect("a C compiler is there: building the workspace took one");
        assert!(built.success(), "cc failed on {}", source.display());
        Library { folder, path }
    }

    pub fn allocator(&self) -> Allocator {
        Allocator::library("under test", self.path.clone())
    }

    /// The counters that the library keeps in a file.
    pub fn counts(&self) -> Vec<u64> {
        let bytes = std::fs::read(self.folder.path().join("counts")).unwrap();
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
    }
}

/// The same random numbers on every machine (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// `events` random events of `threads` threads that free and resize each other's objects and use
/// object numbers again at once.
pub fn tangle(threads: u32, events: u64, seed: u64) -> Prepared {
    let mut random = Random(seed);
    let mut script = Script::new();
    let mut live: Vec<u32> = Vec::new();
    let mut unused: Vec<u32> = Vec::new();
    let mut objects = 0;
    for _ in 0..events {
        let thread = random.below(threads.into()) as u32;
        let magnitude = random.below(15);
        let size = random.below(1 << magnitude);
        match random.below(8) {
            0..4 => {
                let object = unused.pop().unwrap_or_else(|| {
                    objects += 1;
                    objects - 1
                });
                live.push(object);
                script.malloc(thread, object, size);
            }
            choice => {
                if live.is_empty() {
                    continue;
                }
                let at = random.below(live.len() as u64) as usize;
                if choice == 7 {
                    script.realloc(thread, live[at], size);
                } else {
                    let object = live.swap_remove(at);
                    unused.push(object);
                    script.free(thread, object);
                }
            }
        }
    }
    script.finish()
}
