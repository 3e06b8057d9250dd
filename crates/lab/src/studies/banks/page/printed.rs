//! Tables of the thesis that stand as printed, with ours where there is one, and what differs.

use super::{heads, texts};
use crate::report::html::{self, Cell, Escaped, Figure};
use crate::studies::banks::published::{Printed, cell, printed};
use crate::studies::banks::results::Results;
use crate::studies::banks::speed::Timed;
use freehold_core::frames::MOST_STEPS;
use std::fmt::Write;

fn as_printed(table: &Printed) -> String {
    let rows: Vec<Vec<Cell>> =
        table.rows.iter().map(|row| texts(row.iter().map(|&cell| cell.to_owned()))).collect();
    let mut html = String::new();
    html::table(&mut html, table.title, &heads(&table.heads), &rows);
    html
}

fn figure(out: &mut String, number: &str, lead: &str, ours: &str, command: &str) {
    let Some(table) = printed(number) else { return };
    let title = format!("Table {number}: {}", table.title);
    let drawing = as_printed(&table) + ours;
    let id = format!("table-{}", number.replace('.', "-"));
    Figure { id: &id, title: &title, lead, drawing: &drawing, table: "", command }.write(out);
}

/// Tables 1.1 and 1.2: what energy is reckoned from.
pub fn power(command: &str, out: &mut String) {
    let lead = "As printed; our settings name a row of it. The second row's product is 84.8 W.";
    figure(out, "1.1", lead, "", command);
    figure(out, "1.2", "As printed; [states.thesis] of our settings.", "", command);
}

/// Tables 4.1 and 4.2.
pub fn structures(results: &Results, command: &str, out: &mut String) {
    out.push_str(
        "<h2 id=\"structures\">Tables 4.1 and 4.2: interleaving and structures</h2><p>Ours keeps lists only where a pool needs \
         them, and keeps them with their bank.</p>",
    );
    let lead = "As printed. Ours ties bank b to bank b + 32 within each node of 64, so the last row is 112-127.";
    figure(out, "4.1", lead, "", command);
    let rows: Vec<Vec<Cell>> = results
        .sizes
        .iter()
        .map(|size| texts([size.policy.to_owned(), size.zone.to_string(), size.whole.to_string()]))
        .collect();
    let mut ours = String::new();
    let names = ["ours", "what every call touches, bytes", "with all areas and bank sets, bytes"];
    html::table(&mut ours, "Sizes of ours", &heads(&names), &rows);
    let lead = "Printed above, ours below, for a zone of 64 banks; frames' own metadata (1 byte each under adaptive and \
                fullest, 9 under the others, Linux 64) is not in it. \
                With only the lists that a pool needs the thesis comes to 2,368 bytes for a zone.";
    figure(out, "4.2", lead, &ours, command);
}

/// Table 6.1.
pub fn times(times: &[Timed], command: &str, out: &mut String) {
    out.push_str(
        "<h2 id=\"times\">Table 6.1: time of an allocation</h2><p>Measured, not simulated: the same sequence on the code that \
         ships, alone on one processor of whatever machine made this page. These numbers are in no other file of the study but \
         times.json, because they differ from run to run.</p>",
    );
    let rows: Vec<Vec<Cell>> = times
        .iter()
        .map(|timed| {
            let row = thesis_row(timed.pages);
            let column = if timed.policy.starts_with("buddy") { 2 } else { 3 };
            let of = |column: usize| row.and_then(|row| cell("6.1", row, column));
            let shown = matches!(timed.policy, "buddy" | "adaptive-paper");
            let beside = |ours: String, printed: Option<f64>| Cell {
                note: printed.filter(|_| shown).map(|printed| format!("thesis {printed}")),
                ..Cell::text(ours)
            };
            vec![
                Cell::text(format!("{}, {} pages", timed.policy, timed.pages)),
                beside(format!("{:.1}", timed.mean_ns), of(column)),
                Cell::text(timed.p999_ns.to_string()),
                beside(timed.worst_ns.to_string(), of(column + 2)),
                Cell::text(format!("{:.1}", timed.free_ns)),
            ]
        })
        .collect();
    let mut table = String::new();
    let names = ["policy", "mean, ns", "99.9 %, ns", "longest, ns", "free, mean, ns"];
    html::table(&mut table, "Time of an allocation", &heads(&names), &rows);
    let lead = format!(
        "Single pages, none freed before the end. The thesis timed Linux's function under SystemTap, 250 to 285 ns of \
         which most is the probe; its longest calls of 21 µs are banks that change their pool block by block. Ours does \
         that in at most {MOST_STEPS} counted steps; the longest here are interrupts."
    );
    let drawing = if times.is_empty() {
        "<p>Not measured: leave --no-times out.</p>".to_owned()
    } else {
        table
    };
    let title = "Table 6.1: allocation time of a long sequence";
    Figure { id: "table-6-1", title, lead: &lead, drawing: &drawing, table: "", command }
        .write(out);
}

/// The name of a row of table 6.1.
fn thesis_row(pages: u32) -> Option<&'static str> {
    Some(match pages {
        10_000 => "1 x 10⁴",
        100_000 => "1 x 10⁵",
        1_000_000 => "1 x 10⁶",
        2_000_000 => "2 x 10⁶",
        4_000_000 => "4 x 10⁶",
        _ => return None,
    })
}

/// What is not here, what is assumed, and the thesis's slips.
pub fn differences(results: &Results, out: &mut String) {
    out.push_str("<h2 id=\"differences\">Where ours differs</h2><p>And what the thesis does not settle.</p><figure><ul>");
    let points = [
        "Workloads are synthetic: processes, page cache, kernel pages, builds and file storms, with the footprint held within \
         the printed bounds. Their means were set by table 5.2's optimum before any policy was run.",
        "The thesis prints no threshold of its migration task. One was fitted to its two c, with files in tmpfs, whose pages \
         move; with files in ramfs that of medium does not come out. The bytes copied, the maxima, interleaving and the small machine are predictions.",
        "A zone for 32-bit devices is left out: with interleaving its banks would be tied to another zone's.",
        "Recorded streams: kernel events as text, by --trace. trace-cmd's binary file goes through trace-cmd report.",
        "Of chapter 6, kernbench, filebench, PARSEC, AIM9 and lmbench need a patched kernel and are not reproduced. Its claim, no \
         observable difference, has a counterpart above: real programs with the giving back of memory on and off.",
    ];
    let slips = results.slips.iter().map(String::as_str);
    for point in points.into_iter().chain(slips) {
        let _ = write!(out, "<li>{}</li>", Escaped(point));
    }
    out.push_str("</ul></figure>");
}
