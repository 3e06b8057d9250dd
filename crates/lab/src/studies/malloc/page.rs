//! The study as one HTML file: which decision earns its place, the comparison with reality, each program.

use super::{Cost, Found, Held, Results, Row, Verdict};
use crate::human;
use crate::report::html::{self, Cell, Figures};
use crate::report::sheet;

/// The whole page. `command` is what made it.
pub fn page(results: &Results, command: &str) -> String {
    let mut out = sheet::open(
        "study malloc",
        "Which mechanism of the malloc earns its place",
        "Recorded programs on the shipped code, each of its decisions switched.",
        &results.answer(),
        "Simulated: exact, the same on every machine for the same traces. The program touches all that it gets; the machine \
         has pages of 4 KiB and gives huge pages where the malloc asks for them. Peak and mean are of resident memory.",
        "",
    );
    let figures = Figures { command };
    if !results.verdicts.is_empty() {
        out.push_str("<h2 id=\"decisions\">Decision by decision</h2>");
        decisions(&mut out, &figures, results);
    }
    if results.replayed().any(|found| found.held.is_some()) {
        out.push_str("<h2 id=\"held\">Held to reality</h2>");
        held(&mut out, &figures, results);
    }
    out.push_str("<h2 id=\"programs\">Program by program</h2>");
    shipped(&mut out, &figures, results);
    for found in results.replayed().filter(|found| !found.rows.is_empty()) {
        program(&mut out, &figures, found);
    }
    sheet::close(&mut out, "study-malloc.json", results, results.schema_version, "");
    out
}

/// A number as `--set` takes it.
pub fn number(value: usize) -> String {
    match value {
        usize::MAX => "never".to_owned(),
        _ if value >= 1 << 20 && value.is_multiple_of(1 << 20) => format!("{}M", value >> 20),
        _ if value >= 1 << 10 && value.is_multiple_of(1 << 10) => format!("{}K", value >> 10),
        _ => value.to_string(),
    }
}

/// `+3.1 %`, and of which program.
fn cost(cost: Option<&Cost>) -> Cell {
    match cost {
        None => Cell::text("–"),
        Some(Cost { program, share }) => {
            Cell { note: Some(program.clone()), ..Cell::text(format!("{:+.2} %", 100.0 * share)) }
        }
    }
}

fn decisions(out: &mut String, figures: &Figures<'_>, results: &Results) {
    let row = |one: &Verdict| {
        let by = one.earns_by.join(", ");
        vec![
            Cell { note: Some(one.reason.to_owned()), ..Cell::text(one.decision) },
            Cell::text(format!("{} → {}", number(one.shipped), number(one.value))),
            Cell {
                best: !by.is_empty(),
                ..Cell::text(if by.is_empty() { "–".to_owned() } else { by })
            },
            cost(one.peak.as_ref()),
            cost(one.mean.as_ref()),
            cost(one.instructions.as_ref()),
            cost(one.faults.as_ref()),
            cost(one.saves.as_ref()),
        ]
    };
    let rows: Vec<_> = results.verdicts.iter().map(row).collect();
    let heads =
        ["decision", "switched", "earns by", "peak", "mean", "instructions", "faults", "saves"];
    let lead = "What each costs when it is switched off, or to a quarter where there is no off: the most on any program, named \
                below the figure. A decision earns its place where peak, mean or instructions grow by more than 1 %. Saves: the least \
                of peak and mean on any program.";
    let table = html::table_of("Decisions", heads.map(String::from), &rows);
    figures.add(out, "switched", "Each decision switched", lead, &table);
}

fn held(out: &mut String, figures: &Figures<'_>, results: &Results) {
    let row = |(found, held): (&Found, &Held)| {
        let mut cells = vec![
            Cell::text(&found.name),
            Cell::text(human::bytes(held.simulated)),
            Cell {
                note: Some(format!(
                    "{} to {}",
                    human::bytes(held.real_least),
                    human::bytes(held.real_most)
                )),
                ..Cell::text(human::bytes(held.real))
            },
            Cell { best: held.is_near(), ..Cell::text(format!("{:+.2} %", 100.0 * held.share())) },
            Cell::text(format!(
                "{} / {}",
                human::count(held.faults.0),
                human::count(held.faults.1)
            )),
        ];
        cells.extend(held.at_peak.columns().map(|(_, bytes)| Cell::text(human::bytes(bytes))));
        cells
    };
    let all = results.replayed().filter_map(|found| Some((found, found.held.as_ref()?)));
    let rows: Vec<_> = all.map(row).collect();
    let mut heads =
        vec!["program", "simulated", "real", "of that library", "difference", "faults, both"];
    heads.extend(crate::results::Causes::default().columns().map(|(name, _)| name));
    let lead = "Peak of resident memory: simulated, and of the same trace replayed on libfreehold.so, the median of five runs. \
                The simulated purger's clock is as much faster as the real replay was. Marked: within 5 %. Of that library: what the library has before the first event. The causes are those of the \
                simulated peak.";
    let table = html::table_of("Simulated and real", heads.into_iter().map(String::from), &rows);
    figures.add(out, "simulated-and-real", "Simulated and real", lead, &table);
}

fn shipped(out: &mut String, figures: &Figures<'_>, results: &Results) {
    let row = |found: &Found| {
        let name = Cell { note: Some(found.about.clone()), ..Cell::text(&found.name) };
        let Some(row) = &found.shipped else {
            let why = found.missing.clone().unwrap_or_default();
            return vec![name, Cell::text(format!("missing: {why}"))];
        };
        let mut cells = vec![
            name,
            Cell::text(human::count(found.events)),
            Cell::text(found.threads.to_string()),
            Cell::text(human::bytes(row.peak)),
            Cell::text(human::bytes(row.mean)),
            Cell::text(human::count(row.faults)),
        ];
        cells.extend(row.at_peak.columns().map(|(_, bytes)| Cell::text(human::bytes(bytes))));
        cells
    };
    let rows: Vec<_> = results.programs.iter().map(row).collect();
    let mut heads = vec!["program", "events", "threads", "peak", "mean", "faults"];
    heads.extend(crate::results::Causes::default().columns().map(|(name, _)| name));
    let lead = "As shipped, at the speed of the recorded program. The last eight columns are the peak, by cause.";
    let table = html::table_of("As shipped", heads.into_iter().map(String::from), &rows);
    figures.add(out, "shipped", "As shipped", lead, &table);
}

fn program(out: &mut String, figures: &Figures<'_>, found: &Found) {
    let Some(shipped) = &found.shipped else { return };
    let row = |row: &Row| {
        let name = row.variant.as_ref().map_or("as shipped", |variant| variant.decision);
        let how = row.variant.as_ref().map(|variant| variant.how.to_owned());
        let beside = |value: u64, before: u64, show: fn(u64) -> String| Cell {
            note: (value != before && before > 0)
                .then(|| format!("{:+.2} %", 100.0 * (value as f64 / before as f64 - 1.0))),
            ..Cell::text(show(value))
        };
        vec![
            Cell { note: how, ..Cell::text(name) },
            beside(row.peak, shipped.peak, human::bytes),
            beside(row.mean, shipped.mean, human::bytes),
            beside(row.last, shipped.last, human::bytes),
            beside(row.faults, shipped.faults, human::count),
            match (row.instructions, shipped.instructions) {
                (Some(value), Some(before)) => beside(value, before, human::count),
                _ => Cell::text("–"),
            },
        ]
    };
    let rows: Vec<_> = std::iter::once(shipped).chain(&found.rows).map(row).collect();
    let heads = ["decision", "peak", "mean", "at end", "faults", "instructions"];
    let table = html::table_of(&found.name, heads.map(String::from), &rows);
    let id = format!("program-{}", found.name.replace(|c: char| !c.is_ascii_alphanumeric(), "x"));
    figures.add(out, &id, &found.name, &format!("{}.", found.about), &table);
}
