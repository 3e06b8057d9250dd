//! What the study says, in sentences; and c at equal copying.

use super::measure::Row;
use super::published::figure;
use super::results::{BEST, PUBLISHED, Results, STOCK};
use super::streams::{SEEN_MOVED, Seen, tasks};
use super::verdicts::counted;

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

/// The answer: first what anyone understands, then how it is known.
pub fn answer(results: &Results) -> Vec<String> {
    let all = [in_short(results), streams(results), storms(results)];
    let mut answer: Vec<String> = all.into_iter().flatten().collect();
    for (workload, goal) in [("light", 0.95), ("medium", 0.93)] {
        answer.extend(moved(results, workload, goal));
    }
    answer.push(format!("Of the figures that the thesis prints: {}.", counted(&results.verdicts)));
    answer
}

/// Nothing where policies were not compared.
fn in_short(results: &Results) -> Option<String> {
    if results.sweep.is_empty() {
        return None;
    }
    let share = |policy: &str, workload: &str| {
        let mut rows = results.tables.iter();
        let is =
            |row: &&Row| row.policy == policy && row.workload == workload && row.machine == "m32";
        rows.find(is).map(|row| row.c * 100.0)
    };
    let stock = |workload| {
        let c = c_at(&results.sweep, STOCK, workload, super::page::ALLOWED);
        c.map_or("less".to_owned(), |c| format!("{:.0} %", c * 100.0))
    };
    Some(format!(
        "Memory in which nothing lies can be switched off, but only by the bank, and what is in use lies scattered over all banks. \
         Filling the fullest bank first, and moving the pages of nearly empty ones now and then, switches {:.0} % of the free memory \
         off under light use and {:.0} % under heavier use; Linux's allocator with the same moving {} and {}; the thesis's {:.0} % \
         and {:.0} % (it prints {:.0} % and {:.0} %, which chose a setting here).",
        share(BEST, "light")?,
        share(BEST, "medium")?,
        stock("light"),
        stock("medium"),
        share(PUBLISHED, "light")?,
        share(PUBLISHED, "medium")?,
        figure("c_light").unwrap_or(0.0) * 100.0,
        figure("c_medium").unwrap_or(0.0) * 100.0,
    ))
}

/// The least c and the most copying of some runs.
fn ends<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<(f64, f64)> {
    rows.map(|row| (row.c, row.copied_per_freed)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

fn streams(results: &Results) -> Option<String> {
    let all: Vec<Vec<&Row>> = (0..tasks().count())
        .map(|nth| results.streams.iter().skip(nth).step_by(tasks().count()).collect())
        .collect();
    let of = |nth: usize, seen: bool| {
        let is = move |row: &&&Row| (Seen::of(row.seed) == Seen::Itself) == seen;
        ends(all.get(nth)?.iter().filter(is).copied())
    };
    let said = |nth: usize, seen: bool| {
        of(nth, seen)
            .map_or("–".to_owned(), |(c, copied)| format!("{:.1} % ({copied:.3})", c * 100.0))
    };
    let count = all.first().filter(|rows| !rows.is_empty())?.len();
    Some(format!(
        "On {count} streams of other makes, with the same settings, at least {} of free memory is off on those seen when the rule was \
         chosen by which room counts, and {} on others, of makes that were seen (other seeds, other recordings; in brackets the most pages copied for each freed; 0.06 is the \
         limit). With the 15 s of before, tuned on the moved workloads: {} and {}; Linux's buddy with the same task: {} and {}.",
        said(0, true),
        said(0, false),
        said(1, true),
        said(1, false),
        said(3, true),
        said(3, false),
    ))
}

fn storms(results: &Results) -> Option<String> {
    let find = |policy: &str| results.footprints.iter().find(|of| of.policy == policy);
    let (stock, adaptive) = find(STOCK).zip(find(PUBLISHED))?;
    Some(format!(
        "After file systems of 1 to 30 GB in memory have come and gone, {} of {} sections of 128 MiB hold kernel pages under Linux's \
         buddy allocator and cannot be removed; under adaptive-buddy {} do.",
        stock.pinned(),
        stock.sections,
        adaptive.pinned(),
    ))
}

/// Moved parameters, the seeds that the rule was chosen on and the others apart.
fn moved(results: &Results, workload: &str, goal: f64) -> Vec<String> {
    let halves = [(true, "looked at when settings were chosen"), (false, "never looked at")];
    let said = |(seen, which): (bool, &str)| {
        let is = |row: &&Row| row.workload == workload && (row.seed <= SEEN_MOVED) == seen;
        let of: Vec<&Row> = results.robustness.iter().filter(is).collect();
        let worst = of.iter().min_by(|a, b| a.c.total_cmp(&b.c))?;
        let reached = of.iter().filter(|row| row.c >= goal).count();
        let most = |get: fn(&Row) -> f64| of.iter().map(|row| get(row)).fold(0.0, f64::max);
        Some(format!(
            "With every parameter of the {workload} workload moved by up to half, {reached} of {} runs on seeds {which} have at least \
             {:.0} % of free memory off under fullest-first; the least is {:.1} % (seed {}, where {:.1} % could not be passed), the most \
             copying {:.3} pages for each freed, the most of another node's memory {:.0} %.",
            of.len(),
            goal * 100.0,
            worst.c * 100.0,
            worst.seed,
            worst.c_bound * 100.0,
            most(|row| row.copied_per_freed),
            most(|row| row.far_percent),
        ))
    };
    halves.into_iter().filter_map(said).collect()
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
            c_max: 0.0,
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
