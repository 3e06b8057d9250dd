//! `cargo xtask bench instructions`: what does not depend on the machine's mood. Single calls are stepped through
//! (`step.c`), whole micro workloads counted under valgrind.

use super::allocators::Allocator;
use super::callgrind;
use super::compile;
use super::launch::{self, Job};
use super::place::Place;
use super::raw::Raw;
use super::suite::{self, Micro};
use super::table::Table;
use serde_json::{Value, json};

/// Steps through single calls; the table and whether all runs counted.
pub fn single_calls(
    place: &Place,
    allocators: &[Allocator],
    quick: bool,
    raw: &mut Raw,
) -> anyhow::Result<(String, bool)> {
    let calls = if quick { "200" } else { "1000" };
    let head = [
        "allocator",
        "malloc",
        "mean",
        "free",
        "mean",
        "mixed malloc",
        "mean",
        "worst",
        "its calls of the kernel",
        "mixed free",
        "mean",
        "worst",
        "its calls of the kernel",
    ];
    let title = format!(
        "Instructions of one call (median; {calls} blocks of 64 B of the own thread allocated, then freed in order; \
         then {calls} mixed replacements, 16 B - 32 KiB)"
    );
    let mut table = Table::new(title, head.map(str::to_owned));
    let mut whole = true;
    for allocator in allocators {
        let job = job(place, "step.c", &["64", calls, "20000"]);
        let outcome = launch::run(place, allocator, &job, None)?;
        let result: Option<Value> = serde_json::from_str(outcome.stdout.trim()).ok();
        raw.push(&json!({"kind": "single calls", "allocator": allocator.name, "result": result, "failure": outcome.failure()}))?;
        let cells = match (outcome.failure(), result) {
            (None, Some(result)) => cells(&result),
            (why, _) => {
                whole = false;
                vec![format!("FAILED: {}", why.unwrap_or_default())]
            }
        };
        table.push([allocator.name.clone()].into_iter().chain(cells));
    }
    Ok((table.render(), whole))
}

fn cells(result: &Value) -> Vec<String> {
    let show = |call: &str, key: &str| result[call][key].to_string();
    let mut cells = Vec::new();
    for call in ["malloc", "free"] {
        cells.extend([show(call, "median"), show(call, "mean")]);
    }
    for call in ["mixed_malloc", "mixed_free"] {
        cells.extend(["median", "mean", "max", "max_syscalls"].map(|key| show(call, key)));
    }
    cells
}

fn job(place: &Place, source: &str, args: &[&str]) -> Job {
    Job {
        program: compile::binary(place, source),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: Vec::new(),
        preload_libc: false,
        keep_output: true,
    }
}

/// Counts whole workloads; the table and whether all runs counted.
pub fn workloads(
    place: &Place,
    allocators: &[Allocator],
    micro: &[Micro],
    raw: &mut Raw,
) -> anyhow::Result<(String, bool)> {
    let title =
        "Instructions in the allocator and libc over a whole workload: ratio to glibc (millions)";
    let head = ["row".to_owned(), "glibc".to_owned()].into_iter();
    let base = allocators.iter().position(|allocator| allocator.name == "glibc").unwrap_or(0);
    let columns: Vec<usize> = (0..allocators.len())
        .filter(|column| *column != base && allocators[*column].name != "glibc-again")
        .collect();
    let names = columns.iter().map(|column| allocators[*column].name.clone());
    let mut table = Table::new(title, head.chain(names));
    let mut ratios: Vec<Vec<f64>> = vec![Vec::new(); allocators.len()];
    let mut whole = true;
    for row in micro {
        let Some(count) = &row.count else { continue };
        let args = suite::words(count, &place.scratch);
        let job = job(place, &row.source, &args.iter().map(String::as_str).collect::<Vec<_>>());
        let mut counted = vec![None; allocators.len()];
        for column in columns.iter().copied().chain([base]) {
            let result = callgrind::count(place, &allocators[column], &job);
            raw.push(&json!({"kind": "instructions", "row": row.name, "args": count, "allocator": allocators[column].name,
                "instructions": result.as_ref().ok(), "failure": result.as_ref().err().map(|why| format!("{why:#}"))}))?;
            whole &= result.is_ok();
            counted[column] = result.ok();
        }
        let glibc = counted[base].map_or(f64::NAN, millions);
        let cells = columns.iter().map(|column| {
            let Some(mine) = counted[*column].map(millions) else { return "failed".to_owned() };
            ratios[*column].push(mine / glibc);
            format!("{:.2} ({mine:.1})", mine / glibc)
        });
        table.push([row.name.clone(), format!("{glibc:.1}")].into_iter().chain(cells));
    }
    let means = columns.iter().map(|column| geometric_mean(&ratios[*column]));
    table.push(["geometric mean".to_owned(), String::new()].into_iter().chain(means));
    Ok((table.render(), whole))
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn millions(count: u64) -> f64 {
    count as f64 * 1e-6
}

#[expect(clippy::cast_precision_loss, reason = "a few dozen rows")]
fn geometric_mean(ratios: &[f64]) -> String {
    let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    format!("{mean:.2} ({} rows)", ratios.len())
}
