//! Running the replayer on one allocator: environment, time-out, and what its end means.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use super::answers::{Answer, Description, last_words};
use super::error::{RealError, Trouble};
use super::find::{Allocator, Source};
use super::prepare::Prepared;
use super::{Options, Touch};

/// How long a child may be left unwatched: what a run takes at least.
const WATCH: Duration = Duration::from_millis(1);

/// What a run is given, however few events it has.
const LEAST_TIMEOUT: Duration = Duration::from_secs(30);

/// What each event adds to it: a hundred times what a slow malloc takes.
const TIMEOUT_PER_EVENT: Duration = Duration::from_micros(10);

/// Starts replayers for one prepared process.
pub(super) struct Launcher<'a> {
    replayer: &'a Path,
    plan: &'a File,
    touch: Touch,
    limit: u64,
    timeout: Duration,
    interrupted: &'a AtomicBool,
}

/// A child that has ended.
struct Finished {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

/// Why an attempt gave nothing: the fault of one allocator, or a reason to stop altogether.
pub(super) enum Failure {
    Trouble(Trouble),
    Stop(RealError),
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        Failure::Trouble(trouble)
    }
}

impl<'a> Launcher<'a> {
    pub(super) fn new(
        replayer: &'a Path,
        prepared: &'a Prepared,
        options: &Options,
        interrupted: &'a AtomicBool,
    ) -> Launcher<'a> {
        let events = u32::try_from(prepared.facts().events).unwrap_or(u32::MAX);
        let scaled = LEAST_TIMEOUT + TIMEOUT_PER_EVENT * events;
        Launcher {
            replayer,
            plan: &prepared.file,
            touch: options.touch,
            limit: options.limit.unwrap_or(0),
            timeout: options.timeout.unwrap_or(scaled),
            interrupted,
        }
    }

    /// Bytes of anonymous memory that the replayer has before the first event, with nothing
    /// preloaded. What a library adds at its start counts against it.
    pub(super) fn baseline(&self) -> Result<u64, RealError> {
        match self.before(&Allocator::glibc()) {
            Ok(answer) => Ok(answer.anonymous),
            Err(Failure::Stop(error)) => Err(error),
            Err(Failure::Trouble(trouble)) => Err(trouble.of("the replayer itself")),
        }
    }

    /// What is resident with the allocator before the first event.
    pub(super) fn before(&self, allocator: &Allocator) -> Result<Answer, Failure> {
        self.answer(allocator, &["baseline"])
    }

    /// Asks where malloc comes from, and refuses a library that is not it.
    pub(super) fn describe(&self, allocator: &Allocator) -> Result<Description, Failure> {
        let finished = self.run(allocator, &["describe"])?;
        let stderr = finished.stderr.clone();
        let text = finished.into_answer()?;
        let description = Description::parse(&text).map_err(|reason| Trouble::GaveUp { reason })?;
        if let Source::Library(library) = &allocator.source {
            verify(library, &description, &stderr)?;
        }
        Ok(description)
    }

    /// A timing run.
    pub(super) fn time(&self, allocator: &Allocator) -> Result<Answer, Failure> {
        self.replay(allocator, "time")
    }

    /// A run with a clock around each call.
    pub(super) fn latency(&self, allocator: &Allocator) -> Result<Answer, Failure> {
        self.replay(allocator, "latency")
    }

    /// A run that tells where its objects lie at the end.
    pub(super) fn place(&self, allocator: &Allocator) -> Result<Answer, Failure> {
        self.replay(allocator, "place")
    }

    fn replay(&self, allocator: &Allocator, pass: &str) -> Result<Answer, Failure> {
        self.answer(allocator, &[pass, self.touch.word(), &self.limit.to_string()])
    }

    fn answer(&self, allocator: &Allocator, words: &[&str]) -> Result<Answer, Failure> {
        let text = self.run(allocator, words)?.into_answer()?;
        Ok(Answer::parse(&text).map_err(|reason| Trouble::GaveUp { reason })?)
    }

    fn run(&self, allocator: &Allocator, words: &[&str]) -> Result<Finished, Failure> {
        if self.interrupted.load(Relaxed) {
            return Err(Failure::Stop(RealError::Interrupted));
        }
        let path = self.replayer.to_owned();
        let launch = |source| Failure::Stop(RealError::Launch { path: path.clone(), source });
        // Files, not pipes: nobody has to read while the child runs, and no child can block.
        let (mut stdout, mut stderr) = outputs().map_err(launch)?;
        let child = self.start(allocator, words, &stdout, &stderr).map_err(launch)?;
        let status = self.watch(child)?;
        let text = |file: &mut File| read_back(file).map_err(launch);
        Ok(Finished { status, stdout: text(&mut stdout)?, stderr: text(&mut stderr)? })
    }

    fn start(
        &self,
        allocator: &Allocator,
        words: &[&str],
        stdout: &File,
        stderr: &File,
    ) -> io::Result<Child> {
        let mut command = Command::new(self.replayer);
        allocator.preload(&mut command);
        command.args(words).stdin(self.plan.try_clone()?);
        command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        // A group of its own: Ctrl-C reaches this process only, which ends the child itself and
        // does not take the signal for a crash of the allocator.
        command.process_group(0).spawn()
    }

    /// Waits for the child's end; ends it when it takes too long or the user asks.
    fn watch(&self, mut child: Child) -> Result<ExitStatus, Failure> {
        let begun = Instant::now();
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(source) => {
                    let path = self.replayer.to_owned();
                    return Err(Failure::Stop(RealError::Launch { path, source }));
                }
            }
            if self.interrupted.load(Relaxed) {
                end(&mut child);
                return Err(Failure::Stop(RealError::Interrupted));
            }
            if begun.elapsed() > self.timeout {
                end(&mut child);
                return Err(Trouble::TooSlow { seconds: self.timeout.as_secs_f64() }.into());
            }
            thread::sleep(WATCH);
        }
    }
}

/// Kills a child and waits for it. Both may fail only where it has ended already.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn outputs() -> io::Result<(File, File)> {
    Ok((tempfile::tempfile()?, tempfile::tempfile()?))
}

fn read_back(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Finished {
    /// What it printed, if it came to its end.
    fn into_answer(self) -> Result<String, Trouble> {
        if let Some(what) = last_words(&self.stdout, "misbehaved") {
            return Err(Trouble::Misbehaved { what: what.to_owned() });
        }
        if let Some(reason) = last_words(&self.stdout, "fatal") {
            return Err(Trouble::GaveUp { reason: reason.to_owned() });
        }
        let message = last_line(&self.stderr);
        match (self.status.signal(), self.status.code()) {
            (Some(signal), _) => Err(Trouble::Crashed { signal: signal_name(signal), message }),
            (None, Some(0)) => Ok(self.stdout),
            (None, code) => Err(Trouble::Ended { code: code.unwrap_or(-1), message }),
        }
    }
}

/// The last line that says something, cut to a length that fits into a message.
fn last_line(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default().chars().take(200).collect()
}

/// Every function of the family must come from the library: one that does not would free memory
/// that the other has made.
fn verify(library: &Path, description: &Description, stderr: &str) -> Result<(), Trouble> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let own = real(library);
    let foreign = |(_, path): &&(String, PathBuf)| real(path) != own;
    let Some((function, found)) = description.origins.iter().find(foreign) else { return Ok(()) };
    let library = library.to_owned();
    let by_loader = stderr.lines().find(|line| line.contains("ld.so"));
    Err(match by_loader {
        Some(line) => Trouble::NotLoaded { library, reason: line.trim().to_owned() },
        None => Trouble::NotInterposed {
            library,
            function: function.clone(),
            found: found.display().to_string(),
        },
    })
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV (a bad address)",
        libc::SIGABRT => "SIGABRT (it aborted)",
        libc::SIGBUS => "SIGBUS (a page that cannot be had)",
        libc::SIGILL => "SIGILL (a trap or a foreign instruction)",
        libc::SIGTRAP => "SIGTRAP (a trap)",
        libc::SIGFPE => "SIGFPE (an arithmetic error)",
        libc::SIGSYS => "SIGSYS (a forbidden system call)",
        libc::SIGKILL => "SIGKILL (killed, perhaps for want of memory)",
        libc::SIGTERM => "SIGTERM",
        libc::SIGINT => "SIGINT",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(status: i32, stdout: &str, stderr: &str) -> Finished {
        let status = ExitStatus::from_raw(status);
        Finished { status, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
    }

    #[test]
    fn a_crash_names_the_signal_and_the_last_words() {
        let trouble =
            finished(libc::SIGABRT, "", "free(): invalid pointer\n\n").into_answer().unwrap_err();
        let said = trouble.to_string();
        assert!(said.contains("SIGABRT") && said.contains("free(): invalid pointer"), "{said}");
        let other = finished(34, "", "").into_answer().unwrap_err();
        assert_eq!(other.to_string(), "the replay was ended by signal 34");
    }

    #[test]
    fn what_the_replayer_says_outranks_its_exit_code() {
        let broken = finished(3 << 8, "misbehaved it forgot\n", "noise").into_answer();
        assert_eq!(broken, Err(Trouble::Misbehaved { what: "it forgot".to_owned() }));
        let fatal = finished(4 << 8, "fatal no room\n", "").into_answer();
        assert_eq!(fatal, Err(Trouble::GaveUp { reason: "no room".to_owned() }));
        let code = finished(9 << 8, "", "why").into_answer();
        assert_eq!(code, Err(Trouble::Ended { code: 9, message: "why".to_owned() }));
    }

    #[test]
    fn a_library_that_is_not_the_malloc_is_refused() {
        let description = Description {
            origins: vec![
                ("malloc".into(), "/x/own.so".into()),
                ("free".into(), "/x/libc.so.6".into()),
            ],
            ..Description::default()
        };
        let own = Path::new("/x/own.so");
        let trouble = verify(own, &description, "").unwrap_err();
        assert!(matches!(&trouble, Trouble::NotInterposed { function, .. } if function == "free"));
        let loader = "ERROR: ld.so: object '/x/own.so' cannot be preloaded: ignored.";
        let trouble = verify(own, &description, loader).unwrap_err();
        assert!(matches!(&trouble, Trouble::NotLoaded { reason, .. } if reason == loader));
    }
}
