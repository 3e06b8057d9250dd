//! `freehold sweep` from outside: the same bytes whoever does the cells, whatever ends in between, and errors as rows.

use freehold_trace::{Event, Header, ObjectId, ProcessId, Record, Request, ThreadId, Tick, Writer};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

const PATIENCE: Duration = Duration::from_secs(120);

/// A folder with traces, and whatever is made there.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    /// `traces` traces of `events` events each.
    fn new(traces: u64, events: u64) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        (0..traces).for_each(|i| write_trace(&folder.path().join(format!("{i}.fht")), events, i));
        Desk { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
        command.arg("sweep").args(arguments).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs to the end, and gives the summary.
    fn summary(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
    }

    fn dataset(&self, out: &str) -> Vec<u8> {
        fs::read(self.path(out).join("sweep.parquet")).unwrap()
    }

    /// Every file of a cell, with the time it was written.
    fn cells(&self, out: &str) -> Vec<(PathBuf, SystemTime)> {
        let inside = |folder: PathBuf| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect()
        };
        let files = inside(self.path(out).join("cells")).into_iter().flat_map(inside);
        let mut all: Vec<_> = files
            .filter_map(|file| Some((file.clone(), fs::metadata(&file).ok()?.modified().ok()?)))
            .collect();
        all.sort();
        all
    }

    /// Waits until so many cells are done.
    fn wait_for_cells(&self, out: &str, cells: usize) {
        let began = Instant::now();
        while self.cells(out).len() < cells {
            assert!(began.elapsed() < PATIENCE, "no cell is done");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn write_trace(path: &Path, events: u64, kind: u64) {
    let header = Header {
        ticks_per_second: 1_000_000,
        command: vec![format!("/bin/sample-{kind}")],
        ..Header::default()
    };
    let mut writer = Writer::create(path, header).unwrap();
    for tick in 0..events {
        let object = ObjectId((tick / 2 % 100) as u32);
        let request = Request { size: tick * (7 + kind) % 977 + 1, ..Request::default() };
        let event = match (tick / 200 + tick) % 2 {
            0 => Event::Alloc { object, request },
            _ => Event::Free { object, remote: false },
        };
        let (process, thread) = (ProcessId(0), ThreadId(0));
        writer.push(&Record { tick: Tick(tick), process, thread, event }).unwrap();
    }
    writer.finish().unwrap();
}

/// Children of a process.
fn children(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent_of = |number: &u32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    numbers.filter(|number| parent_of(number) == Some(parent)).collect()
}

fn send(signal: &str, process: u32) {
    let sent = Command::new("kill").args([signal, &process.to_string()]).status();
    assert!(sent.is_ok(), "there is a kill command");
}

const CELLS: &[&str] = &[
    "--traces",
    "*.fht",
    "--on",
    "first-fit,best-fit,dmrt,buddy,malloc",
    "--limit",
    "1.5,none",
    "--set",
    "reserve.bytes=1M,8M",
];

fn to<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [CELLS, &["--out", out], more].concat()
}

#[test]
fn the_dataset_is_the_same_bytes_whatever_the_number_of_workers() {
    let desk = Desk::new(3, 400);
    let one = desk.summary(&to("one", &["--workers", "1"]));
    let cells = one["cells"].as_u64().unwrap();
    assert_eq!(cells, 3 * 2 * (4 + 2), "{one}");
    assert_eq!((&one["done"], &one["errors"]), (&cells.into(), &0.into()));
    let five = desk.summary(&to("five", &["--workers", "5"]));
    assert_eq!(five["cells"], one["cells"]);
    assert_eq!(desk.dataset("one"), desk.dataset("five"));

    let before = desk.cells("one");
    let again = desk.summary(&to("one", &[]));
    assert_eq!((&again["found"], &again["done"]), (&cells.into(), &0.into()));
    assert_eq!(desk.cells("one"), before, "no cell is written again");
    assert_eq!(desk.dataset("one"), desk.dataset("five"));
}

#[test]
fn a_cell_costs_little_beside_the_replay() {
    let desk = Desk::new(10, 200);
    let overhead = |attempt: usize| {
        let out = format!("out-{attempt}");
        let done = desk.summary(&to(&out, &["--workers", "1"]));
        let number = |key: &str| done[key].as_f64().unwrap();
        (number("seconds") - number("work_seconds")) / number("done")
    };
    // The machine may have other work: once is enough.
    let least = (0..3).map(overhead).fold(f64::INFINITY, f64::min);
    assert!(least < 0.010, "{least} s a cell");
}

#[test]
fn a_wrong_trace_policy_or_setting_is_a_row_with_its_error() {
    let desk = Desk::new(1, 400);
    fs::write(desk.path("text.fht"), "not a trace").unwrap();
    let output = desk.run(&[
        "--traces",
        "0.fht",
        "text.fht",
        "missing.fht",
        "--on",
        "best-fit,frist-fit,malloc",
        "--limit",
        "2,1",
        "--set",
        "reserve.bytes=1M,much",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Each of two wrong traces has 2 x (2 policies + 2 settings of the malloc); the sound one 2 of a wrong policy and 2 of a wrong value.
    assert_eq!(summary["cells"], 24);
    assert_eq!(summary["errors"].as_u64().unwrap(), 8 + 8 + 2 + 2, "{summary}");
    let rows = rows(&desk.path("sweep/sweep.parquet"));
    assert_eq!(rows.len(), 24);
    let errors = |trace: &str, on: &str| -> Vec<Option<String>> {
        let rows = rows.iter().filter(|row| row["trace"] == trace && row["on"] == on);
        rows.map(|row| row["error"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(errors("0.fht", "best-fit"), [None, None]);
    let said = |trace: &str, on: &str, at: usize| errors(trace, on)[at].clone().unwrap();
    assert!(said("0.fht", "frist-fit", 0).contains("did you mean first-fit"));
    assert!(said("0.fht", "malloc", 1).contains("64K or 2MiB"), "{}", said("0.fht", "malloc", 1));
    assert!(said("missing.fht", "best-fit", 0).starts_with("missing.fht cannot be read"));
    assert!(said("text.fht", "best-fit", 0).contains("text.fht"));
    assert!(!said("text.fht", "best-fit", 0).contains('/'), "not where it lies");
}

#[test]
fn rows_are_flat_and_say_what_a_replay_says() {
    let desk = Desk::new(1, 2000);
    desk.summary(&[
        "--traces",
        "0.fht",
        "--on",
        "best-fit,malloc",
        "--limit",
        "64K",
        "--set",
        "purge.from=1M",
    ]);
    let rows = rows(&desk.path("sweep/sweep.parquet"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_freehold"));
    let words = [
        "replay",
        "0.fht",
        "--on",
        "best-fit,malloc",
        "--limit",
        "64K",
        "--set",
        "purge.from=1M",
        "--json",
    ];
    let replayed = command.args(words).current_dir(desk.folder.path()).output().unwrap();
    let replayed: Value = serde_json::from_slice(&replayed.stdout).unwrap();
    for (row, outcome) in rows.iter().zip(replayed["results"].as_array().unwrap()) {
        assert_eq!(row["on"], outcome["name"]);
        for key in [
            "kind",
            "events",
            "failures",
            "peak_live",
            "peak_memory",
            "final_memory",
            "page_faults",
        ] {
            assert_eq!(row[key], outcome[key], "{key} of {row}");
        }
        assert_eq!(row["steps_total"], outcome["steps"]["total"]);
        assert_eq!(row["paged_mean_memory"], outcome["paged"]["mean_memory"]);
        assert_eq!((&row["program"], &row["limit_bytes"]), (&"sample-0".into(), &65536.into()));
    }
    assert_eq!((&rows[0]["purge.from"], &rows[1]["purge.from"]), (&Value::Null, &"1M".into()));
}

/// The rows of a flat Parquet file.
fn rows(path: &Path) -> Vec<Value> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
    let value = |field: &Field| match field {
        Field::Str(text) => text.as_str().into(),
        Field::Long(number) => (*number).into(),
        Field::Double(number) => (*number).into(),
        Field::Null => Value::Null,
        other => panic!("a nested column: {other}"),
    };
    let row = |row: parquet::record::Row| -> Value {
        row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
    };
    rows.map(row).collect()
}

#[test]
fn after_ctrl_c_the_same_command_does_the_rest_and_nothing_twice() {
    let desk = Desk::new(3, 8_000);
    desk.summary(&to("whole", &[]));
    let child = desk.command(&to("cut", &["--workers", "2"])).spawn().unwrap();
    desk.wait_for_cells("cut", 5);
    let workers = children(child.id());
    assert_eq!(workers.len(), 2, "it has two workers");
    send("-INT", child.id());
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("cells are missing, the same command does them"), "{said}");
    assert!(workers.iter().all(|worker| !is_alive(*worker)), "no worker is left behind");
    assert!(!desk.path("cut/sweep.parquet").exists());

    let before = desk.cells("cut");
    let rest = desk.summary(&to("cut", &[]));
    assert_eq!(rest["found"].as_u64().unwrap(), before.len() as u64);
    assert!(rest["done"].as_u64().unwrap() > 0, "it was interrupted in the middle: {rest}");
    let after = desk.cells("cut");
    assert!(before.iter().all(|cell| after.contains(cell)), "no cell is done twice");
    assert_eq!(desk.dataset("cut"), desk.dataset("whole"));
}

/// Whether a process is there and not waited for.
fn is_alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn a_killed_worker_is_replaced_and_nothing_is_missing() {
    let desk = Desk::new(3, 8_000);
    desk.summary(&to("whole", &[]));
    let child = desk.command(&to("hit", &["--workers", "2", "--json"])).spawn().unwrap();
    desk.wait_for_cells("hit", 3);
    children(child.id()).into_iter().for_each(|worker| send("-KILL", worker));
    let output = child.wait_with_output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["errors"], 0, "{summary}");
    assert_eq!(desk.dataset("hit"), desk.dataset("whole"));
}

#[test]
fn a_cell_in_which_workers_end_has_an_error_and_the_others_are_unharmed() {
    let desk = Desk::new(1, 60_000);
    // Each is killed as it comes up, until the first cell has its error.
    let child = desk.command(&to("hit", &["--workers", "1", "--json"])).spawn().unwrap();
    kill_until(&child, 2);
    let output = child.wait_with_output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["errors"], 1, "{summary}");
    let said = summary["first_error"].as_str().unwrap();
    assert!(said.contains("it was killed, as the system does when memory is short"), "{said}");
    let again = desk.summary(&to("hit", &[]));
    assert_eq!((&again["errors"], &again["done"]), (&0.into(), &1.into()), "it is tried again");
}

/// Kills so many workers, one after the other.
fn kill_until(parent: &Child, killed: usize) {
    let (mut seen, began) = (Vec::new(), Instant::now());
    while seen.len() < killed {
        assert!(began.elapsed() < PATIENCE, "workers come up");
        for worker in children(parent.id()).into_iter().filter(|worker| is_alive(*worker)) {
            if !seen.contains(&worker) && seen.len() < killed {
                send("-KILL", worker);
                seen.push(worker);
            }
        }
    }
}

#[test]
fn without_the_parent_workers_end_and_the_rest_is_done_later() {
    let desk = Desk::new(3, 8_000);
    desk.summary(&to("whole", &[]));
    let mut child = desk.command(&to("cut", &["--workers", "2"])).spawn().unwrap();
    desk.wait_for_cells("cut", 3);
    let workers = children(child.id());
    send("-KILL", child.id());
    child.wait().unwrap();
    let began = Instant::now();
    while workers.iter().any(|worker| is_alive(*worker)) {
        assert!(began.elapsed() < PATIENCE, "workers go on for ever");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(desk.summary(&to("cut", &[]))["errors"], 0);
    assert_eq!(desk.dataset("cut"), desk.dataset("whole"));
}

#[test]
fn a_full_disk_is_named_and_what_was_done_is_kept() {
    let desk = Desk::new(1, 400);
    let mut limited = Command::new("sh");
    // No file may be longer than a block, and no signal comes of it: writing fails as on a full disk.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "sh"]);
    limited.arg(env!("CARGO_BIN_EXE_freehold")).arg("sweep").args(to("out", &[]));
    let output = limited.current_dir(desk.folder.path()).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("cannot be written") && said.contains("the same command does the rest"),
        "{said}"
    );
    assert!(desk.cells("out").is_empty(), "no half a cell");
    let after = desk.summary(&to("out", &[]));
    assert_eq!(after["errors"], 0);

    let full = desk.run(&to("/proc/none", &[]));
    let said = text(&full.stderr);
    assert_eq!(full.status.code(), Some(1));
    assert!(said.contains("/proc/none cannot be written") && said.contains("--out"), "{said}");
}

#[test]
fn what_one_machine_had_not_is_tried_again_on_another_day() {
    let desk = Desk::new(0, 0);
    let study =
        ["--study", "mesh", "--quick", "--set", "platforms=[\"2x2\"]", "--set", "larger=2x2"];
    let mut limited = Command::new("sh");
    // Files are at most 16 KiB long: the sweep's own are shorter, the study's report is not.
    limited.args(["-c", "trap '' XFSZ; ulimit -f 32; exec \"$@\"", "sh"]);
    limited.arg(env!("CARGO_BIN_EXE_freehold")).arg("sweep").args(study).arg("--json");
    let output = limited.current_dir(desk.folder.path()).output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = summary["first_error"].as_str().unwrap();
    assert!(said.contains("File too large") && said.contains("tries it again"), "{said}");
    assert_eq!(rows(&desk.path("sweep/sweep.parquet"))[0]["error"], said);
    assert!(desk.cells("sweep").is_empty(), "an error of the machine is not kept");
    let again = desk.summary(&study);
    assert_eq!((&again["done"], &again["errors"]), (&1.into(), &0.into()), "{again}");
}

#[test]
fn a_cell_that_wants_too_much_memory_harms_no_other() {
    let desk = Desk::new(1, 400);
    let mut limited = Command::new("sh");
    limited.args([
        "-c",
        "ulimit -v 4000000; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_freehold"),
        "sweep",
    ]);
    limited.args([
        "--traces",
        "0.fht",
        "--on",
        "best-fit,good-fit",
        "--limit",
        "60G,64K",
        "--json",
    ]);
    let output = limited.current_dir(desk.folder.path()).output().unwrap();
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["cells"], &summary["errors"]), (&4.into(), &2.into()), "{summary}");
    let said = summary["first_error"].as_str().unwrap();
    assert!(said.contains("cannot be reserved") && said.contains("--limit"), "{said}");
    assert_eq!(summary["passing"].as_object().unwrap().len(), 2, "{summary}");
    let with_memory = ["--traces", "0.fht", "--on", "best-fit,good-fit", "--limit", "60G,64K"];
    let again = desk.summary(&with_memory);
    assert_eq!(
        (&again["found"], &again["done"], &again["errors"]),
        (&2.into(), &2.into(), &0.into())
    );
}

#[test]
fn a_caller_names_errors_that_it_knows_and_these_cells_are_not_tried() {
    let desk = Desk::new(2, 400);
    let cells = ["--traces", "0.fht", "1.fht", "far.fht", "--on", "best-fit,dmrt"];
    let printed = text(&desk.run(&[&cells[..], &["--print", "--json"]].concat()).stdout);
    let lines: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "a trace that is not there has no cells to do: {printed}");
    assert!(lines[1]["command"].as_str().unwrap().starts_with("freehold sweep --traces 1.fht"));
    let names: Vec<&str> =
        lines[0]["cells"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let known = serde_json::json!({
        "cells": { names[0]: "no worker could do it" },
        "traces": { "far.fht": "the store does not answer" },
    });
    fs::write(desk.path("known.json"), known.to_string()).unwrap();
    let done = desk.summary(&[&cells[..], &["--errors", "known.json"]].concat());
    assert_eq!((&done["done"], &done["errors"]), (&3.into(), &3.into()), "{done}");
    let errors: Vec<Value> = rows(&desk.path("sweep/sweep.parquet"))
        .into_iter()
        .map(|row| row["error"].clone())
        .collect();
    let (none, far) = (Value::Null, Value::from("the store does not answer"));
    assert_eq!(
        errors,
        ["no worker could do it".into(), none.clone(), none.clone(), none, far.clone(), far]
    );
    assert_eq!(desk.summary(&cells[..])["done"], 1, "what was not tried is tried later");
}

#[test]
fn printed_commands_do_the_cells_of_others() {
    let desk = Desk::new(2, 400);
    desk.summary(&to("whole", &[]));
    let printed = text(&desk.run(&to("parts", &["--print"])).stdout);
    assert_eq!(printed.lines().count(), 4, "a line a trace and limit: {printed}");
    let folder = Path::new(env!("CARGO_BIN_EXE_freehold")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    for line in printed.lines() {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("PATH", &path).current_dir(desk.folder.path());
        assert!(shell.output().unwrap().status.success(), "{line}");
    }
    assert!(!desk.path("parts/sweep.parquet").exists(), "parts write no dataset");
    assert!(desk.run(&to("parts", &["--print"])).stdout.is_empty(), "nothing is missing");
    assert_eq!(desk.summary(&to("parts", &[]))["done"], 0);
    assert_eq!(desk.dataset("parts"), desk.dataset("whole"));
}

#[test]
fn studies_are_swept_over_their_settings() {
    let desk = Desk::new(0, 0);
    let small =
        ["--study", "mesh", "--quick", "--set", "platforms=[\"2x2\"]", "--set", "larger=2x2"];
    let study = |out: &'static str, more: &[&'static str]| {
        desk.summary(&[&small, more, &["--out", out]].concat())
    };
    let two = study("two", &["--set", "seed=1..2", "--workers", "2"]);
    assert_eq!((&two["cells"], &two["errors"]), (&2.into(), &0.into()), "{two}");
    let found = rows(&desk.path("two/sweep.parquet"));
    let of = |seed: u64| found.iter().filter(|row| row["seed"] == seed).count();
    assert!(of(1) > 0 && of(1) == of(2) && found.len() == 2 * of(1));
    let three = study("two", &["--set", "seed=1..2,nought"]);
    assert_eq!(three["errors"], 2, "no whole numbers: {three}");
    assert!(three["first_error"].as_str().unwrap().contains("seed"), "{three}");
    study("one", &["--set", "seed=1..2", "--workers", "1"]);
    study("two", &["--set", "seed=1..2"]);
    assert_eq!(desk.dataset("one"), desk.dataset("two"));
    let wrong = desk.summary(&["--study", "mehs", "--set", "seed=1"]);
    assert!(wrong["first_error"].as_str().unwrap().contains("banks, dmrt, mesh"), "{wrong}");
}

/// A machine of a few MiB for seconds, and none of the runs that compare seeds.
#[test]
fn the_banks_are_swept_over_a_setting_of_their_migration() {
    let desk = Desk::new(0, 0);
    let small = [
        "machines.m32.memory_mib=256",
        "machines.m32.bank_mib=4",
        "machines.m4.memory_mib=512",
        "machines.m1.memory_mib=64",
        "workloads.light.seconds=60",
        "workloads.medium.seconds=60",
        "workloads.storms.seconds=60",
        "sweep_seconds=60",
        "robust_seeds=0",
        "stream_seeds=0",
        "verdict_seeds=1",
        "policies=[\"fullest\"]",
        "migration.per_thousand_freed=40,60",
    ];
    let set = small.iter().flat_map(|setting| ["--set", setting]);
    let arguments: Vec<&str> = ["--study", "banks", "--quick"].into_iter().chain(set).collect();
    let done = desk.summary(&arguments);
    assert_eq!((&done["cells"], &done["errors"]), (&2.into(), &0.into()), "{done}");
    let rows = rows(&desk.path("sweep/sweep.parquet"));
    let of =
        |value: u64| rows.iter().filter(|row| row["migration.per_thousand_freed"] == value).count();
    assert!(of(40) > 0 && of(40) == of(60) && rows.len() == 2 * of(40));
    let wrong = desk.summary(&["--study", "banks", "--set", "migration.limit=0.04", "--out", "w"]);
    let said = wrong["first_error"].as_str().unwrap();
    assert!(said.contains("no setting migration.limit"), "{said}");
}

#[test]
fn wrong_command_lines_are_refused_before_any_work() {
    let desk = Desk::new(1, 20);
    let cases: [(&[&str], &str); 7] = [
        (&["--traces", "none-*.fht"], "no file is called none-*.fht"),
        (&["--traces", "0.fht", "--limit", "0.5"], "is not a limit"),
        (&["--traces", "0.fht", "--limit", "1..2"], "is not a limit"),
        (&["--traces", "0.fht", "--set", "seed"], "is not NAME=VALUE,VALUE"),
        (&["--traces", "0.fht", "--set", "a=1", "--set", "a=2"], "a is set twice"),
        (&["--traces", "0.fht", "--on", "glibc"], "glibc is measured"),
        (&["--on", "dmrt"], "--traces"),
    ];
    for (arguments, wanted) in cases {
        let output = desk.run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(wanted), "{arguments:?}: {said}");
        assert!(!desk.path("sweep").exists(), "{arguments:?}");
    }
}
