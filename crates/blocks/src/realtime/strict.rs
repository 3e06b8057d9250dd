//! Strict mode: a proved bound on memory, in bounded time.
//!
//! Every block is a power of two of the smallest block, at a multiple of its own length, and the lowest such
//! place is taken: *aligned first fit*. What is free is known out of band (`tree`), and so is how long
//! each used block is: a byte for every smallest block. Blocks have no header: one in band would double
//! every request of a power of two.
//!
//! ```text
//!   region   | area: blocks ...                  | orders: 1 B a unit | sent | tree: 2/7 B a unit |
//! ```
//!
//! # How much memory is enough
//!
//! Lengths are counted in units of the smallest block. Let every block be a power of two from 1 to n,
//! let M be the most that used blocks ever come to together, and let 2 n divide M (else round M up). Then aligned
//! first fit never reaches beyond
//!
//! > M (1 + log2(n) / 2)
//!
//! *Proof.* Let E(j) be the end of the highest block of length 2^j or less that ever is, E(-1) = 0. We show
//! E(k) <= M (1 + k/2) for every k, by induction. If no block of 2^k ends above E(k-1), there is
//! nothing to show. Else look at the moment at which the block of 2^k that ends at E(k) is placed. It
//! takes the lowest free slot of its length, so each of the E(k)/2^k - 1 slots below holds something.
//! What lies at or above E(j-1) is at least 2^j long, by the definition of E, and begins at a multiple of
//! its length: so a slot that begins at or above E(j-1) is filled by 2^j at least (j <= k). There are
//! ceil(E(j)/2^k) slots that begin below E(j). Hence, the new block included,
//!
//! > M >= 2^k * E(k)/2^k - sum over j < k of (2^(j+1) - 2^j) ceil(E(j)/2^k),
//!
//! as each slot counts 2^k, less 2^j for each j with its begin below E(j). By induction E(j) <= M (1 + j/2),
//! which is a multiple of 2^k as 2 n divides M; so the ceilings do no harm:
//!
//! > E(k) <= M + sum over j < k of 2^(j-k) M (1 + j/2) = M (1 + k/2).
//!
//! (The sum of 2^(j-k) is 1 - 2^-k, that of j 2^(j-k) is k - 2 + 2^(1-k); half of it and the first are k/2.) ∎
//!
//! Robson (JACM 1971, 1974) has the same bound less n - 1, and shows that no allocator of powers of two can do with
//! less than that. A request is rounded up to less than twice its length. So for requests of which M bytes
//! are live at most, each counted as at least a smallest block, an area of
//!
//! > 2 M (1 + log2(n) / 2) bytes
//!
//! is enough: 14 M at n = 2^12. [`StrictHeap::enough`] computes it, with the structures. The tests run
//! Robson's adversary against it, up to n = 2^12.
//!
//! Aligned requests count as their alignment where that is longer.

use super::misuse::{Misuse, Unfit};
use super::sent::Sent;
use super::tree::{MAX_UNITS, Tree};
use crate::align::Align;
use crate::check::Broken;
use crate::policy::BlockInfo;
use crate::region::Region;
use crate::sync::AtomicU64;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Aligned first fit of powers of two over a region, in bounded time and memory; see the module.
#[derive(Debug)]
pub struct StrictHeap {
    pub(super) judge: Judge,
    tree: Tree,
    units: u32,
}

/// What tells a used block's pointer from any other. Shared with those who free from other threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    base: NonNull<u8>,
    units: u64,
    unit_log2: u32,
    /// By unit: 1 + the order of the used block that begins there; 0 where none does. The owner alone
    /// writes.
    orders: NonNull<AtomicU8>,
    sent: Sent,
}

// SAFETY: `base` is compared, not read; orders are atomics; `Sent` says so of itself.
unsafe impl Send for Judge {}
// SAFETY: as above.
unsafe impl Sync for Judge {}

impl Judge {
    /// Where `payload` lies in units; what cannot be a payload becomes a large number.
    #[inline(always)]
    fn unit(&self, payload: *mut u8) -> u64 {
        let offset = payload.addr().wrapping_sub(self.base.addr().get()) as u64;
        offset.rotate_right(self.unit_log2)
    }

    #[inline(always)]
    fn order(&self, unit: u64) -> &AtomicU8 {
        debug_assert!(unit < self.units);
        // SAFETY: a byte for each unit.
        unsafe { self.orders.add(unit as usize).as_ref() }
    }

    /// 1 + the order of the used block at `unit` that nobody has sent; 0 if there is none.
    #[inline(always)]
    fn knows(&self, unit: u64) -> u32 {
        if unit >= self.units {
            return 0;
        }
        // SAFETY: `unit` is below the number of units.
        let sent = unsafe { self.sent.leaf(unit / 64) } >> (unit % 64) & 1;
        if sent != 0 { 0 } else { self.order(unit).load(Relaxed).into() }
    }

    #[cold]
    #[inline(never)]
    fn diagnose(&self, unit: u64) -> Misuse {
        if unit >= self.units {
            Misuse::Foreign
        } else if self.order(unit).load(Relaxed) == 0 {
            Misuse::NotInUse
        } else {
            Misuse::Sent
        }
    }

    /// See [`Inbox::free`](super::Inbox::free).
    pub(super) fn send(&self, payload: NonNull<u8>) -> Result<(), Misuse> {
        let unit = self.unit(payload.as_ptr());
        // SAFETY: `unit` is below the number of units where it is known.
        if self.knows(unit) != 0 && unsafe { self.sent.send(unit as u32) } {
            return Ok(());
        }
        Err(self.diagnose(unit))
    }

    #[inline(always)]
    fn payload(&self, unit: u32) -> NonNull<u8> {
        // SAFETY: units of blocks lie inside the area.
        unsafe { self.base.add((unit as usize) << self.unit_log2) }
    }
}

/// Bytes of the structures for so many units.
const fn structures(units: u32) -> u64 {
    let orders = (units as u64).next_multiple_of(8);
    let words = (Sent::words(units) as u64 + 1) * size_of::<AtomicU64>() as u64;
    orders + words + Tree::bytes(units)
}

impl StrictHeap {
    /// The length of a region that is enough, whatever is asked for in whatever order, as long as the
    /// blocks in use come to `live` bytes at most (each request counted as at least `smallest`, and as its
    /// alignment if that is longer) and none is longer than `longest`. `None` when that is beyond what a
    /// heap can name, or `smallest` is no power of two from 16 to 65,536.
    pub fn enough(live: u64, longest: u64, smallest: u64) -> Option<u64> {
        let unit_log2 = unit_log2(smallest)?;
        let order = longest.max(1).div_ceil(smallest).checked_next_power_of_two()?.ilog2();
        // Rounding up doubles what is asked for at most; the proof wants a multiple of 2 n.
        let rounded = live.checked_mul(2)?.div_ceil(smallest);
        let multiple = 2_u64.checked_shl(order)?;
        let live = rounded.checked_next_multiple_of(multiple)?;
        let units = live.checked_mul(u64::from(order) + 2)?.div_ceil(2);
        let units = u32::try_from(units).ok().filter(|&units| units <= MAX_UNITS)?;
        Some((u64::from(units) << unit_log2) + structures(units) + 8)
    }

    /// The longest region, in bytes, for blocks of `smallest` bytes and more.
    pub const fn most(smallest: u64) -> u64 {
        MAX_UNITS as u64 * smallest + structures(MAX_UNITS) + 8
    }

    /// A heap over `region`, whose smallest block has `smallest` bytes: a power of two from 16 to
    /// 65,536. O(length of the region / `smallest`).
    ///
    /// Blocks are aligned to their length as far as the region's base is.
    pub fn over(region: Region, smallest: u64) -> Result<StrictHeap, Unfit> {
        let unit_log2 = unit_log2(smallest).ok_or(Unfit::SmallestBlock)?;
        let most = StrictHeap::most(smallest);
        if region.len() > most {
            return Err(Unfit::TooLong { most });
        }
        let units = units_in(region.len(), unit_log2);
        if units == 0 {
            return Err(Unfit::TooShort { needed: smallest + structures(1) + 8 });
        }
        let base = region.base();
        let orders = (u64::from(units) << unit_log2) as usize;
        let top = orders + (units as usize).next_multiple_of(8);
        let tree = top + (Sent::words(units) as usize + 1) * size_of::<AtomicU64>();
        for unit in 0..units as usize {
            // SAFETY: a byte of the orders, inside the region, as `units_in` has left room.
            unsafe { base.add(orders + unit).cast::<AtomicU8>().write(AtomicU8::new(0)) };
        }
        // SAFETY: the parts follow each other inside the region, each where it is aligned: the area is
        // a multiple of 16 long, the orders of 8.
        unsafe {
            let top: NonNull<AtomicU64> = base.add(top).cast();
            let sent = Sent::new(top, top.add(1), units);
            let tree = Tree::new(base.add(tree), units);
            let orders = base.add(orders).cast();
            let judge = Judge { base, units: units.into(), unit_log2, orders, sent };
            Ok(StrictHeap { judge, tree, units })
        }
    }

    /// The bytes that blocks can use.
    pub fn area(&self) -> u64 {
        u64::from(self.units) << self.judge.unit_log2
    }

    /// The order of the block for `size` bytes; large where there is no such block.
    #[inline(always)]
    fn order_for(&self, size: u64) -> u32 {
        let last = size.saturating_sub(1) >> self.judge.unit_log2;
        // The bits of the last unit's number.
        (last << 1 | 1).ilog2()
    }

    /// At least `size` bytes at a multiple of their length rounded up to a power of two (as far as the
    /// region's base is); `None` when no aligned place is free. 0 bytes are a block of their own. Takes in
    /// one block that another thread has freed, if there is one.
    #[inline]
    pub fn malloc(&mut self, size: u64) -> Option<NonNull<u8>> {
        if self.has_news() {
            return self.malloc_slow(size);
        }
        self.take(self.order_for(size))
    }

    /// [`malloc`](Self::malloc), whether or not another thread has freed a block.
    #[cold]
    #[inline(never)]
    fn malloc_slow(&mut self, size: u64) -> Option<NonNull<u8>> {
        self.take_in();
        self.take(self.order_for(size))
    }

    /// As [`malloc`](Self::malloc), at a multiple of `align`: `None` also when the region's base is at
    /// none.
    pub fn malloc_aligned(&mut self, size: u64, align: Align) -> Option<NonNull<u8>> {
        let based = self.judge.base.addr().get() as u64;
        if !based.is_multiple_of(align.bytes()) {
            return None;
        }
        self.malloc_slow(size.max(align.bytes()))
    }

    #[inline(always)]
    fn take(&mut self, order: u32) -> Option<NonNull<u8>> {
        let unit = self.tree.take(order)?;
        self.judge.order(unit.into()).store(order as u8 + 1, Relaxed);
        Some(self.judge.payload(unit))
    }

    /// Takes the block back; whatever is no used block of this heap is refused.
    #[inline]
    pub fn free(&mut self, payload: *mut u8) -> Result<(), Misuse> {
        let unit = self.judge.unit(payload);
        let best = self.judge.knows(unit);
        if best == 0 {
            return Err(self.judge.diagnose(unit));
        }
        self.judge.order(unit).store(0, Relaxed);
        self.tree.give(unit as u32, best - 1);
        Ok(())
    }

    /// The unit and the order of a used block.
    fn admit(&self, payload: NonNull<u8>) -> Result<(u32, u32), Misuse> {
        let unit = self.judge.unit(payload.as_ptr());
        match self.judge.knows(unit) {
            0 => Err(self.judge.diagnose(unit)),
            best => Ok((unit as u32, best - 1)),
        }
    }

    /// Makes the block hold `size` bytes where it lies, giving back or taking what lies behind it;
    /// `false`, and nothing done, when that is used, or the place is not aligned to so long a block.
    pub fn resize_in_place(&mut self, payload: NonNull<u8>, size: u64) -> Result<bool, Misuse> {
        let (unit, old) = self.admit(payload)?;
        let new = self.order_for(size);
        if new == old {
            return Ok(true);
        }
        let aligned = new < 32 && u64::from(unit) % (1 << new) == 0;
        if !aligned || u64::from(unit) + (1 << new) > u64::from(self.units) {
            return Ok(false);
        }
        self.tree.give_at(unit, old);
        let fits = self.tree.is_free(unit, new);
        let order = if fits { new } else { old };
        self.tree.take_at(unit, order);
        self.judge.order(unit.into()).store(order as u8 + 1, Relaxed);
        Ok(fits)
    }

    /// How many bytes the block holds: a power of two.
    pub fn usable(&self, payload: NonNull<u8>) -> Result<u64, Misuse> {
        let (_, order) = self.admit(payload)?;
        Ok(1 << (order + self.judge.unit_log2))
    }

    /// Whether another thread has freed a block that was not taken in yet.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        !self.judge.sent.is_empty()
    }

    /// Takes in one block that another thread has freed; `false` when there was none.
    pub fn take_in(&mut self) -> bool {
        let Some(unit) = self.judge.sent.first() else { return false };
        let order = self.judge.order(unit.into());
        let best = order.load(Relaxed);
        // 0 where it was freed here while a racing thread sent it: once is enough.
        if best != 0 {
            order.store(0, Relaxed);
            self.tree.give_at(unit, u32::from(best) - 1);
        }
        // SAFETY: units in the inbox are below the number of units.
        unsafe { self.judge.sent.take(unit) };
        true
    }

    /// Every block in the order of addresses, free ones cut at multiples of their length. O(units).
    pub fn for_each_block(&self, mut visit: impl FnMut(BlockInfo)) {
        let unit_log2 = self.judge.unit_log2;
        let mut unit = 0;
        while unit < self.units {
            let best = self.judge.order(unit.into()).load(Relaxed);
            let order = if best != 0 { u32::from(best) - 1 } else { self.free_order(unit) };
            let (offset, size) = (u64::from(unit) << unit_log2, 1 << (order + unit_log2));
            visit(BlockInfo { offset, size, free: best == 0 });
            unit += 1 << order;
        }
    }

    /// The order of the longest free block that begins at `unit`, which is free.
    fn free_order(&self, unit: u32) -> u32 {
        let orders = 0..unit.trailing_zeros().min(23);
        let longer = |order: u32| {
            let order = order + 1;
            u64::from(unit) + (1 << order) <= u64::from(self.units)
                && self.tree.is_free(unit, order)
        };
        orders.take_while(|&order| longer(order)).count() as u32
    }

    /// Walks every structure and compares each with the others. O(units).
    pub fn check(&self) -> Result<(), Broken> {
        self.tree.check()?;
        let (mut longest, mut result) = (0, Ok(()));
        self.for_each_block(|block| {
            let unit = (block.offset >> self.judge.unit_log2) as u32;
            let order = (block.size >> self.judge.unit_log2).ilog2();
            let what = "the tree says free what no used block is, and nothing else";
            let free = self.tree.is_free(unit, order);
            result = result.and(Broken::unless_equal(
                what,
                block.offset,
                block.free.into(),
                free.into(),
            ));
            for inside in 1..1_u64 << order {
                let what = "inside a block none begins";
                let found = self.judge.order(u64::from(unit) + inside).load(Relaxed);
                result = result.and(Broken::unless_equal(what, block.offset, 0, found.into()));
            }
            if block.free {
                longest = longest.max(order + 1);
            }
        });
        result?;
        let what = "the root knows the longest free block";
        Broken::unless_equal(what, 0, longest.into(), self.tree.best_of_all().into())
    }
}

/// log2 of the smallest block, if it may be one.
const fn unit_log2(smallest: u64) -> Option<u32> {
    if !smallest.is_power_of_two() || smallest < 16 || smallest > 1 << 16 {
        return None;
    }
    Some(smallest.trailing_zeros())
}

/// How many units a region of `len` bytes holds beside their structures.
fn units_in(len: u64, unit_log2: u32) -> u32 {
    let fits = |units: u32| (u64::from(units) << unit_log2) + structures(units) + 8 <= len;
    let (mut low, mut high) = (0, MAX_UNITS);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}
