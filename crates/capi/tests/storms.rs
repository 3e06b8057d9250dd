//! libfreehold.so where programs are unkind: thousands of threads, forks from many threads at once, the library loaded
//! and unloaded under its users, and a system that refuses memory or calls.
//!
//! Each program of `programs/storm_*.c` looks at its contents all the way and at its memory afterwards.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use support::{compile, library, run};

#[track_caller]
fn passes(source: &str, arguments: &[&str]) {
    let program = compile(source);
    support::assert_passed(source, &run(&program, arguments, &[]));
}

fn ten_thousand_threads_leave_nothing_behind() {
    passes("storm_threads.c", &[]);
}

fn twenty_thousand_threads_at_once_leave_little() {
    let program = compile("storm_alive.c");
    let output = run(&program, &[], &[]);
    if output.status.code() == Some(77) {
        return freehold_testkit::skip("this system lets a process have less than 2,000 threads");
    }
    support::assert_passed("storm_alive.c", &output);
}

fn threads_without_a_pthread_key_lose_nothing() {
    passes("storm_alive.c", &["keys"]);
}

/// The system may not have so much to promise.
fn long_zeroed_blocks_are_neither_written_nor_resident() {
    let output = run(&compile("zeroed.c"), &[], &[]);
    if output.status.code() == Some(77) {
        return freehold_testkit::skip("this system does not promise 2 GiB");
    }
    support::assert_passed("zeroed.c", &output);
}

fn forks_from_many_threads_at_once() {
    passes("storm_forks.c", &[]);
}

/// Not preloaded: the library comes late, its thread-local word from the surplus, and it goes under its users' feet.
fn loaded_and_unloaded_under_threads_that_use_it() {
    let program = compile("storm_loads.c");
    let path = library().to_str().expect("a path of ours");
    let output = std::process::Command::new(&program).arg(path).output().expect("it was compiled");
    support::assert_passed("storm_loads.c", &output);
}

/// A library that was linked statically into two others, or is both linked and preloaded.
fn a_dozen_copies_in_one_process() {
    let program = compile("copies.c");
    // Not for another run of this test at the same time, which would write over what this one has loaded.
    let own = support::folder().join(format!("copies-{}", std::process::id()));
    std::fs::create_dir_all(&own).expect("the target folder takes another");
    let copies: Vec<_> = (0..12)
        .map(|number| {
            let copy = own.join(format!("copy-{number}.so"));
            std::fs::copy(library(), &copy).expect("the target folder takes a small file");
            copy
        })
        .collect();
    let output = std::process::Command::new(&program).args(copies).output();
    support::assert_passed("copies.c", &output.expect("it was compiled"));
}

fn a_quarter_of_a_gigabyte_of_address_space() {
    passes("storm_refused.c", &["space"]);
}

/// `RLIMIT_DATA` counts what strict overcommit counts, private writable memory, and refuses where that does: when
/// reserved pages are to be committed.
fn commits_that_are_refused() {
    passes("storm_refused.c", &["data"]);
}

fn a_sandbox_that_refuses_calls() {
    let program = compile("storm_refused.c");
    let output = run(&program, &["calls"], &[]);
    if output.status.code() == Some(77) {
        return freehold_testkit::skip("this kernel has no seccomp filters");
    }
    support::assert_passed("storm_refused.c calls", &output);
}

freehold_testkit::trials! {
    ten_thousand_threads_leave_nothing_behind,
    twenty_thousand_threads_at_once_leave_little,
    threads_without_a_pthread_key_lose_nothing,
    long_zeroed_blocks_are_neither_written_nor_resident,
    forks_from_many_threads_at_once,
    loaded_and_unloaded_under_threads_that_use_it,
    a_dozen_copies_in_one_process,
    a_quarter_of_a_gigabyte_of_address_space,
    commits_that_are_refused,
    a_sandbox_that_refuses_calls,
}
