//! In which order remote heaps are asked.
//!
//! The letter does not say. By index is what its figures look like: every node asks H0, H1, H2 in turn,
//! so that all meet at the same few heaps, and the longer the mesh the longer the walk past full ones.
//! Rotated and by distance give every node a walk of its own.

use super::{HeapId, Mesh};
use core::fmt;
use core::str::FromStr;

/// An order of the other heaps, as one node sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// By number from 0: the same for all nodes.
    Index,
    /// The nearest first; of equally near ones by number.
    Distance,
    /// By number from the own one on, and then from 0.
    Rotated,
    /// As by distance, but those last that are known to be full: see [`Hints`](super::Hints).
    Hinted,
}

impl Order {
    /// Every order.
    pub const ALL: [Order; 4] = [Order::Index, Order::Distance, Order::Rotated, Order::Hinted];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Order::Index => "index",
            Order::Distance => "distance",
            Order::Rotated => "rotated",
            Order::Hinted => "hinted",
        }
    }
}

/// A text that is no order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownOrder;

impl fmt::Display for UnknownOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an order is index, distance, rotated or hinted")
    }
}

impl core::error::Error for UnknownOrder {}

impl FromStr for Order {
    type Err = UnknownOrder;

    fn from_str(text: &str) -> Result<Order, UnknownOrder> {
        Order::ALL.into_iter().find(|order| order.name() == text).ok_or(UnknownOrder)
    }
}

/// The other heaps in some order, each once. O(1) a heap (by distance: O(1) but for the mesh's edges).
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    order: Order,
    mesh: Mesh,
    from: HeapId,
    /// By number: how many were passed. By distance: how far the ring is.
    at: usize,
    /// By distance: the row on the ring and which of its two nodes.
    row: usize,
    right: bool,
}

impl Walk {
    /// All heaps of `mesh` but that of `from`, which is one of them.
    pub const fn new(order: Order, mesh: Mesh, from: HeapId) -> Walk {
        let at = match order {
            Order::Distance | Order::Hinted => 1,
            Order::Index | Order::Rotated => 0,
        };
        let mut walk = Walk { order, mesh, from, at, row: 0, right: false };
        walk.row = walk.first_row();
        walk
    }

    /// Who walks.
    pub const fn from(&self) -> HeapId {
        self.from
    }

    const fn first_row(&self) -> usize {
        self.mesh.place(self.from).0.saturating_sub(self.at)
    }

    fn next_by_number(&mut self) -> Option<HeapId> {
        let heaps = self.mesh.heaps();
        while self.at < heaps {
            let number = match self.order {
                Order::Rotated => (self.from.index() + self.at) % heaps,
                _ => self.at,
            };
            self.at += 1;
            if number != self.from.index() {
                return HeapId::new(number);
            }
        }
        None
    }

    /// Ring by ring: on each row of a ring lie one or two nodes, left and right.
    fn next_by_distance(&mut self) -> Option<HeapId> {
        let (row, column) = self.mesh.place(self.from);
        let farthest = self.mesh.rows() + self.mesh.columns();
        while self.at < farthest {
            let last = (row + self.at).min(self.mesh.rows() - 1);
            while self.row <= last {
                let aside = self.at - self.row.abs_diff(row);
                let here = self.row;
                let left = !self.right;
                self.right = left && aside > 0;
                if !self.right {
                    self.row += 1;
                }
                let column = if left { column.checked_sub(aside) } else { Some(column + aside) };
                if let Some(found) = column.and_then(|column| self.mesh.at(here, column)) {
                    return Some(found);
                }
            }
            self.at += 1;
            self.row = self.first_row();
        }
        None
    }
}

impl Iterator for Walk {
    type Item = HeapId;

    fn next(&mut self) -> Option<HeapId> {
        match self.order {
            Order::Index | Order::Rotated => self.next_by_number(),
            Order::Distance | Order::Hinted => self.next_by_distance(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn walk(order: Order, mesh: &str, from: usize) -> Vec<usize> {
        let walk = Walk::new(order, mesh.parse().unwrap(), HeapId::new(from).unwrap());
        walk.map(HeapId::index).collect()
    }

    #[test]
    fn the_orders_of_the_middle_of_nine() {
        assert_eq!(walk(Order::Index, "3x3", 4), [0, 1, 2, 3, 5, 6, 7, 8]);
        assert_eq!(walk(Order::Rotated, "3x3", 4), [5, 6, 7, 8, 0, 1, 2, 3]);
        assert_eq!(walk(Order::Distance, "3x3", 4), [1, 3, 5, 7, 0, 2, 6, 8]);
        assert_eq!(walk(Order::Distance, "3x3", 0), [1, 3, 2, 4, 6, 5, 7, 8]);
        assert_eq!(walk(Order::Hinted, "1x4", 2), [1, 3, 0]);
        assert_eq!(walk(Order::Distance, "1x1", 0), []);
    }

    #[test]
    fn every_order_meets_every_other_heap_once_and_distance_never_comes_nearer() {
        for mesh in ["1x1", "1x7", "7x1", "2x2", "3x5", "8x8"] {
            let shape: Mesh = mesh.parse().unwrap();
            for (order, from) in
                Order::ALL.into_iter().flat_map(|order| shape.all().map(move |from| (order, from)))
            {
                let met = walk(order, mesh, from.index());
                let mut sorted = met.clone();
                sorted.sort_unstable();
                let others = (0..shape.heaps()).filter(|&other| other != from.index());
                assert!(sorted.iter().copied().eq(others), "{order:?} {mesh} {from:?}: {met:?}");
                let hops = |to: &usize| shape.hops(from, HeapId::new(*to).unwrap());
                let by_distance = matches!(order, Order::Distance | Order::Hinted);
                let farther = met.windows(2).all(|pair| hops(&pair[0]) <= hops(&pair[1]));
                assert!(!by_distance || farther, "{order:?} {mesh} {from:?}: {met:?}");
            }
        }
    }

    #[test]
    fn orders_are_read_by_name() {
        assert!(Order::ALL.into_iter().all(|order| order.name().parse() == Ok(order)));
        assert_eq!("nearest".parse::<Order>(), Err(UnknownOrder));
    }
}
