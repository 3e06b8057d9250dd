//! What `compare` says is saved is saved when the advice is followed: programs that a change helps (reserve, a region of its own, another
//! allocator), each beside itself with the change made, and programs that nothing helps.

use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// How far what is said may lie from what happens: of the saving, and of the peak.
const OF_SAVING: f64 = 0.15;
const OF_PEAK: f64 = 0.02;

/// A program of `programs/`, compiled as it is and with the advice followed.
struct Program {
    folder: TempDir,
    source: String,
    name: &'static str,
}

impl Program {
    /// None (said aloud) without a compiler.
    fn compile(name: &'static str) -> Option<Program> {
        let folder = tempfile::tempdir().unwrap();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advice/programs").join(name);
        for (output, more) in [("program", None), ("followed", Some("-DFOLLOWED"))] {
            let mut command = Command::new("cc");
            command
                .args(["-g", "-O1", "-fno-builtin-malloc", "-o"])
                .arg(folder.path().join(output));
            let Ok(status) = command.args(more).arg(&file).status() else {
                freehold_testkit::skip("no compiler named cc");
                return None;
            };
            assert!(status.success());
        }
        let source = std::fs::read_to_string(file).unwrap();
        Some(Program { folder, source, name })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `file:line` of the line that holds `mark`.
    fn line(&self, mark: &str) -> String {
        let at = self.source.lines().position(|line| line.contains(mark)).unwrap();
        format!("{}:{}", self.name, at + 1)
    }

    /// What to do, as one line.
    fn advice(&self, on: &str) -> String {
        let mut compare = Command::new(env!("CARGO_BIN_EXE_freehold"));
        compare.current_dir(self.folder.path()).stdin(Stdio::null());
        compare.args(["compare", "--runs", "3", "--on", on, "--"]).arg(self.path("program"));
        let output = compare.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let page = String::from_utf8(output.stdout).unwrap();
        let (_, advice) = page.split_once("What to do").unwrap_or_else(|| panic!("{page}"));
        let lines = advice.lines().take_while(|line| !line.is_empty()).map(str::trim);
        lines.collect::<Vec<_>>().join(" ")
    }

    /// Most bytes in memory when the file runs alone, with a library preloaded or none.
    fn peak(&self, file: &str, preload: Option<&Path>) -> f64 {
        let mut command = Command::new(self.path(file));
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        #[expect(clippy::zombie_processes, reason = "it is waited for by its number")]
        let child = command.spawn().unwrap();
        let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: the kernel writes both.
        let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, usage.as_mut_ptr()) };
        assert_eq!((waited, status), (child.id() as i32, 0));
        // SAFETY: all zero is a valid structure, and the kernel has written it.
        unsafe { usage.assume_init().ru_maxrss as f64 * 1024.0 }
    }
}

/// The bytes from the least to the most that stand before "of memory" in `advice`, behind `after`.
fn said(advice: &str, after: &str) -> (f64, f64) {
    let (_, rest) = advice.split_once(after).unwrap_or_else(|| panic!("{after:?} in {advice}"));
    let (range, _) = rest.split_once(" of memory").unwrap_or_else(|| panic!("{advice}"));
    let bytes = |text: &str| {
        let (number, unit) = text.trim().split_once(' ').unwrap();
        let unit =
            [("KiB", 10), ("MiB", 20), ("GiB", 30)].iter().find(|known| known.0 == unit).unwrap();
        number.parse::<f64>().unwrap() * f64::from(1u32 << unit.1)
    };
    let (least, most) = range.split_once(" to ").unwrap_or((range, range));
    (bytes(least), bytes(most))
}

/// What is said holds what happens, but for the tolerance; and it is no wider than that on both sides.
fn assert_holds((least, most): (f64, f64), before: f64, after: f64) {
    let saved = before - after;
    let tolerance = (saved * OF_SAVING).max(before * OF_PEAK);
    assert!(most - least <= 2.0 * tolerance, "said {least} to {most}, which may be anything");
    assert!(
        least - tolerance <= saved && saved <= most + tolerance,
        "said {least} to {most}, saved {saved} of {before}"
    );
}

fn room_from_the_beginning() {
    let Some(program) = Program::compile("reserve.c") else { return };
    let advice = program.advice("glibc");
    let line = program.line("double *longer = malloc");
    assert!(
        advice.starts_with("Reserve room, or double it, in add") && advice.contains(&line),
        "{advice}"
    );
    let said = said(&advice, "A replay on glibc that did so saves ");
    assert_holds(said, program.peak("program", None), program.peak("followed", None));
}

fn a_region_of_its_own() {
    let Some(program) = Program::compile("apart.c") else { return };
    let advice = program.advice("glibc");
    let line = program.line("return malloc(sizeof(struct mark))");
    let expected = "Allocate apart, in a region of its own, what new_mark";
    assert!(advice.starts_with(expected) && advice.contains(&line), "{advice}");
    let said = said(&advice, "A replay on glibc that did so saves ");
    assert_holds(said, program.peak("program", None), program.peak("followed", None));
}

/// A library of the C library's own folder.
fn library(start: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let mut files = folders.iter().flat_map(std::fs::read_dir).flatten().flatten();
    let is_it = |name: &str| name.starts_with(start);
    let found = files.find(|file| file.file_name().to_str().is_some_and(is_it));
    if found.is_none() {
        freehold_testkit::skip(&format!("there is no {start}"));
    }
    found.map(|file| file.path())
}

fn another_allocator() {
    let Some(mimalloc) = library("libmimalloc.so.2") else { return };
    let Some(program) = Program::compile("apart.c") else { return };
    let advice = program.advice("glibc,mimalloc");
    let said = said(&advice, "Use mimalloc instead of glibc: it saves ");
    let followed = program.peak("program", Some(&mimalloc));
    assert_holds(said, program.peak("program", None), followed);
}

/// Blocks of a cache line, aligned to it: glibc needs three times their bytes.
fn another_allocator_for_aligned_blocks() {
    let Some(jemalloc) = library("libjemalloc.so.2") else { return };
    let Some(program) = Program::compile("aligned.c") else { return };
    let advice = program.advice("glibc,jemalloc");
    let said = said(&advice, "Use jemalloc instead of glibc: it saves ");
    let followed = program.peak("program", Some(&jemalloc));
    assert_holds(said, program.peak("program", None), followed);
}

/// Told to stay with what it has; and another allocator does not make it smaller by what counts as a saving.
fn assert_kept(name: &'static str) {
    let Some(jemalloc) = library("libjemalloc.so.2") else { return };
    let Some(program) = Program::compile(name) else { return };
    let advice = program.advice("glibc,jemalloc");
    assert!(advice.starts_with("Keep glibc"), "{advice}");
    let (before, after) = (program.peak("program", None), program.peak("program", Some(&jemalloc)));
    assert!(before - after <= before * (0.05 + OF_PEAK), "{before} -> {after}");
}

/// Its one site keeps pages of which it uses little.
fn a_site_that_makes_everything_is_not_to_be_apart() {
    let Some(program) = Program::compile("only.c") else { return };
    let advice = program.advice("glibc");
    assert!(!advice.contains("Allocate apart"), "{advice}");
}

fn of_a_tree_nothing_is_to_be_saved() {
    assert_kept("tree.c");
}

fn of_matrices_nothing_is_to_be_saved() {
    assert_kept("matrix.c");
}

fn of_tables_that_are_sized_once_nothing_is_to_be_saved() {
    assert_kept("tables.c");
}

freehold_testkit::trials!(
    room_from_the_beginning,
    a_region_of_its_own,
    another_allocator,
    another_allocator_for_aligned_blocks,
    a_site_that_makes_everything_is_not_to_be_apart,
    of_a_tree_nothing_is_to_be_saved,
    of_matrices_nothing_is_to_be_saved,
    of_tables_that_are_sized_once_nothing_is_to_be_saved,
);
