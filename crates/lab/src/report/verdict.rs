//! The answer in two or three sentences, computed from the outcomes and no bolder than they are.
//!
//! Rules: allocators are measured and so are compared with the spread of their runs in mind; a lead
//! that the spread covers is called a tie. Policies are simulated, compared among themselves only,
//! and never with an allocator's resident bytes. Who failed allocations wins nothing.

use crate::human;
use crate::results::{Kind, Outcome};

/// A piece of a sentence, set strong or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phrase {
    /// The words.
    pub text: String,
    /// Whether it carries the sentence.
    pub strong: bool,
}

/// Sentences in falling order of importance.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// About the allocators; empty where none replayed.
    pub measured: Vec<Phrase>,
    /// About the policies; empty where none replayed.
    pub simulated: Vec<Phrase>,
}

/// Leads below this are called a tie even where the runs do not overlap: 2 %.
const TIE: f64 = 1.02;

impl Verdict {
    /// Judges the outcomes.
    pub fn of(outcomes: &[Outcome]) -> Self {
        let of_kind = |kind| {
            let all = outcomes.iter().filter(move |outcome| outcome.kind == kind);
            all.filter(|outcome| outcome.failures == 0 && outcome.events > 0).collect::<Vec<_>>()
        };
        Self {
            measured: measured(&of_kind(Kind::Allocator)),
            simulated: simulated(&of_kind(Kind::Policy)),
        }
    }

    /// Both as plain text, for a terminal.
    pub fn plain(&self) -> Vec<String> {
        let text = |phrases: &[Phrase]| phrases.iter().map(|p| p.text.as_str()).collect::<String>();
        let both = [text(&self.measured), text(&self.simulated)];
        both.into_iter().filter(|text| !text.is_empty()).collect()
    }
}

/// Builds a sentence: even pieces are plain, odd ones strong.
fn sentence(pieces: &[&str]) -> Vec<Phrase> {
    let phrase = |(i, text): (usize, &&str)| Phrase { text: (*text).into(), strong: i % 2 == 1 };
    pieces.iter().enumerate().map(phrase).filter(|phrase| !phrase.text.is_empty()).collect()
}

fn measured(allocators: &[&Outcome]) -> Vec<Phrase> {
    let timed = |o: &&&Outcome| o.seconds.is_some();
    let time = |o: &Outcome| o.seconds.unwrap_or(f64::MAX);
    let Some(lean) = allocators.iter().min_by_key(|o| o.peak_memory) else { return Vec::new() };
    let lean_memory = format!(
        "{} at its peak for {} alive",
        human::bytes(lean.peak_memory),
        human::bytes(lean.peak_live)
    );
    if let [only] = allocators {
        let took = only.seconds.map(|s| format!(" and took {}", human::seconds(s)));
        let rest = format!(
            " was the only allocator to replay it: {lean_memory}{}.",
            took.unwrap_or_default()
        );
        return sentence(&["", &only.name, &rest]);
    }
    let mut by_time: Vec<_> = allocators.iter().filter(timed).collect();
    by_time.sort_by(|a, b| time(a).total_cmp(&time(b)));
    let Some(fast) = by_time.first() else {
        return sentence(&["", &lean.name, &format!(" uses the least memory: {lean_memory}.")]);
    };
    let level: Vec<_> = by_time[1..].iter().filter(|o| is_tie(fast, o)).collect();
    let once = fast.spread.is_none_or(|spread| spread.runs < 2);
    let single = if once { " in a single run" } else { "" };
    let speed = human::seconds(time(fast)) + single;
    let against = against_usual(fast, &by_time);
    let also = match level.as_slice() {
        [] => format!(" ({speed}{against})."),
        [one] => {
            format!(" ({speed}{against}), level with {} within the noise of the runs.", one.name)
        }
        many => format!(
            " ({speed}{against}), but {} others are level with it within the noise of the runs.",
            many.len()
        ),
    };
    if fast.name == lean.name {
        let middle = format!(" uses the least memory ({lean_memory}) and is ");
        return sentence(&["", &lean.name, &middle, "also the fastest", &also]);
    }
    let middle = format!(" uses the least memory: {lean_memory}. ");
    sentence(&["", &lean.name, &middle, &fast.name, &format!(" is the fastest{also}")])
}

/// "18 % less time than glibc", where the usual allocator was measured and is another one.
fn against_usual(fast: &Outcome, all: &[&&Outcome]) -> String {
    let usual = all.iter().find(|o| ["glibc", "system"].contains(&o.name.as_str()));
    let Some(usual) = usual.filter(|usual| usual.name != fast.name) else { return String::new() };
    match (fast.seconds, usual.seconds) {
        (Some(mine), Some(theirs)) if theirs > 0.0 && !is_tie(fast, usual) => {
            format!(", {:.0} % less than {}", (1.0 - mine / theirs) * 100.0, usual.name)
        }
        _ => String::new(),
    }
}

/// Whether the runs cannot tell the two apart.
fn is_tie(fast: &Outcome, other: &Outcome) -> bool {
    let (Some(mine), Some(theirs)) = (fast.seconds, other.seconds) else { return false };
    let overlap = match (fast.spread, other.spread) {
        (Some(mine), Some(theirs)) => mine.runs > 1 && mine.seconds_max >= theirs.seconds_min,
        _ => false,
    };
    overlap || theirs <= mine * TIE
}

fn simulated(policies: &[&Outcome]) -> Vec<Phrase> {
    let Some(least) = policies.iter().map(|o| o.peak_memory).min() else { return Vec::new() };
    let lean: Vec<_> = policies.iter().filter(|o| o.peak_memory == least).collect();
    let need = format!(
        ": {}, {} over what was alive",
        human::bytes(least),
        human::percent(lean[0].johnstone_wilson.peak_over_peak)
    );
    let (who, verb) = together(&lean.iter().map(|o| o.name.as_str()).collect::<Vec<_>>());
    let verb = if verb { " need the smallest region" } else { " needs the smallest region" };
    let mean = |o: &&&Outcome| o.steps.map_or(f64::MAX, |steps| steps.mean);
    let quick = policies.iter().min_by(|a, b| mean(a).total_cmp(&mean(b)));
    let steps = quick.and_then(|o| Some((o, o.steps?)));
    let Some((quick, steps)) = steps.filter(|_| policies.len() > 1) else {
        return sentence(&["Simulated: ", &who, &format!("{verb}{need}.")]);
    };
    let rest = format!(
        " decides in the fewest steps ({} a call, {} at worst).",
        human::number(steps.mean),
        human::count(steps.max)
    );
    sentence(&[
        "Of the policies on simulated memory, ",
        &who,
        &format!("{verb}{need}; "),
        &quick.name,
        &rest,
    ])
}

/// "a", "a and b", "a, b and 3 others"; whether it is several.
fn together(names: &[&str]) -> (String, bool) {
    match names {
        [one] => ((*one).to_owned(), false),
        [a, b] => (format!("{a} and {b}"), true),
        [a, b, c] => (format!("{a}, {b} and {c}"), true),
        [a, b, rest @ ..] => (format!("{a}, {b} and {} others", rest.len()), true),
        [] => (String::new(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Spread, Steps};

    fn allocator(name: &str, seconds: f64, memory_mib: u64) -> Outcome {
        let spread = Spread {
            runs: 3,
            seconds_min: seconds * 0.99,
            seconds_max: seconds * 1.01,
            ..Spread::default()
        };
        Outcome {
            name: name.into(),
            kind: Kind::Allocator,
            events: 10,
            seconds: Some(seconds),
            spread: Some(spread),
            peak_live: 36 << 20,
            peak_memory: memory_mib << 20,
            ..Outcome::default()
        }
    }

    #[test]
    fn two_winners() {
        let found = [
            allocator("glibc", 1.0, 50),
            allocator("jemalloc", 0.9, 41),
            allocator("mimalloc", 0.8, 45),
        ];
        assert_eq!(
            Verdict::of(&found).plain(),
            [
                "jemalloc uses the least memory: 41.0 MiB at its peak for 36.0 MiB alive. mimalloc is \
             the fastest (800 ms, 20 % less than glibc)."
            ]
        );
    }

    #[test]
    fn a_lead_within_the_noise_is_called_a_tie() {
        let found = [allocator("glibc", 1.0, 50), allocator("jemalloc", 0.99, 41)];
        let said = Verdict::of(&found).plain().remove(0);
        assert!(
            said.contains("also the fastest (990 ms), level with glibc within the noise"),
            "{said}"
        );
    }

    #[test]
    fn who_fails_wins_nothing() {
        let failed = Outcome { failures: 1, ..allocator("tiny", 0.1, 1) };
        let said = Verdict::of(&[failed, allocator("glibc", 1.0, 50)]).plain().remove(0);
        assert!(said.starts_with("glibc was the only allocator"), "{said}");
    }

    #[test]
    fn policies_are_compared_among_themselves() {
        let policy = |name: &str, memory, mean| Outcome {
            name: name.into(),
            events: 10,
            peak_memory: memory,
            steps: Some(Steps { mean, max: 40, ..Steps::default() }),
            ..Outcome::default()
        };
        let found = [
            policy("first-fit", 2048, 9.5),
            policy("best-fit", 1024, 12.0),
            policy("good-fit", 1024, 4.25),
        ];
        assert_eq!(
            Verdict::of(&found).plain(),
            [
                "Of the policies on simulated memory, best-fit and good-fit need the smallest region: \
             1.00 KiB, 0.0 % over what was alive; good-fit decides in the fewest steps (4.25 a \
             call, 40 at worst)."
            ]
        );
        assert_eq!(Verdict::of(&[]), Verdict::default());
    }
}
