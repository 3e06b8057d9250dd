//! Programs of `tests/programs` on a guest, under Freehold and the mallocs that it is compared with.

use freehold_guest::{Bytes, Finished, Job, Kernel, Machine, missing_tool};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The mallocs that are measured, and what a guest preloads for each.
pub const MALLOCS: [(&str, &str); 4] = [
    ("freehold", "/libfreehold.so"),
    ("glibc", ""),
    ("jemalloc", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"),
    ("mimalloc", "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0"),
];

/// Four nodes of two processors each; `mib` of memory on every node.
pub fn four_nodes(mib: u64) -> Machine {
    Machine::even(4, 8, Bytes((4 * mib) << 20)).expect("a machine")
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| freehold_testkit::preload_library(folder()))
}

/// A program of `tests/programs`, compiled once: tests run side by side, and one must not take along what another is
/// still writing.
pub fn compile(name: &str) -> PathBuf {
    static COMPILED: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    compiled.entry(name.to_owned()).or_insert_with(|| compile_anew(name)).clone()
}

/// Compiles a program into a file that no other process compiles to.
fn compile_anew(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let program = folder().join(format!("guest-{name}-{}", std::process::id()));
    let output = Command::new("cc")
        .args(["-O1", "-fno-builtin", "-pthread", "-Wall", "-o"])
        .args([&program, &source])
        .arg(format!("-I{}/../capi/include", env!("CARGO_MANIFEST_DIR")))
        .arg("-ldl")
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
        }
        Err(_) => freehold_testkit::skip("there is no cc here"),
    }
    program
}

/// A job for a guest that has a program as `/NAME`, and libfreehold.so as [`MALLOCS`] says.
pub fn job(machine: Machine, name: &str, script: &str) -> Job {
    if let Some(missing) = missing_tool() {
        freehold_testkit::skip(&missing);
    }
    let mut job = Job::new(machine, script);
    job.files.push((compile(name), format!("/{name}")));
    job.files.push((library().to_path_buf(), MALLOCS[0].1.to_owned()));
    job
}

/// Takes the other mallocs along.
pub fn with_peers(mut job: Job) -> Job {
    for (name, library) in &MALLOCS[2..] {
        if !Path::new(library).is_file() {
            freehold_testkit::skip(&format!(
                "{library} is missing: apt-get install the package of {name}"
            ));
        }
        job.files.push((library.into(), (*library).to_owned()));
    }
    job
}

/// Boots, and expects the script to succeed.
#[track_caller]
pub fn run(job: &Job) -> Finished {
    let kernel = Kernel::find(folder()).unwrap_or_else(|why| {
        freehold_testkit::skip(&format!("{why:#}"));
        unreachable!("a trial ends there")
    });
    let done = job.run(&kernel).expect("the guest runs");
    assert_eq!(done.code, 0, "{}\n{}", done.stdout, done.stderr);
    done
}
