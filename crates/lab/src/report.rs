//! `report.html`: the answer first, then every figure behind it, in one file that asks nobody.
//!
//! Invariant: the page needs no network, and says everything without its one script, which makes the flame graph and the timeline of
//! `who` movable. Styles, drawings and script are inline, its content policy forbids everything else, and whatever comes from outside (names of programs,
//! of libraries) passes through [`html::Escaped`]. What was measured and what was simulated is
//! never drawn on one axis.
//!
//! Neighbours: `answer` finds the words, `ranking` the tables (which `terminal` prints too),
//! `lines`, `latency`, `dots` and `heat` draw; `scale` knows axes.

mod dots;
mod glossary;
mod heat;
pub(crate) mod html;
mod latency;
pub(crate) mod lines;
mod over_time;
mod processes;
mod ranking;
#[cfg(test)]
mod samples;
pub(crate) mod scale;
pub(crate) mod sheet;
#[cfg(test)]
pub(crate) mod sound;
mod terminal;
mod who;

pub use heat::HeatMap;
pub use processes::Other;
pub use terminal::{MOST_COLUMNS, answer, held, processes, tables};

use crate::answer::{self, Answer, Sentence};
use crate::human;
use crate::results::{Circumstances, Document, Kind, Outcome, ProcessFacts, Several, TraceFacts};
use crate::sites::Sites;
use html::{Escaped, Figure};
use ranking::Ranking;
use std::fmt::Write;

/// What the table of pages held counts.
const HELD_LEAD: &str = "Bytes of pages of which objects have at most a quarter, divided among the sites of these objects. The process was replayed on each \
     allocator up to the moment (the peak of live bytes, their lowest point after it and before the last allocation, the end), and asked where its objects lie.";

/// Everything the report tells.
pub struct Story<'a> {
    /// What was found.
    pub document: &'a Document,
    /// Where and how fast.
    pub circumstances: &'a Circumstances,
    /// Objects by size and lifetime, where the trace was analysed.
    pub lifetimes: Option<&'a HeatMap>,
    /// The sites, where the trace has call stacks.
    pub sites: Option<&'a Sites>,
    /// What there is, who has it, what to do.
    pub answer: &'a Answer,
    /// The other processes of the trace that were judged.
    pub others: &'a [Other<'a>],
    /// The command that made this report.
    pub command: &'a str,
    /// The trace file as commands should name it.
    pub trace_file: &'a str,
    /// Whether that file exists; if not, the report says how to make it.
    pub kept: bool,
    /// What the reader must know before believing the figures, in sentences.
    pub warnings: &'a [String],
}

impl Story<'_> {
    /// The whole page.
    pub fn html(&self) -> String {
        let mut out = String::with_capacity(1 << 18);
        self.head(&mut out);
        self.answer(&mut out);
        out.push_str("<main>");
        if let Some(sites) = self.sites.filter(|sites| sites.total.allocations > 0) {
            who::write(&mut out, sites, &format!("freehold info {} --json", self.trace_file));
        }
        self.ranking(&mut out);
        over_time::write(&mut out, self);
        self.calls(&mut out);
        self.program(&mut out);
        self.machine(&mut out);
        glossary::write(&mut out);
        let version = self.document.schema_version;
        let remark = "Times and machine facts are not included.";
        let file = "freehold-results.json";
        match self.others {
            [] => sheet::close(&mut out, file, self.document, version, remark),
            others => {
                let others = others.iter().map(|other| other.document);
                let all = Several::of(std::iter::once(self.document).chain(others));
                sheet::close(&mut out, file, &all, version, remark);
            }
        }
        out
    }

    fn of_kind(&self, kind: Kind) -> Vec<&Outcome> {
        self.document.results.iter().filter(|outcome| outcome.kind == kind).collect()
    }

    fn replay_command(&self, on: &str) -> String {
        format!("freehold replay {} --on {on} --json", self.trace_file)
    }

    fn program_name(&self) -> String {
        let trace = &self.document.trace;
        match trace.title() {
            Some(title) => title.to_owned(),
            None if trace.command.is_empty() => self.trace_file.to_owned(),
            None => trace.command.join(" "),
        }
    }

    fn head(&self, out: &mut String) {
        let name = self.program_name();
        sheet::Head {
            over: "Freehold compare",
            title: &format!("{}: which memory allocator?", lines::shortened(&name, 60)),
            heading: &lines::shortened(&name, 240),
            facts: &self.in_short(),
            style: "",
            scripts: self.sites.is_some(),
        }
        .write(out);
    }

    fn in_short(&self) -> String {
        in_short(&self.document.trace)
    }

    fn answer(&self, out: &mut String) {
        out.push_str("<section class=\"answer\" aria-label=\"The answer\"><dl>");
        for (heading, sentences) in self.answer.parts().iter().filter(|part| !part.1.is_empty()) {
            let _ = write!(out, "<dt>{heading}</dt>");
            sentences.iter().for_each(|sentence| said(out, "dd", sentence));
        }
        out.push_str("</dl>");
        if self.document.results.is_empty() {
            out.push_str("<p>Nothing could replay this trace; the notes below say why.</p>");
        }
        self.links(out);
        let _ = write!(out, "<p class=\"fine\">{}</p></section>", Escaped(&self.how_known()));
        self.warnings(out);
        self.tiles(out);
        out.push_str("</header>");
    }

    /// Where the other processes are judged.
    fn links(&self, out: &mut String) {
        let link = |other: &Other<'_>| {
            let trace = &other.document.trace;
            let name = trace.processes.iter().find(|one| one.process == trace.process);
            let name = Escaped(name.map_or("?", ProcessFacts::name)).to_string();
            format!("<a href=\"#process-{}\">P{} {name}</a>", trace.process, trace.process)
        };
        let links: Vec<String> = self.others.iter().map(link).collect();
        if !links.is_empty() {
            let _ = write!(out, "<p class=\"fine\">Also judged: {}.</p>", links.join(", "));
        }
    }

    /// What was measured, what was simulated, and how often.
    fn how_known(&self) -> String {
        let allocators = self.of_kind(Kind::Allocator);
        let runs = allocators.iter().filter_map(|o| o.spread).map(|spread| spread.runs).max();
        let mut text = String::new();
        if !allocators.is_empty() {
            let _ = write!(
                text,
                "Allocators are measured: each replays the recorded calls on this machine, in the \
                 program's thread structure and without its computing, {}; times are medians. ",
                match runs.unwrap_or(1) {
                    1 => "once".to_owned(),
                    runs => format!("{runs} times"),
                }
            );
        }
        if !self.of_kind(Kind::Policy).is_empty() {
            text += "Policies are simulated: exact, the same on every machine, without threads or caches. ";
        }
        if !self.of_kind(Kind::Malloc).is_empty() {
            text += MALLOC_KNOWN;
        }
        text.trim_end().to_owned()
    }

    fn warnings(&self, out: &mut String) {
        let damage = self.document.trace.damage.iter().map(|what| {
            format!("Part of the trace could not be read and is missing from every figure: {what}.")
        });
        let refused =
            self.document.refused.iter().map(|r| format!("{} is missing: {}", r.name, r.reason));
        let all: Vec<String> = self.warnings.iter().cloned().chain(damage).chain(refused).collect();
        if all.is_empty() {
            return;
        }
        out.push_str("<ul class=\"notes\">");
        for warning in all {
            let _ = write!(out, "<li>{}</li>", Escaped(&warning));
        }
        out.push_str("</ul>");
    }

    fn tiles(&self, out: &mut String) {
        let trace = &self.document.trace;
        let live = self.document.results.iter().map(|o| o.peak_live).max().unwrap_or(0);
        let turnover = trace.allocated as f64 / live.max(1) as f64;
        out.push_str("<dl class=\"tiles\">");
        tile(out, "Events", &human::count(trace.events), "allocations, frees, reallocs");
        tile(
            out,
            "Peak alive",
            &human::bytes(live),
            &format!("turned over {}", human::times(turnover)),
        );
        for (kind, name, what) in [
            (Kind::Allocator, "Peak memory, measured", "resident"),
            (Kind::Policy, "Peak memory, simulated", "extent"),
            (Kind::Malloc, "Peak memory of Freehold's malloc, exact", "resident"),
        ] {
            let peaks = || self.of_kind(kind).into_iter().map(|o| o.peak_memory);
            let Some((least, most)) = peaks().min().zip(peaks().max()) else { continue };
            let note = format!("up to {}, {what}", human::bytes(most));
            tile(out, name, &human::bytes(least), &note);
        }
        out.push_str("</dl>");
    }

    fn ranking(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"ranking\">Ranking</h2><p>The best of each column is marked; of times and peaks that are measured, only who is apart from all others. Allocators come \
             in the order of time, policies in the order of memory.</p>",
        );
        self.ranking_of(
            out,
            Kind::Allocator,
            "allocators",
            "Resident memory beyond the replayer's own, and the time of all calls together. \
             “± runs” is half the distance between the fastest and the slowest run.",
        );
        // Without allocators the answer says it.
        let best = answer::choice::policies(&self.of_kind(Kind::Policy));
        if let Some(best) = best.filter(|_| !self.of_kind(Kind::Allocator).is_empty()) {
            said(out, "p", &best);
        }
        self.ranking_of(
            out,
            Kind::Policy,
            "policies",
            "Memory is the extent of the heap: from its start to the end of the last used block. \
             Over live: the peak of that against the peak of live bytes (Johnstone-Wilson #4); on \
             average: over all events (#1).",
        );
        self.ranking_of(out, Kind::Malloc, "malloc", MALLOC_LEAD);
        self.held(out);
    }

    /// Who holds pages under each allocator.
    fn held(&self, out: &mut String) {
        let Some(ranking) = Ranking::of_held(&self.document.held) else { return };
        let mut table = String::new();
        html::table(&mut table, ranking.caption, &ranking.heads, &ranking.rows);
        let (title, lead) = (ranking.caption, HELD_LEAD);
        Figure { id: "held", title, lead, drawing: &table, table: "", command: self.command }
            .write(out);
    }

    fn ranking_of(&self, out: &mut String, kind: Kind, on: &str, lead: &str) {
        let Some(ranking) = Ranking::of(&self.document.results, kind) else { return };
        let mut table = String::new();
        html::table(&mut table, ranking.caption, &ranking.heads, &ranking.rows);
        let command = self.replay_command(on);
        let (id, title) = (format!("ranking-{on}"), ranking.caption);
        Figure { id: &id, title, lead, drawing: &table, table: "", command: &command }.write(out);
    }

    fn calls(&self, out: &mut String) {
        let (allocators, policies) = (self.of_kind(Kind::Allocator), self.of_kind(Kind::Policy));
        let latency = latency::draw(&allocators);
        let steps = dots::draw(&policies);
        if latency.is_none() && steps.is_none() {
            return;
        }
        out.push_str(
            "<h2 id=\"calls\">Single calls</h2><p>What one malloc, free or realloc costs: usually, \
             and when it goes badly.</p>",
        );
        if let Some(drawing) = latency {
            Figure {
                id: "latency-figure",
                title: "Latency by percentile",
                lead: "Measured, both axes logarithmic: each mark to the right looks at calls ten \
                       times rarer. The slowest call often met the operating system, not the \
                       allocator.",
                drawing: &drawing,
                table: &latency::table(&allocators),
                command: &self.replay_command("allocators"),
            }
            .write(out);
        }
        if let Some(drawing) = steps {
            Figure {
                id: "steps-figure",
                title: "Steps of each policy",
                lead: "Counted: every block inspected, word of a block or index touched, split and \
                       merge is one step. A short bar is a policy whose worst call is like any other.",
                drawing: &drawing,
                table: "",
                command: &self.replay_command("policies"),
            }
            .write(out);
        }
    }

    fn program(&self, out: &mut String) {
        out.push_str(
            "<h2 id=\"program\">The program</h2><p>What it asked for; the same whatever allocator \
             it runs on.</p>",
        );
        let command = format!("freehold info {} --json", self.trace_file);
        if let Some((map, drawing)) = self.lifetimes.and_then(|map| Some((map, map.draw()?))) {
            Figure {
                id: "heat-figure",
                title: "Size and lifetime of objects",
                lead: "Each cell counts the objects of one size and one lifetime. Small and \
                       short-lived ones reward a fast path; long-lived ones between them cause \
                       fragmentation.",
                drawing: &drawing,
                table: &map.table(),
                command: &command,
            }
            .write(out);
        }
        if self.document.trace.processes.len() > 1 {
            processes::write(out, self, &command);
        }
    }

    fn machine(&self, out: &mut String) {
        let machine = &self.circumstances.machine;
        let trace = &self.document.trace;
        out.push_str("<h2 id=\"machine\">Made how, and where</h2><figure><dl class=\"pairs\">");
        let mut pair = |name: &str, value: &str| {
            let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", Escaped(value));
        };
        pair("Program", &self.program_name());
        pair(
            "Trace",
            &format!("{}: {}", self.trace_file, self.in_short().replace('\u{202f}', " ")),
        );
        pair("Processes", &format!("{}; this is P{}", trace.processes.len().max(1), trace.process));
        pair("Processor", machine.processor.as_deref().unwrap_or("not known"));
        pair("Processors usable", &machine.processors.to_string());
        pair("Memory", &machine.memory.map_or_else(|| "not known".into(), human::bytes));
        pair("System", &machine.kernel);
        if let Some(limit) = self.document.limit {
            pair("Simulated region", &format!("{} for each policy", human::bytes(limit)));
        }
        pair("Report made by", self.command);
        if !self.kept {
            let record =
                self.command.replacen("compare", &format!("compare --keep {}", self.trace_file), 1);
            pair("To try the commands here", &format!("keep the trace first: {record}"));
        }
        out.push_str("</dl></figure>");
    }
}

/// The process replayed, in one line.
fn in_short(trace: &TraceFacts) -> String {
    format!(
        "{} allocation events in {} {}, {} asked for in all, {} from first to last",
        human::exact(trace.events),
        trace.threads,
        if trace.threads == 1 { "thread" } else { "threads" },
        human::bytes(trace.allocated),
        human::seconds(trace.seconds),
    )
}

/// How the simulated malloc's figures are known.
const MALLOC_KNOWN: &str = "Freehold's malloc is simulated, too, but it is the shipped code, with the program's threads, on a machine with \
                            pages: exact.";

/// How to read its table, and why it stands apart from the policies'.
const MALLOC_LEAD: &str = "The shipped code on a simulated machine: exact, but not to be ranked with policies. A policy's memory is the \
                           extent of its region, without pages and caches; this is resident memory, which has both, and of which pages \
                           are given back. The columns from “inside blocks” on say where the memory at the peak is that no object has.";

/// A sentence as an element of that name.
fn said(out: &mut String, tag: &str, sentence: &Sentence) {
    let _ = write!(out, "<{tag}>");
    for phrase in sentence {
        let text = Escaped(&phrase.text);
        let _ = if phrase.strong { write!(out, "<b>{text}</b>") } else { write!(out, "{text}") };
    }
    let _ = write!(out, "</{tag}>");
}

fn tile(out: &mut String, name: &str, value: &str, note: &str) {
    let note = Escaped(note);
    let _ = write!(out, "<div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>");
}

#[cfg(test)]
mod tests;
