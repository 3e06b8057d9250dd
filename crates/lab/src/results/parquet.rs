//! Outcomes as Parquet: one row an outcome, flat columns by the names of a sweep (`spread_runs`), but for the timeline, which is a list.

use super::{Document, Kind, Outcome, Point};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

/// The schema, leaf by leaf in the order of [`LEAVES`]. Unsigned numbers are stored as INT64.
const SCHEMA: &str = "message outcome {
  required binary name (UTF8);
  required binary kind (UTF8);
  required int64 process;
  optional binary library (UTF8);
  required int64 events;
  optional double seconds;
  optional int64 spread_runs; optional double spread_seconds_min; optional double spread_seconds_max;
  optional int64 spread_memory_min; optional int64 spread_memory_max;
  required int64 failures;
  required int64 peak_live;
  required int64 peak_memory;
  required int64 final_memory;
  required double johnstone_wilson_average; required double johnstone_wilson_at_peak_live;
  required double johnstone_wilson_at_peak_used; required double johnstone_wilson_peak_over_peak;
  optional double internal_fragmentation;
  optional double external_fragmentation;
  optional int64 steps_total; optional double steps_mean; optional int64 steps_p99; optional int64 steps_max;
  optional double latency_p50; optional double latency_p90; optional double latency_p99;
  optional double latency_p999; optional double latency_p9999; optional double latency_max;
  optional double cpu_seconds;
  optional int64 page_faults;
  required group timeline (LIST) {
    repeated group list {
      required group element {
        required int64 events; required int64 allocated; required double seconds;
        required int64 live; required int64 used;
      }
    }
  }
}";

/// How a leaf is read off an outcome. `Option` where it, or the group around it, may be missing.
enum Leaf {
    Process,
    Text(fn(&Outcome) -> &str),
    MaybeText(fn(&Outcome) -> Option<&str>),
    Whole(fn(&Outcome) -> u64),
    MaybeWhole(fn(&Outcome) -> Option<u64>),
    Real(fn(&Outcome) -> f64),
    MaybeReal(fn(&Outcome) -> Option<f64>),
    PointWhole(fn(&Point) -> u64),
    PointReal(fn(&Point) -> f64),
}

use Leaf::{MaybeReal, MaybeText, MaybeWhole, PointReal, PointWhole, Process, Real, Text, Whole};

const LEAVES: &[Leaf] = &[
    Text(|o| &o.name),
    Text(|o| match o.kind {
        Kind::Policy => "policy",
        Kind::Allocator => "allocator",
        Kind::Malloc => "malloc",
    }),
    Process,
    MaybeText(|o| o.library.as_deref()),
    Whole(|o| o.events),
    MaybeReal(|o| o.seconds),
    MaybeWhole(|o| o.spread.map(|s| s.runs.into())),
    MaybeReal(|o| o.spread.map(|s| s.seconds_min)),
    MaybeReal(|o| o.spread.map(|s| s.seconds_max)),
    MaybeWhole(|o| o.spread.map(|s| s.memory_min)),
    MaybeWhole(|o| o.spread.map(|s| s.memory_max)),
    Whole(|o| o.failures),
    Whole(|o| o.peak_live),
    Whole(|o| o.peak_memory),
    Whole(|o| o.final_memory),
    Real(|o| o.johnstone_wilson.average),
    Real(|o| o.johnstone_wilson.at_peak_live),
    Real(|o| o.johnstone_wilson.at_peak_used),
    Real(|o| o.johnstone_wilson.peak_over_peak),
    MaybeReal(|o| o.internal_fragmentation),
    MaybeReal(|o| o.external_fragmentation),
    MaybeWhole(|o| o.steps.map(|s| s.total)),
    MaybeReal(|o| o.steps.map(|s| s.mean)),
    MaybeWhole(|o| o.steps.map(|s| s.p99)),
    MaybeWhole(|o| o.steps.map(|s| s.max)),
    MaybeReal(|o| o.latency.map(|l| l.p50)),
    MaybeReal(|o| o.latency.map(|l| l.p90)),
    MaybeReal(|o| o.latency.map(|l| l.p99)),
    MaybeReal(|o| o.latency.map(|l| l.p999)),
    MaybeReal(|o| o.latency.map(|l| l.p9999)),
    MaybeReal(|o| o.latency.map(|l| l.max)),
    MaybeReal(|o| o.cpu_seconds),
    MaybeWhole(|o| o.page_faults),
    PointWhole(|p| p.events),
    PointWhole(|p| p.allocated),
    PointReal(|p| p.seconds),
    PointWhole(|p| p.live),
    PointWhole(|p| p.used),
];

/// Writes the outcomes of all documents as one Parquet file.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write_parquet(to: &mut (dyn Write + Send), documents: &[&Document]) -> io::Result<()> {
    try_write(to, documents).map_err(|error| match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    })
}

fn try_write(to: &mut (dyn Write + Send), documents: &[&Document]) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties =
        Arc::new(WriterProperties::builder().set_created_by("freehold".into()).build());
    let mut file = SerializedFileWriter::new(to, schema, properties)?;
    let mut rows = file.next_row_group()?;
    let mut leaves = LEAVES.iter();
    while let Some(mut column) = rows.next_column()? {
        let leaf = leaves.next().expect("every leaf of SCHEMA is in LEAVES");
        let rows = Cells::of(leaf, documents);
        let (defined, repeated) = (rows.defined.as_deref(), rows.repeated.as_deref());
        match rows.values {
            Values::Text(values) => {
                column.typed::<ByteArrayType>().write_batch(&values, defined, repeated)?
            }
            Values::Whole(values) => {
                column.typed::<Int64Type>().write_batch(&values, defined, repeated)?
            }
            Values::Real(values) => {
                column.typed::<DoubleType>().write_batch(&values, defined, repeated)?
            }
        };
        column.close()?;
    }
    rows.close()?;
    file.close()?;
    Ok(())
}

/// A column's values with its definition and repetition levels.
struct Cells {
    values: Values,
    defined: Option<Vec<i16>>,
    repeated: Option<Vec<i16>>,
}

enum Values {
    Text(Vec<ByteArray>),
    Whole(Vec<i64>),
    Real(Vec<f64>),
}

impl Cells {
    fn of(leaf: &Leaf, documents: &[&Document]) -> Self {
        let all = documents.iter().flat_map(|document| &document.results);
        match leaf {
            Process => {
                let rows = documents.iter().flat_map(|document| {
                    std::iter::repeat_n(document.trace.process.into(), document.results.len())
                });
                Self::required(Values::Whole(rows.collect()))
            }
            Text(get) => Self::required(Values::Text(all.map(|o| get(o).into()).collect())),
            Whole(get) => Self::required(Values::Whole(all.map(|o| get(o) as i64).collect())),
            Real(get) => Self::required(Values::Real(all.map(get).collect())),
            MaybeText(get) => {
                Self::optional(all.map(|o| get(o).map(ByteArray::from)), Values::Text)
            }
            MaybeWhole(get) => Self::optional(all.map(|o| get(o).map(|n| n as i64)), Values::Whole),
            MaybeReal(get) => Self::optional(all.map(get), Values::Real),
            PointWhole(get) => Self::listed(all, |p| get(p) as i64, Values::Whole),
            PointReal(get) => Self::listed(all, get, Values::Real),
        }
    }

    fn required(values: Values) -> Self {
        Self { values, defined: None, repeated: None }
    }

    fn optional<T>(cells: impl Iterator<Item = Option<T>>, wrap: fn(Vec<T>) -> Values) -> Self {
        let (mut values, mut defined) = (Vec::new(), Vec::new());
        for cell in cells {
            defined.push(i16::from(cell.is_some()));
            values.extend(cell);
        }
        Self { values: wrap(values), defined: Some(defined), repeated: None }
    }

    fn listed<'a, T>(
        outcomes: impl Iterator<Item = &'a Outcome>,
        get: impl Fn(&Point) -> T,
        wrap: fn(Vec<T>) -> Values,
    ) -> Self {
        let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        for outcome in outcomes {
            if outcome.timeline.is_empty() {
                defined.push(0);
                repeated.push(0);
            }
            for (i, point) in outcome.timeline.iter().enumerate() {
                values.push(get(point));
                defined.push(1);
                repeated.push(i16::from(i > 0));
            }
        }
        Self { values: wrap(values), defined: Some(defined), repeated: Some(repeated) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Latency, Steps, TraceFacts};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn reads_back_what_the_json_says() {
        let policy = Outcome {
            name: "best-fit".into(),
            events: 7,
            steps: Some(Steps { total: 70, mean: 10.0, p99: 30, max: 40 }),
            timeline: vec![Point { events: 1, allocated: 64, seconds: 0.5, live: 64, used: 80 }; 3],
            ..Outcome::default()
        };
        let allocator = Outcome {
            name: "glibc".into(),
            kind: Kind::Allocator,
            library: Some("libc.so.6".into()),
            seconds: Some(1.5),
            latency: Some(Latency { p50: 20.0, ..Latency::default() }),
            ..Outcome::default()
        };
        let outcomes = [policy, allocator];
        let documents = [3, 5].map(|process| Document {
            trace: TraceFacts { process, ..TraceFacts::default() },
            results: vec![outcomes[usize::from(process == 5)].clone()],
            ..Document::default()
        });
        let mut file = tempfile::tempfile().unwrap();
        write_parquet(&mut file, &documents.each_ref()).unwrap();

        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().file_metadata().schema_descr().num_columns(), LEAVES.len());
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        for (row, outcome) in rows.iter().zip(&outcomes) {
            let json = serde_json::to_value(outcome).unwrap();
            let columns: Vec<_> = row.get_column_iter().map(|(name, _)| name.clone()).collect();
            for (key, value) in json.as_object().unwrap() {
                let inner = value.as_object().into_iter().flat_map(|fields| fields.keys());
                let flat: Vec<_> = inner.map(|field| format!("{key}_{field}")).collect();
                let names = if flat.is_empty() { vec![key.clone()] } else { flat };
                let is_there = |name: &String| {
                    columns
                        .iter()
                        .any(|column| column == name || column.starts_with(&format!("{name}_")))
                };
                // Of latencies, how fine the clock is stands in the JSON alone.
                let missing =
                    names.iter().find(|name| !is_there(name) && *name != "latency_resolution");
                assert_eq!(missing, None, "{columns:?}");
            }
            let text = row.to_string();
            assert!(text.contains(&format!("name: \"{}\"", outcome.name)), "{text}");
        }
        assert!(rows[0].to_string().contains("process: 3,"), "{}", rows[0]);
        assert!(rows[1].to_string().contains("process: 5,"), "{}", rows[1]);
        assert!(rows[0].to_string().contains("steps_total: 70, steps_mean: 10"));
        assert_eq!(rows[0].to_string().matches("allocated: 64").count(), 3);
        assert!(rows[1].to_string().contains("library: \"libc.so.6\""));
        assert!(rows[1].to_string().contains("latency_p50: 20"));
    }
}
