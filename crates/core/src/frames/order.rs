//! How long a block is, and sets of lengths.

use core::fmt;

/// How many orders there are.
pub const ORDERS: usize = Order::MAX.index() + 1;

/// `log2` of a block's frames.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Order(u8);

impl Order {
    /// One frame, 4 KiB.
    pub const FRAME: Order = Order(0);
    /// Of a page block, the grain at which Linux groups kinds: 512 frames, 2 MiB.
    pub const PAGE_BLOCK: Order = Order(9);
    /// The largest: 1,024 frames, 4 MiB.
    pub const MAX: Order = Order(10);

    /// Of blocks of two to that power frames; `None` above [`MAX`](Self::MAX).
    pub const fn new(log2: u8) -> Option<Order> {
        if log2 <= Self::MAX.0 { Some(Order(log2)) } else { None }
    }

    /// The same where it is known to be one.
    #[inline(always)]
    pub(super) const fn of(log2: u8) -> Order {
        debug_assert!(log2 <= Self::MAX.0);
        Order(log2)
    }

    /// All, the smallest first.
    pub fn all() -> impl DoubleEndedIterator<Item = Order> + Clone {
        (0..=Self::MAX.0).map(Order)
    }

    /// From this one to the largest.
    pub(super) fn and_longer(self) -> impl DoubleEndedIterator<Item = Order> {
        (self.0..=Self::MAX.0).map(Order)
    }

    /// The one half as long, if there is one.
    pub const fn half(self) -> Option<Order> {
        match self.0 {
            0 => None,
            log2 => Some(Order(log2 - 1)),
        }
    }

    /// The one twice as long, if there is one.
    pub const fn double(self) -> Option<Order> {
        Order::new(self.0 + 1)
    }

    /// The same, where the compiler shall know that it is at most [`MAX`](Self::MAX): before loops over orders.
    #[inline(always)]
    pub(super) fn known(self) -> Order {
        Order::new(self.0).unwrap_or(Order::MAX)
    }

    /// As a number.
    #[inline(always)]
    pub const fn log2(self) -> u8 {
        self.0
    }

    /// As an index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// How many frames a block has.
    #[inline(always)]
    pub const fn frames(self) -> u32 {
        1 << self.0
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "O{}", self.0)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Orders(u16);

impl Orders {
    pub const NONE: Orders = Orders(0);

    #[inline(always)]
    pub fn insert(&mut self, order: Order) {
        self.0 |= 1 << order.0;
    }

    #[inline(always)]
    pub fn remove(&mut self, order: Order) {
        self.0 &= !(1 << order.0);
    }

    #[inline(always)]
    pub const fn has(self, order: Order) -> bool {
        self.0 >> order.0 & 1 == 1
    }

    /// Whether it has that one or a longer one.
    #[inline(always)]
    pub const fn has_from(self, order: Order) -> bool {
        self.0 >> order.0 != 0
    }

    /// The smallest one from that one on.
    #[inline(always)]
    pub const fn smallest_from(self, order: Order) -> Option<Order> {
        match self.0 >> order.0 {
            0 => None,
            longer => Some(Order(order.0 + longer.trailing_zeros() as u8)),
        }
    }

    /// The largest, as a number, + 1; 0 when it has none.
    #[inline(always)]
    pub const fn largest_and_one(self) -> u8 {
        ((self.0 as u32) << 1 | 1).ilog2() as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_end_at_four_mib() {
        assert_eq!((Order::new(10), Order::new(11)), (Some(Order::MAX), None));
        assert_eq!((Order::MAX.frames(), Order::MAX.double()), (1024, None));
        assert_eq!((Order::FRAME.half(), Order::PAGE_BLOCK.double()), (None, Some(Order::MAX)));
        assert_eq!((Order::all().count(), Order::PAGE_BLOCK.and_longer().count()), (ORDERS, 2));
    }

    #[test]
    fn a_set_finds_the_smallest_that_will_do_and_the_largest() {
        let (mut set, [two, five]) = (Orders::NONE, [Order(2), Order(5)]);
        assert_eq!((set.largest_and_one(), set.smallest_from(Order::FRAME)), (0, None));
        [two, five].into_iter().for_each(|order| set.insert(order));
        let from = [0, 2, 3, 6].map(|log2| set.smallest_from(Order(log2)));
        assert_eq!(from, [Some(two), Some(two), Some(five), None]);
        assert!(set.has(two) && !set.has(Order(3)) && set.has_from(Order(3)));
        set.remove(five);
        assert_eq!((set.largest_and_one(), set.has_from(Order(3))), (3, false));
    }
}
