//! The mesh network: messages go along their row, then along their column, and meet on links.
//!
//! A message of f flits takes each link for f x `link` cycles, from the moment its head is there and the
//! link is free; its head goes on after one flit (wormhole routing, without the back-pressure of short
//! buffers). Links are reserved when a message is sent.

use super::costs::Costs;
use freehold_core::place::mesh::{HeapId, Mesh};

/// Directions out of a router.
const EAST: usize = 0;
const WEST: usize = 1;
const SOUTH: usize = 2;
const NORTH: usize = 3;

/// What became of a message that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sent {
    /// When its last flit is there.
    pub arrived: u64,
    /// Cycles of its way that its head stood before links which others took.
    pub waited: u64,
}

/// The links of a mesh and what went over them.
#[derive(Debug)]
pub struct Network {
    mesh: Mesh,
    /// When each link is free, four a node.
    free_at: Vec<u64>,
    /// Cycles that each link was taken.
    taken: Vec<u64>,
    messages: u64,
    hops: u64,
}

impl Network {
    /// The idle network of `mesh`.
    pub fn new(mesh: Mesh) -> Network {
        let links = mesh.heaps() * 4;
        Network { mesh, free_at: vec![0; links], taken: vec![0; links], messages: 0, hops: 0 }
    }

    /// Messages sent so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Links passed so far, by all messages.
    pub fn hops(&self) -> u64 {
        self.hops
    }

    /// Cycles that links out of each node were taken: east, west, south, north.
    pub fn taken(&self) -> &[u64] {
        &self.taken
    }

    /// Sends `flits` flits from one node to another at `now`. O(hops).
    pub fn send(&mut self, costs: &Costs, from: HeapId, to: HeapId, flits: u64, now: u64) -> Sent {
        let ((mut row, mut column), (to_row, to_column)) =
            (self.mesh.place(from), self.mesh.place(to));
        let columns = self.mesh.columns();
        let mut head = now + costs.interface + costs.router;
        let mut waited = 0;
        self.messages += 1;
        while column != to_column {
            let node = row * columns + column;
            let east = column < to_column;
            let link = node * 4 + if east { EAST } else { WEST };
            head = self.pass(costs, link, flits, head, &mut waited);
            column = if east { column + 1 } else { column - 1 };
        }
        while row != to_row {
            let node = row * columns + column;
            let south = row < to_row;
            let link = node * 4 + if south { SOUTH } else { NORTH };
            head = self.pass(costs, link, flits, head, &mut waited);
            row = if south { row + 1 } else { row - 1 };
        }
        Sent { arrived: head + (flits - 1) * costs.link + costs.interface, waited }
    }

    /// The head is there at `at`: when it is in the next router. What it waits for the link is added to `waited`.
    fn pass(&mut self, costs: &Costs, link: usize, flits: u64, at: u64, waited: &mut u64) -> u64 {
        let start = at.max(self.free_at[link]);
        *waited += start - at;
        let busy = flits * costs.link;
        self.free_at[link] = start + busy;
        self.taken[link] += busy;
        self.hops += 1;
        start + costs.link + costs.router
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: usize) -> HeapId {
        HeapId::new(number).unwrap()
    }

    #[test]
    fn a_message_takes_its_hops_and_its_flits() {
        let mut network = Network::new("3x3".parse().unwrap());
        let costs = Costs::default();
        // Interface 4, router 1, four links and routers of 2, one more flit, interface 4.
        let sent = network.send(&costs, node(0), node(8), 2, 100);
        assert_eq!(sent, Sent { arrived: 100 + 4 + 1 + 4 * 2 + 1 + 4, waited: 0 });
        assert_eq!((network.messages(), network.hops()), (1, 4));
        assert_eq!(network.taken()[EAST], 2);
        assert_eq!(network.taken()[2 * 4 + SOUTH], 2, "along the row first");
    }

    #[test]
    fn two_messages_meet_on_a_link_only_where_their_ways_do() {
        let mut network = Network::new("2x3".parse().unwrap());
        let costs = Costs { link: 10, ..Costs::default() };
        let first = network.send(&costs, node(0), node(2), 2, 0);
        let second = network.send(&costs, node(0), node(2), 2, 0);
        let apart = (second.arrived - first.arrived, second.waited);
        assert_eq!(
            (apart, first.waited),
            ((20, 20), 0),
            "the second waits for two flits of the first"
        );
        let back = network.send(&costs, node(2), node(0), 2, 0);
        assert_eq!(back, first, "links have two directions");
        let other = network.send(&costs, node(3), node(5), 2, 0);
        assert_eq!(other, first);
    }
}
