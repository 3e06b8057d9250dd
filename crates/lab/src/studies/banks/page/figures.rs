//! Figures 2.3, 2.4 and 5.1 to 5.5, and the comparison of policies as curves.

use super::{heads, percent, texts};
use crate::report::html::{self, Cell, Figure};
use crate::report::lines::{Axis, LineChart, Series};
use crate::report::scale::Unit;
use crate::studies::banks::maps;
use crate::studies::banks::results::{BEST, Curve, Footprint, PUBLISHED, Results};
use std::fmt::Write;

/// A curve over hours; the axis counts seconds, and writes minutes.
fn series(name: &str, colour: usize, hours: &[f64], y: &[f64]) -> Series {
    let points = hours.iter().map(|hours| hours * 3_600.0).zip(y.iter().copied()).collect();
    Series::new(name, colour, points)
}

/// The name of a run beside its curve, where 19 letters have room.
fn beside(run: &str) -> &str {
    match run.split_once(", ") {
        None => run,
        Some((policy, "thesis" | "ours")) => policy,
        Some((_, how)) if how.starts_with("files' data") => "buddy, tmpfs",
        Some((_, how)) if how.starts_with("a fifth of") => "buddy, inodes stay",
        Some((policy, _)) => policy,
    }
}

fn chart(id: &str, title: &str, y: &'static str, series: Vec<Series>) -> String {
    LineChart {
        id: id.to_owned(),
        title: title.to_owned(),
        description: "Over the time of the run.".to_owned(),
        x: Axis::linear("time", Unit::Seconds),
        y: Axis::linear(y, Unit::Count),
        ground: None,
        series,
    }
    .draw()
}

/// Figures 5.3, 5.4 and 5.5.
pub fn over_time(results: &Results, command: &str, out: &mut String) {
    out.push_str(
        "<h2 id=\"over-time\">Figures 5.3 to 5.5: free memory and memory off</h2><p>The medium workload. Of the thesis only the \
         shapes can be read: its figures print no numbers but the sums, 12 GB copied for 28 GB switched off.</p>",
    );
    let mut draw = |id: &str, number: &str, wanted: &str| {
        let Some(curve) = results.curves.iter().find(|curve| curve.policy == wanted) else {
            return;
        };
        let title = format!("Figure {number}: {wanted}");
        let lines = vec![
            series("free", 0, &curve.hours, &curve.free),
            series("off", 1, &curve.hours, &curve.offline),
        ];
        let drawing = chart(id, &title, "percent of memory", lines);
        let lead = "Free memory and the part of it that is off.";
        Figure {
            id: &format!("figure-{id}"),
            title: &title,
            lead,
            drawing: &drawing,
            table: "",
            command,
        }
        .write(out);
    };
    draw("5-3", "5.3", &format!("{PUBLISHED}, no migration"));
    draw("5-4", "5.4", &format!("{PUBLISHED}, thesis"));
    draw("5-4-ours", "5.4 with our best policy", &format!("{BEST}, ours"));
    copied(results, command, out);
}

fn copied(results: &Results, command: &str, out: &mut String) {
    let of = |curve: &&Curve| curve.copied_gib.last().is_some_and(|&last| last > 0.0);
    let lines = results.curves.iter().filter(of).enumerate();
    let lines = lines
        .map(|(n, curve)| series(beside(&curve.policy), n, &curve.hours, &curve.copied_gib))
        .collect();
    let drawing = chart("5-5", "Figure 5.5: memory copied so far", "GiB copied", lines);
    let rows: Vec<Vec<Cell>> = results
        .tables
        .iter()
        .filter(|row| row.machine == "m32" && row.workload == "medium")
        .map(|row| {
            texts([
                row.policy.clone(),
                format!("{:.1}", row.copied_gib),
                format!("{:.1}", row.offlined_gib),
            ])
        })
        .collect();
    let mut table = String::new();
    html::table(
        &mut table,
        "Copied and switched off",
        &heads(&["policy", "copied, GiB", "switched off, GiB"]),
        &rows,
    );
    let lead = "What was copied, and below it what that switched off. The thesis: 12 GB and 28 GB.";
    let drawing = drawing + &table;
    Figure {
        id: "figure-5-5",
        title: "Figure 5.5: copied and switched off",
        lead,
        drawing: &drawing,
        table: "",
        command,
    }
    .write(out);
}

/// Figures 2.3, 2.4, 5.1 and 5.2.
pub fn footprints(results: &Results, command: &str, out: &mut String) {
    out.push_str(
        "<h2 id=\"footprints\">Figures 2.3, 2.4, 5.1 and 5.2: where kernel pages lie</h2><p>File systems in memory of 1 to 30 GB \
         with 1,000 to 450,000 files are filled, kept and deleted, one after the other. A section of 128 MiB with one kernel \
         page in it cannot be removed. Nothing migrates here. \
         Files lie in ramfs, whose pages Linux cannot move. The last two runs move the workload, not the policy: files in tmpfs, \
         whose pages can be moved, and more of the inodes' pages that stay.</p>",
    );
    let removable = |of: &Footprint| of.removable.iter().map(|&n| f64::from(n)).collect::<Vec<_>>();
    let lines = results.footprints.iter().enumerate();
    let lines =
        lines.map(|(n, of)| series(beside(&of.policy), n, &of.hours, &removable(of))).collect();
    let drawing = chart("5-2", "Removable sections over time", "sections", lines);
    let lead = "Sections without kernel pages, of 256.";
    let title = "Figure 5.2: removable sections over time";
    Figure { id: "figure-5-2", title, lead, drawing: &drawing, table: "", command }.write(out);
    let mut drawing = String::new();
    for footprint in &results.footprints {
        let _ = write!(
            drawing,
            "<h4>{}</h4><div class=\"map\">{}</div>",
            footprint.policy,
            maps::map(footprint)
        );
    }
    drawing.push_str(
        "<p class=\"key\">Black (white on a dark page): kernel pages. Else the stronger the colour, the more of the section is used; palest: nothing.</p>",
    );
    let lead = "Every square is a section, in the order of addresses, when the files have gone. The thesis shows more than 170 of 256 black \
                under Linux, and black ones only at the start of each zone under adaptive-buddy.";
    let title = "Figures 2.4 and 5.1: footprint of the kernel";
    Figure { id: "figure-maps", title, lead, drawing: &drawing, table: "", command }.write(out);
    scattered(results, command, out);
}

/// Figure 2.3.
fn scattered(results: &Results, command: &str, out: &mut String) {
    let rows: Vec<Vec<Cell>> = results
        .footprints
        .iter()
        .map(|of| {
            let at = of.mostly_free;
            let show =
                |get: fn(&(f64, f64, u32)) -> String| at.as_ref().map_or("–".to_owned(), get);
            texts([
                of.policy.clone(),
                show(|at| format!("{:.1} h", at.0)),
                show(|at| percent(at.1)),
                of.nearly_free.to_string(),
                show(|at| at.2.to_string()),
                of.referenced.map_or("–".to_owned(), |(used, banks, all)| {
                    format!("{banks} of {all} at {used:.0} %")
                }),
                of.pinned().to_string(),
            ])
        })
        .collect();
    let names = [
        "policy",
        "when",
        "free, %",
        "sections more than 90 % free",
        "sections wholly free",
        "banks referenced, at memory used",
        "with kernel pages when the files have gone",
    ];
    let mut table = String::new();
    html::table(&mut table, "Much free, little of it together", &heads(&names), &rows);
    let lead = "The survey with most free memory. The thesis shows a node that is 90 % free without one free section, and that a \
                tenth of memory in use touches every bank.";
    let title = "Figure 2.3: much is free, nothing wholly";
    Figure { id: "figure-2-3", title, lead, drawing: &table, table: "", command }.write(out);
}

/// The policies of the drawing: what differs most. The table has all.
const DRAWN: [&str; 6] =
    ["buddy", "bank-array", "bank-list", "adaptive-paper", "adaptive", "fullest"];

/// c by copying.
pub fn sweep(results: &Results, workload: &str) -> String {
    let mut lines: Vec<Series> = Vec::new();
    let drawn = |policy: &str| DRAWN.contains(&policy);
    for row in results.sweep.iter().filter(|row| row.workload == workload && drawn(&row.policy)) {
        let point = (row.copied_per_freed * 1_000.0, row.c * 100.0);
        match lines.iter_mut().find(|line| line.name == row.policy) {
            Some(line) => line.points.push(point),
            None => lines.push(Series::new(&row.policy, lines.len() % 6, vec![point])),
        }
    }
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    LineChart {
        id: format!("by-copying-{workload}"),
        title: format!("c by copying, {workload}"),
        description: "Up is better, left is cheaper.".to_owned(),
        x: Axis::linear("pages copied per thousand freed", Unit::Count),
        y: Axis {
            from: 40.0,
            cap: Some(100.0),
            ..Axis::linear("percent of free memory off", Unit::Count)
        },
        ground: None,
        series: lines,
    }
    .draw()
}
