//! How much memory an allocator needs when the program is against it: the patterns of `blowup.c`.

use super::allocators::Allocator;
use super::launch::{self, Job};
use super::place::Place;
use super::raw::Raw;
use super::summary::number;
use super::table::Table;
use serde_json::{Value, json};

/// The patterns, in the order of the table's columns.
pub const PATTERNS: &[&str] = &["shift", "scatter", "sieve"];

/// Runs the chosen patterns under every allocator; the table and whether all runs counted.
pub fn measure(
    place: &Place,
    allocators: &[Allocator],
    patterns: &[&str],
    quick: bool,
    raw: &mut Raw,
) -> anyhow::Result<(String, bool)> {
    let bytes = if quick { "16M" } else { "64M" };
    let title = format!(
        "Blow-up: peak RSS over {bytes} of live blocks, sizes doubling from 16 B to 32 KiB"
    );
    let head = patterns.iter().map(|pattern| (*pattern).to_owned());
    let mut table = Table::new(title, ["allocator".to_owned()].into_iter().chain(head));
    let mut whole = true;
    for allocator in allocators {
        let mut cells = vec![allocator.name.clone()];
        for pattern in patterns {
            let job =
                Job::of_ours(place, "blowup.c", vec![(*pattern).to_owned(), bytes.to_owned()]);
            let outcome = launch::run(place, allocator, &job, None)?;
            let result: Option<Value> = serde_json::from_str(outcome.stdout.trim()).ok();
            let failure = outcome.failure();
            raw.push(&json!({"kind": "blow-up", "pattern": pattern, "bytes": bytes, "allocator": allocator.name,
                "result": result, "usage": outcome.usage, "failure": failure}))?;
            whole &= failure.is_none();
            cells.push(result.map_or_else(
                || format!("FAILED: {}", failure.unwrap_or_default()),
                |result| ratio(&result),
            ));
        }
        table.push(cells);
    }
    Ok((table.render(), whole))
}

fn ratio(result: &Value) -> String {
    let value = |key: &str| result[key].as_f64().unwrap_or(f64::NAN);
    number(value("peak_rss") / value("live"))
}
