//! Which node the next banks come from: a path of places and the paper's search, on real memory.
//!
//! Asking a machine how full its nodes are costs as much as touching some dozen pages, so an answer is good for a
//! quarter of the room that was found: far from the edge it is seldom asked again, near it for every bank.
//!
//! Invariant: between two questions no home takes more of a node than the node had.
//!
//! Sources: path and search as in `place` (the chapter "DmRT for NUMA", 4.1.1 and 4.2.1; what nodes without processors
//! have is the shared memory). The search is complete here: a request fails only where the path ends.

use super::BANK;
use crate::machine::{Nodes, Room, Survey};
use crate::place::{
    Average, Effort, Home, Load, MAX_NODES, NodeId, NodeSet, RemoteSearch, Stop, Thresholds,
};

/// Banks that a node gives its own before it is asked for the first time: small programs never ask.
const UNASKED: u32 = 4;
/// Banks for which an answer is good, at most: 512 MiB. Of a node that is not the first choice fewer, for the first
/// may have room again.
const MOST: u32 = 256;
const MOST_ELSEWHERE: u32 = 8;
/// The part of its memory that a node keeps, so that the kernel need not send single pages elsewhere: its low
/// watermark is about a thousandth.
const KEPT: u64 = 256;
/// And at least so much, in bytes: pages on processors' own lists are not free to others.
const KEPT_MIN: u64 = 4 << 20;

/// A node, and how many banks more it gives before it is asked again.
#[derive(Clone, Copy, Debug, Default)]
struct Offer {
    node: Home,
    banks: u32,
}

/// What the nodes offer each home. All-zero: nobody was asked yet.
#[derive(Debug)]
pub struct Supply {
    offers: [Offer; MAX_NODES],
    /// Homes that have asked.
    asked: NodeSet,
}

impl Default for Supply {
    fn default() -> Supply {
        Supply::new()
    }
}

impl Supply {
    /// Nobody was asked yet.
    pub const fn new() -> Supply {
        let offers = [Offer { node: Home::ANYWHERE, banks: 0 }; MAX_NODES];
        Supply { offers, asked: NodeSet::from_bits(0) }
    }

    /// Whether the next bank of `here` would come from `here` itself, asking it if need be.
    pub fn stays_here(&self, nodes: &dyn Nodes, here: NodeId) -> bool {
        let offer = self.offer(here);
        if offer.banks > 0 {
            return offer.node == Home::of(here);
        }
        starts_here(nodes) && banks_in(nodes.room(here)) > 0
    }

    /// Where the next banks of `here` come from, and how many of the `want` (at least one). `None` where the path ends
    /// before there is room for any. When every memory is full, a path with a search leads to `here`: the machine may
    /// have means that nobody sees from outside.
    pub fn next(
        &mut self,
        nodes: &dyn Nodes,
        here: NodeId,
        want: usize,
    ) -> Option<(NodeId, usize)> {
        let offer = self.offer(here);
        if let (Some(node), true) = (offer.node.node(), offer.banks as usize >= want) {
            self.set_offer(here, Offer { banks: offer.banks - want as u32, ..offer });
            return Some((node, want));
        }
        if starts_here(nodes) {
            let banks = banks_in(nodes.room(here));
            if banks as usize >= want {
                return Some(self.accept(here, (here, banks), want, true));
            }
        }
        self.choose(nodes, here, want)
    }

    /// Goes along the path, with all memories in view.
    fn choose(&mut self, nodes: &dyn Nodes, here: NodeId, want: usize) -> Option<(NodeId, usize)> {
        let survey = nodes.survey(here);
        let path = nodes.path();
        let mut open = survey.usable;
        for (at, stop) in path.stops().iter().enumerate() {
            let (found, seen) = match stop {
                Stop::Local => (Some(here), NodeSet::default().with(here)),
                Stop::Shared => (nearest(&survey, open), survey.shared),
                Stop::Search => (remote(&survey, here, open), NodeSet::default()),
            };
            let found = found.filter(|&node| open.contains(node));
            let found = found.map(|node| (node, banks_of(&survey, node)));
            if let Some(found @ (_, 1..)) = found {
                return Some(self.accept(here, found, want, at == 0));
            }
            open = open.without(seen);
        }
        path.visits(Stop::Search).then_some((here, want))
    }

    /// Takes up to `want` of the `banks` that a node was found to have.
    fn accept(
        &mut self,
        here: NodeId,
        (node, banks): (NodeId, u32),
        want: usize,
        first_choice: bool,
    ) -> (NodeId, usize) {
        let given = want.min(banks as usize);
        let most = if first_choice { MOST } else { MOST_ELSEWHERE };
        let rest = ((banks - given as u32) / 4).min(most);
        self.set_offer(here, Offer { node: Home::of(node), banks: rest });
        (node, given)
    }

    fn offer(&self, here: NodeId) -> Offer {
        match self.offers.get(here.index()) {
            Some(offer) if self.asked.contains(here) => *offer,
            _ => Offer { node: Home::of(here), banks: UNASKED },
        }
    }

    fn set_offer(&mut self, here: NodeId, offer: Offer) {
        if let Some(place) = self.offers.get_mut(here.index()) {
            *place = offer;
            self.asked = self.asked.with(here);
        }
    }
}

/// Whether a node's own memory is the first place to look.
fn starts_here(nodes: &dyn Nodes) -> bool {
    nodes.path().stops().first() == Some(&Stop::Local)
}

/// How many banks a node has to give. One of which nobody knows has plenty.
fn banks_in(room: Option<Room>) -> u32 {
    let Some(Room { free, capacity }) = room else { return u32::MAX };
    let banks = free.saturating_sub((capacity / KEPT).max(KEPT_MIN)) / BANK as u64;
    u32::try_from(banks).unwrap_or(u32::MAX)
}

fn banks_of(survey: &Survey, node: NodeId) -> u32 {
    banks_in(Some(survey.rooms.get(node.index()).copied().unwrap_or_default()))
}

/// The nearest of the open nodes without processors that has room.
fn nearest(survey: &Survey, open: NodeSet) -> Option<NodeId> {
    let shared = survey.shared.without(open.complement());
    let roomy = shared.iter().filter(|&node| banks_of(survey, node) > 0);
    roomy.min_by_key(|node| survey.distances.get(node.index()).copied())
}

/// The paper's search among the open nodes with processors, until one has room.
fn remote(survey: &Survey, here: NodeId, open: NodeSet) -> Option<NodeId> {
    let load = |room: Room| Load::of(room.capacity.saturating_sub(room.free), room.capacity);
    let loads = survey.rooms.map(load);
    let all = survey.usable.iter().filter_map(|node| loads.get(node.index()).copied());
    let search = RemoteSearch {
        loads: &loads,
        distances: &survey.distances,
        average: Average::of(all),
        thresholds: Thresholds::PAPER,
        here,
    };
    let tried = open.without(survey.shared).complement();
    search.order(Effort::Complete, tried).find(|&node| banks_of(survey, node) > 0)
}

#[cfg(test)]
#[path = "supply/tests.rs"]
mod tests;
