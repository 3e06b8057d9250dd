//! The study as one HTML file: the answer, then a table for each program.

use super::{Compared, Counted, Found, Judged, MEASURES, Results, Tally, Verdict};
use crate::human;
use crate::report::html::{self, Cell, Figure};
use crate::report::sheet;
use crate::studies::class::Class;

/// The whole page. `command` is what made it.
pub fn page(results: &Results, command: &str) -> String {
    let mut paragraphs = vec![results.answer()];
    paragraphs.extend((!results.note.is_empty()).then(|| results.note.clone()));
    let mut out = sheet::open(
        "study fragmentation",
        "Fragmentation on recorded programs",
        if results.target.fitted {
            "The policy was chosen with these programs in view, so nothing here is a prediction."
        } else {
            "Programs and target were named before anything was measured."
        },
        &paragraphs,
        &fine(results),
        "",
    );
    out.push_str("<h2 id=\"target\">What was to hold</h2>");
    target(&mut out, results, command);
    out.push_str("<h2 id=\"policies\">All policies</h2>");
    counted(&mut out, results, command);
    out.push_str("<h2 id=\"programs\">Program by program</h2>");
    for found in &results.traces {
        program(&mut out, results, found, command);
    }
    sheet::close(&mut out, "study-fragmentation.json", results, results.schema_version, "");
    out
}

fn fine(results: &Results) -> String {
    let rival = &results.target.at_most;
    format!(
        "Simulated: exact, the same on every machine for the same traces. Cells are means of {} recordings of a \
         program in environments of different size, for what it allocates depends on that; below stands the \
         difference to {rival} on the same recordings, in percentage points, with its 95 % interval. At most: not \
         above {rival} on average; no difference: above it, but zero lies in the interval; more: zero lies outside. \
         A bar is the cell's share of the worst of its column.",
        results.recordings
    )
}

/// The target on every program, with its class.
fn target(out: &mut String, results: &Results, command: &str) {
    let (of, rival) = (&results.target.of, &results.target.at_most);
    let row = |found: &Found| {
        let classes: Vec<Class> =
            MEASURES.iter().filter_map(|measure| results.class(found, measure)).collect();
        let count = |class| classes.iter().filter(|&&one| one == class).count();
        let all = [Class::Fitted, Class::Missed, Class::Holds, Class::Fails, Class::Undecidable];
        let said = all.into_iter().filter(|&class| count(class) > 0);
        let said: Vec<String> =
            said.map(|class| format!("{} in {}", class.name(), count(class))).collect();
        let verdict = if said.is_empty() { "missing".to_owned() } else { said.join("; ") };
        let less = found.verdicts(of, rival, Verdict::AtMost).len();
        let best = count(Class::Holds) == classes.len() && !classes.is_empty();
        let of_all = format!("{less} of {}", classes.len());
        let verdict = Cell { best, verdict: true, ..Cell::text(verdict) };
        vec![Cell::text(&found.name), verdict, Cell::text(of_all)]
    };
    let rows: Vec<Vec<Cell>> = results.traces.iter().map(row).collect();
    let heads = ["program".to_owned(), "verdict".to_owned(), format!("{of} at most {rival}")];
    let lead = "By four measures on each program. Fitted: the policy was chosen on these programs, and nothing that it reaches on \
                them is counted; where it is clearly more, it is missed. A prediction holds where all of the 95 % interval of the difference is zero or less, fails where all of it is \
                above, and is undecidable else, or with a single recording.";
    let title = format!("{of} loses at most as much as {rival}");
    let drawing = html::table_of("What was to hold", heads, &rows);
    html::Figures { command }.add(out, "to-hold", &title, lead, &drawing);
}

/// Every policy's verdicts, beside the target's two.
fn counted(out: &mut String, results: &Results, command: &str) {
    let (of, rival) = (&results.target.of, &results.target.at_most);
    let mut heads = vec!["policy".to_owned()];
    heads.extend([format!("at most {rival}"), "no difference".to_owned(), "more".to_owned()]);
    heads.extend([format!("{of} at most it"), "no difference".to_owned(), "more".to_owned()]);
    let cells = |tally: Option<Tally>| {
        let counts = tally.map(|tally| [tally.at_most, tally.no_difference, tally.more]);
        let text = |nth: usize| counts.map_or("–".to_owned(), |counts| counts[nth].to_string());
        [0, 1, 2].map(|nth| Cell::text(text(nth)))
    };
    let row = |one: &Counted| {
        let mut row = vec![Cell::text(one.name.clone())];
        row.extend(cells(one.beside_rival));
        row.extend(cells(one.target_beside));
        row
    };
    let rows: Vec<_> = results.counted.iter().map(row).collect();
    let lead = format!(
        "In how many of {} comparisons (programs by measures) each policy is at most {rival}, not distinguishable from it, \
         or more; and {of} beside each.",
        results.tally.all()
    );
    let drawing = html::table_of("All policies, counted", heads, &rows);
    html::Figures { command }.add(out, "counted", "All policies, counted", &lead, &drawing);
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
    let (of, rival) = (&results.target.of, &results.target.at_most);
    let in_which = |verdict| found.verdicts(of, rival, verdict).join(", ");
    let (maybe, more) = (in_which(Verdict::NoDifference), in_which(Verdict::More));
    let verdict = match (maybe.as_str(), more.as_str()) {
        ("", "") => format!("{of} is at most {rival}'s in all."),
        (maybe, "") => format!("{of} is not distinguishable from {rival} in {maybe}."),
        ("", more) => format!("{of} is above {rival}'s in {more}."),
        (maybe, more) => {
            format!("{of} is above {rival}'s in {more}, not distinguishable from it in {maybe}.")
        }
    };
    format!(
        "{}. {} events, at most {} alive. {verdict}",
        capital(&found.about),
        range(found.recordings.iter().map(|one| one.events), human::exact),
        range(found.recordings.iter().map(|one| one.peak_live), human::bytes)
    )
}

/// The least and the greatest, or the one that all are.
fn range(values: impl Iterator<Item = u64> + Clone, show: fn(u64) -> String) -> String {
    let (least, most) = (values.clone().min().unwrap_or(0), values.max().unwrap_or(0));
    let (least, most) = (show(least), show(most));
    if least == most { least } else { format!("{least} to {most}") }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn rows(found: &Found) -> Vec<Vec<Cell>> {
    let mean = |policy: &Judged, key| Some(policy.measures.get(key)?.mean);
    let ends = MEASURES.map(|measure| {
        let means = found.policies.iter().filter_map(|policy| mean(policy, measure.key));
        means.fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), value| {
            (value.min(least), value.max(most))
        })
    });
    let row = |policy: &Judged| {
        let mut cells = vec![Cell::text(policy.name.clone())];
        for (measure, &(least, most)) in MEASURES.iter().zip(&ends) {
            let value = mean(policy, measure.key);
            let text = value.map_or("–".to_owned(), |value| format!("{:.2} %", 100.0 * value));
            cells.push(Cell {
                bar: value.map(|value| value / most.max(1e-12)),
                best: value == Some(least) && least < most,
                note: policy.to_rival.get(measure.key).map(note),
                ..Cell::text(text)
            });
        }
        cells.push(Cell::text(human::number(policy.steps.mean)));
        cells.push(Cell::text(human::count(policy.steps.p99)));
        cells.push(Cell::text(human::count(policy.steps.max)));
        cells
    };
    found.policies.iter().map(row).collect()
}

fn note(compared: &Compared) -> String {
    let difference = &compared.difference;
    let (mean, half) = (100.0 * difference.mean, 100.0 * difference.half_width);
    format!("{mean:+.3} ± {half:.3}, {}", compared.verdict.words())
}
