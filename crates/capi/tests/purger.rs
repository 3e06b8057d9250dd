//! The thread that gives memory back stands in nobody's way: it ends with its work, keeps nothing that the program gives up, and
//! can do next to nothing.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
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

/// The system calls that the guide tells a filter that kills to allow, between two of its phrases.
fn calls_to_allow(from: &str, to: &str) -> Vec<&'static str> {
    let guide = include_str!("../USE.md");
    let (_, list) = guide.split_once(from).expect("the guide says so");
    let (list, _) = list.split_once(to).expect("and so");
    list.split('`').skip(1).step_by(2).collect()
}

#[track_caller]
fn lives_under_a_filter_that_allows(calls: &[&str], options: &[(&str, &str)]) {
    let output = run(&compile("filtered.c"), calls, options);
    if output.status.code() == Some(SKIPPED) {
        return freehold_testkit::skip("this system has no filters of system calls");
    }
    support::assert_passed(&format!("allowed: {}", calls.join(" ")), &output);
}

fn what_the_guide_says_is_enough_for_a_filter_that_kills() {
    let own = calls_to_allow("must allow", "and for the purger");
    let purger = calls_to_allow("and for the purger", "(or set");
    assert!(own.len() > 5 && purger.len() > 5, "{own:?} {purger:?}");
    let (purge, nodes) = (("FREEHOLD_PURGE", "off"), ("FREEHOLD_NODES", "off"));
    lives_under_a_filter_that_allows(&own, &[purge, nodes]);
    lives_under_a_filter_that_allows(&[own, purger].concat(), &[nodes]);
}

/// A debugger stops it as any thread, and lets it go on.
fn a_debugger_may_attach_while_it_is_there() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};
    if Command::new("gdb").arg("--version").output().is_err() {
        return freehold_testkit::skip("there is no gdb here (apt install gdb)");
    }
    let program = compile("purged.c");
    let mut command = Command::new(&program);
    command.arg("rests beside a debugger").env("LD_PRELOAD", support::library());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("what was compiled runs");
    let mut line = String::new();
    let said = BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line);
    let number = line.trim_end().strip_prefix("there: ").unwrap_or("?");
    assert!(said.is_ok() && number.parse::<u32>().is_ok(), "{line}");
    let gdb = Command::new("gdb")
        .args(["-nx", "-batch", "-p", &child.id().to_string(), "-ex", "info threads"])
        .output()
        .expect("it was there");
    let (out, err) = (String::from_utf8_lossy(&gdb.stdout), String::from_utf8_lossy(&gdb.stderr));
    let ended = child.wait().expect("a child of ours");
    if err.contains("ptrace") {
        return freehold_testkit::skip("nobody may trace a process here");
    }
    assert!(out.contains(&format!("LWP {number}")), "{out}{err}");
    assert!(ended.success(), "{ended}: {out}{err}");
}

freehold_testkit::trials! {
    it_lives_as_long_as_there_is_something_to_give_back,
    it_may_do_next_to_nothing,
    it_keeps_no_user,
    it_lets_namespaces_be_left,
    it_lets_namespaces_be_left_when_an_early_handler_of_fork_has_started_it,
    it_lets_all_threads_be_filtered,
    it_ends_with_the_program,
    what_the_guide_says_is_enough_for_a_filter_that_kills,
    a_debugger_may_attach_while_it_is_there,
    it_is_not_there_when_switched_off,
}
