//! pprof's `profile.proto`, gzip-compressed: `pprof -http=: FILE` shows it.
//!
//! The trace holds no call stacks yet, so the frames of a sample are what is known instead, from
//! the root: process, thread, family of functions, size class (a doubling). The messages are
//! written by hand: fourteen fields do not need a compiler of their own.

use super::row::api_name;
use super::{Control, ExportError};
use crate::event::{Api, Event, ObjectId, ProcessId, Request, ThreadId};
use crate::header::{Header, ProcessInfo};
use crate::records::Records;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::io::Write;

/// What distinguishes samples.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Site {
    process: ProcessId,
    thread: ThreadId,
    api: u8,
    /// Bits of the size.
    class: u32,
}

/// Objects and bytes.
#[derive(Clone, Copy, Default)]
struct Sum {
    objects: i64,
    bytes: i64,
}

#[derive(Default)]
struct Tally {
    sites: Vec<(Site, Sum, Sum)>,
    index: FxHashMap<Site, u32>,
    /// Site and size of each live object.
    live: FxHashMap<(ProcessId, ObjectId), (u32, u64)>,
}

/// Writes a profile of all events that `records` gives: what was allocated in all, and what was
/// live at the end. `processes` are in the order of their ids. Returns the number of events.
///
/// # Errors
/// When reading or writing fails, or the caller stops it.
pub fn pprof(
    header: &Header,
    processes: &[ProcessInfo],
    records: &mut Records,
    expected: u64,
    out: &mut dyn Write,
    control: &mut Control<'_>,
) -> Result<u64, ExportError> {
    let mut tally = Tally::default();
    let mut seen = 0;
    let mut last = 0;
    while let Some(record) = records.next()? {
        tally.see(record.process, record.thread, &record.event);
        last = record.tick.0;
        seen += 1;
        if !control.goes_on(seen, expected) {
            return Err(ExportError::Interrupted);
        }
    }
    let mut profile = tally.profile(processes);
    profile.time_nanos = header.started_unix_ms.saturating_mul(1_000_000) as i64;
    let ticks_per_second = u128::from(header.ticks_per_second.max(1));
    let nanos = u128::from(last) * 1_000_000_000 / ticks_per_second;
    profile.duration_nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&profile.encode_to_vec())?;
    gzip.finish()?.flush()?;
    Ok(seen)
}

impl Tally {
    fn see(&mut self, process: ProcessId, thread: ThreadId, event: &Event) {
        match *event {
            Event::Alloc { object, ref request } => self.alloc(process, thread, object, request),
            Event::Free { object, .. } => self.free(process, object),
            Event::Realloc { object, ref request, .. } => {
                self.free(process, object);
                self.alloc(process, thread, object, request);
            }
            _ => {}
        }
    }

    fn alloc(&mut self, p: ProcessId, thread: ThreadId, object: ObjectId, request: &Request) {
        let class = 64 - request.size.leading_zeros();
        let site = Site { process: p, thread, api: request.api as u8, class };
        let sites = &mut self.sites;
        let index = *self.index.entry(site).or_insert_with(|| {
            sites.push((site, Sum::default(), Sum::default()));
            sites.len() as u32 - 1
        });
        let (_, all, live) = &mut self.sites[index as usize];
        for sum in [all, live] {
            sum.objects += 1;
            sum.bytes = sum.bytes.saturating_add_unsigned(request.size);
        }
        self.live.insert((p, object), (index, request.size));
    }

    fn free(&mut self, process: ProcessId, object: ObjectId) {
        if let Some((site, size)) = self.live.remove(&(process, object)) {
            let live = &mut self.sites[site as usize].2;
            live.objects -= 1;
            live.bytes = live.bytes.saturating_sub_unsigned(size);
        }
    }

    fn profile(mut self, processes: &[ProcessInfo]) -> Profile {
        self.sites.sort_by_key(|(site, ..)| *site);
        let mut names = Names::default();
        names.string("");
        let value = |names: &mut Names, kind, unit| ValueType {
            kind: names.string(kind),
            unit: names.string(unit),
        };
        let sample_type = vec![
            value(&mut names, "alloc_objects", "count"),
            value(&mut names, "alloc_space", "bytes"),
            value(&mut names, "inuse_objects", "count"),
            value(&mut names, "inuse_space", "bytes"),
        ];
        let sample = self.sites.iter().map(|(site, all, live)| Sample {
            location_id: frames(site, processes).iter().map(|name| names.location(name)).collect(),
            value: vec![all.objects, all.bytes, live.objects, live.bytes],
        });
        let sample = sample.collect();
        let default_sample_type = names.string("inuse_space");
        Profile {
            sample_type,
            sample,
            location: names.locations(),
            function: names.functions(),
            string_table: names.strings,
            time_nanos: 0,
            duration_nanos: 0,
            default_sample_type,
        }
    }
}

/// The frames of a sample, leaf first.
fn frames(site: &Site, processes: &[ProcessInfo]) -> [String; 4] {
    let info = processes.binary_search_by_key(&site.process, |info| info.id);
    let info = info.ok().and_then(|at| processes.get(at));
    let program = info.and_then(|info| info.command.first()).map_or("", String::as_str);
    let size = match site.class {
        0 => "0 B".to_owned(),
        class => format!("{} B and more", 1u64 << (class - 1)),
    };
    let api = [Api::Malloc, Api::Calloc, Api::Aligned, Api::New, Api::NewArray]
        .into_iter()
        .find(|api| *api as u8 == site.api)
        .map_or("", api_name);
    [
        size,
        api.to_owned(),
        format!("thread {}", site.thread.0),
        format!("process {} {program}", site.process.0).trim_end().to_owned(),
    ]
}

/// Strings and functions by name, numbered as they appear.
#[derive(Default)]
struct Names {
    strings: Vec<String>,
    by_name: BTreeMap<String, i64>,
    /// The name of each function; its id is its place plus one, and its location has the same.
    functions: Vec<i64>,
    by_function: BTreeMap<i64, u64>,
}

impl Names {
    fn string(&mut self, name: &str) -> i64 {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let number = self.strings.len() as i64;
        self.strings.push(name.to_owned());
        self.by_name.insert(name.to_owned(), number);
        number
    }

    fn location(&mut self, name: &str) -> u64 {
        let name = self.string(name);
        let functions = &mut self.functions;
        *self.by_function.entry(name).or_insert_with(|| {
            functions.push(name);
            functions.len() as u64
        })
    }

    fn locations(&self) -> Vec<Location> {
        let ids = 1..=self.functions.len() as u64;
        ids.map(|id| Location { id, line: vec![Line { function_id: id }] }).collect()
    }

    fn functions(&self) -> Vec<Function> {
        let numbered = (1..).zip(&self.functions);
        numbered.map(|(id, name)| Function { id, name: *name, system_name: *name }).collect()
    }
}

#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}
