//! pprof's `profile.proto`, gzip-compressed: `pprof -http=: FILE` shows it.

use super::samples::{Place, Tally, VALUES};
use super::{Control, ExportError};
use crate::header::{Header, ProcessInfo};
use crate::pprof::{Function, Line, Location, Profile, Sample, ValueType};
use crate::records::Records;
use crate::stacks::Stacks;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use rustc_hash::FxHashMap;
use std::io::Write;

/// Writes a profile of all events that `records` gives: what was allocated in all, and what was
/// live at the end. `processes` are in the order of their ids. Returns the number of events.
///
/// # Errors
/// When reading or writing fails, or the caller stops it.
pub fn pprof(
    header: &Header,
    processes: &[ProcessInfo],
    stacks: &Stacks,
    records: &mut Records,
    expected: u64,
    out: &mut dyn Write,
    control: &mut Control<'_>,
) -> Result<u64, ExportError> {
    let tally = Tally::of(processes, stacks, records, expected, control)?;
    let mut profile = profile(&tally);
    profile.time_nanos = header.started_unix_ms.saturating_mul(1_000_000) as i64;
    let ticks_per_second = u128::from(header.ticks_per_second.max(1));
    let nanos = u128::from(tally.last) * 1_000_000_000 / ticks_per_second;
    profile.duration_nanos = i64::try_from(nanos).unwrap_or(i64::MAX);
    let mut gzip = GzEncoder::new(out, Compression::default());
    gzip.write_all(&profile.encode_to_vec())?;
    gzip.finish()?.flush()?;
    Ok(tally.seen)
}

fn profile(tally: &Tally<'_>) -> Profile {
    let mut names = Names::default();
    names.string("");
    let value = |(kind, unit): (&str, &str)| ValueType {
        kind: names.string(kind),
        unit: names.string(unit),
    };
    let sample_type = VALUES.map(value).to_vec();
    let sample = tally.samples().map(|sample| Sample {
        location_id: sample.places.iter().map(|place| names.location(place)).collect(),
        value: sample.values.to_vec(),
    });
    let sample = sample.collect();
    let default_sample_type = names.string("inuse_space");
    Profile {
        sample_type,
        sample,
        location: names.locations,
        function: names.functions,
        string_table: names.strings,
        default_sample_type,
        ..Profile::default()
    }
}

/// Strings, functions and locations, each once, numbered as they appear; functions and locations from 1.
#[derive(Default)]
struct Names {
    strings: Vec<String>,
    by_name: FxHashMap<String, i64>,
    functions: Vec<Function>,
    /// By name and file.
    by_function: FxHashMap<(i64, i64), u64>,
    locations: Vec<Location>,
    by_place: FxHashMap<Place, u64>,
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

    fn function(&mut self, place: &Place) -> u64 {
        let name = self.string(&place.function);
        let filename = self.string(place.file.as_deref().unwrap_or_default());
        let functions = &mut self.functions;
        *self.by_function.entry((name, filename)).or_insert_with(|| {
            let id = functions.len() as u64 + 1;
            functions.push(Function { id, name, system_name: name, filename });
            id
        })
    }

    fn location(&mut self, place: &Place) -> u64 {
        if let Some(known) = self.by_place.get(place) {
            return *known;
        }
        let function_id = self.function(place);
        let id = self.locations.len() as u64 + 1;
        let line = Line { function_id, line: place.line.unwrap_or(0).into() };
        self.locations.push(Location { id, line: vec![line], ..Location::default() });
        self.by_place.insert(place.clone(), id);
        id
    }
}
