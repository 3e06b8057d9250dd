//! The tables.

use super::super::super::ranks::Middle;
use super::super::super::statistics::Summary;
use super::super::byte_exact::{FreeBlocks, Walked};
use super::super::heaps::{Blocks, Fit, Sharing};
use super::super::laws::{Estimate, Law};
use super::super::patterns::Pattern;
use super::super::results::Results;
use super::super::rows::On;
use super::super::tables::{AtThreads, Curve, Growth, Series, Sweep, System};
use crate::human;
use crate::report::html::{Cell, table_of};

fn heads<T: ToString>(first: &str, rest: impl IntoIterator<Item = T>) -> Vec<String> {
    let rest = rest.into_iter().map(|head| head.to_string());
    std::iter::once(first.to_owned()).chain(rest).collect()
}

fn none() -> Cell {
    Cell::text("–")
}

/// A mean with its half width below it.
fn mean(summary: &Summary, unit: f64, decimals: usize) -> Cell {
    let text = format!("{:.decimals$}", summary.mean / unit);
    let note = format!("± {:.decimals$}", summary.half_width / unit);
    Cell { note: (summary.half_width > 0.0).then_some(note), ..Cell::text(text) }
}

fn counts(curves: &[Curve]) -> Vec<usize> {
    let mut counts: Vec<usize> =
        curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.threads)).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

fn over_threads(curve: &Curve, counts: &[usize], cell: impl Fn(&AtThreads) -> Cell) -> Vec<Cell> {
    counts.iter().map(|&count| curve.at(count).map_or_else(none, &cell)).collect()
}

/// Milliseconds of the first experiment.
pub fn times(results: &Results) -> String {
    let counts = counts(&results.threads);
    let rows = results.threads.iter().map(|curve| {
        let cells = over_threads(curve, &counts, |point| mean(&point.time_ns, 1e6, 2));
        std::iter::once(Cell::text(&curve.on.name)).chain(cells).collect()
    });
    let heads = heads("threads", &counts);
    table_of("Milliseconds over threads, without coalescing", heads, &rows.collect::<Vec<_>>())
}

/// Rates in the long run.
pub fn rates(results: &Results) -> String {
    let counts = counts(&results.steady);
    let fastest = |count: usize| {
        let rate = |curve: &Curve| curve.at(count).map_or(0.0, |point| point.rate.mean);
        let heaps = results.steady.iter().filter(|curve| !curve.on.name.contains("loop"));
        heaps.map(rate).fold(0.0, f64::max)
    };
    let rows = results.steady.iter().map(|curve| {
        let is_loop = curve.on.name.contains("loop");
        let cells = over_threads(curve, &counts, |point| Cell {
            best: !is_loop && point.rate.mean >= fastest(point.threads),
            ..mean(&point.rate, 1e6, 2)
        });
        let of_loop = match curve.at(2).map(|point| (point.against_loop, point.refused)) {
            Some((Some(found), 0)) => mean(&found, 1.0, 2),
            Some((Some(found), refused)) => {
                Cell { note: Some(format!("{refused} rounds refused")), ..mean(&found, 1.0, 2) }
            }
            Some((None, refused)) if refused > 0 => Cell::text("refused"),
            _ => none(),
        };
        let name = Cell::text(&curve.on.name);
        std::iter::once(name).chain(cells).chain([of_loop]).collect()
    });
    let heads =
        heads("threads", counts.iter().map(ToString::to_string).chain(["of the loop's".into()]));
    table_of("Millions of sequences a second over threads", heads, &rows.collect::<Vec<_>>())
}

/// Heaps a thread and the loop, turn by turn.
pub fn turns(results: &Results) -> String {
    let shown = |found: &Middle| Cell {
        note: Some(format!("{:.3} to {:.3}", found.low, found.high)),
        ..Cell::text(format!("{:.3}", found.median))
    };
    let rows: Vec<Vec<Cell>> = results
        .turns
        .iter()
        .map(|turned| {
            let least = turned.of_loop_each.iter().copied().fold(f64::INFINITY, f64::min);
            let sureness = human::percent(turned.of_loop.sureness);
            vec![
                Cell::text(&turned.on.name),
                shown(&turned.gain),
                shown(&turned.of_loop),
                Cell::text(format!("{least:.3}")),
                Cell { note: Some(sureness), ..Cell::text(turned.of_loop.values.to_string()) },
            ]
        })
        .collect();
    let heads = ["", "gain", "of the loop's", "worst process", "processes, sureness"];
    table_of("What a second thread gains, turn by turn", heads, &rows)
}

fn is_shown(on: &On) -> bool {
    on.fit.is_none_or(|fit| fit == Fit::First) && on.blocks.is_none_or(|b| b == Blocks::List)
}

/// A time or a rate, and what the system saw meanwhile.
fn beside(shown: String, system: &System) -> Cell {
    let note = format!(
        "{:.2} busy, {} + {}",
        system.busy.mean,
        human::number(system.voluntary),
        human::number(system.involuntary)
    );
    Cell { note: Some(note), ..Cell::text(shown) }
}

/// Busy processors and context switches beside the times, or the rates, over threads.
pub fn system_over_threads(curves: &[Curve], shown: impl Fn(&AtThreads) -> String) -> String {
    let counts = counts(curves);
    let rows = curves.iter().map(|curve| {
        let cells = over_threads(curve, &counts, |point| beside(shown(point), &point.system));
        std::iter::once(Cell::text(&curve.on.name)).chain(cells).collect()
    });
    let caption = "Busy processors and context switches over threads";
    table_of(caption, heads("threads", &counts), &rows.collect::<Vec<_>>())
}

/// A table of what was measured at several amounts: a row a subject, a column an amount.
fn by_amount<T>(
    caption: &str,
    first: &str,
    subjects: impl Iterator<Item = (String, Vec<(u64, T)>)>,
    cell: impl Fn(&T) -> Cell,
) -> String {
    let subjects: Vec<(String, Vec<(u64, T)>)> = subjects.collect();
    let mut amounts: Vec<u64> = subjects.iter().flat_map(|s| s.1.iter().map(|at| at.0)).collect();
    amounts.sort_unstable();
    amounts.dedup();
    let rows = subjects.iter().map(|(name, points)| {
        let at = |amount: &u64| points.iter().find(|point| point.0 == *amount);
        let cells = amounts.iter().map(|amount| at(amount).map_or_else(none, |at| cell(&at.1)));
        std::iter::once(Cell::text(name)).chain(cells).collect()
    });
    let shown = amounts.iter().map(|&amount| human::exact(amount));
    table_of(caption, heads(first, shown), &rows.collect::<Vec<_>>())
}

/// The name of a heap with how its blocks are kept.
fn with_blocks(on: &On) -> String {
    on.blocks.map_or(on.name.clone(), |blocks| format!("{}, {}", on.name, blocks.name()))
}

/// Times over iterations, and what the system saw.
pub fn system_over_iterations(growths: &[Growth]) -> String {
    let subjects = growths.iter().map(|growth| {
        let points = growth.points.iter().map(|point| (point.iterations, point));
        (with_blocks(&growth.on), points.collect())
    });
    by_amount("Time over iterations", "iterations", subjects, |point| {
        beside(human::nanoseconds(point.time_ns.mean), &point.system)
    })
}

/// Times over allocations, and what the system saw.
pub fn system_over_allocations(sweeps: &[Sweep]) -> String {
    let subjects = sweeps.iter().map(|sweep| {
        let points = sweep.points.iter().map(|point| (point.allocations, point));
        (with_blocks(&sweep.on), points.collect())
    });
    by_amount("Time over allocations", "allocations", subjects, |point| {
        beside(human::nanoseconds(point.time_ns.mean), &point.system)
    })
}

/// The list with more lengths.
pub fn lengths(results: &Results) -> String {
    let subjects = results.lengths.iter().map(|growth| {
        let points = growth.points.iter().map(|point| (point.iterations, point));
        (with_blocks(&growth.on), points.collect())
    });
    by_amount("Time and free blocks with more lengths", "iterations", subjects, |point| Cell {
        note: Some(format!("{} free blocks", human::exact(point.free_blocks.mean as u64))),
        ..Cell::text(human::nanoseconds(point.time_ns.mean))
    })
}

fn estimate(found: Estimate) -> Cell {
    Cell {
        note: Some(format!("± {:.3}", found.half_width)),
        ..Cell::text(format!("{:.3}", found.value))
    }
}

fn law_row(name: String, amdahl: Option<Law>, universal: Option<Law>) -> Vec<Cell> {
    let error = |law: Law| Cell::text(human::percent(law.error));
    let peak = |law: Law| law.peak().map_or_else(none, |at| Cell::text(format!("{at:.1}")));
    vec![
        Cell::text(name),
        amdahl.map_or_else(none, |law| estimate(law.sigma)),
        amdahl.map_or_else(none, error),
        universal.map_or_else(none, |law| estimate(law.sigma)),
        universal.map_or_else(none, |law| estimate(law.kappa)),
        universal.map_or_else(none, error),
        universal.map_or_else(none, peak),
    ]
}

/// The laws through every curve.
pub fn laws(results: &Results) -> String {
    let published = results.published.iter().map(|curve| {
        law_row(format!("{}, published", curve.fit.name()), curve.amdahl, curve.universal)
    });
    let ours = |curves: &[Curve], what: &str| -> Vec<Vec<Cell>> {
        let lawful = curves.iter().filter(|curve| curve.universal.is_some());
        let row = |curve: &Curve| {
            law_row(format!("{}{what}", curve.on.name), curve.amdahl, curve.universal)
        };
        lawful.map(row).collect()
    };
    let papers: Vec<Curve> = results
        .threads
        .iter()
        .filter(|curve| super::super::tables::is_the_papers(&curve.on))
        .cloned()
        .collect();
    let rows = published.chain(ours(&papers, ", no coalescing")).chain(ours(&results.steady, ""));
    let heads =
        heads("", ["Amdahl's sigma", "error", "universal sigma", "kappa", "error", "best threads"]);
    table_of("Laws", heads, &rows.collect::<Vec<_>>())
}

/// Blocks over iterations.
pub fn blocks(results: &Results) -> String {
    let mut rows = Vec::new();
    for growth in &results.iterations {
        if growth.on.blocks != Some(Blocks::TreeUnmerged) {
            continue;
        }
        for point in &growth.points {
            let name = format!("{}, {} iterations", growth.on.name, point.iterations);
            let published = growth.on.sharing == Some(Sharing::PaperLock);
            let chunks = point.published_blocks.filter(|_| published);
            rows.push(vec![
                Cell { note: Some(format!("{} threads", growth.threads)), ..Cell::text(name) },
                mean(&point.free_blocks, 1.0, 0),
                chunks.map_or_else(none, |chunks| Cell::text(human::exact(chunks as u64))),
                Cell::text(human::bytes(point.heap_bytes.mean as u64)),
                point.external.map_or_else(none, |found| Cell::text(human::percent(found.mean))),
            ]);
        }
    }
    let heads = heads("", ["free blocks", "published chunks", "heap", "external fragmentation"]);
    table_of("Blocks over iterations", heads, &rows)
}

/// Figure 14, and lists cut to the byte.
pub fn figure_14(results: &Results) -> String {
    let row = |one: &FreeBlocks| {
        vec![
            Cell::text(format!("{}, {} iterations", one.fit, one.iterations)),
            one.class.cell(),
            Cell::text(human::exact(one.published as u64)),
            mean(&one.to_the_byte, 1.0, 0),
            mean(&one.alone, 1.0, 0),
            mean(&one.to_sixteen, 1.0, 0),
        ]
    };
    let rows: Vec<Vec<Cell>> = results.figure_14.iter().map(row).collect();
    let heads = heads(
        "",
        ["verdict", "published", "to the byte", "the same, one thread", "in multiples of 16"],
    );
    table_of("Free blocks by the grain of the lists", heads, &rows)
}

/// The printed times over the iterations, and walks of lists cut to the byte.
pub fn walked(results: &Results) -> String {
    let row = |one: &Walked| {
        vec![
            Cell::text(format!("{}, {} iterations", one.fit, one.iterations)),
            one.class.cell(),
            Cell::text(human::nanoseconds(one.published_ns)),
            Cell::text(human::nanoseconds(one.by_steps_ns.mean)),
            Cell::text(human::count(one.steps.mean as u64)),
        ]
    };
    let rows: Vec<Vec<Cell>> = results.walked.iter().map(row).collect();
    let heads = heads("", ["verdict", "published", "by steps", "chunks looked at"]);
    table_of("Times by steps of lists cut to the byte", heads, &rows)
}

/// Crossings by scheme and fit.
pub fn crossings(results: &Results) -> String {
    let crossing = |is_it: &dyn Fn(&On) -> bool| {
        let Some(sweep) = results.allocations.iter().find(|sweep| is_it(&sweep.on)) else {
            return none();
        };
        match (sweep.crossing, sweep.points.last()) {
            (Some(at), _) => Cell::text(human::count(at as u64)),
            (None, Some(last)) => {
                Cell::text(format!("not up to {}", human::count(last.allocations)))
            }
            (None, None) => none(),
        }
    };
    let mut rows = Vec::new();
    for sharing in Sharing::ALL {
        let mut row = vec![Cell::text(sharing.name())];
        for blocks in [Blocks::List, Blocks::ListUnmerged] {
            row.extend(Fit::ALL.map(|fit| {
                crossing(&|on| {
                    (on.sharing, on.fit, on.blocks) == (Some(sharing), Some(fit), Some(blocks))
                })
            }));
        }
        rows.push(row);
    }
    let mallocs = results.allocations.iter().filter(|sweep| sweep.on.is_malloc);
    rows.extend(mallocs.map(|malloc| {
        let cell = crossing(&|on| *on == malloc.on);
        let mut row = vec![Cell::text(&malloc.on.name), cell];
        row.resize_with(7, none);
        row
    }));
    let columns = [Blocks::List, Blocks::ListUnmerged]
        .into_iter()
        .flat_map(|blocks| Fit::ALL.map(|fit| format!("{}, {}", fit.name(), blocks.name())));
    table_of("Allocations from which on two threads are faster", heads("", columns), &rows)
}

/// Rates by pattern, at the highest number of threads.
pub fn series(results: &Results) -> String {
    by_pattern(results, |series| mean(&series.rate, 1e6, 2))
}

/// The same, and what the system saw.
pub fn system_by_pattern(results: &Results) -> String {
    by_pattern(results, |series| beside(format!("{:.2}", series.rate.mean / 1e6), &series.system))
}

fn by_pattern(results: &Results, cell: impl Fn(&Series) -> Cell) -> String {
    let most = results.series.iter().map(|series| series.threads).max().unwrap_or(1);
    let mut names: Vec<&On> = Vec::new();
    for series in results.series.iter().filter(|series| series.threads == most) {
        if !names.contains(&&series.on) {
            names.push(&series.on);
        }
    }
    let rows = names.into_iter().map(|on| {
        let cells = Pattern::ALL.map(|pattern| {
            let found = results
                .series
                .iter()
                .find(|s| (&s.on, s.pattern, s.threads) == (on, pattern, most));
            found.map_or_else(none, &cell)
        });
        std::iter::once(Cell::text(&on.name)).chain(cells).collect()
    });
    let heads = heads(&format!("on {most} threads"), Pattern::ALL.map(Pattern::name));
    table_of("Millions of sequences a second by pattern", heads, &rows.collect::<Vec<_>>())
}

/// Heap, blocks and fragmentation by pattern: without threads, under the paper's lock, a heap a thread.
pub fn fragmentation(results: &Results) -> String {
    let most = results.series.iter().map(|series| series.threads).max().unwrap_or(1);
    let is_shown = |series: &&Series| match series.on.sharing {
        Some(Sharing::Unlocked) => true,
        Some(Sharing::PaperLock | Sharing::PerThread) => series.threads == most,
        _ => false,
    };
    let rows = results.series.iter().filter(is_shown).map(|series| {
        let count =
            |found: &Option<Summary>| found.as_ref().map_or_else(none, |found| mean(found, 1.0, 0));
        let external = series.external;
        vec![
            Cell {
                note: Some(format!("{}, {} threads", series.pattern.name(), series.threads)),
                ..Cell::text(&series.on.name)
            },
            Cell::text(human::bytes(series.heap_bytes.mean as u64)),
            count(&series.free_blocks),
            count(&series.used_blocks),
            external.map_or_else(none, |found| Cell::text(human::percent(found.mean))),
        ]
    });
    let heads = heads("", ["heap", "free blocks", "used blocks", "external fragmentation"]);
    table_of("Heap, blocks and fragmentation by pattern", heads, &rows.collect::<Vec<_>>())
}

/// Latency and locks.
pub fn calls(results: &Results) -> String {
    let ns = |value: f64| Cell::text(human::nanoseconds(value));
    let share =
        |value: Option<f64>| value.map_or_else(none, |value| Cell::text(human::percent(value)));
    let rows = results.calls.iter().filter(|calls| is_shown(&calls.on)).map(|calls| {
        let overtaken = share(calls.overtaken);
        let most = calls.most_overtaken.filter(|&most| most > 0);
        vec![
            Cell { note: Some(format!("{} threads", calls.threads)), ..Cell::text(&calls.on.name) },
            ns(calls.latency.p50_ns.into()),
            ns(calls.latency.p99_ns.into()),
            ns(calls.latency.max_ns.into()),
            share(calls.contended),
            calls.wait_ns.map_or_else(none, ns),
            calls.hold_ns.map_or_else(none, ns),
            share(calls.in_vain),
            Cell { note: most.map(|most| format!("one by {most}")), ..overtaken },
            Cell::text(format!("{:.2}", calls.system.busy.mean)),
            Cell::text(format!(
                "{} + {}",
                human::number(calls.system.voluntary),
                human::number(calls.system.involuntary)
            )),
        ]
    });
    let heads = heads(
        "",
        [
            "p50",
            "p99",
            "longest",
            "contended",
            "wait",
            "hold",
            "in vain",
            "overtaken",
            "busy",
            "switches",
        ],
    );
    table_of("Single calls and locks", heads, &rows.collect::<Vec<_>>())
}
