//! Every run as a row of a Parquet file.

use super::measure::Row;
use crate::studies::columns::{
    self,
    Column::{self, Real, Text, Whole},
};
use std::io::{self, Write};

/// Every column; the names are those of the fields.
const COLUMNS: &[(&str, Column<Row>)] = &[
    ("load", Text(|row| &row.load)),
    ("platform", Text(|row| &row.platform)),
    ("nodes", Whole(|row| row.nodes)),
    ("allocator", Text(|row| row.allocator)),
    ("order", Text(|row| row.order)),
    ("variant", Text(|row| &row.variant)),
    ("policy", Text(|row| row.policy)),
    ("think", Whole(|row| row.think)),
    ("repeat", Whole(|row| row.repeat)),
    ("events", Whole(|row| row.events)),
    ("cycles", Real(|row| row.cycles)),
    ("travel", Real(|row| row.travel)),
    ("queued", Real(|row| row.queued)),
    ("wait", Real(|row| row.wait)),
    ("search", Real(|row| row.search)),
    ("work", Real(|row| row.work)),
    ("messages", Real(|row| row.messages)),
    ("instructions", Real(|row| row.instructions)),
    ("accesses", Real(|row| row.accesses)),
    ("asked", Real(|row| row.asked)),
    ("remote", Real(|row| row.remote)),
    ("refused", Whole(|row| row.refused)),
    ("spurious", Whole(|row| row.spurious)),
    ("fairness", Real(|row| row.fairness)),
    ("worst_over_mean", Real(|row| row.worst_over_mean)),
    ("fewest_calls", Whole(|row| row.fewest_calls)),
    ("share", Real(|row| row.share)),
    ("elapsed", Whole(|row| row.elapsed)),
    ("total", Real(|row| row.total)),
];

/// Writes the rows as one Parquet file.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write_rows(to: &mut (dyn Write + Send), rows: &[Row]) -> io::Result<()> {
    columns::write(to, "run", COLUMNS, rows)
}
