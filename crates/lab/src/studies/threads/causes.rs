//! What the paper's results come from: the lock, the machine or the lists. Each cause is a number of this run, an
//! ablation where there is one: the same without the lock, in trees instead of lists, with more lengths.

use super::account::{fit_name, join, papers, times};
use super::heaps::{Blocks, Fit, Sharing};
use super::patterns::Pattern;
use super::plan::ITERATION;
use super::published;
use super::results::Results;
use super::rows::On;
use super::tables::{AtAllocations, AtIterations, Calls, Curve, Growth, Series, Sweep};
use crate::human;
use freehold_blocks::GRANULE;

/// Of a heap without coalescing, shared so.
fn is(on: &On, sharing: Sharing, blocks: Blocks, fit: Fit) -> bool {
    (on.sharing, on.blocks, on.fit) == (Some(sharing), Some(blocks), Some(fit))
}

/// What was seen of the paper's lock, on two threads or the fewest beyond.
fn watched(results: &Results, fit: Fit) -> Option<&Calls> {
    let of = |calls: &&Calls| is(&calls.on, Sharing::PaperLock, Blocks::ListUnmerged, fit);
    results.calls.iter().filter(of).filter(|calls| calls.threads > 1).min_by_key(|c| c.threads)
}

/// The lock: how long is waited for it, and what happens without it.
pub fn of_rise_and_fall(results: &Results) -> String {
    let lock = Fit::ALL.into_iter().filter_map(|fit| {
        let calls = watched(results, fit)?;
        Some(format!(
            "{} waits {} to hold it {} and meets another thread {} of the times on {}",
            fit.name(),
            human::nanoseconds(calls.wait_ns?),
            human::nanoseconds(calls.hold_ns?),
            human::percent(calls.contended?),
            calls.threads
        ))
    });
    let without = papers(results).into_iter().filter_map(|curve| {
        let own = results.threads.iter().find(|other| {
            (other.on.sharing, other.on.fit) == (Some(Sharing::PerThread), curve.on.fit)
        })?;
        let on_two = |curve: &Curve| Some(curve.at(2)?.over_one?.mean);
        let (locked, free) = (on_two(curve)?, on_two(own)?);
        let (most, freed) = (curve.points.last()?, own.points.last()?);
        Some(format!(
            "{} {free:.2} of one thread's time on 2 ({locked:.2} under the lock), {} and not {} switches a run on {}",
            fit_name(curve.on.fit),
            human::number(freed.system.voluntary + freed.system.involuntary),
            human::number(most.system.voluntary + most.system.involuntary),
            most.threads
        ))
    });
    format!(
        "The lock. Each call takes it to write: {} Ablation, a heap a thread instead: {}{}",
        join(lock.collect()),
        join(without.collect()),
        shorter_lists(results).unwrap_or_default()
    )
}

/// Worst fit without a lock gains more than threads can give.
fn shorter_lists(results: &Results) -> Option<String> {
    let own = results.threads.iter().find(|curve| {
        (curve.on.sharing, curve.on.fit) == (Some(Sharing::PerThread), Some(Fit::Worst))
    })?;
    let (one, best, _) = times(own)?;
    Some(format!(
        " There worst fit is {:.1} times as fast on {}, on {} processors: each heap's list is shorter, too.",
        one / best.1,
        best.0,
        results.processors
    ))
}

/// The machine: how far it speeds up what shares nothing.
pub fn of_the_best_number(results: &Results) -> String {
    let looped = results.steady.iter().find(|curve| curve.on.name.contains("loop"));
    let gains: Vec<String> = looped
        .into_iter()
        .flat_map(|curve| &curve.points)
        .filter(|point| point.threads > 1)
        .filter_map(|point| match (point.speed_up, point.refused) {
            (Some(gain), 0) => Some(format!("{:.2} on {}", gain.mean, point.threads)),
            (Some(gain), some) => Some(format!(
                "{:.2} on {} (without {some} rounds in which it gained more than there are processors)",
                gain.mean, point.threads
            )),
            (None, 0) => None,
            (None, _) => Some(format!(
                "more than there are processors in every round on {}, which is refused",
                point.threads
            )),
        })
        .take(4)
        .collect();
    let peaks = results
        .published
        .iter()
        .filter_map(|curve| Some(format!("{} {:.1}", curve.fit.name(), curve.universal?.peak()?)));
    format!(
        "The machine, which the paper does not name. This one has {} processors: a loop that allocates nothing \
         speeds up by {} Beyond {} threads every number shows oversubscription. Best numbers by the universal law \
         through the published times: {}",
        results.processors,
        join(gains),
        results.processors,
        join(peaks.collect())
    )
}

/// The lock again: what is held alike scales alike. Ablation: trees.
pub fn of_alike(results: &Results) -> String {
    let held = Fit::ALL.into_iter().filter_map(|fit| {
        let calls = watched(results, fit)?;
        let free = blocks_at_end(results, Sharing::PaperLock, fit);
        Some(format!(
            "{} {}{}",
            fit.name(),
            human::nanoseconds(calls.hold_ns?),
            free.map_or(String::new(), |n| format!(" ({n:.0} free blocks)"))
        ))
    });
    let gain = |blocks: Blocks, fit: Fit| {
        let find =
            |sharing| results.iterations.iter().find(move |g| is(&g.on, sharing, blocks, fit));
        let (alone, shared) = (find(Sharing::Unlocked)?, find(Sharing::PaperLock)?);
        let last = shared.points.last()?;
        let same = alone.points.iter().find(|point| point.iterations == last.iterations)?;
        Some((last.time_ns.mean / same.time_ns.mean, shared.threads))
    };
    let trees = Fit::ALL.into_iter().filter_map(|fit| {
        let ((list, threads), (tree, _)) =
            (gain(Blocks::ListUnmerged, fit)?, gain(Blocks::TreeUnmerged, fit)?);
        Some(format!("{} {list:.1} by lists, {tree:.1} by trees on {threads}", fit.name()))
    });
    format!(
        "What a call does while it holds the lock, for fits whose calls cost alike scale alike: {} Ablation: the \
         same blocks found in a tree. Time under the lock over that without threads: {}",
        join(held.collect()),
        join(trees.collect())
    )
}

/// Free blocks after the most iterations that were run by trees.
fn blocks_at_end(results: &Results, sharing: Sharing, fit: Fit) -> Option<f64> {
    let is_it = |growth: &&Growth| is(&growth.on, sharing, Blocks::TreeUnmerged, fit);
    let tenth = |growth: &Growth| {
        let ten = growth.points.iter().find(|point| point.iterations == 10);
        ten.or(growth.points.last()).map(|point| point.free_blocks.mean)
    };
    results.iterations.iter().find(is_it).and_then(tenth)
}

/// What an allocation costs in the long run, from the first to the last point.
fn each(sweep: &Sweep, of: impl Fn(&AtAllocations) -> f64) -> Option<f64> {
    let (first, last) = (sweep.points.first()?, sweep.points.last()?);
    let more = last.allocations.checked_sub(first.allocations).filter(|&more| more > 0)?;
    Some((of(last) - of(first)) / more as f64)
}

/// Making threads, and what a call costs with and without them.
pub fn of_the_crossing(results: &Results) -> String {
    let first_fit = |sharing: Sharing| {
        let is_it = move |sweep: &&Sweep| is(&sweep.on, sharing, Blocks::List, Fit::First);
        results.allocations.iter().find(is_it)
    };
    let making = first_fit(Sharing::PerThread)
        .and_then(|sweep| Some((sweep.points.first()?, sweep.threads)))
        .map(|(least, threads)| (least.time_ns.mean - least.alone_ns.mean, threads));
    let alone = first_fit(Sharing::PerThread).and_then(|s| each(s, |point| point.alone_ns.mean));
    let (Some((making, threads)), Some(alone)) = (making, alone) else {
        return "Too little was measured.".to_owned();
    };
    let schemes = Sharing::ALL.into_iter().filter_map(|sharing| {
        let with = each(first_fit(sharing)?, |point| point.time_ns.mean)?;
        let found = if with < alone {
            format!("from {} on", human::count((making / (alone - with)) as u64))
        } else {
            "never".to_owned()
        };
        Some(format!("{} {}, {found}", sharing.name(), human::nanoseconds(with)))
    });
    format!(
        "Making and joining {threads} threads takes {}, as long as {} sequences of first fit alone ({} each). What a \
         sequence costs on {threads} threads, and from when on that must earn the making back: {}",
        human::nanoseconds(making),
        human::count((making / alone) as u64),
        human::nanoseconds(alone),
        join(schemes.collect())
    )
}

/// The lists: a square by lists, a line by trees; and more lengths make all lists long.
pub fn of_the_growth(results: &Results) -> String {
    format!(
        "The lists. {}Ablation, trees: above. Ablation, {} lengths instead of {}: {}",
        a_block_walked(results).unwrap_or_default(),
        lengths(results, results.settings["lengths"]["times"].as_u64().unwrap_or(1)),
        lengths(results, 1),
        more_lengths(results)
    )
}

/// Time by the length of worst fit's list, which grows by one a call: half of its last length on the average.
fn a_block_walked(results: &Results) -> Option<String> {
    let find = |blocks| {
        let is_it = move |g: &&Growth| is(&g.on, Sharing::Unlocked, blocks, Fit::Worst);
        results.iterations.iter().find(is_it)
    };
    let (list, tree) = (find(Blocks::ListUnmerged)?, find(Blocks::TreeUnmerged)?);
    let each = |point: &AtIterations| {
        let same = tree.points.iter().find(|other| other.iterations == point.iterations)?;
        let calls = (point.iterations * ITERATION) as f64;
        Some(point.time_ns.mean / calls / (same.free_blocks.mean / 2.0))
    };
    let (first, last) = (list.points.first()?, list.points.last()?);
    Some(format!(
        "A call of worst fit costs {:.2} ns for each block of its list over {} iterations, {:.2} ns over {}. ",
        each(first)?,
        first.iterations,
        each(last)?,
        last.iterations
    ))
}

/// How many different lengths there are among sizes up to so many times the greatest one.
fn lengths(results: &Results, times: u64) -> u64 {
    let size = |key: &str| results.settings["sizes"][key].as_u64().unwrap_or(1);
    (times * size("to")).div_ceil(GRANULE) - (size("from").max(1) - 1) / GRANULE
}

fn more_lengths(results: &Results) -> String {
    let parts = Fit::ALL.into_iter().filter_map(|fit| {
        let find = |blocks| {
            results.lengths.iter().find(move |g| is(&g.on, Sharing::Unlocked, blocks, fit))
        };
        let (list, tree) = (find(Blocks::ListUnmerged)?, find(Blocks::TreeUnmerged)?);
        let last = tree.points.last()?;
        Some(format!(
            "{} {:.0} free blocks after {} iterations, power {:.2}, by trees {:.2}",
            fit.name(),
            last.free_blocks.mean,
            last.iterations,
            list.power?,
            tree.power?
        ))
    });
    let published = Fit::ALL.map(|fit| {
        published::blocks(fit, 10).map_or(String::new(), |blocks| human::exact(blocks as u64))
    });
    format!("{} Published after 10: {}.", join(parts.collect()), published.join(", "))
}

/// The order of calls: series leave what pairs do not.
pub fn of_the_fragmentation(results: &Results) -> String {
    let change = Fit::ALL.into_iter().filter_map(|fit| {
        let alone = blocks_at_end(results, Sharing::Unlocked, fit)?;
        let shared = blocks_at_end(results, Sharing::PaperLock, fit)?;
        Some(format!("{} {:+.0}", fit.name(), shared - alone))
    });
    let random = |sharing: Sharing, fit: Fit| {
        let is_it = |series: &&Series| {
            series.pattern == Pattern::Random && is(&series.on, sharing, Blocks::List, fit)
        };
        let found = results.series.iter().filter(is_it).max_by_key(|series| series.threads)?;
        Some((found.external?.mean, found.threads))
    };
    let series = Fit::ALL.into_iter().filter_map(|fit| {
        let ((alone, _), (shared, threads)) =
            (random(Sharing::Unlocked, fit)?, random(Sharing::PaperLock, fit)?);
        Some(format!(
            "{} {} alone, {} on {threads}",
            fit.name(),
            human::percent(alone),
            human::percent(shared)
        ))
    });
    format!(
        "The order of calls. Of pairs at most a block a thread lives at a time, so that threads change the free \
         blocks of {} iterations by: {} Ablation, series freed at random, which leave half of the last one: \
         external fragmentation {}",
        iterations_at_end(results),
        join(change.collect()),
        join(series.collect())
    )
}

/// Of which the free blocks are told.
fn iterations_at_end(results: &Results) -> u64 {
    let counts = results.iterations.iter().flat_map(|growth| &growth.points).map(|p| p.iterations);
    let counts: Vec<u64> = counts.collect();
    if counts.contains(&10) { 10 } else { counts.into_iter().max().unwrap_or(0) }
}
