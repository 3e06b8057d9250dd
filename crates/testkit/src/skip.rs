//! A test that lacks a tool says so, and fails in CI, where nothing may be skipped.

use std::io::Write;

/// A test does not run, and why. A trial ends here and counts as ignored (see
/// [`trials!`](crate::trials!)); a test of the standard harness, which cannot be ignored any
/// more, is told of on standard error, past the harness's capture, and must return.
///
/// # Panics
/// With `CI` set in the environment: there the tool must be installed.
pub fn skip(why: &str) {
    let line = format!("skipped: {why}\n");
    assert!(std::env::var_os("CI").is_none(), "in CI nothing is {line}");
    crate::trials::end_trial(why);
    // Not `eprintln`: the harness would keep it to itself as long as the test passes.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
