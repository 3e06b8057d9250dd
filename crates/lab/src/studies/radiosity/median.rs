//! The median of some rounds, and how sure it is.

use serde::Serialize;

/// A median, and an interval that the true one lies in with at least 95 % whatever the distribution of the
/// rounds (the ranks that a sign test would not reject). Fewer than six rounds are too few for that: then it
/// reaches from the least to the greatest.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Median {
    /// The median; of an even number the upper one of the middle.
    pub median: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Median {
    /// Of these values; of none no number.
    pub fn of(mut values: Vec<f64>) -> Median {
        values.sort_by(f64::total_cmp);
        let at = |rank: usize| values.get(rank).copied().unwrap_or(f64::NAN);
        let cut = ranks_cut(values.len());
        let high = values.len().saturating_sub(1 + cut);
        Median { median: at(values.len() / 2), low: at(cut), high: at(high) }
    }
}

/// How many of the least values, and as many of the greatest, may be left out: of so many values fewer than
/// that lie below the true median with at most 2.5 %.
fn ranks_cut(count: usize) -> usize {
    let mut term = 0.5f64.powi(count as i32);
    let mut below = term;
    let mut cut = 0;
    while below <= 0.025 && cut < count / 2 {
        cut += 1;
        term *= (count - cut + 1) as f64 / cut as f64;
        below += term;
    }
    cut.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_those_of_the_tables() {
        // Largest k with P(Binomial(n, 1/2) <= k - 1) <= 2.5 %, less one for ranks from 0.
        let cuts = [1, 5, 6, 8, 9, 11, 12, 15, 17, 20, 25].map(ranks_cut);
        assert_eq!(cuts, [0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 7]);
    }

    #[test]
    fn a_median_has_the_interval_of_its_ranks() {
        let of = |values: &[f64]| Median::of(values.to_vec());
        assert_eq!(of(&[3.0, 1.0, 2.0]), Median { median: 2.0, low: 1.0, high: 3.0 });
        let nine: Vec<f64> = (0..9).rev().map(f64::from).collect();
        assert_eq!(of(&nine), Median { median: 4.0, low: 1.0, high: 7.0 });
        assert!(of(&[]).median.is_nan() && of(&[]).high.is_nan());
    }
}
