//! The study itself, small.

use super::*;
use crate::report::sound::assert_sound;
use crate::studies::class::Class;
use crate::studies::settings::Settings;
use std::sync::atomic::AtomicBool;

fn small(changes: &[&str]) -> (Plan, Results) {
    let mut settings = Settings::of_default(DEFAULT).unwrap();
    let few = [
        "events=300",
        "events_per_node=10",
        "least_per_node=2",
        "warm_up_per_node=20",
        "repeats=1",
        "platforms=[\"2x2\", \"3x2\"]",
        "larger=9x9",
        "kernels.run=false",
    ];
    few.iter().chain(changes).for_each(|change| settings.set(change).unwrap());
    let plan = Plan::new(&settings).unwrap();
    let results = study(&plan, &mut |_, _| (), &AtomicBool::new(false)).unwrap();
    (plan, results)
}

#[test]
fn a_small_study_is_the_same_again_and_its_page_is_sound() {
    let ((plan, results), (_, again)) = (small(&[]), small(&[]));
    assert_eq!(results, again);
    assert!(results.goals.iter().any(|goal| goal.key == "spurious" && goal.ours == 0.0));
    let page = page(&plan, &results, "freehold study mesh");
    assert_sound(&page);
    assert!(page.contains("Proposed over microcoded, 2x2") && page.contains("all but pages"));
    let sections =
        ["gains", "waiting-figure", "in-c-figure"].map(|id| format!("<figure id=\"{id}\""));
    assert!(sections.iter().all(|section| page.contains(section)), "{sections:?}");
    let mut rows = Vec::new();
    write_rows(&mut rows, &results.rows).unwrap();
    assert_eq!(&rows[..4], b"PAR1");
}

#[test]
fn an_interrupted_study_is_no_result() {
    let plan = Plan::new(&Settings::of_default(DEFAULT).unwrap()).unwrap();
    let stopped = study(&plan, &mut |_, _| (), &AtomicBool::new(true));
    assert!(matches!(stopped, Err(RunError::Interrupted)));
}

/// Every kernel runs to its end under every allocator, and is beside what is published of it.
#[test]
fn the_kernels_are_beside_their_published_shares() {
    let (plan, results) =
        small(&["kernels.run=true", "platforms=2x2", "larger=[]", "orders=index"]);
    let of_kernels = results.entries.iter().filter(|entry| entry.mean.load != "synthetic");
    assert_eq!(of_kernels.clone().count(), plan.kernels * 4);
    assert!(of_kernels.clone().all(|entry| entry.mean.spurious == 0));
    let shares = results.verdicts.iter().filter(|verdict| verdict.key.starts_with("share_"));
    // The cost of computing was chosen by shares, so none is counted; the mean comes out with tiles of 4 x 4.
    let classes: Vec<(&str, Class, bool)> = shares
        .map(|share| (share.key, share.class, (share.ours / share.wanted - 1.0).abs() < 0.1))
        .collect();
    let expected = [
        ("share_mean", Class::Missed, false),
        ("share_fast", Class::Fitted, true),
        ("share_gaussian", Class::Fitted, true),
        ("share_mean", Class::Fitted, true),
    ];
    assert_eq!(classes, expected);
    let tiles = results.verdicts.iter().rfind(|verdict| verdict.key == "share_mean").unwrap();
    assert!(tiles.note.contains("FAST is then the least of the four"), "{tiles:?}");
    assert_sound(&page(&plan, &results, "freehold study mesh"));
}

/// One lock for all waits more than a lock for each heap, and more the less there is between calls.
#[test]
fn waiting_is_where_locks_are_shared() {
    let changes = ["platforms=[\"2x2\", \"4x4\"]", "waiting.think=[0, 1000]", "orders=index"];
    let (_, results) = small(&changes);
    let waits = |allocator: &str, think: u64| {
        let is = |entry: &&Entry| entry.mean.allocator == allocator && entry.mean.think == think;
        let row = &results.waiting.iter().find(is).unwrap().mean;
        row.wait / row.cycles
    };
    assert!(waits("global", 0) > 0.8 && waits("global", 0) > 2.0 * waits("microcoded", 0));
    assert!(waits("microcoded", 0) > waits("microcoded", 1000));
}

/// What was fitted is marked and not counted, and what draws has an interval.
#[test]
fn fitted_figures_are_not_counted_and_predictions_have_intervals() {
    let changes = ["platforms=[\"2x2\", \"8x8\"]", "repeats=3", "orders=index", "larger=[]"];
    let (_, results) = small(&changes);
    let of = |key: &'static str| results.verdicts.iter().filter(move |verdict| verdict.key == key);
    assert!(of("growth_proposed").all(|verdict| verdict.class == Class::Fitted));
    let has_spread = |one: &Verdict| one.half_width.is_some_and(|half| half > 0.0);
    assert!(of("lock_share").count() == 5 && of("lock_share").all(has_spread));
    let way = of("lock_share").next_back().unwrap();
    assert!(way.class == Class::Missed && (55.0..70.0).contains(&way.ours), "{way:?}");
    let predicted = results
        .verdicts
        .iter()
        .filter(|one| !matches!(one.class, Class::Fitted | Class::Missed))
        .count();
    assert!(results.answer[0].contains(&format!("of {predicted} predictions hold")));
}

/// The central node fails: nobody goes on under a central manager.
#[test]
fn a_central_node_that_fails_stops_everybody() {
    let changes = ["platforms=[\"2x2\", \"4x4\"]", "failure.after=500", "failure.watched=300000"];
    let (_, results) = small(&[&changes[..], &["orders=index"]].concat());
    let going = |allocator: &str, patient: bool| {
        let is = |one: &&Failed| one.allocator == allocator && (one.patience > 0) == patient;
        let found = results.failures.iter().find(is).unwrap();
        (found.left, found.going)
    };
    assert_eq!(going("master", false), (15, 0));
    assert!(going("proposed", false).1 < 15);
    assert_eq!(going("proposed", true), (15, 15));
    assert!(results.answer[1].starts_with("When the first node fails, 0 % of the others are"));
}

/// What computing costs moves the share one way, and the usual policies stand beside the chosen one.
#[test]
fn shares_fall_as_computing_costs_more_and_policies_pay_for_what_they_touch() {
    let changes = ["kernels.run=true", "kernels.others=[8, 32]", "platforms=2x2", "larger=[]"];
    let (plan, results) = small(&[&changes[..], &["orders=index"]].concat());
    for name in ["fast", "gaussian", "integral", "matmul"] {
        let of = results.computing.iter().filter(|entry| entry.mean.load == name);
        let shares: Vec<f64> = of.map(|entry| entry.mean.share).collect();
        assert!(shares.len() == 3 && shares.is_sorted_by(|a, b| a > b), "{name}: {shares:?}");
    }
    assert_eq!(results.in_c.len(), plan.in_c.len() * 6);
    assert!(results.in_c.iter().all(|entry| entry.mean.accesses > 0.0));
    let usual = results.verdicts.iter().find(|verdict| verdict.key == "c_over_others").unwrap();
    assert!((0.5..5.0).contains(&usual.ours), "{usual:?}");
}

/// One seed has no interval: nothing that it draws is decided. Kernels draw nothing.
#[test]
fn one_seed_decides_nothing_that_is_drawn() {
    let (_, results) = small(&["kernels.run=true", "platforms=2x2", "larger=[]"]);
    assert!(
        results.goals.iter().all(|goal| goal.class == Class::Undecidable),
        "{:?}",
        results.goals
    );
    let drawn = results.verdicts.iter().filter(|one| one.half_width.is_none());
    assert!(drawn.clone().all(|one| matches!(one.class, Class::Fitted | Class::Undecidable)));
    let of_kernels = results.verdicts.iter().filter(|one| one.what.starts_with("Kernels"));
    assert!(drawn.count() > 0 && of_kernels.clone().count() > 0);
    assert!(
        of_kernels
            .clone()
            .all(|one| one.half_width == Some(0.0) && one.class != Class::Undecidable)
    );
}

#[test]
fn every_order_alone_can_be_studied() {
    let (_, results) = small(&["orders=index"]);
    assert!(results.goals.is_empty(), "nothing improved without the order hinted");
    assert!(results.entries.iter().all(|entry| entry.mean.order == "index"));
}
