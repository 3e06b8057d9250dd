//! The thread that gives memory back stands in nobody's way: it ends with its work, keeps nothing that the program gives up, and
//! can do next to nothing.

mod support;

use support::{compile, run};

const SKIPPED: i32 = 77;

#[track_caller]
fn passes(kind: &str, options: &[(&str, &str)]) {
    let program = compile("purged.c");
    let output = run(&program, &[kind], options);
    if output.status.code() == Some(SKIPPED) {
        return freehold_testkit::skip("this system does not let the test's program do that");
    }
    support::assert_passed(kind, &output);
}

fn it_lives_as_long_as_there_is_something_to_give_back() {
    passes("lives as long as there is work", &[]);
}

fn it_may_do_next_to_nothing() {
    passes("is confined", &[]);
}

fn it_keeps_no_user() {
    passes("keeps no user", &[]);
}

fn it_lets_namespaces_be_left() {
    passes("lets namespaces be left", &[]);
}

fn it_lets_namespaces_be_left_when_an_early_handler_of_fork_has_started_it() {
    passes("lets namespaces be left that an early handler found", &[]);
}

fn it_lets_all_threads_be_filtered() {
    passes("lets all threads be filtered", &[]);
}

fn it_ends_with_the_program() {
    passes("ends with the program", &[]);
}

fn it_is_not_there_when_switched_off() {
    passes("is not there", &[("FREEHOLD_PURGE", "off")]);
}

freehold_testkit::trials! {
    it_lives_as_long_as_there_is_something_to_give_back,
    it_may_do_next_to_nothing,
    it_keeps_no_user,
    it_lets_namespaces_be_left,
    it_lets_namespaces_be_left_when_an_early_handler_of_fork_has_started_it,
    it_lets_all_threads_be_filtered,
    it_ends_with_the_program,
    it_is_not_there_when_switched_off,
}
