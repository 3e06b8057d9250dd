//! What a trace knows about itself and its processes.
//!
//! Both are stored as JSON (a name a reader does not know is skipped, a name it misses has a
//! default), so that facts can be added without a new version of the format.

use crate::event::{ProcessId, Tick};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Facts about the whole recording.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// How many ticks make a second; at least 1. A trace without times (an import) numbers its
    /// events instead and says so in [`ticks_are_events`](Header::ticks_are_events).
    pub ticks_per_second: u64,
    /// Ticks count events, not time: the source held no times.
    pub ticks_are_events: bool,
    /// When the recording began: milliseconds since 1970, UTC; 0 where unknown.
    pub started_unix_ms: u64,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What wrote the trace, with its version.
    pub recorder: String,
    /// Facts about the machine and the recorded allocator, by name (`cpus`, `kernel`, `libc` …).
    pub machine: BTreeMap<String, String>,
    /// Sentences the user should read beside the numbers: what the source could not tell.
    pub notes: Vec<String>,
}

impl Header {
    /// Seconds from the beginning of the trace.
    pub fn seconds(&self, tick: Tick) -> f64 {
        tick.0 as f64 / self.ticks_per_second.max(1) as f64
    }
}

/// How a process came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Begin {
    /// The program that was recorded.
    #[default]
    Root,
    /// A fork of its parent: inherits the parent's live objects.
    Fork,
    /// An exec in its parent, whose memory is gone.
    Exec,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
    /// Nobody saw.
    #[default]
    Unknown,
}

/// One process of a trace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProcessInfo {
    /// Its number in the trace.
    pub id: ProcessId,
    /// The process that forked it or whose exec it is.
    pub parent: Option<ProcessId>,
    /// How it came to be.
    pub begins: Begin,
    /// The number the kernel gave it; 0 where unknown.
    pub os_pid: u32,
    /// Program and arguments.
    pub command: Vec<String>,
    /// What it called itself when the recorder last looked, where that is not how it began: a server's workers have titles
    /// of their own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// The file of the malloc that the program used, as the kernel names it; empty where unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub malloc: String,
    /// Most bytes asked for that were alive at once; none where the writer did not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
    /// Most bytes that were seen in memory at once, the recorder's own left out; none where nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_resident: Option<u64>,
    /// The kernel's own mark of that at the end, the recorder's own among it; none where it was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_water: Option<u64>,
    /// How it ended, where that was seen.
    pub ended: Option<Ending>,
    /// Live objects it inherited from its parent at the fork.
    pub inherited_objects: u64,
    /// Bytes asked for of those objects.
    pub inherited_bytes: u64,
    /// Threads with at least one event. Kept by the writer.
    pub threads: u32,
    /// Tick of its first event. Kept by the writer.
    pub first: Tick,
    /// Tick of its last event. Kept by the writer.
    pub last: Tick,
}

impl ProcessInfo {
    /// What is known of a process nobody told of.
    pub fn unseen(id: ProcessId) -> ProcessInfo {
        ProcessInfo { id, ..ProcessInfo::default() }
    }

    /// Of a peak of live bytes, what the process made itself: without what it inherited at its fork.
    pub fn own(&self, peak: u64) -> u64 {
        peak.saturating_sub(self.inherited_bytes)
    }

    /// By what the process that a user means is chosen, the greatest of a trace: most bytes alive at once that it made
    /// itself, then most events, then the smallest number.
    pub fn weight(&self, own_peak: u64, events: u64) -> (u64, u64, Reverse<ProcessId>) {
        (own_peak, events, Reverse(self.id))
    }

    /// What people call it: its title, or the file name of its program. None where nothing is known.
    pub fn name(&self) -> Option<&str> {
        if !self.title.is_empty() {
            return Some(&self.title);
        }
        let program = self.command.first()?;
        program.rsplit('/').next().filter(|name| !name.is_empty()).or(Some(program))
    }
}
