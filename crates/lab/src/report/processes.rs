//! The processes of a trace, by memory; and of those that are judged beside the report's own: the answer and who is best.
//!
//! The page and the terminal have the same table.

use super::html::{self, Cell, Escaped, Figure};
use super::ranking::Ranking;
use super::{Story, said};
use crate::answer::Answer;
use crate::human;
use crate::results::{Document, Kind, ProcessFacts};
use std::fmt::Write;

/// Processes listed, those with the most memory.
const MOST: usize = 200;

/// A process that is judged beside the one whose report it is.
pub struct Other<'a> {
    /// What was found.
    pub document: &'a Document,
    /// What there is, who has it, what to do.
    pub answer: &'a Answer,
}

/// The processes with the most memory; `judged` are those of which more is said.
pub(super) fn ranking(processes: &[ProcessFacts], judged: &[u32]) -> Ranking {
    let mut most: Vec<&ProcessFacts> = processes.iter().collect();
    most.sort_by_key(|p| (std::cmp::Reverse((p.peak_bytes, p.events)), p.process));
    most.truncate(MOST);
    let row = |process: &&ProcessFacts| {
        let name = format!("P{} {}", process.process, process.name());
        let mark = match judged {
            [only] if *only == process.process => " (this report)",
            [_] => "",
            several if several.contains(&process.process) => " (judged)",
            _ => "",
        };
        let bytes = |most: Option<u64>| Cell::text(most.map_or("".to_owned(), human::bytes));
        vec![
            Cell { note: Some(process.command.join(" ")), ..Cell::text(name + mark) },
            Cell::text(process.threads.to_string()),
            Cell::text(human::exact(process.events)),
            bytes(process.peak_bytes),
            bytes(process.peak_resident),
        ]
    };
    let heads = ["process", "threads", "events", "malloc at most", "resident at most"];
    Ranking {
        caption: "The processes of the trace with the most memory",
        heads: heads.map(String::from).to_vec(),
        rows: most.iter().map(row).collect(),
    }
}

/// What the peaks of all processes add up to.
pub(super) fn sum(processes: &[ProcessFacts]) -> String {
    let malloc: u64 = processes.iter().filter_map(|process| process.peak_bytes).sum();
    let resident: u64 = processes.iter().filter_map(|process| process.peak_resident).sum();
    format!(
        "The peaks of all {} add up to {} of malloc and {} resident; they need not have come at the same time, and processes share pages.",
        processes.len(),
        human::bytes(malloc),
        human::bytes(resident)
    )
}

/// The section: the table, then the other processes that are judged.
pub(super) fn write(out: &mut String, story: &Story<'_>, command: &str) {
    let trace = &story.document.trace;
    let others = story.others.iter().map(|other| other.document.trace.process);
    let judged: Vec<u32> = std::iter::once(trace.process).chain(others).collect();
    let ranking = ranking(&trace.processes, &judged);
    let mut table = String::new();
    html::table(&mut table, ranking.caption, &ranking.heads, &ranking.rows);
    let lead = match story.others {
        [] => "This report replays one of them; --process N chooses another, --process all judges each that has much."
            .to_owned(),
        _ => sum(&trace.processes),
    };
    Figure {
        id: "processes",
        title: "Processes",
        lead: &lead,
        drawing: &table,
        table: "",
        command,
    }
    .write(out);
    story.others.iter().for_each(|other| other.write(out, story));
}

impl Other<'_> {
    fn write(&self, out: &mut String, story: &Story<'_>) {
        let trace = &self.document.trace;
        let name = trace.processes.iter().find(|one| one.process == trace.process);
        let name = name.map_or("?", ProcessFacts::name);
        let mut drawing = String::from("<div class=\"answer\"><dl>");
        for (heading, sentences) in self.answer.parts().iter().filter(|part| !part.1.is_empty()) {
            let _ = write!(drawing, "<dt>{heading}</dt>");
            sentences.iter().for_each(|sentence| said(&mut drawing, "dd", sentence));
        }
        drawing.push_str("</dl></div>");
        let kinds = [Kind::Allocator, Kind::Policy, Kind::Malloc];
        let rankings = kinds.iter().filter_map(|kind| Ranking::of(&self.document.results, *kind));
        for ranking in rankings.chain(Ranking::of_held(&self.document.held)) {
            let _ = write!(drawing, "<p>{}</p>", Escaped(ranking.caption));
            html::table(&mut drawing, ranking.caption, &ranking.heads, &ranking.rows);
        }
        for refused in &self.document.refused {
            let (name, why) = (Escaped(&refused.name), Escaped(&refused.reason));
            let _ = write!(drawing, "<p>{name} is missing: {why}</p>");
        }
        Figure {
            id: &format!("process-{}", trace.process),
            title: &format!("P{} {name}", trace.process),
            lead: &super::in_short(trace),
            drawing: &drawing,
            table: "",
            command: &format!(
                "freehold info {} --process {} --json",
                story.trace_file, trace.process
            ),
        }
        .write(out);
    }
}
