//! Every run as a row of a Parquet file.

use super::measure::Row;
use super::results::Results;
use crate::studies::columns::{
    self,
    Column::{self, Real, Text, Whole},
};
use std::io::{self, Write};

/// Every column; the names are those of the fields.
const COLUMNS: &[(&str, Column<Row>)] = &[
    ("machine", Text(|row| &row.machine)),
    ("workload", Text(|row| &row.workload)),
    ("policy", Text(|row| &row.policy)),
    ("task", Text(|row| &row.task)),
    ("seed", Whole(|row| row.seed)),
    ("offline_mean", Real(|row| row.offline_mean)),
    ("offline_max", Real(|row| row.offline_max)),
    ("best_mean", Real(|row| row.best_mean)),
    ("free_mean", Real(|row| row.free_mean)),
    ("c", Real(|row| row.c)),
    ("c_bound", Real(|row| row.c_bound)),
    ("c_min", Real(|row| row.c_min)),
    ("c_max", Real(|row| row.c_max)),
    ("of_best", Real(|row| row.of_best)),
    ("copied_per_freed", Real(|row| row.copied_per_freed)),
    ("copied_per_offlined", Real(|row| row.copied_per_offlined)),
    ("onlines_per_hour", Real(|row| row.onlines_per_hour)),
    ("pinned", Real(|row| row.pinned)),
    ("pinned_least", Real(|row| row.pinned_least)),
    ("far_percent", Real(|row| row.far_percent)),
    ("failed", Whole(|row| row.failed)),
    ("copied_gib", Real(|row| row.copied_gib)),
    ("offlined_gib", Real(|row| row.offlined_gib)),
    ("requests_million", Real(|row| row.requests_million)),
];

/// Writes every run of the study as one Parquet file.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write_rows(to: &mut (dyn Write + Send), results: &Results) -> io::Result<()> {
    let parts = [
        &results.tables,
        &results.sweep,
        &results.ablations,
        &results.robustness,
        &results.streams,
    ];
    let rows: Vec<Row> = parts.into_iter().flatten().cloned().collect();
    columns::write(to, "run", COLUMNS, &rows)
}
