//! The measurement itself: per row a warm-up run of every allocator (in which the bindings are verified), then rounds
//! in which each allocator runs once, the order rotated from round to round.

use super::allocators::Allocator;
use super::binding;
use super::launch::Usage;
use super::place::Place;
use super::raw::Raw;
use super::rows::Row;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The counted runs of one row, by allocator (in the order of the columns).
pub struct Measured {
    /// The row.
    pub row: String,
    /// One usage per round, or why there is none.
    pub usages: Vec<Result<Vec<Usage>, String>>,
}

/// Measures one row.
pub fn measure(
    place: &Place,
    row: &Row,
    allocators: &[Allocator],
    runs: usize,
    raw: &mut Raw,
) -> anyhow::Result<Measured> {
    let mut failures: BTreeMap<usize, String> = BTreeMap::new();
    let mut printed: Option<String> = None;
    for (column, allocator) in allocators.iter().enumerate() {
        match warm_up(place, row, allocator) {
            Err(why) => _ = failures.insert(column, format!("{why:#}")),
            Ok(output)
                if row.same_output && printed.get_or_insert_with(|| output.clone()) != &output =>
            {
                failures.insert(
                    column,
                    "it printed something else than under the first allocator".to_owned(),
                );
            }
            Ok(_) => {}
        }
    }
    let columns = Columns { place, row, allocators };
    columns.count(runs, failures, raw)
}

/// The same without the warm-up: for a row whose bindings are known.
pub fn measure_unverified(
    place: &Place,
    row: &Row,
    allocators: &[Allocator],
    runs: usize,
    raw: &mut Raw,
) -> anyhow::Result<Measured> {
    let columns = Columns { place, row, allocators };
    columns.count(runs, BTreeMap::new(), raw)
}

struct Columns<'a> {
    place: &'a Place,
    row: &'a Row,
    allocators: &'a [Allocator],
}

impl Columns<'_> {
    /// The counted rounds of every column that has not failed yet.
    fn count(
        &self,
        runs: usize,
        mut failures: BTreeMap<usize, String>,
        raw: &mut Raw,
    ) -> anyhow::Result<Measured> {
        let mut usages = vec![Vec::with_capacity(runs); self.allocators.len()];
        for round in 0..runs {
            for step in 0..self.allocators.len() {
                let column = (round + step) % self.allocators.len();
                if failures.contains_key(&column) {
                    continue;
                }
                match self.once(column, round, raw)? {
                    Ok(usage) => usages[column].push(usage),
                    Err(why) => _ = failures.insert(column, why),
                }
            }
        }
        let usages = usages.into_iter().enumerate();
        let usages = usages.map(|(column, runs)| failures.remove(&column).map_or(Ok(runs), Err));
        Ok(Measured { row: self.row.name.clone(), usages: usages.collect() })
    }

    fn once(
        &self,
        column: usize,
        round: usize,
        raw: &mut Raw,
    ) -> anyhow::Result<Result<Usage, String>> {
        let allocator = &self.allocators[column];
        let outcome = self.row.run(self.place, allocator, None)?;
        let done = self.row.work.as_ref().map(|work| work.read(&outcome.stdout)).transpose();
        let unread = done.as_ref().err().map(|why| format!("{why:#}"));
        let (failure, done) = (outcome.failure().or(unread), done.ok().flatten());
        let printed: Option<Value> = serde_json::from_str(outcome.stdout.trim()).ok();
        raw.push(&json!({
            "kind": "run",
            "row": self.row.name,
            "allocator": allocator.name,
            "round": round,
            "usage": outcome.usage,
            "work": done,
            "result": printed.filter(Value::is_object),
            "failure": failure,
        }))?;
        let usage = match (&self.row.work, done) {
            (Some(work), Some(done)) => outcome.usage.with_part_of_times(work.per / done),
            _ => outcome.usage,
        };
        Ok(failure.map_or(Ok(usage), Err))
    }
}

/// A run that is not counted: the bindings are verified, the output is returned.
fn warm_up(place: &Place, row: &Row, allocator: &Allocator) -> anyhow::Result<String> {
    let prefix = binding::prepare(place)?;
    let outcome = row.run(place, allocator, Some(&prefix))?;
    if let Some(why) = outcome.failure() {
        anyhow::bail!(why);
    }
    binding::verify(&prefix, allocator)?;
    Ok(outcome.stdout)
}
