//! What the heaps of the program held at its end: reports that the malloc writes, read and told in a line.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// As much of a report (schema 1) as is told.
#[derive(Deserialize)]
struct Report {
    pid: u32,
    heaps: Vec<Heap>,
    counts: Option<Counts>,
}

#[derive(Deserialize)]
struct Heap {
    in_use: u64,
    blocks: u64,
    committed: u64,
    caches: u64,
    caches_idle: u64,
}

#[derive(Deserialize)]
struct Counts {
    bytes: u64,
    peak: u64,
    resized: u64,
    classes: Vec<Class>,
}

#[derive(Deserialize)]
struct Class {
    allocated: u64,
    freed: u64,
}

/// The variable's value that makes every process write its report into `folder`.
pub fn variable(folder: &Path) -> std::ffi::OsString {
    // The minus: a process that may not write there (another user by now) says nothing.
    let mut value = std::ffi::OsString::from("-");
    value.push(folder.join("%p.json"));
    value
}

/// Lines about process `pid`, and how many others there were.
pub fn tell(folder: &Path, pid: u32) -> Result<Vec<String>> {
    let mut reports = Vec::new();
    for entry in fs::read_dir(folder).context("the reports of the heap")? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "json") {
            let bytes = fs::read(&path)?;
            reports.push(serde_json::from_slice::<Report>(&bytes).context("a report of the heap")?);
        }
    }
    let Some(main) = reports.iter().find(|report| report.pid == pid) else {
        return Ok(vec![match reports.len() {
            0 => "no figures of the heap: the program was killed, called _exit, never called malloc, or does not load the library".to_owned(),
            others => format!("no figures of the program's heap; {others} of its children left some"),
        }]);
    };
    let others = match reports.len() - 1 {
        0 => String::new(),
        1 => "; 1 child process".to_owned(),
        others => format!("; {others} child processes"),
    };
    let sum = |of: fn(&Heap) -> u64| main.heaps.iter().map(of).sum::<u64>();
    let bytes = freehold_lab::human::bytes;
    let mut lines = vec![format!(
        "heap at the end: {} in {} blocks; {} committed, {} threads' caches{others}",
        bytes(sum(|heap| heap.in_use)),
        sum(|heap| heap.blocks),
        bytes(sum(|heap| heap.committed)),
        sum(|heap| heap.caches + heap.caches_idle),
    )];
    if let Some(counts) = &main.counts {
        let allocated: u64 = counts.classes.iter().map(|class| class.allocated).sum();
        let freed: u64 = counts.classes.iter().map(|class| class.freed).sum();
        lines.push(format!(
            "{allocated} blocks handed out ({}), {} never taken back, {} resized; peak {}",
            bytes(counts.bytes),
            allocated.saturating_sub(freed),
            counts.resized,
            bytes(counts.peak),
        ));
    }
    Ok(lines)
}
