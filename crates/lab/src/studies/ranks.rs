//! What ranks tell of measured times: a median with its interval, and which of two is the greater.
//!
//! Times of threads have heavy tails: a thread that waits 10 ms for its processor makes a run of 20 ms half
//! as long again. Student's interval is as wide as such an outlier is far, and so hides that every run of
//! one was faster than every run of the other. A rank does not move with how far an outlier lies, and no
//! distribution is supposed.

use serde::Serialize;

/// What is called clear, or within an interval, is so but for this share of the cases, both sides together.
const ERROR: f64 = 0.05;
/// Fewer values a side never tell which is the greater.
pub const FEWEST: usize = 4;
/// With more values than so many on a side the sum of ranks is as good as normal.
const EXACT: usize = 20;
/// Of the normal distribution, [`ERROR`] lies beyond so many deviations, both sides together.
const DEVIATIONS: f64 = 1.96;

/// A median and its interval.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Middle {
    /// The median.
    pub median: f64,
    /// Where the interval begins: one of the values.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
    /// How likely it covers the median of all that could have been measured: at least 0.95 from six values
    /// on; with fewer it is all of them.
    pub sureness: f64,
    /// Of how many values.
    pub values: usize,
}

impl Middle {
    /// Of these values; `None` of none.
    pub fn of(values: &[f64]) -> Option<Middle> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (cut, sureness) = cut(sorted.len())?;
        Some(Middle {
            median: middle(&sorted)?,
            low: *sorted.get(cut)?,
            high: *sorted.iter().rev().nth(cut)?,
            sureness,
            values: sorted.len(),
        })
    }
}

/// The median; `None` of none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        even if even.is_multiple_of(2) => Some(f64::midpoint(sorted[half - 1], sorted[half])),
        _ => Some(sorted[half]),
    }
}

/// How many of `count` values lie outside of the interval on each side, and how sure it is: each value is as
/// likely above the median as below.
fn cut(count: usize) -> Option<(usize, f64)> {
    let n = count as f64;
    let (mut of_this, mut outside) = (-n * std::f64::consts::LN_2, 0.0);
    let mut found = None;
    for cut in 0..count.div_ceil(2) {
        // Exactly `cut` values below the median, or fewer.
        outside += of_this.exp();
        let sureness = 1.0 - 2.0 * outside;
        if cut == 0 || sureness >= 1.0 - ERROR {
            found = Some((cut, sureness.max(0.0)));
        }
        of_this += ((n - cut as f64) / (cut as f64 + 1.0)).ln();
    }
    found
}

/// Whether the values of `a` are greater than those of `b` (or less: `Some(false)`), by the test of Mann and
/// Whitney; `None` where the ranks do not tell.
pub fn is_greater(a: &[f64], b: &[f64]) -> Option<bool> {
    // Equals speak for nobody.
    let wins = |of: &[f64], over: &[f64]| -> usize {
        of.iter().map(|x| over.iter().filter(|y| x > y).count()).sum()
    };
    let pairs = a.len() * b.len();
    let is_clear = |wins: usize| is_rare(pairs - wins, a.len(), b.len());
    if is_clear(wins(a, b)) {
        return Some(true);
    }
    is_clear(wins(b, a)).then_some(false)
}

/// Whether chance would leave one side at most `lost` of the pairs in too few cases to be taken for it.
fn is_rare(lost: usize, m: usize, n: usize) -> bool {
    if m == 0 || n == 0 {
        return false;
    }
    if m.max(n) > EXACT {
        let (m, n) = (m as f64, n as f64);
        let deviation = (m * n * (m + n + 1.0) / 12.0).sqrt();
        return lost as f64 + 0.5 - m * n / 2.0 <= -DEVIATIONS * deviation;
    }
    let ways = ways(m, n);
    let rare: f64 = ways[..=lost].iter().sum();
    rare <= ERROR / 2.0 * ways.iter().sum::<f64>()
}

/// In how many orders of `m + n` values the first side loses 0, 1, ... of the pairs: the coefficients of
/// Gauss's binomial.
fn ways(m: usize, n: usize) -> Vec<f64> {
    let mut ways = vec![0.0; m * n + 1];
    ways[0] = 1.0;
    for i in 1..=m {
        for lost in (n + i..ways.len()).rev() {
            ways[lost] -= ways[lost - n - i];
        }
        for lost in i..ways.len() {
            ways[lost] += ways[lost - i];
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_counted() {
        assert_eq!(ways(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert_eq!(ways(5, 5).iter().sum::<f64>(), 252.0);
        assert_eq!(ways(20, 20).iter().sum::<f64>(), 137_846_528_820.0);
    }

    /// Of 252 orders of five and five the least six have at most two lost pairs lost at random: 4 of 252.
    #[test]
    fn five_against_five_may_lose_two_pairs() {
        let b = [1.0, 2.0, 3.0, 4.0, 5.0];
        assert_eq!(is_greater(&[6.0, 7.0, 8.0, 9.0, 10.0], &b), Some(true));
        assert_eq!(is_greater(&[3.5, 7.0, 8.0, 9.0, 10.0], &b), Some(true), "two pairs lost");
        assert_eq!(is_greater(&[2.5, 7.0, 8.0, 9.0, 10.0], &b), None, "three pairs lost");
        assert_eq!(is_greater(&b, &[6.0, 7.0, 8.0, 9.0, 10.0]), Some(false));
        assert_eq!(is_greater(&b, &b), None);
    }

    #[test]
    fn fewer_values_never_tell() {
        let apart = |count: usize| is_greater(&vec![2.0; count], &vec![1.0; count]);
        assert_eq!((apart(FEWEST - 1), apart(FEWEST)), (None, Some(true)));
        assert_eq!(is_greater(&[], &[1.0]), None);
    }

    /// What Student's test would call noise.
    #[test]
    fn an_outlier_does_not_hide_a_difference() {
        let (steady, tailed) = ([10.0, 10.1, 10.2, 10.3, 10.4], [1.0, 1.1, 1.0, 9.0, 1.2]);
        assert_eq!(is_greater(&steady, &tailed), Some(true));
        let differences: Vec<f64> = steady.iter().zip(tailed).map(|(a, b)| (a / b).ln()).collect();
        assert!(!super::super::statistics::Summary::of(&differences[2..]).is_clear());
    }

    #[test]
    fn the_normal_distribution_takes_over_without_a_step() {
        let first = |n: usize, from: f64| (0..n).map(|i| from + i as f64).collect::<Vec<f64>>();
        for n in [20, 21] {
            let least = (0..n * n)
                .map(|x| x as f64 / n as f64)
                .find(|&by| is_greater(&first(n, by + 0.5), &first(n, 0.0)) == Some(true));
            // Shifted by a fifth of their range, twenty tell.
            assert!(least.is_some_and(|by| (3.0..5.0).contains(&by)), "{n}: {least:?}");
        }
    }

    #[test]
    fn a_median_and_its_interval() {
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let found = Middle::of(&ten).unwrap();
        assert_eq!((found.median, found.low, found.high, found.values), (5.5, 2.0, 9.0, 10));
        assert!((found.sureness - (1.0 - 22.0 / 1024.0)).abs() < 1e-12);
        let five = Middle::of(&[3.0, 1.0, 2.0, 5.0, 4.0]).unwrap();
        assert_eq!((five.median, five.low, five.high, five.sureness), (3.0, 1.0, 5.0, 0.9375));
        assert_eq!(Middle::of(&[7.0]).unwrap().sureness, 0.0);
        assert_eq!((Middle::of(&[]), median(&[])), (None, None));
        let many: Vec<f64> = (0..3000).map(f64::from).collect();
        assert!(Middle::of(&many).unwrap().sureness > 0.95);
    }
}
