//! What of the paper holds here, computed from the measurements, and what comes from where.

use super::byte_exact;
use super::causes;
use super::heaps::{Blocks, Fit, Sharing};
use super::published;
use super::results::Results;
use super::tables::{Curve, Growth, is_the_papers};
use crate::studies::class::{self, Class};
use freehold_blocks::GRANULE;
use serde::Serialize;

/// What becomes of a conclusion about several fits of which `holding` of `all` agree. A conclusion about more threads than
/// the machine has processors cannot fail there: whether it does is undecidable.
fn judged(holding: usize, all: usize, is_measurable: bool) -> Class {
    let class = Class::of_all((0..all).map(|nth| match nth < holding {
        true => Class::Holds,
        false => Class::Fails,
    }));
    if class == Class::Fails && !is_measurable { Class::Undecidable } else { class }
}

/// A conclusion of the paper, beside what was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The conclusion, in short.
    pub claim: &'static str,
    /// What became of it. None was fitted.
    pub class: Class,
    /// In how many of the fits, or ways, that it is about it holds, and how many those are.
    pub holds_in: (usize, usize),
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
    // Everything here is measured or drawn: a single run shows no spread.
    let is_once = results.settings["runs"].as_u64().unwrap_or(1) < 2;
    for finding in &mut findings {
        begin_large(&mut finding.text);
        if is_once {
            finding.class = Class::Undecidable;
        }
    }
    findings
}

impl Finding {
    /// As a report says it.
    pub fn said(&self) -> String {
        match (self.class, self.holds_in) {
            (class, (some, all)) if 0 < some && some < all => {
                format!("{}, {some} of {all} agree", class.name())
            }
            (class, _) => class.name().to_owned(),
        }
    }
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
        // As of the four threads below: fewer processors show neither the rise nor that there is none.
        class: match results.processors < PAPERS_BEST {
            true => Class::Undecidable,
            false => judged(hold, parts.len(), true),
        },
        holds_in: (hold, parts.len()),
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
        class: match results.processors < PAPERS_BEST {
            true => Class::Undecidable,
            false => judged(four, parts.len(), true),
        },
        holds_in: (four, parts.len()),
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
        class: match results.processors < PAPERS_BEST {
            true => Class::Undecidable,
            false => judged(alike, wide.len(), true),
        },
        holds_in: (alike, wide.len()),
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
        class: judged(cross, all, true),
        holds_in: (cross, all),
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
        // Our lists have granules, so those of first and best fit hardly grow: that the time does not is no word on lists that
        // do. To the byte steps are counted, no times: two costs would have to be fitted to the printed ones.
        class: judged(hold, all, false),
        holds_in: (hold, all),
        text: format!(
            "{} Published: {} times. Lengths of our heaps are multiples of {GRANULE} bytes, so that the lists of first and best fit \
             hardly grow, where the paper's do (figure 14): a time that does not grow decides nothing. {}",
            join(parts),
            ten_fold.join(", "),
            steps_to_the_byte(results)
        ),
        cause: causes::of_the_growth(results),
    }
}

/// What walks of lists that are cut to the byte cost, and whether the printed times follow from them.
fn steps_to_the_byte(results: &Results) -> String {
    let of = |fit: Fit, iterations| {
        let mut all = results.walked.iter();
        all.find(move |one| one.fit == fit.name() && one.iterations == iterations)
    };
    let each = Fit::ALL.into_iter().filter_map(|fit| {
        let (few, many) = (of(fit, 10)?, of(fit, 100)?);
        let (of_call, of_step) = many.costs_ns;
        Some(format!(
            "{} {:.0} times the chunks looked at ({:.1} µs a call and {:.1} ns a chunk)",
            fit.name(),
            many.steps.mean / few.steps.mean,
            of_call / 1e3,
            of_step
        ))
    });
    format!(
        "On lists that are cut to the byte ten times the iterations cost: {} With these two costs, fitted to the printed times of 10          and 100 iterations, of those between: {}. So the growth is that of lists that grow by the call, whatever the fit.",
        join(each.collect()),
        class::counted(results.walked.iter().map(|one| one.class))
    )
}

/// Figure 14 on lists that are cut to the byte, which the published ones seem to be.
fn to_the_byte(results: &Results) -> String {
    let each = results.figure_14.iter().map(|one| {
        format!(
            "{} {:.0}, {:.0} on one thread (published {:.0}, {})",
            one.fit,
            one.to_the_byte.mean,
            one.alone.mean,
            one.published,
            one.class.name()
        )
    });
    let after_ten = results.figure_14.iter().zip(each).filter(|(one, _)| one.iterations == 10);
    let parts: Vec<String> = after_ten.map(|(_, text)| text).collect();
    let spread = byte_exact::between(&results.figure_14).map(|(one, over_best)| {
        format!("{} {:.2} after {}", one.fit, over_best.mean, one.iterations)
    });
    let all = class::counted(results.figure_14.iter().map(|one| one.class));
    format!(
        "Free blocks after ten iterations of lists that are cut to the byte, as the paper's: {} Of best fit's have: {} Of figure \
         14, {all}.",
        join(parts),
        join(spread.collect())
    )
}

/// The ablation: blocks of the heaps, in granules of 16 bytes, by trees that choose what the lists choose.
fn in_granules(results: &Results) -> String {
    let of = |sharing: Sharing, fit: Fit| {
        results.iterations.iter().find(move |growth| {
            (growth.on.sharing, growth.on.fit, growth.on.blocks)
                == (Some(sharing), Some(fit), Some(Blocks::TreeUnmerged))
        })
    };
    let blocks = |growth: &Growth| growth.points.last().map(|last| last.free_blocks.mean);
    let parts = Fit::ALL.into_iter().filter_map(|fit| {
        let shared = of(Sharing::PaperLock, fit)?;
        Some(format!(
            "{} {:.0} alone, {:.0} on {} threads",
            fit.name(),
            blocks(of(Sharing::Unlocked, fit)?)?,
            blocks(shared)?,
            shared.threads
        ))
    });
    format!("Ablation, lengths in granules of 16 bytes: {}", join(parts.collect()))
}

/// Judged by figure 14 at the paper's grain: our heaps' granules make the fits differ, which the paper's lists have not.
fn same_fragmentation(results: &Results) -> Finding {
    let spread = [10, 50, 100].map(|n| {
        let of = |fit| published::blocks(fit, n).unwrap_or(f64::NAN);
        format!("{:.1} %", 100.0 * (of(Fit::Worst) / of(Fit::Best) - 1.0))
    });
    Finding {
        claim: "Despite the fit, it will hold the same amount of fragmentation.",
        class: byte_exact::alike(&results.figure_14),
        holds_in: (0, 0),
        text: format!(
            "{} Published, worst over best fit at 10, 50 and 100 iterations: {}. {}",
            to_the_byte(results),
            spread.join(", "),
            in_granules(results)
        ),
        cause: causes::of_the_fragmentation(results),
    }
}
