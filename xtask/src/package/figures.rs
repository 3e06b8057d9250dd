//! What packages weigh, and how long what they hold takes to start.
//!
//! Each package is unpacked into an empty folder. Starts are timed in turns, beside
//! those of the same program without what is packaged.

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
            "{} holds no packages; cargo xtask package deb, wheel and crates build them",
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
    file.extension()
        .and_then(|end| end.to_str())
        .filter(|end| ["crate", "deb", "whl"].contains(end))
}

fn unpack(file: &Path, folder: &Path) -> Result<()> {
    match kind(file) {
        Some("crate") => run_tool(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(folder)),
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

/// A program that is started, and the times that it took.
struct Row {
    what: &'static str,
    command: Command,
    times: Vec<Duration>,
}

fn print_starts(unpacked: &Path) -> Result<()> {
    let mut rows = rows(unpacked)?;
    // In turns, so that whatever else the machine does falls on all of them.
    for _ in 0..STARTS {
        for row in &mut rows {
            row.times.push(start(&mut row.command)?);
        }
    }
    println!("\n| what starts | ms: least, median of {STARTS}, most |\n|---|---|");
    for Row { what, times, .. } in &mut rows {
        times.sort();
        let [least, median, most] =
            [0, STARTS / 2, STARTS - 1].map(|at| times[at].as_secs_f64() * 1e3);
        println!("| {what} | {least:.2}, {median:.2}, {most:.2} |");
    }
    Ok(())
}

fn rows(unpacked: &Path) -> Result<Vec<Row>> {
    let all = files(unpacked)?;
    let find = |end: &str| all.iter().find(|file| file.ends_with(end));
    let mut rows = Vec::new();
    let mut add = |what, command| rows.push(Row { what, command, times: Vec::new() });
    add("`true`", Command::new("true"));
    if let Some(library) = find("libfreehold.so.1") {
        let mut preloaded = Command::new("true");
        preloaded.env("LD_PRELOAD", library);
        add("`true`, with libfreehold.so.1 preloaded", preloaded);
    }
    if let Some(command) = find("usr/bin/freehold") {
        let mut version = Command::new(command);
        version.arg("--version");
        add("`freehold --version`", version);
    }
    if let Some(module) = find("freehold/__init__.py") {
        let site = module.ancestors().nth(2).context("a module lies in a folder")?;
        let python = |program: &str| {
            let mut python = Command::new("python3");
            python.args(["-c", program]).env("PYTHONPATH", site);
            python
        };
        add("`python3 -c pass`", python("pass"));
        match python("import freehold").output()?.status.success() {
            true => add("`python3 -c 'import freehold'`", python("import freehold")),
            false => println!("\nThis python3 has no pyarrow, which `import freehold` needs."),
        }
    }
    Ok(rows)
}

fn start(command: &mut Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let status = command.status().with_context(|| format!("{command:?}"))?;
    let took = began.elapsed();
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(took)
}
