//! The study as one HTML file: the answer, then a table for each program.

use super::{Found, MEASURES, Results};
use crate::human;
use crate::report::html::{self, Cell, Figure};
use crate::report::sheet;

/// The whole page. `command` is what made it.
pub fn page(results: &Results, command: &str) -> String {
    let mut paragraphs = vec![results.answer()];
    paragraphs.extend((!results.note.is_empty()).then(|| results.note.clone()));
    let mut out = sheet::open(
        "study fragmentation",
        "Fragmentation on recorded programs",
        "Programs and target were named before anything was measured.",
        &paragraphs,
        "Simulated: exact, the same on every machine for the same traces. A bar is the cell's share of the \
         worst of its column.",
        "",
    );
    for found in &results.traces {
        program(&mut out, results, found, command);
    }
    sheet::close(&mut out, "study-fragmentation.json", results, results.schema_version, "");
    out
}

fn program(out: &mut String, results: &Results, found: &Found, command: &str) {
    let (mut table, lead) = (String::new(), lead(results, found));
    if found.missing.is_none() {
        let mut heads = vec!["policy".to_owned()];
        heads.extend(MEASURES.iter().map(|measure| measure.title.to_owned()));
        heads.extend(["steps", "p99", "worst"].map(String::from));
        html::table(&mut table, &found.name, &heads, &rows(found));
    }
    Figure {
        id: &format!("trace-{}", found.name.replace(|c: char| !c.is_ascii_alphanumeric(), "x")),
        title: &found.name,
        lead: &lead,
        drawing: &table,
        table: "",
        command,
    }
    .write(out);
}

fn lead(results: &Results, found: &Found) -> String {
    if let Some(why) = &found.missing {
        return format!("{}. Missing: {why}.", capital(&found.about));
    }
    let not: Vec<&str> = found.target_met.iter().filter(|one| !*one.1).map(|one| *one.0).collect();
    let target = &results.target;
    let verdict = match not.as_slice() {
        [] => format!("{} is at most {}'s in all.", target.of, target.at_most),
        not => format!("{} is above {}'s in {}.", target.of, target.at_most, not.join(", ")),
    };
    format!(
        "{}. {} events, at most {} alive. {verdict}",
        capital(&found.about),
        human::exact(found.events),
        human::bytes(found.peak_live)
    )
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn rows(found: &Found) -> Vec<Vec<Cell>> {
    let column = |get: &dyn Fn(&crate::results::Outcome) -> Option<f64>| -> (f64, f64) {
        let values = found.policies.iter().filter_map(get);
        values
            .fold((f64::INFINITY, 0.0), |(least, most), value| (value.min(least), value.max(most)))
    };
    let ends: Vec<(f64, f64)> = MEASURES.iter().map(|measure| column(&measure.get)).collect();
    let row = |outcome: &crate::results::Outcome| {
        let mut cells = vec![Cell::text(outcome.name.clone())];
        for (measure, &(least, most)) in MEASURES.iter().zip(&ends) {
            let value = (measure.get)(outcome);
            let text = value.map_or("–".to_owned(), |value| format!("{:.2} %", 100.0 * value));
            let bar = value.map(|value| value / most.max(1e-12));
            cells.push(Cell {
                bar,
                best: value == Some(least) && least < most,
                ..Cell::text(text)
            });
        }
        let steps = outcome.steps.unwrap_or_default();
        cells.push(Cell::text(human::number(steps.mean)));
        cells.push(Cell::text(human::count(steps.p99)));
        cells.push(Cell::text(human::count(steps.max)));
        cells
    };
    found.policies.iter().map(row).collect()
}
