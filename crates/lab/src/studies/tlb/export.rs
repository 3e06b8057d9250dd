//! Every simulated run as a row of a Parquet file.

use super::tables::Row;
use crate::studies::columns::{
    self,
    Column::{self, Real, Text, Whole},
};
use std::io::{self, Write};

/// Every column; the names are those of the fields.
const COLUMNS: &[(&str, Column<Row>)] = &[
    ("policy", Text(|row| &row.policy)),
    ("tlb", Text(|row| row.tlb)),
    ("page_bytes", Whole(|row| row.page_bytes)),
    ("divisor", Whole(|row| row.divisor.into())),
    ("processors", Whole(|row| row.processors.into())),
    ("sharing", Text(|row| row.sharing)),
    ("dealing", Text(|row| row.dealing)),
    ("accesses", Whole(|row| row.accesses)),
    ("tlb_misses", Whole(|row| row.tlb_misses)),
    ("time_ns", Whole(|row| row.time_ns)),
    ("tlb_ns", Whole(|row| row.tlb_ns)),
    ("lock_wait_ns", Whole(|row| row.lock_wait_ns)),
    ("idle_ns", Whole(|row| row.idle_ns)),
    ("calls", Whole(|row| row.calls)),
    ("contended", Whole(|row| row.contended)),
    ("first_hits", Real(|row| row.first_hits)),
    ("either_hits", Real(|row| row.either_hits)),
    ("second_hits", Real(|row| row.second_hits)),
];

/// Writes the rows as one Parquet file.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write_rows(to: &mut (dyn Write + Send), rows: &[Row]) -> io::Result<()> {
    columns::write(to, "run", COLUMNS, rows)
}
