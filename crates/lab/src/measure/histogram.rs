//! Steps per call: total, mean, percentile, worst, in a few kilobytes.

use crate::results::Steps;

/// Values below this are counted one by one; the 99th percentile of a good policy lies here.
const EXACT: usize = 1024;
/// Above, every doubling is cut into this many equal parts: an error of at most 1/64.
const PARTS_LOG2: u32 = 6;

/// A histogram of steps per call. Exact total and worst; percentiles exact below 1024 steps and
/// rounded up by at most 1/64 above.
#[derive(Clone, Debug)]
pub struct StepHistogram {
    counts: Vec<u64>,
    calls: u64,
    total: u64,
    max: u64,
}

impl Default for StepHistogram {
    fn default() -> Self {
        Self { counts: vec![0; EXACT], calls: 0, total: 0, max: 0 }
    }
}

impl StepHistogram {
    /// A call took `steps`. O(1).
    #[inline]
    pub fn add(&mut self, steps: u64) {
        self.calls += 1;
        self.total += steps;
        self.max = self.max.max(steps);
        match self.counts.get_mut(bucket(steps)) {
            Some(count) => *count += 1,
            None => self.add_slow(steps),
        }
    }

    #[cold]
    fn add_slow(&mut self, steps: u64) {
        let bucket = bucket(steps);
        self.counts.resize(bucket + 1, 0);
        self.counts[bucket] += 1;
    }

    /// Total, mean, 99th percentile (the least value that 99 % of calls do not exceed) and worst.
    pub fn finish(&self) -> Steps {
        Steps {
            total: self.total,
            mean: if self.calls == 0 { 0.0 } else { self.total as f64 / self.calls as f64 },
            p99: self.percentile(99),
            max: self.max,
        }
    }

    fn percentile(&self, percent: u64) -> u64 {
        let wanted = (u128::from(self.calls) * u128::from(percent)).div_ceil(100) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return upper_end(bucket).min(self.max);
            }
        }
        0
    }
}

#[inline]
fn bucket(steps: u64) -> usize {
    if steps < EXACT as u64 {
        return steps as usize;
    }
    let doubling = steps.ilog2() - EXACT.ilog2();
    let part = (steps >> (steps.ilog2() - PARTS_LOG2)) & ((1 << PARTS_LOG2) - 1);
    EXACT + ((doubling as usize) << PARTS_LOG2) + part as usize
}

/// The greatest value that falls into a bucket.
fn upper_end(bucket: usize) -> u64 {
    if bucket < EXACT {
        return bucket as u64;
    }
    let doubling = ((bucket - EXACT) >> PARTS_LOG2) as u32 + EXACT.ilog2();
    let part = ((bucket - EXACT) & ((1 << PARTS_LOG2) - 1)) as u64;
    let width = 1u64 << (doubling - PARTS_LOG2);
    (1u64 << doubling) + (part * width) + (width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_are_exact() {
        let mut histogram = StepHistogram::default();
        for steps in 1..=1000 {
            histogram.add(steps);
        }
        let found = histogram.finish();
        assert_eq!((found.total, found.mean, found.p99, found.max), (500_500, 500.5, 990, 1000));
    }

    #[test]
    fn buckets_meet_without_gap_or_overlap() {
        let mut edge = 0;
        for bucket_index in 0..EXACT + (40 << PARTS_LOG2) {
            assert_eq!(bucket(edge), bucket_index);
            let last = upper_end(bucket_index);
            assert_eq!(bucket(last), bucket_index);
            edge = last + 1;
        }
        assert!(bucket(u64::MAX) < 8192, "the largest value has a bucket of its own reach");
    }

    #[test]
    fn large_values_are_rounded_up_by_at_most_a_64th() {
        let mut histogram = StepHistogram::default();
        for steps in (0..100_000).step_by(7) {
            histogram.add(steps);
        }
        let p99 = histogram.finish().p99;
        assert!((98_990..=98_999 + 98_999 / 64 + 7).contains(&p99), "{p99}");
    }

    #[test]
    fn no_calls_no_steps() {
        assert_eq!(StepHistogram::default().finish(), Steps::default());
    }
}
