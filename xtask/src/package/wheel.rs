//! The wheel, by the maturin and the zig that `python/pyproject.toml` names, in a virtual environment of its own.
//!
//! zig links against an older glibc than this machine's, so that what is built here runs on distributions since 2018.

use super::{licences, root, run_tool, target};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest glibc, as a wheel's name says it (PEP 600). `xtask/tests/packages.rs` looks at every file.
const OLDEST: &str = "manylinux_2_28";
/// The machine that the command is for.
const TRIPLE: &str = "x86_64-unknown-linux-gnu";

pub fn build(out: &Path) -> Result<Vec<PathBuf>> {
    let project = root().join("python");
    let bin = environment(&project)?;
    // The wheel's `license-files`, beside our own.
    licences::write(&project)?;
    let path = std::env::var("PATH").unwrap_or_default();
    run_tool(
        Command::new(bin.join("maturin"))
            .args(["build", "--quiet", "--target", TRIPLE, "--zig", "--compatibility", OLDEST])
            .arg("--out")
            .arg(out)
            // Where maturin finds zig.
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("CARGO_TARGET_DIR", fs::canonicalize(target())?)
            .current_dir(&project),
    )?;
    let wheels = fs::read_dir(out)?.flatten().map(|entry| entry.path());
    Ok(wheels.filter(|path| path.extension().is_some_and(|end| end == "whl")).collect())
}

/// Builds the wheel for the command in it; the command's path.
pub fn command() -> Result<PathBuf> {
    let wheels = target().join("package/wheel");
    fs::create_dir_all(&wheels)?;
    build(&wheels)?;
    Ok(target().join(TRIPLE).join("ship/freehold"))
}

/// A virtual environment with the tools; its folder of programs.
fn environment(project: &Path) -> Result<PathBuf> {
    let environment = target().join("package/venv");
    let bin = environment.join("bin");
    run_tool(Command::new("python3").args(["-m", "venv"]).arg(&environment))
        .context("a virtual environment is needed (apt install python3-venv)")?;
    let pip = ["install", "--quiet", "--disable-pip-version-check"];
    run_tool(Command::new(bin.join("pip")).args(pip).args(pinned(project)?))?;
    Ok(fs::canonicalize(bin)?)
}

/// The tools with their versions, as the project's own file has them.
fn pinned(project: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(project.join("pyproject.toml"))?;
    let file: toml::Table = text.parse()?;
    let lists = [&file["build-system"]["requires"], &file["dependency-groups"]["package"]];
    let tools = lists.iter().flat_map(|list| list.as_array().into_iter().flatten());
    tools.map(|tool| Ok(tool.as_str().context("a tool is a text")?.to_owned())).collect()
}
