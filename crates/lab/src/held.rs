//! Who holds pages: at chosen moments of a process, the pages that are in memory for few bytes, under each allocator that replays it.
//!
//! ```text
//!   peak      live bytes are at their most
//!   lowest    live bytes are at their least, after the peak and before the last allocation
//!   end       after the last event
//! ```
//!
//! For each moment the process is replayed up to it, and its objects are asked where they lie; [`freehold_collect::kept`] says which pages they
//! keep, by the rule of the recorder. A page that holds an object was written, so it is in memory under every allocator.
//!
//! Invariants: what is counted are addresses that the allocator gave, nothing of it is a model; memory grows with the objects that live at a moment.
//!
//! Neighbours: [`real`] replays on allocators, [`malloc`] on the simulated machine; `answer` says what was found.

mod moments;

use crate::malloc::{self, Settings};
use crate::real::{self, Allocator, Preparation, Prepared, RealError};
use crate::results::{Held, Keeper};
use crate::simulate::{SimulateError, Survey};
use crate::sites::{NO_STACK, Sites, SitesOf};
use freehold_collect::{Block, kept};
use freehold_trace::{Event, ObjectId, ProcessId, ReadError, Record, StackId, Trace};
use moments::Cut;
use rustc_hash::FxHashMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Most objects at a moment that are asked where they lie.
const MOST_OBJECTS: u64 = 4_000_000;
/// Sites told of each moment.
const MOST_SITES: usize = 5;
/// Least part of what the process has in memory that pages must be by what was recorded, or nothing is replayed for them,
const LEAST_PART: f64 = 0.02;
/// and least bytes.
const LEAST_BYTES: u64 = 256 << 10;

/// What to replay on.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// The process.
    pub process: ProcessId,
    /// The allocators.
    pub allocators: &'a [Allocator],
    /// The program that replays on them, and how.
    pub replayer: &'a Path,
    /// How.
    pub options: &'a real::Options,
    /// The simulated malloc, if that is asked for.
    pub malloc: Option<(&'a Survey, &'a Settings)>,
}

/// Why it was not found.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// The trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nothing can be replayed.
    #[error(transparent)]
    Real(#[from] RealError),
    /// Nor simulated.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
}

impl HeldError {
    /// Whether it only says that the user asked to stop.
    pub fn is_interruption(&self) -> bool {
        matches!(
            self,
            Self::Simulate(SimulateError::Interrupted) | Self::Real(RealError::Interrupted)
        )
    }
}

/// Whether the recording shows so many pages kept for few bytes that it is worth replays.
pub fn matters(sites: &Sites) -> bool {
    let pages = sites.total.kept_page_bytes;
    pages >= LEAST_BYTES && pages as f64 >= sites.whole_bytes as f64 * LEAST_PART
}

/// Who holds pages, by moment, then in the order of the allocators, the malloc last. An allocator that fails is left out.
///
/// Takes up to three further replays on each allocator, and one on the simulated machine.
///
/// # Errors
/// When the trace cannot be read, nothing can be replayed, or `interrupted` becomes true.
pub fn held(plan: &Plan<'_>, interrupted: &AtomicBool) -> Result<Vec<Held>, HeldError> {
    let (stacks, _) = plan.trace.stacks()?;
    let sites = SitesOf::new(&stacks);
    let cuts = moments::find(plan.trace, plan.process)?;
    let cuts: Vec<Cut> = cuts.into_iter().filter(|cut| cut.objects <= MOST_OBJECTS).collect();
    let mut simulated = simulated(plan, &cuts, interrupted)?;
    let mut all = Vec::new();
    for (number, cut) in cuts.iter().enumerate() {
        let until = Until::read(plan, cut)?;
        let placed = real::place(
            &until.prepared,
            plan.allocators,
            plan.options,
            plan.replayer,
            interrupted,
        )?;
        let measured = plan.allocators.iter().zip(placed);
        all.extend(measured.filter_map(|(allocator, placed)| {
            let placed = placed?;
            let blocks = until.blocks(placed.objects.iter().copied());
            Some(Held {
                resident: Some(placed.resident),
                ..cut.held(&allocator.name, blocks, &sites)
            })
        }));
        if let Some(objects) = simulated.get_mut(number).map(std::mem::take) {
            let block = |(object, address, size): (ObjectId, u64, u64)| {
                block(address, size, until.stack(object))
            };
            let blocks = objects.into_iter().map(block).collect();
            all.push(cut.held(malloc::NAME, blocks, &sites));
        }
    }
    Ok(all)
}

/// Where objects lie at each moment under the simulated malloc; nothing where that is not asked for.
fn simulated(
    plan: &Plan<'_>,
    cuts: &[Cut],
    interrupted: &AtomicBool,
) -> Result<Vec<malloc::Places>, HeldError> {
    let Some((survey, settings)) = plan.malloc else { return Ok(Vec::new()) };
    let at: Vec<u64> = cuts.iter().map(|cut| cut.records).collect();
    Ok(malloc::place(plan.trace, plan.process, (survey, settings), &at, interrupted)?)
}

/// A process until a moment, to be replayed.
struct Until {
    prepared: Prepared,
    /// Objects that live then, by their place in the replayer's table.
    alive: FxHashMap<u32, (ObjectId, u64)>,
    /// Who made them.
    stacks: Vec<StackId>,
}

impl Until {
    fn read(plan: &Plan<'_>, cut: &Cut) -> Result<Until, HeldError> {
        let (trace, process) = (plan.trace, plan.process);
        let scratch = plan.options.scratch.as_deref();
        let mut preparation = Preparation::new(scratch, trace.header().ticks_per_second)?;
        let mut stacks = Vec::new();
        let mut records = trace.records_of(process)?;
        let mut left = cut.records;
        while left > 0
            && let Some(run) = records.next_run()?
        {
            let here = run.events.iter().enumerate().take(left as usize);
            for (index, timed) in here {
                left -= 1;
                let stack = run.stacks.get(index).copied().unwrap_or_default();
                note(&mut stacks, &timed.event, stack);
                let (tick, thread, event) = (timed.tick, run.thread, timed.event);
                preparation.push(&Record { tick, process, thread, event })?;
            }
        }
        let alive = preparation.alive().map(|(slot, object, size)| (slot, (object, size)));
        let alive = alive.collect();
        Ok(Until { prepared: preparation.finish()?, alive, stacks })
    }

    fn stack(&self, object: ObjectId) -> StackId {
        self.stacks.get(object.0 as usize).copied().unwrap_or_default()
    }

    /// The blocks of objects that the replayer has at these addresses.
    fn blocks(&self, placed: impl Iterator<Item = (u32, u64)>) -> Vec<Block> {
        placed
            .filter_map(|(slot, address)| {
                let &(object, size) = self.alive.get(&slot)?;
                Some(block(address, size, self.stack(object)))
            })
            .collect()
    }
}

/// Who made the object, or resized it last.
fn note(stacks: &mut Vec<StackId>, event: &Event, stack: StackId) {
    let (Event::Alloc { object, .. }
    | Event::Realloc { object, .. }
    | Event::Inherit { object, .. }) = *event
    else {
        return;
    };
    let at = object.0 as usize;
    if at >= stacks.len() {
        stacks.resize(at + 1, StackId::NONE);
    }
    stacks[at] = stack;
}

fn block(address: u64, size: u64, stack: StackId) -> Block {
    Block { address, size: size.min(u64::from(u32::MAX)) as u32, stack }
}

impl Cut {
    /// What the blocks of a moment hold.
    fn held(&self, allocator: &str, blocks: Vec<Block>, sites: &SitesOf) -> Held {
        let live = blocks.iter().map(|block| u64::from(block.size)).sum();
        let mut keepers: FxHashMap<u32, Keeper> = FxHashMap::default();
        for kept in kept(blocks) {
            let keeper = keepers.entry(sites.of(kept.stack)).or_default();
            keeper.live += kept.live;
            keeper.pages += kept.pages;
        }
        let name = |(number, keeper)| Keeper { site: sites.text(number), ..keeper };
        let mut sites: Vec<Keeper> = keepers.into_iter().map(name).collect();
        let pages = sites.iter().map(|keeper| keeper.pages).sum();
        sites.sort_by(|a, b| (b.pages, &a.site).cmp(&(a.pages, &b.site)));
        sites.retain(|keeper| keeper.site != NO_STACK);
        sites.truncate(MOST_SITES);
        let allocator = allocator.to_owned();
        Held { allocator, moment: self.moment, at_s: self.at_s, live, pages, resident: None, sites }
    }
}
