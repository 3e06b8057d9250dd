//! Log-linear buckets: 32 to a doubling, so a value is known to 1 part in 32 from one tick to hours.
//!
//! Values below 64 have a bucket each. The idea is HdrHistogram's (Tene); the mapping is three
//! instructions and needs no table.

/// log2 of the buckets in a doubling.
const SUB_BITS: u32 = 5;

/// Buckets there are: enough for every `u64`.
pub const BUCKETS: usize = ((64 - SUB_BITS as usize) << SUB_BITS) + (1 << SUB_BITS);

/// One bucket of the histogram.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bucket(pub u16);

impl Bucket {
    /// The bucket of `value`.
    #[inline(always)]
    pub const fn of(value: u64) -> Bucket {
        let magnitude = 63 - (value | 1).leading_zeros();
        if magnitude <= SUB_BITS {
            return Bucket(value as u16);
        }
        let shift = magnitude - SUB_BITS;
        Bucket(((shift << SUB_BITS) as u64 + (value >> shift)) as u16)
    }

    /// The values it holds: the smallest, and how many different ones.
    pub const fn range(self) -> (u64, u64) {
        let index = self.0 as u64;
        if index < 2 << SUB_BITS {
            return (index, 1);
        }
        let shift = (index >> SUB_BITS) - 1;
        ((index - (shift << SUB_BITS)) << shift, 1 << shift)
    }

    /// The middle of its values: what a percentile that falls into it is reported as.
    pub fn middle(self) -> f64 {
        let (low, count) = self.range();
        low as f64 + (count - 1) as f64 / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        let near_powers = (0..64u32).flat_map(|bit| {
            let power = 1u64 << bit;
            [power - 1, power, power + 1, power + power / 3]
        });
        for value in near_powers.chain(0..5000).chain([u64::MAX]) {
            let (low, count) = Bucket::of(value).range();
            assert!(low <= value && value - low < count, "{value} is not in {low}+{count}");
            assert!(count == 1 || count <= low / 32, "bucket of {value} is wider than 1 in 32");
            assert!((Bucket::of(value).0 as usize) < BUCKETS);
        }
    }

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for index in 0..BUCKETS as u16 - 1 {
            let (low, count) = Bucket(index).range();
            assert_eq!(low.wrapping_add(count), Bucket(index + 1).range().0);
        }
    }
}
