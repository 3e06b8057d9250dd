//! Latency of single calls (`latency.c`): percentiles of malloc, of malloc and the
//! first writes into the block, and of free, medians over the rounds.

use super::allocators::Allocator;
use super::launch::{self, Job};
use super::place::Place;
use super::raw::Raw;
use super::stats;
use super::summary::number;
use super::table::Table;
use serde_json::{Value, json};

/// What is timed, as the program names it, and as the table does.
const CALLS: &[(&str, &str)] =
    &[("malloc", "malloc"), ("malloc_and_touch", "malloc+touch"), ("free", "free")];
const POINTS: &[&str] = &["p50", "p99", "p99.9", "p99.99", "max"];
/// How long the longest blocks are, a table each.
const LARGEST: &[&str] = &["8K", "64K"];

/// Runs `rounds` interleaved rounds for each table and returns the tables, and whether all runs counted.
pub fn measure(
    place: &Place,
    allocators: &[Allocator],
    rounds: usize,
    quick: bool,
    raw: &mut Raw,
) -> anyhow::Result<(String, bool)> {
    let (mut tables, mut whole) = (String::new(), true);
    for largest in LARGEST {
        let (table, all) = measure_to(largest, place, allocators, rounds, quick, raw)?;
        tables += &table;
        whole &= all;
    }
    Ok((tables, whole))
}

fn measure_to(
    largest: &str,
    place: &Place,
    allocators: &[Allocator],
    rounds: usize,
    quick: bool,
    raw: &mut Raw,
) -> anyhow::Result<(String, bool)> {
    let ops = if quick { "300000" } else { "1500000" };
    let args = [ops, "5000", "20", largest].map(str::to_owned).to_vec();
    let job = Job::of_ours(place, "latency.c", args);
    let mut results: Vec<Vec<Value>> = vec![Vec::new(); allocators.len()];
    for round in 0..rounds {
        for step in 0..allocators.len() {
            let column = (round + step) % allocators.len();
            let outcome = launch::run(place, &allocators[column], &job, None)?;
            let result: Option<Value> = serde_json::from_str(outcome.stdout.trim()).ok();
            raw.push(
                &json!({"kind": "latency", "largest": largest, "allocator": allocators[column].name,
                "round": round, "result": result, "failure": outcome.failure()}),
            )?;
            results[column].extend(result.filter(|_| outcome.failure().is_none()));
        }
    }
    let whole = results.iter().all(|runs| runs.len() == rounds);
    Ok((table(allocators, &results, ops, largest).render(), whole))
}

fn table(allocators: &[Allocator], results: &[Vec<Value>], ops: &str, largest: &str) -> Table {
    let clock = median(&results.concat(), |result| &result["clock_ns"]);
    let title = format!(
        "Latency per call in ns (2 threads x {ops} replacements of 16 B - {}iB, 20 % freed by the other thread; \
         the clock's own cost of {} ns is included)",
        largest.replace('K', " K"),
        number(clock)
    );
    let head = CALLS
        .iter()
        .flat_map(|(_, call)| POINTS.iter().map(move |point| format!("{call} {point}")));
    let mut table = Table::new(title, ["allocator".to_owned()].into_iter().chain(head));
    for (allocator, runs) in allocators.iter().zip(results) {
        let cells = CALLS.iter().flat_map(|(call, _)| {
            POINTS.iter().map(move |point| number(median(runs, |result| &result[*call][*point])))
        });
        table.push([allocator.name.clone()].into_iter().chain(cells));
    }
    table
}

fn median(runs: &[Value], pick: impl Fn(&Value) -> &Value) -> f64 {
    let values: Vec<f64> = runs.iter().filter_map(|run| pick(run).as_f64()).collect();
    stats::median(&values)
}
