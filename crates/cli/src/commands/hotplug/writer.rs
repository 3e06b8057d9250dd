//! Writing a word into a file of the kernel's by a child, which can be ended while the kernel is at it.

use crate::ui;
use anyhow::Result;
use freehold_hotplug::apply::Writer;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Between two looks at the child.
const LOOK: Duration = Duration::from_millis(5);

/// Starts `freehold hotplug write` and waits so long.
pub struct Child {
    pub patience: Duration,
}

impl Writer for Child {
    fn write(&mut self, file: &Path, word: &str) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|why| why.to_string())?;
        let mut command = Command::new(program);
        command.args(["hotplug", "write"]).arg(file).arg(word);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|why| why.to_string())?;
        let end = Instant::now() + self.patience;
        loop {
            match child.try_wait() {
                Err(why) => return Err(why.to_string()),
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => {
                    let mut said = String::new();
                    let _ = child.stderr.take().map(|mut pipe| pipe.read_to_string(&mut said));
                    let said = said.trim();
                    return Err(if said.is_empty() { status.to_string() } else { said.to_owned() });
                }
                Ok(None) if Instant::now() < end => std::thread::sleep(LOOK),
                Ok(None) => {
                    // The kernel gives up and puts back what it had begun as soon as it sees the signal.
                    let ended = child.kill().and_then(|()| child.wait());
                    let seconds = self.patience.as_secs_f64();
                    return Err(match ended {
                        Ok(_) => format!("not done in {seconds} s"),
                        Err(why) => format!("not done in {seconds} s, and cannot be ended: {why}"),
                    });
                }
            }
        }
    }
}

/// What the child does: one write, or the kernel's reason why not.
pub fn write(file: &Path, word: &str) -> Result<ExitCode> {
    let opened = std::fs::OpenOptions::new().write(true).truncate(true).open(file);
    match opened.and_then(|mut file| file.write_all(word.as_bytes())) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(why) => {
            eprintln!("{}", ui::in_one_line(&why.into()));
            Ok(ExitCode::FAILURE)
        }
    }
}
