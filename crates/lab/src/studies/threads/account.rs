//! What of the paper holds here, computed from the measurements, and what comes from where.

use super::causes;
use super::heaps::{Blocks, Fit, Sharing};
use super::published;
use super::results::Results;
use super::tables::{Curve, Growth, is_the_papers};
use crate::studies::class;
use serde::Serialize;

/// Whether a conclusion holds here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// In part.
    InPart,
    /// It does not.
    Fails,
    /// This machine cannot tell: it has fewer processors than the conclusion is about.
    Undecidable,
    /// Too little was measured.
    Unknown,
}

impl Verdict {
    /// In a report.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::InPart => "holds in part",
            Verdict::Fails => "does not hold here",
            Verdict::Undecidable => "undecidable on this machine",
            Verdict::Unknown => "not measured",
        }
    }

    /// As found, where the machine has as many processors as the conclusion is about threads. With fewer only what
    /// holds all the same is said.
    fn on(self, processors: usize, threads: usize) -> Verdict {
        match self {
            Verdict::Fails | Verdict::InPart if processors < threads => Verdict::Undecidable,
            found => found,
        }
    }

    fn of(count: usize, all: usize) -> Verdict {
        match count {
            _ if all == 0 => Verdict::Unknown,
            count if count == all => Verdict::Holds,
            0 => Verdict::Fails,
            _ => Verdict::InPart,
        }
    }
}

/// A conclusion of the paper, beside what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The conclusion, in short.
    pub claim: &'static str,
    /// Whether it holds here.
    pub verdict: Verdict,
    /// The numbers.
    pub text: String,
    /// Whether it comes from the machine, the lock, or the lists.
    pub cause: String,
}

/// The conclusions, in the paper's order.
pub fn account(results: &Results) -> Vec<Finding> {
    let mut findings = vec![
        falls_then_rises(results),
        four_threads(results),
        scale_alike(results),
        large_numbers(results),
        longer_lists(results),
        same_fragmentation(results),
    ];
    findings.iter_mut().for_each(|finding| begin_large(&mut finding.text));
    findings
}

/// A sentence that begins with a fit's name begins with a capital letter all the same.
fn begin_large(sentence: &mut str) {
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_uppercase();
    }
}

pub fn papers(results: &Results) -> Vec<&Curve> {
    results.threads.iter().filter(|curve| is_the_papers(&curve.on)).collect()
}

pub fn fit_name(fit: Option<Fit>) -> &'static str {
    fit.map_or("", Fit::name)
}

pub fn join(parts: Vec<String>) -> String {
    if parts.is_empty() { "Nothing was measured.".to_owned() } else { parts.join("; ") + "." }
}

/// A number of threads and its time.
pub type At = (usize, f64);

/// Time of one thread, of the best number, of the most.
pub fn times(curve: &Curve) -> Option<(f64, At, At)> {
    let one = curve.at(1)?.time_ns.mean;
    let by_time = |point: &&super::tables::AtThreads| point.time_ns.mean;
    let best = curve.points.iter().min_by(|a, b| by_time(a).total_cmp(&by_time(b)))?;
    let last = curve.points.last().filter(|last| last.threads > 1)?;
    Some((one, (best.threads, best.time_ns.mean), (last.threads, last.time_ns.mean)))
}

/// The threads that the paper found best, and measured everything else on.
const PAPERS_BEST: usize = 4;

/// Differences below this share are called none: no fewer than the intervals of three runs allow.
const NOTABLE: f64 = 0.05;

fn falls_then_rises(results: &Results) -> Finding {
    let (mut parts, mut hold) = (Vec::new(), 0);
    for curve in papers(results) {
        let Some((one, best, last)) = times(curve) else { continue };
        let falls = best.1 < one * (1.0 - NOTABLE);
        let rises = last.1 > best.1 * (1.0 + NOTABLE);
        hold += usize::from(falls && rises);
        parts.push(format!(
            "{}: {:.1} ms on 1 thread, least {:.1} ms on {}, {:.1} ms on {}",
            fit_name(curve.on.fit),
            one / 1e6,
            best.1 / 1e6,
            best.0,
            last.1 / 1e6,
            last.0
        ));
    }
    Finding {
        claim: "The runtime decreases, and after the optimal number of threads gradually increases.",
        verdict: Verdict::of(hold, parts.len()).on(results.processors, PAPERS_BEST),
        text: join(parts) + " Published: 1250 ms, least 826 ms on 4, 1390 ms on 20 (first fit).",
        cause: causes::of_rise_and_fall(results),
    }
}

fn four_threads(results: &Results) -> Finding {
    let (mut parts, mut four) = (Vec::new(), 0);
    for curve in papers(results) {
        let Some((_, best, _)) = times(curve) else { continue };
        four += usize::from(best.0 == 4);
        parts.push(format!("{}: {}", fit_name(curve.on.fit), best.0));
    }
    Finding {
        claim: "Four threads are best.",
        // Four threads can be best by chance on fewer processors: that would say nothing either.
        verdict: match results.processors {
            few if few < PAPERS_BEST && !parts.is_empty() => Verdict::Undecidable,
            _ => Verdict::of(four, parts.len()),
        },
        text: format!("Best numbers under the paper's lock: {}", join(parts)),
        cause: causes::of_the_best_number(results),
    }
}

fn scale_alike(results: &Results) -> Finding {
    let gain = |curve: &Curve| Some((curve.on.fit, curve.at(4)?.speed_up?.mean));
    let spread = |gains: &[f64]| {
        let (low, high) = gains.iter().fold((f64::MAX, 0.0f64), |(l, h), &g| (l.min(g), h.max(g)));
        high / low - 1.0
    };
    let mut text = Vec::new();
    let mut wide = Vec::new();
    for (name, curves) in [
        ("without coalescing", papers(results)),
        (
            "with coalescing",
            results
                .steady
                .iter()
                .filter(|curve| curve.on.sharing == Some(Sharing::PaperLock))
                .collect(),
        ),
    ] {
        let gains: Vec<(Option<Fit>, f64)> =
            curves.iter().filter_map(|curve| gain(curve)).collect();
        if gains.len() < 2 {
            continue;
        }
        let numbers: Vec<f64> = gains.iter().map(|gain| gain.1).collect();
        let each: Vec<String> =
            gains.iter().map(|(fit, gain)| format!("{} {gain:.2}", fit_name(*fit))).collect();
        wide.push(spread(&numbers));
        text.push(format!(
            "speed-ups on 4 threads {name}: {} (the highest {:.0} % above the lowest)",
            each.join(", "),
            100.0 * spread(&numbers)
        ));
    }
    let alike = wide.iter().filter(|spread| **spread <= 0.1).count();
    Finding {
        claim: "Multi-threading does not affect the fits differently.",
        verdict: match results.processors {
            few if few < PAPERS_BEST && !wide.is_empty() => Verdict::Undecidable,
            _ => Verdict::of(alike, wide.len()),
        },
        text: join(text) + " Published on 4 threads: 1.52, 1.51 and 1.52.",
        cause: causes::of_alike(results),
    }
}

fn large_numbers(results: &Results) -> Finding {
    let mut parts = Vec::new();
    let (mut cross, mut all) = (0, 0);
    for sharing in Sharing::ALL {
        let found: Vec<&super::tables::Sweep> = results
            .allocations
            .iter()
            .filter(|sweep| {
                sweep.on.sharing == Some(sharing)
                    && sweep.on.blocks == Some(Blocks::List)
                    && !sweep.points.is_empty()
            })
            .collect();
        if found.is_empty() {
            continue;
        }
        all += found.len();
        cross += found.iter().filter(|sweep| sweep.crossing.is_some()).count();
        let each: Vec<String> = found
            .iter()
            .map(|sweep| {
                let from = |at: f64| format!("from {}", crate::human::count(at as u64));
                sweep.crossing.map_or("never".to_owned(), from)
            })
            .collect();
        parts.push(format!("{}: {}", sharing.name(), each.join(", ")));
    }
    let most =
        results.allocations.iter().flat_map(|sweep| &sweep.points).map(|p| p.allocations).max();
    Finding {
        claim: "The multithreaded implementation is only faster under a large enough number of allocations.",
        verdict: Verdict::of(cross, all),
        text: format!(
            "Two threads against the program without threads and locks, coalescing, first, best and worst fit: {} \
             \"Never\": not up to {} allocations.",
            join(parts),
            most.map_or("0".to_owned(), crate::human::count)
        ),
        cause: causes::of_the_crossing(results),
    }
}

fn longer_lists(results: &Results) -> Finding {
    let of = |blocks: Blocks, fit: Fit| {
        results.iterations.iter().find(move |growth| {
            growth.on.sharing == Some(Sharing::PaperLock)
                && (growth.on.blocks, growth.on.fit) == (Some(blocks), Some(fit))
        })
    };
    let shown = |growth: &Growth| {
        let (first, last) = (growth.points.first()?, growth.points.last()?);
        Some(format!(
            "time grows with the power {:.2} of the iterations from {} to {}, {:.0} free blocks at the end",
            growth.power?, first.iterations, last.iterations, last.free_blocks.mean
        ))
    };
    let mut parts = Vec::new();
    let (mut hold, mut all) = (0, 0);
    for fit in Fit::ALL {
        let (list, tree) = (of(Blocks::ListUnmerged, fit), of(Blocks::TreeUnmerged, fit));
        if let (Some(list), Some(tree)) = (list, tree)
            && let (Some(by_list), Some(by_tree)) = (shown(list), tree.power)
        {
            all += 1;
            hold += usize::from(list.power.is_some_and(|power| power > 1.2));
            parts.push(format!(
                "{}: {by_list}; the same blocks in a tree: {by_tree:.2}",
                fit.name()
            ));
        }
    }
    let ten_fold = Fit::ALL.map(|fit| {
        let at = |n| published::by_iterations(fit, n).map_or(f64::NAN, |summary| summary.mean);
        format!("{:.1}", at(100) / at(10))
    });
    Finding {
        claim: "Ten times the iterations cost 27 to 29 times as much.",
        verdict: Verdict::of(hold, all),
        text: format!("{} Published: {} times.", join(parts), ten_fold.join(", ")),
        cause: causes::of_the_growth(results),
    }
}

/// Figure 14 beside lists that are cut to the byte, which the published ones seem to be.
fn to_the_byte(results: &Results) -> String {
    let each = results.figure_14.iter().map(|one| {
        format!(
            "{} {:.0} ({}; published {:.0}, in multiples of 16 bytes {:.0})",
            one.fit,
            one.to_the_byte.mean,
            one.class.name(),
            one.published,
            one.to_sixteen.mean
        )
    });
    let after_ten = results.figure_14.iter().zip(each).filter(|(one, _)| one.iterations == 10);
    let parts: Vec<String> = after_ten.map(|(_, text)| text).collect();
    let all = class::counted(results.figure_14.iter().map(|one| one.class));
    format!(
        "Free blocks after ten iterations of lists that are cut to the byte, as the paper's: {} Of figure 14, {all}.",
        join(parts)
    )
}

fn same_fragmentation(results: &Results) -> Finding {
    let of = |sharing: Sharing, fit: Fit| {
        results.iterations.iter().find(move |growth| {
            (growth.on.sharing, growth.on.fit, growth.on.blocks)
                == (Some(sharing), Some(fit), Some(Blocks::TreeUnmerged))
        })
    };
    let blocks = |growth: &Growth| growth.points.last().map(|last| last.free_blocks.mean);
    let (mut parts, mut under_threads, mut all) = (Vec::new(), 0, 0);
    let mut between = Vec::new();
    for fit in Fit::ALL {
        let (Some(alone), Some(shared)) = (of(Sharing::Unlocked, fit), of(Sharing::PaperLock, fit))
        else {
            continue;
        };
        let (Some(one), Some(many)) = (blocks(alone), blocks(shared)) else { continue };
        all += 1;
        under_threads += usize::from((many / one - 1.0).abs() <= 0.1);
        between.push(many);
        parts.push(format!(
            "{}: {one:.0} free blocks alone, {many:.0} on {} threads",
            fit.name(),
            shared.threads
        ));
    }
    let low = between.iter().copied().fold(f64::MAX, f64::min);
    let high = between.iter().copied().fold(0.0, f64::max);
    let alike = high <= 1.1 * low;
    let spread = [10, 50, 100].map(|n| {
        let of = |fit| published::blocks(fit, n).unwrap_or(f64::NAN);
        format!("{:.1} %", 100.0 * (of(Fit::Worst) / of(Fit::Best) - 1.0))
    });
    let verdict = match Verdict::of(under_threads, all) {
        Verdict::Holds if !alike => Verdict::InPart,
        other => other,
    };
    Finding {
        claim: "Despite the fit, it will hold the same amount of fragmentation.",
        verdict,
        text: format!(
            "{} Between the fits: {}. Published, worst over best fit at 10, 50 and 100 iterations: {}. {}",
            join(parts),
            if alike { "the same" } else { "not the same" },
            spread.join(", "),
            to_the_byte(results)
        ),
        cause: causes::of_the_fragmentation(results),
    }
}
