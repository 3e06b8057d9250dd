//! Compiles the C and C++ workloads, plainly (`-O2`), linked with nothing but libc (and libstdc++ for the C++ one).

use super::place::{Place, must};
use super::suite;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Programs that are not rows of the list but parts of the bench.
const PARTS: &[&str] = &["launch.c", "blowup.c", "latency.c", "returns.c", "step.c", "trivial.c"];

/// Compiles the parts and `sources`; what is newer than its source and headers is kept.
pub fn all<'a>(place: &Place, sources: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    for source in PARTS.iter().copied().chain(sources) {
        program(place, source)?;
    }
    let (source, empty) = (path_of("empty.c"), place.lib.join(library("empty")));
    if is_fresh(&source, &empty) {
        return Ok(());
    }
    let mut command = Command::new("cc");
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(empty).arg(source);
    must(&mut command, "the empty library")
}

/// The compiled program of a source file.
pub fn binary(place: &Place, source: &str) -> PathBuf {
    place.bin.join(Path::new(source).file_stem().unwrap_or_default())
}

/// The file name of a preload library made here.
pub fn library(name: &str) -> String {
    format!("lib{name}.so")
}

fn path_of(source: &str) -> PathBuf {
    suite::folder().join("workloads").join(source)
}

fn program(place: &Place, source: &str) -> anyhow::Result<()> {
    let (from, to) = (path_of(source), binary(place, source));
    if is_fresh(&from, &to) {
        return Ok(());
    }
    let mut command = if source.ends_with(".cpp") {
        let mut command = Command::new("c++");
        command.arg("-std=c++17");
        command
    } else {
        let mut command = Command::new("cc");
        command.arg("-std=gnu11");
        command
    };
    command.args(["-O2", "-g", "-Wall", "-Wextra", "-pthread"]).arg(&from).arg("-o").arg(&to);
    must(&mut command, "a workload does not compile (a C and a C++ compiler are needed)")
}

fn is_fresh(source: &Path, binary: &Path) -> bool {
    let Some(built) = modified(binary) else { return false };
    let headers = ["bench.h", "sizes.h"].map(path_of);
    headers
        .iter()
        .map(PathBuf::as_path)
        .chain([source])
        .all(|file| modified(file).is_some_and(|at| at < built))
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).ok()?.modified().ok()
}
