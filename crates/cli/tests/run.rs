//! `freehold run` from outside.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freehold")).arg("run").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_runs_on_the_library_and_keeps_its_status() {
    let output = run(&["--", "sh", "-c", "cat /proc/self/maps; exit 7"]);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(shown.contains("libfreehold.so"), "{shown}");
    assert!(said.starts_with("freehold run: ") && said.contains("peak memory"), "{said}");
    // Most shells leave by `_exit`; what they started did not.
    assert_eq!((said.lines().count(), output.status.code()), (2, Some(7)), "{said}");
}

#[test]
fn quiet_says_nothing_and_signals_are_statuses() {
    let output =
        run(&["--quiet", "--no-purge", "--", "sh", "-c", "echo $FREEHOLD_PURGE; kill -9 $$"]);
    assert_eq!((text(&output.stdout).as_str(), text(&output.stderr).as_str()), ("off\n", ""));
    assert_eq!(output.status.code(), Some(128 + 9));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let output = run(&["--", "/nowhere/at/all"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(text(&output.stderr).contains("/nowhere/at/all"), "{}", text(&output.stderr));
}

#[test]
fn the_library_has_a_path() {
    let output = run(&["--library"]);
    let path = text(&output.stdout);
    assert!(std::path::Path::new(path.trim_end()).is_file(), "{path}");
}

#[test]
fn options_reach_the_program_and_their_figures_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("heap.pb");
    let output = run(&[
        "--stats",
        "--secure",
        "--limit",
        "1G",
        "--profile",
        profile.to_str().unwrap(),
        "--",
        "env",
    ]);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}");
    for variable in ["FREEHOLD_LIMIT=1G\n", "FREEHOLD_SECURE=on\n", "FREEHOLD_STATS=on\n"] {
        assert!(shown.contains(variable), "{shown}");
    }
    assert!(said.contains("freehold run: heap at the end: "), "{said}");
    assert!(said.contains(" blocks handed out (") && said.lines().count() == 3, "{said}");
    assert!(profile.metadata().unwrap().len() > 100);
}

#[test]
fn a_program_that_is_killed_leaves_no_figures_and_that_is_said() {
    let output = run(&["--", "sh", "-c", "kill -9 $$"]);
    assert!(text(&output.stderr).contains("no figures of the heap"), "{}", text(&output.stderr));
}
