//! The profile as JSON, written while it is made: a trace may have more processes than fit into memory.
//!
//! ```text
//!   begin    { "schema", "header", "file_bytes", "processes": [
//!   process      one of them
//!   end      ], "sites", "there", "total", "damage" }
//! ```
//!
//! Invariant: after `end`, what was written is one JSON object, indented as serde_json does it.

use super::Judged;
use freehold_lab::profile::{PROFILE_SCHEMA, ProcessProfile, Profile};
use freehold_trace::Trace;
use serde::Serialize;
use std::io::{self, Write};

/// What is known before any event is read.
pub fn begin(out: &mut impl Write, trace: &Trace) -> io::Result<()> {
    write!(out, "{{")?;
    field(out, "schema", &PROFILE_SCHEMA)?;
    write!(out, ",")?;
    field(out, "header", trace.header())?;
    write!(out, ",")?;
    field(out, "file_bytes", &trace.file_len())?;
    write!(out, ",\n  \"processes\": [")
}

/// The next process; `follows` another.
pub fn process(out: &mut impl Write, process: &ProcessProfile, follows: bool) -> io::Result<()> {
    write!(out, "{}\n    ", if follows { "," } else { "" })?;
    value(out, process, "\n    ")
}

/// What is known at the end.
pub fn end(out: &mut impl Write, profile: &Profile, judged: Option<&Judged>) -> io::Result<()> {
    write!(out, "{}],", if profile.processes == 0 { "" } else { "\n  " })?;
    field(out, "sites", &judged.and_then(|judged| judged.sites.as_ref()))?;
    write!(out, ",")?;
    field(out, "there", &judged.and_then(|judged| judged.there.as_ref()))?;
    write!(out, ",")?;
    field(out, "total", &profile.total)?;
    write!(out, ",")?;
    field(out, "damage", &profile.damage)?;
    writeln!(out, "\n}}")
}

fn field(out: &mut impl Write, name: &str, of: &impl Serialize) -> io::Result<()> {
    write!(out, "\n  \"{name}\": ")?;
    value(out, of, "\n  ")
}

/// A value whose lines are indented further. In JSON a line ends between values only, never in a string.
fn value(out: &mut impl Write, of: &impl Serialize, line: &str) -> io::Result<()> {
    let text = serde_json::to_string_pretty(of)?;
    out.write_all(text.replace('\n', line).as_bytes())
}
