//! `sections.ld` names functions by their mangled names: a rename would move code silently.

#[allow(dead_code, reason = "every test file has all of it, and uses some")]
mod support;

use std::ffi::CString;
use std::process::Command;

/// What the script calls sections of functions, without `.text.`.
fn patterns() -> Vec<&'static str> {
    let mut script = include_str!("../sections.ld");
    let mut patterns = Vec::new();
    while let Some((code, rest)) = script.split_once("/*").or(Some((script, ""))) {
        let words = code.split(|c: char| c.is_whitespace() || c == '(' || c == ')');
        patterns.extend(words.filter_map(|word| word.strip_prefix(".text.")));
        match rest.split_once("*/") {
            Some((_, after)) => script = after,
            None => break,
        }
    }
    // All that is left.
    patterns.retain(|pattern| !["rare", "*"].contains(pattern));
    patterns
}

fn matches(pattern: &str, name: &str) -> bool {
    let [pattern, name] = [pattern, name].map(|text| CString::new(text).expect("no zero byte"));
    // SAFETY: two C strings.
    unsafe { libc::fnmatch(pattern.as_ptr(), name.as_ptr(), 0) == 0 }
}

fn every_name_in_the_linkers_script_is_a_functions() {
    let Ok(listed) = Command::new("nm").arg(support::library()).output() else {
        return freehold_testkit::skip("there is no nm here (apt install binutils)");
    };
    let listed = String::from_utf8(listed.stdout).expect("names of ours");
    let names: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next_back()).collect();
    let patterns = patterns();
    assert!(patterns.len() > 30 && names.len() > 100, "{} {}", patterns.len(), names.len());
    for pattern in patterns {
        assert!(names.iter().any(|name| matches(pattern, name)), "no function is called {pattern}");
    }
}

freehold_testkit::trials! { every_name_in_the_linkers_script_is_a_functions }
