//! The wheel, by the maturin that `python/pyproject.toml` names, in a virtual environment of its own.

use super::{root, run_tool, target};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn build(out: &Path) -> Result<Vec<PathBuf>> {
    let project = root().join("python");
    let environment = target().join("package/venv");
    let bin = environment.join("bin");
    run_tool(Command::new("python3").args(["-m", "venv"]).arg(&environment))
        .context("a virtual environment is needed (apt install python3-venv)")?;
    let pip = ["install", "--quiet", "--disable-pip-version-check"];
    run_tool(Command::new(bin.join("pip")).args(pip).arg(pinned(&project)?))?;
    run_tool(
        Command::new(bin.join("maturin"))
            .args(["build", "--quiet", "--compatibility", "linux", "--out"])
            .arg(out)
            .env("CARGO_TARGET_DIR", fs::canonicalize(target())?)
            .current_dir(&project),
    )?;
    let wheels = fs::read_dir(out)?.flatten().map(|entry| entry.path());
    Ok(wheels.filter(|path| path.extension().is_some_and(|end| end == "whl")).collect())
}

/// maturin with its version, as the project's own file has it.
fn pinned(project: &Path) -> Result<String> {
    let text = fs::read_to_string(project.join("pyproject.toml"))?;
    let file: toml::Table = text.parse()?;
    let pinned = file["build-system"]["requires"][0].as_str();
    Ok(pinned.context("python/pyproject.toml requires maturin")?.to_owned())
}
