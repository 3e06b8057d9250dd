//! Who is measured: functions out of a shared library, called over memory of ours.

use super::cold::{self, Cold};
use super::lines::Touches;
use anyhow::Context;
use freehold_stepper::{Call, Stepper};
use std::collections::HashMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// An allocator's three functions: `create(memory, size, 32)`, `malloc(heap, size)`, `free(heap, block)`.
pub struct Subject {
    /// What the table calls it.
    pub name: String,
    create: Option<unsafe extern "C" fn(*mut u8, usize, usize) -> usize>,
    malloc: Call,
    free: Call,
    library: Option<PathBuf>,
    touches: OnceLock<Option<Touches>>,
}

/// The smallest block that strict mode is given; others ignore it.
const SMALLEST: usize = 32;

unsafe extern "C" fn libc_malloc(_: usize, size: usize) -> usize {
    // SAFETY: any size will do.
    unsafe { libc::malloc(size) as usize }
}

unsafe extern "C" fn libc_free(_: usize, block: usize) -> usize {
    // SAFETY: the player frees what `libc_malloc` gave, once.
    unsafe { libc::free(block as *mut libc::c_void) };
    0
}

impl Subject {
    /// Three functions of a library.
    pub fn of(name: &str, library: &Path, functions: [&str; 3]) -> anyhow::Result<Subject> {
        let path = CString::new(library.to_str().context("a path that is not UTF-8")?)?;
        // SAFETY: loading runs the library's initialisers; the user named it.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        anyhow::ensure!(!handle.is_null(), "{name}: {} cannot be loaded", library.display());
        let find = |function: &str| {
            let symbol = CString::new(function)?;
            // SAFETY: the handle is open.
            let at = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
            anyhow::ensure!(!at.is_null(), "{name}: {} has no {function}", library.display());
            Ok(at)
        };
        let [create, malloc, free] = functions;
        let (create, malloc, free) = (find(create)?, find(malloc)?, find(free)?);
        // SAFETY: functions of C with these parameters, or fewer of them.
        unsafe {
            Ok(Subject {
                library: Some(library.to_owned()),
                touches: OnceLock::new(),
                name: name.to_owned(),
                create: Some(std::mem::transmute::<
                    *mut libc::c_void,
                    unsafe extern "C" fn(*mut u8, usize, usize) -> usize,
                >(create)),
                malloc: std::mem::transmute::<*mut libc::c_void, Call>(malloc),
                free: std::mem::transmute::<*mut libc::c_void, Call>(free),
            })
        }
    }

    /// The C library's malloc, which has no region: it takes what it needs.
    pub fn libc() -> Subject {
        Subject {
            name: "glibc".to_owned(),
            create: None,
            malloc: libc_malloc,
            free: libc_free,
            library: cold::holder(libc::malloc as *const ()),
            touches: OnceLock::new(),
        }
    }

    /// What of its library touches memory; `None` where that cannot be told. Disassembled once.
    fn touches(&self) -> Option<&Touches> {
        let find = || self.library.as_ref().and_then(|library| Touches::of(library).ok().flatten());
        self.touches.get_or_init(find).as_ref()
    }
}

/// The most of each kind that some calls took, not all in one call perhaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Most {
    /// Instructions.
    pub instructions: u64,
    /// Distinct lines of data.
    pub data: u64,
    /// Distinct lines of instructions.
    pub code: u64,
}

impl Most {
    fn max(self, other: Most) -> Most {
        Most {
            instructions: self.instructions.max(other.instructions),
            data: self.data.max(other.data),
            code: self.code.max(other.code),
        }
    }
}

/// The worst of some calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worst {
    /// Of the mallocs.
    pub malloc: Most,
    /// Of the frees.
    pub free: Most,
    /// How many calls were counted.
    pub calls: u64,
}

impl Worst {
    /// The worse of both.
    pub fn max(self, other: Worst) -> Worst {
        Worst {
            malloc: self.malloc.max(other.malloc),
            free: self.free.max(other.free),
            calls: self.calls + other.calls,
        }
    }
}

/// What counted calls are held against.
pub enum Gauge<'a> {
    /// Instructions alone.
    Steps(&'a mut Stepper),
    /// Instructions, and the lines of cache that they touch.
    Lines(&'a mut Stepper),
    /// Cycles, everything having been flushed.
    Cold(&'a mut Cold),
}

/// One heap of a subject, played on.
pub struct Player<'a> {
    subject: &'a Subject,
    gauge: Gauge<'a>,
    heap: usize,
    /// How many bytes the heap was given.
    pub len: usize,
    /// Blocks in use, and the byte each is filled with.
    held: HashMap<usize, u8>,
    /// The worst so far.
    pub worst: Worst,
    /// Calls made, and one in how many is counted.
    made: u64,
    stride: u64,
    _memory: Memory,
}

/// Page-aligned memory, zero at first.
struct Memory {
    at: *mut u8,
    layout: std::alloc::Layout,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated in `Player::new` with this layout.
        unsafe { std::alloc::dealloc(self.at, self.layout) };
    }
}

/// At most so many bytes of a block are written and compared.
const MARKED: usize = 16;

impl<'a> Player<'a> {
    /// A new heap of `len` bytes.
    pub fn new(
        subject: &'a Subject,
        mut gauge: Gauge<'a>,
        len: usize,
        stride: usize,
    ) -> anyhow::Result<Self> {
        let layout = std::alloc::Layout::from_size_align(len, 1 << 21)?;
        // SAFETY: the layout is not empty.
        let at = unsafe { std::alloc::alloc_zeroed(layout) };
        anyhow::ensure!(!at.is_null(), "no memory for a heap of {len} bytes");
        let memory = Memory { at, layout };
        // SAFETY: the memory is the heap's alone until the player ends.
        let heap = subject.create.map_or(1, |create| unsafe { create(at, len, SMALLEST) });
        anyhow::ensure!(heap != 0, "{} makes no heap of {len} bytes", subject.name);
        if let Gauge::Cold(cold) = &mut gauge {
            let library = subject.library.as_deref().map(cold::mapped).unwrap_or_default();
            // Without a region of its own it lies where the program break has been moved.
            let own = if subject.create.is_some() {
                vec![(at as usize, len)]
            } else {
                cold::mapped_as("[heap]")
            };
            cold.flush_always(library.into_iter().chain(own).collect());
        }
        Ok(Player {
            subject,
            gauge,
            heap,
            len,
            held: HashMap::new(),
            worst: Worst::default(),
            made: 0,
            stride: stride as u64,
            _memory: memory,
        })
    }

    /// Makes a call: counted if it is its turn, which looks random and is the same on every run.
    fn call(&mut self, function: Call, argument: usize) -> (usize, Most) {
        self.made += 1;
        if (self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(self.stride) {
            self.worst.calls += 1;
            return self.counted(function, argument);
        }
        // SAFETY: the same call as the counted one.
        (unsafe { function(self.heap, argument) }, Most::default())
    }

    fn counted(&mut self, function: Call, argument: usize) -> (usize, Most) {
        let heap = self.heap;
        match &mut self.gauge {
            Gauge::Steps(stepper) => {
                let (result, instructions) = stepper.count(function, heap, argument);
                (result, Most { instructions, ..Most::default() })
            }
            Gauge::Lines(stepper) => {
                let (result, instructions, moments) = stepper.watch(function, heap, argument);
                let lines = self.subject.touches().map(|touches| touches.count(moments));
                let (data, code) = lines.unwrap_or_default();
                (result, Most { instructions, data, code })
            }
            Gauge::Cold(cold) => {
                let is_malloc = function as usize == self.subject.malloc as usize;
                (cold.sample(is_malloc, function, heap, argument), Most::default())
            }
        }
    }

    /// Asks for a block.
    pub fn malloc(&mut self, size: usize) -> Option<usize> {
        let (block, most) = self.call(self.subject.malloc, size);
        self.worst.malloc = self.worst.malloc.max(most);
        if block == 0 {
            return None;
        }
        let mark = self.made as u8;
        // SAFETY: the block is ours and has so many bytes.
        unsafe { (block as *mut u8).write_bytes(mark, size.min(MARKED)) };
        let twice = self.held.insert(block, mark);
        assert!(twice.is_none(), "{}: a block was given out twice", self.subject.name);
        Some(block)
    }

    /// Gives a block of `size` bytes back.
    pub fn free(&mut self, block: usize, size: usize) {
        let mark = self.held.remove(&block).expect("the programs free what they hold");
        // SAFETY: the block is ours and has so many bytes.
        let bytes = unsafe { std::slice::from_raw_parts(block as *const u8, size.min(MARKED)) };
        assert!(bytes.iter().all(|&byte| byte == mark), "{}: overwritten", self.subject.name);
        let (_, most) = self.call(self.subject.free, block);
        self.worst.free = self.worst.free.max(most);
    }
}
