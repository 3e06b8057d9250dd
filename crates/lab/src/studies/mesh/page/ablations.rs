//! Where ours differs from the letter: what waiting, computing and the allocators in C come to otherwise.

use super::Page;
use crate::report::html::{self, Cell};
use crate::studies::mesh::ablations::{
    OTHER_TILES, PUBLISHED_KERNELS, WAITING, costs_of_computing,
};
use crate::studies::mesh::failure::Failed;
use crate::studies::mesh::measure::{Entry, Row};
use crate::studies::mesh::published::published;
use freehold_sim::mesh::Allocator;

impl Page<'_> {
    /// The central node fails.
    pub(super) fn failures(&self, out: &mut String) {
        let Some(first) = self.results.failures.first() else { return };
        out.push_str("<h2 id=\"failures\">When the central node fails</h2>");
        let row = |one: &Failed| {
            let patience = match one.patience {
                0 => "waits for ever, as published".to_owned(),
                cycles => format!("gives up after {cycles} cycles"),
            };
            vec![
                Cell { note: Some(patience), ..Cell::text(one.allocator) },
                Cell::text(format!("{:.1} %", 100.0 * one.going as f64 / one.left.max(1) as f64)),
                Cell::text(format!("{:.2}", one.before)),
                Cell::text(format!("{:.2}", one.after)),
            ]
        };
        let rows: Vec<Vec<Cell>> = self.results.failures.iter().map(row).collect();
        let title = format!("The first node of {} fails", first.platform);
        let heads = ["allocator", "others still served", "served before", "served afterwards"];
        self.figures.add(
            out,
            "failures-figure",
            &title,
            FAILS,
            &html::table_of(&title, heads, &rows),
        );
    }

    /// Why so little waits here where another paper says 80 %.
    pub(super) fn waiting(&self, out: &mut String) {
        let Some(mesh) = self.plan.platforms.last().filter(|_| !self.plan.thinks.is_empty()) else {
            return;
        };
        out.push_str("<h2 id=\"waiting\">Where waiting comes from</h2>");
        let mut heads = vec!["allocator".to_owned()];
        heads.extend(self.plan.thinks.iter().map(|think| format!("pause {think}")));
        let row = |allocator: &Allocator| {
            let of = |think: &u64| {
                let is =
                    |e: &&Entry| e.mean.allocator == allocator.name() && e.mean.think == *think;
                self.results.waiting.iter().find(is).map_or_else(Cell::default, |e| waits(&e.mean))
            };
            let name =
                Cell { note: Some(about(*allocator).to_owned()), ..Cell::text(allocator.name()) };
            [name].into_iter().chain(self.plan.thinks.iter().map(of)).collect()
        };
        let rows: Vec<Vec<Cell>> = WAITING.iter().map(row).collect();
        let title = format!("Share of a call that waits, on {mesh}");
        let mut table = String::new();
        html::table(&mut table, &title, &heads, &rows);
        self.figures.add(out, "waiting-figure", &title, WAITS, &table);
    }

    /// The shares of the master that serves all, by what computing costs.
    pub(super) fn computing(&self, out: &mut String) {
        let (costs, Some(mesh)) = (costs_of_computing(self.plan), self.plan.platforms.first())
        else {
            return;
        };
        if self.results.computing.is_empty() {
            return;
        }
        out.push_str("<h2 id=\"computing\">What computing costs</h2>");
        let mut heads = vec!["kernel".to_owned(), "published".to_owned()];
        heads.extend(costs.iter().map(|cost| format!("at {cost}")));
        let share = |load: &str, cost: u64| {
            let is = |e: &&Entry| e.mean.load == load && e.mean.think == cost;
            self.results.computing.iter().find(is).map(|e| 100.0 * e.mean.share)
        };
        let row = |name: &str, key: &str, of: &dyn Fn(u64) -> Option<f64>| {
            let printed = published(key).map(|figure| figure.value);
            let mut cells = vec![Cell::text(name), percent(printed)];
            cells.extend(costs.iter().map(|&cost| percent(of(cost))));
            cells
        };
        let mut rows: Vec<Vec<Cell>> = self
            .plan
            .programs
            .iter()
            .map(|p| row(&p.name, &format!("share_{}", p.name), &|cost| share(&p.name, cost)))
            .collect();
        let mean = |loads: &[&str], cost| {
            let all: Option<Vec<f64>> = loads.iter().map(|load| share(load, cost)).collect();
            all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
        };
        rows.push(row("mean of the four published", "share_mean", &|cost| {
            mean(&PUBLISHED_KERNELS, cost)
        }));
        rows.push(row("mean with both in 4 x 4", "share_mean", &|cost| mean(&OTHER_TILES, cost)));
        let title = format!("Share of malloc and free when the master serves all, on {mesh}");
        let mut table = String::new();
        html::table(&mut table, &title, &heads, &rows);
        self.figures.add(out, "computing-figure", &title, COMPUTING, &table);
    }

    /// Policies on private heaps.
    pub(super) fn in_c(&self, out: &mut String) {
        let Some(mesh) = self.plan.platforms.first().filter(|_| !self.plan.in_c.is_empty()) else {
            return;
        };
        out.push_str("<h2 id=\"in-c\">Allocators in C</h2>");
        let platform = mesh.to_string();
        let table_of_costs: Vec<&Entry> = {
            let is = |e: &&Entry| {
                e.mean.allocator == Allocator::Private.name() && e.mean.platform == platform
            };
            self.results.entries.iter().filter(is).collect()
        };
        let mut heads = vec!["policy".to_owned()];
        heads.extend(table_of_costs.iter().map(|entry| entry.mean.load.clone()));
        let cells = |name: String, entries: &[&Entry]| {
            let mut cells = vec![Cell::text(name)];
            cells.extend(entries.iter().zip(&table_of_costs).map(|(entry, table)| {
                let row = &entry.mean;
                let note = format!("{:.2}× {:.1}", row.cycles / table.mean.cycles, row.accesses);
                Cell { note: Some(note), ..Cell::text(format!("{:.0}", row.cycles)) }
            }));
            cells
        };
        let mut rows = vec![cells("as in the table of costs".to_owned(), &table_of_costs)];
        for &policy in &self.plan.in_c {
            let of = |e: &&Entry| e.mean.policy == policy;
            let entries: Vec<&Entry> = self.results.in_c.iter().filter(of).collect();
            rows.push(cells(policy.to_owned(), &entries));
        }
        let title = format!("Cycles of a call in C with private heaps, on {mesh}");
        let mut table = String::new();
        html::table(&mut table, &title, &heads, &rows);
        self.figures.add(out, "in-c-figure", &title, IN_C, &table);
    }
}

/// The share of waiting, and below it what else there is.
fn waits(row: &Row) -> Cell {
    let of = |value: f64| 100.0 * value / row.cycles.max(1.0);
    let note = format!(
        "links {:.0}, way {:.0}, search {:.0} %; {:.0} cycles",
        of(row.queued),
        of(row.travel),
        of(row.search),
        row.cycles
    );
    Cell { note: Some(note), ..Cell::text(format!("{:.0} %", of(row.wait))) }
}

fn percent(value: Option<f64>) -> Cell {
    Cell::text(value.map_or("–".to_owned(), |value| format!("{value:.1} %")))
}

fn about(allocator: Allocator) -> &'static str {
    match allocator {
        Allocator::Global => "one heap, one lock, in C",
        Allocator::Master => "one controller serves all",
        Allocator::Common => "a heap and a lock a node, one table for all",
        Allocator::Microcoded => "a heap and a lock a node, by table, the own heap first",
        Allocator::Private | Allocator::Proposed => "a heap and a lock a node, lazily",
    }
}

const WAITS: &str = "Waiting for locks and controllers. Below each share: waiting for links, the way, the search, and the cycles of a call. Columns: mean cycles between two calls \
                     of a node. Published, of another paper and an unknown load: nearly 80 %. So much waits here where \
                     one lock or one controller serves many, and where one table for all nodes sends everybody to the \
                     same heaps first. With the own heap first most calls meet an idle lock, however short the \
                     pauses, and what grows is the search.";
const FAILS: &str = "Its core stops, its controller answers nobody, its memory is lost; the router goes on. Still served: a \
                     request in the second half of what is watched. Served: requests of a node in 1,000 cycles. Distribution alone \
                     does not keep a platform going: a heap that asks the failed node waits like one that asks a \
                     central one, and a lock that the failed node held stays taken. Giving up after a while is ours.";
const COMPUTING: &str = "Columns: cycles of computing for an access, which is a load or store of an item in the recorded \
                         kernels. The letter prints neither its kernels' tiles nor what they compute. The printed \
                         mean implies 20.6 % for integral and matmul. The sides of their tiles give it: small \
                         blocks and few accesses each make calls a larger part. With both in 4 x 4 (instead of 8 x 8 and 6 x 6) the \
                         mean is near the printed one at the cost that suits the others, and FAST is the least.";
const IN_C: &str = "Below each: cycles over those of the first line, and words of metadata touched a call. The chosen \
                    allocator of the letter was “on average 29 % faster against other general-purpose solutions”, which \
                    it does not name; here first, best and worst fit by lists stand for them. Trees and bitmaps, which \
                    shorten long searches, cost more than they save in heaps of a few blocks.";
