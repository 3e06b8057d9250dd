//! `freehold study mesh` from outside: help, files, the same bytes, the clock, and what it refuses.

use std::path::Path;
use std::process::{Command, Output};

fn mesh(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.args(["study", "mesh"]).args(args).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Few calls on small platforms: what a test can wait for.
const FEW: [&str; 18] = [
    "--quick",
    "--set",
    "platforms=[\"2x2\", \"3x2\"]",
    "--set",
    "larger=4x5",
    "--set",
    "events=300",
    "--set",
    "warm_up_per_node=20",
    "--set",
    "kernels.others=8",
    "--set",
    "in_c.policies=best-fit-list",
    "--set",
    "in_c.general_purpose=best-fit-list",
    "--set",
    "waiting.think=[0, 300]",
    "--json",
];

#[test]
fn help_says_what_it_does_and_how() {
    let folder = tempfile::tempdir().unwrap();
    let help = text(&mesh(folder.path(), &["--help"]).stdout);
    for word in
        ["4 to 4,096 nodes", "--quick", "--set", "--time", "--json", "runs.parquet", "Examples:"]
    {
        assert!(help.contains(word), "{word} in {help}");
    }
    let settings = text(&mesh(folder.path(), &["--settings"]).stdout);
    assert!(settings.contains("index_up_to") && settings.parse::<toml::Table>().is_ok());
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_others() {
    let folder = tempfile::tempdir().unwrap();
    let once = |out: &str, seed: &str| {
        let args =
            [&FEW[..], &["--set", "kernels.run=false", "--out", out, "--set", seed]].concat();
        let output = mesh(folder.path(), &args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let read = |name: &str| std::fs::read(folder.path().join(out).join(name)).unwrap();
        let left = std::fs::read_dir(folder.path().join(out)).unwrap().count();
        assert_eq!(left, 3, "nothing half-written is left");
        ["report.html", "results.json", "runs.parquet"].map(read)
    };
    let first = once("first", "seed=7");
    assert_eq!(first, once("second", "seed=7"));
    assert_ne!(first[1], once("third", "seed=8")[1]);
}

#[test]
fn json_has_published_and_ours_of_every_part() {
    let folder = tempfile::tempdir().unwrap();
    let output = mesh(folder.path(), &[&FEW[..], &["--set", "platforms=2x2"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((json["schema_version"].as_u64(), json["study"].as_str()), (Some(3), Some("mesh")));
    let verdicts = json["verdicts"].as_array().unwrap();
    let of = |key: &str| verdicts.iter().find(|verdict| verdict["key"] == key);
    for (key, printed) in [
        ("proposed_over_microcoded", 1.25),
        ("c_over_others", 1.29),
        ("share_fast", 10.83),
        ("share_mean", 18.8),
    ] {
        let verdict = of(key).unwrap_or_else(|| panic!("{key} in {verdicts:?}"));
        assert_eq!(verdict["wanted"].as_f64(), Some(printed));
        assert!(verdict["ours"].as_f64().is_some_and(|ours| ours > 0.0), "{verdict}");
    }
    let lengths = ["computing", "in_c", "waiting"].map(|part| json[part].as_array().unwrap().len());
    assert_eq!(lengths, [8 * 2, 6, 5 * 2]);
    assert_eq!(json["in_c"][0]["policy"], "best-fit-list");
    assert_eq!(json["settings"]["costs"]["router"], 1);
}

#[test]
fn one_run_can_be_timed() {
    let folder = tempfile::tempdir().unwrap();
    let few = ["--set", "larger=4x5", "--set", "warm_up_per_node=5", "--time", "500"];
    let output = mesh(folder.path(), &few);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("8x8: 500 calls counted after at least 5 of every node: "), "{said}");
    let json = mesh(folder.path(), &[&few[..], &["--json"]].concat()).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((json["events"].as_u64(), json["budget"].as_f64()), (Some(500), Some(30.0)));
    assert!(!folder.path().join("study-mesh").exists(), "nothing is written");
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.toml"), "[load]\nheap_byte = 4096\n").unwrap();
    let said = |args: &[&str]| {
        let output = mesh(folder.path(), args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        let said = text(&output.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    let set = |change: &str| said(&["--set", change]);
    // Platforms of nothing, of other shapes, too large.
    assert!(set("platforms=[\"0x4\"]").contains("\"0x4\": a mesh has at least one"));
    assert!(set("platforms=[\"4x0\"]").contains("\"4x0\": a mesh has at least one"));
    assert!(set("platforms=25").contains("a rectangle of rows x columns, such as 8x8"));
    assert!(set("platforms=[\"3x3x3\"]").contains("a rectangle of rows x columns"));
    assert!(set("larger=64x65").contains("at most 4096 nodes"));
    // Heaps beyond 32-bit addresses.
    assert!(set("load.heap_bytes=1M").contains("on 64x64: 4294967296 bytes of heaps"));
    // Orders and policies that there are not.
    assert!(set("orders=nearest").contains("index, distance, rotated or hinted, not \"nearest\""));
    assert!(set("policy=fast").contains("no policy \"fast\"; `freehold policies` lists them"));
    // Parameters that do not go together.
    assert!(set("load.least=300").contains("300 to 256 is no range: the least first"));
    assert!(set("load.most=4096").contains("4096 bytes fits into no heap of 2048"));
    assert!(set("orders=distance").contains("index must be among them"));
    assert!(set("in_c.policies=best-fit").contains("is not among in_c.policies"));
    assert!(set("costs.link=0").contains("link must be 1 to 1000, not 0"));
    // Keys and files.
    assert!(set("cost.link=2").contains("no setting cost"));
    assert!(said(&["mine.toml"]).contains("did you mean load.heap_bytes"));
    assert!(said(&["missing.toml"]).contains("missing.toml cannot be read"));
    assert!(!folder.path().join("study-mesh").exists());
}
