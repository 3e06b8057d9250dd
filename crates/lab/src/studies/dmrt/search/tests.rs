//! A small search: the same again, everything in the map, nothing better than what is possible.

use super::super::gaps::NEAR;
use super::super::{DEFAULT, Plan};
use super::map::Aim;
use super::*;
use crate::report::sound::assert_sound;
use crate::studies::settings::Settings;
use std::sync::atomic::AtomicBool;

fn small(changes: &[&str]) -> Plan {
    with_levels("", changes)
}

fn with_levels(open: &str, changes: &[&str]) -> Plan {
    let mut settings = Settings::of_default(DEFAULT).unwrap();
    settings.lay_over("levels", open).unwrap();
    let few = ["requests=100", "search.points=12", "search.screen=1", "search.starts=1"];
    let fewer = ["search.rounds=1", "search.finalists=1", "search.confirm=2"];
    few.iter().chain(&fewer).chain(changes).for_each(|change| settings.set(change).unwrap());
    Plan::new(&settings).unwrap()
}

fn run(plan: &Plan) -> Map {
    search(plan, &mut |_, _, _| (), &AtomicBool::new(false)).unwrap()
}

#[test]
fn a_small_search_is_the_same_again_and_its_map_holds_every_reading() {
    let plan = small(&[]);
    let map = run(&plan);
    assert_eq!(map, run(&plan));
    assert_ne!(map.readings, run(&small(&["seed=2"])).readings);
    let mut csv = Vec::new();
    write_map(&mut csv, &map).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count(), 1 + map.readings.len());
    let fields = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == fields), "{csv}");
    assert_sound(&search_page(&map, "freehold study dmrt --search"));
}

/// A descent ends no farther from its aim than the best of the design, and no reading is nearer than two tables
/// that contradict each other allow.
#[test]
fn descents_go_down_and_nothing_is_nearer_than_possible() {
    let map = run(&small(&["requests=[100, 1000]", "search.points=6"]));
    let best = |stage, aim: Aim| {
        let scores = map.of(stage).filter_map(|one| aim.score(one));
        scores.fold(f64::INFINITY, f64::min)
    };
    for aim in Aim::ALL {
        let (design, descent) = (best(SearchStage::Design, aim), best(SearchStage::Descent, aim));
        assert!(descent < design, "{}: {descent} after {design}", aim.name());
    }
    let dlmalloc = &map.best[0];
    assert!(dlmalloc.aim == "dlmalloc" && dlmalloc.least_possible > NEAR);
    assert!(dlmalloc.largest > NEAR - 1.0 && dlmalloc.near == 0, "{dlmalloc:?}");
}

/// Levels that cannot be run are in the map and say so; levels that are no settings are refused.
#[test]
fn what_cannot_begin_is_kept_and_what_is_no_setting_is_refused() {
    let open = "[search.open]\n\"machine.capacity\" = [\"1K\", \"16M\"]";
    let map = run(&with_levels(open, &[]));
    let could_not = map.readings.iter().filter(|one| one.gaps.is_empty()).count();
    assert!(could_not >= 6 && could_not < map.readings.len());
    assert!(map.answer[0].contains(&format!("{could_not} could not begin")), "{:?}", map.answer);
    let short = with_levels("[search.open]\n\"place.search\" = [\"strict now\"]", &[]);
    let why = search(&short, &mut |_, _, _| (), &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(why.contains("a value for each of its settings"), "{why}");
}
