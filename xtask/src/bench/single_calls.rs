//! Instructions of single calls, counted by stepping through them (`step.c`).

use super::allocators::Allocator;
use super::launch::{self, Job};
use super::place::Place;
use super::raw::Raw;
use super::table::Table;
use serde_json::{Value, json};

/// Steps through single calls; the table and whether all runs counted.
pub fn measure(
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
        "most syscalls",
        "mixed free",
        "mean",
        "worst",
        "most syscalls",
    ];
    let title = format!(
        "Instructions of one call (median; {calls} blocks of 64 B of the own thread allocated, then freed in order; \
         then {calls} mixed replacements, 16 B - 32 KiB)"
    );
    let mut table = Table::new(title, head.map(str::to_owned));
    let mut whole = true;
    for allocator in allocators {
        let args = ["64", calls, "20000"].map(str::to_owned).to_vec();
        let job = Job::of_ours(place, "step.c", args);
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
