//! The crates that others link, by `cargo package`, as a registry would get them.
//!
//! Not compiled here: `xtask/tests/crates.rs` unpacks them and builds a stranger's program of them.

use super::{copy, root, run_tool, target};
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Those without `publish = false`, in the order of their publication.
const CRATES: [&str; 5] =
    ["freehold-blocks", "freehold-core", "freehold-os", "freehold-trace", "freehold"];

pub fn build(out: &Path) -> Result<Vec<PathBuf>> {
    let desk = target().join("package/crates");
    run_tool(
        Command::new(env!("CARGO"))
            // A change that is not committed yet is packaged, as by the other kinds.
            .args(["package", "--quiet", "--no-verify", "--allow-dirty", "--target-dir"])
            .arg(std::path::absolute(&desk)?)
            .args(CRATES.iter().flat_map(|name| ["--package", name]))
            .current_dir(root()),
    )?;
    let take = |name: &&str| {
        let file = format!("{name}-{}.crate", env!("CARGO_PKG_VERSION"));
        copy(&desk.join("package").join(&file), &out.join(&file), 0o644)?;
        Ok(out.join(file))
    };
    CRATES.iter().map(take).collect()
}
