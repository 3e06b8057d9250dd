//! Rows of mimalloc-bench (Daan Leijen): built from a clone, one compiler call each. (Its own CMake file wants sources that are
//! downloaded from elsewhere.)

use super::place::{Place, must};
use super::suite::Public;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The commit whose names and parameters the list has.
const COMMIT: &str = "ce5784f";

/// Its folder `bench`.
pub fn folder(place: &Place) -> anyhow::Result<PathBuf> {
    let clone = place.clones.join("mimalloc-bench");
    let found = Command::new("git").arg("-C").arg(&clone).args(["rev-parse", "HEAD"]).output();
    let found = found.is_ok_and(|output| output.stdout.starts_with(COMMIT.as_bytes()));
    anyhow::ensure!(
        found,
        "mimalloc-bench is missing or another version: git clone https://github.com/daanx/mimalloc-bench {0} && \
         git -C {0} checkout {COMMIT} (or choose rows by --only)",
        clone.display()
    );
    Ok(clone.join("bench"))
}

/// The program of a row, with the flags of its release build.
pub fn build(place: &Place, folder: &Path, row: &Public) -> anyhow::Result<PathBuf> {
    let program = place.bin.join(format!("mimalloc-bench-{}", row.program));
    if !program.is_file() {
        let line = format!("{} -O3 -DNDEBUG -w -pthread -o \"$0\"", row.build);
        let mut shell = Command::new("sh");
        must(shell.current_dir(folder).arg("-c").arg(line).arg(&program), &row.name)?;
    }
    Ok(program)
}
