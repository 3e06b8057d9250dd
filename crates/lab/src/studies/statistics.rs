//! Means with intervals, and what else a study says of a hundred numbers.
//!
//! Sums run in the order of the attempts, so that the same attempts give the same bits.

use serde::Serialize;

/// What some attempts came to.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// Half the width of its 95 % interval (Student's t); 0 for a single attempt, of which it is not known: see `runs`.
    pub half_width: f64,
    /// The standard deviation of the attempts.
    pub deviation: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
    /// How many attempts. A single one has no interval: it decides nothing.
    pub runs: usize,
}

impl Summary {
    /// Of these values; of none it is zero.
    pub fn of(values: &[f64]) -> Summary {
        let n = values.len() as f64;
        if values.is_empty() {
            return Summary::default();
        }
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let deviation = if values.len() > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        let half_width = t_95(values.len()) * deviation / n.sqrt();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Summary { mean, half_width, deviation, least, most, runs: values.len() }
    }

    /// Of the differences `a - b` of the same attempts.
    pub fn of_differences(a: &[f64], b: &[f64]) -> Summary {
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        Summary::of(&differences)
    }

    /// Deviation over mean; 0 where the mean is.
    pub fn variation(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.deviation / self.mean }
    }

    /// The greatest over the mean; 0 where the mean is.
    pub fn worst_over_mean(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.most / self.mean }
    }

    /// Half the width of the interval, where there were attempts enough for one.
    pub fn spread(&self) -> Option<f64> {
        (self.runs > 1).then_some(self.half_width)
    }

    /// Whether zero lies outside of the interval: of differences, whether there is one.
    pub fn is_clear(&self) -> bool {
        self.spread().is_some_and(|half_width| self.mean.abs() > half_width)
    }
}

/// The 97.5 % point of Student's distribution for the mean of `count` values.
fn t_95(count: usize) -> f64 {
    t_95_of(count.saturating_sub(1))
}

/// The 97.5 % point of Student's distribution with so many degrees of freedom; 0 with none.
pub(super) fn t_95_of(freedom: usize) -> f64 {
    /// For 1 to 30 degrees of freedom.
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    if freedom == 0 {
        return 0.0;
    }
    // Above, within 0.001 of the tables.
    let far = |freedom: usize| 1.960 + 2.4 / freedom as f64;
    TABLE.get(freedom - 1).copied().unwrap_or_else(|| far(freedom))
}

/// Pearson's correlation of two rows of numbers; 0 where one of them does not vary.
pub fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len()) as f64;
    let (mean_a, mean_b) = (a.iter().sum::<f64>() / n, b.iter().sum::<f64>() / n);
    let product =
        |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(a, b)| f(*a, *b)).sum::<f64>();
    let both = product(&|a, b| (a - mean_a) * (b - mean_b));
    let (alone_a, alone_b) =
        (product(&|a, _| (a - mean_a).powi(2)), product(&|_, b| (b - mean_b).powi(2)));
    if alone_a == 0.0 || alone_b == 0.0 { 0.0 } else { both / (alone_a * alone_b).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_and_its_interval() {
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((summary.mean, summary.least, summary.most), (5.0, 2.0, 9.0));
        assert!((summary.deviation - 2.138_09).abs() < 1e-5);
        assert!((summary.half_width - 2.365 * 2.138_09 / 8_f64.sqrt()).abs() < 1e-4);
        assert_eq!((Summary::of(&[3.0]).half_width, Summary::of(&[3.0]).spread()), (0.0, None));
        assert!(!Summary::of(&[3.0]).is_clear(), "one attempt shows nothing");
        assert_eq!(Summary::of(&[]), Summary::default());
    }

    #[test]
    fn t_falls_to_the_normal_distribution_s() {
        assert!((t_95(100) - 1.984).abs() < 0.001 && (t_95(61) - 2.000).abs() < 0.001);
        assert!((2..200).all(|count| t_95(count) > t_95(count + 1) - 1e-3));
    }

    #[test]
    fn differences_are_of_pairs() {
        let difference = Summary::of_differences(&[1.0, 12.0, 23.0], &[0.0, 11.0, 22.0]);
        assert_eq!((difference.mean, difference.half_width), (1.0, 0.0));
        assert!(difference.is_clear());
        assert!(!Summary::of(&[-1.0, 1.0, 0.5]).is_clear());
    }

    #[test]
    fn correlation_of_what_goes_together_and_against() {
        assert!((correlation(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]) - 1.0).abs() < 1e-12);
        assert!((correlation(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12);
        assert_eq!(correlation(&[1.0, 1.0], &[1.0, 2.0]), 0.0);
    }
}
