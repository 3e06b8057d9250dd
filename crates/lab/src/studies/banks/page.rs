//! The study as one HTML file: tables and figures of the thesis beside ours, and what it does not print.
//!
//! Invariant: as of every report, no network and no script; a published number never stands without ours.

mod figures;
mod printed;
mod programs;
mod streams;
mod verdicts;

pub use streams::page_of_recording;

use super::answer::c_at;
use super::measure::Row;
use super::published::{cell, figure};
use super::results::{PUBLISHED, Results};
use super::speed::Timed;
use crate::report::html::{self, Cell, Figure};
use crate::report::sheet;

/// Sections that hold kernel pages are black on any ground.
const STYLE: &str = ".kernel { fill: var(--ink); } .map { max-width: 768px; margin-bottom: 14px; }";

/// Pages copied for each freed at which policies are compared: what this project allows itself.
pub const ALLOWED: f64 = 0.06;

/// The whole page. `command` is what made it; `times` is measured, not simulated.
pub fn page(results: &Results, times: &[Timed], command: &str) -> String {
    let page = Page { results, command };
    let mut out = sheet::open(
        "study banks",
        "Page frames and memory banks: published and ours",
        "Panwar, An allocation framework for optimizing memory power consumption and controlling fragmentation (IISc, 2015)",
        &results.answer,
        "Ours is simulated: synthetic programs with the footprints that the thesis prints, on machines like its two; the \
         policies and the migration task are the code that a kernel would run. The thesis measured a patched Linux 3.17.",
        STYLE,
    );
    verdicts::in_short(results, command, &mut out);
    verdicts::verdicts(results, command, &mut out);
    page.switched_off(&mut out);
    figures::over_time(results, command, &mut out);
    figures::footprints(results, command, &mut out);
    page.policies(&mut out);
    page.ablations(&mut out);
    streams::streams(results, command, &mut out);
    page.robustness(&mut out);
    page.energy(&mut out);
    printed::structures(results, command, &mut out);
    printed::times(times, command, &mut out);
    programs::kept(&mut out);
    printed::differences(results, &mut out);
    sheet::close(&mut out, "freehold-study-banks.json", results, results.schema_version, "");
    out
}

struct Page<'a> {
    results: &'a Results,
    command: &'a str,
}

pub(super) fn percent(value: f64) -> String {
    format!("{value:.1}")
}

pub(super) fn texts(cells: impl IntoIterator<Item = String>) -> Vec<Cell> {
    cells.into_iter().map(Cell::text).collect()
}

fn beside(ours: String, printed: Option<f64>) -> Cell {
    Cell { note: printed.map(|printed| format!("thesis {printed}")), ..Cell::text(ours) }
}

/// Heads as the table wants them.
pub(super) fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

impl Page<'_> {
    fn figure(&self, out: &mut String, id: &str, title: &str, lead: &str, drawing: &str) {
        Figure { id, title, lead, drawing, table: "", command: self.command }.write(out);
    }

    /// Tables 5.1 and 5.2.
    fn switched_off(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"off\">Tables 5.1 and 5.2: memory switched off</h2><p>Percent of all memory. c is the mean over time of \
             memory off over memory free; the best possible keeps as few banks on as kernel pages and the sum of the others \
             allow, in every zone. The first tenth of every run, in which memory fills, is left out.</p>",
        );
        let names = [
            "machine, workload",
            "policy",
            "off, mean",
            "off, most",
            "best possible",
            "c",
            "off / best",
            "copied per freed",
            "copied per switched off",
            "sets on an hour",
        ];
        let rows: Vec<Vec<Cell>> =
            self.results.tables.iter().map(|row| self.off_row(row)).collect();
        let mut table = String::new();
        html::table(&mut table, "Memory switched off", &heads(&names), &rows);
        self.figure(
            out,
            "tables-5",
            "Both policies on both machines",
            "m32 is 32 GB in banks of 256 MiB on two nodes, m4 is 4 GB in banks of 128 MiB. The thesis copied 0.43 bytes \
             for each switched off (12 GB for 28 GB). c and off / best are different ratios: its text prints the first, \
             its table 5.2 implies the second.",
            &table,
        );
    }

    fn off_row(&self, row: &Row) -> Vec<Cell> {
        let thesis = row.policy == PUBLISHED;
        let name = if row.workload == "light" { "Light" } else { "Medium" };
        let (mean, most) = match row.machine.as_str() {
            "m32" => (cell("5.1", name, 2), cell("5.1", name, 1)),
            "m4" => (cell("5.1", name, 5), cell("5.1", name, 4)),
            _ => (cell("5.1", name, 3), None),
        };
        let plain = row.machine == "m32" && thesis;
        let only = |value: Option<f64>| value.filter(|_| thesis);
        let (best, c) =
            (cell("5.2", name, 1), figure(if name == "Light" { "c_light" } else { "c_medium" }));
        let of_best = best
            .zip(cell("5.2", name, 2))
            .map(|(best, off)| (off / best * 1_000.0).round() / 1_000.0);
        vec![
            Cell::text(format!("{}, {}", row.machine, row.workload)),
            Cell::text(row.policy.clone()),
            beside(percent(row.offline_mean), only(mean)),
            beside(percent(row.offline_max), only(most)),
            beside(percent(row.best_mean), best.filter(|_| plain)),
            beside(format!("{:.3}", row.c), c.filter(|_| plain)),
            beside(format!("{:.3}", row.of_best), of_best.filter(|_| plain)),
            Cell::text(format!("{:.4}", row.copied_per_freed)),
            beside(format!("{:.2}", row.copied_per_offlined), Some(0.43).filter(|_| plain)),
            Cell::text(format!("{:.0}", row.onlines_per_hour)),
        ]
    }

    /// Every policy at equal copying.
    fn policies(&self, out: &mut String) {
        if self.results.sweep.is_empty() {
            return;
        }
        out.push_str(
            "<h2 id=\"policies\">Policies at equal copying</h2><p>A task that copies more switches more off. So every policy \
             ran with four thresholds (sets up to 10, 30, 50 and 70 % used may be emptied), and is read where it copies the \
             same.</p>",
        );
        for workload in ["light", "medium"] {
            let drawing = figures::sweep(self.results, workload);
            let title = format!("c by copying, {workload} workload");
            let lead = "Further up and further left is better. A line is one policy, a point one threshold.";
            self.figure(out, &format!("sweep-{workload}"), &title, lead, &drawing);
        }
        let policies = self.policies_in(&self.results.sweep);
        let at = |policy: &str, workload: &str| {
            let c = c_at(&self.results.sweep, policy, workload, ALLOWED);
            Cell::text(c.map_or("–".to_owned(), |c| format!("{c:.3}")))
        };
        let rows: Vec<Vec<Cell>> = policies
            .iter()
            .map(|policy| {
                let pinned = self.results.sweep.iter().filter(|row| row.policy == *policy);
                let pinned: Vec<&Row> = pinned.filter(|row| row.workload == "medium").collect();
                let mean = |get: fn(&Row) -> f64| {
                    pinned.iter().map(|row| get(row)).sum::<f64>() / pinned.len().max(1) as f64
                };
                let pins =
                    format!("{:.1} of {:.1}", mean(|row| row.pinned), mean(|row| row.pinned_least));
                vec![
                    Cell::text(policy.clone()),
                    at(policy, "light"),
                    at(policy, "medium"),
                    Cell::text(pins),
                ]
            })
            .collect();
        let mut table = String::new();
        let names = ["policy", "c, light", "c, medium", "sets with kernel pages, and at least"];
        html::table(&mut table, "c at equal copying", &heads(&names), &rows);
        let lead = "c where 0.06 pages are copied for each page that programs free; the best c of those that never copy as \
                    much. The last column is of the medium workload: how many sets hold kernel pages, and how many those \
                    pages would fill.";
        self.figure(out, "equal", "c at 0.06 pages copied per page freed", lead, &table);
    }

    fn policies_in(&self, rows: &[Row]) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for row in rows {
            if !names.contains(&row.policy) {
                names.push(row.policy.clone());
            }
        }
        names
    }

    fn rows_table(&self, rows: &[Row], caption: &str) -> String {
        let names = [
            "workload",
            "what",
            "policy",
            "c",
            "c at best",
            "least c",
            "off",
            "copied per freed",
            "copied per switched off",
            "sets on an hour",
            "from the other node",
            "failed requests",
        ];
        let cells = rows.iter().map(|row| {
            texts([
                row.workload.clone(),
                row.task.clone(),
                row.policy.clone(),
                format!("{:.3}", row.c),
                format!("{:.3}", row.c_bound),
                format!("{:.2}", row.c_min),
                percent(row.offline_mean),
                format!("{:.4}", row.copied_per_freed),
                format!("{:.2}", row.copied_per_offlined),
                format!("{:.0}", row.onlines_per_hour),
                format!("{:.1} %", row.far_percent),
                row.failed.to_string(),
            ])
        });
        let mut table = String::new();
        html::table(&mut table, caption, &heads(&names), &cells.collect::<Vec<_>>());
        table
    }

    fn ablations(&self, out: &mut String) {
        if self.results.ablations.is_empty() {
            return;
        }
        out.push_str(
            "<h2 id=\"ablations\">One thing changed</h2><p>The thesis prints no threshold of its task. One number was fitted \
             to its c, with files whose pages move: how full a bank may be that is emptied. \
             Bytes copied for each switched off are how full those banks were on average: with 30 % they cannot be the 0.43 that \
             the thesis prints, with 90 % they are what the rows below show. The occasions that it tried and rejected (exits, dropped \
             caches, unmaps) and a zone for movable pages are here with what they cost.</p>",
        );
        let table = self.rows_table(&self.results.ablations, "One thing changed");
        let lead = "The first hours of the same calls. Failed requests: a page could not be had although memory was asked for \
                    within the machine's size.";
        self.figure(out, "changed", "Causes", lead, &table);
    }

    fn robustness(&self, out: &mut String) {
        if self.results.robustness.is_empty() {
            return;
        }
        out.push_str(
            "<h2 id=\"robust\">Other seeds, other parameters</h2><p>Every parameter of a workload times its own share between \
             0.5 and 1.5, drawn by the seed. c at best is what \
             nobody could pass with the pages of each zone where they are, however much was copied: all of them in as few sets \
             as hold them. More: <code>--set robust_seeds=100</code>.</p>",
        );
        let table = self.rows_table(&self.results.robustness, "Other seeds");
        self.figure(
            out,
            "seeds",
            "Fullest-first with moved parameters",
            "A row is one seed.",
            &table,
        );
    }

    fn energy(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"energy\">Energy</h2><p>Banks that are on stand in active idle, banks that are off in their low-power \
             state; all transfers are paid. Copying is done by processors, and that is most of its cost. Power of the states \
             is data: the thesis's mobile DRAM with deep power down, DDR4 and DDR5 with self-refresh.</p>",
        );
        let names = [
            "states, workload",
            "policy",
            "saved, %",
            "saved, W",
            "copying, memory, J",
            "copying, processor, J",
            "waking, J",
            "break-even, s",
        ];
        let rows: Vec<Vec<Cell>> = self
            .results
            .energy
            .iter()
            .map(|energy| {
                texts([
                    format!("{}, {}", energy.states, energy.workload),
                    energy.policy.clone(),
                    percent(energy.saved_percent),
                    format!("{:.2}", energy.saved_watts),
                    format!("{:.1}", energy.copying_j),
                    format!("{:.1}", energy.cpu_j),
                    format!("{:.2}", energy.waking_j),
                    format!("{:.2}", energy.break_even_s),
                ])
            })
            .collect();
        let mut table = String::new();
        html::table(&mut table, "Energy", &heads(&names), &rows);
        let lead = "32 GB of one module of table 1.1. Break-even: how long a set must stay off until copying half a set of \
                    pages out of it is paid for.";
        self.figure(out, "joules", "What is saved, and what it costs", lead, &table);
        printed::power(self.command, out);
    }
}
