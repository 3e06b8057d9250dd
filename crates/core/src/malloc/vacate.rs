//! Moves a heap's memory off closed nodes while the program uses it.
//!
//! ```text
//! close      no bank comes from there any more                       under the units' lock
//! vacate     for each bank: its new pages come from elsewhere;       under the lock
//!            asks where its pages are, moves them, asks again        without the lock
//! ```
//!
//! The kernel moves a page as a whole or not at all, and a thread that touches it meanwhile waits: nothing is locked here, no
//! block changes its address. A page that the kernel is using just then stays: the caller repeats until
//! nothing is left, or nothing moves any more.
//!
//! Invariant: a page reported as moved was found on a closed node before, and is not there any more.

use super::heap::NodeHeap;
use super::units::{BANK, Cursor};
use crate::machine::Machine;
use crate::place::{Home, NodeSet};

/// The smallest page that there is: a bank has at most so many pages of it.
const LEAST_PAGE: usize = 4096;

/// What became of some memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Vacated {
    /// Left a closed node.
    pub moved: usize,
    /// Is still there: in somebody else's hands, or there is no room elsewhere.
    pub left: usize,
}

impl<M: Machine> NodeHeap<M> {
    /// Takes no memory of the nodes of `closed` any more, and of all others again. `strict`: requests fail when the open
    /// nodes have no room, although the machine might find some elsewhere.
    pub fn close_nodes(&self, closed: NodeSet, strict: bool) {
        self.shared.units.close(self.machine(), closed, strict);
    }

    /// The nodes that are closed.
    pub fn closed_nodes(&self) -> NodeSet {
        self.shared.units.closed(self.machine())
    }

    /// Moves what of the next bank of memory lies on closed nodes; `None` when all were visited.
    pub fn vacate(&self, cursor: &mut Cursor) -> Option<Vacated> {
        let nodes = self.machine().nodes()?;
        let (stretch, closed) = self.shared.units.next_stretch(self.machine(), cursor)?;
        let (at, page) = (stretch.at as *mut u8, self.machine().page_size());
        let mut pages = [Home::ANYWHERE; BANK / LEAST_PAGE];
        let pages = pages.get_mut(..stretch.len / page)?;
        if !nodes.locate(at, page, pages) {
            return Some(Vacated::default());
        }
        let before = bytes_on(closed, pages, page);
        if before == 0 {
            return Some(Vacated::default());
        }
        let Some(to) = stretch.to else { return Some(Vacated { moved: 0, left: before }) };
        nodes.migrate(at, page, pages, closed, to);
        nodes.locate(at, page, pages);
        let left = bytes_on(closed, pages, page);
        Some(Vacated { moved: before.saturating_sub(left), left })
    }
}

fn bytes_on(nodes: NodeSet, pages: &[Home], page: usize) -> usize {
    let there = |home: &&Home| home.node().is_some_and(|node| nodes.contains(node));
    pages.iter().filter(there).count() * page
}
