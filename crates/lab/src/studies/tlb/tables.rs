//! Table 1, ours beside the published, and the same accesses on other placements and other TLBs.

use super::caches::{CacheUse, cache_uses};
use super::packing::Packing;
use super::place::{PlaceError, Placed, Sample, place};
use super::published::{PROCESSORS, published};
use super::real::{Seen, place_really};
use crate::real::Allocator;
use crate::simulate::crew;
use freehold_sim::cache::{ORIGIN_SECOND, R10000_FIRST, Shape};
use freehold_sim::processors::{Costs, Dealing, MachineSpec, Run, Sharing, run as run_on};
use freehold_sim::tlb::{GOLDEN_COVE, TlbSpec, ZEN_4, r10000};
use freehold_trace::{ProcessId, Trace};
use serde::Serialize;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Version of the JSON.
pub const SCHEMA_VERSION: u32 = 4;
/// Page lengths of Table 1, as log2.
pub const PAGES: [u32; 2] = [14, 20];
/// The TLB's entries are divided by these: the same data against a reach so many times as short, which
/// is what so many times as much data against the whole reach would be like.
pub const DIVISORS: [u32; 3] = [1, 2, 4];
/// What things cost on the Origin2000, stated beforehand: two cycles a word at 195 MHz, ten more from
/// the second level, 400 ns from memory, half a microsecond for malloc or free, 100 ns for an inbox.
pub const COSTS: Costs = Costs { word: 10, second: 50, memory: 400, call: 500, inbox: 100 };

/// One simulated run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The policy that placed the objects.
    pub policy: String,
    /// Whose TLB.
    pub tlb: &'static str,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// What the TLB's entries are divided by.
    pub divisor: u32,
    /// Processors.
    pub processors: u32,
    /// How the allocator is shared.
    pub sharing: &'static str,
    /// How tasks are dealt out.
    pub dealing: &'static str,
    /// Words touched.
    pub accesses: u64,
    /// Misses of the TLB.
    pub tlb_misses: u64,
    /// Simulated nanoseconds until the last piece of work ended.
    pub time_ns: u64,
    /// Nanoseconds in TLB misses, over all processors.
    pub tlb_ns: u64,
    /// Nanoseconds waiting for locks, over all processors.
    pub lock_wait_ns: u64,
    /// Nanoseconds waiting at the ends of phases, over all processors.
    pub idle_ns: u64,
    /// Calls of the allocator, and those that waited.
    pub calls: u64,
    /// Calls that waited.
    pub contended: u64,
    /// Share of accesses that the first-level cache held.
    pub first_hits: f64,
    /// Share of accesses that one of the two caches held.
    pub either_hits: f64,
    /// Share of what reached the second level that it held.
    pub second_hits: f64,
}

/// A published cell and ours.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// As printed: millions of misses, or seconds.
    pub published: Option<f64>,
    /// Ours, in the unit in which our first cell equals the published first cell.
    pub ours: f64,
    /// Ours over published.
    pub ratio: Option<f64>,
}

/// A row of Table 1.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Share {
    /// Bytes of a page.
    pub page_bytes: u64,
    /// What the TLB's entries are divided by.
    pub divisor: u32,
    /// TLB misses, by processors.
    pub misses: Vec<Cell>,
    /// Time, by processors.
    pub time: Vec<Cell>,
}

/// One policy's placement under every TLB, on one processor.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Policied {
    /// The policy.
    pub policy: String,
    /// How densely pages are filled.
    pub packing: Vec<Packing>,
    /// TLB, bytes of a page, misses per 1,000 words.
    pub misses_per_1000: Vec<(&'static str, u64, f64)>,
}

/// Everything.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Results {
    /// Version of this shape.
    pub schema_version: u32,
    /// The policy whose placement Table 1 uses.
    pub policy: String,
    /// What was recorded.
    pub sample: Sample,
    /// The command that was recorded, with the shares that it tells.
    pub recorded: String,
    /// Processors of the columns.
    pub processors: Vec<u32>,
    /// Table 1, for each divisor.
    pub table: Vec<Share>,
    /// The main policy's runs with all entries and tasks dealt out in order: why misses fall, or do not.
    pub in_order: Vec<Row>,
    /// Which words the caches hold, under the main policy; and, where they were counted, which of all loads
    /// and stores.
    pub caches: Vec<CacheUse>,
    /// All loads and stores of the recorded program, where they were counted, for each recorded word.
    pub accesses_a_word: Option<f64>,
    /// Every policy, and every real malloc.
    pub policies: Vec<Policied>,
    /// How sharing the allocator does: the main policy's runs under every scheme.
    pub sharing: Vec<Row>,
    /// Every run of the main policy.
    pub rows: Vec<Row>,
}

/// The schemes by which threads share the allocator, and what they stand for.
pub const SHARINGS: [(&str, Sharing); 5] = [
    ("one lock", Sharing::OneLock),
    ("4 heaps", Sharing::Heaps(4)),
    ("8 heaps", Sharing::Heaps(8)),
    ("heap per processor", Sharing::PerProcessor),
    ("heaps with inboxes", Sharing::Inbox),
];
const INBOX: usize = 4;

/// A run to be made.
#[derive(Clone, Copy)]
struct Job {
    tlb: TlbSpec,
    divisor: u32,
    processors: u32,
    sharing: usize,
    dealing: Dealing,
}

/// Where the study's placements come from.
pub struct Sources<'a> {
    /// A recording of the application.
    pub trace: &'a Trace,
    /// Its process.
    pub process: ProcessId,
    /// Policies that place its objects; the first is that of Table 1.
    pub policies: &'a [&'a str],
}

/// Real mallocs, and what places a trace by them.
pub struct Mallocs<'a> {
    /// Words of a command that takes a trace and prints what [`super::look_here`] says of it, as JSON.
    pub command: &'a [OsString],
    /// The mallocs.
    pub allocators: &'a [Allocator],
    /// The trace.
    pub trace: &'a Path,
}

/// Simulates everything. Progress counts runs.
///
/// # Errors
/// A policy is not known, the trace has no accesses, or `interrupted` became true.
pub fn run(
    sources: &Sources<'_>,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Results, PlaceError> {
    let Sources { trace, process, policies } = *sources;
    let Some((&first, others)) = policies.split_first() else { return Err(PlaceError::NoAccesses) };
    let jobs = main_jobs();
    let (before, total) = (jobs.len() as u64, (jobs.len() + others.len()) as u64);
    let placed = place(trace, process, first, interrupted)?;
    let rows = all(first, &placed, &jobs, &mut |done| progress(done, total), interrupted)?;
    let (sample, caches) = (placed.sample, cache_uses(&placed));
    let mut policied = vec![Policied::of(first, Seen::of(placed))];
    let finished = AtomicU64::new(before);
    let one = |index: usize| {
        let placed = place(trace, process, others[index], interrupted)?;
        finished.fetch_add(1, Ordering::Relaxed);
        Ok(Policied::of(others[index], Seen::of(placed)))
    };
    let tick = || progress(finished.load(Ordering::Relaxed), total);
    let found: Result<Vec<Policied>, PlaceError> =
        crew::work(others.len(), one, tick).into_iter().collect();
    policied.extend(found?);
    Ok(Results {
        schema_version: SCHEMA_VERSION,
        policy: first.to_owned(),
        sample,
        recorded: recorded(trace),
        processors: PROCESSORS.to_vec(),
        table: table(&rows),
        in_order: rows.iter().filter(|row| row.dealing == IN_ORDER).cloned().collect(),
        caches,
        accesses_a_word: None,
        policies: policied,
        sharing: rows.iter().filter(|row| is_of_sharing(row)).cloned().collect(),
        rows,
    })
}

/// The recorded command, wherever its file lay.
fn recorded(trace: &Trace) -> String {
    let command = &trace.header().command;
    let program = command.first().map(|path| path.rsplit('/').next().unwrap_or(path).to_owned());
    let arguments = command.iter().skip(1).cloned();
    program.into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Where real mallocs put the recorded objects. They measure no time, so other work may go on beside.
///
/// # Errors
/// Placing fails under a malloc, or `interrupted` became true.
pub fn run_really(
    mallocs: &Mallocs<'_>,
    interrupted: &AtomicBool,
) -> Result<Vec<Policied>, PlaceError> {
    let one = |allocator: &Allocator| {
        let seen = place_really(mallocs.command, allocator, mallocs.trace);
        if interrupted.load(Ordering::Relaxed) {
            return Err(PlaceError::Interrupted);
        }
        Ok(Policied::of(&format!("{} (real)", allocator.name), seen?))
    };
    mallocs.allocators.iter().map(one).collect()
}

const IN_ORDER: &str = "in order";
const BY_HOME: &str = "by home";

fn is_of_sharing(row: &Row) -> bool {
    row.divisor == 1 && row.page_bytes == 1 << PAGES[0] && row.dealing == BY_HOME
}

impl Policied {
    fn of(policy: &str, seen: Seen) -> Policied {
        let per_1000 = |(tlb, misses): (&TlbSpec, &u64)| {
            (tlb.name, 1 << tlb.page_log2, *misses as f64 * 1e3 / seen.words.max(1) as f64)
        };
        Policied {
            policy: policy.to_owned(),
            packing: seen.packing,
            misses_per_1000: placement_tlbs().iter().zip(&seen.tlb_misses).map(per_1000).collect(),
        }
    }
}

/// Table 1 for every divisor; with all entries also dealt out in order; every sharing scheme at 16 KiB.
fn main_jobs() -> Vec<Job> {
    let mut jobs = Vec::new();
    let mut row = |page, divisor, sharing, dealing| {
        let tlb = r10000(page);
        jobs.extend(PROCESSORS.map(|processors| Job {
            tlb,
            divisor,
            processors,
            sharing,
            dealing,
        }));
    };
    for page in PAGES {
        DIVISORS.into_iter().for_each(|divisor| row(page, divisor, INBOX, Dealing::ByHome));
    }
    row(PAGES[0], 1, INBOX, Dealing::InOrder);
    (0..INBOX).for_each(|sharing| row(PAGES[0], 1, sharing, Dealing::ByHome));
    jobs
}

/// Every TLB that placements are looked at through.
pub(super) fn placement_tlbs() -> Vec<TlbSpec> {
    let old = PAGES.map(r10000);
    old.into_iter().chain(GOLDEN_COVE[..2].iter().copied()).chain(ZEN_4).collect()
}

/// Every job on this placement, as many at once as there are processors.
fn all(
    policy: &str,
    placed: &Placed,
    jobs: &[Job],
    progress: &mut dyn FnMut(u64),
    interrupted: &AtomicBool,
) -> Result<Vec<Row>, PlaceError> {
    let finished = AtomicU64::new(0);
    let one = |index: usize| {
        if interrupted.load(Ordering::Relaxed) {
            return None;
        }
        let row = jobs[index].run(policy, placed);
        finished.fetch_add(1, Ordering::Relaxed);
        Some(row)
    };
    let tick = || progress(finished.load(Ordering::Relaxed));
    let rows: Option<Vec<Row>> = crew::work(jobs.len(), one, tick).into_iter().collect();
    rows.ok_or(PlaceError::Interrupted)
}

impl Job {
    fn run(&self, policy: &str, placed: &Placed) -> Row {
        self.row(policy, &run_on(&placed.work, &self.machine()))
    }

    fn machine(&self) -> MachineSpec {
        let lines = (self.tlb.first.lines / self.divisor).max(1);
        let ways = self.tlb.first.ways.min(lines);
        let first = Shape { lines, ways, ..self.tlb.first };
        MachineSpec {
            processors: self.processors,
            tlb: TlbSpec { first, ..self.tlb },
            caches: [R10000_FIRST, ORIGIN_SECOND],
            costs: COSTS,
            sharing: SHARINGS[self.sharing].1,
            dealing: self.dealing,
        }
    }

    fn row(&self, policy: &str, run: &Run) -> Row {
        let [first, second] = run.caches;
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        Row {
            policy: policy.to_owned(),
            tlb: self.tlb.name,
            page_bytes: 1 << self.tlb.page_log2,
            divisor: self.divisor,
            processors: self.processors,
            sharing: SHARINGS[self.sharing].0,
            dealing: match self.dealing {
                Dealing::InOrder => IN_ORDER,
                Dealing::ByHome => BY_HOME,
            },
            accesses: run.accesses,
            tlb_misses: run.tlb_misses,
            time_ns: run.time_ns,
            tlb_ns: run.tlb_ns,
            lock_wait_ns: run.lock_wait_ns,
            idle_ns: run.idle_ns,
            calls: run.calls,
            contended: run.contended,
            first_hits: share(first.hits, first.accesses),
            either_hits: share(first.hits + second.hits, first.accesses),
            second_hits: share(second.hits, second.accesses),
        }
    }
}

/// The published cells and ours, each divisor in the unit of its own first cell.
fn table(rows: &[Row]) -> Vec<Share> {
    let mut table = Vec::new();
    for divisor in DIVISORS {
        let ours = |page: u32, processors: u32| {
            rows.iter().find(|row| {
                row.divisor == divisor
                    && row.page_bytes == 1 << page
                    && row.processors == processors
                    && row.sharing == SHARINGS[INBOX].0
                    && row.dealing == BY_HOME
            })
        };
        let ours = &ours;
        let Some((first, printed)) = ours(PAGES[0], 1).zip(published(PAGES[0])) else { continue };
        let unit = |printed: Option<f64>, ours: u64| printed.unwrap_or(1.0) / ours.max(1) as f64;
        let misses = unit(printed.misses[0], first.tlb_misses);
        let seconds = unit(printed.seconds[0], first.time_ns);
        for page in PAGES {
            let Some(printed) = published(page) else { continue };
            let row = |get: fn(&Row) -> u64, unit: f64, printed: [Option<f64>; 7]| {
                let cells = PROCESSORS.iter().zip(printed);
                cells
                    .filter_map(move |(&p, printed)| Some(cell(get(ours(page, p)?), unit, printed)))
            };
            table.push(Share {
                page_bytes: 1 << page,
                divisor,
                misses: row(|row| row.tlb_misses, misses, printed.misses).collect(),
                time: row(|row| row.time_ns, seconds, printed.seconds).collect(),
            });
        }
    }
    table
}

fn cell(ours: u64, unit: f64, published: Option<f64>) -> Cell {
    let ours = ours as f64 * unit;
    Cell { published, ours, ratio: published.map(|published| ours / published) }
}
