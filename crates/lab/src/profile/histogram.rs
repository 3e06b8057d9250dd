//! Logarithmic histograms: eight buckets to a doubling, exact below eight. Relative error at most
//! one eighth, 496 buckets for all of `u64`.

use serde::Serialize;

/// log2 of the buckets of a doubling.
const SUB_BITS: u32 = 3;
const SUB: usize = 1 << SUB_BITS;
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB;

/// One bucket that holds something: values from `from` up to but not including `to`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Bucket {
    /// Least value.
    pub from: f64,
    /// First value beyond.
    pub to: f64,
    /// How many objects.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Counts and bytes by value.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    buckets: Box<[(u64, u64); BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: Box::new([(0, 0); BUCKETS]) }
    }
}

impl Histogram {
    #[inline]
    pub(super) fn add(&mut self, value: u64, bytes: u64) {
        let bucket = &mut self.buckets[index(value)];
        bucket.0 += 1;
        bucket.1 = bucket.1.saturating_add(bytes);
    }

    pub(super) fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            mine.0 += theirs.0;
            mine.1 = mine.1.saturating_add(theirs.1);
        }
    }

    /// The buckets that hold something, lowest first; bounds multiplied by `scale`.
    pub(super) fn finish(&self, scale: f64) -> Vec<Bucket> {
        let held = self.buckets.iter().enumerate().filter(|(_, (count, _))| *count > 0);
        held.map(|(at, &(count, bytes))| Bucket {
            from: lower(at) * scale,
            to: lower(at + 1) * scale,
            count,
            bytes,
        })
        .collect()
    }
}

#[inline]
fn index(value: u64) -> usize {
    if value < SUB as u64 {
        return value as usize;
    }
    let log2 = 63 - value.leading_zeros();
    let within = (value >> (log2 - SUB_BITS)) as usize & (SUB - 1);
    (log2 - SUB_BITS + 1) as usize * SUB + within
}

/// The least value of a bucket.
fn lower(at: usize) -> f64 {
    if at < SUB {
        return at as f64;
    }
    let shift = (at / SUB - 1) as i32;
    (SUB + at % SUB) as f64 * 2f64.powi(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        // Beyond 2^52 the bounds themselves, being floats, are rounded.
        for value in (0..52).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, 5 << bit >> 1]) {
            let at = index(value);
            assert!(lower(at) <= value as f64 && (value as f64) < lower(at + 1), "{value}");
        }
        assert_eq!(index(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_bucket_is_at_most_an_eighth_wide() {
        for at in SUB..BUCKETS {
            assert!(lower(at + 1) / lower(at) <= 1.125);
        }
    }
}
