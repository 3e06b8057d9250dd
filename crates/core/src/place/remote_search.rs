//! The search for a remote node: which one serves a request that the own node may not?
//!
//! The chapter's pseudo-code (4.2.1), with `u` the loads, `self` the asking node and the others the
//! candidates (the shared memory enters the average only):
//!
//! ```text
//!   self is ideal                -> self
//!   another is ideal             -> the least used of them
//!   another is light  (else normal) -> the least used of them, j, if u_j <= u_self; else self
//!   else                         -> self
//! ```
//!
//! It never asks whether the block fits there. [`Effort::Strict`] is just that: one answer.
//! [`Effort::Complete`] asks again without the nodes that were tried, until none is left; once
//! `self` was tried, there is nothing to stay at, and the least used of the best category is next.
//!
//! Ours, where the text is silent: of equally used nodes the nearer is taken, then the lower
//! number; where `u_j` equals `u_self` the printed `<=` sends the request away.

use super::NodeId;
use super::load::{Average, Category, Load, Thresholds};

/// The most nodes that a search can tell apart.
pub const MAX_NODES: usize = 64;

/// How long to search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Effort {
    /// As printed: one node, whether the block fits there or not.
    #[default]
    Strict,
    /// Then the next best, until all were tried.
    Complete,
}

/// A set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeSet(u64);

impl NodeSet {
    /// Takes `node` in.
    #[must_use]
    pub const fn with(self, node: NodeId) -> NodeSet {
        NodeSet(self.0 | 1 << node.index())
    }

    /// The nodes whose bits are set: bit `i` is node `i`.
    pub const fn from_bits(bits: u64) -> NodeSet {
        NodeSet(bits)
    }

    /// One bit a node.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Those that are in this set but not in `other`.
    #[must_use]
    pub const fn without(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 & !other.0)
    }

    /// Those that are in either.
    #[must_use]
    pub const fn union(self, other: NodeSet) -> NodeSet {
        NodeSet(self.0 | other.0)
    }

    /// The nodes, in order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let node = NodeId::new(rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(node)
        })
    }

    /// Every node that there can be but those of this set.
    #[must_use]
    pub const fn complement(self) -> NodeSet {
        NodeSet(!self.0)
    }

    /// Whether `node` is in.
    pub const fn contains(self, node: NodeId) -> bool {
        self.0 >> node.index() & 1 == 1
    }
}

const _: () = assert!(MAX_NODES == u64::BITS as usize, "a set is one word");

/// What one search looks at. It is made for one request and holds no state.
#[derive(Clone, Copy, Debug)]
pub struct RemoteSearch<'a> {
    /// How full each node is, by its number; those beyond [`MAX_NODES`] are not seen.
    pub loads: &'a [Load],
    /// How far each node is from the asking one, in any unit; a node without an entry is farthest.
    pub distances: &'a [u32],
    /// The average of the loads of all memories, shared memory included.
    pub average: Average,
    /// Where the categories end.
    pub thresholds: Thresholds,
    /// Who asks: one of the nodes.
    pub here: NodeId,
}

/// What makes a node welcome: compared from left to right, least first.
type Rank = (Category, Load, u32, NodeId);

impl RemoteSearch<'_> {
    /// The node to try when those of `tried` were; `None` when all were. With none tried it is
    /// the chapter's choice. O(nodes).
    pub fn next(&self, tried: NodeSet) -> Option<NodeId> {
        let here = self.here;
        let other = self.best_other(tried);
        if tried.contains(here) || self.loads.get(here.index()).is_none() {
            return other.map(|rank| rank.3);
        }
        let stays = self.category(here) == Category::Ideal;
        let goes = other.filter(|_| !stays).filter(|&(category, load, ..)| match category {
            Category::Ideal => true,
            Category::Light | Category::Normal => load <= self.load(here),
            Category::Heavy => false,
        });
        Some(goes.map_or(here, |rank| rank.3))
    }

    /// The nodes to try, in order: one when strict, every node but those of `tried` when complete.
    /// Each costs O(nodes).
    pub fn order(&self, effort: Effort, tried: NodeSet) -> impl Iterator<Item = NodeId> {
        let mut tried = tried;
        let most = match effort {
            Effort::Strict => 1,
            Effort::Complete => MAX_NODES,
        };
        let one = move || {
            let node = self.next(tried)?;
            tried = tried.with(node);
            Some(node)
        };
        core::iter::from_fn(one).take(most)
    }

    /// The category of `node`, which must be one of the nodes.
    pub fn category(&self, node: NodeId) -> Category {
        self.thresholds.category(self.load(node), self.average)
    }

    fn load(&self, node: NodeId) -> Load {
        self.loads.get(node.index()).copied().unwrap_or(Load::FULL)
    }

    /// The most welcome node but the asking one and those of `tried`.
    fn best_other(&self, tried: NodeSet) -> Option<Rank> {
        let nodes = (0..self.loads.len()).filter_map(NodeId::new);
        let open = nodes.filter(|&node| node != self.here && !tried.contains(node));
        open.map(|node| self.rank(node)).min()
    }

    fn rank(&self, node: NodeId) -> Rank {
        let distance = self.distances.get(node.index()).copied().unwrap_or(u32::MAX);
        (self.category(node), self.load(node), distance, node)
    }
}

#[cfg(test)]
#[path = "remote_search/tests.rs"]
mod tests;
