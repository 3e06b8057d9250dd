//! From the answers of an allocator's runs to one outcome.
//!
//! Wall and CPU time, page faults and memory are medians over the timing runs; latencies and the
//! timeline come from one further run, whose clocks would have spoiled the times. Nothing is thrown
//! away: [`RawRun`] keeps every run.

use serde::{Deserialize, Serialize};

use super::answers::{Answer, Description, Latencies};
use super::error::{RealError, Trouble};
use super::find::{Allocator, Source};
use super::launch::Failure;
use super::prepare::Facts;
use crate::measure::FragmentationMeter;
use crate::results::{JohnstoneWilson, Kind, Latency, Outcome, Point, Spread};

/// What was measured on one allocator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The medians.
    pub outcome: Outcome,
    /// Every timing run, in the order of time.
    pub runs: Vec<RawRun>,
    /// Of the memory in `outcome`, what the library has before the first event: its own data, and what it allocates at its start.
    #[serde(default)]
    pub at_start: u64,
}

/// One timing run.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct RawRun {
    /// Wall seconds from the first event to the last, thread starts and ends included.
    pub seconds: f64,
    /// CPU seconds of all threads, user and system.
    pub cpu_seconds: f64,
    /// Page faults taken.
    pub page_faults: u64,
    /// Most anonymous resident bytes, less the replayer's own.
    pub peak_memory: u64,
    /// Anonymous resident bytes at the end, less the replayer's own.
    pub final_memory: u64,
    /// Allocations that returned null.
    pub failures: u64,
}

/// An allocator while its runs are taken.
pub(super) struct Candidate<'a> {
    allocator: &'a Allocator,
    description: Description,
    runs: Vec<Answer>,
    observed: Answer,
    /// Anonymous bytes before the first event.
    before: u64,
    trouble: Option<Trouble>,
}

impl<'a> Candidate<'a> {
    pub(super) fn new(allocator: &'a Allocator) -> Candidate<'a> {
        Candidate {
            allocator,
            description: Description::default(),
            runs: Vec::new(),
            observed: Answer::default(),
            before: 0,
            trouble: None,
        }
    }

    /// Does something with the allocator and keeps what comes of it; nothing once it has failed.
    pub(super) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&Allocator) -> Result<T, Failure>,
        keep: impl FnOnce(&mut Self, T),
    ) -> Result<(), RealError> {
        if self.trouble.is_none() {
            match work(self.allocator) {
                Ok(found) => keep(self, found),
                Err(Failure::Trouble(trouble)) => self.trouble = Some(trouble),
                Err(Failure::Stop(error)) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn described(&mut self, description: Description) {
        self.description = description;
    }

    pub(super) fn started(&mut self, answer: Answer) {
        self.before = answer.anonymous;
    }

    pub(super) fn timed(&mut self, answer: Answer) {
        self.runs.push(answer);
    }

    pub(super) fn observed(&mut self, answer: Answer) {
        self.observed = answer;
    }

    /// `baseline`: anonymous bytes of the replayer itself.
    pub(super) fn finish(self, facts: &Facts, baseline: u64) -> Result<Measured, RealError> {
        if let Some(trouble) = self.trouble {
            return Err(trouble.of(&self.allocator.name));
        }
        let runs: Vec<RawRun> = self.runs.iter().map(|run| RawRun::new(run, baseline)).collect();
        let timeline = timeline(&self.observed, baseline);
        let sampled = timeline.iter().map(|point| point.used).max().unwrap_or(0);
        // The kernel's high-water mark lags a little; a point of the timeline is a lower bound.
        let peak_memory = median(runs.iter().map(|run| run.peak_memory)).max(sampled);
        let outcome = Outcome {
            name: self.allocator.name.clone(),
            kind: Kind::Allocator,
            library: Some(library(self.allocator, &self.description)),
            events: facts.events,
            seconds: Some(median_of_floats(runs.iter().map(|run| run.seconds))),
            spread: Some(spread(&runs, sampled)),
            failures: median(runs.iter().map(|run| run.failures)),
            peak_live: facts.peak_live,
            peak_memory,
            final_memory: median(runs.iter().map(|run| run.final_memory)),
            johnstone_wilson: johnstone_wilson(&timeline, peak_memory, facts.peak_live),
            latency: latency(&self.observed.latencies),
            cpu_seconds: Some(median_of_floats(runs.iter().map(|run| run.cpu_seconds))),
            page_faults: Some(median(runs.iter().map(|run| run.page_faults))),
            timeline,
            // Where free blocks lie inside an allocator is not visible from outside.
            ..Outcome::default()
        };
        Ok(Measured { outcome, runs, at_start: self.before.saturating_sub(baseline) })
    }
}

impl RawRun {
    fn new(answer: &Answer, baseline: u64) -> RawRun {
        let peak = answer.peak_anonymous.unwrap_or(0).max(answer.anonymous);
        RawRun {
            seconds: answer.wall_ns as f64 / 1e9,
            cpu_seconds: answer.cpu_ns as f64 / 1e9,
            page_faults: answer.faults,
            peak_memory: peak.saturating_sub(baseline),
            final_memory: answer.anonymous.saturating_sub(baseline),
            failures: answer.failed,
        }
    }
}

fn timeline(observed: &Answer, baseline: u64) -> Vec<Point> {
    let less = |point: &Point| Point { used: point.used.saturating_sub(baseline), ..*point };
    observed.timeline.iter().map(less).collect()
}

/// #1 to #3 from the points of the timeline; #4 from the peaks themselves, which lie between points.
pub(crate) fn johnstone_wilson(
    timeline: &[Point],
    peak_memory: u64,
    peak_live: u64,
) -> JohnstoneWilson {
    let mut meter = FragmentationMeter::default();
    for point in timeline {
        meter.observe(point.live, point.used);
    }
    let mut peaks = FragmentationMeter::default();
    peaks.observe(peak_live, peak_memory);
    JohnstoneWilson { peak_over_peak: peaks.finish().peak_over_peak, ..meter.finish() }
}

fn latency(found: &Latencies) -> Option<Latency> {
    let calls: u64 = found.buckets.iter().map(|(_, calls)| calls).sum();
    if calls == 0 || found.ticks_per_second <= 0.0 {
        return None;
    }
    let tick_ns = 1e9 / found.ticks_per_second;
    let to_ns = |ticks: f64| (ticks - found.overhead_ticks as f64).max(0.0) * tick_ns;
    let at = |share: f64| {
        let rank = (share * calls as f64).ceil() as u64;
        let mut below = 0;
        let bucket = found.buckets.iter().find(|(_, calls)| {
            below += calls;
            below >= rank
        });
        bucket.map_or(0.0, |(bucket, _)| to_ns(bucket.middle().min(found.worst_ticks as f64)))
    };
    Some(Latency {
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        p9999: at(0.9999),
        max: to_ns(found.worst_ticks as f64),
        resolution: found.step_ticks as f64 * tick_ns,
    })
}

/// `sampled`: the fullest point of the further run, which counts for the memory too.
fn spread(runs: &[RawRun], sampled: u64) -> Spread {
    let seconds = || runs.iter().map(|run| run.seconds);
    let memory = || runs.iter().map(|run| run.peak_memory);
    Spread {
        runs: runs.len() as u32,
        seconds_min: seconds().fold(f64::INFINITY, f64::min),
        seconds_max: seconds().fold(0.0, f64::max),
        memory_min: memory().min().unwrap_or(0),
        memory_max: memory().max().unwrap_or(0).max(sampled),
    }
}

/// The upper of the two middle values of an even number; 0 of none.
fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}

fn median_of_floats(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The library as a reader knows it: its file and version.
fn library(allocator: &Allocator, description: &Description) -> String {
    let malloc = description.origins.first().map(|(_, path)| path.as_path());
    let path = match &allocator.source {
        Source::Library(path) => Some(path.as_path()),
        Source::Libc | Source::Environment => malloc,
    };
    let file = path.map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    let file = file.as_deref().and_then(|path| path.file_name()).unwrap_or_default();
    let file = file.to_string_lossy();
    let of_libc = file.starts_with("libc.so").then_some(description.libc.as_ref()).flatten();
    match description.version.as_ref().or(of_libc) {
        Some(version) => format!("{file} {version}"),
        None => file.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_replayer::Bucket;

    fn latencies(buckets: &[(u64, u64)], worst_ticks: u64) -> Latencies {
        Latencies {
            buckets: buckets.iter().map(|&(ticks, calls)| (Bucket::of(ticks), calls)).collect(),
            worst_ticks,
            overhead_ticks: 10,
            step_ticks: 3,
            ticks_per_second: 1e9,
        }
    }

    #[test]
    fn percentiles_are_ranks_less_the_clock() {
        let found = latency(&latencies(&[(5, 1), (20, 89), (40, 9), (60, 1)], 60)).unwrap();
        assert_eq!((found.p50, found.p90, found.p99), (10.0, 10.0, 30.0));
        assert_eq!((found.p999, found.p9999, found.max), (50.0, 50.0, 50.0));
        let quick = latency(&latencies(&[(5, 1)], 5)).unwrap();
        assert_eq!((quick.p50, quick.max, quick.resolution), (0.0, 0.0, 3.0));
        assert_eq!(latency(&latencies(&[], 0)), None);
    }

    #[test]
    fn the_fourth_measure_is_of_the_true_peaks() {
        let point = |live, used| Point { live, used, ..Point::default() };
        let found = johnstone_wilson(&[point(100, 200), (point(50, 300))], 500, 250);
        assert_eq!((found.at_peak_live, found.at_peak_used, found.peak_over_peak), (1.0, 5.0, 1.0));
    }

    #[test]
    fn medians_and_spread_keep_the_extremes() {
        let run =
            |wall_ns, peak| Answer { wall_ns, peak_anonymous: Some(peak), ..Answer::default() };
        let glibc = Allocator::glibc();
        let mut candidate = Candidate::new(&glibc);
        for answer in [run(3_000_000_000, 700), run(1_000_000_000, 900), run(2_000_000_000, 800)] {
            candidate.timed(answer);
        }
        let measured = candidate.finish(&Facts::default(), 100).unwrap();
        assert_eq!((measured.outcome.seconds, measured.outcome.peak_memory), (Some(2.0), 700));
        let spread = measured.outcome.spread.unwrap();
        assert_eq!((spread.runs, spread.seconds_min, spread.seconds_max), (3, 1.0, 3.0));
        assert_eq!((spread.memory_min, spread.memory_max), (600, 800));
        assert_eq!(measured.runs.len(), 3);
    }
}
