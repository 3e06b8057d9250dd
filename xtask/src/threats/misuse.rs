//! The rows of the table: each a case of misuse.c, run in several sizes and variants, several times, under each malloc.

use super::columns::Column;
use super::trial::{self, Trial, Verdict};
use crate::bench::allocators::Allocator;
use crate::bench::place::{Place, must};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One misuse.
pub struct Case {
    /// As misuse.c calls it.
    pub name: &'static str,
    /// As the table does.
    pub sentence: &'static str,
}

/// All of them, in the order of the table.
pub const ALL: &[Case] = &[
    Case { name: "double-free", sentence: "double free, immediate" },
    Case { name: "double-free-after-another", sentence: "double free after other frees" },
    Case {
        name: "double-free-mark-overwritten",
        sentence: "double free after the block was overwritten",
    },
    Case { name: "double-free-other-thread", sentence: "double free by another thread" },
    Case { name: "double-free-large", sentence: "double free of a large block" },
    Case { name: "interior-free-small", sentence: "free inside a small block" },
    Case { name: "interior-free-large", sentence: "free inside a large block" },
    Case { name: "foreign-free", sentence: "free of a stack, a global, a mapping" },
    Case { name: "link-overwritten-blindly", sentence: "free block overwritten blindly" },
    Case {
        name: "link-overwritten-after-leak",
        sentence: "free block overwritten after it was read",
    },
    Case {
        name: "key-by-uninitialised-read",
        sentence: "key from an uninitialised read, then 8 bytes",
    },
    Case { name: "overflow-into-neighbour", sentence: "overflow into a neighbour" },
    Case { name: "read-after-free", sentence: "read after free" },
    Case { name: "write-after-free", sentence: "write after free" },
    Case { name: "wrong-free-sized", sentence: "sized free with a wrong size" },
];

/// Sizes of small blocks: a few words, many, and close to a page's part.
const SIZES: &[usize] = &[40, 200, 1000];
/// More variants than any case has; it says which there are not.
const VARIANTS: usize = 64;

/// How often, and how many at a time.
#[derive(Clone, Copy)]
pub struct Rounds {
    pub runs: usize,
    pub jobs: usize,
}

/// What a malloc does with one misuse: all its runs.
#[derive(Clone, Default)]
pub struct Cell {
    /// Variant and size beside each run.
    pub trials: Vec<(usize, usize, Trial)>,
}

/// A row of the table; `None` where nothing was run.
pub struct Row {
    pub case: &'static Case,
    pub cells: Vec<Option<Cell>>,
}

impl Cell {
    /// The worst of its runs. A fault stops the program as a message does.
    pub fn worst(&self) -> Verdict {
        let worst = self.trials.iter().map(|(_, _, trial)| trial.verdict).max();
        match worst.unwrap_or(Verdict::Silent) {
            Verdict::Fault => Verdict::Detected,
            Verdict::Hang => Verdict::Silent,
            verdict => verdict,
        }
    }

    /// How many runs ended so.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.trials.iter().filter(|(_, _, trial)| trial.verdict == verdict).count()
    }

    /// Counts, and one run of the worst kind to look at.
    pub fn json(&self) -> Value {
        let worst = self.trials.iter().max_by_key(|(_, _, trial)| trial.verdict);
        json!({
            "verdict": self.worst(),
            "runs": self.trials.len(),
            "detected": self.count(Verdict::Detected),
            "faults": self.count(Verdict::Fault),
            "silent": self.count(Verdict::Silent),
            "hangs": self.count(Verdict::Hang),
            "exploitable": self.count(Verdict::Exploitable),
            "worst": worst.map(|(size, variant, trial)| json!({
                "size": size, "variant": variant, "said": trial.said,
            })),
        })
    }
}

/// Runs every case under every malloc that is there.
pub fn judge(
    place: &Place,
    cases: Vec<&'static Case>,
    columns: &[Column],
    rounds: Rounds,
) -> anyhow::Result<Vec<Row>> {
    let program = compile(place)?;
    let mut rows = Vec::new();
    for case in cases {
        eprintln!("{}", case.name);
        let mut cells = Vec::new();
        for column in columns {
            cells.push(match &column.allocator {
                Ok(allocator) => cell(&program, allocator, case, rounds)?,
                Err(_) => None,
            });
        }
        rows.push(Row { case, cells });
    }
    Ok(rows)
}

/// Not optimised: the compiler must keep every misuse.
fn compile(place: &Place) -> anyhow::Result<PathBuf> {
    let source = crate::sources::root().join("xtask/threats/misuse.c");
    let program = place.scratch.join("misuse");
    let mut compiler = Command::new("cc");
    compiler.args(["-O0", "-w", "-pthread", "-o"]).arg(&program).arg(source);
    // With the C++ library, so that every malloc has a delete with a size.
    compiler.args(["-Wl,--no-as-needed", "-lstdc++", "-ldl"]);
    must(&mut compiler, "misuse.c does not compile (package g++)")?;
    Ok(program)
}

/// All runs of a case; `None` if it has no variant under this malloc.
fn cell(
    program: &Path,
    allocator: &Allocator,
    case: &Case,
    rounds: Rounds,
) -> anyhow::Result<Option<Cell>> {
    let runs: Vec<(usize, usize)> =
        SIZES.iter().flat_map(|size| (0..VARIANTS).map(move |variant| (*size, variant))).collect();
    let next = AtomicUsize::new(0);
    let trials = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..rounds.jobs {
            scope.spawn(|| {
                while let Some(&(size, variant)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for _ in 0..rounds.runs {
                        let found = trial::run(program, allocator, case.name, size, variant);
                        let none = matches!(found, Ok(None));
                        lock(&trials).push((size, variant, found));
                        if none {
                            break;
                        }
                    }
                }
            });
        }
    });
    let mut cell = Cell::default();
    for (size, variant, found) in
        trials.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    {
        if let Some(trial) = found? {
            cell.trials.push((size, variant, trial));
        }
    }
    cell.trials.sort_by_key(|(size, variant, _)| (*size, *variant));
    Ok((!cell.trials.is_empty()).then_some(cell))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
