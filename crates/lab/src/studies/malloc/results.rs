//! What came out: for every program a row a variant, for every decision what it costs to switch it.

use super::{Held, SCHEMA_VERSION, Variant};
use crate::results::{Causes, Outcome};
use crate::simulate::Survey;
use crate::studies::fragmentation::Program;
use freehold_core::malloc::decisions::Decisions;
use serde::Serialize;

/// What a mechanism must save on at least one program to earn its place: 1 %.
const EARNS: f64 = 0.01;

/// One program in one variant. Bytes.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The variant; `None`: as shipped.
    pub variant: Option<Variant>,
    /// Most resident memory.
    pub peak: u64,
    /// The mean over evenly spaced events.
    pub mean: u64,
    /// When the trace ended.
    pub last: u64,
    /// Page faults (a number).
    pub faults: u64,
    /// Given back.
    pub purged: u64,
    /// Instructions of the program's calls (a number), where they were counted.
    pub instructions: Option<u64>,
    /// The peak by cause.
    pub at_peak: Causes,
}

impl Row {
    /// Of an outcome of the simulated malloc.
    pub fn of(variant: Option<&Variant>, outcome: &Outcome) -> Row {
        let paged = outcome.paged.as_ref();
        Row {
            variant: variant.cloned(),
            peak: outcome.peak_memory,
            mean: paged.map_or(0, |paged| paged.mean_memory),
            last: outcome.final_memory,
            faults: outcome.page_faults.unwrap_or(0),
            purged: paged.map_or(0, |paged| paged.purged),
            instructions: None,
            at_peak: paged.map(|paged| paged.at_peak).unwrap_or_default(),
        }
    }
}

/// One program.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Why there are no figures.
    pub missing: Option<String>,
    /// Events replayed.
    pub events: u64,
    /// Threads.
    pub threads: u32,
    /// Most bytes alive.
    pub peak_live: u64,
    /// As shipped.
    pub shipped: Option<Row>,
    /// In each variant, in their order.
    pub rows: Vec<Row>,
    /// Beside the real library, where that was asked for.
    pub held: Option<Held>,
}

impl Found {
    /// Of a program's rows, the shipped one first; `None` where there are none.
    pub fn of(program: &Program, survey: &Survey, rows: Vec<Row>) -> Option<Found> {
        let mut rows = rows.into_iter();
        let shipped = rows.next()?;
        Some(Found {
            missing: None,
            events: survey.facts.events,
            threads: survey.facts.threads,
            peak_live: survey.peak_live,
            shipped: Some(shipped),
            rows: rows.collect(),
            ..Found::missing(program, String::new())
        })
    }

    /// A program without figures.
    pub fn missing(program: &Program, why: String) -> Found {
        Found {
            name: program.name.clone(),
            about: program.about.clone(),
            missing: Some(why),
            events: 0,
            threads: 0,
            peak_live: 0,
            shipped: None,
            rows: Vec::new(),
            held: None,
        }
    }

    /// The variants replayed; `None` is as shipped, which comes first.
    pub fn variants(&self) -> impl Iterator<Item = Option<Variant>> + '_ {
        self.shipped.iter().chain(&self.rows).map(|row| row.variant.clone())
    }

    /// Notes the instructions of the variants, in their order.
    pub fn set_instructions(&mut self, counted: &[u64]) {
        for (row, count) in self.shipped.iter_mut().chain(&mut self.rows).zip(counted) {
            row.instructions = Some(*count);
        }
    }

    /// The shipped row, and that of a decision's variant.
    pub fn pair(&self, decision: &str) -> Option<(&Row, &Row)> {
        let is_it = |row: &&Row| row.variant.as_ref().is_some_and(|v| v.decision == decision);
        Some((self.shipped.as_ref()?, self.rows.iter().find(is_it)?))
    }
}

/// By what part a figure grows on one program: the most of all programs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cost {
    /// The program.
    pub program: String,
    /// What is more, over what is shipped.
    pub share: f64,
}

/// What it costs to switch one decision. `None` where a figure is not known of any program.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// The decision.
    pub decision: &'static str,
    /// What is decided by it.
    pub reason: &'static str,
    /// As shipped.
    pub shipped: usize,
    /// As switched.
    pub value: usize,
    /// How it was switched.
    pub how: &'static str,
    /// Of peak memory.
    pub peak: Option<Cost>,
    /// Of mean memory.
    pub mean: Option<Cost>,
    /// Of page faults.
    pub faults: Option<Cost>,
    /// Of instructions.
    pub instructions: Option<Cost>,
    /// What is less when it is switched: the least share of peak or mean memory of all programs.
    pub saves: Option<Cost>,
    /// By which figures it earns its place: `peak`, `mean`, `instructions`. Page faults are shown and do not count.
    pub earns_by: Vec<&'static str>,
}

impl Verdict {
    fn of(variant: &Variant, programs: &[Found]) -> Verdict {
        let decision = Decisions::ALL.iter().find(|one| one.name == variant.decision);
        let peak = most(variant, programs, |row| Some(row.peak));
        let mean = most(variant, programs, |row| Some(row.mean));
        let instructions = most(variant, programs, |row| row.instructions);
        let named = [("peak", &peak), ("mean", &mean), ("instructions", &instructions)];
        let pays = |cost: &Option<Cost>| cost.as_ref().is_some_and(|cost| cost.share > EARNS);
        let earns_by = named.iter().filter(|(_, cost)| pays(cost)).map(|(name, _)| *name).collect();
        Verdict {
            decision: variant.decision,
            reason: decision.map_or("", |one| one.reason.trim()),
            shipped: decision.map_or(0, |one| one.shipped),
            value: variant.value,
            how: variant.how,
            faults: most(variant, programs, |row| Some(row.faults)),
            saves: least(variant, programs),
            peak,
            mean,
            instructions,
            earns_by,
        }
    }
}

/// The shares by which a figure grows, program by program.
fn shares<'a>(
    variant: &'a Variant,
    programs: &'a [Found],
    figure: impl Fn(&Row) -> Option<u64> + 'a,
) -> impl Iterator<Item = Cost> + 'a {
    programs.iter().filter_map(move |found| {
        let (shipped, switched) = found.pair(variant.decision)?;
        let (before, after) = (figure(shipped)?, figure(switched)?);
        let share = (before > 0).then(|| after as f64 / before as f64 - 1.0)?;
        Some(Cost { program: found.name.clone(), share })
    })
}

fn most(
    variant: &Variant,
    programs: &[Found],
    figure: impl Fn(&Row) -> Option<u64>,
) -> Option<Cost> {
    shares(variant, programs, figure).max_by(|a, b| a.share.total_cmp(&b.share))
}

fn least(variant: &Variant, programs: &[Found]) -> Option<Cost> {
    let peaks = shares(variant, programs, |row| Some(row.peak));
    let means = shares(variant, programs, |row| Some(row.mean));
    peaks.chain(means).min_by(|a, b| a.share.total_cmp(&b.share))
}

/// Everything found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Results {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `malloc`.
    pub study: &'static str,
    /// One for each decision, in the order of the table.
    pub verdicts: Vec<Verdict>,
    /// One for each program, in the order of the file.
    pub programs: Vec<Found>,
}

impl Results {
    /// Of all programs together.
    pub fn of(variants: &[Variant], programs: Vec<Found>) -> Results {
        let verdicts = variants.iter().map(|variant| Verdict::of(variant, &programs)).collect();
        Results { schema_version: SCHEMA_VERSION, study: "malloc", verdicts, programs }
    }

    /// Programs with figures.
    pub fn replayed(&self) -> impl Iterator<Item = &Found> {
        self.programs.iter().filter(|found| found.missing.is_none())
    }

    /// In a few sentences.
    pub fn answer(&self) -> Vec<String> {
        let mut answer = vec![self.decided(), self.compared()];
        answer.retain(|sentence| !sentence.is_empty());
        answer
    }

    fn decided(&self) -> String {
        if self.verdicts.is_empty() {
            return String::new();
        }
        let idle = self.verdicts.iter().filter(|one| one.earns_by.is_empty());
        let idle: Vec<&str> = idle.map(|one| one.decision).collect();
        let counted = self.verdicts.iter().any(|one| one.instructions.is_some());
        let of_what = if counted { "memory or instructions" } else { "memory" };
        let programs = self.replayed().count();
        let mut text = format!(
            "Of {} decisions, {} cost at least one of {programs} programs more than 1 % of {of_what} when they are switched.",
            self.verdicts.len(),
            self.verdicts.len() - idle.len(),
        );
        if !idle.is_empty() {
            text += &format!(" No program pays for {}.", idle.join(", "));
        }
        let missing = self.programs.len() - programs;
        if missing > 0 {
            text += &format!(" {missing} could not be recorded here.");
        }
        text
    }

    fn compared(&self) -> String {
        let held: Vec<&Held> = self.programs.iter().filter_map(|one| one.held.as_ref()).collect();
        if held.is_empty() {
            return String::new();
        }
        let near = held.iter().filter(|one| one.is_near()).count();
        let worst = held.iter().map(|one| one.share().abs()).fold(0.0, f64::max);
        format!(
            "For {near} of {} programs the simulated peak is within 5 % of the resident memory of the real replay of the same \
             trace; the farthest is {:.1} % away.",
            held.len(),
            100.0 * worst
        )
    }
}
