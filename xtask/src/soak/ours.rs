//! Our own long tests, in the long form only: the oracle for millions of calls, and ThreadSanitizer.
//!
//! The sanitizer works on the stable compiler once it is told to accept the flag (`RUSTC_BOOTSTRAP`); the standard
//! library stays without it, which is why the example it runs orders its threads by atomics of its own. Neither is part
//! of `cargo test`.

use super::Workshop;
use super::battery::{Finding, Tally};
use super::case::{Case, Verdict};
use std::time::Duration;

/// Calls of each thread under the oracle.
const CALLS: &str = "2500000";
/// Programs of the single-threaded hunts.
const PROGRAMS: &str = "1000";
/// Calls of each thread under the sanitizer: a hundred times slower.
const SANITIZED_CALLS: &str = "300000";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A test of ours.
pub struct Own {
    pub name: &'static str,
    pub sentence: &'static str,
    case: fn(&Workshop) -> Case,
}

/// All of them.
pub const ALL: &[Own] = &[
    Own {
        name: "oracle",
        sentence: "the malloc under the oracle, 10 million calls (long form)",
        case: oracle,
    },
    Own {
        name: "sanitizer",
        sentence: "the malloc under ThreadSanitizer (long form)",
        case: sanitizer,
    },
];

fn cargo(name: &str, words: &[&str]) -> Case {
    let command = std::iter::once(env!("CARGO")).chain(words.iter().copied());
    Case {
        at: Some(crate::sources::root()),
        limit: Duration::from_secs(3600),
        ..Case::new(name, command)
    }
}

fn oracle(_: &Workshop) -> Case {
    let test = ["test", "--release", "--package", "freehold-testkit", "--test", "malloc_oracle"];
    let env = vec![("FREEHOLD_CALLS", CALLS.to_owned()), ("PROPTEST_CASES", PROGRAMS.to_owned())];
    Case { env, ..cargo("oracle", &test) }
}

fn sanitizer(workshop: &Workshop) -> Case {
    let target = workshop.place.target.join("soak/sanitizer").display().to_string();
    let run = ["run", "--release", "--target", TARGET, "--target-dir", &target];
    let which = ["--package", "freehold-testkit", "--example", "races", "--", SANITIZED_CALLS];
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
    Case {
        env: vec![
            ("RUSTC_BOOTSTRAP", "1".to_owned()),
            ("RUSTFLAGS", flags.to_owned()),
            ("TSAN_OPTIONS", "halt_on_error=1".to_owned()),
        ],
        ..cargo("sanitizer", &[&run[..], &which].concat())
    }
}

/// Runs one, once: there is no other column to compare with.
pub fn run(own: &Own, workshop: &Workshop) -> anyhow::Result<Tally> {
    let case = (own.case)(workshop);
    let log = workshop.place.target.join("soak/logs").join(own.name);
    std::fs::create_dir_all(workshop.place.target.join("soak/logs"))?;
    let verdict = case.run("", &workshop.place.scratch.join(own.name), &log)?;
    let mut tally = Tally { alone: true, counted: 1, ..Tally::default() };
    if let Verdict::Failed(why) = verdict {
        tally.findings.push(Finding { case: own.name.to_owned(), why, log });
    }
    Ok(tally)
}
