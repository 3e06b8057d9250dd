//! The gate of page frames: instructions a pair of calls, an allocation and a free, counted by valgrind. They do not depend on
//! the machine's mood, as the nanoseconds of `freehold-lab`'s `frames_speed` do.
//!
//! Counted is the example `frames_calls`, built as it is released: once with the workload and once without, so that making
//! the zone cancels out. Left is the loop around the calls, some thirty instructions a pair, the same for every policy.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Workload, order, and how many hundredths of our Linux-like buddy's instructions a policy of ours may take; beside it what it
/// takes and what the buddy does. (2 MiB are nearest: a set changes its bucket, and a group its list, where the buddy relinks a
/// block and knows of no set.)
const BOUNDS: [(&str, u8, u64); 6] = [
    ("bulk", 0, 81),   // 323, 415
    ("repeat", 0, 69), // 703, 1071
    ("random", 0, 82), // 341, 433
    ("bulk", 9, 99),   // 373, 385
    ("repeat", 9, 66), // 258, 414
    ("random", 9, 99), // 372, 381
];

/// The example, built as it is released.
fn example() -> PathBuf {
    // …/target/debug/deps/frames_instructions-0123456789abcdef
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--package", "freehold-testkit"])
        .args(["--example", "frames_calls"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target)
        .status()
        .expect("cargo runs: it runs this test");
    assert!(built.success(), "the example does not build");
    target.join("release/examples/frames_calls")
}

/// Instructions of a run, and the calls that were counted in it.
fn count(example: &Path, folder: &Path, policy: &str, workload: &str, order: u8) -> (u64, u64) {
    let out = folder.join(policy);
    let run = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=no"])
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(example)
        .args([policy, workload, &order.to_string()])
        .stdin(Stdio::null())
        .output()
        .expect("valgrind was asked for its version before");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = std::fs::read_to_string(out).unwrap();
    let total = text.lines().find_map(|line| line.strip_prefix("summary: ")).unwrap();
    let calls = String::from_utf8(run.stdout).unwrap();
    (total.trim().parse().unwrap(), calls.trim().parse().unwrap())
}

/// Tenths of instructions a pair.
fn a_pair(example: &Path, folder: &Path, policy: &str, workload: &str, order: u8) -> u64 {
    let (without, _) = count(example, folder, policy, "none", order);
    let (with, calls) = count(example, folder, policy, workload, order);
    (with - without) * 20 / calls
}

fn a_pair_of_calls_takes_no_more_instructions_than_it_may() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return freehold_testkit::skip("there is no valgrind here (apt install valgrind)");
    }
    let (example, folder) = (example(), tempfile::tempdir().unwrap());
    for (workload, order, bound) in BOUNDS {
        let of = |policy| a_pair(&example, folder.path(), policy, workload, order);
        let buddy = of("buddy");
        for policy in ["adaptive", "fullest"] {
            let found = of(policy);
            let shown =
                format!("{workload}, order {order}: {policy} {found}, buddy {buddy} tenths");
            println!("{shown}");
            assert!(found * 100 <= buddy * bound, "{shown}; {bound} hundredths may be");
            assert!(
                found * 100 > buddy * (bound - 12),
                "{shown}; {bound} is far from it: lower it"
            );
        }
    }
}

freehold_testkit::trials! {
    a_pair_of_calls_takes_no_more_instructions_than_it_may,
}
