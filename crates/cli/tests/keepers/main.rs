//! Who holds pages, as `compare` says it for each allocator and for Freehold's malloc on its simulated machine, beside what the program itself
//! counts from `/proc/self/pagemap` when that allocator serves it.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How far what is said may lie from what is counted.
const OF_COUNTED: f64 = 0.05;
/// The allocators, and how their libraries' names begin; without one: the C library's, and Freehold's.
const ALLOCATORS: [(&str, Option<&str>); 4] = [
    ("glibc", None),
    ("jemalloc", Some("libjemalloc.so.2")),
    ("mimalloc", Some("libmimalloc.so.2")),
    ("freehold", None),
];

/// Bytes alive and bytes of pages, of the sessions and of the cursors.
type Counted = [(String, f64, f64); 2];

fn compile(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keepers/keepers.c");
    let program = folder.join("keepers");
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O1", "-fno-builtin-malloc", "-o"]).arg(&program).arg(source);
    match compiler.status() {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            freehold_testkit::skip("no compiler named cc");
            return None;
        }
    }
    Some(program)
}

fn library(start: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let mut files = folders.iter().flat_map(std::fs::read_dir).flatten().flatten();
    let is_it = |name: &str| name.starts_with(start);
    files.find(|file| file.file_name().to_str().is_some_and(is_it)).map(|file| file.path())
}

/// What the program counts when the allocator serves it; none where that is not installed.
fn counted(program: &Path, name: &str, start: Option<&str>) -> Option<Counted> {
    let mut command = match name {
        "freehold" => Command::new(env!("CARGO_BIN_EXE_freehold")),
        _ => Command::new(program),
    };
    if name == "freehold" {
        command.args(["run", "--"]).arg(program);
    }
    if let Some(start) = start {
        command.env("LD_PRELOAD", library(start)?);
    }
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let [name, live, pages] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
        (name.to_owned(), live.parse().unwrap(), pages.parse().unwrap())
    };
    let lines: Vec<_> = text.lines().map(line).collect();
    Some(lines.try_into().unwrap())
}

/// What is said of a function's pages at the lowest point: bytes alive and bytes of pages.
fn said(results: &Value, allocator: &str, function: &str) -> (f64, f64) {
    let held = results["held"].as_array().unwrap();
    let is_it = |held: &&Value| held["allocator"] == allocator && held["moment"] == "lowest";
    let at = held.iter().find(is_it).unwrap_or_else(|| panic!("{allocator}: {held:?}"));
    let mut sites = at["sites"].as_array().unwrap().iter();
    let keeper = sites.find(|site| site["site"].as_str().unwrap().starts_with(function));
    let bytes = |key: &str| keeper.map_or(0.0, |keeper| keeper[key].as_f64().unwrap());
    (bytes("live"), bytes("pages"))
}

fn pages_are_those_that_the_program_counts() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile(folder.path()) else { return };
    let installed: Vec<_> = ALLOCATORS
        .into_iter()
        .filter_map(|(name, start)| Some((name, counted(&program, name, start)?)))
        .collect();
    let names: Vec<&str> = installed.iter().map(|(name, _)| *name).collect();
    let mut compare = Command::new(env!("CARGO_BIN_EXE_freehold"));
    compare.current_dir(folder.path()).stdin(Stdio::null());
    compare.args(["compare", "--runs", "2", "--results", "results.json", "--on"]);
    let output = compare.arg(names.join(",") + ",malloc").arg("--").arg(&program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = std::fs::read(folder.path().join("results.json")).unwrap();
    let results: Value = serde_json::from_slice(&results).unwrap();
    let freehold = installed.iter().find(|(name, _)| *name == "freehold").unwrap().1.clone();
    for (name, sites) in installed.into_iter().chain([("malloc", freehold)]) {
        let whole: f64 = sites.iter().map(|(_, _, pages)| pages).sum();
        for (function, live, pages) in &sites {
            let said = said(&results, name, function);
            let near = |said: f64, counted: f64, of: f64| (said - counted).abs() <= of * OF_COUNTED;
            assert!(
                near(said.1, *pages, pages.max(whole / 10.0))
                    && near(said.0, *live, live.max(4096.0)),
                "{name}: {function} has {live} on {pages}, said {said:?}"
            );
        }
    }
    let page = String::from_utf8(output.stdout).unwrap();
    let kept = page.split_once("Pages held for few bytes").unwrap_or_else(|| panic!("{page}")).1;
    assert!(kept.contains("open_session"), "{kept}");
    let flat = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("of pages at the lowest point after the peak"), "{page}");
}

freehold_testkit::trials!(pages_are_those_that_the_program_counts);
