//! The study itself, small.

use super::*;
use crate::report::sound::assert_sound;
use crate::studies::settings::Settings;
use std::sync::atomic::AtomicBool;

fn small(changes: &[&str]) -> (Plan, Results) {
    let mut settings = Settings::of_default(DEFAULT).unwrap();
    let few = [
        "events=300",
        "events_per_node=10",
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
    assert_eq!(of_kernels.clone().count(), 5 * 4);
    assert!(of_kernels.clone().all(|entry| entry.mean.spurious == 0));
    let shares = results.verdicts.iter().filter(|verdict| verdict.key.starts_with("share_"));
    assert_eq!(shares.clone().count(), 3);
    assert!(
        shares.clone().all(|share| (1.0..60.0).contains(&share.ours)),
        "{:?}",
        shares.collect::<Vec<_>>()
    );
    assert_sound(&page(&plan, &results, "freehold study mesh"));
}

#[test]
fn every_order_alone_can_be_studied() {
    let (_, results) = small(&["orders=index"]);
    assert!(results.goals.is_empty(), "nothing improved without the order hinted");
    assert!(results.entries.iter().all(|entry| entry.mean.order == "index"));
}
