//! Our own long tests, in the long form only: the oracle for millions of calls, ThreadSanitizer, minutes of forks,
//! signals, threads, libraries, privileges given up, and rest; and a server that moves its blocks.
//!
//! The sanitizer works on the stable compiler once it is told to accept the flag (`RUSTC_BOOTSTRAP`); the standard
//! library stays without it, which is why the example it runs orders its threads by atomics of its own. Neither is part
//! of `cargo test`.

use super::Workshop;
use super::battery::{Finding, Tally};
use super::case::{Case, Verdict};
use super::column::{self, Columns};
use crate::bench::peers;
use crate::bench::place::must;
use anyhow::Context;
use std::process::Command;
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
    case: fn(&Workshop) -> anyhow::Result<Case>,
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
    Own {
        name: "churn",
        sentence: "forks, signals, threads, dlclose, privileges given up, rest: no hang, no growth (long form; --minutes)",
        case: churn,
    },
    Own {
        name: "valkey",
        sentence: "valkey moves its values to fuller slabs: activedefrag by freehold_utilization (long form; --sources)",
        case: valkey,
    },
];

fn cargo(name: &str, words: &[&str]) -> Case {
    let command = std::iter::once(env!("CARGO")).chain(words.iter().copied());
    Case {
        at: Some(crate::sources::root()),
        limit: Duration::from_secs(3600),
        under: &[],
        ..Case::new(name, command)
    }
}

fn oracle(_: &Workshop) -> anyhow::Result<Case> {
    let test = ["test", "--release", "--package", "freehold-testkit", "--test", "malloc_oracle"];
    let env = vec![("FREEHOLD_CALLS", CALLS.to_owned()), ("PROPTEST_CASES", PROGRAMS.to_owned())];
    Ok(Case { env, ..cargo("oracle", &test) })
}

fn sanitizer(workshop: &Workshop) -> anyhow::Result<Case> {
    let target = workshop.place.target.join("soak/sanitizer").display().to_string();
    let run = ["run", "--release", "--target", TARGET, "--target-dir", &target];
    let which = ["--package", "freehold-testkit", "--example", "races", "--", SANITIZED_CALLS];
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
    Ok(Case {
        env: vec![
            ("RUSTC_BOOTSTRAP", "1".to_owned()),
            ("RUSTFLAGS", flags.to_owned()),
            ("TSAN_OPTIONS", "halt_on_error=1".to_owned()),
        ],
        ..cargo("sanitizer", &[&run[..], &which].concat())
    })
}

/// A C program under the library, plain and with FREEHOLD_SECURE=1.
fn churn(workshop: &Workshop) -> anyhow::Result<Case> {
    let sources = workshop.scripts.join("churn");
    let program = workshop.place.scratch.join("churn-program");
    let plugin = workshop.place.scratch.join("churn-plugin.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-pthread", "-o"]).arg(&program);
    compiler.args([sources.join("churn.c"), sources.join("drops.c")]).arg("-ldl");
    must(&mut compiler, "churn.c does not compile")?;
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-o"]).arg(&plugin).arg(sources.join("plugin.c"));
    must(&mut compiler, "plugin.c does not compile")?;
    let minutes = workshop.minutes.to_string();
    Ok(Case {
        under: column::HARDENED,
        limit: Duration::from_secs(120 + u64::from(workshop.minutes) * 90),
        ..Case::new("churn", [program.as_os_str(), minutes.as_ref(), plugin.as_os_str()])
    })
}

/// Valkey, built against the library: a clone of its source in the folder `valkey` of `--sources`.
fn valkey(workshop: &Workshop) -> anyhow::Result<Case> {
    let source = workshop.sources.as_ref().map(|folder| folder.join("valkey"));
    let source = source.filter(|source| source.is_dir());
    let source = source
        .context("it takes a clone of valkey's source: --sources FOLDER, with a folder valkey")?;
    let library = peers::freehold(&workshop.place)?.library;
    let script = workshop.scripts.join("valkey/defrag.sh");
    let words = ["bash".into(), script.into_os_string(), source.into(), library.into()];
    Ok(Case { under: &[], limit: Duration::from_secs(1200), ..Case::new("valkey", words) })
}

/// Runs one, once in each of its ways: nothing is compared with glibc.
pub fn run(own: &Own, workshop: &Workshop, columns: &Columns) -> anyhow::Result<Tally> {
    let case = (own.case)(workshop)?;
    let logs = workshop.place.target.join("soak/logs");
    std::fs::create_dir_all(&logs)?;
    let mut tally = Tally { alone: true, ..Tally::default() };
    let ways: Vec<_> = columns.of(&case).into_iter().map(Some).collect();
    for way in if case.under.is_empty() { vec![None] } else { ways } {
        let name = way.map_or(own.name.to_owned(), |way| format!("{}.{}", own.name, way.name()));
        let log = logs.join(&name);
        let dressed = columns.dress(&case, way, &log);
        let preload = columns.preload(way, false);
        let verdict = dressed.run(&preload, &workshop.place.scratch.join(&name), &log)?;
        tally.counted += 1;
        if let Verdict::Failed(why) = verdict {
            tally.findings.push(Finding { case: name, why, log });
        }
    }
    Ok(tally)
}
