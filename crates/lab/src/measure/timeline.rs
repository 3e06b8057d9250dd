//! A bounded number of samples of an unbounded run.

/// Most points a timeline holds.
pub const MAX_POINTS: usize = 300;

/// Keeps a sample every `stride` events, and halves itself, doubling the stride, when it is full.
///
/// The rule is a function of the number of events alone, so two replays of one trace sample the
/// same moments, and the length of the trace need not be known. The last event is always sampled.
/// Thus a run longer than 300 events ends with 150 to 300 evenly spaced samples.
#[derive(Clone, Debug)]
pub struct Timeline<T> {
    most: usize,
    stride: u64,
    next: u64,
    samples: Vec<(u64, T)>,
}

impl<T> Default for Timeline<T> {
    fn default() -> Self {
        Self::with_most(MAX_POINTS)
    }
}

impl<T> Timeline<T> {
    /// At most `most` samples (at least 2), and at least half as many of a long run.
    pub fn with_most(most: usize) -> Self {
        Self { most: most.max(2), stride: 1, next: 1, samples: Vec::new() }
    }

    /// Whether a sample is wanted after this many events. O(1), a compare.
    #[inline]
    pub fn is_due(&self, events: u64) -> bool {
        events >= self.next
    }

    /// Takes the sample that was due.
    pub fn push(&mut self, events: u64, sample: T) {
        if self.samples.len() == self.most - 1 {
            self.thin();
        }
        if events.is_multiple_of(self.stride) {
            self.samples.push((events, sample));
        }
        self.next = (events / self.stride + 1) * self.stride;
    }

    /// Skips the sample that was due, because it would cost too much: samples are taken half as
    /// often from now on, and those that would not have been are forgotten.
    pub fn skip(&mut self, events: u64) {
        self.thin();
        self.next = (events / self.stride + 1) * self.stride;
    }

    fn thin(&mut self) {
        self.stride *= 2;
        let stride = self.stride;
        self.samples.retain(|(at, _)| at.is_multiple_of(stride));
    }

    /// The sample after the very last event, and all that were kept before it.
    pub fn finish(mut self, events: u64, last: T) -> Vec<(u64, T)> {
        if self.samples.last().is_none_or(|(at, _)| *at != events) {
            self.samples.push((events, last));
        }
        self.samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(events: u64) -> Vec<(u64, u64)> {
        let mut timeline = Timeline::default();
        for i in 1..=events {
            if timeline.is_due(i) {
                timeline.push(i, i);
            }
        }
        timeline.finish(events, events)
    }

    #[test]
    fn a_short_run_is_kept_whole() {
        assert_eq!(run(5).len(), 5);
        assert_eq!(run(299).len(), 299);
        assert_eq!(run(0), [(0, 0)]);
    }

    #[test]
    fn a_long_run_is_even_and_bounded() {
        for events in [300, 301, 597, 598, 599, 600, 1000, 123_457, 1_000_000] {
            let samples = run(events);
            assert!(samples.len() <= MAX_POINTS, "{events}: {}", samples.len());
            assert!(samples.len() >= MAX_POINTS / 2, "{events}: {}", samples.len());
            let stride = samples[0].0;
            let even = samples[..samples.len() - 1].windows(2).all(|w| w[1].0 - w[0].0 == stride);
            assert!(even, "{events} events are sampled unevenly");
            assert_eq!(samples.last(), Some(&(events, events)));
        }
    }
}
