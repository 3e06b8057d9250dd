//! The page of a small run: whole, safe, and the same for the same settings.

use super::super::results::study;
use super::*;
use crate::report::sound::assert_sound;
use crate::studies::dmrt::DEFAULT;
use crate::studies::settings::Settings;
use std::sync::atomic::AtomicBool;

fn small(changes: &[&str]) -> (Plan, Results) {
    let mut settings = Settings::of_default(DEFAULT).unwrap();
    let few = [
        "attempts=1",
        "requests=[100, 1000]",
        "allocators=[\"dlmalloc\", \"tcmalloc\", \"tlsf\", \"dmrt\"]",
    ];
    few.iter().chain(changes).for_each(|change| settings.set(change).unwrap());
    let plan = Plan::new(&settings).unwrap();
    let results = study(&plan, &mut |_, _, _| (), &AtomicBool::new(false)).unwrap();
    (plan, results)
}

#[test]
fn the_page_is_sound_and_whole() {
    let (plan, results) = small(&[]);
    let page = page(&plan, &results, "freehold study dmrt");
    assert_sound(&page);
    for case in 1..=4 {
        for key in ["time", "external", "satisfied"] {
            assert!(page.contains(&format!("id=\"{key}-{case}\"")), "{key} of case {case}");
        }
    }
    assert!(page.contains("id=\"topology\"") && page.contains("id=\"layout\""));
}

#[test]
fn the_same_seed_is_the_same_bytes_and_another_is_not() {
    let text = |changes: &[&str]| {
        let (plan, results) = small(&[&["requests=100"], changes].concat());
        page(&plan, &results, "x") + &serde_json::to_string(&results).unwrap()
    };
    let first = text(&[]);
    assert!(first == text(&[]));
    assert!(first != text(&["seed=2"]));
}

#[test]
fn the_account_names_only_ablations_that_were_run() {
    let (_, results) = small(&[]);
    assert_eq!(results.account.len(), 8, "{:?}", results.account);
    for finding in &results.account {
        for key in &finding.ablations {
            assert!(results.ablations.iter().any(|ablation| ablation.key == *key), "{key}");
        }
    }
    assert_eq!(results.ablations.len(), super::super::ablations::count());
}

#[test]
fn other_machines_and_loads_have_a_page_too() {
    let (plan, results) = small(&["machine.nodes=8", "requests=50"]);
    assert_eq!(results.tables.len(), 4);
    assert!(
        results
            .account
            .iter()
            .all(|finding| finding.title != "What would make the published lead appear")
    );
    let page = page(&plan, &results, "x");
    assert!(page.contains("N7") && !page.contains("NaN"));
}
