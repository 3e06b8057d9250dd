//! The settings, checked, and the cells that they ask for.

use super::heaps::{Blocks, Fit, Heap, Sharing};
use super::patterns::{Job, Pattern};
use crate::human;
use crate::studies::settings::{Settings, SettingsError};
use serde::{Deserialize, Serialize};

/// The default settings.
pub const DEFAULT: &str = include_str!("../../../../../studies/threads.toml");

/// What `--quick` lays over them.
pub const QUICK: &[&str] = &[
    "runs=4",
    "cell_ms=60",
    "limit_ms=250",
    "threads.counts=[1,2,4,20]",
    "threads.steady_ms=3",
    "iterations.counts=[1,10]",
    "lengths.counts=[1,4]",
    "allocations.counts=[10,1000,100000]",
    "wish.threads=[1,4]",
    "wish.sequences=3000",
    "calls.threads=[2]",
    "calls.sequences=1000",
    "turns.processes=1",
    "turns.times=4",
    "turns.slice_ms=4",
];

/// More threads than that prove nothing and may take the machine down.
const MOST_THREADS: usize = 1024;
/// Each is a lock and a list.
const MOST_STRIPES: u32 = 4096;
/// Bytes of a part that no block can have: tags, and what is left over where parts are cut on lines.
const AROUND: u64 = 320;
/// Of the series of all threads together: their lists take some hundred bytes an object.
const MOST_OBJECTS: u64 = 4_000_000;
/// Sequences of an iteration, as the paper has them.
pub const ITERATION: u64 = 1000;

/// The settings as they stand in the file.
#[derive(Clone, Debug, Deserialize)]
struct Asked {
    seed: u64,
    runs: u32,
    pin: bool,
    cell_ms: u64,
    limit_ms: u64,
    region: String,
    series: u32,
    stripes: u32,
    sizes: Sizes,
    on: On,
    threads: Threads,
    iterations: Iterations,
    lengths: Lengths,
    allocations: Counts,
    wish: Wish,
    calls: Wish,
    turns: Turns,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Sizes {
    from: u32,
    to: u32,
}

#[derive(Clone, Debug, Deserialize)]
struct On {
    fits: Vec<Fit>,
    sharing: Vec<Sharing>,
}

#[derive(Clone, Debug, Deserialize)]
struct Threads {
    counts: Vec<usize>,
    iterations: u64,
    steady_ms: u64,
}

#[derive(Clone, Debug, Deserialize)]
struct Iterations {
    threads: usize,
    counts: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Lengths {
    times: u32,
    counts: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Counts {
    threads: usize,
    counts: Vec<u64>,
}

#[derive(Clone, Debug, Deserialize)]
struct Wish {
    threads: Vec<usize>,
    sequences: u64,
}

/// How often the heaps a thread and the loop take turns.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Turns {
    /// Threads, beside one.
    pub threads: usize,
    /// Processes of a round; 0: no turns.
    pub processes: u32,
    /// Turns of a process.
    pub times: u32,
    /// How long everything is measured in a turn.
    pub slice_ms: u64,
}

/// Which part of the study.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// The paper's first: time over threads, without coalescing.
    Threads,
    /// The same in the long run: rates over threads.
    Steady,
    /// The paper's second and third: time and blocks over iterations.
    Iterations,
    /// The second with more lengths to draw from: an ablation.
    Lengths,
    /// From how many allocations on threads are faster.
    Allocations,
    /// The paper's wish: series.
    Wish,
    /// Every call and lock timed.
    Calls,
    /// Heaps a thread and the loop, turn by turn.
    Turns,
}

impl Experiment {
    /// In the rows.
    pub const fn name(self) -> &'static str {
        match self {
            Experiment::Threads => "threads",
            Experiment::Steady => "steady",
            Experiment::Iterations => "iterations",
            Experiment::Lengths => "lengths",
            Experiment::Allocations => "allocations",
            Experiment::Wish => "wish",
            Experiment::Calls => "calls",
            Experiment::Turns => "turns",
        }
    }
}

/// What a cell is measured on.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A loop that allocates nothing.
    Loop,
    /// A fit, shared.
    Heap(Heap),
    /// A malloc, by its number among those installed.
    Malloc(usize),
}

/// How many sequences a cell has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Amount {
    /// So many.
    Fixed(u64),
    /// As many as take `steady_ms` on one thread.
    Steady,
}

/// One number of threads, one amount of work, one allocator.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Cell {
    /// Which part of the study.
    pub experiment: Experiment,
    /// On what.
    pub subject: Subject,
    /// The order of calls.
    pub pattern: Pattern,
    /// Threads.
    pub threads: usize,
    /// Sequences of all threads.
    pub amount: Amount,
}

/// A study, ready to run.
#[derive(Clone, Debug)]
pub struct Plan {
    asked: Asked,
    /// Bytes of the region.
    pub region: u64,
    /// The settings, for the results.
    pub settings: serde_json::Value,
}

impl Plan {
    /// Checks the settings.
    ///
    /// # Errors
    /// A value that makes no sense, with what would.
    pub fn new(settings: &Settings) -> Result<Plan, SettingsError> {
        let asked: Asked = settings.read()?;
        let region = human::parse_bytes(&asked.region)
            .ok_or_else(|| SettingsError::value("region", "a length such as \"256M\" is wanted"))?;
        let plan = Plan { asked, region, settings: settings.to_json() };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), SettingsError> {
        let asked = &self.asked;
        let bad = |key: &str, why: String| Err(SettingsError::value(key, why));
        for (key, counts) in [
            ("threads.counts", asked.threads.counts.as_slice()),
            ("iterations.threads", &[asked.iterations.threads]),
            ("allocations.threads", &[asked.allocations.threads]),
            ("wish.threads", &asked.wish.threads),
            ("calls.threads", &asked.calls.threads),
            ("turns.threads", &[asked.turns.threads]),
        ] {
            if counts.is_empty() {
                return bad(key, "at least one number of threads is wanted".into());
            }
            if let Some(count) = counts.iter().find(|count| !(1..=MOST_THREADS).contains(count)) {
                return bad(key, format!("{count} threads cannot be had; 1 to {MOST_THREADS} can"));
            }
        }
        let works = [
            ("runs", u64::from(asked.runs)),
            ("cell_ms", asked.cell_ms),
            ("limit_ms", asked.limit_ms),
            ("series", asked.series.into()),
            ("stripes", asked.stripes.into()),
            ("sizes.from", asked.sizes.from.into()),
            ("threads.iterations", asked.threads.iterations),
            ("threads.steady_ms", asked.threads.steady_ms),
            ("iterations.counts", asked.iterations.counts.iter().copied().min().unwrap_or(0)),
            ("lengths.times", asked.lengths.times.into()),
            ("lengths.counts", asked.lengths.counts.iter().copied().min().unwrap_or(0)),
            ("allocations.counts", asked.allocations.counts.iter().copied().min().unwrap_or(0)),
            ("wish.sequences", asked.wish.sequences),
            ("calls.sequences", asked.calls.sequences),
            ("turns.times", asked.turns.times.into()),
            ("turns.slice_ms", asked.turns.slice_ms),
        ];
        if let Some((key, _)) = works.iter().find(|(_, value)| *value == 0) {
            return bad(key, "at least 1 is wanted: with 0 there is nothing to measure".into());
        }
        if !asked.threads.counts.contains(&1) {
            return bad(
                "threads.counts",
                "1 is wanted too: speed-ups are against one thread".into(),
            );
        }
        if asked.on.fits.is_empty() || asked.on.sharing.is_empty() {
            return bad("on.fits", "at least one fit and one way to share are wanted".into());
        }
        if asked.on.sharing.contains(&Sharing::Unlocked) {
            return bad("on.sharing", "unlocked is measured anyway, on one thread".into());
        }
        if asked.stripes > MOST_STRIPES {
            return bad("stripes", format!("at most {MOST_STRIPES}"));
        }
        let most = MOST_OBJECTS / self.most_threads() as u64;
        if u64::from(asked.series) > most {
            return bad("series", format!("at most {most} with as many threads as are asked for"));
        }
        self.check_sizes()
    }

    /// The longest block must fit into the shortest part of the region.
    fn check_sizes(&self) -> Result<(), SettingsError> {
        let asked = &self.asked;
        let Sizes { from, to } = asked.sizes;
        if to < from {
            let why = format!("{to} is less than sizes.from, {from}");
            return Err(SettingsError::value("sizes.to", why));
        }
        let most = self.most_threads().max(asked.stripes as usize) as u64;
        let part = self.region / most;
        if u64::from(to) + AROUND > part {
            let why = format!(
                "{} do not fit into one of {most} parts of {} (a stripe, or a thread's heap); set region \
                 to more, or threads and stripes to fewer",
                human::bytes(to.into()),
                human::bytes(self.region)
            );
            return Err(SettingsError::value("sizes.to", why));
        }
        if self.longer_sizes().is_none_or(|to| u64::from(to) + AROUND > self.region) {
            let why =
                "so long blocks do not fit into the region; set it to less, or region to more";
            return Err(SettingsError::value("lengths.times", why));
        }
        Ok(())
    }

    /// The greatest size of the ablation with more lengths; `None` beyond what sizes can be.
    fn longer_sizes(&self) -> Option<u32> {
        self.asked.sizes.to.checked_mul(self.asked.lengths.times)
    }

    fn most_threads(&self) -> usize {
        let asked = &self.asked;
        let single = [asked.iterations.threads, asked.allocations.threads, asked.turns.threads];
        let lists = [&asked.threads.counts, &asked.wish.threads, &asked.calls.threads];
        lists.into_iter().flatten().chain(&single).copied().max().unwrap_or(1)
    }

    /// Runs of every cell.
    pub fn runs(&self) -> u32 {
        self.asked.runs
    }

    /// No further run of a cell after so many nanoseconds.
    pub fn cell_ns(&self) -> u64 {
        self.asked.cell_ms * 1_000_000
    }

    /// When a run is stopped, in nanoseconds.
    pub fn limit_ns(&self) -> u64 {
        self.asked.limit_ms * 1_000_000
    }

    /// How long a steady run takes on one thread, in nanoseconds.
    pub fn steady_ns(&self) -> u64 {
        self.asked.threads.steady_ms * 1_000_000
    }

    /// Threads of the sweep.
    pub fn sweep_threads(&self) -> usize {
        self.asked.allocations.threads
    }

    /// The numbers of threads on which even that is measured which takes long: one, those of the other
    /// experiments, the highest.
    pub fn telling_threads(&self) -> [usize; 4] {
        let most = self.asked.threads.counts.iter().copied().max().unwrap_or(1);
        [1, self.asked.allocations.threads, self.asked.iterations.threads, most]
    }

    /// How the heaps a thread and the loop take turns; `processes` is 0 where such heaps are not asked for.
    pub fn turns(&self) -> Turns {
        let asked = self.asked.on.sharing.contains(&Sharing::PerThread);
        Turns { processes: if asked { self.asked.turns.processes } else { 0 }, ..self.asked.turns }
    }

    /// What takes turns: the loop, then a heap a thread of every fit.
    pub fn turn_subjects(&self) -> Vec<Subject> {
        let heaps = self.heaps(Blocks::List).into_iter();
        let own = heaps.filter(|heap| heap.sharing == Sharing::PerThread).map(Subject::Heap);
        std::iter::once(Subject::Loop).chain(own).collect()
    }

    /// The job of a cell of so many sequences, in the `run`-th run.
    pub fn job(&self, cell: &Cell, sequences: u64, run: u32) -> Job {
        let Sizes { from, to } = self.asked.sizes;
        let to = match cell.experiment {
            Experiment::Lengths => self.longer_sizes().unwrap_or(to),
            _ => to,
        };
        Job {
            pattern: cell.pattern,
            threads: cell.threads,
            sequences,
            series: self.asked.series,
            sizes: (from, to),
            seed: self.asked.seed.wrapping_add(u64::from(run) << 32),
            watch: cell.experiment == Experiment::Calls,
            // A program that makes threads for a few calls would not pin them.
            pin: self.asked.pin && cell.experiment != Experiment::Allocations,
        }
    }

    fn heaps(&self, blocks: Blocks) -> Vec<Heap> {
        let on = &self.asked.on;
        let stripes = self.asked.stripes;
        let every =
            |&fit| on.sharing.iter().map(move |&sharing| Heap { fit, blocks, sharing, stripes });
        on.fits.iter().flat_map(every).collect()
    }

    fn unlocked(&self, blocks: Blocks) -> Vec<Heap> {
        let (sharing, stripes) = (Sharing::Unlocked, self.asked.stripes);
        self.asked.on.fits.iter().map(|&fit| Heap { fit, blocks, sharing, stripes }).collect()
    }

    /// Every cell of a round, cheap ones of a kind first, with `mallocs` allocators beside the heaps.
    pub fn cells(&self, mallocs: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        self.over_threads(&mut cells, mallocs);
        self.over_iterations(&mut cells);
        self.over_lengths(&mut cells);
        self.over_allocations(&mut cells, mallocs);
        self.series(&mut cells, mallocs);
        self.single_calls(&mut cells, mallocs);
        cells
    }

    fn over_threads(&self, cells: &mut Vec<Cell>, mallocs: usize) {
        let pattern = Pattern::Pairs;
        let fixed = Amount::Fixed(self.asked.threads.iterations * ITERATION);
        let mut add = |experiment, subject: Subject, threads, amount| {
            cells.push(Cell { experiment, subject, pattern, threads, amount });
        };
        for heap in self.unlocked(Blocks::ListUnmerged) {
            add(Experiment::Threads, Subject::Heap(heap), 1, fixed);
        }
        for heap in self.unlocked(Blocks::List) {
            add(Experiment::Steady, Subject::Heap(heap), 1, Amount::Steady);
        }
        for &threads in &self.asked.threads.counts {
            for heap in self.heaps(Blocks::ListUnmerged) {
                add(Experiment::Threads, Subject::Heap(heap), threads, fixed);
            }
            // The loop stands beside what is compared with it.
            add(Experiment::Steady, Subject::Loop, threads, Amount::Steady);
            for heap in self.heaps(Blocks::List) {
                add(Experiment::Steady, Subject::Heap(heap), threads, Amount::Steady);
            }
            for malloc in 0..mallocs {
                add(Experiment::Steady, Subject::Malloc(malloc), threads, Amount::Steady);
            }
        }
    }

    /// Time by lists; blocks by trees as well, which choose the same and take no time.
    fn over_iterations(&self, cells: &mut Vec<Cell>) {
        let Iterations { threads, counts } = &self.asked.iterations;
        let (experiment, pattern) = (Experiment::Iterations, Pattern::Pairs);
        for &count in counts {
            let amount = Amount::Fixed(count * ITERATION);
            for blocks in [Blocks::ListUnmerged, Blocks::TreeUnmerged] {
                let shared = self
                    .heaps(blocks)
                    .into_iter()
                    .filter(|heap| matches!(heap.sharing, Sharing::PaperLock | Sharing::PerThread));
                let heaps = self.unlocked(blocks).into_iter().chain(shared);
                cells.extend(heaps.map(|heap| {
                    let threads = if heap.sharing == Sharing::Unlocked { 1 } else { *threads };
                    Cell { experiment, subject: Subject::Heap(heap), pattern, threads, amount }
                }));
            }
        }
    }

    /// Without threads, by lists and by trees: what more lengths do to a list is the same under a lock.
    fn over_lengths(&self, cells: &mut Vec<Cell>) {
        let (experiment, pattern, threads) = (Experiment::Lengths, Pattern::Pairs, 1);
        for &count in &self.asked.lengths.counts {
            let amount = Amount::Fixed(count * ITERATION);
            for blocks in [Blocks::ListUnmerged, Blocks::TreeUnmerged] {
                cells.extend(self.unlocked(blocks).into_iter().map(|heap| {
                    let subject = Subject::Heap(heap);
                    Cell { experiment, subject, pattern, threads, amount }
                }));
            }
        }
    }

    fn over_allocations(&self, cells: &mut Vec<Cell>, mallocs: usize) {
        let Counts { threads, counts } = &self.asked.allocations;
        let (experiment, pattern) = (Experiment::Allocations, Pattern::Pairs);
        for &count in counts {
            let amount = Amount::Fixed(count);
            for blocks in [Blocks::List, Blocks::ListUnmerged] {
                let heaps = self.unlocked(blocks).into_iter().chain(self.heaps(blocks));
                cells.extend(heaps.map(|heap| {
                    let threads = if heap.sharing == Sharing::Unlocked { 1 } else { *threads };
                    Cell { experiment, subject: Subject::Heap(heap), pattern, threads, amount }
                }));
            }
            for malloc in 0..mallocs {
                for threads in [1, *threads] {
                    let subject = Subject::Malloc(malloc);
                    cells.push(Cell { experiment, subject, pattern, threads, amount });
                }
            }
        }
    }

    fn series(&self, cells: &mut Vec<Cell>, mallocs: usize) {
        let Wish { threads, sequences } = &self.asked.wish;
        let (experiment, amount) = (Experiment::Wish, Amount::Fixed(*sequences));
        for pattern in Pattern::ALL {
            for &threads in threads {
                let add = |subject| Cell { experiment, subject, pattern, threads, amount };
                if threads == 1 {
                    cells.extend(
                        self.unlocked(Blocks::List).into_iter().map(Subject::Heap).map(add),
                    );
                }
                cells.extend(self.heaps(Blocks::List).into_iter().map(Subject::Heap).map(add));
                cells.extend((0..mallocs).map(Subject::Malloc).map(add));
            }
        }
    }

    fn single_calls(&self, cells: &mut Vec<Cell>, mallocs: usize) {
        let Wish { threads, sequences } = &self.asked.calls;
        let (experiment, pattern) = (Experiment::Calls, Pattern::Pairs);
        for &threads in threads {
            let amount = Amount::Fixed(*sequences);
            let add = |subject| Cell { experiment, subject, pattern, threads, amount };
            for blocks in [Blocks::List, Blocks::ListUnmerged] {
                cells.extend(self.heaps(blocks).into_iter().map(Subject::Heap).map(add));
            }
            cells.extend((0..mallocs).map(Subject::Malloc).map(add));
        }
    }
}
