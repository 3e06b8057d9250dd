//! Advice that a replay has tried: what it gave, beside the replay of what the program does today, by the same allocator.
//!
//! The rules are those of [`super::choice`]: what is within noise or does not matter is nothing, and then there is no advice.

use super::choice::{LEAST_MEMORY, Rival};
use super::{Sentence, sentence};
use crate::human;
use crate::results::{Outcome, Point};
use crate::trial::Trial;

/// A trial, and both replays.
#[derive(Clone, Debug)]
pub struct Tried {
    /// What was changed.
    pub trial: Trial,
    /// The program as it is.
    pub before: Outcome,
    /// As it would be, but for what lies apart.
    pub after: Outcome,
    /// Most bytes that lie apart.
    pub apart: u64,
}

impl Tried {
    /// What it gave; none if that is nothing that matters. `seconds` are those that the program took.
    pub(super) fn sentence(&self, seconds: f64) -> Option<Sentence> {
        let (before, mut after) = (&self.before, self.after.clone());
        after.peak_memory += self.apart;
        if let Some(spread) = &mut after.spread {
            spread.memory_min += self.apart;
            spread.memory_max += self.apart;
        }
        let rival = Rival::of(before, &after, seconds);
        let on = format!(" A replay on {} that did so ", before.name);
        if let Some(rival) = rival.filter(|rival| rival.by_memory.max(rival.by_time).is_gt()) {
            let but = match (rival.by_memory.is_lt(), rival.by_time.is_lt()) {
                (true, _) => ", and costs more memory",
                (_, true) => ", and costs more time",
                _ => "",
            };
            let gains = format!("{}{but}.", rival.gains(before, seconds));
            return Some(sentence(&[&on, "saves ", &gains]));
        }
        let saved = mean(&before.timeline) - mean(&after.timeline) - self.apart as f64;
        let less = human::bytes(saved as u64);
        (saved >= before.peak_memory as f64 * LEAST_MEMORY).then(|| {
            sentence(&[&on, "has the same peak, and ", &format!("{less} less on the average.")])
        })
    }
}

/// Memory on the average of the time.
fn mean(timeline: &[Point]) -> f64 {
    let steps = timeline.windows(2).map(|pair| {
        let seconds = (pair[1].seconds - pair[0].seconds).max(0.0);
        (seconds, pair[0].used.midpoint(pair[1].used) as f64 * seconds)
    });
    let (seconds, sum) = steps.fold((0.0, 0.0), |(s, u), (seconds, used)| (s + seconds, u + used));
    if seconds > 0.0 { sum / seconds } else { 0.0 }
}
