//! The allocators that distributions ship, each a trial that counts as ignored where it is not installed.

mod common;

use common::{measure, quick, tangle};
use freehold_lab::real::{Allocator, installed};

/// Replays a tangle of threads on it.
fn replays_a_tangle(allocator: &Allocator) {
    let outcome = measure(&tangle(4, 50_000, 6), allocator, &quick()).outcome;
    assert_eq!(outcome.failures, 0);
    assert!(outcome.peak_memory >= outcome.peak_live, "{}", outcome.name);
    assert!(outcome.seconds.is_some_and(|seconds| seconds > 0.0));
    assert!(outcome.library.is_some_and(|library| library.contains(".so")));
}

fn known(name: &str) {
    match installed(&[]).iter().find(|one| one.name == name) {
        Some(allocator) => replays_a_tangle(allocator),
        None => freehold_testkit::skip(&format!("{name} is not installed")),
    }
}

fn jemalloc() {
    known("jemalloc");
}

fn mimalloc() {
    known("mimalloc");
}

fn tcmalloc() {
    known("tcmalloc");
}

/// Whatever else is found, glibc among it.
fn every_other_allocator_of_this_machine() {
    let found = installed(&[]);
    assert!(found.iter().any(|one| one.name == "glibc"));
    let others = found
        .iter()
        .filter(|one| !["jemalloc", "mimalloc", "tcmalloc"].contains(&one.name.as_str()));
    others.for_each(replays_a_tangle);
}

freehold_testkit::trials! {
    jemalloc,
    mimalloc,
    tcmalloc,
    every_other_allocator_of_this_machine,
}
