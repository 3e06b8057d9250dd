//! Traces of other tools: heaptrack, glibc's mtrace, workloads of glibc's malloc trace utilities; heap profiles of pprof.
//!
//! Invariants: a line (or operation, or sample) that cannot be understood is counted, told with its place, and
//! skipped;
//! what a source cannot know (times, threads, alignment) is said in the header's notes and never
//! made up. The new trace takes its name only when it is whole.

mod heaptrack;
mod lines;
mod mtrace;
mod profile;
mod scribe;
#[cfg(test)]
mod tests;
mod workload;

use crate::error::WriteError;
use crate::export::Control;
use crate::header::Header;
use crate::namer::Anomalies;
use crate::partial;
use crate::stacks::Stacks;
use crate::writer::{Summary, Writer};
use lines::{Line, Lines};
use scribe::Scribe;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Malformed lines told one by one.
const MOST_TOLD: usize = 20;

/// A format that can be imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// What heaptrack leaves on disk (`heaptrack.*.zst` or `.gz`), interpreted or raw.
    Heaptrack,
    /// What glibc's `mtrace()` writes to `$MALLOC_TRACE`.
    Mtrace,
    /// A workload (`.wl`) of glibc's malloc trace utilities.
    Workload,
    /// A heap profile of pprof (`profile.proto`), gzip-compressed or not.
    Pprof,
}

impl Source {
    /// What a file of this format consists of.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Heaptrack | Self::Mtrace => "lines",
            Self::Workload => "operations",
            Self::Pprof => "samples",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Heaptrack => "heaptrack",
            Self::Mtrace => "mtrace",
            Self::Workload => "workload",
            Self::Pprof => "pprof",
        })
    }
}

/// Why nothing was imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The source cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The source.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Not a file.
    #[error("{} is {what}, not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What stands there.
        what: &'static str,
    },
    /// The source has no bytes.
    #[error("{} is empty", path.display())]
    Empty {
        /// The source.
        path: PathBuf,
    },
    /// A trace already.
    #[error("{} is a Freehold trace already: there is nothing to import", path.display())]
    Trace {
        /// The source.
        path: PathBuf,
    },
    /// No known format.
    #[error(
        "{} is neither a heaptrack nor an mtrace file, nor a workload, nor a profile of pprof; name the format with --format if it is one",
        path.display()
    )]
    Unknown {
        /// The source.
        path: PathBuf,
    },
    /// The format was named, but nothing in the file is of it.
    #[error(
        "nothing in {} is {format}: {lines} {}, the first problem at {line}: {problem}",
        path.display(), format.unit()
    )]
    Nothing {
        /// The source.
        path: PathBuf,
        /// The format tried.
        format: Source,
        /// Lines (operations, samples) read.
        lines: u64,
        /// Where the first malformed one is; see [`Malformed::line`].
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The trace cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The caller's flag was raised; nothing is left.
    #[error("interrupted")]
    Interrupted,
}

/// A line, operation of a workload, or sample of a profile that was skipped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed {
    /// Its number, from 1; of an operation, the byte it begins at.
    pub line: u64,
    /// What is wrong with it.
    pub problem: String,
}

/// What was imported.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imported {
    /// The format found.
    pub format: Source,
    /// What was written.
    pub summary: Summary,
    /// Lines (operations, samples) read.
    pub lines: u64,
    /// How many of them were skipped.
    pub malformed: u64,
    /// The first of them.
    pub first_malformed: Vec<Malformed>,
    /// What the calls do not explain.
    pub anomalies: Anomalies,
    /// What the source cannot tell.
    pub notes: Vec<String>,
    /// The source ended within its compression or its last line.
    pub cut_short: bool,
}

/// Reads the file at `from` and writes a trace to `to`. The format is detected where none is named.
///
/// # Errors
/// When the source cannot be read or is of no known format, when the trace cannot be written, or
/// when the caller stops it. Malformed lines are no error as long as one line is understood.
pub fn import(
    from: &Path,
    to: &Path,
    format: Option<Source>,
    control: &mut Control<'_>,
) -> Result<Imported, ImportError> {
    if let Some(what) = partial::what_stands_there(from) {
        return Err(ImportError::NotAFile { path: from.to_owned(), what });
    }
    let read_error = |source| ImportError::Read { path: from.to_owned(), source };
    let mut lines = Lines::open(from).map_err(read_error)?;
    let first = lines.peek().map_err(read_error)?;
    if crate::head::is_trace(first) {
        return Err(ImportError::Trace { path: from.to_owned() });
    }
    let detected = detect(first);
    if lines.file_len() == 0 {
        return Err(ImportError::Empty { path: from.to_owned() });
    }
    let unknown = || ImportError::Unknown { path: from.to_owned() };
    let format = format.or(detected).ok_or_else(unknown)?;
    let writer = Writer::create(to, header(format))?;
    let mut scribe = Scribe::new(writer);
    let read = match format {
        Source::Heaptrack => {
            translate(&mut lines, &mut scribe, heaptrack::Reader::default(), control)
        }
        Source::Mtrace => translate(&mut lines, &mut scribe, mtrace::Reader::default(), control),
        Source::Workload => workload::translate(from, &mut scribe, control),
        Source::Pprof => profile::translate(&mut lines, &mut scribe, control),
    };
    let tale = match read {
        Ok(tale) => tale,
        Err(stopped) => {
            scribe.abandon();
            return Err(match stopped {
                Stopped::Read(source) => read_error(source),
                Stopped::Write(error) => error.into(),
                Stopped::Interrupted => ImportError::Interrupted,
            });
        }
    };
    if tale.understood == 0
        && let Some(first) = tale.first_malformed.first()
    {
        scribe.abandon();
        let (line, problem) = (first.line, first.problem.clone());
        let path = from.to_owned();
        return Err(ImportError::Nothing { path, format, lines: tale.lines, line, problem });
    }
    let anomalies = scribe.anomalies();
    let summary = scribe.finish(tale.command, &tale.stacks)?;
    Ok(Imported {
        format,
        summary,
        lines: tale.lines,
        malformed: tale.malformed,
        first_malformed: tale.first_malformed,
        anomalies,
        notes: header(format).notes,
        cut_short: lines.cut_short(),
    })
}

/// The format of a file by its first bytes, decompressed.
fn detect(beginning: &[u8]) -> Option<Source> {
    if beginning.starts_with(b"= Start") || beginning.starts_with(b"@ ") {
        return Some(Source::Mtrace);
    }
    if workload::begins(beginning) {
        return Some(Source::Workload);
    }
    if profile::begins(beginning) {
        return Some(Source::Pprof);
    }
    // `v 10400 3`: heaptrack's version, then the file's.
    let line = beginning.split(|byte| *byte == b'\n').next()?;
    let is_version = line.strip_prefix(b"v ").is_some_and(|rest| {
        !rest.is_empty() && rest.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b' ')
    });
    is_version.then_some(Source::Heaptrack)
}

fn header(format: Source) -> Header {
    let notes: &[&str] = match format {
        Source::Heaptrack => &[
            "heaptrack records no threads, alignments or families of functions: all calls are \
             malloc's, in one thread; a realloc is a free and an allocation",
            "heaptrack's times are steps of its timer (10 ms), so lifetimes below that are not known",
            "heaptrack does not say where modules lay: what has no name is shown with its address",
            "an interpreted heaptrack file does not say which of several objects of one size and \
             call stack was freed: the youngest is taken",
        ],
        Source::Mtrace => &[
            "mtrace records no times, threads, alignments or families of functions: a tick is one \
             event, all calls are malloc's, in one thread",
        ],
        Source::Workload => &[
            "a workload records no times: a tick is one event, and threads take turns, an operation \
             each, where the workload does not order them",
        ],
        Source::Pprof => &[
            "a profile is a moment: what was in use then is allocated, in the order of its samples, and \
             nothing is freed; what was freed before is left out. It records no times, threads or alignments",
            "the objects of a sample share its bytes evenly, and a profile that samples tells of more \
             objects than it saw",
            "offsets are those of the files of code, not of their symbol tables",
        ],
    };
    Header {
        ticks_per_second: if format == Source::Heaptrack { 1000 } else { 1 },
        ticks_are_events: format != Source::Heaptrack,
        recorder: format!("freehold {} import of {format}", env!("CARGO_PKG_VERSION")),
        notes: notes.iter().map(|note| (*note).to_owned()).collect(),
        ..Header::default()
    }
}

/// A format's reader: told line after line, tells the scribe.
trait Format {
    /// Understands a line, or says what is wrong with it. `Ok(false)` is a line without an event.
    fn line(&mut self, line: &str, scribe: &mut Scribe) -> Result<bool, String>;

    /// The program's command, if the source has it.
    fn command(&self) -> Vec<String> {
        Vec::new()
    }

    /// The call stacks, if the source has them.
    fn stacks(self) -> Stacks
    where
        Self: Sized,
    {
        Stacks::default()
    }
}

/// What came of reading the lines.
#[derive(Default)]
struct Tale {
    lines: u64,
    understood: u64,
    malformed: u64,
    first_malformed: Vec<Malformed>,
    command: Vec<String>,
    stacks: Stacks,
}

impl Tale {
    fn skip(&mut self, problem: String) {
        self.skip_at(self.lines, problem);
    }

    fn skip_at(&mut self, line: u64, problem: String) {
        self.malformed += 1;
        if self.first_malformed.len() < MOST_TOLD {
            self.first_malformed.push(Malformed { line, problem });
        }
    }
}

enum Stopped {
    Read(io::Error),
    Write(WriteError),
    Interrupted,
}

fn translate(
    lines: &mut Lines,
    scribe: &mut Scribe,
    mut format: impl Format,
    control: &mut Control<'_>,
) -> Result<Tale, Stopped> {
    let mut tale = Tale::default();
    loop {
        let (done, total) = (lines.position(), lines.file_len());
        match lines.next().map_err(Stopped::Read)? {
            Line::End => break,
            Line::TooLong => {
                tale.lines += 1;
                tale.skip("longer than any line of this format".into());
            }
            Line::NoText => {
                tale.lines += 1;
                tale.skip("not UTF-8 text".into());
            }
            Line::Text(line) => {
                tale.lines += 1;
                match format.line(line, scribe) {
                    Ok(event) => tale.understood += u64::from(event),
                    Err(problem) => tale.skip(problem),
                }
            }
        }
        scribe.check().map_err(Stopped::Write)?;
        if tale.lines.is_multiple_of(1 << 16) {
            (control.progress)(done, total);
            if control.stop.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(Stopped::Interrupted);
            }
        }
    }
    tale.command = format.command();
    tale.stacks = format.stacks();
    Ok(tale)
}
