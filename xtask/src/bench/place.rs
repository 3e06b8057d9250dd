//! Where the bench builds and keeps things: `<target>/bench/`, never in the source tree.

use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders of one invocation.
pub struct Place {
    /// Compiled workloads.
    pub bin: PathBuf,
    /// Libraries of the peers.
    pub lib: PathBuf,
    /// What peers are built in.
    pub sources: PathBuf,
    /// Clones of sources that are not packages (rpmalloc, hardened_malloc): the same folder, unless another is named.
    pub clones: PathBuf,
    /// Input that is generated once (the history git reads).
    pub inputs: PathBuf,
    /// What the runs of this invocation write; removed with it, so that two may run at a time.
    pub scratch: PathBuf,
    /// Cargo's target folder itself.
    pub target: PathBuf,
}

/// Finds and makes the folders.
pub fn open() -> anyhow::Result<Place> {
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => std::path::absolute(PathBuf::from(folder))?,
        None => crate::sources::root().join("target"),
    };
    let base = target.join("bench");
    let place = Place {
        bin: base.join("bin"),
        lib: base.join("lib"),
        sources: base.join("sources"),
        clones: base.join("sources"),
        inputs: base.join("inputs"),
        scratch: base.join(format!("scratch-{}", std::process::id())),
        target,
    };
    sweep(&base);
    for folder in [&place.bin, &place.lib, &place.sources, &place.inputs, &place.scratch] {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
    }
    Ok(place)
}

/// Removes what an invocation that was killed left behind.
fn sweep(base: &Path) {
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix("scratch-"));
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

/// Runs a build step; what it printed is shown when it fails.
pub fn must(command: &mut Command, why: &str) -> anyhow::Result<()> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("{why}: {shown} cannot be started"))?;
    anyhow::ensure!(
        output.status.success(),
        "{why}: {shown} failed ({}):\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// The file on the PATH that `command` names, or the way to get it.
pub fn find_program(command: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(command)).find(|file| file.is_file()).with_context(
        || format!("{command} is missing: install the package {package} (no row is left out silently; use --only to choose rows)"),
    )
}
