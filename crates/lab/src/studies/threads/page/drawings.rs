//! The plots.

use super::super::super::statistics::Summary;
use super::super::heaps::{Blocks, Fit, Sharing};
use super::super::published;
use super::super::results::Results;
use super::super::tables::{AtThreads, Curve, is_the_papers};
use crate::report::lines::{Axis, LineChart, Series};
use crate::report::scale::Unit;

/// `what (machine: 2 processors)`.
fn here(results: &Results, what: &str) -> String {
    format!("{what} (this machine has {} processors)", results.processors)
}

fn chart(id: &str, title: &str, x: Axis, y: Axis, series: Vec<Series>) -> String {
    let description = "Every line is in the tables of this page.".to_owned();
    let (id, title) = (id.to_owned(), title.to_owned());
    LineChart { id, title, description, x, y, ground: None, series }.draw()
}

/// A place on the x axis with what was measured there.
type At = (f64, Summary);

/// Numbered for their colours, the same in plots of the same lines; without those that have no point. With the intervals of their points, on a
/// logarithmic axis at most down to a tenth of the point.
fn coloured(lines: impl IntoIterator<Item = (String, Vec<At>)>) -> Vec<Series> {
    let lines = lines.into_iter().enumerate().filter(|(_, (_, points))| !points.is_empty());
    let interval = |at: &At| {
        let Summary { mean, half_width, .. } = at.1;
        ((mean - half_width).max(mean / 10.0), mean + half_width)
    };
    let line = |(colour, (name, at)): (usize, (String, Vec<At>))| Series {
        spread: at.iter().map(interval).collect(),
        ..Series::new(name, colour, at.iter().map(|at| (at.0, at.1.mean)).collect())
    };
    lines.map(line).collect()
}

/// Of the quotient of what was measured apart.
fn over(above: Summary, below: Summary) -> Summary {
    let mean = above.mean / below.mean;
    let share = (above.half_width / above.mean).hypot(below.half_width / below.mean);
    Summary { mean, half_width: mean * share, ..Summary::default() }
}

/// Time over the time of one thread, published and ours.
pub fn relative_times(results: &Results) -> String {
    let ours = results.threads.iter().filter(|curve| is_the_papers(&curve.on)).map(|curve| {
        let at = |point: &AtThreads| Some((point.threads as f64, point.over_one?));
        let points = curve.points.iter().filter_map(at).collect();
        (format!("{}, here", curve.on.fit.map_or("", Fit::name)), points)
    });
    let published = Fit::ALL.into_iter().map(|fit| {
        let time = |n: usize| published::by_threads(fit, n);
        let at = |&n: &usize| match n {
            1 => Some((1.0, Summary { mean: 1.0, ..Summary::default() })),
            n => Some((n as f64, over(time(n)?, time(1)?))),
        };
        (format!("{}, paper", fit.name()), published::THREADS.iter().filter_map(at).collect())
    });
    let series = coloured(ours.chain(published));
    let x = Axis::linear(here(results, "threads"), Unit::Count);
    let y = Axis::log("time over that of one thread", Unit::Times);
    chart("relative-times", "Time over threads", x, y, series)
}

/// The curves that a plot has room for: first fit under one of each kind, Freehold, the loop.
fn few(results: &Results) -> Vec<(String, &Curve)> {
    let heap = |sharing: Sharing| {
        let is_it = move |curve: &&Curve| {
            (curve.on.sharing, curve.on.fit) == (Some(sharing), Some(Fit::First))
        };
        results.steady.iter().find(is_it).map(|curve| (sharing.name().to_owned(), curve))
    };
    let named = |wanted: &str, shown: &str| {
        let found = results.steady.iter().find(|curve| curve.on.name.contains(wanted));
        found.map(|curve| (shown.to_owned(), curve))
    };
    [
        named("loop", "no allocations"),
        heap(Sharing::PerThread),
        heap(Sharing::Stripes),
        heap(Sharing::MutexStd),
        heap(Sharing::PaperLock),
        named("freehold", "Freehold"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn over_threads(
    curves: Vec<(String, &Curve)>,
    value: impl Fn(&Curve, &AtThreads) -> Option<Summary>,
) -> Vec<Series> {
    coloured(curves.into_iter().map(|(name, curve)| {
        let at = |point: &AtThreads| Some((point.threads as f64, value(curve, point)?));
        (name, curve.points.iter().filter_map(at).collect())
    }))
}

/// Speed-up over threads.
pub fn speed_ups(results: &Results) -> String {
    let series = over_threads(few(results), |_, point| point.speed_up);
    let x = Axis::linear(here(results, "threads"), Unit::Count);
    let y = Axis::linear("speed-up", Unit::Times);
    chart("speed-up-chart", "Speed-up over threads", x, y, series)
}

/// Sequences a second over threads.
pub fn rates(results: &Results) -> String {
    // A loop that allocates nothing has no rate to compare.
    let is_heap = |curve: &Curve| curve.on.fit.is_some() || curve.on.is_malloc;
    let series = over_threads(few(results), |curve, point| is_heap(curve).then_some(point.rate));
    let x = Axis::linear(here(results, "threads"), Unit::Count);
    let y = Axis::log("sequences a second", Unit::Count);
    chart("rate-chart", "Sequences a second over threads", x, y, series)
}

/// Time over iterations, published and ours.
pub fn growth(results: &Results) -> String {
    let of = |fit: Fit| {
        results
            .iterations
            .iter()
            .find(move |growth| is_the_papers(&growth.on) && growth.on.fit == Some(fit))
    };
    let ours = Fit::ALL.into_iter().map(|fit| {
        let points = of(fit).into_iter().flat_map(|growth| &growth.points);
        let points = points.map(|p| (p.iterations as f64, p.time_ns)).collect();
        (format!("{}, here", fit.name()), points)
    });
    let published = Fit::ALL.into_iter().map(|fit| {
        let at = |n: u64| Some((n as f64, published::by_iterations(fit, n)?));
        let points = [10, 20, 30, 40, 50, 100].into_iter().filter_map(at).collect();
        (format!("{}, paper", fit.name()), points)
    });
    let series = coloured(ours.chain(published));
    let x = Axis::log(here(results, "iterations, on four threads"), Unit::Count);
    let y = Axis::log("time", Unit::Nanoseconds);
    chart("growth-chart", "Time over iterations", x, y, series)
}

/// Time over allocations, with making the threads.
pub fn sweep(results: &Results) -> String {
    let first = |sharing: Sharing| {
        results.allocations.iter().find(move |sweep| {
            (sweep.on.sharing, sweep.on.fit, sweep.on.blocks)
                == (Some(sharing), Some(Fit::First), Some(Blocks::List))
        })
    };
    let shown = [Sharing::PaperLock, Sharing::MutexStd, Sharing::Stripes, Sharing::PerThread];
    let alone = shown.iter().find_map(|&sharing| first(sharing)).map(|sweep| {
        let points = sweep.points.iter().map(|p| (p.allocations as f64, p.alone_ns));
        ("without threads".to_owned(), points.collect())
    });
    let shared = shown.iter().filter_map(|&sharing| first(sharing));
    let freehold = results.allocations.iter().filter(|sweep| sweep.on.name == "freehold");
    let shared = shared.chain(freehold).map(|sweep| {
        let points = sweep.points.iter().map(|p| (p.allocations as f64, p.time_ns)).collect();
        (sweep.on.sharing.map_or("Freehold", Sharing::name).to_owned(), points)
    });
    let series = coloured(alone.into_iter().chain(shared));
    let x = Axis::log(here(results, "allocations, on two threads"), Unit::Count);
    let y = Axis::log("time", Unit::Nanoseconds);
    chart("sweep-chart", "Time over allocations", x, y, series)
}
