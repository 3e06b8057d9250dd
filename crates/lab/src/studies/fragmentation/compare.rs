//! Two policies on the same recordings: their paired differences, the interval of the mean, the verdict.
//!
//! ```text
//!    difference of the means and its interval      verdict
//!    ├──●──┤ 0                                     at most (clearly)
//!       ├──●─0──┤                                  at most
//!            0                                     at most: the same on every recording
//!          ├─0──●──┤                               no difference that can be told
//!            0 ├──●──┤                             more
//! ```
//!
//! Invariant: every comparison is exactly one of at most, no difference and more.

use crate::studies::statistics::Summary;
use serde::Serialize;

/// What a difference of two policies' fragmentation comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// On average not more, clearly or not.
    AtMost,
    /// On average more, but zero lies in the interval.
    NoDifference,
    /// More, and zero lies outside of it.
    More,
}

impl Verdict {
    /// Of differences, the one's less the other's.
    pub fn of(difference: &Summary) -> Verdict {
        match (difference.mean <= 0.0, difference.is_clear()) {
            (true, _) => Verdict::AtMost,
            (false, false) => Verdict::NoDifference,
            (false, true) => Verdict::More,
        }
    }

    /// In a table's cell.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::AtMost => "at most",
            Verdict::NoDifference => "no difference",
            Verdict::More => "more",
        }
    }

    /// In a table of a terminal.
    pub fn mark(self) -> char {
        match self {
            Verdict::AtMost => '≤',
            Verdict::NoDifference => '~',
            Verdict::More => '>',
        }
    }
}

/// One policy beside another, by one measure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Compared {
    /// The one's value less the other's, over the recordings.
    pub difference: Summary,
    /// What that comes to.
    pub verdict: Verdict,
}

impl Compared {
    /// `one` and `other` on the same recordings, in the same order.
    pub fn of(one: &[f64], other: &[f64]) -> Compared {
        let difference = Summary::of_differences(one, other);
        Compared { difference, verdict: Verdict::of(&difference) }
    }
}

/// How often each verdict fell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// At most.
    pub at_most: usize,
    /// Of these, the ones whose interval lies below zero.
    pub clearly_less: usize,
    /// No difference.
    pub no_difference: usize,
    /// More.
    pub more: usize,
}

impl Tally {
    /// Of these comparisons.
    pub fn of(all: impl Iterator<Item = Compared>) -> Tally {
        all.fold(Tally::default(), |mut tally, one| {
            match one.verdict {
                Verdict::AtMost => {
                    tally.at_most += 1;
                    tally.clearly_less += usize::from(one.difference.is_clear());
                }
                Verdict::NoDifference => tally.no_difference += 1,
                Verdict::More => tally.more += 1,
            }
            tally
        })
    }

    /// How many there were.
    pub fn all(&self) -> usize {
        self.at_most + self.no_difference + self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(one: &[f64], other: &[f64]) -> Verdict {
        Compared::of(one, other).verdict
    }

    #[test]
    fn the_drawing_above_line_by_line() {
        let zero = [0.0; 5];
        let clearly = Compared::of(&[-1.0, -1.1, -0.9, -1.0, -1.05], &zero);
        assert!(clearly.verdict == Verdict::AtMost && clearly.difference.is_clear());
        let hardly = Compared::of(&[-1.0, 1.0, -1.0, 0.9, 0.0], &zero);
        assert!(hardly.verdict == Verdict::AtMost && !hardly.difference.is_clear());
        assert_eq!(verdict(&[1.0, -1.0, 1.0, -0.9, 0.0], &zero), Verdict::NoDifference);
        assert_eq!(verdict(&[1.0, 1.1, 0.9, 1.0, 1.05], &zero), Verdict::More);
    }

    /// A program that always allocates the same has no variance: then any difference is one.
    #[test]
    fn identical_recordings_are_told_apart_by_anything_at_all() {
        let same = Compared::of(&[0.3; 5], &[0.3; 5]);
        assert_eq!((same.difference.mean, same.difference.half_width), (0.0, 0.0));
        assert!(same.verdict == Verdict::AtMost && !same.difference.is_clear());
        assert_eq!(verdict(&[0.300_000_1; 5], &[0.3; 5]), Verdict::More);
        let less = Compared::of(&[0.3; 5], &[0.300_000_1; 5]);
        assert!(less.verdict == Verdict::AtMost && less.difference.is_clear());
    }

    /// What differs between recordings, but in both alike, is no noise of the comparison.
    #[test]
    fn differences_are_of_the_same_recording() {
        let (one, other) = ([0.1, 0.5, 0.9, 0.2, 0.7], [0.09, 0.49, 0.89, 0.19, 0.69]);
        assert_eq!(verdict(&one, &other), Verdict::More);
        assert_eq!(verdict(&other, &one), Verdict::AtMost);
        let mut shuffled = other;
        shuffled.reverse();
        assert_eq!(verdict(&one, &shuffled), Verdict::NoDifference);
    }

    /// Perl's external fragmentation, dmrt less tlsf in points, in five environments.
    #[test]
    fn what_one_recording_would_call_more_five_may_not() {
        let points = [0.197, 0.054, 0.048, -0.004, 0.010];
        assert_eq!(verdict(&points, &[0.0; 5]), Verdict::NoDifference);
        // With two recordings the interval is 12.7 standard errors wide.
        assert_eq!(verdict(&[1.0, 1.3], &[0.0; 2]), Verdict::NoDifference);
        assert_eq!(verdict(&[1.0, 1.1], &[0.0; 2]), Verdict::More);
    }

    #[test]
    fn a_tally_counts_each_once() {
        let zero = [0.0; 3];
        let all = [[0.0; 3], [-1.0; 3], [1.0; 3], [3.0, -1.0, 0.0]];
        let tally = Tally::of(all.iter().map(|one| Compared::of(one, &zero)));
        assert_eq!(tally, Tally { at_most: 2, clearly_less: 1, no_difference: 1, more: 1 });
        assert_eq!(tally.all(), 4);
    }
}
