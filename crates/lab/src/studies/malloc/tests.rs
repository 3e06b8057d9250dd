//! The file that ships can be read, every decision is switched, and what comes out is judged as it should be.

use super::*;
use crate::results::{Causes, Outcome, Paged};

fn outcome(peak: u64, mean: u64, faults: u64) -> Outcome {
    let at_peak = Causes { live: peak, ..Causes::default() };
    let paged = Paged { mean_memory: mean, at_peak, ..Paged::default() };
    let (peak_memory, page_faults) = (peak, Some(faults));
    Outcome { peak_memory, page_faults, paged: Some(paged), ..Outcome::default() }
}

fn variants() -> Vec<Variant> {
    let some = ["reserve.bytes", "slabs.kept", "stack.bytes"];
    Variant::all().into_iter().filter(|one| some.contains(&one.decision)).collect()
}

/// Two programs: the reserve costs the second 2 % of its mean, the stack saves the first memory, `slabs.kept` nothing.
fn results() -> Results {
    let plan = Plan::parse("the study", DEFAULT).unwrap();
    let survey = simulate::Survey::default();
    let found = |nth: usize, figures: [(u64, u64, u64); 4]| {
        let variants: Vec<Option<Variant>> =
            std::iter::once(None).chain(variants().into_iter().map(Some)).collect();
        let row = |(variant, (peak, mean, faults)): (&Option<Variant>, (u64, u64, u64))| {
            Row::of(variant.as_ref(), &outcome(peak, mean, faults))
        };
        let rows = variants.iter().zip(figures).map(row).collect();
        Found::of(&plan.programs[nth], &survey, rows).unwrap()
    };
    // In the order of the table: shipped, stack.bytes, reserve.bytes, slabs.kept.
    let first = found(0, [(1000, 500, 10), (900, 500, 10), (1000, 500, 10), (1000, 500, 12)]);
    let second = found(1, [(2000, 1000, 10), (2000, 1000, 10), (2010, 1020, 10), (2000, 1009, 10)]);
    let missing = Found::missing(&plan.programs[2], "sqlite3 is not installed".to_owned());
    Results::of(&variants(), vec![first, second, missing])
}

#[test]
fn the_study_that_ships_names_twenty_programs() {
    let plan = Plan::parse("the study", DEFAULT).unwrap();
    let mut names: Vec<&str> = plan.programs.iter().map(|one| one.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 20);
    let wrong = DEFAULT.replacen("name = \"python3\"", "name = \"a/b\"", 1);
    assert!(Plan::parse("mine.toml", &wrong).unwrap_err().to_string().contains("can be a file's"));
}

#[test]
fn every_decision_is_switched_to_another_value() {
    let all = Variant::all();
    assert_eq!(all.len(), Decisions::ALL.len());
    for (variant, decision) in all.iter().zip(Decisions::ALL) {
        assert_eq!(variant.decision, decision.name);
        let changed = variant.settings().changed();
        assert_eq!(changed, [(decision.name, variant.value)], "nothing else changes");
    }
}

#[test]
fn a_mechanism_earns_its_place_by_one_percent_on_one_program() {
    let results = results();
    let of = |name: &str| results.verdicts.iter().find(|one| one.decision == name).unwrap();
    let reserve = of("reserve.bytes");
    assert_eq!(reserve.earns_by, ["mean"]);
    let mean = reserve.mean.as_ref().unwrap();
    assert_eq!((mean.program.as_str(), (mean.share * 1000.0).round()), ("g++", 20.0));
    assert!(of("slabs.kept").earns_by.is_empty(), "less than one percent");
    let faults = of("slabs.kept").faults.as_ref().unwrap();
    assert_eq!((faults.program.as_str(), (faults.share * 10.0).round()), ("python3", 2.0));
    let saves = of("stack.bytes").saves.as_ref().unwrap();
    assert_eq!((saves.program.as_str(), (saves.share * 10.0).round()), ("python3", -1.0));
    assert!(reserve.instructions.is_none());
    let answer = results.answer().join(" ");
    assert!(answer.starts_with("Of 3 decisions, 1 cost at least one of 2 programs"), "{answer}");
    assert!(answer.contains("No program pays for stack.bytes, slabs.kept."), "{answer}");
    assert!(answer.ends_with("1 could not be recorded here."), "{answer}");
}

#[test]
fn the_page_shows_all_of_it() {
    let mut results = results();
    results.programs[0].held = Some(Held {
        simulated: 1000,
        real: 980,
        library: 10,
        real_least: 970,
        real_most: 990,
        last: (1000, 980),
        faults: (10, 11),
        speed: 12.0,
        huge_pages: true,
        at_peak: Causes::default(),
    });
    assert!(
        results.answer()[1].starts_with("For 1 of 1 programs the simulated peak is within 5 %")
    );
    let page = page(&results, "freehold study malloc");
    assert!(page.contains("reserve.bytes") && page.contains("+2.00 %") && page.contains("+2.04 %"));
    assert!(page.contains("missing: sqlite3 is not installed"));
    crate::report::sound::assert_sound(&page);
}
