//! Instructions of whole micro workloads, counted under valgrind: what does not depend on the machine's mood, slow paths
//! included.

use super::allocators::Allocator;
use super::callgrind;
use super::launch::Job;
use super::place::{Place, find_program};
use super::raw::Raw;
use super::suite::{self, Micro};
use super::table::Table;
use serde_json::json;

/// The counts of one row, by column; `None` where there is none.
type Counts = Vec<Option<u64>>;

/// Counts every row that has parameters for it; the tables and whether all runs counted.
pub fn measure(
    place: &Place,
    allocators: &[Allocator],
    micro: &[Micro],
    raw: &mut Raw,
) -> anyhow::Result<(String, bool)> {
    find_program("valgrind", "valgrind")?;
    let (able, notes) = who_runs(place, allocators);
    let mut rows = Vec::new();
    // A peer may be unable; Freehold promises to start small enough.
    let ours = |list: &[Allocator]| list.iter().any(|allocator| allocator.name == "freehold");
    let mut whole = ours(&able) == ours(allocators);
    for row in micro {
        let Some(parameters) = &row.count else { continue };
        eprintln!("{}", row.name);
        let job = job(place, &row.source, parameters);
        let mut counts = vec![None; able.len()];
        for (count, allocator) in counts.iter_mut().zip(&able) {
            let result = callgrind::count(place, allocator, &job);
            raw.push(&json!({
                "kind": "instructions",
                "row": row.name,
                "args": parameters,
                "allocator": allocator.name,
                "instructions": result.as_ref().ok(),
                "failure": result.as_ref().err().map(|why| format!("{why:#}")),
            }))?;
            whole &= result.is_ok();
            *count = result.ok();
        }
        rows.push((row.name.clone(), counts));
    }
    Ok((table(&able, &rows).render() + &notes, whole))
}

/// The columns that start under valgrind at all, glibc first and once, and a sentence on each that does not: an
/// allocator may want more address space than valgrind has to give.
fn who_runs(place: &Place, allocators: &[Allocator]) -> (Vec<Allocator>, String) {
    let trivial = job(place, "trivial.c", "");
    let (mut able, mut notes) = (Vec::new(), String::new());
    for allocator in allocators.iter().filter(|allocator| allocator.name != "glibc-again") {
        match callgrind::count(place, allocator, &trivial) {
            Ok(_) if allocator.name == "glibc" => able.insert(0, allocator.clone()),
            Ok(_) => able.push(allocator.clone()),
            Err(why) => {
                notes += &format!("{} does not run under valgrind: {why:#}\n", allocator.name);
            }
        }
    }
    (able, notes)
}

fn job(place: &Place, source: &str, parameters: &str) -> Job {
    Job::of_ours(place, source, suite::words(parameters, ("{scratch}", &place.scratch)))
}

fn table(able: &[Allocator], rows: &[(String, Counts)]) -> Table {
    let title =
        "Instructions in the allocator and libc over a whole workload: ratio to glibc (millions)";
    let others = able.iter().skip(1).map(|allocator| allocator.name.clone());
    let mut table =
        Table::new(title, ["row".to_owned(), "glibc".to_owned()].into_iter().chain(others));
    for (name, counts) in rows {
        let glibc = counts.first().copied().flatten();
        let cells = counts.iter().skip(1).map(|count| shown(*count, glibc));
        table.push(
            [name.clone(), glibc.map_or("failed".to_owned(), millions)].into_iter().chain(cells),
        );
    }
    let means = (1..able.len()).map(|column| geometric_mean(rows, column));
    table.push(["geometric mean".to_owned(), String::new()].into_iter().chain(means));
    table
}

fn shown(count: Option<u64>, glibc: Option<u64>) -> String {
    match (count, glibc) {
        (Some(count), Some(glibc)) => format!("{:.2} ({})", ratio(count, glibc), millions(count)),
        _ => "failed".to_owned(),
    }
}

fn geometric_mean(rows: &[(String, Counts)], column: usize) -> String {
    let counted = rows.iter().filter_map(|(_, counts)| Some((counts[column]?, counts[0]?)));
    let logs: Vec<f64> = counted.map(|(count, glibc)| ratio(count, glibc).ln()).collect();
    let rows = u32::try_from(logs.len()).unwrap_or(u32::MAX);
    let mean = (logs.iter().sum::<f64>() / f64::from(rows)).exp();
    format!("{mean:.2} ({rows} rows)")
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn ratio(count: u64, to: u64) -> f64 {
    count as f64 / to as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn millions(count: u64) -> String {
    format!("{:.1}", count as f64 * 1e-6)
}
