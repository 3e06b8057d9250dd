//! Call stacks on their way from the spool into the trace.
//!
//! ```text
//!   thread ─ Told (the table and last stack that the recorder has) ─▶ Trie ─ resolve ─▶ modules, frames ─▶ symbols
//! ```
//!
//! What a thread says of its stacks is heard in the order of the thread ([`told`]), and becomes nodes of one trie. A
//! frame is at first an address of one generation of one family of processes (those that are forks of each other share
//! their addresses). When everything was heard, addresses become modules and offsets ([`resolve`]), and those get names
//! ([`symbols`]).
//!
//! Invariant: memory grows with the stacks that differ, not with events.

mod resolve;
mod symbols;
mod told;

pub use told::Told;

use crate::finish::plan::Plan;
use freehold_record::hello::STACKS_OF_ALL;
use freehold_record::unwind::list::TOLD_EXACT;
use freehold_trace::{Begin, Frame, FrameId, StackId, Stacks};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A frame as it was told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// The first of the processes that are forks of each other.
    family: u32,
    generation: u64,
    address: u64,
    exact: bool,
}

/// A module as it was told.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mapped {
    generation: u64,
    start: u64,
    end: u64,
    /// Addresses less this are those of the file.
    bias: u64,
    build_id: String,
    path: String,
}

/// All stacks of a recording.
pub struct Trie {
    stacks: Stacks,
    /// By parent and frame.
    known: FxHashMap<(StackId, FrameId), StackId>,
    /// Frames from the outermost on, of each stack.
    depths: Vec<u32>,
    frames: FxHashMap<Place, FrameId>,
    /// In the order of their numbers.
    places: Vec<Place>,
    modules: BTreeMap<u32, Vec<Mapped>>,
    /// The family of each process.
    families: BTreeMap<u32, u32>,
    /// Frees have stacks.
    of_frees: bool,
}

impl Trie {
    /// Of a recording as its facts describe it.
    pub fn new(plan: &Plan) -> Trie {
        let mut families = BTreeMap::new();
        // A parent has a smaller number than its children.
        for (&number, process) in &plan.processes {
            let parent = process.info.parent.filter(|_| process.info.begins == Begin::Fork);
            let family = parent.and_then(|parent| families.get(&parent.0).copied());
            families.insert(number, family.unwrap_or(number));
        }
        Trie {
            stacks: Stacks::default(),
            known: FxHashMap::default(),
            depths: Vec::new(),
            frames: FxHashMap::default(),
            places: Vec::new(),
            modules: BTreeMap::new(),
            families,
            of_frees: plan.stacks == STACKS_OF_ALL,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    fn family(&self, process: u32) -> u32 {
        self.families.get(&process).copied().unwrap_or(process)
    }

    fn depth(&self, stack: StackId) -> u32 {
        (stack.0 as usize).checked_sub(1).and_then(|at| self.depths.get(at)).copied().unwrap_or(0)
    }

    /// The `depth` outermost frames of a stack, which has at least as many.
    fn outer(&self, mut stack: StackId, depth: u32) -> StackId {
        while self.depth(stack) > depth
            && let Some((parent, _)) = self.stacks.node(stack)
        {
            stack = parent;
        }
        stack
    }

    fn child(&mut self, parent: StackId, frame: FrameId) -> StackId {
        if let Some(&known) = self.known.get(&(parent, frame)) {
            return known;
        }
        let stack = self.stacks.add(parent, frame);
        self.known.insert((parent, frame), stack);
        self.depths.push(self.depth(parent) + 1);
        stack
    }

    /// A frame as the recorder tells it.
    fn frame(&mut self, family: u32, generation: u64, told: u64) -> FrameId {
        let (address, exact) = (told & (TOLD_EXACT - 1), told & TOLD_EXACT != 0);
        let place = Place { family, generation, address, exact };
        *self.frames.entry(place).or_insert_with(|| {
            self.places.push(place);
            self.stacks.add_frame(Frame::default())
        })
    }
}

#[cfg(test)]
mod tests;
