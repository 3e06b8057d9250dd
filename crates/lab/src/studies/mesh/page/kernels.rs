//! The kernels: figures 4 and 5 of the letter, a kernel a figure.

use super::Page;
use crate::report::html::{Cell, table_of};
use crate::report::lines::{Axis, LineChart, Series};
use crate::report::scale::Unit;
use crate::studies::mesh::measure::Entry;
use crate::studies::mesh::results::find_load;
use freehold_core::place::mesh::{Mesh, Order};
use freehold_sim::mesh::{Allocator, Program};

impl Page<'_> {
    /// Figures 4 and 5.
    pub(super) fn kernels(&self, out: &mut String) {
        if self.plan.kernels == 0 {
            return;
        }
        out.push_str(
            "<h2 id=\"kernels\">The kernels</h2><p>Recorded runs of our own programs: a master, and as many \
             slaves as there are other nodes. Objects of more than half a heap are static data, as on an embedded \
             system, and left out.</p>",
        );
        self.figure_4(out);
        for program in &self.plan.programs[..self.plan.kernels] {
            self.kernel(out, program);
        }
    }

    fn figure_4(&self, out: &mut String) {
        let Some(&mesh) = self.plan.platforms.first() else { return };
        let rows: Vec<Vec<Cell>> = self.plan.programs[..self.plan.kernels]
            .iter()
            .filter_map(|program| self.ratios(program, mesh))
            .collect();
        let title = format!("Figure 4, kernel by kernel on {mesh}");
        let table = table_of(&title, RATIOS, &rows);
        self.figures.add(out, "figure-4", &title, FIGURE_4, &table);
    }

    fn ratios(&self, program: &Program, mesh: Mesh) -> Option<Vec<Cell>> {
        let of = |allocator| {
            let entries = &self.results.entries;
            find_load(entries, &program.name, mesh, allocator, Order::Index, "none")
                .map(|e| &e.mean)
        };
        let micro = of(Allocator::Microcoded)?;
        let (lazy, in_c) = (of(Allocator::Proposed)?, of(Allocator::Private)?);
        let times = |value: f64| Cell::text(format!("{value:.2}×"));
        let share = |row: &super::super::Row| Cell::text(format!("{:.1} %", row.share * 100.0));
        let time = |row: &super::super::Row| row.elapsed as f64;
        Some(vec![
            Cell::text(&program.name),
            times(lazy.cycles / micro.cycles),
            times(time(lazy) / time(micro)),
            times(in_c.cycles / lazy.cycles),
            times(time(in_c) / time(lazy)),
            share(micro),
            share(lazy),
        ])
    }

    /// Its cycles by platform, and every number as a table.
    fn kernel(&self, out: &mut String, program: &Program) {
        let of = |entry: &&Entry| entry.mean.load == program.name;
        let rows: Vec<Vec<Cell>> = self.results.entries.iter().filter(of).map(kernel_row).collect();
        let title = format!("Figure 5: {} by platform", program.name);
        let table = table_of(&title, KERNEL, &rows);
        let id = format!("kernel-{}", program.name);
        let chart = LineChart {
            id: id.clone(),
            title: title.clone(),
            description: "Cycles of a call, a line for each allocator.".to_owned(),
            x: Axis::log("nodes", Unit::Count),
            y: Axis::linear("cycles", Unit::Count),
            ground: None,
            series: self.lines(program),
        };
        self.figures.add_with_table(
            out,
            &format!("{id}-figure"),
            &title,
            LEAD,
            &chart.draw(),
            &table,
        );
    }

    fn lines(&self, program: &Program) -> Vec<Series> {
        let meshes = &self.plan.platforms;
        let mut series = Vec::new();
        for (colour, (name, allocator, order, variant)) in LINES.into_iter().enumerate() {
            let entries = &self.results.entries;
            let point = |mesh: &Mesh| {
                let entry = find_load(entries, &program.name, *mesh, allocator, order, variant)?;
                Some((mesh.heaps() as f64, entry.mean.cycles))
            };
            let points: Vec<(f64, f64)> = meshes.iter().filter_map(point).collect();
            if !points.is_empty() {
                series.push(Series::new(name, colour, points));
            }
        }
        series
    }
}

/// As in the letter, and what beats it. (The master's and the private heap's are in the table.)
const LINES: [(&str, Allocator, Order, &str); 3] = [
    ("microcoded", Allocator::Microcoded, Order::Index, "none"),
    ("proposed", Allocator::Proposed, Order::Index, "none"),
    ("improved", Allocator::Proposed, Order::Hinted, "improved"),
];

const RATIOS: [&str; 7] = [
    "kernel",
    "proposed, calls",
    "time",
    "in C, calls",
    "time",
    "share, microcoded",
    "share, proposed",
];
const FIGURE_4: &str = "Proposed: over microcoded. In C with private heaps: over proposed. Calls: cycles of malloc and \
                        free. Time: from the first task to the last. Share: of calls in all cycles. The letter prints \
                        1.25 and 1.10 of a “total execution time”. If that counts computing, of which calls are its 11 \
                        to 23 %, proposed calls would cost more than twice the microcoded ones.";
const KERNEL: [&str; 7] =
    ["platform, allocator", "cycles", "of these waiting", "messages", "share", "total", "refused"];
const LEAD: &str = "Cycles of a call, by nodes. In the table: messages of a call; the share of malloc and free in \
                    all cycles that cores spend; computing and calls together, per call; requests refused.";

fn kernel_row(entry: &Entry) -> Vec<Cell> {
    let row = &entry.mean;
    let set = if row.variant == "none" { row.order } else { &row.variant };
    vec![
        Cell::text(format!("{} {}, {set}", row.platform, row.allocator)),
        Cell::text(format!("{:.1}", row.cycles)),
        Cell::text(format!("{:.1}", row.wait)),
        Cell::text(format!("{:.2}", row.messages)),
        Cell::text(format!("{:.1} %", row.share * 100.0)),
        Cell::text(format!("{:.0}", row.total)),
        Cell::text(row.refused.to_string()),
    ]
}
