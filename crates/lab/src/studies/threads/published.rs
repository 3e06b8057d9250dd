//! The figures of the paper, as data.

use super::super::statistics::Summary;
use super::heaps::Fit;

const FIGURES: &str = include_str!("../../../../../studies/published/threads.csv");

/// One printed number.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Figure<'a> {
    experiment: &'a str,
    fit: &'a str,
    threads: usize,
    iterations: u64,
    value: f64,
}

fn figures() -> impl Iterator<Item = (Figure<'static>, &'static str)> {
    let lines = FIGURES.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.filter_map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let &[experiment, fit, threads, iterations, _, what, value] = cells.as_slice() else {
            return None;
        };
        let (threads, iterations) = (threads.parse().ok()?, iterations.parse().ok()?);
        let value = value.parse().ok()?;
        Some((Figure { experiment, fit, threads, iterations, value }, what))
    })
}

fn name(fit: Fit) -> &'static str {
    match fit {
        Fit::First => "first-fit",
        Fit::Best => "best-fit",
        Fit::Worst => "worst-fit",
    }
}

/// Nanoseconds of ten iterations on so many threads, of three runs.
pub fn by_threads(fit: Fit, threads: usize) -> Option<Summary> {
    summary(|figure, what| {
        (figure.experiment, what) == ("threads", "time_ns")
            && (figure.fit, figure.threads) == (name(fit), threads)
    })
}

/// Nanoseconds of so many iterations on four threads, of three runs.
pub fn by_iterations(fit: Fit, iterations: u64) -> Option<Summary> {
    summary(|figure, what| {
        (figure.experiment, what) == ("iterations", "time_ns")
            && (figure.fit, figure.iterations) == (name(fit), iterations)
    })
}

/// Blocks ("chunks") after so many iterations on four threads.
pub fn blocks(fit: Fit, iterations: u64) -> Option<f64> {
    let found = summary(|figure, what| {
        what == "chunks" && (figure.fit, figure.iterations) == (name(fit), iterations)
    });
    found.map(|found| found.mean)
}

fn summary(is_it: impl Fn(&Figure<'_>, &str) -> bool) -> Option<Summary> {
    let values: Vec<f64> =
        figures().filter(|(figure, what)| is_it(figure, what)).map(|(f, _)| f.value).collect();
    (!values.is_empty()).then(|| Summary::of(&values))
}

/// Numbers of threads of the paper.
pub const THREADS: [usize; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20];

#[cfg(test)]
mod tests {
    use super::super::laws::{Which, fit};
    use super::*;

    #[test]
    fn every_figure_is_there() {
        assert_eq!(figures().count(), 3 * (11 + 6) * 3 + 9);
        assert_eq!(by_threads(Fit::First, 1).map(|s| s.mean), Some(1.253_333_333_333_333_3e9));
        let hundred = by_iterations(Fit::Worst, 100).unwrap();
        assert!((hundred.mean / 2.488e10 - 1.0).abs() < 1e-3, "as printed: {hundred:?}");
        assert_eq!(blocks(Fit::Best, 50), Some(34894.0));
        assert_eq!(by_threads(Fit::First, 11), None);
    }

    /// The curves rise behind four threads: the universal law follows them, Amdahl's cannot.
    #[test]
    fn the_published_curves_are_no_amdahl_curves() {
        for policy in Fit::ALL {
            let rate = |n: usize| Some((n as f64, 1e9 / by_threads(policy, n)?.mean));
            let points: Vec<(f64, f64)> = THREADS.iter().filter_map(|&n| rate(n)).collect();
            let universal = fit(Which::Universal, &points).unwrap();
            let amdahl = fit(Which::Amdahl, &points).unwrap();
            assert!(universal.kappa.value > universal.kappa.half_width, "{universal:?}");
            assert!(amdahl.error > 1.2 * universal.error, "{amdahl:?} {universal:?}");
            println!("{policy:?} {universal:?} {amdahl:?}");
        }
    }
}
