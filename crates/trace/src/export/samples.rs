//! What was allocated, and what of it lives at the end, by call stack: what pprof, collapsed stacks and speedscope show.
//!
//! A trace without call stacks gives what is known instead, from the root: process, thread, family of functions, size class (a
//! doubling). Processes of a trace with stacks stand below one root each only if there are several.

use super::row::api_name;
use super::{Control, ExportError};
use crate::event::{Api, Event, ObjectId, ProcessId, Request, ThreadId};
use crate::header::ProcessInfo;
use crate::records::Records;
use crate::stacks::{FrameId, StackId, Stacks};
use rustc_hash::FxHashMap;

/// What the four values of a sample are called, and their units.
pub(super) const VALUES: [(&str, &str); 4] = [
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
];

/// A function of a sample's stack.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Place {
    pub(super) function: String,
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
}

/// A stack, the innermost function first, and its values.
pub(super) struct Sample {
    pub(super) places: Vec<Place>,
    pub(super) values: [i64; VALUES.len()],
}

/// What distinguishes samples: the stack, or else the rest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    process: ProcessId,
    stack: StackId,
    thread: ThreadId,
    api: u8,
    /// Bits of the size.
    class: u32,
}

/// Adds up events.
pub(super) struct Tally<'a> {
    processes: &'a [ProcessInfo],
    stacks: &'a Stacks,
    samples: Vec<(Key, [i64; VALUES.len()])>,
    index: FxHashMap<Key, u32>,
    /// Sample and size of each live object.
    live: FxHashMap<(ProcessId, ObjectId), (u32, u64)>,
    /// The last event's tick.
    pub(super) last: u64,
    /// Events seen.
    pub(super) seen: u64,
}

impl<'a> Tally<'a> {
    /// All events of `records`. `processes` are in the order of their ids.
    pub(super) fn of(
        processes: &'a [ProcessInfo],
        stacks: &'a Stacks,
        records: &mut Records,
        expected: u64,
        control: &mut Control<'_>,
    ) -> Result<Tally<'a>, ExportError> {
        let mut tally = Tally {
            processes,
            stacks,
            samples: Vec::new(),
            index: FxHashMap::default(),
            live: FxHashMap::default(),
            last: 0,
            seen: 0,
        };
        while let Some(run) = records.next_run()? {
            for (index, timed) in run.events.iter().enumerate() {
                let stack = run.stacks.get(index).copied().unwrap_or_default();
                tally.see(run.process, run.thread, &timed.event, stack);
                tally.last = timed.tick.0;
                tally.seen += 1;
                if !control.goes_on(tally.seen, expected) {
                    return Err(ExportError::Interrupted);
                }
            }
        }
        tally.samples.sort_by_key(|(key, _)| *key);
        Ok(tally)
    }

    fn see(&mut self, process: ProcessId, thread: ThreadId, event: &Event, stack: StackId) {
        match *event {
            Event::Alloc { object, ref request } => {
                let key = self.key(process, thread, request, stack);
                self.alloc(key, object, request);
            }
            Event::Free { object, .. } => {
                self.free(process, object);
            }
            Event::Realloc { object, ref request, .. } => {
                let before = self.free(process, object);
                let key = match before {
                    // One that came without a stack stays where it was.
                    Some(sample) if stack == StackId::NONE && !self.stacks.is_empty() => {
                        self.samples[sample as usize].0
                    }
                    _ => self.key(process, thread, request, stack),
                };
                self.alloc(key, object, request);
            }
            _ => {}
        }
    }

    fn key(&self, process: ProcessId, thread: ThreadId, request: &Request, stack: StackId) -> Key {
        if !self.stacks.is_empty() {
            return Key { process, stack, thread: ThreadId(0), api: 0, class: 0 };
        }
        let class = 64 - request.size.leading_zeros();
        Key { process, stack: StackId::NONE, thread, api: request.api as u8, class }
    }

    fn alloc(&mut self, key: Key, object: ObjectId, request: &Request) {
        let samples = &mut self.samples;
        let index = *self.index.entry(key).or_insert_with(|| {
            samples.push((key, Default::default()));
            samples.len() as u32 - 1
        });
        let (_, values) = &mut self.samples[index as usize];
        for (objects, bytes) in [(0, 1), (2, 3)] {
            values[objects] += 1;
            values[bytes] = values[bytes].saturating_add_unsigned(request.size);
        }
        self.live.insert((key.process, object), (index, request.size));
    }

    /// The sample that the object was in.
    fn free(&mut self, process: ProcessId, object: ObjectId) -> Option<u32> {
        let (sample, size) = self.live.remove(&(process, object))?;
        let values = &mut self.samples[sample as usize].1;
        values[2] -= 1;
        values[3] = values[3].saturating_sub_unsigned(size);
        Some(sample)
    }

    /// All samples, in an order that the same trace always gives.
    pub(super) fn samples(&self) -> impl Iterator<Item = Sample> + '_ {
        let sample =
            |(key, values): &(Key, [i64; 4])| Sample { places: self.places(key), values: *values };
        self.samples.iter().map(sample)
    }

    fn places(&self, key: &Key) -> Vec<Place> {
        if self.stacks.is_empty() {
            return self.known_instead(key);
        }
        let mut places: Vec<Place> =
            self.stacks.walk(key.stack).flat_map(|frame| self.functions(frame)).collect();
        if places.is_empty() {
            places.push(named("(no call stack)".into()));
        }
        if self.processes.len() > 1 {
            places.push(named(self.process(key.process)));
        }
        places
    }

    fn functions(&self, id: FrameId) -> Vec<Place> {
        let Some(frame) = self.stacks.frame(id) else { return vec![named("(unknown)".into())] };
        if frame.calls.is_empty() {
            let module = frame.module.and_then(|module| self.stacks.modules().get(module as usize));
            let module =
                module.map_or("code at ", |m| m.path.rsplit('/').next().unwrap_or(&m.path));
            let plus = if frame.module.is_some() { "+" } else { "" };
            return vec![named(format!("{module}{plus}{:#x}", frame.offset))];
        }
        let place = |call: &crate::stacks::Call| Place {
            function: call.function.clone(),
            file: call.file.clone(),
            line: call.line,
        };
        frame.calls.iter().map(place).collect()
    }

    fn process(&self, id: ProcessId) -> String {
        let info = self.processes.binary_search_by_key(&id, |info| info.id);
        let info = info.ok().and_then(|at| self.processes.get(at));
        let program = info.and_then(|info| info.command.first()).map_or("", String::as_str);
        format!("process {} {program}", id.0).trim_end().to_owned()
    }

    fn known_instead(&self, key: &Key) -> Vec<Place> {
        let size = match key.class {
            0 => "0 B".to_owned(),
            class => format!("{} B and more", 1u64 << (class - 1)),
        };
        let api = [Api::Malloc, Api::Calloc, Api::Aligned, Api::New, Api::NewArray]
            .into_iter()
            .find(|api| *api as u8 == key.api)
            .map_or("", api_name);
        let thread = format!("thread {}", key.thread.0);
        [size, api.to_owned(), thread, self.process(key.process)].map(named).into()
    }
}

fn named(function: String) -> Place {
    Place { function, ..Place::default() }
}
