//! What stays resident after a storm of frees: the three patterns of `returns.c`, with what it costs to fill the heap
//! again and the CPU time spent while the program slept.

use super::allocators::Allocator;
use super::launch::{self, Job};
use super::place::Place;
use super::raw::Raw;
use super::summary::number;
use super::table::Table;
use serde_json::{Value, json};

/// The patterns, in the order of the tables.
pub const PATTERNS: &[&str] = &["random", "sparse", "all"];

const IDLE_MS: &str = "2000";

/// Runs one pattern under every allocator and returns its table; one run each, since sizes hardly vary.
pub fn measure(
    place: &Place,
    allocators: &[Allocator],
    pattern: &str,
    quick: bool,
    raw: &mut Raw,
) -> anyhow::Result<(String, bool)> {
    let bytes = if quick { "128M" } else { "1G" };
    let title = format!("Memory return, {pattern}: {bytes} of 16-1024 B blocks, then 2 s idle");
    let head = [
        "allocator",
        "live MiB",
        "RSS full",
        "RSS freed",
        "RSS idle",
        "idle / live",
        "idle - start",
        "idle CPU s",
        "refill faults",
        "refill s",
    ];
    let mut table = Table::new(title, head.map(str::to_owned));
    let mut whole = true;
    for allocator in allocators {
        let args = [pattern, bytes, IDLE_MS].map(str::to_owned).to_vec();
        let job = Job::of_ours(place, "returns.c", args);
        let outcome = launch::run(place, allocator, &job, None)?;
        let result: Option<Value> = serde_json::from_str(outcome.stdout.trim()).ok();
        raw.push(&json!({"kind": "returns", "pattern": pattern, "bytes": bytes, "allocator": allocator.name,
            "result": result, "usage": outcome.usage, "failure": outcome.failure()}))?;
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
    let value = |key: &str| result[key].as_f64().unwrap_or(f64::NAN);
    let mib = |bytes: f64| number(bytes / 1_048_576.0);
    let live = value("live");
    let ratio =
        if live > 0.0 { format!("{:.2}", value("idle_rss") / live) } else { "-".to_owned() };
    vec![
        mib(live),
        mib(value("full_rss")),
        mib(value("freed_rss")),
        mib(value("idle_rss")),
        ratio,
        mib(value("idle_rss") - value("base_rss")),
        number(value("idle_cpu_s")),
        format!("{}", value("refill_faults")),
        number(value("refill_s")),
    ]
}
