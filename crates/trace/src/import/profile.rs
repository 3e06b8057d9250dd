//! Heap profiles of pprof (`profile.proto` of github.com/google/pprof): what was in use at one moment, by call stack.
//!
//! The values of a sample are taken by their types: bytes, and a count of objects if there is one; those whose name begins with
//! `inuse` before others, and never those of all allocations (`alloc`). A sample becomes its objects, of even sizes that add up to its bytes; without a count it is one object.
//!
//! Invariant: a sample that names a place that is not there, or more objects than [`MOST_OBJECTS`] in all, is skipped and
//! told; what a profile says is never made larger.

use super::scribe::Scribe;
use super::{Stopped, Tale};
use crate::event::Request;
use crate::export::Control;
use crate::pprof::{Function, Line, Location, Mapping, Profile, Sample};
use crate::stacks::{Call, Frame, FrameId, Module, StackId, Stacks};
use prost::Message;
use rustc_hash::FxHashMap;
use std::sync::atomic::Ordering;

/// Bytes that a profile may have, not compressed: it is read whole.
const MOST_BYTES: u64 = 256 << 20;
/// Objects that one profile may tell of.
const MOST_OBJECTS: u64 = 1 << 24;
/// Bytes between made-up addresses.
const STEP: u64 = 16;

/// Whether a file that begins like this is a profile: the type of a value first, as Go writes it, or the empty string, as
/// Freehold's malloc does.
pub(super) fn begins(bytes: &[u8]) -> bool {
    matches!(bytes, [0x0a, 2..=22, 0x08, ..] | [0x32, 0x00, ..])
}

/// Reads the profile, and writes what it says down.
pub(super) fn translate(
    lines: &mut super::lines::Lines,
    scribe: &mut Scribe,
    control: &mut Control<'_>,
) -> Result<Tale, Stopped> {
    let mut tale = Tale::default();
    let Some(bytes) = lines.rest(MOST_BYTES).map_err(Stopped::Read)? else {
        tale.skip(format!("longer than {} MiB", MOST_BYTES >> 20));
        return Ok(tale);
    };
    let profile = match Profile::decode(bytes.as_slice()) {
        Ok(profile) => profile,
        Err(problem) => {
            tale.skip(problem.to_string());
            return Ok(tale);
        }
    };
    let Some(values) = Values::of(&profile) else {
        tale.skip(
            "no value of its samples is of bytes in use: it is no profile of a heap".to_owned(),
        );
        return Ok(tale);
    };
    let mut places = Places::new(&profile);
    // All at one time: nothing grows in a moment.
    scribe.begin_clock();
    let mut objects = 0;
    for sample in &profile.sample {
        tale.lines += 1;
        match places.stack(sample).and_then(|stack| Ok((stack, values.in_use(sample)?))) {
            Ok((_, (count, _))) if objects + count > MOST_OBJECTS => {
                tale.skip(format!("{count} objects: more than {MOST_OBJECTS} in all"));
            }
            Ok((stack, (count, bytes))) => {
                scribe.set_stack(stack);
                let all = Objects { from: objects, count, bytes };
                all.write(scribe, control, profile.sample.len() as u64, tale.lines)?;
                objects += count;
                tale.understood += 1;
            }
            Err(problem) => tale.skip(problem),
        }
    }
    tale.stacks = places.stacks;
    Ok(tale)
}

/// The objects of a sample.
struct Objects {
    /// How many there were before.
    from: u64,
    count: u64,
    bytes: u64,
}

impl Objects {
    fn write(
        &self,
        scribe: &mut Scribe,
        control: &mut Control<'_>,
        samples: u64,
        sample: u64,
    ) -> Result<(), Stopped> {
        for number in 0..self.count {
            let size = self.bytes / self.count + u64::from(number < self.bytes % self.count);
            let address = (self.from + number + 1) * STEP;
            scribe.alloc(address, Request { size, ..Request::default() });
            if (self.from + number).is_multiple_of(1 << 16) {
                scribe.check().map_err(Stopped::Write)?;
                (control.progress)(sample, samples);
                if control.stop.load(Ordering::Relaxed) {
                    return Err(Stopped::Interrupted);
                }
            }
        }
        scribe.check().map_err(Stopped::Write)
    }
}

/// Which of a sample's values are meant.
struct Values {
    objects: Option<usize>,
    bytes: usize,
}

impl Values {
    fn of(profile: &Profile) -> Option<Values> {
        let types = || profile.sample_type.iter().enumerate();
        let text = |number: i64| string(&profile.string_table, number);
        let in_use = |kind: i64| text(kind).starts_with("inuse");
        // Of those of equal worth, the first.
        let best = |unit: &str| {
            let fits = |kind: i64| !text(kind).starts_with("alloc");
            let of_unit = types().filter(|(_, value)| text(value.unit) == unit && fits(value.kind));
            of_unit.min_by_key(|(_, value)| !in_use(value.kind)).map(|(at, _)| at)
        };
        Some(Values { objects: best("count"), bytes: best("bytes")? })
    }

    /// How many objects are in use, and their bytes.
    fn in_use(&self, sample: &Sample) -> Result<(u64, u64), String> {
        let value = |at: usize| {
            let value = sample.value.get(at).ok_or("it has fewer values than there are types")?;
            u64::try_from(*value).map_err(|_| format!("{value} is no amount"))
        };
        let bytes = value(self.bytes)?;
        match self.objects.map(value).transpose()? {
            Some(0) if bytes > 0 => Err(format!("{bytes} bytes in no object")),
            Some(count) => Ok((count, bytes)),
            None => Ok((u64::from(bytes > 0), bytes)),
        }
    }
}

/// The places in the code, made into stacks.
struct Places<'a> {
    strings: &'a [String],
    functions: FxHashMap<u64, &'a Function>,
    mappings: FxHashMap<u64, (&'a Mapping, u32)>,
    locations: FxHashMap<u64, &'a Location>,
    frames: FxHashMap<u64, FrameId>,
    nodes: FxHashMap<(StackId, FrameId), StackId>,
    stacks: Stacks,
}

impl<'a> Places<'a> {
    fn new(profile: &'a Profile) -> Places<'a> {
        let strings = &profile.string_table;
        let mut stacks = Stacks::default();
        let mut module = |mapping: &'a Mapping| {
            let text = |number| string(strings, number).to_owned();
            let module = Module { path: text(mapping.filename), build_id: text(mapping.build_id) };
            (mapping.id, (mapping, stacks.add_module(module)))
        };
        let named = profile.mapping.iter().filter(|it| !string(strings, it.filename).is_empty());
        let mappings = named.map(&mut module).collect();
        Places {
            strings,
            functions: profile.function.iter().map(|function| (function.id, function)).collect(),
            mappings,
            locations: profile.location.iter().map(|location| (location.id, location)).collect(),
            frames: FxHashMap::default(),
            nodes: FxHashMap::default(),
            stacks,
        }
    }

    /// The stack of a sample.
    fn stack(&mut self, sample: &Sample) -> Result<StackId, String> {
        let mut stack = StackId::NONE;
        for &location in sample.location_id.iter().rev() {
            let frame = self.frame(location)?;
            let (nodes, stacks) = (&mut self.nodes, &mut self.stacks);
            stack = *nodes.entry((stack, frame)).or_insert_with(|| stacks.add(stack, frame));
        }
        Ok(stack)
    }

    fn frame(&mut self, number: u64) -> Result<FrameId, String> {
        if let Some(&frame) = self.frames.get(&number) {
            return Ok(frame);
        }
        let location = *self.locations.get(&number).ok_or_else(|| format!("no place {number}"))?;
        let mapping = self.mappings.get(&location.mapping_id);
        let (module, offset) = match mapping {
            Some(&(mapping, module)) => {
                let within = location.address.wrapping_sub(mapping.memory_start);
                (Some(module), within.wrapping_add(mapping.file_offset))
            }
            None => (None, location.address),
        };
        let calls = location.line.iter().filter_map(|line| self.call(line)).collect();
        let frame = self.stacks.add_frame(Frame { module, offset, exact: false, calls });
        self.frames.insert(number, frame);
        Ok(frame)
    }

    fn call(&self, line: &Line) -> Option<Call> {
        let function = self.functions.get(&line.function_id)?;
        let file = string(self.strings, function.filename);
        let file = (!file.is_empty()).then(|| file.to_owned());
        let number = u32::try_from(line.line).ok().filter(|&line| line > 0 && file.is_some());
        let function = string(self.strings, function.name).to_owned();
        (!function.is_empty()).then_some(Call { function, file, line: number })
    }
}

/// A string by its number; empty where there is none.
fn string(strings: &[String], number: i64) -> &str {
    usize::try_from(number).ok().and_then(|at| strings.get(at)).map_or("", String::as_str)
}
