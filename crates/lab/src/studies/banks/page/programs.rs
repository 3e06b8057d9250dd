//! Chapter 6's counterpart: real programs with the malloc's giving back of memory on and off. Measured once and recorded, not
//! run by the study: the raw file is part of the project, and the figure names the command that made it.

use super::{heads, texts};
use crate::report::html::{self, Cell, Figure};
use serde_json::Value;
use std::collections::BTreeMap;

const RAW: &str = include_str!("../../../../../../bench/results/2026-11-22-programs-kept.jsonl");

/// Wall nanoseconds of a program's rounds: giving back, and keeping.
type Rounds = BTreeMap<u64, [Option<f64>; 2]>;

/// The recorded run: its head, and its programs in the order in which they ran.
struct Recorded {
    head: Value,
    programs: Vec<(String, Rounds)>,
}

fn recorded() -> Option<Recorded> {
    let mut lines = RAW.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let head = lines.next()?;
    let mut programs: Vec<(String, Rounds)> = Vec::new();
    for run in lines.filter(|line| line["kind"] == "run") {
        let Some(which) =
            ["freehold", "freehold-keeps"].iter().position(|&name| run["allocator"] == name)
        else {
            continue;
        };
        let (row, round) = (run["row"].as_str()?, run["round"].as_u64()?);
        let at = programs.iter().position(|(name, _)| name == row).unwrap_or_else(|| {
            programs.push((row.to_owned(), Rounds::new()));
            programs.len() - 1
        });
        programs[at].1.entry(round).or_default()[which] = run["usage"]["wall_ns"].as_f64();
    }
    Some(Recorded { head, programs })
}

/// The quotients of the rounds, giving back over keeping, in rising order.
fn quotients(rounds: &Rounds) -> Vec<f64> {
    let both = rounds.values().filter_map(|&[gives, keeps]| Some(gives? / keeps?));
    let mut all: Vec<f64> = both.collect();
    all.sort_by(f64::total_cmp);
    all
}

fn row(name: &str, rounds: &Rounds) -> Option<Vec<Cell>> {
    let all = quotients(rounds);
    let (least, most, middle) = (all.first()?, all.last()?, all[all.len() / 2]);
    let verdict = if *least <= 1.0 && 1.0 <= *most { "none to be seen" } else { "all one way" };
    Some(texts([
        name.to_owned(),
        format!("{middle:.3}"),
        format!("{least:.2} to {most:.2}"),
        verdict.to_owned(),
    ]))
}

/// The table.
pub fn kept(out: &mut String) {
    let Some(Recorded { head, programs }) = recorded() else { return };
    let rows: Vec<Vec<Cell>> =
        programs.iter().filter_map(|(name, rounds)| row(name, rounds)).collect();
    let mut table = String::new();
    let names = ["program", "wall time, on / off, median", "all rounds", "difference"];
    html::table(&mut table, "Giving back on and off", &heads(&names), &rows);
    let words = head["command"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let command = words.fold("cargo xtask".to_owned(), |all, word| all + " " + word);
    let lead = format!(
        "The thesis found no observable difference between its allocator and stock in kernbench, filebench, PARSEC, AIM9 and \
         lmbench; those need a patched kernel. Ours: programs on this project's malloc, memory given back while they run over \
         memory kept, each quotient of one round, {} rounds. Recorded at commit {}; the study does not run them.",
        head["runs"],
        head["commit"].as_str().unwrap_or("?"),
    );
    let title = "Chapter 6: real programs, giving back on and off";
    let figure = Figure {
        id: "chapter-6",
        title,
        lead: &lead,
        drawing: &table,
        table: "",
        command: &command,
    };
    out.push_str("<h2 id=\"programs\">Chapter 6: what it costs programs</h2>");
    figure.write(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_run_is_read_as_it_stands() {
        let found = recorded().unwrap();
        let names: Vec<&str> = found.programs.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["python", "gcc", "sqlite", "redis", "git-log", "perl"]);
        let perl = quotients(&found.programs[5].1);
        assert_eq!(perl.len(), 5);
        assert!((perl[2] - 0.925).abs() < 0.001 && perl[4] < 1.0, "{perl:?}");
        let mut page = String::new();
        kept(&mut page);
        assert!(page.contains("0.925") && page.contains("cargo xtask bench --quick"), "{page}");
    }
}
