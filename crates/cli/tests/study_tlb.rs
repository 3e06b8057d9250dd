//! `freehold study tlb` from outside, on a small recording of the bundled program.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_freehold")).args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A coarse box; the last of its iterations is told whole, in which few rays are cast any more.
fn record(folder: &Path) {
    let program = env!("CARGO_BIN_EXE_freehold");
    let coarse = ["--scene", "cornell", "--epsilon", "2e-3", "--least-area", "1e-3"];
    let told = ["--threads", "1", "--iterations", "20", "--accesses", "20", "--break-off"];
    let head = ["record", "-o", "small.fht", "--", program, "workload", "radiosity"];
    let output = run(folder, &[&head[..], &coarse, &told].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_malloc_places_the_recorded_calls_beside_policies() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path());
    let study = |on: &str, out: &str| {
        let args = ["study", "tlb", "--trace", "small.fht", "--on", on, "--out", out, "--json"];
        let output = run(folder.path(), &args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let one = study("first-fit,glibc", "one");
    let names: Vec<&str> = one["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["policy"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["first-fit", "glibc (real)"]);
    // The same words before the same TLBs, and no page holds more than it is long.
    let tlbs = |at: usize| one["policies"][at]["misses_per_1000"].as_array().unwrap().len();
    assert_eq!(tlbs(0), tlbs(1));
    let density = one["policies"][1]["packing"][0]["density"].as_f64().unwrap();
    assert!((0.3..=1.0).contains(&density), "{density}");
    assert!(one["sample"]["words"].as_u64() > Some(10_000), "{}", one["sample"]);
    // What is simulated is the same every time.
    let again = study("first-fit", "again");
    for same in ["sample", "table", "caches", "sharing", "rows"] {
        assert_eq!(one[same], again[same], "{same}");
    }
    assert_eq!(one["policies"][0], again["policies"][0]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let said = |args: &[&str]| {
        let output = run(folder.path(), &[&["study", "tlb"], args].concat());
        assert!(!output.status.success(), "{args:?}");
        text(&output.stderr)
    };
    assert!(said(&["--on", "glibc"]).contains("names no policy"));
    assert!(said(&["--trace", "no.fht", "--every-access"]).contains("cannot be used with"));
    assert!(said(&["--trace", "no.fht"]).contains("no.fht"));
}
