//! An event as a row of a table.
//!
//! | column | meaning | empty where |
//! |---|---|---|
//! | tick | time in ticks of the recording clock | never |
//! | seconds | the same in seconds from the beginning of the trace | never |
//! | process, thread | who | never |
//! | event | `alloc`, `free`, `realloc`, `inherit`, `unknown_free`, `failed`, `thread_start`, `thread_end`, `fork`, `read`, `write` | never |
//! | object | the object's id within its process, recycled after its free | the event has none |
//! | api | `malloc`, `calloc`, `aligned`, `new`, `new_array` | no memory was asked for |
//! | size | bytes asked for | no memory was asked for |
//! | usable | bytes made usable | unknown |
//! | align | alignment asked for, bytes | none was named |
//! | remote | whether another thread made or last resized the object | not a free or realloc |
//! | began | tick at which a realloc began (`tick` is its return) | not a realloc |
//! | offset | first byte touched, from the object's start | not an access |
//! | child | the process forked | not a fork |
//!
//! Behind them stands the site of what asked for memory: see [`Called`].

use crate::event::{Api, Event, Record, Request};
use crate::records::Run;
use crate::stacks::StackId;

/// The columns, in order.
pub const COLUMNS: [&str; 14] = [
    "tick", "seconds", "process", "thread", "event", "object", "api", "size", "usable", "align",
    "remote", "began", "offset", "child",
];

/// One row.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Row {
    /// Time in ticks.
    pub tick: u64,
    /// Process.
    pub process: u32,
    /// Thread.
    pub thread: u32,
    /// Kind of event.
    pub event: &'static str,
    /// Object.
    pub object: Option<u32>,
    /// Family of functions.
    pub api: Option<&'static str>,
    /// Bytes asked for.
    pub size: Option<u64>,
    /// Bytes made usable.
    pub usable: Option<u64>,
    /// Alignment in bytes.
    pub align: Option<u64>,
    /// Another thread's object.
    pub remote: Option<bool>,
    /// When a realloc began.
    pub began: Option<u64>,
    /// Offset of an access.
    pub offset: Option<u64>,
    /// Process forked.
    pub child: Option<u32>,
}

impl From<&Record> for Row {
    fn from(record: &Record) -> Row {
        let row = Row {
            tick: record.tick.0,
            process: record.process.0,
            thread: record.thread.0,
            ..Row::default()
        };
        match record.event {
            Event::Alloc { object, request } => row.of("alloc", Some(object.0)).asks(&request),
            Event::Free { object, remote } => {
                Row { remote: Some(remote), ..row.of("free", Some(object.0)) }
            }
            Event::Realloc { object, request, remote, began } => Row {
                remote: Some(remote),
                began: Some(began.0),
                ..row.of("realloc", Some(object.0)).asks(&request)
            },
            Event::Inherit { object, request } => row.of("inherit", Some(object.0)).asks(&request),
            Event::UnknownFree => row.of("unknown_free", None),
            Event::Failed { request } => row.of("failed", None).asks(&request),
            Event::ThreadStart => row.of("thread_start", None),
            Event::ThreadEnd => row.of("thread_end", None),
            Event::Fork { child } => Row { child: Some(child.0), ..row.of("fork", None) },
            Event::Access { object, offset, write } => {
                let event = if write { "write" } else { "read" };
                Row { offset: Some(offset), ..row.of(event, Some(object.0)) }
            }
        }
    }
}

impl Row {
    fn of(self, event: &'static str, object: Option<u32>) -> Row {
        Row { event, object, ..self }
    }

    fn asks(self, request: &Request) -> Row {
        let named = request.align_log2 > 0;
        Row {
            api: Some(api_name(request.api)),
            size: Some(request.size),
            usable: (request.usable > 0).then_some(request.usable),
            align: named.then(|| 1u64.checked_shl(request.align_log2.into()).unwrap_or(0)),
            ..self
        }
    }
}

/// A row, and whose call it was.
pub struct Called {
    /// The row.
    pub row: Row,
    stack: StackId,
}

/// What the site of a call stack is called; none where it has none.
pub type SiteOf<'a> = &'a dyn Fn(StackId) -> Option<&'a str>;

/// The rows of a run.
pub fn called<'a>(run: &Run<'a>) -> impl Iterator<Item = Called> + use<'a> {
    let Run { process, thread, events, stacks } = *run;
    events.iter().enumerate().map(move |(at, timed)| {
        let record = Record { tick: timed.tick, process, thread, event: timed.event };
        Called { row: Row::from(&record), stack: stacks.get(at).copied().unwrap_or_default() }
    })
}

impl Called {
    /// Frees have stacks, too, if that was asked for; but their sites are not whose the memory is.
    pub fn site<'a>(&self, site_of: SiteOf<'a>) -> Option<&'a str> {
        self.row.size.and_then(|_| site_of(self.stack))
    }
}

/// The family's name in tables.
pub fn api_name(api: Api) -> &'static str {
    match api {
        Api::Malloc => "malloc",
        Api::Calloc => "calloc",
        Api::Aligned => "aligned",
        Api::New => "new",
        Api::NewArray => "new_array",
    }
}
