//! Flat rows as Parquet: a name and a way to read it for every column, nothing more.

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

/// How a column is read off a row. Unsigned numbers are stored as INT64.
pub enum Column<R> {
    /// UTF-8.
    Text(fn(&R) -> &str),
    /// A whole number.
    Whole(fn(&R) -> u64),
    /// A real number.
    Real(fn(&R) -> f64),
}

/// Writes the rows as one Parquet file; `name` names a row.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write<R>(
    to: &mut (dyn Write + Send),
    name: &str,
    columns: &[(&str, Column<R>)],
    rows: &[R],
) -> io::Result<()> {
    try_write(to, name, columns, rows).map_err(|error| match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    })
}

fn schema<R>(row: &str, columns: &[(&str, Column<R>)]) -> String {
    let mut text = format!("message {row} {{");
    for (name, column) in columns {
        let kind = match column {
            Column::Text(_) => format!("binary {name} (UTF8)"),
            Column::Whole(_) => format!("int64 {name}"),
            Column::Real(_) => format!("double {name}"),
        };
        let _ = write!(text, " required {kind};");
    }
    text + " }"
}

fn try_write<R>(
    to: &mut (dyn Write + Send),
    name: &str,
    columns: &[(&str, Column<R>)],
    rows: &[R],
) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(&schema(name, columns))?);
    let properties = WriterProperties::builder().set_created_by("freehold".into()).build();
    let mut file = SerializedFileWriter::new(to, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for (_, column) in columns {
        let Some(mut writer) = group.next_column()? else { break };
        match column {
            Column::Text(get) => {
                let values: Vec<ByteArray> = rows.iter().map(|row| get(row).into()).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?
            }
            Column::Whole(get) => {
                let values: Vec<i64> = rows.iter().map(|row| get(row) as i64).collect();
                writer.typed::<Int64Type>().write_batch(&values, None, None)?
            }
            Column::Real(get) => {
                let values: Vec<f64> = rows.iter().map(get).collect();
                writer.typed::<DoubleType>().write_batch(&values, None, None)?
            }
        };
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}
