//! libfreehold.so as it ships, for tests of other crates than its own.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the library in a target folder of its own below `folder`, and says where it is.
///
/// # Panics
/// When it does not build.
pub fn preload_library(folder: &Path) -> PathBuf {
    let target = folder.join("preload");
    let built = cargo()
        .args(["rustc", "--quiet", "--package", "freehold-capi", "--lib"])
        .args(["--profile", "preload", "--features", "preload", "--crate-type", "cdylib"])
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .expect("cargo runs: it runs this test");
    assert!(built.success(), "the library does not build");
    target.join("preload/libfreehold_capi.so")
}

/// The cargo that runs the test, in this workspace.
pub(crate) fn cargo() -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}
