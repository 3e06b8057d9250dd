//! Streams of another make, and a recording on its own page.

use super::{heads, texts};
use crate::report::html::{self, Cell, Figure};
use crate::report::sheet;
use crate::studies::banks::measure::Row;
use crate::studies::banks::results::Results;
use crate::studies::banks::streams::{Replayed, Seen, tasks};

/// c, and how much was copied for it.
fn judged(row: &Row, best: f64) -> Cell {
    Cell {
        note: Some(format!("{:.3} copied", row.copied_per_freed)),
        best: row.c >= best - 0.0005,
        ..Cell::text(format!("{:.3}", row.c))
    }
}

fn stream(rows: &[Row]) -> Vec<Cell> {
    let first = &rows[0];
    let name = match first.seed {
        0 => format!("{}, recorded", first.workload),
        seed => format!("{}, seed {seed}", first.workload),
    };
    let note = Some(Seen::of(first.seed).words().to_owned());
    let best = rows.iter().map(|row| row.c).fold(0.0, f64::max);
    let mut cells = vec![Cell { note, ..Cell::text(name) }];
    cells.extend(rows.iter().map(|row| judged(row, best)));
    cells.push(Cell::text(format!("{:.3}", first.c_bound)));
    cells.push(Cell::text(format!("{:.0} %", 100.0 - first.free_mean)));
    cells
}

/// Every stream of the study under every task.
pub fn streams(results: &Results, command: &str, out: &mut String) {
    let count = tasks().count();
    if results.streams.is_empty() {
        return;
    }
    out.push_str(
        "<h2 id=\"streams\">Streams of another make</h2><p>The same settings on streams that the policies were not made on: \
         objects that come and go after seconds, minutes or hours; the page allocations of a real kernel; a malloc trace turned \
         into pages. At most 60 pages are copied for a thousand freed, everywhere.</p>",
    );
    let names = std::iter::once(String::new()).chain(tasks());
    let names: Vec<String> =
        names.chain(["could not be passed".to_owned(), "in use".to_owned()]).collect();
    let rows: Vec<Vec<Cell>> = results.streams.chunks_exact(count).map(stream).collect();
    let mut table = String::new();
    html::table(&mut table, "Streams of another make", &names, &rows);
    let lead = "The share of free memory that is off, and below it pages copied for each page freed. Which room pages are moved \
                into: what has lasted twice as long as free memory lies on average until it is used again, as the task itself \
                observes, and the shorter the fewer of the copies allowed are spent; what has lasted 15 s (before; tuned on the moved workloads below); all at once.";
    let title = "Free memory that is off, on streams of other makes";
    Figure { id: "other-makes", title, lead, drawing: &table, table: "", command }.write(out);
}

/// The page of a recording that ran alone.
pub fn page_of_recording(replayed: &Replayed, command: &str) -> String {
    let mut out = sheet::open(
        "study banks",
        "Page frames and memory banks: a recording",
        &format!("{}, on machine {}", replayed.recording, replayed.machine),
        &replayed.answer,
        "Simulated: the recorded calls on a machine with banks that can be switched off; policies and the task that empties \
         banks are the code that a kernel would run.",
        "",
    );
    let names = [
        "policy",
        "free memory that is off",
        "copied per freed",
        "could not be passed",
        "off, of all",
        "sets on an hour",
        "failed requests",
    ];
    let row = |row: &Row| {
        texts([
            format!("{}, {}", row.policy, row.task),
            format!("{:.1} %", row.c * 100.0),
            format!("{:.4}", row.copied_per_freed),
            format!("{:.1} %", row.c_bound * 100.0),
            format!("{:.1} %", row.offline_mean),
            format!("{:.0}", row.onlines_per_hour),
            row.failed.to_string(),
        ])
    };
    let rows: Vec<Vec<Cell>> = replayed.rows.iter().map(row).collect();
    let mut table = String::new();
    html::table(&mut table, "Every policy on the recording", &heads(&names), &rows);
    out.push_str("<h2 id=\"policies\">Every policy</h2>");
    let lead = "Lasting: which room pages are moved into, what has lasted as long as the task observes that free memory lies \
                until it is used again, 15 s, or all at once. Could not be passed: the pages of each zone in as few banks as hold \
                them.";
    Figure {
        id: "recorded",
        title: "The recording under every policy",
        lead,
        drawing: &table,
        table: "",
        command,
    }
    .write(&mut out);
    out.push_str("<h2 id=\"recording\">The recording</h2>");
    let facts = [
        ("events", replayed.events.to_string()),
        ("seconds", replayed.seconds.to_string()),
        ("most memory held, of the machine", format!("{:.1} %", replayed.peak_percent)),
        ("frees of what was there before", replayed.unknown_frees.to_string()),
        ("frees that are missing", replayed.lost_frees.to_string()),
    ];
    let rows: Vec<Vec<Cell>> =
        facts.into_iter().map(|(what, value)| texts([what.to_owned(), value])).collect();
    let mut table = String::new();
    html::table(&mut table, "The recording", &heads(&["", "value"]), &rows);
    Figure {
        id: "facts",
        title: "What was recorded",
        lead: "",
        drawing: &table,
        table: "",
        command,
    }
    .write(&mut out);
    let remark = "";
    sheet::close(&mut out, "freehold-recording.json", replayed, replayed.schema_version, remark);
    out
}
