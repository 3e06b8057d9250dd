//! Call stacks as text for flame graphs: collapsed stacks, and speedscope's JSON.
//!
//! ```text
//!   main;grow;operator new 4096          a line a stack, outermost first, and the bytes that it allocated
//! ```

use super::samples::{Place, Sample, Tally, VALUES};
use super::{Control, ExportError};
use crate::header::ProcessInfo;
use crate::records::Records;
use crate::stacks::Stacks;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The values that are bytes.
const ALLOCATED: usize = 1;
const IN_USE: usize = 3;

/// Writes collapsed stacks, weighed by the bytes that they allocated. Returns the number of events.
///
/// # Errors
/// When reading or writing fails, or the caller stops it.
pub fn collapsed(
    processes: &[ProcessInfo],
    stacks: &Stacks,
    records: &mut Records,
    expected: u64,
    out: &mut dyn Write,
    control: &mut Control<'_>,
) -> Result<u64, ExportError> {
    let tally = Tally::of(processes, stacks, records, expected, control)?;
    let mut lines: BTreeMap<String, i64> = BTreeMap::new();
    for sample in tally.samples() {
        // A semicolon parts functions, a line end stacks.
        let clean = |place: &Place| place.function.replace(';', ":").replace(char::is_control, " ");
        let names: Vec<String> = sample.places.iter().rev().map(clean).collect();
        let bytes = lines.entry(names.join(";")).or_default();
        *bytes = bytes.saturating_add(sample.values[ALLOCATED]);
    }
    for (stack, bytes) in lines {
        writeln!(out, "{stack} {bytes}")?;
    }
    Ok(tally.seen)
}

/// Writes two profiles that speedscope shows: bytes allocated, and bytes in use at the end. Returns the number of events.
///
/// # Errors
/// When reading or writing fails, or the caller stops it.
pub fn speedscope(
    processes: &[ProcessInfo],
    stacks: &Stacks,
    records: &mut Records,
    expected: u64,
    out: &mut dyn Write,
    control: &mut Control<'_>,
) -> Result<u64, ExportError> {
    let tally = Tally::of(processes, stacks, records, expected, control)?;
    let mut frames = Frames::default();
    let samples: Vec<(Vec<usize>, Sample)> = tally
        .samples()
        .map(|sample| {
            (sample.places.iter().rev().map(|place| frames.number(place)).collect(), sample)
        })
        .collect();
    let profile = |value: usize| {
        let of = || samples.iter().filter(|(_, sample)| sample.values[value] > 0);
        let weights: Vec<i64> = of().map(|(_, sample)| sample.values[value]).collect();
        json!({
            "type": "sampled",
            "name": VALUES[value].0,
            "unit": VALUES[value].1,
            "startValue": 0,
            "endValue": weights.iter().sum::<i64>(),
            "samples": of().map(|(stack, _)| stack).collect::<Vec<_>>(),
            "weights": weights,
        })
    };
    let document = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": concat!("freehold ", env!("CARGO_PKG_VERSION")),
        "shared": { "frames": frames.list },
        "profiles": [profile(ALLOCATED), profile(IN_USE)],
    });
    serde_json::to_writer(&mut *out, &document).map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(tally.seen)
}

/// Each frame once.
#[derive(Default)]
struct Frames {
    list: Vec<Value>,
    numbers: FxHashMap<Place, usize>,
}

impl Frames {
    fn number(&mut self, place: &Place) -> usize {
        if let Some(&number) = self.numbers.get(place) {
            return number;
        }
        let mut frame = json!({ "name": place.function });
        if let Some(file) = &place.file {
            frame["file"] = json!(file);
        }
        if let Some(line) = place.line {
            frame["line"] = json!(line);
        }
        self.list.push(frame);
        self.numbers.insert(place.clone(), self.list.len() - 1);
        self.list.len() - 1
    }
}
