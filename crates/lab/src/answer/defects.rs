//! What is wrong with a site, if anything, and what to do about it.
//!
//! Two kinds of defects. Of *memory*: a site that holds a large part of the peak and grows to the end, that threads
//! left behind, that keeps pages of which it uses little, or whose objects hold nothing but zeroes ([`LEAST_MEMORY`]). Of *time*: objects freed soon, or by other threads, if they are
//! a large part of the program's and many ([`LEAST_PART`], [`LEAST_EVENTS`]); growth step by step that copies much ([`LEAST_COPIED`]).
//!
//! Memory outside of malloc has defects of its own: [`super::outside`]. All are weighed against all that the process has in memory, files excepted.
//!
//! What events cost is assumed, on the low side of what mallocs take, and said as "estimated"; the recorded time has the recorder's cost in it. So less
//! than [`LEAST_TIME`] of it is nothing.

use super::{Sentence, called, named, outside, sentence};
use crate::human;
use crate::sites::{BRIEF, Counts, Measure, NO_STACK, Site, Sites, Trend};
use crate::trial::{Change, Trial};

/// Least part of the peak for which memory is a defect.
const LEAST_MEMORY: f64 = 0.2;
/// And least bytes: less than this no program is made smaller for.
const LEAST_BYTES: u64 = 64 << 10;
/// Least part of the process's allocations for which events are a defect,
const LEAST_PART: f64 = 0.2;
/// and least events: fewer take no time that anybody notices.
const LEAST_EVENTS: u64 = 100_000;
/// And least part of the time, by what each event is assumed to cost.
const LEAST_TIME: f64 = 0.002;
/// Least bytes that growth copies.
const LEAST_COPIED: u64 = 64 << 20;
/// Least blocks of what grows as a leak or a cache: few blocks are one array that is as long as its contents.
const LEAST_BLOCKS: u64 = 16;
/// Nanoseconds of a malloc and its free at once.
const PAIR_NS: f64 = 20.0;
/// Nanoseconds by which a free of another thread's object is dearer, with the cache lines that change sides.
const REMOTE_NS: f64 = 100.0;
/// Bytes that are copied in a nanosecond.
const COPIED_PER_NS: f64 = 10.0;
/// Growth that doubles copies a byte for each that it adds; step by step is this many times as much.
const STEPWISE: u64 = 4;
/// Pages are badly used if they are this many times as long as the objects for which they are kept.
const SPARSE: u64 = 4;
/// Least part of the bytes that were read of a site's objects that is blank, for room that nobody uses. Any shorter
/// room may be what doubling leaves: half of it, on top of half.
const LEAST_BLANK: f64 = 0.75;
/// Least bytes that must have been read.
const LEAST_SEEN: u64 = 16 << 10;
/// Least bytes of pages that a model says are kept: where nobody looked at the program itself, that is a guess.
const LEAST_MODELLED: u64 = 1 << 20;
/// What weighs less than this part of the weightiest is not told beside it: it may well be as it must be.
const LEAST_OF_MOST: f64 = 0.5;
/// Most findings that are told.
const MOST: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Defect {
    /// Grows to the end and is never freed.
    Leak,
    /// Grows to the end, when all of it is freed.
    Hoard,
    /// Of threads that have ended.
    LeftBehind,
    /// Few objects on many pages.
    KeepsPages,
    /// Objects that are mostly zeroes.
    Unused,
    /// Freed within a few events.
    Temporary,
    /// Grows by little and copies much.
    Stepwise,
    /// Freed by other threads.
    HandedOver,
}

/// What is wrong.
pub(super) struct Finding {
    /// How much of the memory, or of the time (0 to 1 and more).
    pub(super) weight: f64,
    /// What to do about it, and why.
    pub(super) advice: Sentence,
    /// How a replay can try that.
    pub(super) trial: Option<Trial>,
}

/// What is wrong, that which matters most first; at most one defect of memory and one of time of each site.
pub(super) fn find(sites: &Sites, ticks_are_events: bool) -> Vec<Finding> {
    let ns = (!ticks_are_events).then_some(sites.seconds * 1e9);
    let mut found = outside::find(sites);
    for site in sites.sites.iter().filter(|site| site.function != NO_STACK) {
        let all = [of_memory(site, sites), of_time(site, sites, ns)];
        let finding = |(defect, weight)| Finding {
            weight,
            advice: advice(defect, weight, site, sites),
            trial: change(defect).map(|change| Trial { change, place: site.place() }),
        };
        found.extend(all.into_iter().flatten().map(finding));
    }
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    let most = found.first().map_or(0.0, |finding| finding.weight);
    found.retain(|finding| finding.weight >= most * LEAST_OF_MOST);
    found.truncate(MOST);
    found
}

fn of_memory(site: &Site, sites: &Sites) -> Option<(Defect, f64)> {
    let counts = &site.counts;
    let part = |bytes: u64| bytes as f64 / sites.whole_bytes.max(1) as f64;
    let matters = |bytes: u64| bytes >= LEAST_BYTES && part(bytes) >= LEAST_MEMORY;
    if matters(counts.orphaned_bytes) {
        return Some((Defect::LeftBehind, part(counts.orphaned_bytes)));
    }
    let blocks = counts.peak_blocks.max(counts.leaked_blocks);
    let grows = site.trend == Trend::Growing && blocks >= LEAST_BLOCKS && !is_stepwise(counts);
    if grows && matters(site.most_held()) {
        let is_leak = counts.leaked_bytes * 2 >= site.most_held();
        let defect = if is_leak { Defect::Leak } else { Defect::Hoard };
        return Some((defect, part(site.most_held())));
    }
    // Apart from what, if nothing is made anywhere else?
    let has_others = counts.allocations < sites.total.allocations;
    let sparse =
        has_others && counts.keeping_bytes.saturating_mul(SPARSE) <= counts.kept_page_bytes;
    let least = if sites.kept_s.is_some() { 0 } else { LEAST_MODELLED };
    if sparse && counts.kept_page_bytes >= least && matters(counts.kept_page_bytes) {
        return Some((Defect::KeepsPages, part(counts.kept_page_bytes)));
    }
    let unused = unused(counts);
    matters(unused).then(|| (Defect::Unused, part(unused)))
}

/// Of what it had at the peak, the bytes that hold nothing but zeroes, by those that were read; none where that is not most of them.
fn unused(counts: &Counts) -> u64 {
    let blank = counts.blank_bytes as f64 / counts.seen_bytes.max(1) as f64;
    let is_known = counts.seen_bytes >= LEAST_SEEN && blank >= LEAST_BLANK;
    if is_known { (counts.peak_bytes as f64 * blank) as u64 } else { 0 }
}

/// The dearest way in which it spends time, if that matters; its part of the time, or of the events where there are no times.
fn of_time(site: &Site, sites: &Sites, ns: Option<f64>) -> Option<(Defect, f64)> {
    let counts = &site.counts;
    let part = |many: u64| many as f64 / sites.total.allocations.max(1) as f64;
    let matters = |many: u64| many >= LEAST_EVENTS && part(many) >= LEAST_PART;
    let (brief, others) = (counts.brief, counts.freed_by_others);
    let costs = [
        (matters(brief), Defect::Temporary, brief, brief as f64 * PAIR_NS),
        (matters(others), Defect::HandedOver, others, others as f64 * REMOTE_NS),
        (
            is_stepwise(counts),
            Defect::Stepwise,
            counts.growths,
            counts.growths as f64 * PAIR_NS + counts.copied_bytes as f64 / COPIED_PER_NS,
        ),
    ];
    let parts = costs
        .into_iter()
        .filter(|cost| cost.0)
        .map(|(_, defect, many, cost)| (defect, ns.map_or(part(many), |ns| cost / ns.max(1.0))));
    let dearest = parts.max_by(|a, b| a.1.total_cmp(&b.1));
    dearest.filter(|(_, part)| ns.is_none() || *part >= LEAST_TIME)
}

/// Whether its objects grow by little and copy much.
fn is_stepwise(counts: &Counts) -> bool {
    counts.copied_bytes >= LEAST_COPIED.max(counts.grown_bytes.saturating_mul(STEPWISE))
}

/// What a replay can try about it.
fn change(defect: Defect) -> Option<Change> {
    match defect {
        Defect::KeepsPages => Some(Change::Apart),
        Defect::Stepwise => Some(Change::Reserve),
        _ => None,
    }
}

/// What to do about it, and why.
fn advice(defect: Defect, weight: f64, site: &Site, sites: &Sites) -> Sentence {
    let (counts, total) = (&site.counts, &sites.total);
    let bytes = human::bytes;
    let part = |of: u64, all: u64| human::percent(of as f64 / all.max(1) as f64);
    let why = match defect {
        Defect::Leak => format!(
            ": {} in {} blocks were never freed, and grew to the end. A leak, a cache without a limit, or its result.",
            bytes(counts.leaked_bytes),
            human::count(counts.leaked_blocks)
        ),
        Defect::Hoard => format!(
            ": it grows to {} and frees nearly all of it only at the end. A cache without a limit?",
            bytes(site.most_held())
        ),
        Defect::LeftBehind => format!(
            ": {} in {} blocks are still there whose threads have ended.",
            bytes(counts.orphaned_bytes),
            human::count(counts.orphaned_blocks)
        ),
        Defect::KeepsPages => format!(
            ": {} of it keep {} of pages that have next to nothing else ({}).",
            bytes(counts.keeping_bytes),
            bytes(counts.kept_page_bytes),
            sites.kept_s.map_or("estimated, in a model of size classes".into(), |at| format!(
                "seen at {}",
                human::seconds(at)
            ))
        ),
        Defect::Unused => format!(
            ": an estimated {} of its {} hold nothing but zeroes (some were looked at, at {}).",
            bytes(unused(counts)),
            bytes(counts.peak_bytes),
            human::seconds(sites.seen_s.unwrap_or(sites.peak_s))
        ),
        Defect::Temporary => format!(
            ": {} of its objects are freed by their thread within {BRIEF} events, {} of all allocations, an estimated {} of the time.",
            human::count(counts.brief),
            part(counts.brief, total.allocations),
            human::percent(weight)
        ),
        Defect::Stepwise => format!(
            ": {} steps of {} copy {} to reach {}.",
            human::count(counts.growths),
            bytes(counts.grown_bytes / counts.growths.max(1)),
            bytes(counts.copied_bytes),
            bytes(counts.largest_bytes)
        ),
        Defect::HandedOver => format!(
            ": {} of its objects ({}) are freed by another thread than the one that made them.",
            human::count(counts.freed_by_others),
            part(counts.freed_by_others, counts.freed)
        ),
    };
    let (before, after) = what(defect);
    let called = called(site, measure(defect));
    sentence(&[before, &named(site), &format!("{after}{called}{why}")])
}

/// Whose callers are to be told: those through which came what is wrong.
fn measure(defect: Defect) -> Measure {
    match defect {
        Defect::Leak => Measure::NeverFreed,
        Defect::Hoard | Defect::LeftBehind | Defect::Unused => Measure::Peak,
        Defect::KeepsPages => Measure::KeptPages,
        Defect::Temporary => Measure::Temporary,
        Defect::Stepwise | Defect::HandedOver => Measure::Allocated,
    }
}

/// The advice itself, around the name of the site.
fn what(defect: Defect) -> (&'static str, &'static str) {
    match defect {
        Defect::Leak => ("Free, or bound, what ", " makes"),
        Defect::Hoard => ("Bound what ", " keeps"),
        Defect::KeepsPages => ("Allocate apart, in a region of its own, what ", " makes"),
        Defect::Unused => ("Reserve less, or later, in ", ""),
        Defect::LeftBehind => ("Free at the thread's end what ", " makes"),
        Defect::Temporary => ("Keep one buffer instead of a new one each time in ", ""),
        Defect::Stepwise => ("Reserve room, or double it, in ", ""),
        Defect::HandedOver => ("Give objects back to their thread, or hand over fewer, from ", ""),
    }
}
