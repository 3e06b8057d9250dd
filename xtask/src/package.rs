//! `cargo xtask package …`: what is shipped, each kind by one command, into `dist/`.
//!
//! The wheel and the Debian package `freehold` hold the same command: of the profile `ship`, for glibc since 2.28.
//! `xtask/tests/packages.rs` installs each into an empty root and uses it from there.

mod crates;
mod deb;
mod figures;
mod licences;
mod wheel;

use anyhow::{Context, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Build packages.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask package wheel        dist/freehold-…-manylinux_2_28_x86_64.whl: pip install it
  cargo xtask package deb          dist/*.deb: freehold, libfreehold1, libfreehold-dev
  cargo xtask package crates       dist/*.crate: what others link, as a registry would get it
  cargo xtask package figures      sizes and start-up times of what lies in dist/")]
pub struct Options {
    /// What to build.
    #[command(subcommand)]
    what: What,
    /// Where packages go.
    #[arg(long, value_name = "FOLDER", default_value = "dist", global = true)]
    out: PathBuf,
}

#[derive(clap::Subcommand)]
enum What {
    /// The Python module, with the command inside (needs python3-venv; maturin and zig are fetched as python/pyproject.toml pins them).
    Wheel,
    /// Debian packages of command, library and what links against it (needs what the wheel needs, dpkg-deb, git, binutils).
    Deb,
    /// The crates that may be published.
    Crates,
    /// The notices of the code in the command that is not ours, which all that carries the command must carry: THIRD-PARTY, RUST-LIBRARY.html.
    Licences,
    /// What the packages that are built weigh, and how long what they hold takes to start: a table.
    Figures,
}

/// Builds.
///
/// # Errors
/// When a tool is missing or fails.
pub fn run(options: &Options) -> Result<ExitCode> {
    fs::create_dir_all(&options.out)
        .with_context(|| format!("the folder {} cannot be made", options.out.display()))?;
    let out = options.out.canonicalize()?;
    let made = match options.what {
        What::Wheel => wheel::build(&out)?,
        What::Deb => deb::build(&out)?,
        What::Crates => crates::build(&out)?,
        What::Licences => licences::write(&out)?,
        What::Figures => return figures::print(&out),
    };
    for path in made {
        let bytes = path.metadata()?.len();
        println!("{} ({:.1} MB)", path.display(), bytes as f64 / 1e6);
    }
    Ok(ExitCode::SUCCESS)
}

/// The repository's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where cargo builds to.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::copy(from, to).with_context(|| format!("{} cannot be copied", from.display()))?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(mode))?)
}

fn put(to: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file has a folder")?)?;
    fs::write(to, text)?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o644))?)
}

/// Runs a tool to its end.
fn run_tool(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("{name} cannot be started"))?;
    if !status.success() {
        bail!("{name} failed ({status})");
    }
    Ok(())
}
