//! What a change makes of it, where the letter leaves something open: what computing costs, which allocator in
//! C, how long the pauses are. Cells of their own, so that no figure of the study rests on them.

use super::config::Plan;
use super::improve::Improvement;
use super::measure::{Cell, Entry};
use super::results::Results;
use freehold_core::place::mesh::{Mesh, Order};
use freehold_sim::mesh::Allocator;

/// The four kernels that the letter has figures of.
pub const PUBLISHED_KERNELS: [&str; 4] = ["fast", "gaussian", "integral", "matmul"];

/// The same with two of them in tiles of another side.
pub const OTHER_TILES: [&str; 4] = ["fast", "gaussian", "integral, 4 x 4", "matmul, 4 x 4"];

/// Allocators whose waiting is compared.
pub const WAITING: [Allocator; 5] = [
    Allocator::Global,
    Allocator::Master,
    Allocator::Common,
    Allocator::Microcoded,
    Allocator::Proposed,
];

/// Every kernel served by the master, at every cost of an access.
pub fn computing(plan: &Plan) -> Vec<Cell> {
    let Some(&mesh) = plan.platforms.first() else { return Vec::new() };
    let master = Cell::plain(mesh, Allocator::Master, Order::Index);
    let of = |program| {
        let master = &master;
        costs_of_computing(plan)
            .into_iter()
            .map(move |cost| master.clone().of(program).thinking(cost))
    };
    (0..plan.programs.len()).flat_map(of).collect()
}

/// Cycles of computing for an access, rising.
pub fn costs_of_computing(plan: &Plan) -> Vec<u64> {
    let mut costs = plan.other_cycles.clone();
    costs.push(plan.cycles_per_access);
    costs.sort_unstable();
    costs.dedup();
    costs
}

/// Every policy on private heaps in C, under every load.
pub fn in_c(plan: &Plan) -> Vec<Cell> {
    let Some(&mesh) = plan.platforms.first() else { return Vec::new() };
    let private = Cell::plain(mesh, Allocator::Private, Order::Index);
    let loads = || std::iter::once(None).chain((0..plan.kernels).map(Some));
    let of = |&policy: &&'static str| {
        let private = private.clone().with(policy);
        loads().map(move |program| Cell { program, ..private.clone() })
    };
    plan.in_c.iter().flat_map(of).collect()
}

/// Allocators by the pauses between calls.
pub fn waiting(plan: &Plan) -> Vec<Cell> {
    let Some(&mesh) = plan.platforms.last() else { return Vec::new() };
    let of = |allocator| {
        let cell = Cell::plain(mesh, allocator, Order::Index);
        plan.thinks.iter().map(move |&think| cell.clone().thinking(think))
    };
    WAITING.into_iter().flat_map(of).collect()
}

/// The usual allocators over the allocator in C, as the table of costs has it: cycles of a call, the mean of
/// all loads and policies, seed by seed. Kernels draw nothing: every seed has the same.
pub fn usual_over_c(plan: &Plan, entries: &[Entry], in_c: &[Entry]) -> Option<Vec<f64>> {
    let first = plan.platforms.first()?.to_string();
    let cycles = |entry: &Entry, seed: usize| {
        entry.runs.get(seed).or(entry.runs.first()).map(|row| row.cycles)
    };
    let table = |load: &str, seed: usize| {
        let is = |entry: &&Entry| {
            let row = &entry.mean;
            row.load == load && row.platform == first && row.allocator == Allocator::Private.name()
        };
        cycles(entries.iter().find(is)?, seed)
    };
    let of_seed = |seed: usize| {
        let usual = in_c.iter().filter(|entry| plan.general_purpose.contains(&entry.mean.policy));
        let ratio = |entry: &Entry| Some(cycles(entry, seed)? / table(&entry.mean.load, seed)?);
        let ratios: Vec<f64> = usual.map(ratio).collect::<Option<_>>()?;
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    };
    (0..plan.repeats as usize).map(of_seed).collect()
}

/// What an improvement changes on one platform, in percent of the cycles without it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gain {
    /// Alone, against none.
    pub alone: f64,
    /// All, against all but it.
    pub together: f64,
}

/// What `one` gains on that platform; negative is fewer cycles.
pub fn gain(results: &Results, mesh: Mesh, one: Improvement) -> Option<Gain> {
    let cycles = |variant: &str| {
        let entry = results.find(mesh, Allocator::Proposed, Order::Hinted, variant)?;
        Some(entry.mean.cycles)
    };
    let change = |with: f64, without: f64| 100.0 * (with / without - 1.0);
    let without = cycles(&format!("all but {}", one.name()))?;
    Some(Gain {
        alone: change(cycles(one.name())?, cycles("none")?),
        together: change(cycles("all")?, without),
    })
}
