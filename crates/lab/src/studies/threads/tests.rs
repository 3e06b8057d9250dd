//! A study small enough for a test, and settings that make no sense.

use super::heaps::{Blocks, Sharing};
use super::plan::Experiment;
use super::rows::Rows;
use super::*;
use crate::report::sound::assert_sound;
use crate::studies::settings::Settings;
use std::sync::atomic::AtomicBool;

fn plan(changes: &[&str]) -> Result<Plan, String> {
    let mut settings = Settings::of_default(DEFAULT).unwrap();
    let said = |error: crate::studies::settings::SettingsError| error.to_string();
    changes.iter().try_for_each(|change| settings.set(change)).map_err(said)?;
    Plan::new(&settings).map_err(said)
}

const TINY: &[&str] = &[
    "runs=2",
    // A machine that sleeps for seconds is no reason to leave a cell out.
    "cell_ms=600000",
    "limit_ms=600000",
    "region=32M",
    "series=50",
    "stripes=3",
    "threads.counts=[1,2,4,5]",
    "threads.iterations=1",
    "threads.steady_ms=1",
    "iterations.counts=[1,2]",
    "lengths.counts=[1,2]",
    "allocations.counts=[10,100]",
    "wish.threads=[1,2]",
    "wish.sequences=200",
    "calls.threads=[2]",
    "calls.sequences=100",
    // A process of its own is a command's to start: crates/cli/tests/study.rs.
    "turns.processes=0",
];

fn tiny(more: &[&str], interrupted: bool) -> (Plan, Measured) {
    let plan = plan(&[TINY, more].concat()).unwrap();
    let interrupted = AtomicBool::new(interrupted);
    let measured = measure(&plan, &[], &[], &mut |_, _| {}, &interrupted).unwrap();
    (plan, measured)
}

#[test]
fn every_combination_is_measured_and_reported() {
    let (plan, measured) = tiny(&[], false);
    assert!(measured.left.is_empty() && !measured.interrupted, "{:?}", measured.left);
    let rows = Rows(&measured.rows);
    // Three fits, unlocked and in eight ways, and the loop.
    assert_eq!(rows.subjects(Experiment::Steady).len(), 3 * 9 + 1);
    assert_eq!(rows.subjects(Experiment::Wish).len(), 3 * 9);
    assert!(measured.rows.iter().all(|row| row.failed == 0 || row.blocks.is_none()), "no room");
    let results = Results::of(&plan, &measured, &[]);
    assert_eq!(results.account.len(), 6);
    for finding in &results.account {
        assert!(!finding.text.contains("Nothing was measured"), "{finding:?}");
        assert!(!finding.cause.contains("Nothing was measured"), "{finding:?}");
        assert!(finding.cause.chars().any(|c| c.is_ascii_digit()), "{finding:?}");
    }
    // A law may not be found where the runs are as short as here.
    assert!(results.steady.iter().any(|curve| curve.universal.is_some()));
    assert_eq!(results.left.len(), 0);
    let page = page(&results, "freehold study threads --set a<b");
    assert_sound(&page);
    assert!(page.contains("this machine has") && page.contains("a&lt;b"));
    let mut file = Vec::new();
    write_rows(&mut file, &measured.rows, &[]).unwrap();
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    serde_json::to_string(&results).unwrap();
}

/// A process that cannot be started is an error of the study, and no result.
#[test]
fn turns_without_a_process_are_an_error() {
    let plan =
        plan(&[TINY, &["runs=1", "turns.processes=1", "on.fits=first-fit"]].concat()).unwrap();
    let error = measure(&plan, &[], &[], &mut |_, _| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().starts_with("a process for heaps a thread failed"), "{error}");
}

#[test]
fn turns_are_of_heaps_a_thread_that_were_asked_for() {
    let processes = |more: &[&str]| plan(more).unwrap().turns().processes;
    assert_eq!((processes(&[]), processes(&["turns.processes=0"])), (2, 0));
    assert_eq!(processes(&["on.sharing=mutex-std"]), 0);
    assert_eq!(plan(&[]).unwrap().turn_subjects().len(), 4, "the loop and three fits");
}

#[test]
fn an_interrupted_study_reports_what_it_has() {
    let (plan, measured) = tiny(&[], true);
    assert!(measured.interrupted && measured.rows.is_empty());
    let results = Results::of(&plan, &measured, &[]);
    assert!(results.answer[0].starts_with("Stopped before its end"));
    assert_sound(&page(&results, "freehold study threads"));
}

#[test]
fn what_would_take_too_long_is_left_out_and_said() {
    let (_, measured) = tiny(&["limit_ms=1", "iterations.counts=[1,8]", "runs=1"], false);
    let bare = |left: &&Left| left.why.ends_with("s a run without any lock");
    assert!(measured.left.iter().any(|left| bare(&left)), "{:?}", measured.left);
    let blocks = |row: &measure::Row| match row.cell.subject {
        plan::Subject::Heap(heap) => Some((heap.blocks, heap.sharing)),
        _ => None,
    };
    let long = measured.rows.iter().filter(|row| row.sequences == 8_000);
    assert!(
        long.clone().all(|row| blocks(row) != Some((Blocks::ListUnmerged, Sharing::PaperLock)))
    );
}

#[test]
fn settings_that_make_no_sense_are_refused_with_what_would() {
    let said = |change: &str| plan(&[change]).err().unwrap_or_default();
    assert!(said("threads.counts=[0]").contains("0 threads cannot be had; 1 to 1024 can"));
    assert!(said("calls.threads=[10000]").starts_with("calls.threads: 10000 threads"));
    assert!(said("threads.counts=[]").contains("at least one number"));
    assert!(said("threads.counts=[2]").contains("1 is wanted too"));
    assert!(said("threads.iterations=0").contains("at least 1 is wanted"));
    assert!(said("iterations.counts=[10,0]").contains("at least 1 is wanted"));
    assert!(said("sizes.from=0").contains("at least 1"));
    assert!(said("sizes.to=1G").contains("do not fit into one of 20 parts"));
    assert!(said("sizes.to=5000000000").starts_with("sizes.to: invalid value"));
    assert!(said("threads.counts=[-1]").starts_with("threads.counts: invalid value"));
    assert!(said("stripes=5000").starts_with("stripes: at most 4096"));
    assert!(said("series=1000000").starts_with("series: at most"));
    assert!(said("sizes.from=2000").contains("sizes.to: 1024 is less"));
    assert!(said("lengths.times=0").contains("at least 1"));
    assert!(said("lengths.times=1000000").contains("do not fit into the region"));
    assert!(said("turns.threads=0").starts_with("turns.threads: 0 threads cannot be had"));
    assert!(said("turns.times=0").starts_with("turns.times: at least 1"));
    assert!(said("turns.slice_ms=0").contains("at least 1 is wanted"));
    assert!(said("turns.processes=-1").starts_with("turns.processes: invalid value"));
    assert!(said("region=some").contains("\"256M\""));
    assert!(said("on.sharing=unlocked").contains("measured anyway"));
    assert!(said("on.fits=next-fit").contains("next-fit"), "{}", said("on.fits=next-fit"));
    assert!(plan(&[]).is_ok() && plan(QUICK).is_ok());
}

/// A region that runs out is many failures, and no hang.
#[test]
fn a_region_that_runs_out_counts_failures() {
    let more = ["region=64K", "sizes.to=1024", "series=200", "runs=1", "iterations.counts=[1]"];
    let (_, measured) = tiny(&more, false);
    let failed = |row: &&measure::Row| row.blocks.is_some() && row.failed > 0;
    assert!(measured.rows.iter().any(|row| failed(&row)));
}

/// With as many lengths as the paper may have had first fit's list grows, which it does not with few.
#[test]
fn more_lengths_make_first_fit_s_list_long() {
    let (plan, measured) =
        tiny(&["runs=1", "on.fits=first-fit", "region=64M", "lengths.counts=[1,2]"], false);
    let results = Results::of(&plan, &measured, &[]);
    let at_end = |growths: &[tables::Growth]| {
        let is_it = |growth: &&tables::Growth| {
            (growth.on.blocks, growth.on.sharing)
                == (Some(Blocks::TreeUnmerged), Some(Sharing::Unlocked))
        };
        let found = growths.iter().find(is_it).and_then(|growth| growth.points.last());
        found.map(|point| (point.iterations, point.free_blocks.mean)).unwrap()
    };
    let ((2, few), (2, many)) = (at_end(&results.iterations), at_end(&results.lengths)) else {
        panic!("two iterations each");
    };
    assert!(many > 4.0 * few, "{few} and {many} free blocks");
}

/// Every call of worst fit splits the longest block, the untouched end of the region.
#[test]
fn worst_fit_without_coalescing_makes_a_block_a_call() {
    let (plan, measured) =
        tiny(&["iterations.counts=[1,2]", "runs=1", "on.fits=worst-fit", "region=64M"], false);
    let results = Results::of(&plan, &measured, &[]);
    let trees = results.iterations.iter().filter(|g| g.on.blocks == Some(Blocks::TreeUnmerged));
    for growth in trees {
        let blocks: Vec<f64> = growth.points.iter().map(|point| point.free_blocks.mean).collect();
        assert_eq!(blocks, [1000.0, 2000.0], "{}", growth.on.name);
    }
}
