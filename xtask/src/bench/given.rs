//! What the programs of the bench read that has no generator of its own: written by `programs/inputs.py`.

use super::place::{Place, must};
use super::suite;
use std::process::Command;

/// Where it lies, below the folder of this invocation's runs.
pub const FOLDER: &str = "{scratch}/given";

/// Writes it, once for each invocation of the bench.
pub fn make(place: &Place) -> anyhow::Result<()> {
    let folder = place.scratch.join("given");
    if folder.is_dir() {
        return Ok(());
    }
    std::fs::create_dir(&folder)?;
    let script = suite::folder().join("workloads/programs/inputs.py");
    must(Command::new("python3").arg(script).arg(&folder), "inputs of programs")
}
