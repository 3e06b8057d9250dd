//! All cells as one Parquet file: what was swept over, then what was found, one flat row after the other.
//!
//! Rows are written some ten thousand at a time, so that memory does not grow with the sweep.

use super::found::{Found, Kind};
use super::limit::Limit;
use super::plan::{Job, Plan, Subject, file_name};
use super::rows;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::Arc;

/// Rows of a group.
const GROUP: usize = 1 << 14;

/// Writes the cells in the order of the plan; `found` gives what a cell found.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write(
    to: &mut (dyn Write + Send),
    plan: &Plan,
    mut found: impl FnMut(&Job) -> Found,
) -> io::Result<()> {
    let columns = columns(plan, &mut found);
    try_write(to, plan, &columns, found).map_err(|error| match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    })
}

/// What was swept over; `error`; what was found.
fn columns(plan: &Plan, found: &mut impl FnMut(&Job) -> Found) -> Vec<(String, Kind)> {
    let is_replay = |job: &Job| matches!(job.cell.subject, Subject::Replay { .. });
    let replays = plan.jobs.first().is_none_or(is_replay);
    let head: &[(&str, Kind)] = match replays {
        true => &[
            ("trace", Kind::Text),
            ("trace_hash", Kind::Text),
            ("on", Kind::Text),
            ("limit", Kind::Real),
        ],
        false => &[("study", Kind::Text)],
    };
    let mut all: Vec<(String, Kind)> =
        head.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    all.extend(plan.set.iter().map(|name| (name.clone(), kind_of_setting(plan, name))));
    all.push(("error".to_owned(), Kind::Text));
    let rest = match replays {
        true => rows::columns(),
        // All runs of a study have the same columns: those of the first that succeeded.
        false => plan
            .jobs
            .iter()
            .map(|job| found(job).columns)
            .find(|columns| !columns.is_empty())
            .unwrap_or_default(),
    };
    // A study may call a column as a setting is called: what was set stands for both.
    let new: Vec<_> =
        rest.into_iter().filter(|(name, _)| !all.iter().any(|(other, _)| other == name)).collect();
    all.extend(new);
    all
}

/// Numbers where all its values are.
fn kind_of_setting(plan: &Plan, name: &str) -> Kind {
    let values = plan.jobs.iter().flat_map(|job| &job.cell.set);
    let mut values = values.filter(|(other, _)| other == name).map(|(_, value)| value);
    match values.clone().all(|value| value.parse::<i64>().is_ok()) {
        true => Kind::Whole,
        false if values.all(|value| value.parse::<f64>().is_ok()) => Kind::Real,
        false => Kind::Text,
    }
}

/// What was swept over, for one cell, by column.
fn head(job: &Job, name: &str, kind: Kind) -> Option<Value> {
    if let Some((_, value)) = job.cell.set.iter().find(|(other, _)| other == name) {
        return Some(match kind {
            Kind::Text => json!(value),
            Kind::Whole => json!(value.parse::<i64>().ok()),
            Kind::Real => json!(value.parse::<f64>().ok()),
        });
    }
    match (&job.cell.subject, name) {
        (Subject::Replay { trace, .. }, "trace") => Some(json!(file_name(trace))),
        (Subject::Replay { .. }, "trace_hash") => Some(json!(job.trace_hash)),
        (Subject::Replay { on, .. }, "on") => Some(json!(on)),
        (Subject::Replay { limit, .. }, "limit") => Some(match limit {
            Limit::Times(times) => json!(times),
            _ => Value::Null,
        }),
        (Subject::Study { name, .. }, "study") => Some(json!(name)),
        _ => None,
    }
}

/// A limit in bytes is known whatever came of the cell.
fn limit_of_failed(job: &Job, name: &str) -> Value {
    match &job.cell.subject {
        Subject::Replay { limit: Limit::Bytes(bytes), .. } if name == "limit_bytes" => json!(bytes),
        _ => Value::Null,
    }
}

/// The cell's rows, a value a column of the dataset.
fn rows_of(job: &Job, found: &Found, columns: &[(String, Kind)]) -> Vec<Vec<Value>> {
    let at: Vec<Option<usize>> = columns
        .iter()
        .map(|(name, _)| found.columns.iter().position(|(other, _)| other == name))
        .collect();
    let row = |row: Option<&Vec<Value>>| {
        let value = |((name, kind), at): (&(String, Kind), &Option<usize>)| match (row, at) {
            _ if name == "error" => json!(found.error),
            _ if head(job, name, *kind).is_some() => head(job, name, *kind).unwrap_or_default(),
            (Some(row), Some(at)) => row.get(*at).cloned().unwrap_or_default(),
            _ => limit_of_failed(job, name),
        };
        columns.iter().zip(&at).map(value).collect()
    };
    match found.error {
        Some(_) => vec![row(None)],
        None => found.rows.iter().map(|one| row(Some(one))).collect(),
    }
}

fn try_write(
    to: &mut (dyn Write + Send),
    plan: &Plan,
    columns: &[(String, Kind)],
    mut found: impl FnMut(&Job) -> Found,
) -> Result<(), ParquetError> {
    let properties = WriterProperties::builder().set_created_by("freehold".into()).build();
    let mut file = SerializedFileWriter::new(to, Arc::new(schema(columns)?), Arc::new(properties))?;
    let mut rows = Vec::new();
    for job in &plan.jobs {
        rows.extend(rows_of(job, &found(job), columns));
        if rows.len() >= GROUP {
            write_group(&mut file, columns, &rows)?;
            rows.clear();
        }
    }
    if !rows.is_empty() {
        write_group(&mut file, columns, &rows)?;
    }
    file.close()?;
    Ok(())
}

fn schema(columns: &[(String, Kind)]) -> Result<Type, ParquetError> {
    let field = |(name, kind): &(String, Kind)| {
        let (physical, logical) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Whole => (Physical::INT64, None),
            Kind::Real => (Physical::DOUBLE, None),
        };
        let builder = Type::primitive_type_builder(name, physical);
        let builder = builder.with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
        builder.build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("cell").with_fields(fields).build()
}

fn write_group<W: Write + Send>(
    file: &mut SerializedFileWriter<W>,
    columns: &[(String, Kind)],
    rows: &[Vec<Value>],
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    for (at, (_, kind)) in columns.iter().enumerate() {
        let Some(mut writer) = group.next_column()? else { break };
        let values = rows.iter().map(|row| &row[at]);
        match kind {
            Kind::Text => {
                let (values, defined) = cells(values, |v| v.as_str().map(ByteArray::from));
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&defined), None)?
            }
            Kind::Whole => {
                // Unsigned numbers are stored as INT64.
                let whole = |v: &Value| v.as_i64().or_else(|| v.as_u64().map(|n| n as i64));
                let (values, defined) = cells(values, whole);
                writer.typed::<Int64Type>().write_batch(&values, Some(&defined), None)?
            }
            Kind::Real => {
                let (values, defined) = cells(values, Value::as_f64);
                writer.typed::<DoubleType>().write_batch(&values, Some(&defined), None)?
            }
        };
        writer.close()?;
    }
    group.close()?;
    Ok(())
}

/// The values that there are, and for each row whether it has one.
fn cells<'a, T>(
    rows: impl Iterator<Item = &'a Value>,
    read: impl Fn(&Value) -> Option<T>,
) -> (Vec<T>, Vec<i16>) {
    let (mut values, mut defined) = (Vec::new(), Vec::new());
    for row in rows {
        let value = read(row);
        defined.push(i16::from(value.is_some()));
        values.extend(value);
    }
    (values, defined)
}
