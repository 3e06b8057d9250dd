//! The file of results: what was replayed, what was found, as versioned JSON.
//!
//! Invariant: what stands in a [`Document`] of policies alone is a function of the trace and the
//! options, so two such files of one trace are equal byte for byte. Machine facts and the time the
//! simulation took stand in [`Circumstances`], a second file beside it.

use super::{Held, Outcome, SCHEMA_VERSION, Timing};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// Everything one `freehold replay` or `freehold compare` found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// What was replayed.
    pub trace: TraceFacts,
    /// Bytes the simulated region was limited to, if `--limit` was given.
    pub limit: Option<u64>,
    /// One for each policy or allocator, in the order asked for.
    pub results: Vec<Outcome>,
    /// Who holds pages for few bytes, by moment and allocator, where that was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// What asked for but not replayed, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refused>,
}

/// A policy or allocator that could not replay the trace.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Refused {
    /// Its name.
    pub name: String,
    /// Why, in a sentence.
    pub reason: String,
}

/// The trace, in short.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TraceFacts {
    /// The command line of the process replayed.
    pub command: Vec<String>,
    /// The process replayed, numbered as in the trace.
    pub process: u32,
    /// Events of that process that change memory: allocations, frees, reallocs.
    pub events: u64,
    /// Threads of that process.
    pub threads: u32,
    /// Bytes it asked for in all.
    pub allocated: u64,
    /// Seconds from its first event to its last, as recorded.
    pub seconds: f64,
    /// The file of the malloc that it used; none where the trace does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malloc: Option<String>,
    /// Every process of the trace.
    pub processes: Vec<ProcessFacts>,
    /// Parts of the trace that could not be read, in words; what is sound was replayed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<String>,
}

impl TraceFacts {
    /// What the process replayed called itself, where that is not its command.
    pub fn title(&self) -> Option<&str> {
        let replayed = self.processes.iter().find(|process| process.process == self.process)?;
        Some(replayed.title.as_str()).filter(|title| !title.is_empty())
    }
}

/// One process of the trace.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ProcessFacts {
    /// Its number in the trace.
    pub process: u32,
    /// Its command line.
    pub command: Vec<String>,
    /// Its threads.
    pub threads: u32,
    /// Its events of every kind.
    pub events: u64,
    /// What it called itself, where that is not its command.
    #[serde(default)]
    pub title: String,
    /// Most bytes asked for that were alive at once, where the recorder counted.
    #[serde(default)]
    pub peak_bytes: Option<u64>,
    /// Most bytes that were seen in memory at once, where the recorder looked.
    #[serde(default)]
    pub peak_resident: Option<u64>,
}

impl ProcessFacts {
    /// What people call it.
    pub fn name(&self) -> &str {
        let program =
            || self.command.first().map_or("?", |path| path.rsplit('/').next().unwrap_or(path));
        if self.title.is_empty() { program() } else { &self.title }
    }
}

/// Where and how fast: what differs from run to run and machine to machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Circumstances {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// The machine of the replay.
    pub machine: MachineFacts,
    /// How long each policy's simulation took.
    pub timings: Vec<Timing>,
}

/// The machine that replayed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Processor model, if the system tells.
    pub processor: Option<String>,
    /// Processors that may be used.
    pub processors: u32,
    /// Bytes of memory, if the system tells.
    pub memory: Option<u64>,
    /// Kernel name and release.
    pub kernel: String,
}

impl MachineFacts {
    /// Asks the system. What it does not tell stays `None`.
    pub fn here() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let after_colon = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let kilobytes = after_colon(&read("/proc/meminfo"), "MemTotal")
            .and_then(|text| text.trim_end_matches("kB").trim().parse::<u64>().ok());
        Self {
            processor: after_colon(&read("/proc/cpuinfo"), "model name"),
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            memory: kilobytes.map(|k| k * 1024),
            kernel: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        }
    }
}

impl Document {
    /// A document of this version.
    pub fn new(trace: TraceFacts, limit: Option<u64>) -> Self {
        let schema_version = SCHEMA_VERSION;
        Self { schema_version, trace, limit, ..Self::default() }
    }
}

/// What was found of several processes of one trace: a [`Document`] or the [`Circumstances`] of each.
#[derive(Debug, Serialize)]
pub struct Several<'a, T> {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// Of each process, the one with the most memory of malloc first.
    pub judged: Vec<&'a T>,
}

impl<'a, T> Several<'a, T> {
    /// Of each process, in this order.
    pub fn of(judged: impl IntoIterator<Item = &'a T>) -> Self {
        Self { schema_version: SCHEMA_VERSION, judged: judged.into_iter().collect() }
    }
}

/// Writes any part of the schema as indented JSON with a final newline.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write_json(to: &mut dyn Write, what: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *to, what)?;
    to.write_all(b"\n")
}
