//! The study in a few sentences: what a heap a thread is worth, against the machine and against locks.

use super::super::ranks::Middle;
use super::account::fit_name;
use super::heaps::Sharing;
use super::measure::Row;
use super::plan::{Experiment, Subject};
use super::results::Results;
use super::rows::{On, Rows, is_faster};
use super::turns::Turned;
use crate::human;
use crate::studies::class;

/// A heap without locks shall reach this share of what a loop without allocations gains.
const NEAR_THE_LOOP: f64 = 0.95;

/// Steady runs of a kind of subject.
fn steady<'a>(
    rows: Rows<'a>,
    is_it: impl Fn(&Subject) -> bool,
) -> Vec<(Subject, usize, Vec<&'a Row>)> {
    let mut found = Vec::new();
    for subject in rows.subjects(Experiment::Steady).into_iter().filter(|subject| is_it(subject)) {
        let mut counts: Vec<usize> =
            rows.of(Experiment::Steady, &subject).iter().map(|row| row.cell.threads).collect();
        counts.sort_unstable();
        counts.dedup();
        for threads in counts {
            let runs = rows.on_threads(Experiment::Steady, &subject, threads);
            found.push((subject.clone(), threads, runs));
        }
    }
    found
}

/// The study in a few sentences.
pub fn answer(results: &Results, rows: Rows<'_>, mallocs: &[String]) -> Vec<String> {
    let mut answer = Vec::new();
    if results.interrupted {
        answer.push("Stopped before its end: what follows was measured until then.".to_owned());
    }
    answer.push(format!(
        "This machine has {} processors: what is said of more threads is said of threads that wait for one.",
        results.processors
    ));
    answer.extend(results.refused.clone());
    answer.extend(heap_a_thread(results));
    answer.extend(against_locks(rows));
    answer.extend(freehold(rows, mallocs));
    if !results.account.is_empty() {
        let counted = class::counted(results.account.iter().map(|finding| finding.class));
        answer.push(format!(
            "Of the paper's conclusions, taken as predictions, with {} processors: {counted}; the account says why.",
            results.processors
        ));
    }
    answer
}

/// Of the turns: what a heap a thread gains, as a share of what the loop gains.
fn heap_a_thread(results: &Results) -> Option<String> {
    let is_heap = |turned: &&Turned| turned.on.fit.is_some();
    let heaps: Vec<&Turned> = results.turns.iter().filter(is_heap).collect();
    let looped = results.turns.iter().find(|turned| turned.on.fit.is_none())?;
    let sureness = heaps.first()?.of_loop.sureness;
    let interval = if sureness < 0.95 {
        "least to most".to_owned()
    } else {
        format!("{} intervals", human::percent(sureness))
    };
    let parts: Vec<String> = heaps
        .iter()
        .map(|turned| {
            let Middle { median, low, high, .. } = turned.of_loop;
            format!("{} {median:.3} ({low:.3} to {high:.3})", fit_name(turned.on.fit))
        })
        .collect();
    let enough = |share: fn(&Middle) -> f64| {
        heaps.iter().filter(|turned| share(&turned.of_loop) >= NEAR_THE_LOOP).count()
    };
    Some(format!(
        "A loop without allocations speeds up by {:.2} on {} threads, turn by turn. Of that a heap a thread reaches: {} \
         (medians of {} processes, {}). At least {NEAR_THE_LOOP} of the loop's: {} of {}, with the whole \
         interval {}.",
        looped.gain.median,
        looped.threads,
        parts.join("; "),
        looped.gain.values,
        interval,
        enough(|share| share.median),
        heaps.len(),
        enough(|share| share.low),
    ))
}

fn against_locks(rows: Rows<'_>) -> Option<String> {
    let is = |subject: &Subject, locked: bool| match subject {
        Subject::Heap(heap) => {
            heap.sharing.is_locked() == locked && heap.sharing != Sharing::Unlocked
        }
        _ => false,
    };
    let free = steady(rows, |subject| is(subject, false));
    let locked = steady(rows, |subject| is(subject, true));
    let fit = |subject: &Subject| match subject {
        Subject::Heap(heap) => Some(heap.fit),
        _ => None,
    };
    let (mut faster, mut slower, mut all) = (0, Vec::new(), 0);
    for (subject, threads, runs) in &free {
        for (other, others_threads, theirs) in &locked {
            if threads != others_threads || fit(subject) != fit(other) {
                continue;
            }
            all += 1;
            match is_faster(runs, theirs) {
                Some(true) => faster += 1,
                found => slower.push(format!(
                    "{} on {threads} ({})",
                    On::of(other, &[]).name,
                    if found.is_some() { "slower" } else { "within noise" }
                )),
            }
        }
    }
    (all > 0).then(|| {
        let rest = match slower.as_slice() {
            [] => String::new(),
            some => format!(" Not than: {}.", some[..some.len().min(5)].join(", ")),
        };
        format!(
            "It is faster beyond noise (by ranks of the runs, 5 %) than the locked heaps of its fit in {faster} of {all} comparisons (every \
             scheme, every number of threads).{rest}"
        )
    })
}

fn freehold(rows: Rows<'_>, mallocs: &[String]) -> Option<String> {
    let number = mallocs.iter().position(|name| name == "freehold")?;
    let ours = steady(rows, |subject| *subject == Subject::Malloc(number));
    let count = |others: &[(Subject, usize, Vec<&Row>)]| {
        let (mut faster, mut all, mut not) = (0, 0, Vec::new());
        for (_, threads, runs) in &ours {
            for (other, others_threads, theirs) in others {
                if threads == others_threads {
                    all += 1;
                    let is = is_faster(runs, theirs);
                    faster += usize::from(is == Some(true));
                    if is == Some(false) {
                        not.push(format!("{} on {threads}", On::of(other, mallocs).name));
                    }
                }
            }
        }
        (faster, all, not)
    };
    let heaps = count(&steady(
        rows,
        |subject| matches!(subject, Subject::Heap(heap) if heap.sharing != Sharing::Unlocked),
    ));
    let others = count(&steady(
        rows,
        |subject| matches!(subject, Subject::Malloc(other) if *other != number),
    ));
    let rest = |not: &[String]| match not {
        [] => String::new(),
        some => format!(" (slower than {})", some[..some.len().min(5)].join(", ")),
    };
    (heaps.1 > 0).then(|| {
        format!(
            "Freehold's own heap is faster beyond noise than these heaps in {} of {} comparisons{}, than other \
             mallocs in {} of {}{}.",
            heaps.0,
            heaps.1,
            rest(&heaps.2),
            others.0,
            others.1,
            rest(&others.2)
        )
    })
}
