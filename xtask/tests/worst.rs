//! The gate: bounds that the documentation of the real-time heap states. Ignored, and counted so, where
//! instructions cannot be counted or there is no objdump.

use freehold_stepper::Stepper;
use freehold_testkit::skip;
use xtask::worst::adversaries::ADVERSARIES;
use xtask::worst::loops::{self, Functions};
use xtask::worst::subject::{Gauge, Subject, Worst};
use xtask::worst::{FAST, Library, STRICT, TAKING_IN, ours, play};

/// Instructions: malloc, free. Without blocks in the inbox. Strict mode: four levels, the most there are.
const FAST_BOUND: (u64, u64) = (100, 100);
const STRICT_BOUND: (u64, u64) = (200, 200);

fn no_call_of_either_mode_is_longer_than_it_may_be() {
    let Some(mut stepper) = Stepper::new() else {
        return skip("instructions are counted on x86-64 Linux only");
    };
    let library = library();
    for (subject, bound) in
        ours(&library.path).expect("it loads").iter().zip([FAST_BOUND, STRICT_BOUND])
    {
        for adversary in ADVERSARIES {
            let worst = play(subject, Gauge::Steps(&mut stepper), adversary, 40);
            let Worst { malloc, free, calls } = worst.expect("a heap");
            let (malloc, free) = (malloc.instructions, free.instructions);
            let what = format!("{}, {}: {malloc}/{free}", subject.name, adversary.name);
            assert!(calls > 10, "{what}: only {calls} calls");
            assert!(malloc <= bound.0 && free <= bound.1, "{what}, may be {bound:?}");
        }
    }
}

/// The same with frees sent by the inbox, in heaps of 64 MiB at most: a malloc takes one in first. The fast mode's,
/// the strict mode's.
const WITH_NEWS: [(u64, u64); 2] = [(500, 120), (600, 120)];

fn a_malloc_that_takes_in_a_block_is_bounded_too() {
    let Some(mut stepper) = Stepper::new() else {
        return skip("instructions are counted on x86-64 Linux only");
    };
    let library = library();
    let fast = [FAST[0], FAST[1], "freehold_fast_send"];
    let strict = [STRICT[0], STRICT[1], "freehold_strict_send"];
    for (functions, bound) in [fast, strict].into_iter().zip(WITH_NEWS) {
        let subject = Subject::of(functions[2], &library.path, functions).expect("it loads");
        for adversary in &ADVERSARIES[..5] {
            let worst = play(&subject, Gauge::Steps(&mut stepper), adversary, 40).expect("a heap");
            let what = format!("{}, {}: {worst:?}", subject.name, adversary.name);
            let (malloc, free) = (worst.malloc.instructions, worst.free.instructions);
            assert!(malloc <= bound.0 && free <= bound.1, "{what}, may be {bound:?}");
        }
    }
}

/// The only loops that calls of either mode can reach: named, each with its bound.
const BOUNDED: &[(&str, &str)] = &[
    (
        "take_in",
        "the levels of the inbox, at most 6: down to a place, and up from a word that became zero",
    ),
    ("malloc_slow", "the same, inlined: runs only when another thread has freed a block"),
];

fn the_only_loops_are_those_with_a_bound() {
    let Some(functions) = functions() else { return skip("there is no objdump here") };
    for root in [FAST[1], FAST[2], STRICT[1], STRICT[2]] {
        for (name, loops) in loops::loops_below(&functions, root).expect("it is exported") {
            let known = BOUNDED.iter().any(|(function, _)| name.ends_with(function));
            assert!(known, "{root} reaches {name}, which has {loops} loops that nothing bounds");
        }
    }
}

/// The longest path through the code of a function, which no call can exceed.
const PATHS: &[(&str, u64)] = &[
    ("freehold_fast_malloc", 100),
    ("freehold_fast_free", 100),
    ("freehold_fast_aligned_alloc", 340),
    ("freehold_fast_resize", 140),
    ("freehold_strict_malloc", 200),
    ("freehold_strict_free", 200),
    ("freehold_strict_aligned_alloc", 220),
    ("freehold_strict_resize", 440),
];

fn no_path_through_the_code_is_longer_than_a_call_may_be() {
    let Some(functions) = functions() else { return skip("there is no objdump here") };
    for &(root, bound) in PATHS {
        let longest = loops::longest(&functions, root, &TAKING_IN);
        let longest = longest.unwrap_or_else(|| panic!("{root} has no bound"));
        assert!(longest <= bound, "{root}: {longest} instructions, may be {bound}");
    }
}

fn library() -> Library {
    Library::build().expect("the library builds")
}

/// The library's, disassembled; `None` without objdump.
fn functions() -> Option<Functions> {
    loops::functions(&library().path).expect("objdump works")
}

freehold_testkit::trials! {
    no_call_of_either_mode_is_longer_than_it_may_be,
    a_malloc_that_takes_in_a_block_is_bounded_too,
    the_only_loops_are_those_with_a_bound,
    no_path_through_the_code_is_longer_than_a_call_may_be,
}
