//! The gate of replay: instructions an event, counted by valgrind. They do not depend on the machine's mood, as the
//! events a second of `examples/replay_speed.rs` do.
//!
//! Counted is that example, built as it is released: once with the policy and once without one, so that making and
//! surveying the trace cancel out. What is left is decoding, merging, the policy and what is measured of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const EVENTS: u64 = 80_000;
/// Objects alive; more would take more events to grow to.
const LIVE: u64 = 10_000;

/// Most instructions an event, a tenth above what was counted.
const BOUNDS: [(&str, u64); 3] = [("good-fit", 870), ("first-fit", 1050), ("best-fit", 950)];

/// The example, built as it is released.
fn example() -> PathBuf {
    // …/target/debug/deps/replay_instructions-0123456789abcdef
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--package", "freehold-lab"])
        .args(["--example", "replay_speed"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target)
        .status()
        .expect("cargo runs: it runs this test");
    assert!(built.success(), "the example does not build");
    target.join("release/examples/replay_speed")
}

/// Instructions of a run that replays on `policy`.
fn count(example: &Path, folder: &Path, policy: &str) -> u64 {
    let out = folder.join(policy);
    let run = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no"])
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(example)
        .args([EVENTS.to_string(), LIVE.to_string(), policy.to_owned()])
        .stdin(Stdio::null())
        .output()
        .expect("valgrind was asked for its version before");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(out).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("summary: ")).unwrap();
    total.trim().parse().unwrap()
}

fn an_event_takes_no_more_instructions_than_it_may() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return freehold_testkit::skip("there is no valgrind here (apt install valgrind)");
    }
    let (example, folder) = (example(), tempfile::tempdir().unwrap());
    // A name that no policy has: the survey alone.
    let survey = count(&example, folder.path(), "none");
    for (policy, bound) in BOUNDS {
        let found = (count(&example, folder.path(), policy) - survey) / EVENTS;
        println!("{policy}: {found} instructions an event, may be {bound}");
        assert!(found <= bound, "{policy}: {found} instructions an event, may be {bound}");
        assert!(found * 2 > bound, "{policy}: the bound of {bound} is far from {found}: lower it");
    }
}

freehold_testkit::trials! {
    an_event_takes_no_more_instructions_than_it_may,
}
