//! `freehold hotplug` on a copy of a machine's files: what it prints, what it refuses, what it changes and what not.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

fn hotplug(tree: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    command.arg("hotplug").args(arguments).arg("--tree").arg(tree);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn put(tree: &Path, name: &str, bytes: &[u8]) {
    let path = tree.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

const PAGE: usize = 4096;
/// Frames of a block.
const FRAMES: usize = 256;
const FREE: u64 = 1 << 10;
const USER: u64 = 1 << 5 | 1 << 12;
const SLAB: u64 = 1 << 7;

/// Four blocks of 1 MiB: pinned by the slab; empty; a quarter used; half used.
fn machine() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path();
    let memory = "sys/devices/system/memory";
    put(tree, &format!("{memory}/block_size_bytes"), format!("{:x}\n", FRAMES * PAGE).as_bytes());
    let mut flags = Vec::new();
    for (number, (what, count)) in
        [(SLAB, 3), (FREE, 0), (USER, 64), (USER, 128)].into_iter().enumerate()
    {
        let block = format!("{memory}/memory{number}");
        put(tree, &format!("{block}/state"), b"online\n");
        put(tree, &format!("{block}/valid_zones"), b"Movable\n");
        put(tree, &format!("{block}/phys_index"), format!("{number:08x}\n").as_bytes());
        put(tree, &format!("{block}/node0/x"), b"");
        flags.extend(std::iter::repeat_n(what, count));
        flags.resize((number + 1) * FRAMES, FREE);
    }
    let bytes =
        |words: Vec<u64>| words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>();
    let counts = flags.iter().map(|&flags| u64::from(flags == USER)).collect();
    put(tree, "proc/kpageflags", &bytes(flags));
    put(tree, "proc/kpagecount", &bytes(counts));
    let zone =
        "Node 0, zone  Movable\n  pages free     829\n        high     9\n        present  1024\n";
    put(tree, "proc/zoneinfo", zone.as_bytes());
    folder
}

/// Every file of the tree.
fn contents(tree: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(tree).unwrap().flatten() {
        if entry.path().is_dir() {
            all.extend(contents(&entry.path()));
        } else {
            let name = entry.path().display().to_string();
            all.insert(name, std::fs::read(entry.path()).unwrap());
        }
    }
    all
}

#[test]
fn what_is_in_memory_is_shown_and_nothing_changes() {
    let folder = machine();
    let before = contents(folder.path());
    let shown = hotplug(folder.path(), &["show"]);
    let lines = text(&shown.stdout);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let verdict = |line: &str| line.split_whitespace().nth(2).unwrap_or_default().to_owned();
    let verdicts: Vec<String> = lines.lines().skip(1).take(4).map(verdict).collect();
    assert_eq!(verdicts, ["pinned", "empty", "movable", "movable"], "{lines}");
    assert!(lines.contains("slab 12 KiB") || lines.contains("slab 12.0 KiB"), "{lines}");
    let json: serde_json::Value =
        serde_json::from_slice(&hotplug(folder.path(), &["show", "--json"]).stdout).unwrap();
    assert_eq!((json["schema"].as_u64(), json["block_bytes"].as_u64()), (Some(1), Some(1 << 20)));
    assert_eq!(json["blocks"][2]["pages"]["mapped"], 64);
    assert_eq!(json["blocks"][0]["verdict"], "pinned");
    let planned = hotplug(folder.path(), &["plan"]);
    assert!(text(&planned.stdout).contains("2 blocks, 2"), "{}", text(&planned.stdout));
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn a_plan_is_as_it_was_asked_for() {
    let folder = machine();
    let plan = |arguments: &[&str]| -> serde_json::Value {
        let output = hotplug(folder.path(), &[&["plan", "--json"], arguments].concat());
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", text(&output.stderr)))
    };
    let blocks = |plan: &serde_json::Value| {
        let sets = plan["sets"].as_array().unwrap().iter();
        sets.map(|set| set["blocks"][0].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let all = plan(&["--slack", "4K"]);
    assert_eq!(blocks(&all), [1, 2, 3]);
    assert_eq!(all["promised_bytes"], 3 << 20);
    assert_eq!(all["migrated_bytes"], 192 * PAGE);
    assert_eq!(blocks(&plan(&["--slack", "4K", "--most-used", "30"])), [1, 2]);
    assert_eq!(blocks(&plan(&["--blocks", "1"])), [1]);
    // Half a block of slack is what is taken by itself.
    assert_eq!(blocks(&plan(&[])), [1, 2]);
    assert_eq!(blocks(&plan(&["--slack", "2M"])), [1]);
    assert_eq!(blocks(&plan(&["--node", "1"])), [] as [u64; 0]);
    // 0 and 1 go together, and 0 cannot.
    assert_eq!(plan(&["--pairs", "1"])["sets"][0]["blocks"], serde_json::json!([2, 3]));
    for bad in [["--pairs", "3"], ["--most-used", "101"], ["--slack", "much"]] {
        assert_eq!(hotplug(folder.path(), &[&["plan"], &bad[..]].concat()).status.code(), Some(2));
    }
}

#[test]
fn a_plan_is_carried_out_and_undone() {
    let folder = machine();
    let state = |block: usize| {
        let file = format!("sys/devices/system/memory/memory{block}/state");
        std::fs::read_to_string(folder.path().join(file)).unwrap()
    };
    let applied = hotplug(folder.path(), &["apply", "--blocks", "2", "--timeout", "300", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&applied.stdout).unwrap();
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    assert_eq!(json["done"][1]["outcome"], "offline");
    assert_eq!(json["after"]["offline_bytes"], 2 << 20);
    assert_eq!(
        [state(0), state(1), state(2), state(3)],
        ["online\n", "offline", "offline", "online\n"]
    );
    let back = hotplug(folder.path(), &["online", "1", "2", "--movable"]);
    // A file keeps the word that was written, which a kernel would not; it begins alike.
    assert!(back.status.success() && state(1) == "online_movable", "{}", text(&back.stderr));
}

#[test]
fn a_write_that_never_ends_is_broken_off() {
    let folder = machine();
    let state = folder.path().join("sys/devices/system/memory/memory1/state");
    std::fs::remove_file(&state).unwrap();
    // Who opens a pipe to write waits for somebody who reads.
    assert!(Command::new("mkfifo").arg(&state).status().unwrap().success());
    let began = std::time::Instant::now();
    let output = hotplug(folder.path(), &["online", "1", "--timeout", "1"]);
    assert!(began.elapsed().as_secs() < 30);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("block 1: not done in 1 s"), "{}", text(&output.stderr));
}

/// As a user who may not look: `nobody`, if the test may become that.
#[test]
fn without_root_it_says_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("freehold");
    std::fs::copy(env!("CARGO_BIN_EXE_freehold"), &program).unwrap();
    // SAFETY: asks for a number.
    let root = unsafe { libc::geteuid() } == 0;
    for what in ["show", "plan", "apply"] {
        let mut command = Command::new(&program);
        command.args(["hotplug", what]).current_dir("/");
        if root {
            command.uid(65_534);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{what}");
        let said = text(&output.stderr);
        assert!(said.contains("needs root") && said.contains("/proc/kpageflags"), "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn its_help_says_what_it_does_and_what_changes_nothing() {
    let help = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
        text(&command.arg("hotplug").args(arguments).output().unwrap().stdout)
    };
    let all = help(&["--help"]);
    for word in [
        "show",
        "plan",
        "apply",
        "online",
        "change nothing",
        "need root",
        "Examples",
        "Exit status",
    ] {
        assert!(all.contains(word), "{word}: {all}");
    }
    assert!(!all.contains("write"), "{all}");
    assert!(help(&["apply", "--help"]).contains("--timeout"));
    let empty = tempfile::tempdir().unwrap();
    let none = hotplug(empty.path(), &["show"]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stderr).contains("cannot plug memory"), "{}", text(&none.stderr));
}
