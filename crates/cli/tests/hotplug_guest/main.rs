//! Memory is really unplugged: blocks of a guest go offline under a program that lives on, as many as the plan promised,
//! nothing is lost, and all come back; on one node, and on two, each with a program of its own.
//!
//! Compared: how much of the free memory can be off (c) when the program ran on Freehold's malloc, on glibc's, and when
//! nobody plans and only blocks that happen to be empty go.

use freehold_guest::{Bytes, Dimm, Finished, Job, Kernel, Machine, missing_tool};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

freehold_testkit::trials!(
    blocks_go_offline_as_promised_and_come_back,
    two_nodes_are_emptied_one_after_the_other,
);

/// Once for each malloc: name, environment, and for each program the processors that it may use. `$options` are the plan's.
const SCRIPT: &str = r#"
# Only what the command moves shall count.
echo 0 >/proc/sys/kernel/numa_balancing
cd /sys/devices/system/memory
# The machine's own memory, then what was plugged: that can be taken again.
for state in $(grep -l offline memory*/state); do echo online_movable >$state || exit 1; done
plugged=$(grep -l Movable memory*/valid_zones | tr -dc '0-9\n')
cat memory*/state >/out/states
one() {
  name=$1 preload=$2; shift 2
  count=0 pids= code=0
  for mask; do
    count=$((count + 1))
    env $preload taskset $mask /churn MOST /tmp/$name.$count & pids="$pids $!"
  done
  count=0
  for pid in $pids; do
    count=$((count + 1))
    until [ -e /tmp/$name.$count.settled ] || ! kill -0 $pid; do usleep 20000; done
  done
  /freehold hotplug show --json >/out/$name.show || exit 1
  /freehold hotplug show >/out/$name.txt || exit 1
  /freehold hotplug plan $options --json >/out/$name.plan || exit 1
  grep pgmigrate_success /proc/vmstat >/out/$name.before
  /freehold hotplug apply $options --timeout 300 --json >/out/$name.apply; echo $? >/out/$name.code
  grep pgmigrate_success /proc/vmstat >/out/$name.after
  touch $(ls /tmp/$name.*.settled | sed 's/settled/go/')
  for pid in $pids; do wait $pid || code=$?; done
  echo $code >/out/$name.program
  for block in $(grep -l offline memory*/state | tr -dc '0-9\n'); do
    movable=; for other in $plugged; do [ $block = $other ] && movable=--movable; done
    /freehold hotplug online $block $movable || exit 1
  done
  cat memory*/state >/out/$name.states
}
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

/// Boots, and runs programs that have `most` MiB in use at their most.
fn run(machine: Machine, most: u32, runs: &str) -> Finished {
    if let Some(missing) = missing_tool() {
        freehold_testkit::skip(&missing);
    }
    let kernel = Kernel::find(folder()).unwrap_or_else(|why| {
        freehold_testkit::skip(&format!("{why:#}"));
        unreachable!("a trial ends there")
    });
    let script = SCRIPT.replace("MOST", &most.to_string()) + runs;
    let mut job = Job::new(machine, &script);
    // Once for both trials, which run side by side.
    static FILES: OnceLock<[PathBuf; 3]> = OnceLock::new();
    let files = FILES.get_or_init(|| [compile(), library(), stripped()]).iter().cloned();
    job.files = files.zip(["/churn", "/libfreehold.so", "/freehold"].map(str::to_owned)).collect();
    let done = job.run(&kernel).expect("the guest runs");
    assert_eq!(done.code, 0, "{}\n{}\n{}", done.stdout, done.stderr, done.console);
    done
}

/// What came of one malloc's program.
struct Run {
    /// The plan that was carried out, and what came of it.
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
        let (before, apply) = (json("plan"), json("apply"));
        // The kernel works on between the two looks: a block that was empty may have got a page, or another lost its last.
        let blocks = |plan| Run::number(plan, "promised_blocks");
        assert!(blocks(&before).abs_diff(blocks(&apply)) <= 1, "{before:#}, and then {apply:#}");
        Run {
            apply,
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
        let idle =
            Run::number(&self.apply, "free_bytes") + Run::number(&self.apply, "offline_bytes");
        let block = Run::number(&self.apply, "block_bytes");
        let off = Run::number(&self.apply["after"], "offline_bytes");
        ((self.empty * block) as f64 / idle as f64, off as f64 / idle as f64)
    }
}

impl Run {
    /// What was promised is offline, and no more was moved for it than was said. Prints it.
    #[track_caller]
    fn assert_promises(&self, machine: &str, malloc: &str) {
        let number = |key| Run::number(&self.apply, key);
        let off = Run::number(&self.apply["after"], "offline_bytes");
        let (promised, most) = (number("promised_bytes"), number("migrated_at_most_bytes"));
        let (planned, free, moved) =
            (number("migrated_bytes"), number("free_bytes"), self.migrated);
        let (nothing, c) = self.shares();
        println!(
            "{machine} {malloc:9} {} {} {} {} {} {:.2} {} {c:.3} {nothing:.3}",
            off >> 20,
            promised >> 20,
            planned >> 20,
            most >> 20,
            moved >> 20,
            moved as f64 / planned as f64,
            free >> 20
        );
        freehold_testkit::figures::keep(&format!(
            r#"{{"kind":"hotplug","machine":"{machine}","malloc":"{malloc}","offline":{off},"promised":{promised},"planned_to_move":{planned},"at_most":{most},"moved":{moved},"free_before":{free},"c":{c},"c_of_empty_blocks":{nothing}}}"#
        ));
        assert!(off >= promised, "{malloc}: {off} of {promised} bytes");
        assert!(moved <= most * 11 / 10 + (8 << 20), "{moved} of {most} bytes");
        assert!(c >= nothing, "{malloc}: {c} with a plan, {nothing} without");
        let told = self.apply["after"]["migrated_bytes"].as_u64().expect("a number");
        assert!(told.abs_diff(moved) <= moved / 10 + (8 << 20), "{told} told, {moved}");
    }
}

/// What [`Run::assert_promises`] prints.
const COLUMNS: &str = "machine; malloc; MiB offline, promised, in the plan's blocks, moved at most, moved; times; free \
                       before; c, c of empty blocks only";

fn blocks_go_offline_as_promised_and_come_back() {
    let dimm = Dimm { memory: Bytes(768 << 20), node: 0 };
    let machine = Machine::even(1, 2, Bytes(512 << 20)).expect("a machine").with_dimm(dimm);
    let done =
        run(machine, 400, "one freehold LD_PRELOAD=/libfreehold.so 3\none glibc GLIBC=1 3\n");
    let runs = ["freehold", "glibc"].map(|malloc| (malloc, Run::of(&done, malloc)));
    println!("{COLUMNS}");
    for (malloc, run) in &runs {
        run.assert_promises("1 node", malloc);
    }
    let [freehold, glibc] = runs.map(|(_, run)| run);
    let ((_, ours), (nothing, theirs)) = (freehold.shares(), glibc.shares());
    assert!(ours > theirs && ours > nothing, "{ours}; glibc {theirs}, nothing done {nothing}");
    let off = |run: &Run| Run::number(&run.apply["after"], "offline_bytes");
    assert!(off(&freehold) > off(&glibc), "in bytes, too");
}

/// A program on each node; memory of both is unplugged. What leaves a node goes to the other.
fn two_nodes_are_emptied_one_after_the_other() {
    let dimm = |node| Dimm { memory: Bytes(256 << 20), node };
    let machine = Machine::even(2, 2, Bytes(768 << 20)).expect("a machine");
    let machine = machine.with_dimm(dimm(0)).with_dimm(dimm(1));
    // The other node has room for what moves, but with half a block of slack only just: a larger kernel took it.
    let runs = "options='--slack 16M'\none freehold LD_PRELOAD=/libfreehold.so 1 2\n";
    let done = run(machine, 160, runs);
    let run = Run::of(&done, "freehold");
    println!("{COLUMNS}");
    run.assert_promises("2 nodes", "freehold");
    let sets = run.apply["sets"].as_array().expect("sets").iter();
    let moving = sets.filter(|set| set["migrated"] != 0).map(|set| set["node"].as_u64());
    let mut order: Vec<_> = moving.collect();
    assert!(order.contains(&Some(0)) && order.contains(&Some(1)), "of both: {}", run.apply["sets"]);
    order.dedup();
    assert_eq!(order.len(), 2, "one after the other: {order:?}");
}
