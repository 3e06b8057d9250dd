//! One run of a case under one malloc, and the verdict on it.

use crate::bench::allocators::Allocator;
use serde::Serialize;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// A case that does not end in this time hangs.
const LIMIT: Duration = Duration::from_secs(15);

/// What became of a run, from the best to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The malloc ended the program, by abort or by an illegal instruction.
    Detected,
    /// The system did: the malloc or the program touched memory that is not there.
    Fault,
    /// Nothing bad was seen.
    Silent,
    /// The malloc never came back.
    Hang,
    /// Memory in use, of the attacker's choice, or not aligned was handed out; or old contents were there.
    Exploitable,
}

/// A verdict and what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    pub verdict: Verdict,
    pub said: String,
}

/// Runs `program CASE SIZE VARIANT`; `None` if there is no such variant.
pub fn run(
    program: &Path,
    allocator: &Allocator,
    case: &str,
    size: usize,
    variant: usize,
) -> anyhow::Result<Option<Trial>> {
    let mut command = Command::new(program);
    command.args([case, &size.to_string(), &variant.to_string()]);
    command.env_remove("LD_PRELOAD").envs(allocator.env.iter().cloned());
    if let Some(library) = &allocator.library {
        command.env("LD_PRELOAD", library);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn()?;
    match wait(child)? {
        None => Ok(Some(Trial { verdict: Verdict::Hang, said: "does not end".to_owned() })),
        Some(output) => judge(&output),
    }
}

/// What it printed is a line or two: the pipes never fill.
fn wait(mut child: Child) -> anyhow::Result<Option<Output>> {
    let until = Instant::now() + LIMIT;
    while child.try_wait()?.is_none() {
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(Some(child.wait_with_output()?))
}

fn judge(output: &Output) -> anyhow::Result<Option<Trial>> {
    let printed = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    let complaint = complaint.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if !output.status.success() {
        let trial = ended(output.status, complaint);
        return trial
            .map(Some)
            .ok_or_else(|| anyhow::anyhow!("misuse.c ended with {}: {complaint}", output.status));
    }
    let line = printed.lines().next().unwrap_or_default();
    let (word, why) = line.split_once(' ').unwrap_or((line, ""));
    let trial = |verdict| Some(Trial { verdict, said: why.to_owned() });
    match word {
        "none" => Ok(None),
        "silent" => Ok(trial(Verdict::Silent)),
        "exploitable" => Ok(trial(Verdict::Exploitable)),
        _ => anyhow::bail!("misuse.c printed neither verdict: {printed:?} {complaint}"),
    }
}

/// A program that was ended by a signal was stopped; whoever stops it by exit says why.
fn ended(status: ExitStatus, complaint: &str) -> Option<Trial> {
    let said = complaint.to_owned();
    match status.signal() {
        Some(libc::SIGABRT | libc::SIGILL | libc::SIGTRAP) => {
            Some(Trial { verdict: Verdict::Detected, said })
        }
        Some(libc::SIGSEGV | libc::SIGBUS) => Some(Trial { verdict: Verdict::Fault, said }),
        None if !said.is_empty() => Some(Trial { verdict: Verdict::Detected, said }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(script: &str) -> Option<Verdict> {
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        judge(&output).unwrap().map(|trial| trial.verdict)
    }

    #[test]
    fn a_verdict_is_what_was_seen() {
        assert_eq!(verdict("echo silent"), Some(Verdict::Silent));
        assert_eq!(verdict("echo exploitable a block"), Some(Verdict::Exploitable));
        assert_eq!(verdict("echo none"), None);
        assert_eq!(verdict("kill -ABRT $$"), Some(Verdict::Detected));
        assert_eq!(verdict("kill -SEGV $$"), Some(Verdict::Fault));
        assert_eq!(verdict("echo why >&2; exit 1"), Some(Verdict::Detected));
    }

    #[test]
    fn what_says_nothing_is_no_verdict() {
        let output = Command::new("sh").args(["-c", "exit 2"]).output().unwrap();
        assert!(judge(&output).is_err());
    }
}
