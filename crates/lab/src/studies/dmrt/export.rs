//! Every attempt's row as Parquet: what the chapter calls its annexure.

use super::measure::Row;
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;

/// How a column is read off a row.
enum Column {
    Text(fn(&Row) -> &str),
    Whole(fn(&Row) -> u64),
    Real(fn(&Row) -> f64),
}

use Column::{Real, Text, Whole};

/// Every column; the names are those of the fields.
const COLUMNS: &[(&str, Column)] = &[
    ("case", Whole(|row| row.case.into())),
    ("requests", Whole(|row| row.requests.into())),
    ("allocator", Text(|row| row.allocator)),
    ("path", Text(|row| &row.path)),
    ("attempt", Whole(|row| row.attempt.into())),
    ("satisfied", Whole(|row| row.satisfied.into())),
    ("bytes", Whole(|row| row.bytes)),
    ("bytes_satisfied", Whole(|row| row.bytes_satisfied)),
    ("small", Whole(|row| row.by_class[0].into())),
    ("small_satisfied", Whole(|row| row.by_class_satisfied[0].into())),
    ("normal", Whole(|row| row.by_class[1].into())),
    ("normal_satisfied", Whole(|row| row.by_class_satisfied[1].into())),
    ("large", Whole(|row| row.by_class[2].into())),
    ("large_satisfied", Whole(|row| row.by_class_satisfied[2].into())),
    ("from_local", Whole(|row| row.from_local.into())),
    ("from_shared", Whole(|row| row.from_shared.into())),
    ("from_remote", Whole(|row| row.from_remote.into())),
    ("failed_with_room", Whole(|row| row.failed_with_room.into())),
    ("ns", Whole(|row| row.ns)),
    ("steps", Whole(|row| row.steps)),
    ("steps_mean", Real(|row| row.steps_mean)),
    ("steps_p99", Whole(|row| row.steps_p99)),
    ("steps_max", Whole(|row| row.steps_max)),
    ("external", Real(|row| row.external)),
    ("internal", Real(|row| row.internal)),
    ("jw3", Real(|row| row.jw3)),
    ("jw4", Real(|row| row.jw4)),
];

fn schema() -> String {
    let mut text = "message attempt {".to_owned();
    for (name, column) in COLUMNS {
        let kind = match column {
            Text(_) => format!("binary {name} (UTF8)"),
            Whole(_) => format!("int64 {name}"),
            Real(_) => format!("double {name}"),
        };
        let _ = write!(text, " required {kind};");
    }
    text + " }"
}

/// Writes the rows as one Parquet file.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write_rows(to: &mut (dyn Write + Send), rows: &[Row]) -> io::Result<()> {
    try_write(to, rows).map_err(|error| match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    })
}

fn try_write(to: &mut (dyn Write + Send), rows: &[Row]) -> Result<(), ParquetError> {
    let schema = Arc::new(parse_message_type(&schema())?);
    let properties = WriterProperties::builder().set_created_by("freehold".into()).build();
    let mut file = SerializedFileWriter::new(to, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for (_, column) in COLUMNS {
        let Some(mut writer) = group.next_column()? else { break };
        match column {
            Text(get) => {
                let values: Vec<ByteArray> = rows.iter().map(|row| get(row).into()).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, None, None)?
            }
            Whole(get) => {
                let values: Vec<i64> = rows.iter().map(|row| get(row) as i64).collect();
                writer.typed::<Int64Type>().write_batch(&values, None, None)?
            }
            Real(get) => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn every_row_reads_back() {
        let row = Row {
            case: 2,
            requests: 1000,
            allocator: "tlsf",
            path: "local".into(),
            external: 0.25,
            ..Row::default()
        };
        let mut file = tempfile::tempfile().unwrap();
        write_rows(&mut file, &[row.clone(), Row { attempt: 1, ..row }]).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        assert_eq!(reader.metadata().file_metadata().schema_descr().num_columns(), COLUMNS.len());
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 2);
        assert!(rows[1].contains("allocator: \"tlsf\"") && rows[1].contains("external: 0.25"));
        assert!(rows[1].contains("attempt: 1"));
    }
}
