//! Parquet: the rows of [`super::row`], zstd, a row group every 2^18 events; and the site of what asked for memory, as a dictionary.

use super::row::{Called, SiteOf, called};
use super::{Control, ExportError};
use crate::header::Header;
use crate::records::Records;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use ::parquet::schema::parser::parse_message_type;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows of a row group: what is held in memory.
const GROUP: usize = 1 << 18;

const SCHEMA: &str = "message event {
  required int64 tick (INTEGER(64,false));
  required double seconds;
  required int32 process (INTEGER(32,false));
  required int32 thread (INTEGER(32,false));
  required binary event (UTF8);
  optional int32 object (INTEGER(32,false));
  optional binary api (UTF8);
  optional int64 size (INTEGER(64,false));
  optional int64 usable (INTEGER(64,false));
  optional int64 align (INTEGER(64,false));
  optional boolean remote;
  optional int64 began (INTEGER(64,false));
  optional int64 offset (INTEGER(64,false));
  optional int32 child (INTEGER(32,false));
  optional binary site (UTF8);
}";

/// Writes all events that `records` gives; `expected` is for progress. Returns their number.
///
/// # Errors
/// When reading or writing fails, or the caller stops it.
pub fn parquet(
    header: &Header,
    records: &mut Records,
    expected: u64,
    site_of: SiteOf<'_>,
    out: &mut (dyn Write + Send),
    control: &mut Control<'_>,
) -> Result<u64, ExportError> {
    let mut file = open(header, out).map_err(plain)?;
    let mut rows = Vec::with_capacity(GROUP.min(expected as usize));
    let mut written = 0;
    while let Some(run) = records.next_run()? {
        for called in called(&run) {
            rows.push(called);
            written += 1;
            if rows.len() == GROUP {
                write_group(&mut file, header, &rows, site_of).map_err(plain)?;
                rows.clear();
            }
            if !control.goes_on(written, expected) {
                return Err(ExportError::Interrupted);
            }
        }
    }
    if !rows.is_empty() {
        write_group(&mut file, header, &rows, site_of).map_err(plain)?;
    }
    file.close().map_err(plain)?;
    Ok(written)
}

type File<'a> = SerializedFileWriter<&'a mut (dyn Write + Send)>;

fn open<'a>(header: &Header, out: &'a mut (dyn Write + Send)) -> Result<File<'a>, ParquetError> {
    let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let facts = vec![
        pair("freehold.ticks_per_second", header.ticks_per_second.to_string()),
        pair("freehold.command", header.command.join(" ")),
    ];
    let properties = WriterProperties::builder()
        .set_created_by("freehold".into())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_key_value_metadata(Some(facts))
        .build();
    SerializedFileWriter::new(out, Arc::new(parse_message_type(SCHEMA)?), Arc::new(properties))
}

/// Columns must come in the order of the schema.
fn write_group(
    file: &mut File<'_>,
    header: &Header,
    rows: &[Called],
    site_of: SiteOf<'_>,
) -> Result<(), ParquetError> {
    let mut group = file.next_row_group()?;
    let g = &mut group;
    let text = |text: &'static str| ByteArray::from(text.as_bytes().to_vec());
    let ticks_per_second = header.ticks_per_second.max(1) as f64;
    required::<Int64Type>(g, rows, |Called { row, .. }| row.tick as i64)?;
    required::<DoubleType>(g, rows, |Called { row, .. }| row.tick as f64 / ticks_per_second)?;
    required::<Int32Type>(g, rows, |Called { row, .. }| row.process as i32)?;
    required::<Int32Type>(g, rows, |Called { row, .. }| row.thread as i32)?;
    required::<ByteArrayType>(g, rows, |Called { row, .. }| text(row.event))?;
    optional::<Int32Type>(g, rows, |Called { row, .. }| row.object.map(|v| v as i32))?;
    optional::<ByteArrayType>(g, rows, |Called { row, .. }| row.api.map(text))?;
    optional::<Int64Type>(g, rows, |Called { row, .. }| row.size.map(|v| v as i64))?;
    optional::<Int64Type>(g, rows, |Called { row, .. }| row.usable.map(|v| v as i64))?;
    optional::<Int64Type>(g, rows, |Called { row, .. }| row.align.map(|v| v as i64))?;
    optional::<BoolType>(g, rows, |Called { row, .. }| row.remote)?;
    optional::<Int64Type>(g, rows, |Called { row, .. }| row.began.map(|v| v as i64))?;
    optional::<Int64Type>(g, rows, |Called { row, .. }| row.offset.map(|v| v as i64))?;
    optional::<Int32Type>(g, rows, |Called { row, .. }| row.child.map(|v| v as i32))?;
    optional::<ByteArrayType>(g, rows, |called| called.site(site_of).map(ByteArray::from))?;
    group.close()?;
    Ok(())
}

type Group<'a, 'b> = SerializedRowGroupWriter<'a, &'b mut (dyn Write + Send)>;

fn required<T: DataType>(
    group: &mut Group<'_, '_>,
    rows: &[Called],
    value: impl Fn(&Called) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    write_column::<T>(group, &values, None)
}

fn optional<T: DataType>(
    group: &mut Group<'_, '_>,
    rows: &[Called],
    value: impl Fn(&Called) -> Option<T::T>,
) -> Result<(), ParquetError> {
    let mut values = Vec::new();
    let mut levels = Vec::with_capacity(rows.len());
    for value in rows.iter().map(value) {
        levels.push(i16::from(value.is_some()));
        values.extend(value);
    }
    write_column::<T>(group, &values, Some(&levels))
}

fn write_column<T: DataType>(
    group: &mut Group<'_, '_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("the schema has fewer columns than are written".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

/// What really failed is mostly the output, and an output's error says what to do.
fn plain(error: ParquetError) -> ExportError {
    ExportError::Write(match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    })
}
