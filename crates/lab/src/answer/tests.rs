//! Answers about programs made by hand.

use super::*;
use crate::results::Outcome;
use crate::sites::{Callers, Counts, Measure, NO_STACK, Trend};
use freehold_trace::{Part, ProcessId, Resident, Tick, What};
use std::collections::BTreeMap;

fn site(function: &str, counts: Counts, peak: u64) -> Site {
    Site {
        function: function.into(),
        place: Some(format!("/src/{function}.c:7")),
        module: None,
        via: None,
        counts,
        share: counts.peak_bytes as f64 / peak as f64,
        trend: Trend::Steady,
        median_life_s: None,
        held: Vec::new(),
        callers: Callers { names: vec!["main (main.c:1)".into()], cut: false },
        callers_by: BTreeMap::new(),
    }
}

/// A second of a program.
fn sites(sites: Vec<Site>) -> Sites {
    let total = sites.iter().fold(Counts::default(), |sum, site| sum + site.counts);
    Sites {
        total,
        whole_bytes: total.peak_bytes,
        peak_s: 0.5,
        seconds: 1.0,
        sites,
        ..Sites::default()
    }
}

fn holds(bytes: u64) -> Counts {
    Counts {
        peak_bytes: bytes,
        peak_blocks: 20,
        allocations: 1000,
        freed: 900,
        ..Counts::default()
    }
}

fn said(sites: &Sites) -> Vec<String> {
    defects::find(sites, false).iter().map(|finding| plain(&finding.advice)).collect()
}

#[test]
fn a_program_without_defects_is_told_to_stay_as_it_is() {
    let sites = sites(vec![site("steady", holds(10 << 20), 10 << 20)]);
    assert_eq!(said(&sites), [] as [String; 0]);
    assert_eq!(
        plain(&who_of(&sites)[0]),
        "steady (steady.c:7) holds 100 % of malloc's peak: 10.0 MiB in 20 blocks, called by main (main.c:1)."
    );
}

fn who_of(sites: &Sites) -> Vec<Sentence> {
    let figures = Figures::default();
    who(Program {
        figures: &figures,
        sites: Some(sites),
        resident: None,
        process: None,
        ticks_are_events: false,
        tried: &[],
    })
}

#[test]
fn what_is_resident_is_said_instead_of_what_malloc_gave() {
    let part = |what, megabytes: u64| Part { what, resident: megabytes << 20, ..Part::default() };
    let parts = vec![part(What::Malloc, 30), part(What::File, 10)];
    let sample = Resident { tick: Tick(1), at_end: true, parts, ..Resident::default() };
    let resident = WhatThereIs::of(ProcessId(3), 0.5, Some(80 << 20), sample);
    let mut figures = Figures::default();
    figures.peak.bytes = 20 << 20;
    let process = Some("P3");
    let unseen = Program {
        figures: &figures,
        resident: None,
        sites: None,
        process,
        ticks_are_events: false,
        tried: &[],
    };
    let said = |program| there(program).iter().map(|said| plain(said)).collect::<Vec<_>>();
    assert_eq!(
        said(Program { resident: Some(&resident), ..unseen }),
        [
            "40.0 MiB resident at the peak of P3: malloc explains 75 %, files 25 %.",
            "The kernel's own mark is 80.0 MiB: the very peak came between two looks."
        ]
    );
    let [malloc] = &said(unseen)[..] else { panic!("one sentence") };
    assert!(malloc.starts_with("20.0 MiB from malloc at the peak by P3"), "{malloc}");
}

#[test]
fn leaks_and_hoards_are_told_apart_and_small_ones_not_at_all() {
    let growing = |name: &str, bytes, leaked_bytes| Site {
        trend: Trend::Growing,
        ..site(name, Counts { leaked_bytes, leaked_blocks: 20, ..holds(bytes) }, 20 << 20)
    };
    let through = Callers { names: vec!["load (load.c:3)".into()], cut: false };
    let lose = Site {
        callers_by: BTreeMap::from([(Measure::NeverFreed, through)]),
        ..growing("lose", 10 << 20, 10 << 20)
    };
    let sites = sites(vec![lose, growing("hoard", 9 << 20, 0), growing("small", 1 << 20, 1 << 20)]);
    let said = said(&sites);
    assert_eq!(said.len(), 2);
    assert!(
        said[0].starts_with("Free, or bound, what lose (lose.c:7) makes, called by load (load.c:3): 10.0 MiB in 20 blocks"),
        "{said:?}"
    );
    assert!(
        said[1].starts_with("Bound what hoard (hoard.c:7) keeps, called by main (main.c:1):"),
        "{said:?}"
    );
}

#[test]
fn events_count_by_the_time_they_cost() {
    let counts = |brief| Counts { brief, allocations: 10_000_000, ..Counts::default() };
    let [much, little] =
        [5_000_000, 1_000_000].map(|many| sites(vec![site("loop", counts(many), 1)]));
    assert!(
        said(&much)[0].contains(
            "5.00 M of its objects are freed by their thread within 16 events, 50.0 % of all"
        ),
        "{:?}",
        said(&much)
    );
    assert_eq!(said(&little), [] as [String; 0], "a tenth of all");
    let grown = |copied_bytes| Counts {
        growths: 100_000,
        grown_bytes: 80_000_000,
        copied_bytes,
        ..Counts::default()
    };
    let stepwise = sites(vec![site("grow", grown(40_000_000_000), 1)]);
    assert!(
        said(&stepwise)[0].starts_with(
            "Reserve room, or double it, in grow (grow.c:7), called by main (main.c:1): 100 k steps of 800 B copy 37.3 GiB"
        ),
        "{:?}",
        said(&stepwise)
    );
    assert_eq!(said(&sites(vec![site("double", grown(80_000_000), 1)])), [] as [String; 0]);
}

#[test]
fn spread_memory_is_nobodys() {
    let many = (0..100).map(|i| site(&format!("f{i}"), holds(1 << 20), 100 << 20)).collect();
    assert_eq!(
        plain(&who_of(&sites(many))[0]),
        "Nobody in particular: 100 sites hold malloc's peak, none more than 1.0 % of it."
    );
}

#[test]
fn nobody_is_told_to_change_what_nobody_is_known_to_have_made() {
    let mapped = |name: &str| crate::sites::Outside {
        what: What::Mapped,
        name: name.into(),
        resident_bytes: 100 << 20,
        trend: Trend::Growing,
        ..Default::default()
    };
    let with = |name| Sites {
        whole_bytes: 200 << 20,
        outside: vec![mapped(name)],
        ..sites(vec![Site { trend: Trend::Growing, ..site(NO_STACK, holds(50 << 20), 50 << 20) }])
    };
    assert_eq!(said(&with(NO_STACK)), [] as [String; 0]);
    assert_eq!(
        plain(&who_of(&with(NO_STACK))[0]),
        "What many other calls mapped has 100 MiB in memory, 50.0 % of all but files."
    );
    assert_eq!(said(&with("grow_heap")).len(), 1);
}

#[test]
fn of_a_module_without_names_it_is_said_what_gives_them() {
    let nameless = Site { module: Some("app".into()), ..site("app+0x77", holds(1 << 20), 1 << 20) };
    let told = who_of(&sites(vec![nameless]));
    assert!(
        plain(told.last().unwrap())
            .starts_with("app has no names of functions here: a recording with its")
    );
}

/// Three quarters of what was read, and enough of it.
#[test]
fn a_site_whose_objects_are_mostly_zeroes_is_told_to_reserve_less() {
    let todo = |seen_bytes, blank_bytes| {
        let counts = Counts { seen_bytes, blank_bytes, ..holds(40 << 20) };
        let sites = Sites { seen_s: Some(2.0), ..sites(vec![site("cell", counts, 40 << 20)]) };
        let found = defects::find(&sites, false);
        found.first().map(|finding| plain(&finding.advice))
    };
    assert_eq!(
        todo(100 << 10, 80 << 10).unwrap(),
        "Reserve less, or later, in cell (cell.c:7), called by main (main.c:1): an estimated 32.0 MiB of its 40.0 MiB hold nothing but zeroes (some were looked at, at 2.00 s)."
    );
    assert_eq!(todo(100 << 10, 74 << 10), None, "doubling may leave so much");
    assert_eq!(todo(15 << 10, 15 << 10), None, "little was read");
}

/// Its pages are badly used; but a region of its own would be all there is (and a replay without it, of nothing).
#[test]
fn a_site_that_makes_everything_is_not_to_be_apart() {
    let pin = || {
        let counts = Counts { kept_page_bytes: 8 << 20, keeping_bytes: 1 << 20, ..holds(9 << 20) };
        site("pin", counts, 9 << 20)
    };
    assert!(trials(&sites(vec![pin()]), false).is_empty());
    assert_eq!(said(&sites(vec![pin()])), [] as [String; 0]);
    assert_eq!(trials(&sites(vec![pin(), site("other", holds(1), 9 << 20)]), false).len(), 1);
}

#[test]
fn what_was_tried_and_gives_nothing_is_no_advice() {
    let counts = Counts { kept_page_bytes: 8 << 20, keeping_bytes: 1 << 20, ..holds(9 << 20) };
    let sites = sites(vec![site("pin", counts, 9 << 20), site("other", holds(1), 9 << 20)]);
    let trial = trials(&sites, false).remove(0);
    let of = |peak: u64| Outcome {
        name: "glibc".into(),
        kind: Kind::Allocator,
        peak_memory: peak,
        seconds: Some(0.5),
        spread: Some(crate::results::Spread {
            runs: 3,
            seconds_min: 0.5,
            seconds_max: 0.5,
            memory_min: peak,
            memory_max: peak,
        }),
        ..Outcome::default()
    };
    let todo = |after: u64| {
        let tried =
            [Tried { trial: trial.clone(), before: of(30 << 20), after: of(after), apart: 0 }];
        let mut figures = Figures::default();
        figures.calls.malloc = 1;
        let program = Program {
            figures: &figures,
            sites: Some(&sites),
            resident: None,
            process: None,
            ticks_are_events: false,
            tried: &tried,
        };
        plain(&Answer::of_program(program).todo[0])
    };
    assert!(todo(10 << 20).starts_with("Allocate apart"), "{}", todo(10 << 20));
    assert!(todo(10 << 20).ends_with("saves 20.0 MiB of memory (at least 66.7 %)."));
    assert!(todo(30 << 20).starts_with("Keep what you have"), "{}", todo(30 << 20));
}
