//! Keep the allocator, or change it? And which policy did best, where policies were simulated.
//!
//! Judged against the malloc that the program used, which the recorder saw. If that was not among the measured ones, there is no advice to keep
//! or to change it, only what others save beside glibc's. Of traces that do not say whose it was, glibc's is taken for it.
//!
//! Rules. Allocators are measured, so an advantage counts only where the runs of the two do not overlap, and only if it matters:
//! [`LEAST_MEMORY`] of the memory and [`LEAST_BYTES`], or [`LEAST_TIME`] of the program's own time. Who loses on one side what
//! it gains on the other is no better. "Fastest" is who is apart from every other. Policies are simulated and compared among
//! themselves only. Who failed allocations wins nothing.

use super::{Sentence, sentence};
use crate::human;
use crate::results::{Kind, Outcome, Spread};
use std::cmp::Ordering;

/// Least part of the memory in use today that is worth a change,
pub(super) const LEAST_MEMORY: f64 = 0.05;
/// and least bytes: an allocator's library itself, of which replays count nothing, takes 1 to 3 MiB.
const LEAST_BYTES: f64 = 4194304.0;
/// Least part of the time that the program took.
const LEAST_TIME: f64 = 0.02;
/// What programs use that choose nothing.
const USUAL: [&str; 2] = ["glibc", "system"];

/// From the least to the most that runs gave.
pub type Interval = (f64, f64);

/// The memory at the peak of several runs.
pub fn memory(outcome: &Outcome) -> Option<Interval> {
    let spread = outcome.spread.filter(|spread| spread.runs > 1)?;
    Some((spread.memory_min as f64, spread.memory_max as f64))
}

/// The seconds of several runs.
pub fn time(outcome: &Outcome) -> Option<Interval> {
    let Spread { runs, seconds_min, seconds_max, .. } = outcome.spread?;
    (runs > 1).then_some((seconds_min, seconds_max))
}

/// What `other` needs less than `usual`, from the least to the most; negative where it needs more.
fn saved(usual: Interval, other: Interval) -> Interval {
    (usual.0 - other.1, usual.1 - other.0)
}

/// An allocator beside the usual one.
pub(super) struct Rival<'a> {
    outcome: &'a Outcome,
    memory: Interval,
    time: Interval,
    /// Whether each is more, less, or the same but for noise and trifles.
    pub(super) by_memory: Ordering,
    pub(super) by_time: Ordering,
}

impl<'a> Rival<'a> {
    pub(super) fn of(usual: &Outcome, outcome: &'a Outcome, seconds: f64) -> Option<Rival<'a>> {
        let by = |of: fn(&Outcome) -> Option<Interval>| Some(saved(of(usual)?, of(outcome)?));
        let (memory, time) = (by(memory)?, by(time)?);
        let bytes = LEAST_BYTES.max(usual.peak_memory as f64 * LEAST_MEMORY);
        let (by_memory, by_time) = (judge(memory, bytes), judge(time, seconds * LEAST_TIME));
        Some(Rival { outcome, memory, time, by_memory, by_time })
    }

    fn is_better(&self) -> bool {
        self.by_memory.max(self.by_time).is_gt() && self.by_memory.min(self.by_time).is_ge()
    }

    fn is_exchange(&self) -> bool {
        self.by_memory != Ordering::Equal && self.by_memory == self.by_time.reverse()
    }

    /// Of those that are so, the one that gains the largest parts of memory and time.
    fn best<'r>(
        rivals: &'r [Rival<'a>],
        usual: &Outcome,
        seconds: f64,
        is_so: fn(&Rival<'a>) -> bool,
    ) -> Option<&'r Rival<'a>> {
        let gained = |by: Ordering, part: f64| if by.is_gt() { part } else { 0.0 };
        let worth = |rival: &Rival<'_>| {
            gained(rival.by_memory, rival.memory.0 / usual.peak_memory.max(1) as f64)
                + gained(rival.by_time, rival.time.0 / seconds.max(1e-9))
        };
        let so = rivals.iter().filter(|rival| is_so(rival));
        so.max_by(|a, b| worth(a).total_cmp(&worth(b)))
    }

    /// "1.2 to 1.4 MiB (12 %) of memory and 0.1 to 0.2 s", each only where it is gained.
    pub(super) fn gains(&self, usual: &Outcome, seconds: f64) -> String {
        let memory = || {
            let part = self.memory.0 / usual.peak_memory.max(1) as f64;
            let range = range(self.memory, |bytes| human::bytes(bytes.max(0.0) as u64));
            format!("{range} of memory (at least {})", human::percent(part))
        };
        let time = || {
            let part = self.time.0 / seconds.max(1e-9);
            let range = range(self.time, |s| human::seconds(s.max(0.0)));
            format!("{range} (at least {} of the program's time)", human::percent(part))
        };
        match (self.by_memory.is_gt(), self.by_time.is_gt()) {
            (true, true) => format!("{} and {}", memory(), time()),
            (true, false) => memory(),
            _ => time(),
        }
    }
}

/// Greater if at least `least` is saved, less if at least so much is lost.
fn judge(saved: Interval, least: f64) -> Ordering {
    match () {
        () if saved.0 >= least && saved.0 > 0.0 => Ordering::Greater,
        () if saved.1 <= -least && saved.1 < 0.0 => Ordering::Less,
        () => Ordering::Equal,
    }
}

fn range(of: Interval, show: impl Fn(f64) -> String) -> String {
    let (least, most) = (show(of.0), show(of.1));
    if least == most { least } else { format!("{least} to {most}") }
}

/// Those that replayed everything.
fn whole(outcomes: &[Outcome], kind: Kind) -> Vec<&Outcome> {
    let whole = |o: &&Outcome| o.kind == kind && o.failures == 0 && o.events > 0;
    outcomes.iter().filter(whole).collect()
}

/// What was measured of the malloc that the program used (`malloc` is its file), or else of the one that stands for it.
pub fn usual_of<'a>(outcomes: &'a [Outcome], malloc: Option<&str>) -> Option<&'a Outcome> {
    let allocators = whole(outcomes, Kind::Allocator);
    used(&allocators, malloc).or_else(|| used(&allocators, None))
}

/// What was measured of the malloc that the program used; where its file is unknown, of the one that programs use that choose none.
fn used<'a>(allocators: &[&'a Outcome], malloc: Option<&str>) -> Option<&'a Outcome> {
    let is_it = |outcome: &&Outcome| match malloc.and_then(brought) {
        Some(file) => library(outcome) == Some(file),
        None => USUAL.contains(&outcome.name.as_str()),
    };
    allocators.iter().copied().find(is_it)
}

/// The file of the allocator's library; its version stands behind it.
fn library(outcome: &Outcome) -> Option<&str> {
    outcome.library.as_deref()?.split(' ').next()
}

/// The name of the malloc's file; none if it is the C library, of whatever version the recording machine had.
fn brought(path: &str) -> Option<&str> {
    let file = path.rsplit('/').next().unwrap_or(path);
    (!["libc.so", "libc-2."].iter().any(|start| file.starts_with(start))).then_some(file)
}

/// How much memory the usual allocator needs for what the program has of malloc.
pub(super) fn resident(outcomes: &[Outcome], malloc: Option<&str>) -> Option<Sentence> {
    let usual = usual_of(outcomes, malloc)?;
    let over = usual.peak_memory as f64 / usual.peak_live.max(1) as f64 - 1.0;
    let more = match over > 0.0 {
        true => format!(", {} over it", human::percent(over)),
        // Pages that are never touched are not resident.
        false => String::new(),
    };
    let peak = human::bytes(usual.peak_memory);
    Some(sentence(&[
        &format!("{} keeps ", usual.name),
        &peak,
        &format!(" resident for malloc's peak{more}."),
    ]))
}

/// What to do about the allocator. `seconds` are those that the program took, `malloc` is the file of the malloc that it used.
pub fn decide(outcomes: &[Outcome], seconds: f64, malloc: Option<&str>) -> Vec<Sentence> {
    let allocators = whole(outcomes, Kind::Allocator);
    match (used(&allocators, malloc), malloc.and_then(brought)) {
        _ if allocators.is_empty() => {
            policies(&whole(outcomes, Kind::Policy)).into_iter().collect()
        }
        (Some(used), _) if allocators.len() > 1 => vec![against(used, &allocators, seconds)],
        (None, Some(file)) => vec![unmeasured(file), beside(&allocators, seconds)],
        _ => vec![among(&allocators)],
    }
}

fn unmeasured(file: &str) -> Sentence {
    let rest =
        ", which was not measured (name its file in --on), so nothing says whether to keep it.";
    sentence(&["The program brings ", file, rest])
}

/// What others save beside the one that stands for the program's own, which was not measured.
fn beside(allocators: &[&Outcome], seconds: f64) -> Sentence {
    let usual = used(allocators, None).filter(|_| allocators.len() > 1);
    let Some(usual) = usual else { return among(allocators) };
    let compared = format!("Compared with {}, ", usual.name);
    match Rival::best(&rivals(usual, allocators, seconds), usual, seconds, Rival::is_better) {
        Some(best) => {
            let rest = format!(" saves {}.", best.gains(usual, seconds));
            sentence(&[&compared, &best.outcome.name, &rest])
        }
        None => sentence(&[&compared, "no other", " saves anything beyond noise."]),
    }
}

fn rivals<'a>(usual: &Outcome, allocators: &[&'a Outcome], seconds: f64) -> Vec<Rival<'a>> {
    let others = allocators.iter().filter(|outcome| outcome.name != usual.name);
    others.filter_map(|outcome| Rival::of(usual, outcome, seconds)).collect()
}

fn against(usual: &Outcome, allocators: &[&Outcome], seconds: f64) -> Sentence {
    let rivals = rivals(usual, allocators, seconds);
    if let Some(best) = Rival::best(&rivals, usual, seconds, Rival::is_better) {
        let rest = format!(" instead of {}: it saves {}.", usual.name, best.gains(usual, seconds));
        return sentence(&["Use ", &best.outcome.name, &rest]);
    }
    let keep = format!("Keep {}", usual.name);
    if rivals.is_empty() {
        return sentence(&["", &keep, ": one run of each tells nothing from noise (--runs 3)."]);
    }
    if let Some(other) = Rival::best(&rivals, usual, seconds, Rival::is_exchange) {
        let less = if other.by_memory.is_lt() { "memory" } else { "time" };
        let rest = format!(
            " unless {less} does not matter: {} would save {}, and costs more {less}.",
            other.outcome.name,
            other.gains(usual, seconds)
        );
        return sentence(&["", &keep, &rest]);
    }
    let calls = usual.seconds.map_or(String::new(), |spent| {
        format!(
            " (all its calls take {}, {} of the program's time)",
            human::seconds(spent),
            human::percent(spent / seconds.max(1e-9))
        )
    });
    sentence(&["", &keep, &format!(": nothing to save within noise{calls}.")])
}

/// Without the one in use today there is no advice, only who is apart from all others.
fn among(allocators: &[&Outcome]) -> Sentence {
    if let [only] = allocators {
        let took = only.seconds.map_or(String::new(), |s| format!(" and {}", human::seconds(s)));
        let rest = format!(
            " alone replayed it: {} at its peak for {} alive{took}.",
            human::bytes(only.peak_memory),
            human::bytes(only.peak_live)
        );
        return sentence(&["", &only.name, &rest]);
    }
    let lean = apart(allocators, memory)
        .map(|o| (o, "needs the least memory", human::bytes(o.peak_memory)));
    let fast = apart(allocators, time)
        .map(|o| (o, "is the fastest", human::seconds(o.seconds.unwrap_or(0.0))));
    let clause = |(who, what, figure): (&Outcome, &str, String)| {
        (who.name.clone(), format!(" {what} ({figure})"))
    };
    match (lean.map(clause), fast.map(clause)) {
        (None, None) => sentence(&[
            "No allocator is apart from the others: ",
            "nothing to choose within noise",
            ".",
        ]),
        (Some((who, what)), None) | (None, Some((who, what))) => {
            sentence(&["", &who, &format!("{what}.")])
        }
        (Some((lean, less)), Some((fast, quick))) => {
            sentence(&["", &lean, &format!("{less}, "), &fast, &format!("{quick}.")])
        }
    }
}

/// Who needs less than every other, with intervals apart.
pub fn apart<'a>(all: &[&'a Outcome], of: fn(&Outcome) -> Option<Interval>) -> Option<&'a Outcome> {
    let least = all.iter().copied().min_by(|a, b| {
        let most = |o: &Outcome| of(o).map_or(f64::MAX, |(_, most)| most);
        most(a).total_cmp(&most(b))
    })?;
    let (_, most) = of(least)?;
    let others = all.iter().filter(|other| other.name != least.name);
    others.filter_map(|other| of(other)).all(|(from, _)| most < from).then_some(least)
}

/// Who did best of the policies.
pub fn policies(policies: &[&Outcome]) -> Option<Sentence> {
    let least = policies.iter().map(|o| o.peak_memory).min()?;
    let lean: Vec<_> = policies.iter().filter(|o| o.peak_memory == least).collect();
    let need = format!(
        ": {}, {} over what was alive",
        human::bytes(least),
        human::percent(lean[0].johnstone_wilson.peak_over_peak)
    );
    let (who, several) = together(&lean.iter().map(|o| o.name.as_str()).collect::<Vec<_>>());
    let verb = if several { " need the smallest region" } else { " needs the smallest region" };
    let mean = |o: &&&Outcome| o.steps.map_or(f64::MAX, |steps| steps.mean);
    let quick = policies.iter().min_by(|a, b| mean(a).total_cmp(&mean(b)));
    let steps = quick.and_then(|o| Some((o, o.steps?)));
    let Some((quick, steps)) = steps.filter(|_| policies.len() > 1) else {
        return Some(sentence(&["Simulated: ", &who, &format!("{verb}{need}.")]));
    };
    let rest = format!(
        " decides in the fewest steps ({} a call, {} at worst).",
        human::number(steps.mean),
        human::count(steps.max)
    );
    Some(sentence(&[
        "Of the policies on simulated memory, ",
        &who,
        &format!("{verb}{need}; "),
        &quick.name,
        &rest,
    ]))
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
    use super::super::plain;
    use super::*;
    use crate::results::Steps;

    /// Of three runs, a hundredth apart in time and `noise` MiB in memory.
    fn allocator(name: &str, seconds: f64, memory_mib: u64, noise: u64) -> Outcome {
        let spread = Spread {
            runs: 3,
            seconds_min: seconds * 0.99,
            seconds_max: seconds * 1.01,
            memory_min: (memory_mib - noise) << 20,
            memory_max: (memory_mib + noise) << 20,
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

    fn said(outcomes: &[Outcome], seconds: f64) -> String {
        said_of(None, outcomes, seconds)
    }

    fn said_of(malloc: Option<&str>, outcomes: &[Outcome], seconds: f64) -> String {
        let decided = decide(outcomes, seconds, malloc);
        decided.iter().map(|sentence| plain(sentence)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_the_program_uses_today_is_what_others_are_compared_with() {
        let of = |name: &str, library: &str, memory| Outcome {
            library: Some(library.into()),
            ..allocator(name, 1.0, memory, 1)
        };
        let measured = [
            of("glibc", "libc.so.6 2.36", 50),
            of("jemalloc", "libjemalloc.so.2 5.3.0", 30),
            of("mimalloc", "libmimalloc.so.2.0", 40),
        ];
        let said = |malloc| said_of(Some(malloc), &measured, 2.0);
        assert!(
            said("/usr/lib/libjemalloc.so.2").starts_with("Keep jemalloc: nothing to save"),
            "{}",
            said("/usr/lib/libjemalloc.so.2")
        );
        assert!(said("/usr/lib/libc.so.6").starts_with("Use jemalloc instead of glibc"));
        // Recorded on another machine.
        assert!(said("/lib/libc-2.31.so").starts_with("Use jemalloc instead of glibc"));
        assert!(said("/opt/libmimalloc.so.2.0").starts_with("Use jemalloc instead of mimalloc"));
        assert_eq!(
            said("/opt/libmine.so"),
            "The program brings libmine.so, which was not measured (name its file in --on), so nothing says whether to keep it. \
             Compared with glibc, jemalloc saves 18.0 MiB to 22.0 MiB of memory (at least 36.0 %)."
        );
        let usual = |malloc| usual_of(&measured, malloc).unwrap().name.as_str();
        assert_eq!(usual(Some("/usr/lib/libjemalloc.so.2")), "jemalloc");
        assert_eq!((usual(Some("/opt/libmine.so")), usual(None)), ("glibc", "glibc"));
        let level = [of("glibc", "libc.so.6 2.36", 50), of("jemalloc", "libjemalloc.so.2", 50)];
        assert!(
            said_of(Some("/opt/libmine.so"), &level, 2.0)
                .ends_with("Compared with glibc, no other saves anything beyond noise.")
        );
    }

    #[test]
    fn what_is_within_noise_or_does_not_matter_changes_nothing() {
        let glibc = || allocator("glibc", 1.0, 50, 0);
        let noisy = [glibc(), allocator("jemalloc", 0.99, 45, 10)];
        let expected = "Keep glibc: nothing to save within noise (all its calls take 1.00 s, 10.0 % of the program's time).";
        assert_eq!(said(&noisy, 10.0), expected);
        // A tenth of a second is apart, but not of a program that takes a minute.
        let slight = [glibc(), allocator("jemalloc", 0.9, 50, 0)];
        assert!(said(&slight, 60.0).starts_with("Keep glibc: nothing to save"));
        assert!(
            said(&slight, 2.0)
                .starts_with("Use jemalloc instead of glibc: it saves 81.0 ms to 119 ms")
        );
    }

    #[test]
    fn a_change_names_what_it_saves_and_an_exchange_is_no_gain() {
        let glibc = || allocator("glibc", 1.0, 50, 1);
        let better =
            [glibc(), allocator("jemalloc", 1.0, 40, 1), allocator("mimalloc", 1.0, 44, 1)];
        assert_eq!(
            said(&better, 2.0),
            "Use jemalloc instead of glibc: it saves 8.00 MiB to 12.0 MiB of memory (at least 16.0 %)."
        );
        let exchange = [glibc(), allocator("lean", 1.5, 40, 1)];
        assert_eq!(
            said(&exchange, 2.0),
            "Keep glibc unless time does not matter: lean would save 8.00 MiB to 12.0 MiB of memory (at least 16.0 %), and costs more time."
        );
    }

    #[test]
    fn the_fastest_is_named_only_apart_from_all_others() {
        let level =
            [allocator("a", 1.0, 50, 0), allocator("b", 1.005, 50, 0), allocator("c", 2.0, 50, 0)];
        assert_eq!(
            said(&level, 2.0),
            "No allocator is apart from the others: nothing to choose within noise."
        );
        let apart = [allocator("a", 1.0, 50, 0), allocator("b", 1.5, 50, 0)];
        assert_eq!(said(&apart, 2.0), "a is the fastest (1.00 s).");
    }

    #[test]
    fn who_fails_wins_nothing_and_one_run_tells_nothing() {
        let failed = Outcome { failures: 1, ..allocator("tiny", 0.1, 1, 0) };
        let alone = said(&[failed, allocator("glibc", 1.0, 50, 0)], 2.0);
        assert!(alone.starts_with("glibc alone replayed it"), "{alone}");
        let mut once = [allocator("glibc", 1.0, 50, 0), allocator("other", 0.1, 5, 0)];
        once.iter_mut().for_each(|o| o.spread = o.spread.map(|s| Spread { runs: 1, ..s }));
        assert!(said(&once, 2.0).starts_with("Keep glibc: one run of each tells nothing"));
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
            said(&found, 1.0),
            "Of the policies on simulated memory, best-fit and good-fit need the smallest region: \
             1.00 KiB, 0.0 % over what was alive; good-fit decides in the fewest steps (4.25 a \
             call, 40 at worst)."
        );
        assert_eq!(decide(&[], 1.0, None), [] as [Sentence; 0]);
    }
}
