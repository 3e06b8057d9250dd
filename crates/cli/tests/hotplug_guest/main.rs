//! Memory is really unplugged: blocks of a guest go offline under a program that lives on, as many as the plan promised,
//! nothing is lost, and all come back.
//!
//! Compared: how much of the free memory can be off (c) when the program ran on Freehold's malloc, on glibc's, and when
//! nobody plans and only blocks that happen to be empty go.

use freehold_guest::{Bytes, Dimm, Finished, Job, Kernel, Machine, missing_tool};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

freehold_testkit::trials!(blocks_go_offline_as_promised_and_come_back);

/// The program's memory at its most, in MiB.
const MOST: u32 = 400;

/// Once for each malloc.
const SCRIPT: &str = r#"
cd /sys/devices/system/memory
# The machine's own memory, then what was plugged: that can be taken again.
for state in $(grep -l offline memory*/state); do echo online_movable >$state || exit 1; done
plugged=$(grep -l Movable memory*/valid_zones | tr -dc '0-9\n')
cat memory*/state >/out/states
one() {
  env $2 /churn MOST /tmp/$1 & pid=$!
  until [ -e /tmp/$1.settled ] || ! kill -0 $pid; do usleep 20000; done
  /freehold hotplug show --json >/out/$1.show || exit 1
  /freehold hotplug show >/out/$1.txt || exit 1
  /freehold hotplug plan --json >/out/$1.plan || exit 1
  grep pgmigrate_success /proc/vmstat >/out/$1.before
  /freehold hotplug apply --timeout 30 --json >/out/$1.apply; echo $? >/out/$1.code
  grep pgmigrate_success /proc/vmstat >/out/$1.after
  touch /tmp/$1.go; wait $pid; echo $? >/out/$1.program
  for block in $(grep -l offline memory*/state | tr -dc '0-9\n'); do
    movable=; for other in $plugged; do [ $block = $other ] && movable=--movable; done
    /freehold hotplug online $block $movable || exit 1
  done
  cat memory*/state >/out/$1.states
}
one freehold LD_PRELOAD=/libfreehold.so
one glibc GLIBC=1
"#;

fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn compile() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hotplug_guest/churn.c");
    let program = folder().join(format!("churn-{}", std::process::id()));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-fno-builtin", "-o"]).args([&program, &source]);
    match compiler.output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr))
        }
        Err(_) => freehold_testkit::skip("there is no cc here"),
    }
    program
}

/// The command without what debuggers need, which would fill the guest's memory; as it is where there is no strip.
fn stripped() -> PathBuf {
    let full = env!("CARGO_BIN_EXE_freehold");
    let small = folder().join(format!("freehold-{}", std::process::id()));
    let done = Command::new("strip").arg("-o").args([small.as_os_str(), full.as_ref()]).status();
    if done.is_ok_and(|status| status.success()) { small } else { full.into() }
}

fn library() -> PathBuf {
    let freehold = env!("CARGO_BIN_EXE_freehold");
    let output = Command::new(freehold).args(["run", "--library"]).output().expect("it runs");
    String::from_utf8_lossy(&output.stdout).trim_end().into()
}

fn run() -> Finished {
    if let Some(missing) = missing_tool() {
        freehold_testkit::skip(&missing);
    }
    let kernel = Kernel::find(folder()).unwrap_or_else(|why| {
        freehold_testkit::skip(&format!("{why:#}"));
        unreachable!("a trial ends there")
    });
    let dimm = Dimm { memory: Bytes(768 << 20), node: 0 };
    let machine = Machine::even(1, 2, Bytes(512 << 20)).expect("a machine").with_dimm(dimm);
    let mut job = Job::new(machine, &SCRIPT.replace("MOST", &MOST.to_string()));
    job.files = vec![
        (compile(), "/churn".to_owned()),
        (library(), "/libfreehold.so".to_owned()),
        (stripped(), "/freehold".to_owned()),
    ];
    let done = job.run(&kernel).expect("the guest runs");
    assert_eq!(done.code, 0, "{}\n{}\n{}", done.stdout, done.stderr, done.console);
    done
}

/// What came of one malloc's program.
struct Run {
    plan: Value,
    apply: Value,
    /// Blocks that were empty before anybody moved anything.
    empty: u64,
    migrated: u64,
}

impl Run {
    #[track_caller]
    fn of(done: &Finished, malloc: &str) -> Run {
        let text = |kind: &str| {
            let file = done.files.path().join(format!("{malloc}.{kind}"));
            std::fs::read_to_string(file).expect("it was left")
        };
        let json = |kind: &str| -> Value { serde_json::from_str(&text(kind)).expect("JSON") };
        println!("{}", text("txt"));
        assert_eq!(text("program").trim(), "0", "the program found everything as it was");
        assert_eq!(text("code").trim(), "0", "{}", text("apply"));
        let first = std::fs::read_to_string(done.files.path().join("states")).expect("it was left");
        assert_eq!(text("states"), first, "all is online again");
        let pages = |kind: &str| -> u64 {
            text(kind).split_whitespace().nth(1).expect("a number").parse().expect("a number")
        };
        let empty = |block: &&Value| block["verdict"] == "empty";
        Run {
            plan: json("plan"),
            apply: json("apply"),
            empty: json("show")["blocks"].as_array().expect("blocks").iter().filter(empty).count()
                as u64,
            migrated: (pages("after") - pages("before")) << 12,
        }
    }

    fn number(document: &Value, key: &str) -> u64 {
        document[key].as_u64().unwrap_or_else(|| panic!("no {key} in {document}"))
    }

    /// Of the memory that nobody needed, before: what would be off if only empty blocks went; and what was.
    fn shares(&self) -> (f64, f64) {
        let idle = Run::number(&self.plan, "free_bytes") + Run::number(&self.plan, "offline_bytes");
        let block = Run::number(&self.plan, "block_bytes");
        let off = Run::number(&self.apply["after"], "offline_bytes");
        ((self.empty * block) as f64 / idle as f64, off as f64 / idle as f64)
    }
}

fn blocks_go_offline_as_promised_and_come_back() {
    let done = run();
    let runs = ["freehold", "glibc"].map(|malloc| (malloc, Run::of(&done, malloc)));
    println!(
        "malloc; MiB offline, promised, moved, in the plan's blocks, free before; c, c of empty blocks only"
    );
    for (malloc, run) in &runs {
        let off = Run::number(&run.apply["after"], "offline_bytes");
        let promised = Run::number(&run.plan, "promised_bytes");
        let most = Run::number(&run.plan, "migrated_at_most_bytes");
        let planned = Run::number(&run.plan, "migrated_bytes") >> 20;
        let (nothing, c) = run.shares();
        let [off, promised, migrated, free] =
            [off, promised, run.migrated, Run::number(&run.plan, "free_bytes")].map(|n| n >> 20);
        println!("{malloc:9} {off} {promised} {migrated} {planned} {free} {c:.3} {nothing:.3}");
        assert!(off >= promised, "{malloc}: {off} of {promised} MiB");
        assert!(run.migrated <= most * 11 / 10 + (8 << 20), "{migrated} MiB of {most} bytes");
        assert!(c >= nothing, "{malloc}: {c} with a plan, {nothing} without");
    }
    let [freehold, glibc] = runs.map(|(_, run)| run);
    let ((_, ours), (nothing, theirs)) = (freehold.shares(), glibc.shares());
    assert!(ours > theirs && ours > nothing, "{ours}; glibc {theirs}, nothing done {nothing}");
    let off = |run: &Run| Run::number(&run.apply["after"], "offline_bytes");
    assert!(off(&freehold) > off(&glibc), "in bytes, too");
}
