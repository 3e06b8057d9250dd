//! Everything that one run of the study found, as versioned JSON.

use super::ablations;
use super::config::Plan;
use super::failure::{self, Failed};
use super::improve;
use super::measure::{self, Cell, Entry, Row, RunError};
use super::verdicts::{self, Verdict};
use freehold_core::place::mesh::{Mesh, Order};
use freehold_sim::mesh::Allocator;
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// Raised when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 3;

/// The file of results. A function of the settings alone: no clock and no machine enters it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Results {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `mesh`.
    pub study: &'static str,
    /// As run, with every default.
    pub settings: serde_json::Value,
    /// In a few words.
    pub answer: Vec<String>,
    /// Every published figure beside ours.
    pub verdicts: Vec<Verdict>,
    /// What it was to beat.
    pub goals: Vec<Verdict>,
    /// Every cell.
    pub entries: Vec<Entry>,
    /// The kernels served by their master, by what an access costs.
    pub computing: Vec<Entry>,
    /// Policies on private heaps in C, by what they really touch.
    pub in_c: Vec<Entry>,
    /// Allocators by the pauses between calls.
    pub waiting: Vec<Entry>,
    /// The first node fails: who goes on.
    pub failures: Vec<Failed>,
    /// Every run: exported, not printed.
    #[serde(skip)]
    pub rows: Vec<Row>,
}

impl Results {
    /// The cell of that platform, allocator, order and set of improvements.
    pub fn find(
        &self,
        mesh: Mesh,
        allocator: Allocator,
        order: Order,
        variant: &str,
    ) -> Option<&Entry> {
        find(&self.entries, mesh, allocator, order, variant)
    }
}

/// As [`Results::find`].
pub fn find<'a>(
    entries: &'a [Entry],
    mesh: Mesh,
    allocator: Allocator,
    order: Order,
    variant: &str,
) -> Option<&'a Entry> {
    find_load(entries, "synthetic", mesh, allocator, order, variant)
}

/// The same of any load.
pub fn find_load<'a>(
    entries: &'a [Entry],
    load: &str,
    mesh: Mesh,
    allocator: Allocator,
    order: Order,
    variant: &str,
) -> Option<&'a Entry> {
    let platform = mesh.to_string();
    entries.iter().find(|entry| {
        let row = &entry.mean;
        (row.load.as_str(), row.platform.as_str(), row.allocator, row.order, row.variant.as_str())
            == (load, platform.as_str(), allocator.name(), order.name(), variant)
    })
}

/// The cells of the kernels: each on every published platform, and what its master alone would cost.
fn of_programs(plan: &Plan) -> Vec<Cell> {
    let mut cells = Vec::new();
    for program in 0..plan.kernels {
        for &mesh in &plan.platforms {
            let plain = |allocator| Cell::plain(mesh, allocator, Order::Index).of(program);
            let all =
                [Allocator::Master, Allocator::Private, Allocator::Microcoded, Allocator::Proposed];
            cells.extend(all.map(plain));
            if plan.orders.contains(&Order::Hinted) {
                let improved = ("improved".to_owned(), plan.improved.clone());
                cells.push(Cell::improved(mesh, improved).of(program));
            }
        }
    }
    cells
}

/// Runs the whole study.
///
/// # Errors
/// When a run could not begin, or `interrupted` was raised.
pub fn study(
    plan: &Plan,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Results, RunError> {
    let parts =
        [cells(plan), ablations::computing(plan), ablations::in_c(plan), ablations::waiting(plan)];
    let (rows, mut entries) = measure::all(plan, &parts.concat(), progress, interrupted)?;
    // A cell is an entry, in the same order.
    let mut last = |part: usize| entries.split_off(entries.len() - parts[part].len());
    let (waiting, in_c, computing) = (last(3), last(2), last(1));
    let mut verdicts = verdicts::verdicts(plan, &entries);
    verdicts.extend(verdicts::kernels(plan, &entries));
    verdicts.extend(verdicts::shares(plan, &entries));
    verdicts.extend(verdicts::in_c(plan, &entries, &in_c));
    verdicts.extend(verdicts::other_readings(plan, &computing, &waiting));
    let goals = verdicts::goals(plan, &entries);
    let failures = failure::failures(plan, interrupted)?;
    Ok(Results {
        schema_version: SCHEMA_VERSION,
        study: "mesh",
        settings: plan.settings.to_json(),
        answer: verdicts::answer(&verdicts, &goals, &failures),
        verdicts,
        goals,
        entries,
        computing,
        in_c,
        waiting,
        failures,
        rows,
    })
}

/// The platforms on which single improvements are compared: the ends of the published, and the largest.
pub fn compared(plan: &Plan) -> Vec<Mesh> {
    let ends = [plan.platforms.first(), plan.platforms.last(), plan.larger.last()];
    let mut meshes: Vec<Mesh> = ends.into_iter().flatten().copied().collect();
    meshes.dedup();
    meshes
}

fn cells(plan: &Plan) -> Vec<Cell> {
    let mut cells = Vec::new();
    let by_index = |mesh: Mesh| mesh.heaps() <= plan.index_up_to.heaps();
    for mesh in plan.all() {
        for &order in &plan.orders {
            if order == Order::Index && !by_index(mesh) {
                continue;
            }
            // A hint is an improvement: its order without one is by distance.
            if order != Order::Hinted {
                cells.push(Cell::plain(mesh, Allocator::Proposed, order));
                cells.push(Cell::plain(mesh, Allocator::Microcoded, order));
            }
        }
        if plan.platforms.contains(&mesh) {
            cells.push(Cell::plain(mesh, Allocator::Global, Order::Index));
            cells.push(Cell::plain(mesh, Allocator::Private, Order::Index));
        }
    }
    let compared = compared(plan);
    for mesh in plan.all().filter(|_| plan.orders.contains(&Order::Hinted)) {
        let sets = improve::sets(&plan.improved);
        let wanted = |name: &str| compared.contains(&mesh) || ["hints", "improved"].contains(&name);
        let sets = sets.into_iter().filter(|(name, _)| wanted(name));
        cells.extend(sets.map(|set| Cell::improved(mesh, set)));
    }
    cells.extend(of_programs(plan));
    cells
}
