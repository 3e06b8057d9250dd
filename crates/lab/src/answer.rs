//! The answer, in sentences that decide: what there is, who has it, what to do.
//!
//! `freehold info`, `compare`, `replay` and the report open with it. It says no more than the figures bear: what is within the
//! noise is nothing, so "keep what you have" is the usual advice. What to do about sites is [`defects`]', which allocator to use is
//! [`choice`]'s. How it looks is for the terminal and the page to say.

pub mod choice;
mod defects;
mod held;
mod outside;
mod tried;

use crate::human;
use crate::profile::Figures;
use crate::resident::WhatThereIs;
use crate::results::{Document, Kind};
use crate::sites::{Measure, Site, Sites};
use crate::trial::Trial;
use serde::Serialize;

/// A piece of a sentence, set strong or not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Phrase {
    /// The words.
    pub text: String,
    /// Whether it carries the sentence.
    pub strong: bool,
}

/// One sentence or a few that belong together.
pub type Sentence = Vec<Phrase>;

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Answer {
    /// What there is.
    pub there: Vec<Sentence>,
    /// Who has it.
    pub who: Vec<Sentence>,
    /// What to do; that which matters most first.
    pub todo: Vec<Sentence>,
}

/// Most sites that the answer names as holders of the peak.
const MOST_HOLDERS: usize = 3;
/// No further holders are named when those named have this much of the peak.
const ENOUGH: f64 = 0.8;
/// A site with less than this of the peak is not named.
const LEAST_HOLDER: f64 = 0.05;

pub use choice::usual_of;
pub use tried::Tried;

/// What of the advice about a program's sites a replay can try, that which matters most first.
pub fn trials(sites: &Sites, ticks_are_events: bool) -> Vec<Trial> {
    defects::find(sites, ticks_are_events).into_iter().filter_map(|finding| finding.trial).collect()
}

/// What a program did, as far as it is known.
#[derive(Clone, Copy)]
pub struct Program<'a> {
    /// Of the process, or of all together.
    pub figures: &'a Figures,
    /// What the process had in memory; none where nobody looked.
    pub resident: Option<&'a WhatThereIs>,
    /// Of the process that has the memory; none without call stacks.
    pub sites: Option<&'a Sites>,
    /// What that process is called, where there are several.
    pub process: Option<&'a str>,
    /// The trace has no times: its moments are numbers of events.
    pub ticks_are_events: bool,
    /// What replays of the advice gave.
    pub tried: &'a [Tried],
}

impl Answer {
    /// The headings and what stands below them.
    pub fn parts(&self) -> [(&'static str, &[Sentence]); 3] {
        [("What there is", &self.there), ("Who has it", &self.who), ("What to do", &self.todo)]
    }

    /// About a program alone.
    pub fn of_program(program: Program<'_>) -> Answer {
        let found = program.sites.map(|sites| defects::find(sites, program.ticks_are_events));
        let seconds = program.sites.map_or(0.0, |sites| sites.seconds);
        let advice = |finding: defects::Finding| -> Option<Sentence> {
            let is_it = |tried: &&Tried| Some(&tried.trial) == finding.trial.as_ref();
            let Some(tried) = program.tried.iter().find(is_it) else { return Some(finding.advice) };
            // What was tried and gave nothing is no advice.
            let said = tried.sentence(seconds)?;
            Some(finding.advice.into_iter().chain(said).collect())
        };
        let mut todo: Vec<Sentence> = found.into_iter().flatten().filter_map(advice).collect();
        if todo.is_empty() && program.figures.calls.allocations() > 0 {
            todo.push(match program.sites {
                Some(_) => keep_sites(),
                None => sentence(&[
                    "Without call stacks no site can be judged: record again with ",
                    "--stacks allocations",
                    ".",
                ]),
            });
        }
        Answer { there: there(program), who: who(program), todo }
    }

    /// About a program and what it was replayed on. `program` is none where the program itself was not looked at.
    pub fn of_comparison(program: Option<Program<'_>>, document: &Document) -> Answer {
        let (outcomes, malloc) = (&document.results, document.trace.malloc.as_deref());
        let mut answer = match program {
            None => Answer::default(),
            Some(program) => {
                let mut answer = Answer::of_program(program);
                answer.there.extend(choice::resident(outcomes, malloc));
                // Where allocators were measured, their sentence says whether to keep.
                if outcomes.iter().any(|outcome| outcome.kind == Kind::Allocator) {
                    answer.todo.retain(|sentence| *sentence != keep_sites());
                }
                answer
            }
        };
        answer.todo.extend(choice::decide(outcomes, document.trace.seconds, malloc));
        answer
    }

    /// All sentences as plain text.
    pub fn plain(&self) -> Vec<String> {
        let all = self.parts().into_iter().flat_map(|(_, sentences)| sentences);
        all.map(|sentence| plain(sentence)).collect()
    }
}

/// A sentence as plain text.
pub fn plain(sentence: &[Phrase]) -> String {
    sentence.iter().map(|phrase| phrase.text.as_str()).collect()
}

/// Builds a sentence: even pieces are plain, odd ones strong.
fn sentence(pieces: &[&str]) -> Sentence {
    let phrase = |(i, text): (usize, &&str)| Phrase { text: (*text).into(), strong: i % 2 == 1 };
    pieces.iter().enumerate().map(phrase).filter(|phrase| !phrase.text.is_empty()).collect()
}

fn keep_sites() -> Sentence {
    sentence(&[
        "",
        "Keep what you have",
        ": no site leaks, grows without end or costs noticeable time. (Another allocator: ask freehold compare.)",
    ])
}

/// All that was in memory, where that was looked at; else malloc's part.
fn there(program: Program<'_>) -> Vec<Sentence> {
    let Some(resident) = program.resident else { return vec![from_malloc(program)] };
    let (text, amount) = (resident.sentence(program.process), human::bytes(resident.resident));
    let rest = text.strip_prefix(&amount).unwrap_or(&text);
    let first = sentence(&["", &amount, rest]);
    let remarks = resident.remarks();
    std::iter::once(first).chain(remarks.iter().map(|remark| sentence(&[remark]))).collect()
}

fn from_malloc(program: Program<'_>) -> Sentence {
    let figures = program.figures;
    let peak = &figures.peak;
    if peak.bytes == 0 {
        return sentence(&["No memory was asked of malloc."]);
    }
    let of = program.process.map_or(String::new(), |name| format!(" by {name}"));
    let when = match program.ticks_are_events {
        true => format!("event {}", human::count(peak.at_s as u64)),
        false => human::seconds(peak.at_s),
    };
    let never = match figures.end_bytes {
        0 => "; all of it was freed".to_owned(),
        bytes => format!("; {} never freed", human::bytes(bytes)),
    };
    let rest = format!(
        " from malloc at the peak{of}, in {} objects at {when}; {} asked for in all{never}.",
        human::count(peak.objects),
        human::bytes(figures.allocated_bytes)
    );
    sentence(&["", &human::bytes(peak.bytes), &rest])
}

fn who(program: Program<'_>) -> Vec<Sentence> {
    let Some(sites) = program.sites else { return Vec::new() };
    let mut holders: Vec<(u64, Sentence)> = outside::holders(sites);
    let mut named = 0.0;
    for site in sites.sites.iter().take(MOST_HOLDERS) {
        let part = site.counts.peak_bytes as f64 / sites.whole_bytes.max(1) as f64;
        // Beside what others hold outside of malloc, what matters to malloc alone does not.
        if site.share < LEAST_HOLDER
            || named >= ENOUGH
            || (part < LEAST_HOLDER && !holders.is_empty())
        {
            break;
        }
        holders.push((site.counts.peak_bytes, holder(site)));
        named += site.share;
    }
    holders.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let mut said: Vec<Sentence> = holders.into_iter().map(|(_, said)| said).collect();
    said.truncate(MOST_HOLDERS);
    if said.is_empty() && sites.total.peak_bytes > 0 {
        let holders = sites.sites.iter().filter(|site| site.counts.peak_bytes > 0).count();
        let most = sites.sites.first().map_or(0.0, |site| site.share);
        said.push(sentence(&[
            "Nobody in particular: ",
            &format!("{} sites", human::count(holders as u64)),
            &format!(" hold malloc's peak, none more than {} of it.", human::percent(most)),
        ]));
    }
    said.extend(nameless(sites));
    said
}

/// Why the first holder has no name, and what would give it one.
fn nameless(sites: &Sites) -> Option<Sentence> {
    let first = sites.sites.first().filter(|site| site.share >= LEAST_HOLDER)?;
    let module = first.nameless()?;
    let rest = " has no names of functions here: a recording with its debug package installed has.";
    Some(sentence(&["", module, rest]))
}

fn holder(site: &Site) -> Sentence {
    let counts = &site.counts;
    let blocks = match counts.peak_blocks {
        1 => "one block".to_owned(),
        blocks => format!("{} blocks", human::count(blocks)),
    };
    let held = format!(
        " holds {} of malloc's peak: {} in {blocks}",
        human::percent(site.share),
        human::bytes(counts.peak_bytes)
    );
    let lived = match site.median_life_s {
        Some(median) if counts.freed > counts.leaked_blocks && median > 0.0 => {
            format!("; of what it freed, half lived at most {}", human::seconds(median))
        }
        _ => String::new(),
    };
    sentence(&["", &named(site), &format!("{held}{lived}{}.", called(site, Measure::Peak))])
}

/// The site, with the container through which it allocates.
fn named(site: &Site) -> String {
    match &site.via {
        Some(via) => format!("{}, {via}", site.text()),
        None => site.text(),
    }
}

/// By whom it was called for most of what is measured; one caller will do.
fn called(site: &Site, measure: Measure) -> String {
    let callers = &site.callers_by(measure).names;
    called_by(&callers[..callers.len().min(1)])
}

/// ", called by a, b".
fn called_by(callers: &[String]) -> String {
    if callers.is_empty() { String::new() } else { format!(", called by {}", callers.join(", ")) }
}

#[cfg(test)]
mod tests;
