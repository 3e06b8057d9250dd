//! Who has the memory: the places in a program that allocate, by what they held at the peak, never freed, and threw away
//! at once.
//!
//! A *site* is the innermost function of a call stack that is not an allocator's own (`malloc`, `operator new`,
//! `std::allocator` and their like are folded: [`fold`]), with its line. One pass over the events of a process counts by
//! call stack ([`count`]); stacks of one site are then added up.
//!
//! Conventions. Bytes are bytes asked for; a reallocation moves an object to the site that reallocated it. *At the peak*
//! is the moment at which `freehold info` finds the peak of live bytes. *Temporary* is an object that its thread frees
//! as its very next event.
//!
//! Invariant: memory grows with live objects and with the stacks that differ, never with the length of the trace.

mod count;
mod fold;
#[cfg(test)]
mod tests;

pub use count::Counts;

use count::Counting;
use fold::Folded;
use freehold_trace::{Damage, ProcessId, ReadError, StackId, Stacks, Trace};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sites listed of each kind.
pub const MOST_SITES: usize = 100;

/// A place that allocates.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Site {
    /// The function, or module and offset where it has no name.
    pub function: String,
    /// The source file and line.
    pub place: Option<String>,
    /// The module.
    pub module: Option<String>,
    /// What it did.
    #[serde(flatten)]
    pub counts: Counts,
    /// The callers of the stack by which most of these bytes came, the next one first, by function and place.
    pub callers: Vec<String>,
    /// The callers further out are unknown.
    pub cut: bool,
}

/// The sites of a process.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Sites {
    /// The process.
    pub process: u32,
    /// All of it.
    pub total: Counts,
    /// Those that held most at the peak.
    pub peak: Vec<Site>,
    /// Those that hold most at the end.
    pub leaked: Vec<Site>,
    /// Those that made most objects that were freed at once.
    pub temporary: Vec<Site>,
    /// What of the call stacks could not be read. (That of the events is told by the profile.)
    #[serde(skip)]
    pub damage: Vec<Damage>,
}

/// Looks for the sites of a process. `None` when `stop` was raised.
///
/// # Errors
/// When the operating system refuses to read. What is damaged is left out.
pub fn sites(
    trace: &Trace,
    process: ProcessId,
    stop: &AtomicBool,
) -> Result<Option<Sites>, ReadError> {
    let (stacks, damage) = trace.stacks()?;
    let mut records = trace.records_of(process)?;
    let inherited = trace.process(process).map_or(0, |info| info.inherited_bytes);
    let mut counting = Counting::new(inherited);
    while let Some(run) = records.next_run()? {
        counting.see(&run);
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    let by_stack = counting.finish();
    Ok(Some(Sites { damage, ..Summing::new(&stacks, &by_stack).finish(process) }))
}

/// Stacks being added up to sites.
struct Summing<'a> {
    stacks: &'a Stacks,
    by_stack: &'a FxHashMap<StackId, Counts>,
    /// The stacks of each site.
    by_site: FxHashMap<Folded, Vec<StackId>>,
}

impl<'a> Summing<'a> {
    fn new(stacks: &'a Stacks, by_stack: &'a FxHashMap<StackId, Counts>) -> Self {
        let mut by_site: FxHashMap<Folded, Vec<StackId>> = FxHashMap::default();
        for &stack in by_stack.keys() {
            by_site.entry(fold::site(stacks, stack)).or_default().push(stack);
        }
        Summing { stacks, by_stack, by_site }
    }

    fn finish(&self, process: ProcessId) -> Sites {
        let total = self.by_stack.values().fold(Counts::default(), |sum, counts| sum + *counts);
        Sites {
            process: process.0,
            total,
            peak: self.most(|counts| counts.peak_bytes),
            leaked: self.most(|counts| counts.leaked_bytes),
            temporary: self.most(|counts| counts.temporary),
            damage: Vec::new(),
        }
    }

    /// The sites that have most of something.
    fn most(&self, what: impl Fn(&Counts) -> u64) -> Vec<Site> {
        let mut all: Vec<(u64, &Folded, Counts)> = self
            .by_site
            .iter()
            .map(|(folded, stacks)| {
                let counts = stacks.iter().map(|stack| self.by_stack[stack]);
                let counts = counts.fold(Counts::default(), |sum, counts| sum + counts);
                (what(&counts), folded, counts)
            })
            .filter(|(amount, ..)| *amount > 0)
            .collect();
        // Of equals, in the order of their names: the same trace gives the same list.
        all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        all.truncate(MOST_SITES);
        all.into_iter().map(|(_, folded, counts)| self.site(folded, counts, &what)).collect()
    }

    fn site(&self, folded: &Folded, counts: Counts, what: &impl Fn(&Counts) -> u64) -> Site {
        let stacks = self.by_site.get(folded).map_or(&[][..], Vec::as_slice);
        let most = |stack: &&StackId| (what(&self.by_stack[*stack]), std::cmp::Reverse(**stack));
        let heaviest = stacks.iter().max_by_key(most).copied().unwrap_or_default();
        let (callers, cut) = fold::callers(self.stacks, heaviest);
        let Folded { function, place, module } = folded.clone();
        Site { function, place, module, counts, callers, cut }
    }
}
