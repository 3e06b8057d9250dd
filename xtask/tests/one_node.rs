//! What placement by node costs where there is one node: nothing. Instructions inside the library as it ships, counted by
//! valgrind; they do not depend on the machine's mood. They are held against what the commit before placement took
//! (f593eb0), by this test's own programs, options and counting; and with placement switched off by its option not one
//! is saved.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use xtask::by_object;

/// A workload's source, its parameters around the number of operations, that number (with as many digits as its double,
/// so that stacks lie alike), and instructions for so many operations more before placement. Of the second's, two a refill
/// are new: whether the cache has a home. Of the third's, [`GROWTH`] a block are.
const ROWS: [(&str, &str, u64, &str, u64); 3] = [
    ("fixed.c", "64 10000", 40_000, "random 1", 1_600_000),
    ("mixed.c", "real 2000", 40_000, "1", 1_711_229),
    ("large.c", "64K 4M 16", 4_000, "edge", 4_458_474 + 4_000 * GROWTH),
];
/// New since then for each large block and its free: limits count pages, and free units go back before memory grows.
const GROWTH: u64 = 66;
/// The same for one malloc and free in a process of its own, the heap's start included.
const START: u64 = 3_578;
/// New since then at the start: four system calls that say what belongs into core files.
const CORE_FILES: u64 = 81;
/// And there: locks that name their holders, a unit of caches that is told from others.
const FORKS: u64 = 110;
/// And there: limits that follow the container, slabs that threads share, free units that go back before memory grows (3,816 before
/// these, 3,994 with them).
const ROOM: u64 = 178;
/// New since then in every malloc: what leaves a stack is checked, and link and mark are wiped.
const CHECKED: u64 = 4;
/// What may be above that, in thousandths: the code changes for other reasons, too, the start's most of all.
const MORE: u64 = 10;
const MORE_AT_START: u64 = 60;
/// And below, before somebody should count anew.
const LESS: u64 = 100;

struct Bench {
    library: PathBuf,
    folder: &'static Path,
}

impl Bench {
    fn compile(&self, source: &str) -> PathBuf {
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/workloads");
        let program =
            self.folder.join(format!("{}-{}", source.replace('.', "-"), std::process::id()));
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-fno-builtin", "-pthread", "-o"]).arg(&program);
        let output =
            compiler.arg(workloads.join(source)).arg("-lm").output().expect("there is a cc");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    }

    /// Instructions in the library (and some forty of nobody's), with nothing in the environment but this.
    fn count(&self, program: &Path, parameters: &str, nodes: Option<&str>) -> u64 {
        let out = self.folder.join(format!("counts-{}", std::process::id()));
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--tool=callgrind"]);
        valgrind.arg(format!("--callgrind-out-file={}", out.display()));
        valgrind.arg(program).args(parameters.split_whitespace()).stdin(Stdio::null());
        valgrind.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // In the background the purger works by the clock.
        valgrind.env("FREEHOLD_PURGE", "off").envs(nodes.map(|nodes| ("FREEHOLD_NODES", nodes)));
        let output =
            valgrind.env("LD_PRELOAD", &self.library).output().expect("it was there before");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let counts = by_object(&std::fs::read_to_string(&out).expect("it was written"));
        let library = self.library.display().to_string();
        assert!(counts.contains_key(&library), "the library was loaded");
        // Valgrind knows of one section of code a library; what lies in others is of nobody.
        [library.as_str(), "???"].iter().filter_map(|object| counts.get(*object)).sum()
    }
}

/// Held against what was counted before placement.
#[track_caller]
fn assert_bounded(what: &str, found: u64, bound: u64, more: u64) {
    println!("{what}: {found} instructions, {bound} before placement");
    let most = bound * (1000 + more) / 1000;
    assert!(found <= most, "{what}: {found} instructions, {bound} before placement");
    assert!(
        found >= bound * (1000 - LESS) / 1000,
        "{what}: {found} is far below {bound}: count anew"
    );
}

fn one_node_costs_no_instructions() {
    freehold_testkit::instructions::need_valgrind();
    let nodes = std::fs::read_to_string("/sys/devices/system/node/has_memory").unwrap_or_default();
    if nodes.contains([',', '-']) {
        return println!("several nodes here: {nodes}");
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let bench = Bench { library: freehold_testkit::preload_library(target), folder: target };
    let trivial = bench.compile("trivial.c");
    let trivial = bench.count(&trivial, "", None);
    assert_bounded(
        "one malloc and free",
        trivial,
        START + CORE_FILES + FORKS + ROOM,
        MORE_AT_START,
    );
    for (source, before, operations, after, bound) in ROWS {
        let bound = bound + CHECKED * operations;
        let program = bench.compile(source);
        let count = |times: u64, nodes| {
            bench.count(&program, &format!("{before} {} {after}", operations * times), nodes)
        };
        let [placed, off] = [None, Some("off")].map(|nodes| count(2, nodes) - count(1, nodes));
        assert_bounded(&format!("{source}, {operations} more"), placed, bound, MORE);
        assert_eq!(placed, off, "{source}, placement switched off");
    }
}

freehold_testkit::trials! {
    one_node_costs_no_instructions,
}
