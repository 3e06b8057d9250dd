//! Medians, ratios with bootstrap intervals, geometric means. Deterministic: the resampling has its own generator.

/// Resamples of one interval.
const RESAMPLES: usize = 2_000;

/// A ratio and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Ratio of the medians.
    pub value: f64,
    /// 2.5 % of the resamples lie below.
    pub low: f64,
    /// 2.5 % of the resamples lie above.
    pub high: f64,
}

/// The middle value, or the mean of the two in the middle; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The values of odd rounds (the first, the third, ...) and of even ones; of a single round, that one twice.
pub fn halves(values: &[f64]) -> [Vec<f64>; 2] {
    let from = |first: usize| values.iter().skip(first).step_by(2).copied().collect();
    if values.len() < 2 { [values.to_vec(), values.to_vec()] } else { [from(0), from(1)] }
}

/// Measurements of one row: the i-th of each side was made in the same round.
pub struct Pairs<'a> {
    /// The allocator in question.
    pub of: &'a [f64],
    /// What it is compared with.
    pub to: &'a [f64],
}

/// The ratio of medians on one row. Whole rounds are resampled, because what disturbs one run of a round is likely
/// to disturb its neighbours.
pub fn ratio(pairs: &Pairs<'_>) -> Ratio {
    geometric_mean(std::slice::from_ref(pairs))
}

/// The geometric mean, over rows, of the ratios of medians.
pub fn geometric_mean(rows: &[Pairs<'_>]) -> Ratio {
    let value = mean_of_logs(rows.iter().map(|row| median(row.of) / median(row.to)));
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| mean_of_logs(rows.iter().map(|row| resampled(row, &mut random))))
        .collect();
    means.sort_by(f64::total_cmp);
    Ratio { value, low: means[RESAMPLES / 40], high: means[RESAMPLES - 1 - RESAMPLES / 40] }
}

fn mean_of_logs(ratios: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for ratio in ratios {
        sum += ratio.ln();
        count += 1;
    }
    (sum / f64::from(count)).exp()
}

fn resampled(row: &Pairs<'_>, random: &mut Random) -> f64 {
    let rounds = row.of.len().min(row.to.len());
    let (mut of, mut to) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for _ in 0..rounds {
        let round = random.below(rounds);
        of.push(row.of[round]);
        to.push(row.to[round]);
    }
    median(&of) / median(&to)
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = u128::from(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)) * limit as u128;
        usize::try_from(high >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_nothing() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn without_noise_the_interval_is_a_point() {
        let of = [2.0; 5];
        let to = [4.0; 5];
        let ratio = ratio(&Pairs { of: &of, to: &to });
        assert_eq!(ratio, Ratio { value: 0.5, low: 0.5, high: 0.5 });
    }

    #[test]
    fn noise_widens_the_interval_around_the_ratio() {
        let of = [1.0, 1.2, 0.9, 1.1, 1.3];
        let to = [1.0; 5];
        let ratio = ratio(&Pairs { of: &of, to: &to });
        assert_eq!(ratio.value, 1.1);
        assert!(ratio.low < 1.1 && ratio.high > 1.1, "{ratio:?}");
        assert!(ratio.low >= 0.9 && ratio.high <= 1.3, "{ratio:?}");
    }

    #[test]
    fn half_and_double_cancel_out() {
        let rows = [Pairs { of: &[1.0], to: &[2.0] }, Pairs { of: &[2.0], to: &[1.0] }];
        assert!((geometric_mean(&rows).value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn odd_and_even_rounds() {
        assert_eq!(halves(&[1.0, 2.0, 3.0, 4.0, 5.0]), [vec![1.0, 3.0, 5.0], vec![2.0, 4.0]]);
        assert_eq!(halves(&[1.0]), [vec![1.0], vec![1.0]]);
    }
}
