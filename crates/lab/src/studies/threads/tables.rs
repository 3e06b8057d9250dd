//! Means with intervals, and what is read off them: speed-ups, growth, crossings, laws.

use super::super::loop_gain;
use super::super::statistics::Summary;
use super::heaps::{Blocks, Fit, Sharing};
use super::laws::{self, Law, Which};
use super::measure::{Latency, Row};
use super::patterns::Pattern;
use super::plan::{Experiment, ITERATION, Plan, Subject};
use super::published;
use super::rows::{On, Rows, paired, summary, unlocked};
use serde::Serialize;

/// What the system saw of the runs behind a time.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct System {
    /// Processors busy: processor time over time, making and joining of threads included in both.
    pub busy: Summary,
    /// Context switches because a thread waited, a run.
    pub voluntary: f64,
    /// Context switches because a thread's time was up, a run.
    pub involuntary: f64,
}

impl System {
    fn of(runs: &[&Row]) -> System {
        let busy = |row: &Row| row.took.processor_ns as f64 / row.took.whole_ns.max(1) as f64;
        System {
            busy: summary(runs, busy),
            voluntary: summary(runs, |row| row.took.voluntary as f64).mean,
            involuntary: summary(runs, |row| row.took.involuntary as f64).mean,
        }
    }
}

/// A number of threads of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct AtThreads {
    /// Threads.
    pub threads: usize,
    /// Nanoseconds, making and joining of threads not counted.
    pub time_ns: Summary,
    /// Sequences a second.
    pub rate: Summary,
    /// Time on one thread over the time on these, of the same rounds; of the loop itself without refused ones.
    pub speed_up: Option<Summary>,
    /// The speed-up over that of the loop without allocations, of the same rounds, without refused ones.
    pub against_loop: Option<Summary>,
    /// Rounds in which the loop gained more than there are processors: nothing is divided by that.
    pub refused: usize,
    /// The rate over that of the same fit without threads and locks, of the same rounds.
    pub against_unlocked: Option<Summary>,
    /// Time over that of one thread, of the same rounds.
    pub over_one: Option<Summary>,
    /// What the system saw.
    #[serde(flatten)]
    pub system: System,
    /// Nanoseconds as published, of three runs.
    pub published_ns: Option<Summary>,
}

/// Time over threads.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// Of what.
    pub on: On,
    /// Sequences of a run.
    pub sequences: u64,
    /// Points.
    pub points: Vec<AtThreads>,
    /// Amdahl's law through the rates.
    pub amdahl: Option<Law>,
    /// The universal law through them.
    pub universal: Option<Law>,
}

impl Curve {
    /// The point of so many threads.
    pub fn at(&self, threads: usize) -> Option<&AtThreads> {
        self.points.iter().find(|point| point.threads == threads)
    }

    /// The number of threads with the shortest time a sequence.
    pub fn best(&self) -> Option<&AtThreads> {
        self.points.iter().max_by(|a, b| a.rate.mean.total_cmp(&b.rate.mean))
    }
}

/// The curves of an experiment, in the order of the plan, on a machine with so many processors.
pub fn curves(
    rows: Rows<'_>,
    experiment: Experiment,
    mallocs: &[String],
    processors: usize,
) -> Vec<Curve> {
    let subjects = rows.subjects(experiment);
    let one = |subject| curve(rows, experiment, subject, mallocs, processors);
    subjects.iter().map(one).collect()
}

fn curve(
    rows: Rows<'_>,
    experiment: Experiment,
    subject: &Subject,
    mallocs: &[String],
    processors: usize,
) -> Curve {
    let all = rows.of(experiment, subject);
    let mut counts: Vec<usize> = all.iter().map(|row| row.cell.threads).collect();
    counts.sort_unstable();
    counts.dedup();
    let at = |&threads: &usize| at_threads(rows, experiment, subject, threads, processors);
    let points: Vec<AtThreads> = counts.iter().map(at).collect();
    // Every run is a point, so that the intervals of the laws know of the noise.
    let rates: Vec<(f64, f64)> =
        all.iter().map(|row| (row.cell.threads as f64, row.rate())).collect();
    let law = |which| (counts.len() > 3).then(|| laws::fit(which, &rates)).flatten();
    Curve {
        on: On::of(subject, mallocs),
        sequences: all.first().map_or(0, |row| row.sequences),
        points,
        amdahl: law(Which::Amdahl),
        universal: law(Which::Universal),
    }
}

fn at_threads(
    rows: Rows<'_>,
    experiment: Experiment,
    subject: &Subject,
    threads: usize,
    processors: usize,
) -> AtThreads {
    let runs = rows.on_threads(experiment, subject, threads);
    let one = rows.on_threads(experiment, subject, 1);
    let looped = rows.on_threads(experiment, &Subject::Loop, threads);
    let loop_one = rows.on_threads(experiment, &Subject::Loop, 1);
    let gain = |many: &Row, one: &Row| many.rate() / one.rate();
    // What the loop gained in each round that has both its runs.
    let of_loop = |run: u32| {
        let of_round = |rows: &[&Row]| rows.iter().find(|other| other.run == run).map(|r| r.rate());
        of_round(&looped).zip(of_round(&loop_one)).map(|(many, one)| many / one)
    };
    let is_refused = |row: &&&Row| {
        let gained = of_loop(row.run);
        gained.is_some_and(|gain| !loop_gain::is_possible(gain, threads, processors))
    };
    let refused = runs.iter().filter(is_refused).count();
    let possible: Vec<&Row> = runs.iter().filter(|row| !is_refused(row)).copied().collect();
    let against_loop =
        |row: &Row, one: &Row| of_loop(row.run).map_or(f64::NAN, |theirs| gain(row, one) / theirs);
    let gaining = if *subject == Subject::Loop { &possible } else { &runs };
    let bare = unlocked(subject).map(|bare| rows.on_threads(experiment, &bare, 1));
    let published_ns = match subject {
        Subject::Heap(heap)
            if experiment == Experiment::Threads && heap.sharing == Sharing::PaperLock =>
        {
            published::by_threads(heap.fit, threads)
        }
        _ => None,
    };
    AtThreads {
        threads,
        time_ns: summary(&runs, |row| row.took.wall_ns as f64),
        rate: summary(&runs, Row::rate),
        speed_up: paired(gaining, &one, gain),
        against_loop: paired(&possible, &one, against_loop).filter(|found| found.mean.is_finite()),
        refused,
        against_unlocked: bare.and_then(|bare| paired(&runs, &bare, gain)),
        over_one: paired(&runs, &one, |many, one| gain(one, many)),
        system: System::of(&runs),
        published_ns,
    }
}

/// A number of iterations.
#[derive(Clone, Debug, Serialize)]
pub struct AtIterations {
    /// Iterations of a thousand sequences.
    pub iterations: u64,
    /// Nanoseconds, where it was run.
    pub time_ns: Summary,
    /// What the system saw.
    #[serde(flatten)]
    pub system: System,
    /// Free blocks when all was freed.
    pub free_blocks: Summary,
    /// Bytes of the heap.
    pub heap_bytes: Summary,
    /// External fragmentation of the heap.
    pub external: Option<Summary>,
    /// Nanoseconds as published.
    pub published_ns: Option<Summary>,
    /// Chunks as published.
    pub published_blocks: Option<f64>,
}

/// Time and blocks over iterations.
#[derive(Clone, Debug, Serialize)]
pub struct Growth {
    /// Of what.
    pub on: On,
    /// Threads.
    pub threads: usize,
    /// Points, those that were run.
    pub points: Vec<AtIterations>,
    /// The power with which time grows, from the first point to the last.
    pub power: Option<f64>,
}

/// Time and blocks over iterations, of every heap.
pub fn growths(rows: Rows<'_>, experiment: Experiment, mallocs: &[String]) -> Vec<Growth> {
    let subjects = rows.subjects(experiment);
    subjects.iter().map(|subject| growth(rows, experiment, subject, mallocs)).collect()
}

fn growth(rows: Rows<'_>, experiment: Experiment, subject: &Subject, mallocs: &[String]) -> Growth {
    let all = rows.of(experiment, subject);
    let threads = all.first().map_or(1, |row| row.cell.threads);
    let on = On::of(subject, mallocs);
    let paper = on.fit.filter(|_| on.sharing == Some(Sharing::PaperLock));
    let points: Vec<AtIterations> = lengths(&all)
        .into_iter()
        .map(|sequences| {
            let runs: Vec<&Row> =
                all.iter().filter(|row| row.sequences == sequences).copied().collect();
            let iterations = sequences / ITERATION;
            let external: Vec<f64> = runs.iter().filter_map(|row| row.external).collect();
            AtIterations {
                iterations,
                time_ns: summary(&runs, |row| row.took.wall_ns as f64),
                system: System::of(&runs),
                free_blocks: summary(&runs, |row| row.blocks.map_or(0, |b| b.0) as f64),
                heap_bytes: summary(&runs, |row| row.heap_bytes as f64),
                external: (!external.is_empty()).then(|| Summary::of(&external)),
                published_ns: paper.and_then(|fit| published::by_iterations(fit, iterations)),
                published_blocks: on.fit.and_then(|fit| published::blocks(fit, iterations)),
            }
        })
        .collect();
    let power = match (points.first(), points.last()) {
        (Some(a), Some(b)) if b.iterations > a.iterations => Some(
            (b.time_ns.mean / a.time_ns.mean).ln()
                / (b.iterations as f64 / a.iterations as f64).ln(),
        ),
        _ => None,
    };
    Growth { on, threads, points, power }
}

fn lengths(rows: &[&Row]) -> Vec<u64> {
    let mut lengths: Vec<u64> = rows.iter().map(|row| row.sequences).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// A number of allocations.
#[derive(Clone, Debug, Serialize)]
pub struct AtAllocations {
    /// Allocations, each with its free.
    pub allocations: u64,
    /// Nanoseconds, making and joining of threads included.
    pub time_ns: Summary,
    /// What the system saw.
    #[serde(flatten)]
    pub system: System,
    /// The same of the program without threads.
    pub alone_ns: Summary,
}

/// From how many allocations on threads are faster.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    /// Of what.
    pub on: On,
    /// Threads.
    pub threads: usize,
    /// Points.
    pub points: Vec<AtAllocations>,
    /// The number of allocations from which on the threads are faster than the program without them,
    /// between the points by a straight line of logarithms; `None` where they never are.
    pub crossing: Option<f64>,
}

/// The sweep of every heap and malloc; a malloc is compared with itself on one thread.
pub fn sweeps(rows: Rows<'_>, plan: &Plan, mallocs: &[String]) -> Vec<Sweep> {
    let threads = plan.sweep_threads();
    let all = rows.subjects(Experiment::Allocations);
    let shared = all.iter().filter(|subject| unlocked(subject).as_ref() != Some(*subject));
    shared.map(|subject| sweep(rows, subject, threads, mallocs)).collect()
}

fn sweep(rows: Rows<'_>, subject: &Subject, threads: usize, mallocs: &[String]) -> Sweep {
    let alone = unlocked(subject).unwrap_or_else(|| subject.clone());
    let experiment = Experiment::Allocations;
    let points: Vec<AtAllocations> = lengths(&rows.on_threads(experiment, subject, threads))
        .into_iter()
        .filter_map(|allocations| {
            let whole = |row: &Row| row.took.whole_ns as f64;
            let runs = rows.of_length(experiment, subject, threads, allocations);
            let bare = rows.of_length(experiment, &alone, 1, allocations);
            (!bare.is_empty()).then(|| AtAllocations {
                allocations,
                time_ns: summary(&runs, whole),
                system: System::of(&runs),
                alone_ns: summary(&bare, whole),
            })
        })
        .collect();
    let crossing = crossing(&points);
    Sweep { on: On::of(subject, mallocs), threads, points, crossing }
}

/// Where the ratio of the times falls below one, and stays there.
fn crossing(points: &[AtAllocations]) -> Option<f64> {
    let ratio = |point: &AtAllocations| (point.time_ns.mean / point.alone_ns.mean).ln();
    let last = points.iter().rposition(|point| ratio(point) >= 0.0);
    let Some(last) = last else { return points.first().map(|point| point.allocations as f64) };
    let (before, after) = (&points[last], points.get(last + 1)?);
    let (high, low) = (ratio(before), ratio(after));
    let (from, to) = ((before.allocations as f64).ln(), (after.allocations as f64).ln());
    Some((from + (to - from) * high / (high - low)).exp())
}

/// A pattern of calls.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// Of what.
    pub on: On,
    /// The order of calls.
    pub pattern: Pattern,
    /// Threads.
    pub threads: usize,
    /// Sequences a second.
    pub rate: Summary,
    /// What the system saw.
    #[serde(flatten)]
    pub system: System,
    /// Bytes of the heap; of a malloc, resident memory.
    pub heap_bytes: Summary,
    /// Free blocks, with what still lived.
    pub free_blocks: Option<Summary>,
    /// Used blocks.
    pub used_blocks: Option<Summary>,
    /// External fragmentation then.
    pub external: Option<Summary>,
}

/// Every pattern, of every heap and malloc.
pub fn series(rows: Rows<'_>, mallocs: &[String]) -> Vec<Series> {
    let mut found = Vec::new();
    for subject in rows.subjects(Experiment::Wish) {
        for pattern in Pattern::ALL {
            let mut counts: Vec<usize> =
                rows.of(Experiment::Wish, &subject).iter().map(|row| row.cell.threads).collect();
            counts.sort_unstable();
            counts.dedup();
            for threads in counts {
                let runs = rows.of_pattern(&subject, pattern, threads);
                if !runs.is_empty() {
                    found.push(one_series(&runs, On::of(&subject, mallocs), pattern, threads));
                }
            }
        }
    }
    found
}

fn one_series(runs: &[&Row], on: On, pattern: Pattern, threads: usize) -> Series {
    let of = |value: fn(&Row) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(|row| value(row)).collect();
        (!values.is_empty()).then(|| Summary::of(&values))
    };
    Series {
        on,
        pattern,
        threads,
        rate: summary(runs, Row::rate),
        system: System::of(runs),
        heap_bytes: summary(runs, |row| row.heap_bytes as f64),
        free_blocks: of(|row| row.blocks.map(|blocks| blocks.0 as f64)),
        used_blocks: of(|row| row.blocks.map(|blocks| blocks.1 as f64)),
        external: of(|row| row.external),
    }
}

/// Single calls and locks, watched.
#[derive(Clone, Debug, Serialize)]
pub struct Calls {
    /// Of what.
    pub on: On,
    /// Threads.
    pub threads: usize,
    /// Nanoseconds of a call, of the run in the middle.
    pub latency: Latency,
    /// What the system saw of all runs.
    #[serde(flatten)]
    pub system: System,
    /// Of the times a lock was taken, how many met another thread there.
    pub contended: Option<f64>,
    /// Mean wait for a lock, in nanoseconds.
    pub wait_ns: Option<f64>,
    /// Mean time a lock was held, in nanoseconds.
    pub hold_ns: Option<f64>,
    /// Searches under a read lock that were in vain.
    pub in_vain: Option<f64>,
    /// Readers of the paper's lock that a later writer overtook, of all.
    pub overtaken: Option<f64>,
    /// By how many, the one that suffered most.
    pub most_overtaken: Option<u64>,
}

/// Of every heap and malloc.
pub fn calls(rows: Rows<'_>, mallocs: &[String]) -> Vec<Calls> {
    let mut found = Vec::new();
    for subject in rows.subjects(Experiment::Calls) {
        let all = rows.of(Experiment::Calls, &subject);
        let mut counts: Vec<usize> = all.iter().map(|row| row.cell.threads).collect();
        counts.sort_unstable();
        counts.dedup();
        for threads in counts {
            let mut runs: Vec<&Row> =
                all.iter().filter(|row| row.cell.threads == threads).copied().collect();
            runs.sort_by_key(|row| row.latency.map_or(0, |latency| latency.p99_ns));
            let middle = runs[runs.len() / 2];
            let Some(latency) = middle.latency else { continue };
            let locks = middle.locks;
            let each = |sum: u64| (locks.taken > 0).then(|| sum as f64 / locks.taken as f64);
            let starved = middle.starvation;
            found.push(Calls {
                on: On::of(&subject, mallocs),
                threads,
                latency,
                system: System::of(&runs),
                contended: each(locks.contended),
                wait_ns: each(locks.wait_ns),
                hold_ns: each(locks.hold_ns),
                in_vain: middle.in_vain,
                overtaken: starved.map(|s| s.overtaken as f64 / s.reads.max(1) as f64),
                most_overtaken: starved.map(|s| s.most),
            });
        }
    }
    found
}

/// The published curve of a fit, with its laws.
#[derive(Clone, Debug, Serialize)]
pub struct PublishedCurve {
    /// The fit.
    pub fit: Fit,
    /// Amdahl's law through the rates of its runs.
    pub amdahl: Option<Law>,
    /// The universal law through them.
    pub universal: Option<Law>,
}

/// Of all three.
pub fn published_curves() -> Vec<PublishedCurve> {
    let one = |fit| {
        let rates: Vec<(f64, f64)> = published::THREADS
            .iter()
            .filter_map(|&n| Some((n as f64, 1e9 / published::by_threads(fit, n)?.mean)))
            .collect();
        let law = |which| laws::fit(which, &rates);
        PublishedCurve { fit, amdahl: law(Which::Amdahl), universal: law(Which::Universal) }
    };
    Fit::ALL.into_iter().map(one).collect()
}

/// Whether a heap is one of the paper's: its lock, its lists, no coalescing.
pub fn is_the_papers(on: &On) -> bool {
    on.sharing == Some(Sharing::PaperLock) && on.blocks == Some(Blocks::ListUnmerged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(times: &[(u64, f64, f64)]) -> Vec<AtAllocations> {
        let summary = |mean| Summary { mean, ..Summary::default() };
        let point = |&(allocations, time, alone)| AtAllocations {
            allocations,
            time_ns: summary(time),
            system: System::of(&[]),
            alone_ns: summary(alone),
        };
        times.iter().map(point).collect()
    }

    /// On a busy machine the loop "gained" 2.87 on 2 processors in one round: that round divides nothing.
    #[test]
    fn rounds_in_which_the_loop_gained_too_much_are_refused() {
        use super::super::plan::{Amount, Cell};
        let heap = Subject::Malloc(0);
        let row = |subject: &Subject, threads: usize, run: u32, ns: f64| {
            let (experiment, pattern) = (Experiment::Steady, Pattern::Pairs);
            let (subject, amount) = (subject.clone(), Amount::Fixed(1000));
            let mut row = Row::empty(&Cell { experiment, subject, pattern, threads, amount }, run);
            row.sequences = 1000;
            row.took.wall_ns = ns as u64;
            row
        };
        let rounds = |gains: &[f64]| {
            let of = |(run, gain): (usize, &f64)| {
                let run = run as u32;
                [
                    row(&Subject::Loop, 1, run, 1e6),
                    row(&Subject::Loop, 2, run, 1e6 / gain),
                    row(&heap, 1, run, 1e6),
                    row(&heap, 2, run, 1e6 / 1.9),
                ]
            };
            gains.iter().enumerate().flat_map(of).collect::<Vec<Row>>()
        };
        let at = |rows: &[Row], subject: &Subject| {
            at_threads(Rows(rows), Experiment::Steady, subject, 2, 2)
        };
        let (some, all) = (rounds(&[2.0, 2.87, 2.0]), rounds(&[2.87, 2.5]));
        let of_heap = at(&some, &heap);
        assert_eq!((of_heap.refused, of_heap.speed_up.unwrap().runs), (1, 3));
        let against = of_heap.against_loop.unwrap();
        assert!(against.runs == 2 && (against.mean - 0.95).abs() < 1e-3, "{against:?}");
        let of_loop = at(&some, &Subject::Loop);
        assert!((of_loop.speed_up.unwrap().most - 2.0).abs() < 1e-3, "{of_loop:?}");
        assert_eq!((at(&all, &heap).against_loop, at(&all, &Subject::Loop).speed_up), (None, None));
    }

    #[test]
    fn a_crossing_lies_between_the_points_around_it() {
        let found =
            crossing(&points(&[(10, 8.0, 1.0), (100, 2.0, 1.0), (1000, 1.0, 2.0)])).unwrap();
        assert!((found - 100.0 * 10f64.sqrt()).abs() < 1e-6, "{found}");
        // Below once, and above again: it counts where it stays.
        let late = crossing(&points(&[(10, 1.0, 2.0), (100, 2.0, 1.0), (1000, 1.0, 2.0)]));
        assert_eq!(late.map(|at| at.round()), Some(316.0));
        assert_eq!(crossing(&points(&[(10, 2.0, 1.0), (100, 2.0, 1.0)])), None);
        assert_eq!(crossing(&points(&[(10, 1.0, 2.0), (100, 1.0, 2.0)])), Some(10.0));
        assert_eq!(crossing(&[]), None);
    }
}
