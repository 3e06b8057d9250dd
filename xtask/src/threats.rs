//! `cargo xtask threats`: what each malloc does when a program misuses it, and what hardening costs.
//!
//! ```text
//! misuse    the rows: one C program (xtask/threats/misuse.c), a case a row, in sizes and variants an attacker may choose
//! trial     one run of a case under one malloc, and the verdict on it
//! columns   the mallocs; one that is missing is said, and stands in the table as such
//! table     cells, in Markdown between two marks of THREAT-MODEL.md
//! cost      the time of real programs under the hardened ones, beside glibc's
//! ```
//!
//! Invariant: a verdict is what was seen from outside. No case knows an allocator, and a cell is the worst of its runs.

mod columns;
mod cost;
mod misuse;
mod table;
mod trial;

use crate::bench::{facts, place};
use clap::Args;
use columns::Column;
use misuse::{Cell, Row};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use table::Recorded;
use trial::Verdict;

/// What to run.
#[derive(Args)]
#[command(after_help = "Examples:
  cargo xtask threats --write                       the whole table, into THREAT-MODEL.md
  cargo xtask threats --only double-free --allocators glibc,freehold,freehold-secure
  cargo xtask threats --sources FOLDER --write      with FOLDER/hardened_malloc, a clone
  cargo xtask threats --gate --allocators freehold,freehold-secure --runs 1
  cargo xtask threats --cost --write                what hardening costs perl, redis and sqlite")]
pub struct Options {
    /// Only rows whose name contains one of these, separated by commas.
    #[arg(long, value_name = "PATTERNS", default_value = "", hide_default_value = true)]
    only: String,
    /// Columns, separated by commas; those of `cargo xtask bench`.
    #[arg(long, value_name = "LIST", default_value = columns::DEFAULT)]
    allocators: String,
    /// Where clones of what no package has lie.
    #[arg(long, value_name = "FOLDER")]
    sources: Option<PathBuf>,
    /// Runs of each variant: some mallocs choose at random.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// Runs at a time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Measure the cost of hardening instead, in this many rounds.
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "5", conflicts_with = "runs")]
    cost: Option<u16>,
    /// Put the table into THREAT-MODEL.md; all rows must be in it.
    #[arg(long, conflicts_with = "only")]
    write: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Fail where Freehold is worse than glibc, FREEHOLD_SECURE=1 than hardened_malloc or Scudo, or either than THREAT-MODEL.md says.
    /// Of a malloc that does not run here, the cell of THREAT-MODEL.md counts.
    #[arg(long)]
    gate: bool,
}

/// Runs the chore; the exit code is 1 when the gate is asked for and does not hold.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut place = place::open()?;
    if let Some(folder) = &options.sources {
        place.clones = std::path::absolute(folder)?;
    }
    if let Some(rounds) = options.cost {
        let text = cost::measure(&place, usize::from(rounds))?;
        print!("{text}");
        if options.write {
            table::write(table::COST, &text)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let columns = columns::resolve(&options.allocators, &place);
    let rows = misuse::judge(&place, options.chosen(), &columns, options.rounds())?;
    let worse = worse(&rows, &columns, &Recorded::read()?);
    let text = table::markdown(&rows, &columns, &worse);
    if options.json {
        println!("{:#}", document(&rows, &columns, &worse));
    } else {
        print!("{text}");
    }
    if options.write {
        table::write(table::MISUSE, &text)?;
    }
    let failed = options.gate && !worse.is_empty();
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Options {
    fn chosen(&self) -> Vec<&'static misuse::Case> {
        let fits = |name: &str| self.only.split(',').any(|word| name.contains(word.trim()));
        misuse::ALL.iter().filter(|case| fits(case.name)).collect()
    }

    fn rounds(&self) -> misuse::Rounds {
        misuse::Rounds { runs: usize::from(self.runs), jobs: usize::from(self.jobs) }
    }
}

/// Who must not be worse than whom.
const GOALS: &[(&str, &[&str])] =
    &[("freehold", &["glibc"]), ("freehold-secure", &["hardened_malloc", "scudo"])];

/// Where a goal is missed: one sentence a row.
fn worse(rows: &[Row], columns: &[Column], recorded: &Recorded) -> Vec<String> {
    let mut found = Vec::new();
    for row in rows {
        let seen = |name: &str| -> Option<Verdict> {
            let at = columns.iter().position(|column| column.name == name)?;
            row.cells[at].as_ref().map(Cell::worst)
        };
        let told = |name: &str| recorded.cell(row.case.sentence, name);
        for (ours, theirs) in GOALS {
            let Some(mine) = seen(ours) else { continue };
            for other in *theirs {
                if seen(other).or_else(|| told(other)).is_some_and(|beside| mine > beside) {
                    found.push(format!("{}: {ours} is worse than {other}", row.case.name));
                }
            }
            if told(ours).is_some_and(|before| mine > before) {
                found.push(format!("{}: {ours} is worse than THREAT-MODEL.md says", row.case.name));
            }
        }
    }
    found
}

fn document(rows: &[Row], columns: &[Column], worse: &[String]) -> Value {
    let head: Vec<Value> = columns
        .iter()
        .map(|column| match &column.allocator {
            Ok(allocator) => json!({"name": column.name, "version": allocator.version}),
            Err(why) => json!({"name": column.name, "missing": why}),
        })
        .collect();
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            let cells: serde_json::Map<String, Value> = columns
                .iter()
                .zip(&row.cells)
                .filter_map(|(column, cell)| Some((column.name.clone(), cell.as_ref()?.json())))
                .collect();
            json!({"row": row.case.name, "sentence": row.case.sentence, "cells": cells})
        })
        .collect();
    json!({
        "date": facts::date(),
        "commit": facts::commit(),
        "command": std::env::args().skip(1).collect::<Vec<_>>(),
        "columns": head,
        "rows": rows,
        "worse": worse,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trial::Trial;

    fn row(verdicts: &[Verdict]) -> Row {
        let cell = |verdict: &Verdict| {
            let trial = Trial { verdict: *verdict, said: String::new() };
            Some(Cell { trials: vec![(40, 0, trial)] })
        };
        Row { case: &misuse::ALL[0], cells: verdicts.iter().map(cell).collect() }
    }

    #[test]
    fn a_goal_is_missed_where_ours_is_worse() {
        use Verdict::{Detected, Exploitable, Fault, Silent};
        let column = |name: &str| Column { name: name.to_owned(), allocator: Err(String::new()) };
        let columns = ["freehold", "glibc", "freehold-secure", "scudo"].map(column);
        let missed = |verdicts| worse(&[row(verdicts)], &columns, &Recorded::default()).len();
        assert_eq!(missed(&[Fault, Detected, Silent, Silent]), 0);
        assert_eq!(missed(&[Silent, Detected, Detected, Silent]), 1);
        assert_eq!(missed(&[Exploitable, Silent, Silent, Detected]), 2);
    }

    #[test]
    fn a_malloc_that_is_missing_counts_as_the_document_tells() {
        use Verdict::{Detected, Exploitable, Silent};
        let columns = [Column { name: "freehold".to_owned(), allocator: Err(String::new()) }];
        let sentence = misuse::ALL[0].sentence;
        let missed = |ours: Verdict, told: &[(&str, Verdict)]| {
            worse(&[row(&[ours])], &columns, &Recorded::row(sentence, told)).len()
        };
        assert_eq!(missed(Silent, &[("freehold", Exploitable), ("glibc", Silent)]), 0);
        assert_eq!(missed(Silent, &[("freehold", Exploitable), ("glibc", Detected)]), 1);
        assert_eq!(missed(Silent, &[("freehold", Detected), ("glibc", Silent)]), 1);
    }
}
