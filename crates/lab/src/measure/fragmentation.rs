//! Johnstone and Wilson's four measures of fragmentation, event by event.

use crate::results::JohnstoneWilson;

/// Follows live and used bytes through a replay.
///
/// With `live(i)` the requested bytes alive after event i and `used(i)` the memory in use then,
/// the four measures of "The memory fragmentation problem: solved?" (ISMM 1998, section 4) are:
///
/// 1. the sum of `used(i)` over the sum of `live(i)`: both averaged over all events. (The average
///    of the quotients would be ruled by the first and last events, where a handful of bytes are
///    alive.)
/// 2. `used(i) / live(i)` at the first event i at which `live` is greatest;
/// 3. `used(i) / live(i)` at the first event i at which `used` is greatest;
/// 4. the greatest `used` over the greatest `live`.
///
/// Each less 1, so that 0 is perfect; 0 too where nothing was ever alive.
#[derive(Clone, Debug, Default)]
pub struct FragmentationMeter {
    live_sum: u128,
    used_sum: u128,
    peak_live: u64,
    used_at_peak_live: u64,
    peak_used: u64,
    live_at_peak_used: u64,
}

impl FragmentationMeter {
    /// After one event: `live` requested bytes, `used` bytes of memory. O(1), a few cycles.
    #[inline]
    pub fn observe(&mut self, live: u64, used: u64) {
        self.live_sum += u128::from(live);
        self.used_sum += u128::from(used);
        if live > self.peak_live {
            self.peak_live = live;
            self.used_at_peak_live = used;
        }
        if used > self.peak_used {
            self.peak_used = used;
            self.live_at_peak_used = live;
        }
    }

    /// The requested bytes alive, summed over all events.
    pub fn live_sum(&self) -> u128 {
        self.live_sum
    }

    /// Most requested bytes alive at once.
    pub fn peak_live(&self) -> u64 {
        self.peak_live
    }

    /// Most memory in use at once.
    pub fn peak_used(&self) -> u64 {
        self.peak_used
    }

    /// The four measures so far.
    pub fn finish(&self) -> JohnstoneWilson {
        JohnstoneWilson {
            average: over(self.used_sum as f64, self.live_sum as f64),
            at_peak_live: over(self.used_at_peak_live as f64, self.peak_live as f64),
            at_peak_used: over(self.peak_used as f64, self.live_at_peak_used as f64),
            peak_over_peak: over(self.peak_used as f64, self.peak_live as f64),
        }
    }
}

fn over(used: f64, live: f64) -> f64 {
    if live > 0.0 { used / live - 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_measures_on_a_hand_made_run() {
        let mut meter = FragmentationMeter::default();
        for (live, used) in [(100, 200), (400, 500), (50, 600), (0, 600)] {
            meter.observe(live, used);
        }
        let found = meter.finish();
        assert_eq!(found.average, 1900.0 / 550.0 - 1.0);
        assert_eq!(found.at_peak_live, 0.25);
        assert_eq!(found.at_peak_used, 11.0);
        assert_eq!(found.peak_over_peak, 0.5);
        assert_eq!((meter.peak_live(), meter.peak_used()), (400, 600));
    }

    #[test]
    fn nothing_alive_is_no_fragmentation() {
        assert_eq!(FragmentationMeter::default().finish(), JohnstoneWilson::default());
    }
}
