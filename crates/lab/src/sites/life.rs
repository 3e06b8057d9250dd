//! A site over the time of its process: what it held at [`MOMENTS`] moments, and how long its objects lived.

use serde::Serialize;

/// Moments at which is noted what a site holds; they divide the time of its process evenly.
pub const MOMENTS: usize = 64;
/// Buckets of lifetimes: doublings of a tick.
const DOUBLINGS: usize = 40;

/// How what a site holds changes until the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// It does not grow, or not to the end.
    #[default]
    Steady,
    /// It grows until its process ends.
    Growing,
}

/// What is known of a site's objects over time.
#[derive(Clone, Default)]
pub(super) struct Life {
    /// Live bytes at the end of each moment so far.
    held: Vec<u64>,
    lifetimes: Vec<u32>,
}

impl Life {
    /// Time has come to this moment, and until now so much was held.
    #[inline]
    pub(super) fn reach(&mut self, moment: usize, live: u64) {
        if self.held.len() < moment {
            self.held.resize(moment.min(MOMENTS), live);
        }
    }

    /// An object was freed after so many ticks.
    #[inline]
    pub(super) fn died(&mut self, ticks: u64) {
        let bucket = ((64 - ticks.leading_zeros()) as usize).min(DOUBLINGS - 1);
        if self.lifetimes.len() <= bucket {
            self.lifetimes.resize(bucket + 1, 0);
        }
        self.lifetimes[bucket] = self.lifetimes[bucket].saturating_add(1);
    }

    /// Live bytes at the end of each moment; of a site that was never there, none.
    pub(super) fn held(&self) -> &[u64] {
        &self.held
    }

    /// Half of the objects that were freed lived no longer than this, ticks: the middle of a doubling.
    pub(super) fn median_ticks(&self) -> Option<f64> {
        let all: u64 = self.lifetimes.iter().map(|&count| u64::from(count)).sum();
        let mut seen = 0;
        let bucket = self.lifetimes.iter().position(|&count| {
            seen += u64::from(count);
            seen * 2 >= all && all > 0
        })?;
        Some(if bucket == 0 { 0.0 } else { 0.75 * (bucket as f64).exp2() })
    }
}

/// Seconds for which a process may not get a processor.
const STALL: f64 = 0.1;

/// The moments that count for a trend: those in which the process allocated anything, and idle ones, unless it was idle so shortly that it may just not have
/// got a processor. (In a program of some milliseconds, such a stall is a large part of the time.)
pub(super) fn awake(allocations: &[u64], seconds_a_moment: f64) -> Vec<usize> {
    let mut all = Vec::new();
    let mut at = 0;
    for stretch in allocations.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
        if stretch[0] > 0 || stretch.len() as f64 * seconds_a_moment > STALL {
            all.extend(at..at + stretch.len());
        }
        at += stretch.len();
    }
    all
}

/// The moments before those at the end in which the process did nothing but free: a tidy program's destructors may take long.
pub(super) fn before_the_end(allocations: &[u64], frees: &[u64]) -> usize {
    let only_frees = |&at: &usize| allocations[at] == 0 && frees[at] > 0;
    let tail = (0..allocations.len()).rev().take_while(only_frees).count();
    allocations.len() - tail
}

/// The allocations of a process that makes as many in each moment, or of which nobody knows when it made them.
pub(super) const EVENLY: [u64; MOMENTS] = [1; MOMENTS];

/// How it goes, from what was held at each moment until the program's work was done ([`work`]), and from how much its process allocated in each. It grows
/// if each quarter of the way from its first bytes to its most adds a tenth or more of the most, it comes near the most only in the last quarter of
/// that time, and the most is held in the last eighth of all the time. The way is measured in time or in allocations, whichever shows growth: a process
/// that hardly got a processor for a quarter of the time did not stop growing.
pub(super) fn trend(held: &[u64], allocations: &[u64]) -> Trend {
    let held = &held[..work(allocations).min(held.len())];
    let Some(first) = held.iter().position(|&bytes| bytes > 0) else { return Trend::Steady };
    let most = held.iter().copied().max().unwrap_or(0);
    let is_near = |&bytes: &u64| bytes >= most - most / 16;
    let near = held.iter().position(is_near).unwrap_or(0);
    let top = held.iter().rposition(is_near).unwrap_or(0);
    let by_time = |quarter: usize| first + (top - first) * quarter / 4;
    let made = |to: usize| allocations[first..to].iter().sum::<u64>();
    let by_allocations = |quarter: usize| {
        let is_due = |at: &usize| made(at + 1) * 4 >= made(top + 1) * quarter as u64;
        (first..=top).find(is_due).unwrap_or(top)
    };
    let rises = |at: &dyn Fn(usize) -> usize| {
        (1..4).all(|quarter| held[at(quarter + 1)] >= held[at(quarter)] + most / 10)
    };
    let lasts = top + held.len() / 8 >= held.len() && top >= first + held.len() / 8;
    let is_late = near >= by_time(3);
    if lasts && is_late && (rises(&by_time) || rises(&by_allocations)) {
        Trend::Growing
    } else {
        Trend::Steady
    }
}

/// How many moments a program worked: until nearly all its allocations were made, but at least three quarters. In the rest tidy programs
/// free everything.
fn work(allocations: &[u64]) -> usize {
    let all: u64 = allocations.iter().sum();
    let mut made = 0;
    let done = allocations.iter().position(|&more| {
        made += more;
        made >= all - all / 100
    });
    let most = allocations.len();
    done.map_or(most, |moment| moment + 1).max(most * 3 / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(of: impl Fn(u64) -> u64) -> Vec<u64> {
        (0..MOMENTS as u64).map(of).collect()
    }

    #[test]
    fn what_grows_to_the_end_is_told_from_what_stays_and_from_what_goes() {
        let of = |held: fn(u64) -> u64| trend(&moments(held), &EVENLY);
        assert_eq!(of(|i| i * 1000), Trend::Growing);
        assert_eq!(of(|i| if i < 62 { i * 1000 } else { 0 }), Trend::Growing, "freed at the end");
        assert_eq!(of(|i| i.min(10) * 1000), Trend::Steady, "filled once");
        assert_eq!(of(|i| 1000 + i % 7), Trend::Steady);
        assert_eq!(of(|i| if i < 40 { i * 1000 } else { 0 }), Trend::Steady, "gone");
        assert_eq!(of(|_| 0), Trend::Steady);
        let tidy = moments(|i| if i < 50 { i } else { 63 - i });
        let works = moments(|i| u64::from(i < 50));
        assert_eq!((trend(&tidy, &EVENLY), trend(&tidy, &works)), (Trend::Steady, Trend::Growing));
    }

    /// Steps done until a moment, of a process that does a hundred in each, but one each from the 20th to the 39th.
    fn starved(moment: u64) -> u64 {
        let slow = moment.clamp(20, 40) - 20;
        (moment - slow) * 100 + slow
    }

    #[test]
    fn a_process_that_hardly_got_a_processor_grows_all_the_same() {
        let allocations = moments(|i| starved(i + 1) - starved(i));
        assert_eq!(trend(&moments(|i| starved(i + 1)), &allocations), Trend::Growing);
        let filled = moments(|i| starved(i + 1).min(2500));
        assert_eq!(trend(&filled, &allocations), Trend::Steady, "filled, and works on");
        let fills = moments(|i| if i < 30 { 100 } else { 1 });
        let held = moments(|i| fills[..=i as usize].iter().sum());
        assert_eq!(trend(&held, &fills), Trend::Steady, "filled, and then computes");
    }

    #[test]
    fn destructors_at_the_end_are_no_work() {
        assert_eq!(before_the_end(&[3, 0, 2, 0, 0], &[0, 4, 1, 6, 7]), 3);
        assert_eq!(before_the_end(&[3, 0, 2, 0, 0], &[0, 4, 1, 6, 0]), 5, "idle at the end");
    }

    #[test]
    fn a_short_stall_is_no_part_of_a_trend() {
        let made = [5, 0, 0, 7, 1, 0];
        assert_eq!(awake(&made, 0.01), [0, 3, 4]);
        assert_eq!(awake(&made, 0.06), [0, 1, 2, 3, 4], "two moments are too long for a stall");
    }

    #[test]
    fn the_median_is_within_its_doubling() {
        let mut life = Life::default();
        [3, 1000, 1000, 1000, 1 << 30].into_iter().for_each(|ticks| life.died(ticks));
        assert_eq!(life.median_ticks(), Some(768.0));
        assert_eq!(Life::default().median_ticks(), None);
    }
}
