//! Fast mode: DmRT's choice with looks at one block, at most 100 instructions a call.
//!
//! ```text
//!   region   | rings: bits, heads | used: a bit a granule | sent: the inbox's | blocks ...  | sentinel |
//!              1 KiB, 8 B a class   1/128                    1/126               8 B a block
//! ```
//!
//! Mechanism and layout are those of every block policy ([`BlockHeap`], `tags`); its own are the index
//! (`rings`), and that every pointer is judged before it is believed (`used`, `sent`). No call loops
//! over blocks, calls the system or waits: the only loop is that over the levels of
//! the inbox (at most 6).
//!
//! Bounds (the module above has the table). A used block costs 8 B and its rounding up to 16
//! (at least 32 in all); the structures 1/63 of the region, 8 B a class, and 1 KiB. Memory:
//! as any good fit, M(1 + log2 n) and more against an adversary (Robson 1977); who needs a proved bound
//! below that takes [`StrictHeap`](super::StrictHeap).

use super::misuse::{Misuse, Unfit};
use super::rings::{LARGE, MAX_LEN, Rings, SPARE};
use super::sent::Sent;
use super::used::Used;
use crate::align::Align;
use crate::check::Broken;
use crate::heap::BlockHeap;
use crate::policy::{BlockInfo, Inspect, Policy, Totals};
use crate::probe::Probe;
use crate::region::{GRANULE, Region};
use crate::sync::{AtomicU64, Ordering::Relaxed};
use crate::tags::{MIN_BLOCK, TAG, Tags};
use crate::walk::Tally;
use core::ptr::NonNull;

/// DmRT over a region, in bounded time; see the module. Totals are counted by `T`, or not at all.
#[derive(Debug)]
pub struct FastHeap<T = ()> {
    blocks: BlockHeap<Rings, T>,
    /// Requests of so many bytes and more are large, or longer than the region.
    hot_limit: u64,
    pub(super) judge: Judge,
}

/// What tells a used block's pointer from any other. Shared with those who free from other threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judge {
    base: NonNull<u8>,
    granules: u64,
    used: Used,
    sent: Sent,
}

// SAFETY: `base` is compared, not read; the rest says so of itself.
unsafe impl Send for Judge {}
// SAFETY: as above.
unsafe impl Sync for Judge {}

impl Judge {
    /// Where `payload` lies in granules; what cannot be a payload becomes a large number.
    #[inline(always)]
    fn granule(&self, payload: *mut u8) -> u64 {
        let offset = payload.addr().wrapping_sub(self.base.addr().get()) as u64;
        // What is no multiple of 16 becomes large, too: one comparison for both.
        offset.rotate_right(GRANULE.trailing_zeros())
    }

    /// Whether a used block begins at `granule` that nobody has sent.
    #[inline(always)]
    fn knows(&self, granule: u64) -> bool {
        // SAFETY: `granule` is below the number of granules.
        granule < self.granules && unsafe { self.used.holds(granule) } && !self.is_sent(granule)
    }

    /// As [`knows`](Self::knows); then it is used no more. Only for the owner.
    #[inline(always)]
    fn withdraw(&self, granule: u64) -> bool {
        // SAFETY: `granule` is below the number of granules.
        granule < self.granules && unsafe { self.used.withdraw(granule, &self.sent) }
    }

    fn is_sent(&self, granule: u64) -> bool {
        // SAFETY: the callers' granules are below the number of granules.
        unsafe { self.sent.leaf(granule / 64) >> (granule % 64) & 1 != 0 }
    }

    /// Why `granule` is refused.
    #[cold]
    #[inline(never)]
    fn diagnose(&self, granule: u64) -> Misuse {
        if granule >= self.granules {
            return Misuse::Foreign;
        }
        // SAFETY: `granule` is below the number of granules.
        if unsafe { self.used.holds(granule) } { Misuse::Sent } else { Misuse::NotInUse }
    }

    /// See [`Inbox::free`](super::Inbox::free).
    pub(super) fn send(&self, payload: NonNull<u8>) -> Result<(), Misuse> {
        let granule = self.granule(payload.as_ptr());
        // SAFETY: `granule` is below the number of granules where it is known.
        if self.knows(granule) && unsafe { self.sent.send(granule as u32) } {
            return Ok(());
        }
        Err(self.diagnose(granule))
    }
}

/// Where in a region the structures lie, in bytes.
struct Plan {
    len: u64,
    used: u64,
    sent: u64,
    first: u64,
}

impl Plan {
    const fn of(len: u64) -> Plan {
        let granules = (len / GRANULE) as u32;
        let used = Rings::end_for(if len < MIN_BLOCK.bytes() { MIN_BLOCK.bytes() } else { len });
        let sent = used + Used::bytes(granules);
        let words = Sent::words(granules) as u64 * size_of::<AtomicU64>() as u64;
        // The first tag lies in the word before its payload.
        let first = (sent + words + TAG).next_multiple_of(GRANULE);
        Plan { len, used, sent, first }
    }

    const fn fits(&self) -> bool {
        self.first + MIN_BLOCK.bytes() <= self.len
    }
}

impl<T: Tally> FastHeap<T> {
    /// The shortest region, in bytes.
    pub fn least() -> u64 {
        let mut lens = (1..).map(|granules| granules * GRANULE);
        lens.find(|&len| Plan::of(len).fits()).unwrap_or(MAX_LEN)
    }

    /// A heap over all of `region`. O(length of the region / 64).
    pub fn over(region: Region) -> Result<Self, Unfit> {
        if region.len() > MAX_LEN {
            return Err(Unfit::TooLong { most: MAX_LEN });
        }
        let plan = Plan::of(region.len());
        let too_short = || Unfit::TooShort { needed: Self::least() };
        if !plan.fits() {
            return Err(too_short());
        }
        let (first, end) = ((plan.first / GRANULE) as u32, region.granules());
        let tags = Tags::between(&region, first, end).ok_or_else(too_short)?;
        let base = region.base();
        // SAFETY: the plan's parts lie inside the region, one after the other; places are granules.
        let used = unsafe { Used::new(base.add(plan.used as usize), end) };
        // SAFETY: as above.
        let sent = unsafe {
            let top = base.add(SPARE as usize).cast();
            Sent::new(top, base.add(plan.sent as usize).cast(), end)
        };
        let rings = Rings::new(&tags, plan.used);
        let judge = Judge { base, granules: end.into(), used, sent };
        let hot_limit = LARGE.min(tags.total().bytes() - TAG + 1);
        Ok(FastHeap { blocks: BlockHeap::over(tags, rings), hot_limit, judge })
    }

    /// At least `size` bytes at a multiple of 16; `None` when no block is found. 0 bytes are a block of
    /// their own. Takes in one block that another thread has freed, if there is one.
    #[inline]
    pub fn malloc(&mut self, size: u64) -> Option<NonNull<u8>> {
        if self.has_news() {
            return self.malloc_slow(size);
        }
        if size >= self.hot_limit {
            return self.malloc_large(size);
        }
        let at = self.blocks.take_hot(size, ())?;
        Some(self.hand_out(at))
    }

    #[inline(never)]
    fn malloc_large(&mut self, size: u64) -> Option<NonNull<u8>> {
        let at = self.blocks.take_large(size, ())?;
        Some(self.hand_out(at))
    }

    #[cold]
    #[inline(never)]
    fn malloc_slow(&mut self, size: u64) -> Option<NonNull<u8>> {
        self.take_in();
        self.take_block(size, Align::ONE, &mut ())
    }

    /// As [`malloc`](Self::malloc), at a multiple of `align`.
    pub fn malloc_aligned(&mut self, size: u64, align: Align) -> Option<NonNull<u8>> {
        if self.has_news() {
            self.take_in();
        }
        self.take_block(size, align, &mut ())
    }

    fn take_block<P: Probe>(
        &mut self,
        size: u64,
        align: Align,
        probe: &mut P,
    ) -> Option<NonNull<u8>> {
        let at = if align.bytes() > GRANULE {
            let payload = self.blocks.alloc(size, align, probe)?;
            (payload.addr().get() - self.judge.base.addr().get()) as u64
        } else if size < self.hot_limit {
            self.blocks.take_hot(size, probe)?
        } else {
            self.blocks.take_large(size, probe)?
        };
        Some(self.hand_out(at))
    }

    /// The block whose payload is at `at` is the program's.
    #[inline(always)]
    fn hand_out(&mut self, at: u64) -> NonNull<u8> {
        // SAFETY: a payload of the region; this is the owner.
        unsafe { self.judge.used.set(at / GRANULE) };
        self.blocks.tags.pointer(at)
    }

    /// Takes the block back; whatever is no used block of this heap is refused.
    #[inline]
    pub fn free(&mut self, payload: *mut u8) -> Result<(), Misuse> {
        self.take_back(payload, &mut ())
    }

    #[inline(always)]
    fn take_back<P: Probe>(&mut self, payload: *mut u8, probe: &mut P) -> Result<(), Misuse> {
        let granule = self.judge.granule(payload);
        if !self.judge.withdraw(granule) {
            return Err(self.judge.diagnose(granule));
        }
        self.blocks.release_hot(granule * GRANULE, probe);
        Ok(())
    }

    /// The granule of a used block that nobody has sent.
    #[inline(always)]
    fn admit(&self, payload: NonNull<u8>) -> Result<u64, Misuse> {
        let granule = self.judge.granule(payload.as_ptr());
        if self.judge.knows(granule) { Ok(granule) } else { Err(self.judge.diagnose(granule)) }
    }

    /// Makes the block hold `size` bytes where it lies; `false` when what lies behind it does not allow that.
    #[inline]
    pub fn resize_in_place(&mut self, payload: NonNull<u8>, size: u64) -> Result<bool, Misuse> {
        self.admit(payload)?;
        // SAFETY: a used block begins there.
        Ok(unsafe { self.blocks.resize_in_place(payload, size, &mut ()) })
    }

    /// How many bytes the block holds.
    pub fn usable(&self, payload: NonNull<u8>) -> Result<u64, Misuse> {
        self.admit(payload)?;
        // SAFETY: a used block begins there.
        Ok(unsafe { self.blocks.usable(payload) })
    }

    /// Whether another thread has freed a block that was not taken in yet.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        let top = self.blocks.tags.pointer(SPARE).cast::<AtomicU64>();
        // SAFETY: `over` put the inbox's top word there.
        unsafe { top.as_ref() }.load(Relaxed) != 0
    }

    /// Takes in one block that another thread has freed; `false` when there was none.
    pub fn take_in(&mut self) -> bool {
        let Some(granule) = self.judge.sent.first() else { return false };
        // SAFETY: places in the inbox are below the number of granules; this is the owner.
        unsafe {
            // Not used where it was freed here while a racing thread sent it: once is enough.
            if self.judge.used.clear(granule.into()) {
                self.blocks.release_hot(u64::from(granule) * GRANULE, ());
            }
            self.judge.sent.take(granule);
        }
        true
    }

    /// Every used block has its bit, and there are no other bits.
    fn check_used(&self) -> Result<(), Broken> {
        let (mut blocks, mut result) = (0, Ok(()));
        let used = self.judge.used;
        self.for_each_block(|block| {
            let payload = block.offset + TAG;
            // SAFETY: blocks lie inside the region.
            let said = unsafe { used.holds(payload / GRANULE) };
            let what = "a bit tells whether a used block begins";
            let one = Broken::unless_equal(what, payload, (!block.free).into(), said.into());
            result = result.and(one);
            blocks += u64::from(!block.free);
        });
        result?;
        // SAFETY: there are so many granules.
        let bits = unsafe { used.count(self.judge.granules) };
        Broken::unless_equal("there is a bit for each used block", 0, blocks, bits)
    }
}

impl<T: Tally> Policy for FastHeap<T> {
    fn new(region: Region) -> Option<Self> {
        FastHeap::over(region).ok()
    }

    fn alloc<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<NonNull<u8>> {
        self.take_block(size, align, probe)
    }

    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, probe: &mut P) {
        let known = self.take_back(payload.as_ptr(), probe);
        debug_assert!(known.is_ok(), "{known:?}");
    }

    unsafe fn resize_in_place<P: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        probe: &mut P,
    ) -> bool {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.blocks.resize_in_place(payload, size, probe) }
    }

    unsafe fn usable(&self, payload: NonNull<u8>) -> u64 {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.blocks.usable(payload) }
    }
}

impl<T: Tally> Inspect for FastHeap<T> {
    fn totals(&self) -> Totals {
        self.blocks.totals()
    }

    fn largest_free(&self) -> u64 {
        self.blocks.largest_free()
    }

    fn largest_free_inside(&self) -> Option<u64> {
        self.blocks.largest_free_inside()
    }

    fn for_each_block(&self, visit: impl FnMut(BlockInfo)) {
        self.blocks.for_each_block(visit);
    }

    fn check(&self) -> Result<(), Broken> {
        self.blocks.check()?;
        self.check_used()
    }
}
