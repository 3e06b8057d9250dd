//! The table that stands first, and every printed figure with its verdict.

use super::{ALLOWED, heads, texts};
use crate::report::html::{self, Cell, Figure};
use crate::studies::banks::answer::c_at;
use crate::studies::banks::results::{BEST, PUBLISHED, Results, STOCK};
use crate::studies::banks::verdicts::{Verdict, counted};

/// Free memory that is off, in three rows.
pub fn in_short(results: &Results, command: &str, out: &mut String) {
    let own = |policy: &str, workload: &str| {
        let mut rows = results.tables.iter();
        let is = |row: &&_| is_row(row, policy, workload);
        rows.find(is).map(|row| row.c)
    };
    let shown = |c: Option<f64>| c.map_or("–".to_owned(), |c| format!("{:.0} %", c * 100.0));
    let row = |name: &str, c: &dyn Fn(&str) -> Option<f64>| {
        texts([name.to_owned(), shown(c("light")), shown(c("medium"))])
    };
    let stock = |workload: &str| c_at(&results.sweep, STOCK, workload, ALLOWED);
    let rows = [
        row("Linux's buddy", &stock),
        row("as published", &|workload| own(PUBLISHED, workload)),
        row("fullest bank first", &|workload| own(BEST, workload)),
    ];
    let mut table = String::new();
    html::table(&mut table, "In short", &heads(&["", "light use", "heavier use"]), &rows);
    let lead = "Light: 10 to 50 % of the memory in use; heavier: 30 to 80 %. Linux's buddy has our task that moves pages together, \
                at 0.06 pages copied for each page freed; the published allocator has its own task; fullest bank first has ours.";
    out.push_str("<h2 id=\"short\">In short</h2>");
    let title = "Of the memory that is free, how much is off?";
    Figure { id: "in-short", title, lead, drawing: &table, table: "", command }.write(out);
}

fn is_row(row: &crate::studies::banks::measure::Row, policy: &str, workload: &str) -> bool {
    row.policy == policy && row.workload == workload && row.machine == "m32"
}

fn number(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

fn row(verdict: &Verdict) -> Vec<Cell> {
    let ours = verdict.ours.map_or("–".to_owned(), number);
    let spread = match verdict.half_width {
        None => verdict.ours.map(|_| "one seed".to_owned()),
        Some(half) => (half > 0.0).then(|| format!("± {}", number(half))),
    };
    vec![
        Cell::text(&verdict.what),
        verdict.class.cell(),
        Cell { note: Some(verdict.unit.clone()), ..Cell::text(&verdict.printed) },
        Cell { note: spread, ..Cell::text(ours) },
        Cell::text(verdict.note),
    ]
}

/// Every figure of the text and of tables 1.1, 1.2, 5.1 and 5.2.
pub fn verdicts(results: &Results, command: &str, out: &mut String) {
    out.push_str(
        "<h2 id=\"verdicts\">Every printed figure, and what became of it</h2><p>The thesis's machines have 32 GB in banks of 256 MiB \
         and 4 GB in banks of 128 MiB. Its letter c is how much of the free memory is off, 0 to 1, as a mean over time; its sections \
         are 128 MiB, the least that Linux can remove. Light use is 10 to 50 % of the memory, medium 30 to 80 %.</p><p>Fitted: settings were chosen by it, and it still comes out (where it does not, it is missed), or it is one; \
         computed: arithmetic on the thesis's own numbers, or of other memory than its. Neither is counted. A prediction holds when all of its 95 % interval over seeds lies within 10 % of the printed number, or within \
         the printed bounds; fails when all of it lies outside; else, or where this machine cannot know, it is undecidable.</p>",
    );
    let rows: Vec<Vec<Cell>> = results.verdicts.iter().map(row).collect();
    let mut table = String::new();
    let names = ["", "verdict", "printed", "ours", "what it rests on"];
    html::table(&mut table, "Every printed figure", &heads(&names), &rows);
    let lead = format!("{}.", counted(&results.verdicts));
    let title = "Printed, and ours";
    Figure { id: "judged", title, lead: &lead, drawing: &table, table: "", command }.write(out);
}
