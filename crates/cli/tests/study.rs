//! `freehold study` from outside: what it prints, writes and refuses.

use std::path::Path;
use std::process::{Command, Output};

fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freehold")).args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Two attempts of few allocators: what a test can wait for.
const FEW: [&str; 7] =
    ["study", "dmrt", "--quick", "--set", "attempts=1", "--set", "requests=[100]"];

#[test]
fn a_quick_study_writes_three_files_and_the_same_bytes_again() {
    let folder = tempfile::tempdir().unwrap();
    let once = |out: &str| {
        let output = run(folder.path(), &[&FEW[..], &["--out", out]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let read = |name: &str| std::fs::read(folder.path().join(out).join(name)).unwrap();
        (
            text(&output.stdout).replace(out, ""),
            ["report.html", "results.json", "attempts.parquet"].map(read),
        )
    };
    let (shown, files) = once("first-run");
    assert!(shown.contains("4.1: case 1, 100 requests") && shown.contains("satisf."), "{shown}");
    assert_eq!((shown, files), once("second-run"));
    let left = std::fs::read_dir(folder.path().join("first-run")).unwrap().count();
    assert_eq!(left, 3, "nothing half-written is left");
}

#[test]
fn json_holds_published_and_ours() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &[&FEW[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["schema_version"].as_u64(), json["study"].as_str()), (Some(2), Some("dmrt")));
    let entry = &json["tables"][0]["entries"][0];
    assert_eq!(
        (entry["allocator"].as_str(), entry["path"].as_str()),
        (Some("dlmalloc"), Some("local"))
    );
    assert_eq!(entry["published"]["satisfied"], 57.5068);
    assert!(entry["metrics"]["satisfied"]["mean"].as_f64().is_some_and(|mean| mean > 0.0));
    assert_eq!(json["settings"]["attempts"], 1);
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.toml"), "[machine]\nnods = 8\n").unwrap();
    let said = |args: &[&str]| {
        let output = run(folder.path(), &[&["study", "dmrt"], args].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = text(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    assert!(said(&["mine.toml"]).contains("no setting machine.nods: did you mean machine.nodes"));
    assert!(said(&["missing.toml"]).contains("missing.toml cannot be read"));
    assert!(said(&["--set", "machine.nodes=0"]).contains("1 to 64 nodes, not 0"));
    assert!(said(&["--set", "machine.capacity=1K"]).contains("cannot have 1024 bytes"));
    assert!(
        said(&["--set", "requests_from.node_weights=0"]).contains("weights of nodes are all 0")
    );
    assert!(said(&["--set", "atempts=3"]).contains("did you mean attempts?"));
    assert!(!folder.path().join("study-dmrt").exists());
}

#[test]
fn the_settings_and_the_programs_can_be_printed() {
    let folder = tempfile::tempdir().unwrap();
    let settings = text(&run(folder.path(), &["study", "dmrt", "--settings"]).stdout);
    assert!(settings.contains("[what_if]") && settings.parse::<toml::Table>().is_ok());
    let programs = text(&run(folder.path(), &["study", "fragmentation", "--print"]).stdout);
    assert!(programs.contains("name = \"redis\""));
}

/// A study of one's own with a program that needs nothing but a shell, and one that is not there.
#[test]
fn a_study_of_one_s_own_is_recorded_replayed_and_tells_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let study = r#"
policies = ["dmrt", "tlsf"]
recordings = 3
padding = 10
target = { of = "dmrt", at_most = "tlsf" }
[[trace]]
name = "list"
about = "lists a folder, and writes down its environment"
needs = ["ls", "env", "sh"]
command = ["sh", "-c", "env >{studies}/seen-$(env | grep -c ^PADDING_); exec ls -lR /etc"]
[[trace]]
name = "none"
about = "is not there"
needs = ["no-such-program-anywhere"]
command = ["no-such-program-anywhere"]
"#;
    std::fs::write(folder.path().join("mine.toml"), study).unwrap();
    let run = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_freehold"))
            .args([&["study", "fragmentation", "mine.toml"], more].concat())
            .current_dir(folder.path())
            .env("OF_THE_USER", "not for programs")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let json: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    assert_eq!(json["schema_version"], 3);
    let recordings = json["traces"][0]["recordings"].as_array().unwrap();
    let paddings: Vec<_> = recordings.iter().map(|one| one["padding"].as_u64().unwrap()).collect();
    assert_eq!(paddings, [0, 10, 20]);
    for recording in recordings {
        assert!(recording["events"].as_u64().is_some_and(|events| events > 100));
        assert_eq!(recording["policies"][1]["name"], "tlsf");
    }
    let dmrt = &json["traces"][0]["policies"][0];
    assert!(dmrt["to_rival"]["internal"]["difference"]["mean"].is_f64(), "{dmrt}");
    assert_eq!(json["traces"][1]["missing"], "no-such-program-anywhere is not installed");
    let out = folder.path().join("study-fragmentation");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("no-such-program-anywhere is not installed"));
    assert!(page.contains("freehold study fragmentation mine.toml"));

    for padding in paddings {
        let seen = std::fs::read_to_string(folder.path().join(format!("seen-{padding}"))).unwrap();
        assert!(seen.contains("LC_ALL=C") && !seen.contains("OF_THE_USER"), "{seen}");
        assert!(out.join(format!("list-{padding:04}.fht")).is_file());
    }
    std::fs::remove_file(folder.path().join("seen-0")).unwrap();
    let shown = run(&["--quick"]);
    assert!(shown.contains("list (2 recordings, ") && shown.contains("none: missing, "), "{shown}");
    assert!(!folder.path().join("seen-0").exists(), "its trace was there already");
}

/// Threads and mallocs are real: what can be tested is that all are there.
#[test]
fn fits_under_threads_are_measured_beside_the_mallocs() {
    let folder = tempfile::tempdir().unwrap();
    let few = [
        "runs=1",
        // However slow the machine: nothing is left out for its time.
        "cell_ms=600000",
        "limit_ms=600000",
        "lengths.counts=[1,2]",
        "on.fits=best-fit",
        "threads.counts=[1,2]",
        "threads.iterations=1",
        "threads.steady_ms=1",
        "iterations.counts=1",
        "allocations.counts=100",
        "wish.sequences=100",
        "calls.sequences=100",
        "turns.times=2",
        "turns.slice_ms=1",
    ];
    let mut args = vec!["study", "threads", "--quick", "--json"];
    args.extend(few.iter().flat_map(|change| ["--set", change]));
    let output = run(folder.path(), &args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> = json["steady"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|curve| curve["on"]["name"].as_str())
        .collect();
    for name in ["best fit, the paper's lock", "best fit, heap a thread", "glibc", "freehold"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    assert_eq!(json["left"].as_array().map(Vec::len), Some(0), "{}", json["left"]);
    let turned =
        |number: usize| (&json["turns"][number]["on"]["name"], &json["turns"][number]["of_loop"]);
    assert_eq!(turned(0).0, "a loop without allocations");
    assert_eq!((&turned(0).1["median"], &turned(0).1["values"]), (&1.0.into(), &1.into()));
    assert_eq!(turned(1).0, "best fit, heap a thread");
    assert!(turned(1).1["median"].as_f64().is_some_and(|share| share > 0.0), "{}", json["turns"]);
    let refused = run(folder.path(), &["study", "threads", "--set", "threads.counts=[1,10000]"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("10000 threads cannot be had; 1 to 1024 can"));
}

/// A small machine and minutes of its work, in few runs.
const BANKS: [&str; 24] = [
    "study",
    "banks",
    "--quick",
    "--no-times",
    "--set",
    "machines.m32.memory_mib=256",
    "--set",
    "machines.m32.bank_mib=4",
    "--set",
    "machines.m4.memory_mib=512",
    "--set",
    "workloads.light.seconds=60",
    "--set",
    "workloads.medium.seconds=60",
    "--set",
    "workloads.storms.seconds=60",
    "--set",
    "streams.seconds.seconds=60",
    "--set",
    "streams.minutes.seconds=60",
    "--set",
    "streams.hours.seconds=60",
    "--set",
    "policies=fullest",
];

#[test]
fn banks_writes_the_same_bytes_again_and_refuses_what_makes_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let once = |out: &str| {
        let output = run(folder.path(), &[&BANKS[..], &["--out", out]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let read = |name: &str| std::fs::read(folder.path().join(out).join(name)).unwrap();
        assert!(text(&output.stdout).contains("m32, interleaved, medium"));
        ["report.html", "results.json", "runs.parquet", "times.json"].map(read)
    };
    assert_eq!(once("first"), once("second"));
    let said = |args: &[&str]| {
        let output = run(folder.path(), &[&["study", "banks"], args].concat());
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        text(&output.stderr)
    };
    assert!(said(&["--set", "machines.m32.bank_mib=100"]).contains("power of two"));
    assert!(said(&["--set", "policies=fulest"]).contains("did you mean fullest"));
    std::fs::write(folder.path().join("none.txt"), "nothing of the sort\n").unwrap();
    assert!(said(&["--trace", "none.txt"]).contains("perf record"));
}

/// A binary file is printed by trace-cmd, which here is a script that prints two events.
#[test]
fn a_file_of_trace_cmd_is_read_by_way_of_trace_cmd() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("trace.dat"), b"\x17\x08\x44tracing7\0and more").unwrap();
    let with = |trace_cmd: Option<&str>| {
        let bin = folder.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        let script = bin.join("trace-cmd");
        if let Some(body) = trace_cmd {
            std::fs::write(&script, format!("#!/bin/sh\n{body}\n")).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&script, mode).unwrap();
        }
        Command::new(env!("CARGO_BIN_EXE_freehold"))
            .args([&BANKS[..], &["--trace", "trace.dat", "--out", "out", "--json"]].concat())
            .current_dir(folder.path())
            .env("PATH", &bin)
            .output()
            .unwrap()
    };
    let output = with(None);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("trace.dat is trace-cmd's binary file"), "{output:?}");
    let output = with(Some("echo \"no $1 $2 of $3\" >&2; exit 3"));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no report -i of trace.dat"), "{output:?}");
    let events = "echo ' sh-1 [000] 1.5: mm_page_alloc: page=0x9 pfn=0x9 order=2 migratetype=1 gfp_flags=GFP_USER'
echo ' sh-1 [000] 3.5: mm_page_free: page=0x9 pfn=0x9 order=2'";
    let output = with(Some(events));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&results["events"], &results["lost_frees"]), (&2.into(), &0.into()), "{results}");
}
