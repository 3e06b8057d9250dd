//! What the study says, in sentences; and c at equal copying.

use super::measure::Row;
use super::published::figure;
use super::results::{BEST, PUBLISHED, Results, STOCK};

/// The c that a policy has where it copies `copied` frames for each freed, read off its sweep between two thresholds.
/// `None` where the sweep does not reach that much copying from both sides; the best c where it never copies as much.
pub fn c_at(sweep: &[Row], policy: &str, workload: &str, copied: f64) -> Option<f64> {
    let of = sweep.iter().filter(|row| row.policy == policy && row.workload == workload);
    let mut points: Vec<(f64, f64)> = of.map(|row| (row.copied_per_freed, row.c)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let last = *points.last()?;
    if last.0 <= copied {
        return points.iter().map(|point| point.1).max_by(f64::total_cmp);
    }
    let pair = points.windows(2).find(|pair| pair[0].0 <= copied && copied < pair[1].0)?;
    let share = (copied - pair[0].0) / (pair[1].0 - pair[0].0);
    Some(pair[0].1 + share * (pair[1].1 - pair[0].1))
}

pub fn answer(results: &Results) -> Vec<String> {
    let row = |policy: &str, workload: &str| {
        let mut rows = results.tables.iter();
        rows.find(|row| row.policy == policy && row.workload == workload && row.machine == "m32")
    };
    let mut answer = Vec::new();
    let pairs = (row(PUBLISHED, "light").zip(row(PUBLISHED, "medium")))
        .zip(row(BEST, "light").zip(row(BEST, "medium")));
    if let Some(((light, medium), (best_light, best_medium))) = pairs {
        answer.push(format!(
            "Of free memory, adaptive-buddy as published switches {:.0} % off under the light workload and {:.0} % under \
             the medium one (the thesis: {:.0} % and {:.0} %); fullest-first {:.0} % and {:.0} %, copying {:.3} and {:.3} \
             pages for each page freed.",
            light.c * 100.0,
            medium.c * 100.0,
            figure("c_light").unwrap_or(0.0) * 100.0,
            figure("c_medium").unwrap_or(0.0) * 100.0,
            best_light.c * 100.0,
            best_medium.c * 100.0,
            best_light.copied_per_freed,
            best_medium.copied_per_freed,
        ));
    }
    let find = |policy: &str| results.footprints.iter().find(|of| of.policy == policy);
    if let Some((stock, adaptive)) = find(STOCK).zip(find(PUBLISHED)) {
        let last = |of: &super::results::Footprint| of.removable.last().copied().unwrap_or(0);
        answer.push(format!(
            "After file systems of 1 to 30 GB have come and gone, {} of {} sections hold kernel pages under Linux's buddy \
             allocator and cannot be removed; under adaptive-buddy {} do.",
            stock.sections - last(stock),
            stock.sections,
            adaptive.sections - last(adaptive),
        ));
    }
    for (workload, goal) in [("light", 0.95), ("medium", 0.93)] {
        let of: Vec<_> = results.robustness.iter().filter(|row| row.workload == workload).collect();
        let Some(worst) = of.iter().min_by(|a, b| a.c.total_cmp(&b.c)) else { continue };
        let reached = of.iter().filter(|row| row.c >= goal).count();
        let most = |get: fn(&Row) -> f64| of.iter().map(|row| get(row)).fold(0.0, f64::max);
        answer.push(format!(
            "With every parameter of the {workload} workload moved by up to half, {reached} of {} runs of fullest-first have a c of \
             at least {goal}; the least is {:.3} (seed {}, where {:.3} could not be passed), the most copying {:.3} pages for each \
             freed, the most of another node's memory {:.0} %.",
            of.len(),
            worst.c,
            worst.seed,
            worst.c_bound,
            most(|row| row.copied_per_freed),
            most(|row| row.far_percent),
        ));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(copied_per_freed: f64, c: f64) -> Row {
        let text = |text: &str| text.to_owned();
        Row {
            machine: text("m32"),
            workload: text("light"),
            policy: text("fullest"),
            task: String::new(),
            seed: 1,
            offline_mean: 0.0,
            offline_max: 0.0,
            best_mean: 0.0,
            free_mean: 0.0,
            c,
            c_bound: 1.0,
            c_min: 0.0,
            of_best: 0.0,
            copied_per_freed,
            copied_per_offlined: 0.0,
            onlines_per_hour: 0.0,
            pinned: 0.0,
            pinned_least: 0.0,
            far_percent: 0.0,
            failed: 0,
            copied_gib: 0.0,
            offlined_gib: 0.0,
            requests_million: 0.0,
        }
    }

    #[test]
    fn c_is_read_between_two_thresholds() {
        let sweep = [row(0.10, 0.96), row(0.02, 0.80), row(0.06, 0.90)];
        let c = |copied| c_at(&sweep, "fullest", "light", copied);
        assert!((c(0.04).unwrap() - 0.85).abs() < 1e-9);
        assert_eq!((c(0.2), c(0.01)), (Some(0.96), None));
        assert_eq!(c_at(&sweep, "buddy", "light", 0.04), None);
    }
}
