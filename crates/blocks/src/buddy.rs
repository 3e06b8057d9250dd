//! Buddies: blocks of powers of two that merge with their twin only.
//!
//! A request is rounded up to a power of two of granules. A longer block is halved until it has
//! that order; a freed one merges with its buddy, the other half of what it was cut from, for as
//! long as that is free and whole. Both are found by flipping one bit of the place.
//! Knowlton, "A fast storage allocator", CACM 8 (10), 1965.
//!
//! The tags are those of every region, and say the same; only the merge rule differs: two free
//! neighbours that are no buddies stay two. Places are counted in granules of the machine's
//! address space and name payloads (see `tags`), so that a payload is aligned to the length of
//! its block and alignments cost nothing but a longer block to cut from. A region of any length
//! and place is cut into the longest aligned blocks that it holds:
//!
//! ```text
//!  granules    2  4      8              16                              32      40  44 46
//!  blocks      |2 |  4   |      8       |              16               |   8   | 4 | 2|
//! ```
//!
//! Free blocks of one order hang in a list, youngest first; a bit per order says which lists are
//! not empty. Invariant: no two free buddies. Every operation is O(log n) at most.

use super::index::Census;
use super::region::Region;
use super::stack::Stack;
use super::tags::{Block, Granules, Tag, Tags, View};
use super::walk::{self, Counts, Tally};
use crate::align::Align;
use crate::check::Broken;
use crate::policy::{BlockInfo, Inspect, Policy, Totals};
use crate::probe::{Probe, Step};
use core::ptr::NonNull;

/// One more than the highest order: no region is longer than 2^32 - 1 granules.
const ORDERS: usize = 32;

/// log2 of a block's length in granules: 1 (32 B) to 31 (32 GiB).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Order(u8);

impl Order {
    const MIN: Order = Order(super::MIN_BLOCK.count().ilog2() as u8);

    /// The order of the shortest block of at least `need`; `None` when there is none.
    fn covering(need: Granules) -> Option<Order> {
        let order = need.count().checked_next_power_of_two()?.ilog2() as u8;
        Some(Order(order))
    }

    /// The order whose blocks are aligned to `align`; `None` when there is none.
    fn aligned(align: Align) -> Option<Order> {
        let order = align.log2().saturating_sub(super::GRANULE.ilog2() as u8);
        (usize::from(order) < ORDERS).then_some(Order(order).max(Order::MIN))
    }

    /// The order of a block.
    fn of(size: Granules) -> Order {
        Order(size.count().ilog2() as u8)
    }

    fn size(self) -> Granules {
        Granules::new(1 << self.0)
    }

    fn halved(self) -> Order {
        Order(self.0 - 1)
    }

    fn doubled(self) -> Order {
        Order(self.0 + 1)
    }

    fn index(self) -> usize {
        self.0.into()
    }
}

/// One region under buddies.
#[derive(Debug)]
pub struct Buddy {
    tags: Tags,
    lists: Lists,
    counts: Counts,
}

/// The free blocks by order.
#[derive(Debug, Default)]
struct Lists {
    /// Bit `order`: that list is not empty.
    orders: u32,
    stacks: [Stack; ORDERS],
}

impl Lists {
    fn push<P: Probe>(&mut self, view: &mut View<P>, block: Block, order: Order) {
        self.stacks[order.index()].push(view, block);
        view.step(Step::Index);
        self.orders |= 1 << order.0;
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, order: Order) {
        let stack = &mut self.stacks[order.index()];
        stack.remove(view, block);
        if stack.top().is_none() {
            view.step(Step::Index);
            self.orders &= !(1 << order.0);
        }
    }

    /// The youngest block of the lowest order that is at least `order`.
    fn find<P: Probe>(&self, view: &mut View<P>, order: Order) -> Option<(Block, Order)> {
        view.step(Step::Index);
        let orders = self.orders >> order.0 << order.0;
        let found = orders.trailing_zeros() as usize;
        let block = self.stacks.get(found)?.top()?;
        view.step(Step::Inspect);
        Some((block, Order(found as u8)))
    }
}

impl Buddy {
    /// Cuts the region, whose tags begin and end on even granules of the address space.
    fn over(tags: Tags) -> Buddy {
        let mut buddy = Buddy { tags, lists: Lists::default(), counts: Counts::default() };
        let mut view = tags.quiet();
        let mut block = tags.first();
        while block < tags.end() {
            let left = tags.end().granule() - block.granule();
            let aligned = tags.address_granule(block).trailing_zeros();
            let order = Order(aligned.min(left.ilog2()) as u8);
            view.write_free(block, order.size(), block != tags.first());
            buddy.add_free(&mut view, block, order);
            block = block.after(order.size());
        }
        view.mark_prev_free(tags.end(), true);
        buddy
    }

    fn add_free<P: Probe>(&mut self, view: &mut View<P>, block: Block, order: Order) {
        self.lists.push(view, block, order);
        self.counts.free_in(order.size());
    }

    fn drop_free<P: Probe>(&mut self, view: &mut View<P>, block: Block, order: Order) {
        self.lists.remove(view, block, order);
        self.counts.free_out(order.size());
    }

    /// A used block for `size` bytes, aligned.
    fn take<P: Probe>(&mut self, size: u64, align: Align, probe: P) -> Option<Block> {
        let order = Order::covering(Granules::for_request(size)?)?;
        let mut view = self.tags.watched(probe);
        let (block, found) = self.lists.find(&mut view, order.max(Order::aligned(align)?))?;
        self.drop_free(&mut view, block, found);
        let prev_free = view.tag(block).is_prev_free();
        view.write_used(block, order.size(), prev_free);
        view.mark_prev_free(block.after(found.size()), found != order);
        self.free_upper_halves(&mut view, block, found, order);
        self.counts.used_in(self.tags.extent(block.after(order.size())));
        Some(block)
    }

    /// Halves `block` from order `from` to order `to`; the upper halves become free. They are no
    /// buddies of anything free: the lower half of each holds the used block.
    fn free_upper_halves<P: Probe>(
        &mut self,
        view: &mut View<P>,
        block: Block,
        from: Order,
        to: Order,
    ) {
        let mut order = from;
        while order > to {
            order = order.halved();
            view.step(Step::Split);
            let upper = block.after(order.size());
            view.write_free(upper, order.size(), order != to);
            self.add_free(view, upper, order);
        }
    }

    /// Makes a used block free and merges it upwards.
    fn release<P: Probe>(&mut self, block: Block, probe: P) {
        let mut view = self.tags.watched(probe);
        let tag = view.tag(block);
        debug_assert!(!tag.is_free(), "double free of {block:?}");
        self.counts.used_out();
        let (mut whole, mut order) = (block, Order::of(tag.size()));
        let mut prev_free = tag.is_prev_free();
        while let Some((buddy, buddy_tag)) = self.free_buddy(&mut view, whole, order) {
            view.step(Step::Merge);
            self.drop_free(&mut view, buddy, order);
            if buddy < whole {
                (whole, prev_free) = (buddy, buddy_tag.is_prev_free());
            }
            order = order.doubled();
        }
        view.write_free(whole, order.size(), prev_free);
        view.mark_prev_free(whole.after(order.size()), true);
        self.add_free(&mut view, whole, order);
    }

    /// The buddy of `block` if it is free and of the same order.
    ///
    /// A tag lies at the buddy's place whenever both halves are inside the region: the cutting
    /// of `over` never separates two such buddies, so both were cut from one block, and whatever
    /// the other half was cut into since begins where it begins.
    fn free_buddy<P: Probe>(
        &self,
        view: &mut View<P>,
        block: Block,
        order: Order,
    ) -> Option<(Block, Tag)> {
        let buddy = self.buddy_of(block, order)?;
        view.step(Step::Inspect);
        let tag = view.tag(buddy);
        (tag.is_free() && tag.size() == order.size()).then_some((buddy, tag))
    }

    /// The place of the buddy, unless it lies outside of the region or hangs over its end.
    fn buddy_of(&self, block: Block, order: Order) -> Option<Block> {
        let is_upper = self.tags.address_granule(block) >> order.0 & 1 == 1;
        let place = u64::from(block.granule());
        let size = u64::from(order.size().count());
        let buddy = if is_upper { place.checked_sub(size)? } else { place + size };
        let ends_inside = buddy + size <= u64::from(self.tags.end().granule());
        if ends_inside { self.tags.block_at(buddy) } else { None }
    }

    /// Halves a used block, or doubles it into free upper buddies, until it holds `size` bytes.
    fn resize<P: Probe>(&mut self, block: Block, size: u64, probe: P) -> bool {
        let Some(to) = Granules::for_request(size).and_then(Order::covering) else { return false };
        let mut view = self.tags.watched(probe);
        let tag = view.tag(block);
        let from = Order::of(tag.size());
        if to > from && !self.can_double(&mut view, block, from, to) {
            return false;
        }
        if to != from {
            view.write_used(block, to.size(), tag.is_prev_free());
        }
        if to > from {
            self.absorb_upper_halves(&mut view, block, from, to);
        } else if to < from {
            view.mark_prev_free(block.after(from.size()), true);
            self.free_upper_halves(&mut view, block, from, to);
        }
        true
    }

    fn can_double<P: Probe>(
        &self,
        view: &mut View<P>,
        block: Block,
        from: Order,
        to: Order,
    ) -> bool {
        let mut order = from;
        while order < to {
            match self.free_buddy(view, block, order) {
                Some((buddy, _)) if buddy > block => order = order.doubled(),
                _ => return false,
            }
        }
        true
    }

    fn absorb_upper_halves<P: Probe>(
        &mut self,
        view: &mut View<P>,
        block: Block,
        from: Order,
        to: Order,
    ) {
        let mut order = from;
        while order < to {
            view.step(Step::Merge);
            self.drop_free(view, block.after(order.size()), order);
            order = order.doubled();
        }
        let end = block.after(to.size());
        view.mark_prev_free(end, false);
        self.counts.reached(self.tags.extent(end));
    }

    /// Walks the lists: each holds free blocks of its order, at their places, without buddies.
    fn check_lists(&self) -> Result<Census, Broken> {
        let mut census = Census::default();
        for order in (Order::MIN.0..ORDERS as u8).map(Order) {
            let stack = &self.lists.stacks[order.index()];
            let what = "an order's bit tells whether its list is empty";
            let said = self.lists.orders >> order.0 & 1;
            Broken::unless_equal(what, 0, stack.top().is_some().into(), said.into())?;
            let belongs = |block, size| self.check_free(block, size, order);
            stack.check(&self.tags, &mut census, belongs)?;
        }
        Ok(census)
    }

    fn check_free(&self, block: Block, size: Granules, order: Order) -> Result<(), Broken> {
        let at = block.tag_at();
        Broken::unless(size == order.size(), "a list holds blocks of its order", at)?;
        let place = self.tags.address_granule(block);
        let aligned = place.trailing_zeros() >= order.0.into();
        Broken::unless(aligned, "a buddy is aligned to its length", at)?;
        let lonely = self.free_buddy(&mut self.tags.quiet(), block, order).is_none();
        Broken::unless(lonely, "no two free buddies", at)
    }
}

impl Policy for Buddy {
    fn new(region: Region) -> Option<Self> {
        // Payloads lie at even granules of the address space; granule 0 of the region is a tag's.
        let base = (region.base().addr().get() as u64 / super::GRANULE) as u32;
        let first = 1 + (base.wrapping_add(1) & 1);
        let end = region.granules();
        let end = end.checked_sub(base.wrapping_add(end) & 1)?;
        Some(Buddy::over(Tags::between(&region, first, end)?))
    }

    fn alloc<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<NonNull<u8>> {
        let block = self.take(size, align, probe)?;
        Some(self.tags.payload(block))
    }

    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, probe: &mut P) {
        // SAFETY: the caller's promise is the one asked for here.
        let block = unsafe { self.tags.block_of(payload) };
        self.release(block, probe);
    }

    unsafe fn resize_in_place<P: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        probe: &mut P,
    ) -> bool {
        // SAFETY: the caller's promise is the one asked for here.
        let block = unsafe { self.tags.block_of(payload) };
        self.resize(block, size, probe)
    }

    unsafe fn usable(&self, payload: NonNull<u8>) -> u64 {
        // SAFETY: the caller's promise is the one asked for here.
        let block = unsafe { self.tags.block_of(payload) };
        self.tags.usable(block)
    }
}

impl Inspect for Buddy {
    fn totals(&self) -> Totals {
        self.counts.totals(&self.tags)
    }

    fn largest_free(&self) -> u64 {
        self.lists.orders.checked_ilog2().map_or(0, |order| Order(order as u8).size().bytes())
    }

    fn for_each_block(&self, visit: impl FnMut(BlockInfo)) {
        walk::for_each_block(&self.tags, visit);
    }

    fn check(&self) -> Result<(), Broken> {
        let free = walk::check(&self.tags, &self.counts, walk::Neighbours::MayBothBeFree)?;
        free.expect("the lists hold exactly the free blocks", &self.check_lists()?)
    }
}
