//! Two laws of how a rate grows with threads, fitted by least squares.
//!
//! Amdahl (1967): X(N) = lambda N / (1 + sigma (N - 1)). It never falls. Gunther's universal scalability law
//! (2007) adds kappa N (N - 1) below the line, what threads spend on each other; it can fall, as the
//! published curves do behind four threads. sigma is the share that only one can do at a time.
//!
//! Fitted are relative errors, by Levenberg and Marquardt; the intervals come from the curvature at the
//! solution (95 %, Student's t), and are as good as the law is.

use super::super::statistics::t_95_of;
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DVector, Dyn, Matrix, U1, U3, Vector3};
use serde::Serialize;

/// A number with half the width of its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Half the width.
    pub half_width: f64,
}

/// A law's parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Law {
    /// Rate of one thread, in the unit of what was fitted.
    pub lambda: Estimate,
    /// Contention: the share that only one can do at a time.
    pub sigma: Estimate,
    /// Coherence: what each thread costs each other; 0 in Amdahl's law.
    pub kappa: Estimate,
    /// Root of the mean of the squares of the relative errors.
    pub error: f64,
}

impl Law {
    /// The rate of so many threads.
    pub fn rate(&self, threads: f64) -> f64 {
        let n = threads;
        self.lambda.value * n
            / (1.0 + self.sigma.value * (n - 1.0) + self.kappa.value * n * (n - 1.0))
    }

    /// The number of threads at which the rate is highest; `None` where it never falls.
    pub fn peak(&self) -> Option<f64> {
        let (sigma, kappa) = (self.sigma.value, self.kappa.value);
        (kappa > 0.0 && sigma < 1.0).then(|| ((1.0 - sigma) / kappa).sqrt())
    }
}

/// Which law.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Amdahl's: two parameters.
    Amdahl,
    /// The universal scalability law: three.
    Universal,
}

/// The law through rates at numbers of threads; `None` with no more points than parameters, or where
/// the search fails.
pub fn fit(which: Which, points: &[(f64, f64)]) -> Option<Law> {
    let parameters = if which == Which::Amdahl { 2 } else { 3 };
    let freedom = points.len().checked_sub(parameters).filter(|&freedom| freedom > 0)?;
    if points.iter().any(|&(n, rate)| n < 1.0 || rate <= 0.0 || !rate.is_finite()) {
        return None;
    }
    // In units of the first rate, so that all parameters are of a size.
    let unit = points[0].1;
    let scaled: Vec<(f64, f64)> = points.iter().map(|&(n, rate)| (n, rate / unit)).collect();
    let start = Problem { points: scaled, which, at: Vector3::new(1.0, 0.1, 0.0) };
    let (solved, report) = LevenbergMarquardt::new().minimize(start);
    if !report.termination.was_successful() {
        return None;
    }
    let residuals = solved.residuals()?;
    let variance = residuals.norm_squared() / freedom as f64;
    let jacobian = solved.jacobian()?;
    let mut curvature = jacobian.transpose() * jacobian;
    if which == Which::Amdahl {
        // kappa is not there: its row and column are zero.
        curvature[(2, 2)] = 1.0;
    }
    let covariance = curvature.try_inverse()? * variance;
    let t = t_95_of(freedom);
    let estimate = |i: usize, unit: f64| Estimate {
        value: solved.at[i] * unit,
        half_width: t * covariance[(i, i)].max(0.0).sqrt() * unit,
    };
    let error = (residuals.norm_squared() / points.len() as f64).sqrt();
    let kappa = if which == Which::Amdahl { Estimate::default() } else { estimate(2, 1.0) };
    Some(Law { lambda: estimate(0, unit), sigma: estimate(1, 1.0), kappa, error })
}

/// The relative errors at `at`: lambda, sigma, kappa.
struct Problem {
    points: Vec<(f64, f64)>,
    which: Which,
    at: Vector3<f64>,
}

impl Problem {
    /// Number of threads, rate, and the line below the law's fraction.
    fn terms(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        self.points
            .iter()
            .map(|&(n, rate)| (n, rate, 1.0 + self.at[1] * (n - 1.0) + self.at[2] * n * (n - 1.0)))
    }
}

impl LeastSquaresProblem<f64, Dyn, U3> for Problem {
    type ResidualStorage = Owned<f64, Dyn, U1>;
    type JacobianStorage = Owned<f64, Dyn, U3>;
    type ParameterStorage = Owned<f64, U3, U1>;

    fn set_params(&mut self, at: &Vector3<f64>) {
        self.at = *at;
        if self.which == Which::Amdahl {
            self.at[2] = 0.0;
        }
    }

    fn params(&self) -> Vector3<f64> {
        self.at
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let lambda = self.at[0];
        let errors: Vec<f64> =
            self.terms().map(|(n, rate, below)| lambda * n / below / rate - 1.0).collect();
        Some(DVector::from_vec(errors))
    }

    fn jacobian(&self) -> Option<Matrix<f64, Dyn, U3, Self::JacobianStorage>> {
        let lambda = self.at[0];
        let free = if self.which == Which::Amdahl { 0.0 } else { 1.0 };
        let rows: Vec<_> = self
            .terms()
            .map(|(n, rate, below)| {
                let by_below = -lambda * n / (below * below) / rate;
                nalgebra::RowVector3::new(
                    n / below / rate,
                    by_below * (n - 1.0),
                    free * by_below * n * (n - 1.0),
                )
            })
            .collect();
        Some(Matrix::<f64, Dyn, U3, Self::JacobianStorage>::from_rows(&rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(lambda: f64, sigma: f64, kappa: f64) -> Vec<(f64, f64)> {
        let rate = |n: f64| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
        [1.0, 2.0, 3.0, 4.0, 8.0, 20.0].map(|n| (n, rate(n))).to_vec()
    }

    fn near(found: Estimate, expected: f64) -> bool {
        (found.value - expected).abs() < 1e-6 * expected.abs().max(1e-3)
    }

    #[test]
    fn a_law_is_found_in_its_own_points() {
        let law = fit(Which::Universal, &points(5e6, 0.3, 0.02)).unwrap();
        assert!(near(law.lambda, 5e6) && near(law.sigma, 0.3) && near(law.kappa, 0.02), "{law:?}");
        assert!(law.error < 1e-9 && law.sigma.half_width < 1e-6);
        assert!((law.peak().unwrap() - 35f64.sqrt()).abs() < 1e-4);
        assert!((law.rate(20.0) / points(5e6, 0.3, 0.02)[5].1 - 1.0).abs() < 1e-6);
        let law = fit(Which::Amdahl, &points(7.0, 0.05, 0.0)).unwrap();
        assert!(near(law.lambda, 7.0) && near(law.sigma, 0.05), "{law:?}");
        assert_eq!((law.kappa, law.peak()), (Estimate::default(), None));
    }

    #[test]
    fn what_falls_is_not_amdahl_s() {
        let falling = points(1.0, 0.5, 0.05);
        let [amdahl, universal] =
            [Which::Amdahl, Which::Universal].map(|which| fit(which, &falling).unwrap());
        assert!(amdahl.error > 100.0 * universal.error);
    }

    #[test]
    fn too_few_points_or_no_rate_is_no_law() {
        let all = points(1.0, 0.5, 0.05);
        assert_eq!(fit(Which::Universal, &all[..3]), None);
        assert_eq!(fit(Which::Amdahl, &[(1.0, 1.0), (2.0, 0.0), (3.0, 1.0)]), None);
        assert_eq!(fit(Which::Amdahl, &[]), None);
    }

    #[test]
    fn noise_widens_the_intervals() {
        let noisy: Vec<_> = points(1.0, 0.3, 0.02)
            .into_iter()
            .enumerate()
            .map(|(i, (n, rate))| (n, rate * if i % 2 == 0 { 1.03 } else { 0.97 }))
            .collect();
        let law = fit(Which::Universal, &noisy).unwrap();
        assert!((law.sigma.value - 0.3).abs() < law.sigma.half_width, "{law:?}");
        assert!(law.sigma.half_width > 0.05);
    }
}
