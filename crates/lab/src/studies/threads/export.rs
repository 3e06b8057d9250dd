//! Every run as a row of a Parquet file. What was not measured is NaN, or 0 where it is a count.

use super::super::columns::{self, Column};
use super::measure::Row;
use super::plan::Subject;
use std::io::{self, Write};

/// A row with its names.
struct Named {
    row: Row,
    on: String,
    fit: &'static str,
    blocks: &'static str,
    sharing: &'static str,
}

const COLUMNS: &[(&str, Column<Named>)] = &[
    ("experiment", Column::Text(|it| it.row.cell.experiment.name())),
    ("on", Column::Text(|it| &it.on)),
    ("fit", Column::Text(|it| it.fit)),
    ("blocks", Column::Text(|it| it.blocks)),
    ("sharing", Column::Text(|it| it.sharing)),
    ("pattern", Column::Text(|it| it.row.cell.pattern.name())),
    ("threads", Column::Whole(|it| it.row.cell.threads as u64)),
    ("run", Column::Whole(|it| it.row.run.into())),
    ("sequences", Column::Whole(|it| it.row.sequences)),
    ("time_ns", Column::Whole(|it| it.row.took.wall_ns)),
    ("with_threads_ns", Column::Whole(|it| it.row.took.whole_ns)),
    ("processor_ns", Column::Whole(|it| it.row.took.processor_ns)),
    ("switches_voluntary", Column::Whole(|it| it.row.took.voluntary)),
    ("switches_involuntary", Column::Whole(|it| it.row.took.involuntary)),
    ("failed", Column::Whole(|it| it.row.failed)),
    ("heap_bytes", Column::Whole(|it| it.row.heap_bytes)),
    ("free_blocks", Column::Whole(|it| it.row.blocks.map_or(0, |blocks| blocks.0))),
    ("used_blocks", Column::Whole(|it| it.row.blocks.map_or(0, |blocks| blocks.1))),
    ("external", Column::Real(|it| it.row.external.unwrap_or(f64::NAN))),
    ("searches_in_vain", Column::Real(|it| it.row.in_vain.unwrap_or(f64::NAN))),
    ("readers_overtaken", Column::Whole(|it| it.row.starvation.map_or(0, |s| s.overtaken))),
    ("most_overtaken", Column::Whole(|it| it.row.starvation.map_or(0, |s| s.most))),
    ("call_p50_ns", Column::Whole(|it| it.row.latency.map_or(0, |l| l.p50_ns.into()))),
    ("call_p99_ns", Column::Whole(|it| it.row.latency.map_or(0, |l| l.p99_ns.into()))),
    ("call_max_ns", Column::Whole(|it| it.row.latency.map_or(0, |l| l.max_ns.into()))),
    ("lock_taken", Column::Whole(|it| it.row.locks.taken)),
    ("lock_contended", Column::Whole(|it| it.row.locks.contended)),
    ("lock_wait_ns", Column::Whole(|it| it.row.locks.wait_ns)),
    ("lock_hold_ns", Column::Whole(|it| it.row.locks.hold_ns)),
];

/// Writes every run; `mallocs` are the allocators' names.
///
/// # Errors
/// Whatever `to` refuses.
pub fn write_rows(to: &mut (dyn Write + Send), rows: &[Row], mallocs: &[String]) -> io::Result<()> {
    let named: Vec<Named> = rows
        .iter()
        .map(|row| {
            let heap = match row.cell.subject {
                Subject::Heap(heap) => Some(heap),
                _ => None,
            };
            Named {
                row: row.clone(),
                on: super::rows::On::of(&row.cell.subject, mallocs).name,
                fit: heap.map_or("", |heap| heap.fit.name()),
                blocks: heap.map_or("", |heap| heap.blocks.name()),
                sharing: heap.map_or("", |heap| heap.sharing.name()),
            }
        })
        .collect();
    columns::write(to, "run", COLUMNS, &named)
}
