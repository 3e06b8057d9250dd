//! All cases of a suite under glibc and in each of their ways under the library.

use super::Workshop;
use super::case::{Case, Verdict};
use super::column::{Columns, Way};
use crate::bench::allocators::Allocator;
use crate::bench::binding;
use std::ffi::OsString;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a suite runs.
pub struct Plan {
    /// Its cases.
    pub cases: Vec<Case>,
    /// A command of the tested program that ends at once: asked which malloc it is bound to. Empty: it cannot be asked.
    pub probe: Vec<OsString>,
    /// The program links an allocator of its own: for glibc's column the C library is preloaded.
    pub own_allocator: bool,
    /// Most cases that may run at a time.
    pub jobs: usize,
}

/// A case that passes under glibc and fails in one of its ways, twice.
pub struct Finding {
    /// Its name and the way.
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
    /// Cases that passed under glibc, times their ways.
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

/// Runs all cases that have a way. That the tested program does not take its malloc from the library is a finding as well.
pub fn run(
    suite: &str,
    plan: Plan,
    workshop: &Workshop,
    columns: &Columns,
    jobs: usize,
) -> anyhow::Result<Tally> {
    let bound = verify_binding(&plan, workshop, columns);
    let bench = Bench {
        folder: workshop.place.scratch.join(suite),
        logs: workshop.place.target.join("soak/logs").join(suite),
        own_allocator: plan.own_allocator,
        columns,
    };
    let _ = std::fs::remove_dir_all(&bench.logs);
    std::fs::create_dir_all(&bench.logs)?;
    let cases: Vec<&Case> = plan.cases.iter().filter(|it| !columns.of(it).is_empty()).collect();
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(plan.jobs) {
            scope.spawn(|| {
                while let Some(&case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = bench.judge(case, &columns.of(case));
                    show(suite, done.fetch_add(1, Ordering::Relaxed) + 1, cases.len());
                    lock(&results).push((case, result));
                }
            });
        }
    });
    let mut tally = Tally::default();
    if let Err(why) = bound {
        let log = bench.logs.join("binding");
        std::fs::write(&log, format!("{why:#}\n"))?;
        tally.counted += 1;
        tally.findings.push(Finding { case: "binding".to_owned(), why: why.to_string(), log });
    }
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

/// Verdicts under glibc and, if that passed, of every way.
struct Judged {
    glibc: Verdict,
    tested: Vec<(Way, Verdict)>,
}

struct Bench<'a> {
    folder: PathBuf,
    logs: PathBuf,
    own_allocator: bool,
    columns: &'a Columns,
}

impl Bench<'_> {
    fn judge(&self, case: &Case, ways: &[Way]) -> anyhow::Result<Judged> {
        let glibc = self.once(case, None)?;
        let mut tested = Vec::new();
        if let Verdict::Passed(said) = &glibc {
            for way in ways {
                tested.push((*way, self.compare(case, *way, said)?));
            }
        }
        Ok(Judged { glibc, tested })
    }

    fn compare(&self, case: &Case, way: Way, said: &[u8]) -> anyhow::Result<Verdict> {
        Ok(match self.once(case, Some(way))? {
            Verdict::Passed(now) if now != *said => {
                Verdict::Failed("prints something else than under glibc".to_owned())
            }
            Verdict::Skipped => Verdict::Failed("skips itself, but not under glibc".to_owned()),
            verdict => verdict,
        })
    }

    fn once(&self, case: &Case, way: Option<Way>) -> anyhow::Result<Verdict> {
        let preload = self.columns.preload(way, self.own_allocator);
        let name = name_of(case, way);
        let trace = self.folder.join(format!("{name}.fht"));
        let dressed = self.columns.dress(case, way, &trace);
        let verdict = dressed.run(&preload, &self.folder.join(&name), &self.logs.join(&name))?;
        if way != Some(Way::Record) {
            return Ok(verdict);
        }
        let whole = self.columns.verify_trace(&trace)?;
        Ok(match (verdict, whole) {
            (Verdict::Passed(_), Err(why)) => Verdict::Failed(why),
            (verdict, _) => verdict,
        })
    }

    fn count(&self, tally: &mut Tally, case: &Case, judged: Judged) -> anyhow::Result<()> {
        match judged.glibc {
            Verdict::Skipped => tally.skipped += 1,
            Verdict::Failed(_) => tally.fail_under_glibc += 1,
            Verdict::Passed(_) => {}
        }
        for (way, verdict) in judged.tested {
            match verdict {
                Verdict::Passed(_) => tally.counted += 1,
                _ => self.again(tally, case, way)?,
            }
        }
        Ok(())
    }

    /// The case failed this way, but not under glibc: once more, alone.
    fn again(&self, tally: &mut Tally, case: &Case, way: Way) -> anyhow::Result<()> {
        let mut judged = self.judge(case, &[way])?;
        let Some((_, verdict)) = judged.tested.pop() else {
            tally.fail_under_glibc += 1;
            return Ok(());
        };
        tally.counted += 1;
        let shown = format!("{} [{}]", case.name, way.name());
        match verdict {
            Verdict::Failed(why) => {
                let log = self.logs.join(name_of(case, Some(way)));
                tally.findings.push(Finding { case: shown, why, log });
            }
            _ => tally.unsteady.push(shown),
        }
        Ok(())
    }
}

/// What a run of a case is called among files.
fn name_of(case: &Case, way: Option<Way>) -> String {
    format!("{}.{}", case.name.replace(['/', ' '], "-"), way.map_or("glibc", Way::name))
}

/// The tested program, and all it starts, must take its malloc from the library.
fn verify_binding(plan: &Plan, workshop: &Workshop, columns: &Columns) -> anyhow::Result<()> {
    let Some((program, arguments)) = plan.probe.split_first() else { return Ok(()) };
    let library = &columns.library;
    let prefix = binding::prepare(&workshop.place)?;
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", library).env("PYTHONMALLOC", "malloc");
    command.env("LD_DEBUG", "bindings").env("LD_DEBUG_OUTPUT", &prefix);
    command.stdin(Stdio::null()).output()?;
    let allocator = Allocator {
        name: Way::Freehold.name().to_owned(),
        library: Some(library.clone()),
        env: Vec::new(),
        version: String::new(),
    };
    binding::verify(&prefix, &allocator)
}
