//! The gate of replay: instructions an event, counted by valgrind. They do not depend on the machine's mood, as the
//! events a second of `examples/replay_speed.rs` do.
//!
//! Counted is that example, built as it is released: once with the policy and once without one, so that making and
//! surveying the trace cancel out. What is left is decoding, merging, the policy and what is measured of it.

use freehold_testkit::instructions::Counted;

const EVENTS: u64 = 80_000;
/// Objects alive; more would take more events to grow to.
const LIVE: u64 = 10_000;

/// Most instructions an event, a tenth above what was counted.
const BOUNDS: [(&str, u64); 3] = [("good-fit", 870), ("first-fit", 1050), ("best-fit", 950)];

fn an_event_takes_no_more_instructions_than_it_may() {
    let example = Counted::example("freehold-lab", "replay_speed");
    let count = |policy| example.run(&[&EVENTS.to_string(), &LIVE.to_string(), policy]).0;
    // A name that no policy has: the survey alone.
    let survey = count("none");
    for (policy, bound) in BOUNDS {
        let found = (count(policy) - survey) / EVENTS;
        println!("{policy}: {found} instructions an event, may be {bound}");
        assert!(found <= bound, "{policy}: {found} instructions an event, may be {bound}");
        assert!(found * 2 > bound, "{policy}: the bound of {bound} is far from {found}: lower it");
    }
}

freehold_testkit::trials! {
    an_event_takes_no_more_instructions_than_it_may,
}
