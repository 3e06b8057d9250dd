//! Which clock the program stamps its events with, and how fast it runs.

use freehold_record::hello::{CLOCK_MONOTONIC, CLOCK_TSC};
use std::arch::x86_64::{__cpuid, _rdtsc};
use std::time::{Duration, Instant};

/// Shortest base line of a calibration: reading two clocks one after the other is wrong by some
/// 100 ns, so this gives five digits.
const BASE_LINE: Duration = Duration::from_millis(10);

/// One instant on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// On the clock of the events.
    pub tick: u64,
    /// Nanoseconds of the monotonic clock.
    pub ns: u64,
}

/// The clock of a recording.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// [`CLOCK_TSC`] or [`CLOCK_MONOTONIC`].
    pub kind: u32,
    began: Pair,
    began_at: Instant,
}

impl Clock {
    /// The processor's time stamp counter where it is invariant, else the monotonic clock.
    pub fn start() -> Clock {
        let kind = if has_invariant_tsc() { CLOCK_TSC } else { CLOCK_MONOTONIC };
        Clock { kind, began: pair(kind), began_at: Instant::now() }
    }

    /// The tick at which the recording began: tick 0 of the trace.
    pub fn origin(&self) -> u64 {
        self.began.tick
    }

    /// The tick of now.
    pub fn now(&self) -> u64 {
        tick(self.kind)
    }

    /// Ticks in a second, measured from the beginning until now.
    pub fn ticks_per_second(&self) -> u64 {
        if self.kind == CLOCK_MONOTONIC {
            return 1_000_000_000;
        }
        std::thread::sleep(BASE_LINE.saturating_sub(self.began_at.elapsed()));
        rate(self.began, pair(self.kind))
    }
}

fn rate(from: Pair, to: Pair) -> u64 {
    let ticks = u128::from(to.tick.saturating_sub(from.tick)) * 1_000_000_000;
    let ns = u128::from(to.ns.saturating_sub(from.ns)).max(1);
    u64::try_from(ticks / ns).unwrap_or(u64::MAX).max(1)
}

/// Both clocks, the better of a few readings.
fn pair(kind: u32) -> Pair {
    let mut best = (u64::MAX, Pair { tick: 0, ns: 0 });
    for _ in 0..5 {
        let before = tick(kind);
        let ns = monotonic_ns();
        let width = tick(kind).wrapping_sub(before);
        if width < best.0 {
            best = (width, Pair { tick: before + width / 2, ns });
        }
    }
    best.1
}

fn tick(kind: u32) -> u64 {
    if kind == CLOCK_MONOTONIC {
        return monotonic_ns();
    }
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _rdtsc() }
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and `time` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPUID 0x8000_0007, bit 8 of EDX: the counter runs at one rate in all states of the processor.
fn has_invariant_tsc() -> bool {
    const ADVANCED_POWER: u32 = 0x8000_0007;
    __cpuid(0x8000_0000).eax >= ADVANCED_POWER && __cpuid(ADVANCED_POWER).edx & (1 << 8) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_base_line() {
        let from = Pair { tick: 1_000, ns: 5 };
        let to = Pair { tick: 1_000 + 2_400_000, ns: 5 + 1_000_000 };
        assert_eq!(rate(from, to), 2_400_000_000);
        assert_eq!(rate(from, from), 1, "never zero");
    }

    #[test]
    fn a_clock_runs_at_a_believable_rate() {
        let clock = Clock::start();
        let rate = clock.ticks_per_second();
        assert!((100_000_000..20_000_000_000).contains(&rate), "{rate}");
        assert!(tick(clock.kind) > clock.origin());
    }
}
