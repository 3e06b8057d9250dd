//! When the purger works: after which pause a round comes, and after which it ends.
//!
//! A rule of times and counts alone. Who follows it brings the clock: a thread that sleeps, or a simulation whose time is
//! that of a recorded program.
//!
//! ```text
//!   pressure ── pause ── round (work) ── pause ── round (none) ── pause ── round (none) ── ... patience ── end
//! ```

use crate::malloc::decisions::Decisions;
use crate::malloc::units::UnitCount;

/// Units in use (32 GiB) for each of which a pause is so much longer: a round looks at all of them, at about ten
/// nanoseconds each, and the purger shall take at most one hundredth of a processor.
const A_PAUSE: UnitCount = UnitCount::whole_in(32 << 30);

const NS_A_MS: u64 = 1_000_000;

/// A purger from its start to its end: how long its rounds have found nothing to do. Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    idle_ns: u64,
}

impl Rounds {
    /// How long to sleep before the next round, in nanoseconds, while so much is in use; `None`: the purger ends.
    pub fn pause_ns(&self, decisions: &Decisions, used: UnitCount) -> Option<u64> {
        let pause = decisions.purge_round as u64 * NS_A_MS * (1 + used.0 / A_PAUSE.0) as u64;
        (self.idle_ns < decisions.purge_patience as u64 * NS_A_MS).then_some(pause)
    }

    /// A round is done, after a pause of `pause_ns`. `more`: it found work, or the next one may.
    pub fn done(&mut self, pause_ns: u64, more: bool) {
        self.idle_ns = if more { 0 } else { self.idle_ns.saturating_add(pause_ns) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = NS_A_MS;

    #[test]
    fn three_rounds_without_work_end_it() {
        let (shipped, mut rounds) = (&Decisions::SHIPPED, Rounds::default());
        for more in [false, false, true, false, false, false] {
            let pause = rounds.pause_ns(shipped, UnitCount(100));
            assert_eq!(pause, Some(400 * MS));
            rounds.done(pause.unwrap_or(0), more);
        }
        assert_eq!(rounds.pause_ns(shipped, UnitCount(100)), None);
    }

    #[test]
    fn a_large_heap_is_looked_at_less_often() {
        let rounds = Rounds::default();
        let pause =
            |gib: usize| rounds.pause_ns(&Decisions::SHIPPED, UnitCount::whole_in(gib << 30));
        assert_eq!(
            (pause(31), pause(32), pause(64)),
            (Some(400 * MS), Some(800 * MS), Some(1200 * MS))
        );
    }
}
