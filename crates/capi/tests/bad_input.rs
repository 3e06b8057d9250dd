//! What libfreehold.so says to programs and people who are wrong: a table of errors, each noticed by one line and an
//! abort; a table of calls and what the standards answer; a table of options and what is said of them.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use support::{compile, run, unnoticed};

const DOUBLE: &str = "double free";
const NOT_OURS: &str = "not a block of this heap, or freed already";
const ASTRAY: &str = "no block starts at";
const SIZED: &str = "another size";
/// Who comes later cannot always tell the one from the other: the slab may have become something else.
const EITHER: &str = "free";

/// What a program does wrong (`programs/bad_input.c`), and what it is told.
const ERRORS: &[(&str, &str)] = &[
    ("small twice", DOUBLE),
    ("medium twice", DOUBLE),
    ("large twice", NOT_OURS),
    ("twice with others between", DOUBLE),
    ("twice, the second by another thread", DOUBLE),
    ("twice, the first by another thread", EITHER),
    ("twice, both by other threads", DOUBLE),
    ("twice, memory given back between", EITHER),
    ("large twice, given back between", NOT_OURS),
    ("realloc of a freed block", EITHER),
    ("realloc of a freed large block", NOT_OURS),
    ("stack", NOT_OURS),
    ("global", NOT_OURS),
    ("code", NOT_OURS),
    ("first page", NOT_OURS),
    ("end of memory", NOT_OURS),
    ("not canonical", NOT_OURS),
    ("another mapping", NOT_OURS),
    ("realloc of the stack", NOT_OURS),
    ("usable size of the stack", NOT_OURS),
    ("inside a large block", NOT_OURS),
    ("a later unit of a large block", NOT_OURS),
    ("inside a small block", ASTRAY),
    ("inside a medium block", ASTRAY),
    ("odd address", ASTRAY),
    ("a link overwritten", ASTRAY),
    ("realloc of a freed block, same size", DOUBLE),
    ("realloc inside a small block", NOT_OURS),
    ("a size too large", SIZED),
    ("a size too small", SIZED),
    ("a size of a large block", SIZED),
    ("a size with another alignment", NOT_OURS),
    ("far behind a block", NOT_OURS),
];

/// Fails with all that went unnoticed, and how.
#[track_caller]
fn assert_all_noticed(options: &[(&str, &str)], message: impl Fn(&'static str) -> &'static str) {
    let program = compile("bad_input.c");
    let wrong: Vec<String> = ERRORS
        .iter()
        .filter_map(|&(kind, said)| unnoticed(&program, kind, message(said), options))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), ERRORS.len(), wrong.join("\n"));
}

#[test]
fn every_error_is_named_in_one_line_and_stops_the_program() {
    assert_all_noticed(&[], |message| message);
}

/// It may say more than the default does.
#[test]
fn the_secure_mode_notices_no_less() {
    assert_all_noticed(&[("FREEHOLD_SECURE", "on")], |_| "");
}

#[test]
fn calls_answer_as_the_standards_say() {
    let program = compile("answers.c");
    support::assert_passed("answers.c", &run(&program, &[], &[]));
}

/// Options that are not understood: the program runs as if they were not there, and one line names each.
#[test]
fn options_that_are_none() {
    let program = compile("answers.c");
    let long = "x".repeat(5000);
    let table: &[(&str, &str)] = &[
        ("FREEHOLD_LIMIT", ""),
        ("FREEHOLD_LIMIT", "-1"),
        ("FREEHOLD_LIMIT", "much"),
        ("FREEHOLD_LIMIT", "1.5G"),
        ("FREEHOLD_LIMIT", "2GB"),
        ("FREEHOLD_LIMIT", "1K"),
        ("FREEHOLD_LIMIT", "99999999999999999999999"),
        ("FREEHOLD_LIMIT", "17179869184G"),
        ("FREEHOLD_LIMIT", &long),
        ("FREEHOLD_PURGE", "sometimes"),
        ("FREEHOLD_PURGE", "ON "),
        ("FREEHOLD_PROFILE_RATE", "0"),
        ("FREEHOLD_PROFILE_RATE", "2G"),
        ("FREEHOLD_SECURE", "2"),
        ("FREEHOLD_STATS", "\u{fffd}%s%n"),
        ("FREEHOLD_PURGE", "off\nfreehold: all is well"),
        ("FREEHOLD_THP", "Always"),
        ("FREEHOLD_LIMTI", "2G"),
        ("FREEHOLD_", "on"),
    ];
    for &(name, value) in table {
        let output = run(&program, &[], &[(name, value)]);
        let said = String::from_utf8_lossy(&output.stderr);
        let shown = &value[..value.len().min(40)];
        support::assert_passed(&format!("{name}={shown}"), &output);
        let named = said.starts_with(&format!("freehold: ignoring {name}"));
        assert!(named && said.lines().count() == 1 && said.len() < 400, "{name}={shown}: {said:?}");
    }
}

#[test]
fn options_that_are_understood_are_silent() {
    let program = compile("answers.c");
    let table = [
        ("FREEHOLD_LIMIT", "none"),
        ("FREEHOLD_LIMIT", "auto"),
        ("FREEHOLD_LIMIT", "900M"),
        ("FREEHOLD_LIMIT", "1T"),
        ("FREEHOLD_PURGE", "off"),
        ("FREEHOLD_THP", "never"),
        ("FREEHOLD_SECURE", "on"),
        ("FREEHOLD_STATS", "on"),
        ("FREEHOLDER", "nobody's"),
    ];
    for (name, value) in table {
        let output = run(&program, &[], &[(name, value)]);
        support::assert_passed(&format!("{name}={value}"), &output);
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
