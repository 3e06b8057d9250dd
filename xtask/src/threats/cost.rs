//! What hardening costs: perl, redis and sqlite under the hardened mallocs and under glibc's, in interleaved rounds of the
//! bench; processor time and peak memory over glibc's.

use super::columns;
use crate::bench::allocators::Allocator;
use crate::bench::launch::Usage;
use crate::bench::place::Place;
use crate::bench::raw::Raw;
use crate::bench::rounds::{self, Measured};
use crate::bench::stats::{self, Pairs, Ratio};
use crate::bench::{compile, facts, rows, suite};
use anyhow::Context;
use std::fmt::Write;

/// What Freehold is to cost less than.
const RIVALS: [&str; 2] = ["hardened_malloc", "scudo"];
/// glibc comes first: all others are compared with it, and it once more shows the noise.
const COLUMNS: &str = "glibc,glibc-again,freehold,freehold-secure,mimalloc2-secure,snmalloc-checks,hardened_malloc,scudo";
const PROGRAMS: &[&str] = &["perl", "redis", "sqlite"];

/// Measures, keeps the raw data, and makes the table.
pub fn measure(place: &Place, runs: usize) -> anyhow::Result<String> {
    let columns = columns::resolve(COLUMNS, place);
    let missing = columns.iter().filter(|column| column.allocator.is_err());
    let missing: Vec<String> = missing.map(|column| column.name.clone()).collect();
    let allocators: Vec<Allocator> =
        columns.into_iter().filter_map(|column| column.allocator.ok()).collect();
    compile::all(place, std::iter::empty())?;
    let file = suite::folder().join("results/threats-cost.jsonl");
    let mut raw = Raw::create(&file, &facts::head(&allocators, runs, false))?;
    let listed = suite::load()?.program;
    let mut measured = Vec::new();
    for name in PROGRAMS {
        eprintln!("{name}");
        let program = listed.iter().find(|program| program.name == *name);
        let program = program.with_context(|| format!("the bench has no row {name}"))?;
        let row = rows::of_program(place, program, false)?;
        measured.push(rounds::measure(place, &row, &allocators, runs, &mut raw)?);
    }
    eprintln!("raw data: {}", raw.finish()?.display());
    Ok(markdown(&allocators, &measured, &missing, runs))
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
fn cpu(usage: &Usage) -> f64 {
    (usage.user_us + usage.system_us) as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
fn memory(usage: &Usage) -> f64 {
    usage.peak_rss_kib as f64
}

/// Of a column, over another's.
fn ratio(row: &Measured, column: usize, to: usize, of: fn(&Usage) -> f64) -> Option<Ratio> {
    let values = |column: usize| -> Option<Vec<f64>> {
        Some(row.usages[column].as_ref().ok()?.iter().map(of).collect())
    };
    Some(stats::ratio(&Pairs { of: &values(column)?, to: &values(to)? }))
}

/// One line a rival: the processor time of Freehold's hardened calls over its.
fn beside_rivals(allocators: &[Allocator], rows: &[Measured]) -> String {
    let at = |name: &str| allocators.iter().position(|allocator| allocator.name == name);
    let line = |rival: &&str| {
        let (ours, rivals) = (at("freehold-secure")?, at(rival)?);
        let one = |row: &Measured| {
            let time = ratio(row, ours, rivals, cpu)?;
            Some(format!("{} {:.2} ({:.2} to {:.2})", row.row, time.value, time.low, time.high))
        };
        let all: Vec<String> = rows.iter().filter_map(one).collect();
        Some(format!("\nfreehold-secure's time over that of {rival}: {}.\n", all.join(", ")))
    };
    RIVALS.iter().filter_map(line).collect()
}

fn markdown(
    allocators: &[Allocator],
    rows: &[Measured],
    missing: &[String],
    runs: usize,
) -> String {
    let mut text = String::from("| malloc |");
    rows.iter().for_each(|row| _ = write!(text, " {}, time | memory |", row.row));
    text += "\n|---|";
    rows.iter().for_each(|_| text += "---|---|");
    text.push('\n');
    for (column, allocator) in allocators.iter().enumerate().skip(1) {
        let _ = write!(text, "| {} |", allocator.name);
        for row in rows {
            match (ratio(row, column, 0, cpu), ratio(row, column, 0, memory)) {
                (Some(time), Some(memory)) => {
                    let _ = write!(
                        text,
                        " {:.2} ({:.2} to {:.2}) | {:.2} |",
                        time.value, time.low, time.high, memory.value
                    );
                }
                _ => text += " fails | – |",
            }
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "\nProcessor time (with its 95 % interval) and peak memory over glibc's, {runs} rounds, commit {}.",
        facts::commit()
    );
    text += &beside_rivals(allocators, rows);
    if !missing.is_empty() {
        let _ = writeln!(text, "Missing when the table was made: {}.", missing.join(", "));
    }
    text
}
