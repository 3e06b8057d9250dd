//! Which **place**? The node that serves a request, chosen by how full every node is.
//!
//! ```text
//!   path            local > shared > search: which kinds of place, in which order
//!   remote_search   the search: which node, and which next when the block is not there
//!   home            a node, or nowhere in particular: where the malloc's banks belong
//!   load            how full a memory is, and what that makes of it: ideal, light, normal, heavy
//!   mesh            a heap on each of many nodes, asked by messages: which of them serves
//! ```
//!
//! Pure functions over integers: whoever calls brings the loads, and nothing is remembered. So the
//! simulator and the malloc ask the very same question. Invariant: a choice depends on the loads,
//! the distances and the thresholds alone, and of two nodes that are equally good it is the nearer
//! one, then the one with the lower number.
//!
//! Source: the chapter "DmRT for NUMA", sections 4.1.1 and 4.2.1. What the chapter leaves open is
//! chosen here and said where it is.

#![deny(unsafe_code)]

mod home;
mod load;
pub mod mesh;
mod path;
mod remote_search;

pub use home::Home;
pub use load::{Average, Category, Load, Thresholds, UnusableThresholds};
pub use path::{MAX_STOPS, Memories, Path, Stop, UnknownPath};
pub use remote_search::{Effort, MAX_NODES, NodeSet, RemoteSearch};

use core::fmt;

/// A part of the machine's memory that is equally far from some processors. Numbered from 0;
/// printed `N2`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u8);

impl NodeId {
    /// The node of that number; `None` from [`MAX_NODES`] on.
    pub const fn new(number: usize) -> Option<NodeId> {
        if number < MAX_NODES { Some(NodeId(number as u8)) } else { None }
    }

    /// Its number, below [`MAX_NODES`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "N{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "N{}", self.0)
    }
}
