//! Comma-separated values (RFC 4180; nothing needs quoting), a header line, empty for "none".

use super::row::{COLUMNS, Row};
use super::{Control, ExportError};
use crate::header::Header;
use crate::records::Records;
use std::io::{self, Write};

/// Writes all events that `records` gives; `expected` is for progress. Returns their number.
///
/// # Errors
/// When reading or writing fails, or the caller stops it.
pub fn csv(
    header: &Header,
    records: &mut Records,
    expected: u64,
    out: &mut dyn Write,
    control: &mut Control<'_>,
) -> Result<u64, ExportError> {
    writeln!(out, "{}", COLUMNS.join(","))?;
    let mut written = 0;
    while let Some(record) = records.next()? {
        let row = Row::from(&record);
        write_row(out, &row, header.seconds(record.tick))?;
        written += 1;
        if !control.goes_on(written, expected) {
            return Err(ExportError::Interrupted);
        }
    }
    out.flush()?;
    Ok(written)
}

fn write_row(out: &mut dyn Write, row: &Row, seconds: f64) -> io::Result<()> {
    let Row { tick, process, thread, event, .. } = row;
    write!(out, "{tick},{seconds:.9},{process},{thread},{event},")?;
    field(out, row.object)?;
    write!(out, "{},", row.api.unwrap_or(""))?;
    for number in [row.size, row.usable, row.align] {
        field(out, number)?;
    }
    field(out, row.remote.map(u8::from))?;
    field(out, row.began)?;
    field(out, row.offset)?;
    match row.child {
        Some(child) => writeln!(out, "{child}"),
        None => writeln!(out),
    }
}

fn field(out: &mut dyn Write, value: Option<impl std::fmt::Display>) -> io::Result<()> {
    match value {
        Some(value) => write!(out, "{value},"),
        None => write!(out, ","),
    }
}
