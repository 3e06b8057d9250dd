//! What packages weigh, and how long what they hold takes to start.
//!
//! Each package is unpacked into an empty folder. A time is the median of many starts, beside that of the same program without it.

use super::run_tool;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const STARTS: usize = 51;

/// Prints the table of the packages in a folder.
pub fn print(built: &Path) -> Result<ExitCode> {
    let unpacked = tempfile::tempdir()?;
    let mut files: Vec<PathBuf> = fs::read_dir(built)?.flatten().map(|file| file.path()).collect();
    files.retain(|file| kind(file).is_some());
    files.sort();
    if files.is_empty() {
        bail!(
            "{} holds no packages; cargo xtask package deb, and wheel, build them",
            built.display()
        );
    }
    println!("| package | bytes | installed, bytes |\n|---|---|---|");
    for file in &files {
        let folder = unpacked.path().join(file.file_stem().context("a file has a name")?);
        fs::create_dir(&folder)?;
        unpack(file, &folder)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        println!("| {name} | {} | {} |", file.metadata()?.len(), weight(&folder)?);
    }
    print_starts(unpacked.path())?;
    Ok(ExitCode::SUCCESS)
}

fn kind(file: &Path) -> Option<&str> {
    file.extension().and_then(|end| end.to_str()).filter(|end| ["deb", "whl"].contains(end))
}

fn unpack(file: &Path, folder: &Path) -> Result<()> {
    match kind(file) {
        Some("deb") => run_tool(Command::new("dpkg-deb").arg("-x").args([file, folder])),
        _ => run_tool(Command::new("python3").args(["-m", "zipfile", "-e"]).args([file, folder])),
    }
}

/// Bytes of all files in a folder.
fn weight(folder: &Path) -> Result<u64> {
    let sizes = files(folder)?.into_iter().map(|file| Ok(file.symlink_metadata()?.len()));
    sizes.sum()
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => all.extend(files(&entry.path())?),
            false => all.push(entry.path()),
        }
    }
    Ok(all)
}

fn print_starts(unpacked: &Path) -> Result<()> {
    let all = files(unpacked)?;
    let find = |end: &str| all.iter().find(|file| file.ends_with(end));
    println!("\n| what starts | ms, the median of {STARTS} |\n|---|---|");
    let row = |what: &str, command: &mut Command| -> Result<()> {
        println!("| {what} | {:.2} |", start(command)?.as_secs_f64() * 1e3);
        Ok(())
    };
    row("`true`", &mut Command::new("true"))?;
    if let Some(library) = find("libfreehold.so.1") {
        row(
            "`true`, with libfreehold.so.1 preloaded",
            Command::new("true").env("LD_PRELOAD", library),
        )?;
    }
    if let Some(command) = find("usr/bin/freehold") {
        row("`freehold --version`", Command::new(command).arg("--version"))?;
    }
    if let Some(module) = find("freehold/__init__.py") {
        row("`python3 -c pass`", Command::new("python3").args(["-c", "pass"]))?;
        let site = module.ancestors().nth(2).context("a module lies in a folder")?;
        let mut import = Command::new("python3");
        import.args(["-c", "import freehold"]).env("PYTHONPATH", site);
        match import.output()?.status.success() {
            true => row("`python3 -c 'import freehold'`", &mut import)?,
            false => println!("| `import freehold` | this python3 has no pyarrow |"),
        }
    }
    Ok(())
}

fn start(command: &mut Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut times = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        let began = Instant::now();
        let status = command.status().with_context(|| format!("{command:?}"))?;
        times.push(began.elapsed());
        if !status.success() {
            bail!("{command:?}: {status}");
        }
    }
    times.sort();
    Ok(times[STARTS / 2])
}
