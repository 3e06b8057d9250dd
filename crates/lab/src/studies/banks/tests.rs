//! A small study: the same numbers twice, every section on the page.

use super::*;
use crate::report::sound::assert_sound;
use crate::studies::settings::Settings;
use freehold_sim::banks::PageTrace;
use std::sync::atomic::{AtomicBool, Ordering};

/// A machine of 256 MB, minutes instead of hours: what a test can wait for.
const SMALL: &[&str] = &[
    "machines.m32.memory_mib=256",
    "machines.m32.bank_mib=4",
    "machines.m4.memory_mib=64",
    "machines.m4.bank_mib=4",
    "workloads.light.seconds=90",
    "workloads.medium.seconds=90",
    "workloads.storms.seconds=90",
    "workloads.storms.storm_every_s=30",
    "workloads.light.process_life_s=[5, 60]",
    "workloads.medium.process_life_s=[5, 60]",
    "workloads.medium.file_kib=[4, 64]",
    "workloads.light.file_kib=[4, 64]",
    "policies=[\"buddy\", \"fullest\"]",
    "robust_seeds=1",
    "stream_seeds=1",
    "verdict_seeds=2",
    "machines.m1.memory_mib=64",
    "streams.seconds.seconds=90",
    "streams.minutes.seconds=90",
    "streams.hours.seconds=90",
];

fn plan(more: &[&str]) -> Result<Plan, String> {
    let mut settings = Settings::of_default(DEFAULT).map_err(|error| error.to_string())?;
    for change in SMALL.iter().chain(more) {
        settings.set(change).map_err(|error| error.to_string())?;
    }
    Plan::new(&settings).map_err(|error| error.to_string())
}

#[test]
fn a_study_gives_the_same_numbers_twice_and_a_sound_page() {
    let plan = plan(&[]).unwrap();
    let never = AtomicBool::new(false);
    let go = || study(&plan, &|_, _| {}, &never).unwrap();
    let results = go();
    assert_eq!(results, go(), "the same settings give the same numbers");
    assert_eq!(
        (results.tables.len(), results.footprints.len(), results.streams.len()),
        (12, 5, 20)
    );
    for row in results.tables.iter().chain(&results.sweep) {
        assert!(
            (0.0..=1.0).contains(&row.c)
                && row.c <= row.c_max
                && row.offline_mean <= row.best_mean + 5.0,
            "{row:?}"
        );
    }
    let page = page(&results, &[], "freehold study banks");
    for part in [
        "Table 1.1",
        "Table 1.2",
        "Table 4.1",
        "Table 4.2",
        "Table 6.1",
        "Figure 5.3",
        "Figure 5.2",
        "84.8 W",
        "Chapter 6: real programs",
        "buddy, inodes stay",
        "Free memory that is off, on streams of other makes",
        "predicted: holds",
        "undecidable",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("…</text>"), "a name beside a curve is cut off");
    assert_sound(&page);
}

/// What only compares can be left out, and changes nothing of the rest.
#[test]
fn runs_that_compare_can_be_left_out() {
    let never = AtomicBool::new(false);
    let of = |more: &[&str]| {
        let brief =
            ["policies=[\"fullest\"]", "stream_seeds=0", "verdict_seeds=1", "sweep_seconds=60"];
        study(&plan(&[&brief[..], more].concat()).unwrap(), &|_, _| {}, &never).unwrap()
    };
    let (all, alone) = (of(&[]), of(&["compared=false"]));
    assert!(!all.sweep.is_empty() && !all.ablations.is_empty());
    assert!(alone.sweep.is_empty() && alone.ablations.is_empty());
    assert_eq!((&alone.tables, &alone.robustness), (&all.tables, &all.robustness));
    assert_sound(&page(&alone, &[], "freehold study banks"));
}

#[test]
fn a_recording_runs_alone_on_the_machine_that_is_named() {
    let plan = plan(&[]).unwrap();
    let text = "# freehold page trace 1\n0 a 0 9 m 0\n5 a 1 0 u 1\n9 f 0\n";
    let trace = PageTrace::read(text.as_bytes()).unwrap();
    let replay = |machine| replay(&plan, "x.pages", &trace, machine, &AtomicBool::new(false));
    let replayed = replay("m4").unwrap();
    assert_eq!((replayed.events, replayed.seconds, replayed.rows.len()), (3, 10, 4));
    assert!(replayed.rows.iter().all(|row| row.machine == "m4"), "{replayed:?}");
    assert_sound(&page_of_recording(&replayed, "freehold study banks --trace x.pages"));
    assert!(replay("m5").unwrap_err().to_string().contains("no such machine"));
    let large: String = (0..40).map(|nth| format!("0 a {nth} 9 m 0\n")).collect();
    let large = PageTrace::read(format!("# freehold page trace 1\n{large}").as_bytes()).unwrap();
    let refused = super::replay(&plan, "x", &large, "m4", &AtomicBool::new(false)).unwrap_err();
    assert!(refused.to_string().contains("--machine names another"), "{refused}");
}

#[test]
fn kernel_pages_stay_together_where_banks_are_known() {
    let plan = plan(&[]).unwrap();
    let results = study(&plan, &|_, _| {}, &AtomicBool::new(false)).unwrap();
    let pinned = |policy: &str| {
        let of = results.sweep.iter().find(|row| row.policy == policy && row.workload == "medium");
        of.unwrap().pinned
    };
    assert!(pinned("fullest") * 2.0 < pinned("buddy"), "{} {}", pinned("fullest"), pinned("buddy"));
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let refused = |change: &str| plan(&[change]).unwrap_err();
    assert!(
        refused("machines.m32.bank_mib=100").contains("machines.m32: a bank has a power of two")
    );
    assert!(refused("policies=[\"fulest\"]").contains("did you mean fullest"));
    assert!(refused("migration.order=highest").contains("emptiest or lowest"));
    assert!(refused("workloads.light.footprint_percent=[60, 50]").contains("[least, most]"));
    assert!(refused("meter.dimm=none").contains("table 1.1"));
    let stopped = AtomicBool::new(false);
    stopped.store(true, Ordering::Relaxed);
    let plan = plan(&[]).unwrap();
    assert!(matches!(study(&plan, &|_, _| {}, &stopped), Err(BanksError::Interrupted)));
}
