//! The numbers behind the pictures, as tables.

use super::super::ablations::{Ablation, Effect};
use super::super::gaps::{Gap, NEAR, least_possible};
use super::super::instructions::Instructions;
use super::super::metrics::{METRICS, Metric, Unit, metric};
use super::super::results::Results;
use super::super::tables::{Entry, Table};
use crate::report::html::{self, Cell, Escaped};
use crate::studies::class::Class;
use crate::studies::statistics::Summary;
use std::fmt::Write;

fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Percent if value.abs() < 10.0 => format!("{value:.2}"),
        Unit::Percent | Unit::Number if value.abs() < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn with_interval(summary: &Summary, unit: Unit) -> String {
    format!("{} ± {}", shown(summary.mean, unit), shown(summary.half_width, unit))
}

/// One metric of a case: a row an allocator; for each load what is published and ours.
pub fn beside(tables: &[&Table], key: &str) -> String {
    let (Some(metric), Some(first)) = (metric(key), tables.first()) else { return String::new() };
    let mut heads = vec!["allocator".to_owned()];
    for table in tables {
        let unit = if metric.unit == Unit::Microseconds { "ms" } else { "%" };
        heads.push(format!("{} published, {unit}", table.requests));
        heads.push(format!("ours, {}", if unit == "ms" { "µs" } else { "%" }));
        if metric.unit == Unit::Microseconds {
            heads.push("variation".to_owned());
            heads.push("worst / mean".to_owned());
        }
    }
    let row = |entry: &Entry| {
        let mut cells =
            vec![Cell { note: Some(entry.path.clone()), ..Cell::text(entry.allocator) }];
        for entry in tables.iter().filter_map(|table| table.entry(entry.allocator)) {
            let published =
                metric.published.zip(entry.published.as_ref()).map(|(get, row)| get(row));
            let published = published.map_or("–".to_owned(), |value| format!("{value:.1}"));
            let ours = entry.of(key);
            cells.push(Cell::text(published));
            cells.push(Cell::text(with_interval(&ours, metric.unit)));
            if metric.unit == Unit::Microseconds {
                cells.push(Cell::text(format!("{:.1} %", 100.0 * ours.variation())));
                cells.push(Cell::text(format!("{:.2}", ours.worst_over_mean())));
            }
        }
        cells
    };
    let rows: Vec<_> = first.entries.iter().map(row).collect();
    let mut out = String::new();
    html::table(&mut out, metric.title, &heads, &rows);
    out
}

/// Every metric of every allocator: a table a load.
pub fn everything(tables: &[&Table]) -> String {
    let mut out = String::new();
    let count = tables.len();
    for (i, table) in tables.iter().enumerate() {
        // The last load is the hardest: shown, the others behind a click.
        let _ = if i + 1 == count {
            write!(out, "<h4>{} requests</h4>", table.requests)
        } else {
            write!(out, "<details><summary>{} requests</summary>", table.requests)
        };
        one(&mut out, table);
        if i + 1 < count {
            out.push_str("</details>");
        }
    }
    let _ = write!(out, "<details><summary>What the columns mean</summary><dl class=\"pairs\">");
    for metric in METRICS {
        let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", Escaped(metric.title), Escaped(metric.about));
    }
    out + "</dl></details>"
}

fn one(out: &mut String, table: &Table) {
    let mut heads = vec!["allocator".to_owned()];
    heads.extend(METRICS.iter().map(|metric| match metric.unit {
        Unit::Percent => format!("{}, %", metric.title),
        Unit::Microseconds => format!("{}, µs", metric.title),
        Unit::Number => metric.title.to_owned(),
    }));
    let best: Vec<Option<f64>> = METRICS.iter().map(|metric| best_of(table, metric)).collect();
    let row = |entry: &Entry| {
        let name = Cell { note: Some(entry.path.clone()), ..Cell::text(entry.allocator) };
        let cells = METRICS.iter().zip(&best).map(|(metric, best)| {
            let of = entry.of(metric.key);
            let text = shown(of.mean, metric.unit);
            // As good as the best where the printed figures are the same.
            let is_best = best.is_some_and(|best| shown(best, metric.unit) == text);
            Cell { best: is_best, ..Cell::text(text) }
        });
        std::iter::once(name).chain(cells).collect()
    };
    let rows: Vec<Vec<Cell>> = table.entries.iter().map(row).collect();
    let caption = format!("Case {}, {} requests", table.case, table.requests);
    html::table(out, &caption, &heads, &rows);
}

/// The best mean of a column, where not all are the same.
fn best_of(table: &Table, metric: &Metric) -> Option<f64> {
    let less = metric.less_is_better?;
    let means = || table.entries.iter().map(|entry| entry.of(metric.key).mean);
    let (least, most) =
        (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max));
    let differ = shown(least, metric.unit) != shown(most, metric.unit);
    differ.then_some(if less { least } else { most })
}

/// The named ablations: a row an effect. Empty where none was run.
pub fn ablations(all: &[Ablation], keys: &[&str]) -> String {
    let named = all.iter().filter(|ablation| keys.contains(&ablation.key));
    let row = |(ablation, effect): (&Ablation, &Effect)| {
        let changes =
            ablation.changes.iter().map(|change| format!("--set {change}")).collect::<Vec<_>>();
        let what = Cell { note: Some(changes.join(" ")), ..Cell::text(ablation.title) };
        let clear = if effect.change.is_clear() { "" } else { " (not clear)" };
        vec![
            what,
            Cell::text(effect.what.clone()),
            Cell::text(figure(&effect.before)),
            Cell::text(figure(&effect.after)),
            Cell::text(format!("{}{clear}", figure(&effect.change))),
        ]
    };
    let pairs =
        named.flat_map(|ablation| ablation.effects.iter().map(move |effect| (ablation, effect)));
    let rows: Vec<Vec<Cell>> = pairs.map(row).collect();
    let mut out = String::new();
    if !rows.is_empty() {
        let heads = ["what is changed", "what is looked at", "before", "after", "change"];
        html::table(&mut out, "Ablations", &heads.map(String::from), &rows);
    }
    out
}

/// Distances to the printed rows: as set, and under the ablations that ran every table.
pub fn gaps(results: &Results) -> String {
    let as_set = results.gaps.iter().map(|gap| ("as set", gap));
    // Every change that runs all tables was chosen by their rows; what is set, by the order of the cases.
    let changed = results.ablations.iter();
    let changed =
        changed.flat_map(|ablation| ablation.gaps.iter().map(move |gap| (ablation.title, gap)));
    let row = |(settings, gap): (&str, &Gap)| {
        vec![
            Cell::text(gap.allocator),
            Class::Fitted.cell(),
            Cell::text(settings),
            Cell::text(format!("{:.1}", gap.mean)),
            Cell::text(format!("{:.1}", gap.largest)),
            Cell::text(format!("{} of {}", gap.near, gap.rows)),
            Cell::text(format!("{:.1}", least_possible(gap.allocator))),
        ]
    };
    let rows: Vec<Vec<Cell>> = as_set.chain(changed).map(row).collect();
    let near = format!("within {NEAR:.0}");
    let heads = ["allocator", "worth", "settings", "mean", "largest", &near, "largest, at least"];
    html::table_of("Distances to what is printed", heads, &rows)
}

fn figure(summary: &Summary) -> String {
    format!("{:.2} ± {:.2}", summary.mean, summary.half_width)
}

/// Instructions: a row for each case and allocator.
pub fn instructions(counted: &[Instructions]) -> String {
    let heads = ["case", "allocator", "mean", "p99", "longest"].map(String::from);
    let row = |one: &Instructions| {
        vec![
            Cell::text(one.case.to_string()),
            Cell::text(one.allocator),
            Cell::text(format!("{:.0}", one.mean)),
            Cell::text(one.p99.to_string()),
            Cell::text(one.max.to_string()),
        ]
    };
    let rows: Vec<_> = counted.iter().map(row).collect();
    let mut table = String::new();
    html::table(&mut table, "Instructions", &heads, &rows);
    table
}
