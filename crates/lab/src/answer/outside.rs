//! Memory outside of malloc: who holds it, what is wrong with it, and what to do.
//!
//! Three defects. Mappings that are made again and again and not unmapped; a heap of the program's own, or a runtime's, that grows to the end;
//! huge pages of which much was never written. Each must have [`LEAST_PART`] of all that the process has in memory.

use super::defects::Finding;
use super::{Sentence, called_by, sentence};
use crate::human;
use crate::resident::in_words;
use crate::sites::{NO_STACK, Outside, Site, Sites, Trend};
use freehold_trace::What;

/// Least part of what is in memory, files excepted.
const LEAST_PART: f64 = 0.2;
/// Least bytes of a leak, or of zeroes.
const LEAST_BYTES: u64 = 1 << 20;
/// Least bytes of a heap that grows: runtimes begin with some MiB, and grow while they start.
const LEAST_HEAP: u64 = 16 << 20;
/// Least mappings that leak; fewer are a few tables that are as long as what they hold.
const LEAST_MAPPINGS: u64 = 16;
/// Part from which on somebody is named as a holder.
const LEAST_HOLDER: f64 = 0.1;
/// Callers that are named: who maps memory often does so for others.
const MOST_CALLERS: usize = 2;
/// Bytes of a huge page.
const HUGE_PAGE: u64 = 2 << 20;

/// What shows what is in a runtime's heap.
const TOOLS: [(&str, &str); 4] = [
    ("V8", "node --inspect, or --heapsnapshot-signal=SIGUSR2"),
    ("Java", "jcmd PID GC.class_histogram"),
    ("Python", "recorded with PYTHONMALLOC=malloc, malloc's part has it"),
    ("Ruby", "ObjectSpace.dump_all"),
];

/// Who holds what is not malloc's, and how many bytes.
pub(super) fn holders(sites: &Sites) -> Vec<(u64, Sentence)> {
    let matters = |out: &&Outside| {
        out.what != What::Malloc && part(sites, out.resident_bytes) >= LEAST_HOLDER
    };
    let holder = |out: &Outside| {
        let of_all = human::percent(part(sites, out.resident_bytes));
        let mappings = match out.mappings {
            0 => String::new(),
            1 => ", mapped at once".into(),
            many => format!(", mapped by {} calls", human::count(many)),
        };
        let rest = format!(
            " has {} in memory, {of_all} of all but files{mappings}{}.",
            human::bytes(out.resident_bytes),
            callers(out)
        );
        (out.resident_bytes, sentence(&["", &name(out), &rest]))
    };
    sites.outside.iter().filter(matters).map(holder).collect()
}

/// What is wrong.
pub(super) fn find(sites: &Sites) -> Vec<Finding> {
    let found = |out| zeroes(out, sites).or_else(|| leak(out, sites)).or_else(|| heap(out, sites));
    // Nobody can be told to change what nobody is known to have mapped.
    sites.outside.iter().filter(|out| out.name != NO_STACK).filter_map(found).collect()
}

fn part(sites: &Sites, bytes: u64) -> f64 {
    bytes as f64 / sites.whole_bytes.max(1) as f64
}

fn matters(sites: &Sites, bytes: u64, least: u64) -> Option<f64> {
    let part = part(sites, bytes);
    (bytes >= least && part >= LEAST_PART).then_some(part)
}

/// Huge pages that hold little.
fn zeroes(out: &Outside, sites: &Sites) -> Option<Finding> {
    let weight = matters(sites, out.zero_bytes, LEAST_BYTES)?;
    // The kernel's maps do not say which block of malloc's lies there: the longest are the likeliest.
    let longest = || {
        let long = sites.sites.iter().filter(|site| site.counts.largest_bytes >= HUGE_PAGE);
        long.max_by_key(|site| site.counts.peak_bytes).map(Site::text)
    };
    let of = if out.what == What::Malloc { longest()? } else { name(out) };
    let why = format!(
        " has, or write closer together: an estimated {} of its {} in huge pages were never written{}.",
        human::bytes(out.zero_bytes),
        human::bytes(out.huge_bytes),
        callers(out)
    );
    let advice = sentence(&["Take small pages (MADV_NOHUGEPAGE) for what ", &of, &why]);
    Some(Finding { weight, advice, trial: None })
}

/// Mappings that are never unmapped.
fn leak(out: &Outside, sites: &Sites) -> Option<Finding> {
    let many = out.left >= LEAST_MAPPINGS && out.left * 2 >= out.mappings;
    // Nobody knows how much of a file is in memory by which mapping.
    let bytes = if out.is_file { out.left_bytes } else { out.resident_bytes.min(out.left_bytes) };
    let weight = matters(sites, bytes, LEAST_BYTES)?;
    let grows = out.left_trend == Trend::Growing;
    (many && grows && out.what == What::Mapped).then(|| {
        let why = format!(
            " maps: {} in {} mappings were never unmapped, and grew to the end{}.",
            human::bytes(out.left_bytes),
            human::count(out.left),
            callers(out)
        );
        let advice = sentence(&["Unmap, or bound, what ", &name(out), &why]);
        Finding { weight, advice, trial: None }
    })
}

/// A heap that is not malloc's, and grows.
fn heap(out: &Outside, sites: &Sites) -> Option<Finding> {
    let weight = matters(sites, out.resident_bytes, LEAST_HEAP)?;
    (out.trend == Trend::Growing && out.what != What::Malloc).then(|| {
        let grew = format!("it grew to {} until the end", human::bytes(out.resident_bytes));
        let advice = match out.what {
            What::Runtime => {
                let tool = TOOLS.iter().find(|(runtime, _)| out.name == *runtime);
                let tool = tool.map_or(String::new(), |(_, tool)| format!(" ({tool})"));
                sentence(&["Look into ", &name(out), &format!("{tool}: {grew}.")])
            }
            _ => {
                let why = format!(" maps as a heap of its own: {grew}{}.", callers(out));
                sentence(&["Bound what ", &name(out), &why])
            }
        };
        Finding { weight, advice, trial: None }
    })
}

/// The site, or "V8's own heap".
fn name(out: &Outside) -> String {
    match out.what {
        What::Runtime => in_words(out.what, &out.name),
        // A look keeps the stacks with most, and the sum of the others.
        _ if out.name == NO_STACK => "What many other calls mapped".into(),
        _ => out.name.clone(),
    }
}

fn callers(out: &Outside) -> String {
    called_by(&out.callers[..out.callers.len().min(MOST_CALLERS)])
}
