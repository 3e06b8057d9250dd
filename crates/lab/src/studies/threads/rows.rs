//! What is asked of the measured rows: the runs of a cell, and how two cells compare.

use super::super::ranks;
use super::super::statistics::Summary;
use super::heaps::{Blocks, Fit, Heap, Sharing};
use super::measure::Row;
use super::patterns::Pattern;
use super::plan::{Experiment, Subject};
use serde::Serialize;

/// What was measured on, as it stands in results: a fit shared in some way, a malloc, or the loop.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct On {
    /// In reports.
    pub name: String,
    /// Of a fit.
    pub fit: Option<Fit>,
    /// Of a fit.
    pub blocks: Option<Blocks>,
    /// Of a fit.
    pub sharing: Option<Sharing>,
    /// Whether it is an installed malloc, or Freehold's.
    pub is_malloc: bool,
}

impl On {
    /// Of a subject; `mallocs` are the allocators' names.
    pub fn of(subject: &Subject, mallocs: &[String]) -> On {
        let (name, heap, is_malloc) = match subject {
            Subject::Loop => ("a loop without allocations".to_owned(), None, false),
            Subject::Heap(heap) => {
                (format!("{}, {}", heap.fit.name(), heap.sharing.name()), Some(heap), false)
            }
            Subject::Malloc(number) => (mallocs[*number].clone(), None, true),
        };
        On {
            name,
            fit: heap.map(|heap| heap.fit),
            blocks: heap.map(|heap| heap.blocks),
            sharing: heap.map(|heap| heap.sharing),
            is_malloc,
        }
    }
}

/// Rows that can be asked.
#[derive(Clone, Copy)]
pub struct Rows<'a>(pub &'a [Row]);

impl<'a> Rows<'a> {
    /// Every subject of an experiment, in the order of the plan.
    pub fn subjects(self, experiment: Experiment) -> Vec<Subject> {
        let mut found: Vec<Subject> = Vec::new();
        for row in self.0.iter().filter(|row| row.cell.experiment == experiment) {
            if !found.contains(&row.cell.subject) {
                found.push(row.cell.subject.clone());
            }
        }
        found
    }

    /// The runs of a subject, in the order of the rounds.
    pub fn of(self, experiment: Experiment, subject: &Subject) -> Vec<&'a Row> {
        let is_it = |row: &&Row| row.cell.experiment == experiment && row.cell.subject == *subject;
        self.0.iter().filter(is_it).collect()
    }

    /// Those of a number of threads.
    pub fn on_threads(
        self,
        experiment: Experiment,
        subject: &Subject,
        threads: usize,
    ) -> Vec<&'a Row> {
        let mut runs = self.of(experiment, subject);
        runs.retain(|row| row.cell.threads == threads);
        runs
    }

    /// Those of a pattern.
    pub fn of_pattern(self, subject: &Subject, pattern: Pattern, threads: usize) -> Vec<&'a Row> {
        let mut runs = self.on_threads(Experiment::Wish, subject, threads);
        runs.retain(|row| row.cell.pattern == pattern);
        runs
    }

    /// Those of so many sequences.
    pub fn of_length(
        self,
        experiment: Experiment,
        subject: &Subject,
        threads: usize,
        sequences: u64,
    ) -> Vec<&'a Row> {
        let mut runs = self.on_threads(experiment, subject, threads);
        runs.retain(|row| row.sequences == sequences);
        runs
    }
}

/// The heap without threads that a shared one is compared with.
pub fn unlocked(subject: &Subject) -> Option<Subject> {
    match subject {
        Subject::Heap(heap) => Some(Subject::Heap(Heap { sharing: Sharing::Unlocked, ..*heap })),
        _ => None,
    }
}

/// Of a value of every run.
pub fn summary(runs: &[&Row], value: impl Fn(&Row) -> f64) -> Summary {
    let values: Vec<f64> = runs.iter().map(|row| value(row)).collect();
    Summary::of(&values)
}

/// Of `value(a, b)` of the runs of the same rounds; `None` where there are none.
pub fn paired(a: &[&Row], b: &[&Row], value: impl Fn(&Row, &Row) -> f64) -> Option<Summary> {
    let values: Vec<f64> =
        a.iter().filter_map(|a| b.iter().find(|b| b.run == a.run).map(|b| value(a, b))).collect();
    (!values.is_empty()).then(|| Summary::of(&values))
}

/// Whether `a` had more sequences a second than `b`, by the ranks of their runs: `None` where these do not tell.
///
/// Ranks and not Student's test: a run under the paper's lock that by chance met no other thread is five times
/// as fast as the rest, which made its interval so wide that 14 of 231 comparisons were called noise in which
/// every run of one had been faster than every run of the other. Runs are not paired by rounds: what disturbs a
/// whole round then counts as noise.
pub fn is_faster(a: &[&Row], b: &[&Row]) -> Option<bool> {
    let rates = |rows: &[&Row]| -> Vec<f64> { rows.iter().map(|row| row.rate()).collect() };
    ranks::is_greater(&rates(a), &rates(b))
}
