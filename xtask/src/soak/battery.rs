//! All cases of a suite under glibc and under the library.

use super::Workshop;
use super::case::{Case, Verdict};
use crate::bench::allocators::Allocator;
use crate::bench::binding;
use std::ffi::OsString;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An allocator under which cases run.
pub struct Column {
    name: &'static str,
    library: Option<PathBuf>,
}

impl Column {
    /// The C library's own malloc.
    pub fn glibc() -> Column {
        Column { name: "glibc", library: None }
    }

    /// A preload library.
    pub fn preload(name: &'static str, library: &Path) -> Column {
        Column { name, library: Some(library.to_owned()) }
    }
}

/// What a suite runs.
pub struct Plan {
    /// Its cases.
    pub cases: Vec<Case>,
    /// A command of the tested program that ends at once: asked which malloc it is bound to.
    pub probe: Vec<OsString>,
    /// The program links an allocator of its own: for glibc's column the C library is preloaded.
    pub own_allocator: bool,
    /// Most cases that may run at a time.
    pub jobs: usize,
}

/// A case that passes under glibc and fails under the library, twice.
pub struct Finding {
    /// Its name.
    pub case: String,
    /// How it failed.
    pub why: String,
    /// What it printed.
    pub log: PathBuf,
}

/// What became of a suite.
#[derive(Default)]
pub struct Tally {
    /// There is nothing to compare with: a test of ours.
    pub alone: bool,
    /// Cases that passed under glibc.
    pub counted: usize,
    /// Cases that failed under glibc: not counted.
    pub fail_under_glibc: usize,
    /// Cases that say themselves that they did not run.
    pub skipped: usize,
    /// Cases that failed under the library once, and passed then.
    pub unsteady: Vec<String>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let passed = self.counted - self.findings.len();
        if self.alone {
            return write!(f, "{passed} of {} pass", self.counted);
        }
        write!(f, "{passed} of {} that pass under glibc pass", self.counted)?;
        if self.fail_under_glibc != 0 {
            write!(f, "; {} fail under glibc", self.fail_under_glibc)?;
        }
        if self.skipped != 0 {
            write!(f, "; {} skip themselves", self.skipped)?;
        }
        Ok(())
    }
}

/// Runs all cases; `Err` when the tested program does not use the library at all.
pub fn run(
    suite: &str,
    plan: Plan,
    workshop: &Workshop,
    columns: &[Column; 2],
    jobs: usize,
) -> anyhow::Result<Tally> {
    verify_binding(&plan, workshop, &columns[1])?;
    let bench = Bench {
        folder: workshop.place.scratch.join(suite),
        logs: workshop.place.target.join("soak/logs").join(suite),
        own_allocator: plan.own_allocator,
        columns,
    };
    let _ = std::fs::remove_dir_all(&bench.logs);
    std::fs::create_dir_all(&bench.logs)?;
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(plan.jobs) {
            scope.spawn(|| {
                while let Some(case) = plan.cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = bench.judge(case);
                    show(suite, done.fetch_add(1, Ordering::Relaxed) + 1, plan.cases.len());
                    lock(&results).push((case, result));
                }
            });
        }
    });
    let mut tally = Tally::default();
    for (case, result) in results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
        bench.count(&mut tally, case, result?)?;
    }
    Ok(tally)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn show(suite: &str, done: usize, all: usize) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        let end = if done == all { "\r\u{1b}[K" } else { "" };
        let _ = write!(err, "\r{suite} {done}/{all}{end}");
    }
}

/// Verdicts under glibc and, if that passed, under the library.
struct Pair {
    glibc: Verdict,
    tested: Option<Verdict>,
}

struct Bench<'a> {
    folder: PathBuf,
    logs: PathBuf,
    own_allocator: bool,
    columns: &'a [Column; 2],
}

impl Bench<'_> {
    fn judge(&self, case: &Case) -> anyhow::Result<Pair> {
        let glibc = self.once(case, &self.columns[0])?;
        let Verdict::Passed(said) = &glibc else { return Ok(Pair { glibc, tested: None }) };
        let tested = match self.once(case, &self.columns[1])? {
            Verdict::Passed(now) if now != *said => {
                Verdict::Failed("prints something else than under glibc".to_owned())
            }
            Verdict::Skipped => Verdict::Failed("skips itself, but not under glibc".to_owned()),
            verdict => verdict,
        };
        Ok(Pair { glibc, tested: Some(tested) })
    }

    fn once(&self, case: &Case, column: &Column) -> anyhow::Result<Verdict> {
        let preload = match &column.library {
            Some(library) => library.to_string_lossy().into_owned(),
            None if self.own_allocator => "libc.so.6".to_owned(),
            None => String::new(),
        };
        let name = format!("{}.{}", case.name.replace(['/', ' '], "-"), column.name);
        case.run(&preload, &self.folder.join(&name), &self.logs.join(&name))
    }

    fn count(&self, tally: &mut Tally, case: &Case, pair: Pair) -> anyhow::Result<()> {
        match (pair.glibc, pair.tested) {
            (Verdict::Skipped, _) => tally.skipped += 1,
            (Verdict::Failed(_), _) | (_, None) => tally.fail_under_glibc += 1,
            (Verdict::Passed(_), Some(Verdict::Passed(_))) => tally.counted += 1,
            (Verdict::Passed(_), Some(_)) => self.again(tally, case)?,
        }
        Ok(())
    }

    /// The case failed under the library only: once more, alone.
    fn again(&self, tally: &mut Tally, case: &Case) -> anyhow::Result<()> {
        match self.judge(case)? {
            Pair { glibc: Verdict::Passed(_), tested: Some(Verdict::Failed(why)) } => {
                tally.counted += 1;
                let log = self.logs.join(format!(
                    "{}.{}",
                    case.name.replace(['/', ' '], "-"),
                    self.columns[1].name
                ));
                tally.findings.push(Finding { case: case.name.clone(), why, log });
            }
            Pair { glibc: Verdict::Passed(_), .. } => {
                tally.counted += 1;
                tally.unsteady.push(case.name.clone());
            }
            _ => tally.fail_under_glibc += 1,
        }
        Ok(())
    }
}

/// The tested program, and all it starts, must take its malloc from the library.
fn verify_binding(plan: &Plan, workshop: &Workshop, column: &Column) -> anyhow::Result<()> {
    let (Some(library), Some((program, arguments))) = (&column.library, plan.probe.split_first())
    else {
        return Ok(());
    };
    let prefix = binding::prepare(&workshop.place)?;
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", library).env("PYTHONMALLOC", "malloc");
    command.env("LD_DEBUG", "bindings").env("LD_DEBUG_OUTPUT", &prefix);
    command.stdin(Stdio::null()).output()?;
    let allocator = Allocator {
        name: column.name.to_owned(),
        library: Some(library.clone()),
        env: Vec::new(),
        version: String::new(),
    };
    binding::verify(&prefix, &allocator)
}
