//! The call stacks as one tree, outermost functions first, with the bytes below each: what a flame graph draws.
//!
//! Nodes of one parent and one function are one, whatever their lines. Functions below [`LEAST`] of every total are left
//! out: there are at most as many branches as the stacks are deep, times 2,000 of each measure.

use super::count::StackBytes;
use super::fold::{self, Function};
use super::names::short;
use freehold_trace::{StackId, Stacks};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a flame graph, and the callers of a site, can be of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Held at the peak.
    Peak,
    /// Asked for.
    Allocated,
    /// Never freed.
    NeverFreed,
    /// Freed as the thread's next event.
    Temporary,
    /// Pages that are kept for few objects.
    KeptPages,
}

impl Measure {
    /// In this order.
    pub const ALL: [Measure; 5] = [
        Measure::Peak,
        Measure::Allocated,
        Measure::NeverFreed,
        Measure::Temporary,
        Measure::KeptPages,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Peak => "at the peak",
            Measure::Allocated => "allocated",
            Measure::NeverFreed => "never freed",
            Measure::Temporary => "temporary",
            Measure::KeptPages => "in pages kept",
        }
    }
}

/// Bytes of each [`Measure`].
pub type Bytes = [u64; Measure::ALL.len()];

/// Least part of a total for which a function is kept.
const LEAST: f64 = 0.0005;
/// Deepest level.
const DEEPEST: usize = 200;

/// A function and what it called.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Branch {
    /// Its name as it is printed.
    pub name: String,
    /// File and line of the call by which most came at the peak, without folders.
    pub place: Option<String>,
    /// Bytes of the stacks that lead here.
    pub bytes: Bytes,
    /// The functions called, that with most bytes at the peak first.
    pub calls: Vec<Branch>,
}

/// A node of the trie while the tree grows: its number, and which of its functions is next.
#[derive(Clone, Copy)]
struct Place {
    node: u32,
    /// Functions of its frame that are still to come, the outermost next.
    left: usize,
}

/// Places of one function.
#[derive(Default)]
struct Joined {
    /// File and line, and the bytes at the peak that came by it.
    at: Option<(u64, String)>,
    places: Vec<Place>,
}

struct Growing<'a> {
    stacks: &'a Stacks,
    /// Of each node and all below it.
    bytes: Vec<Bytes>,
    /// The nodes called from each.
    calls: Vec<Vec<u32>>,
    least: Bytes,
}

/// The tree of a process's stacks; its root has no name.
pub(super) fn tree(stacks: &Stacks, found: &[(StackId, StackBytes)]) -> Branch {
    let mut bytes = vec![Bytes::default(); stacks.len() + 1];
    for (stack, counted) in found {
        if let Some(own) = bytes.get_mut(stack.0 as usize) {
            *own = counted.bytes();
        }
    }
    // A caller has a smaller number than those it calls.
    for node in (1..bytes.len()).rev() {
        let parent = stacks.node(StackId(node as u32)).map_or(0, |(parent, _)| parent.0 as usize);
        let own = bytes[node];
        add(&mut bytes[parent], own);
    }
    let total = bytes[0];
    let least = total.map(|all| ((all as f64 * LEAST) as u64).max(1));
    let mut growing = Growing { stacks, calls: vec![Vec::new(); bytes.len()], bytes, least };
    for node in 1..growing.bytes.len() {
        if growing.matters(growing.bytes[node]) {
            let caller = stacks.node(StackId(node as u32)).map_or(0, |(parent, _)| parent.0);
            growing.calls[caller as usize].push(node as u32);
        }
    }
    let first: Vec<Place> = growing.below(0);
    Branch { bytes: total, calls: growing.branches(first, 0), ..Branch::default() }
}

fn add(to: &mut Bytes, more: Bytes) {
    to.iter_mut().zip(more).for_each(|(to, more)| *to = to.saturating_add(more));
}

impl Growing<'_> {
    fn matters(&self, bytes: Bytes) -> bool {
        bytes.iter().zip(self.least).any(|(&bytes, least)| bytes >= least)
    }

    fn functions(&self, node: u32) -> Vec<Function> {
        let frame = self.stacks.node(StackId(node)).and_then(|(_, id)| self.stacks.frame(id));
        frame.map_or_else(Vec::new, |frame| fold::functions(self.stacks, frame))
    }

    fn below(&self, node: u32) -> Vec<Place> {
        let place = |&node: &u32| Place { node, left: self.functions(node).len() };
        self.calls[node as usize].iter().map(place).collect()
    }

    /// The branches that begin at these places.
    fn branches(&self, places: Vec<Place>, depth: usize) -> Vec<Branch> {
        let mut by_name: BTreeMap<String, Joined> = BTreeMap::new();
        for place in places {
            let functions = self.functions(place.node);
            // A stack that is cut has an empty frame there.
            let (name, at) = match place.left.checked_sub(1).and_then(|at| functions.get(at)) {
                Some(function) => (short(&function.name).into_owned(), function.place.as_deref()),
                None => ("(unknown)".into(), None),
            };
            let entry = by_name.entry(name).or_default();
            let most = self.bytes[place.node as usize][0];
            if let Some(at) = at.filter(|_| entry.at.as_ref().is_none_or(|at| at.0 < most)) {
                entry.at = Some((most, super::short_place(at).to_owned()));
            }
            entry.places.push(place);
        }
        let branch = |(name, Joined { at, places }): (String, Joined)| {
            let mut bytes = Bytes::default();
            places.iter().for_each(|place| add(&mut bytes, self.bytes[place.node as usize]));
            let inner = places.iter().flat_map(|&place| match place.left {
                0 | 1 => self.below(place.node),
                left => vec![Place { left: left - 1, ..place }],
            });
            let inner: Vec<Place> = if depth < DEEPEST { inner.collect() } else { Vec::new() };
            let calls = self.branches(inner, depth + 1);
            Branch { name, place: at.map(|(_, at)| at), bytes, calls }
        };
        let mut branches: Vec<Branch> = by_name.into_iter().map(branch).collect();
        branches.retain(|branch| self.matters(branch.bytes));
        branches.sort_by_key(|branch| std::cmp::Reverse(branch.bytes));
        branches
    }
}
