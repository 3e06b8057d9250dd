//! What a preloaded library costs a program that does nothing: `trivial.c` started some hundred times under each
//! allocator, interleaved, beside a library with nothing in it.

use super::allocators::Allocator;
use super::compile;
use super::launch::{Job, Usage};
use super::place::Place;
use super::raw::Raw;
use super::rounds;
use super::rows::Row;
use super::stats::{self, Pairs};
use super::summary::number;
use super::table::Table;

/// Runs the programs and returns the table, and whether all runs counted.
pub fn measure(
    place: &Place,
    allocators: &[Allocator],
    quick: bool,
    raw: &mut Raw,
) -> anyhow::Result<(String, bool)> {
    let mut columns = vec![Allocator {
        name: "empty library".to_owned(),
        library: Some(place.lib.join(compile::library("empty"))),
        env: Vec::new(),
        version: String::new(),
    }];
    columns.extend(allocators.iter().cloned());
    let job = Job::of_ours(place, "trivial.c", Vec::new());
    let row = Row::plain("start-up", job);
    let measured =
        rounds::measure_unverified(place, &row, &columns, if quick { 40 } else { 300 }, raw)?;
    let head = ["allocator", "time ms", "to empty [95 %]", "CPU ms", "faults", "peak RSS KiB"];
    let mut table = Table::new("Start-up of a trivial program", head.map(str::to_owned));
    let mut whole = true;
    for (column, usages) in columns.iter().zip(&measured.usages) {
        let cells = match (usages, &measured.usages[0]) {
            (Ok(usages), Ok(empty)) => cells(usages, empty),
            (why, _) => {
                whole = false;
                vec![format!("FAILED: {}", why.as_ref().err().map_or("", String::as_str))]
            }
        };
        table.push([column.name.clone()].into_iter().chain(cells));
    }
    Ok((table.render(), whole))
}

#[expect(clippy::cast_precision_loss, reason = "times and sizes of a trivial program are small")]
fn cells(usages: &[Usage], empty: &[Usage]) -> Vec<String> {
    let values =
        |of: &[Usage], metric: fn(&Usage) -> f64| of.iter().map(metric).collect::<Vec<f64>>();
    let wall = |usage: &Usage| usage.wall_ns as f64 * 1e-6;
    let (mine, theirs) = (values(usages, wall), values(empty, wall));
    let ratio = stats::ratio(&Pairs { of: &mine, to: &theirs });
    let median = |metric: fn(&Usage) -> f64| number(stats::median(&values(usages, metric)));
    vec![
        number(stats::median(&mine)),
        format!("{:.2} [{:.2}-{:.2}]", ratio.value, ratio.low, ratio.high),
        median(|usage| (usage.user_us + usage.system_us) as f64 * 1e-3),
        median(|usage| usage.minor_faults as f64),
        median(|usage| usage.peak_rss_kib as f64),
    ]
}
