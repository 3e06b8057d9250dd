//! Forks that have hung allocators: with handlers that allocate, from threads that hold streams, by signal handlers, by hand.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use support::{compile, run};

#[track_caller]
fn passes(kind: &str, options: &[(&str, &str)]) {
    let program = compile("forked.c");
    support::assert_passed(kind, &run(&program, &[kind], options));
}

#[test]
fn handlers_that_were_registered_first_allocate() {
    passes("handlers", &[]);
}

#[test]
fn threads_hold_streams_while_another_forks() {
    passes("streams", &[]);
}

#[test]
fn a_signal_handler_forks_while_its_thread_forks_or_allocates() {
    passes("signals", &[]);
}

#[test]
fn a_child_of_a_signal_handler_goes_on_where_the_signal_came() {
    passes("signals, and goes on", &[]);
}

#[test]
fn a_copy_that_no_handler_was_told_of_allocates_and_gives_memory_back() {
    passes("raw", &[]);
}

/// The first thread of a copy that found out that it is one took the cache of the thread that was copied for a dead one's.
#[test]
fn a_copy_that_no_handler_was_told_of_starts_threads() {
    for kind in ["untold", "raw, and starts threads", "handlers start threads"] {
        passes(kind, &[]);
    }
}

/// Each looked for the C library's function, for which the loader has a lock.
#[test]
fn a_copy_made_while_another_thread_loads_a_library_may_make_every_call() {
    passes("libraries load", &[]);
}

#[test]
fn hardened_frees_fork_as_well() {
    for kind in ["handlers", "streams", "signals"] {
        passes(kind, &[("FREEHOLD_SECURE", "on")]);
    }
}

/// Blocks that a thread had put back, and another thread had already, were handed out twice in the child.
#[test]
fn what_threads_share_is_handed_out_once_in_a_child() {
    let program = compile("forks_shared.c");
    for options in [&[][..], &[("FREEHOLD_SECURE", "on")]] {
        support::assert_passed("forks_shared.c", &run(&program, &["60"], options));
    }
}

#[test]
fn profiles_fork_as_well() {
    for kind in ["handlers", "signals"] {
        passes(kind, &[("FREEHOLD_PROFILE", "/dev/null")]);
    }
}
