//! `cargo xtask guest`: one command on a machine with several memories.

use crate::bench::place;
use anyhow::Context;
use clap::Args;
use freehold_guest::{Bytes, Dimm, Job, Kernel, Machine};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Which machine, and what to run on it.
#[derive(Args)]
#[command(after_help = "Examples:
  cargo xtask guest -- sh -c 'cat /sys/devices/system/node/node*/distance'
  cargo xtask guest --nodes 2 --distances '10,21;21,10' --memory-only 512M -- numactl --hardware
  cargo xtask guest --dimm 512M@1 -- grep . /sys/devices/system/memory/memory35/state
  cargo xtask guest --file libfreehold.so -- env LD_PRELOAD=/libfreehold.so ./program
  cargo xtask guest --out results -- sh -c 'dmesg >/out/dmesg'

The command's first word is looked up here and taken along with its libraries; what is not found here is looked up \
in the guest, which has busybox's tools. The exit status is the command's.")]
pub struct Options {
    /// Nodes with processors, equal shares of both.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    nodes: u32,
    /// Processors in all.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Memory of these nodes together.
    #[arg(long, value_name = "SIZE", default_value = "4G")]
    memory: Bytes,
    /// A further node without processors; may be given several times.
    #[arg(long, value_name = "SIZE")]
    memory_only: Vec<Bytes>,
    /// Memory that is plugged, and offline at first; may be given several times.
    #[arg(long, value_name = "SIZE@NODE")]
    dimm: Vec<Dimm>,
    /// How far each node is from each, 10 being local: rows parted by ; of numbers parted by commas. Else a ring of
    /// steps of 10, and 40 to nodes without processors.
    #[arg(long, value_name = "ROWS", value_parser = distances)]
    distances: Option<std::sync::Arc<Vec<Vec<u8>>>>,
    /// A file to take along, with the libraries it needs; found at / in the guest, or at PLACE.
    #[arg(long, value_name = "FILE[:PLACE]")]
    file: Vec<String>,
    /// Where to put what the command leaves in /out.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Words for the kernel's command line.
    #[arg(long, value_name = "WORDS", default_value = "", hide_default_value = true)]
    append: String,
    /// Use /dev/kvm. (In a virtual machine it may be offered and broken.)
    #[arg(long)]
    kvm: bool,
    /// End the guest after so many seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    timeout: u64,
    /// The command.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Runs the chore; the exit code is the command's.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let kernel = Kernel::find(&place::open()?.target.join("guest"))?;
    let done = job(options)?.run(&kernel)?;
    print!("{}", done.stdout);
    eprint!("{}", done.stderr);
    if let Some(folder) = &options.out {
        std::fs::create_dir_all(folder)?;
        let all = done.files.path().join(".");
        let copied = std::process::Command::new("cp").arg("-r").arg(all).arg(folder).status()?;
        anyhow::ensure!(copied.success(), "{} cannot be written", folder.display());
    }
    Ok(ExitCode::from(u8::try_from(done.code).unwrap_or(u8::MAX)))
}

fn job(options: &Options) -> anyhow::Result<Job> {
    let mut machine = Machine::even(options.nodes as usize, options.cpus, options.memory)?;
    machine = options.memory_only.iter().copied().fold(machine, Machine::with_memory_only);
    machine = options.dimm.iter().copied().fold(machine, Machine::with_dimm);
    if let Some(rows) = &options.distances {
        machine.distances = rows.to_vec();
    }
    let mut words = options.command.clone();
    let mut files =
        options.file.iter().map(|text| file(text)).collect::<anyhow::Result<Vec<_>>>()?;
    if let Some(program) = words.first().and_then(|word| find(word)) {
        let name = program.file_name().context("a program has a name")?.to_string_lossy();
        words[0] = format!("/usr/local/bin/{name}");
        files.push((program, words[0].clone()));
    }
    let mut job = Job::new(machine, &words.iter().map(|word| quote(word)).collect::<String>());
    job.files = files;
    job.kernel_words = options.append.split_whitespace().map(str::to_owned).collect();
    job.kvm = options.kvm;
    job.patience = Duration::from_secs(options.timeout);
    Ok(job)
}

/// A program of this machine; those that the guest has itself are left here.
fn find(word: &str) -> Option<PathBuf> {
    if word.contains('/') {
        return Path::new(word).is_file().then(|| PathBuf::from(word));
    }
    let is_shell = ["sh", "env", "cat", "grep", "busybox"].contains(&word);
    let path = std::env::var_os("PATH").filter(|_| !is_shell)?;
    std::env::split_paths(&path).map(|folder| folder.join(word)).find(|file| file.is_file())
}

/// `FILE` or `FILE:PLACE`.
fn file(text: &str) -> anyhow::Result<(PathBuf, String)> {
    let (here, there) = match text.split_once(':') {
        Some((here, there)) => (PathBuf::from(here), there.to_owned()),
        None => {
            let here = PathBuf::from(text);
            let name = here.file_name().with_context(|| format!("{text} is no file"))?;
            let there = format!("/{}", name.to_string_lossy());
            (here, there)
        }
    };
    anyhow::ensure!(here.is_file(), "there is no file {}", here.display());
    Ok((here, there))
}

fn distances(text: &str) -> Result<std::sync::Arc<Vec<Vec<u8>>>, String> {
    let number = |word: &str| word.trim().parse().map_err(|_| format!("{word} is not 10 to 254"));
    let row = |row: &str| row.split(',').map(number).collect();
    text.split(';').map(row).collect::<Result<Vec<Vec<u8>>, String>>().map(Into::into)
}

/// A word for the shell.
fn quote(word: &str) -> String {
    format!("'{}' ", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_arrive_as_they_were_given() {
        assert_eq!(super::quote("it's"), r"'it'\''s' ");
        assert_eq!(*super::distances("10,21; 21,10").unwrap(), [[10, 21], [21, 10]]);
        assert!(super::distances("10,x").is_err());
    }
}
