//! The process's heap: the functions that C and Rust export, without their names.
//!
//! Every `pub` function's first lines are the hot path; each rare case is a tail call to a cold function.
//! Misuse stops the program (see `report`); exhaustion is null. None of them touches `errno`.

use crate::ask::Ask;
use crate::main_heap::HEAP;
use crate::report::judge;
use crate::thread::Entered;
use crate::watch;
use crate::{mode, profile, purger, report, thread, word};
use core::ptr;
use freehold_core::machine::Machine;
pub use freehold_core::malloc::Utilization;
use freehold_core::malloc::decisions::Decisions;
use freehold_core::malloc::{Cache, Freed};
use freehold_core::size_class::{
    SMALL_MAX, SizeClass, class_of, class_of_aligned, class_of_resized, round_up,
};

/// Allocates `size` bytes at a multiple of 16; null when memory is short.
#[inline(always)]
pub fn allocate(size: usize) -> *mut u8 {
    let block = try_allocate(size);
    if block.is_null() { allocate_slow(size) } else { block }
}

/// The hot half of [`allocate`]: null when `size` is not small or the thread's stack is empty.
#[inline(always)]
pub fn try_allocate(size: usize) -> *mut u8 {
    if size > SMALL_MAX {
        return ptr::null_mut();
    }
    word::get().take_small(size)
}

/// The other half of [`allocate`]: the warm path for sizes up to 64 KiB, and the cold ones.
#[inline(never)]
pub fn allocate_slow(size: usize) -> *mut u8 {
    if size > SMALL_MAX
        && let Some(class) = class_of(size)
    {
        let block = word::get().take_class(class);
        if !block.is_null() {
            return block;
        }
    }
    allocate_cold(size)
}

#[cold]
#[inline(never)]
fn allocate_cold(size: usize) -> *mut u8 {
    let ask = Ask { size, align: 16, zero: false };
    with_cache(|cache| HEAP.allocate(cache, size), |cache| watch::allocate(cache, ask))
}

/// Allocates `count` times `size` zero bytes; null when memory is short or the product overflows.
#[inline]
pub fn allocate_zeroed(count: usize, size: usize) -> *mut u8 {
    let Some(bytes) = count.checked_mul(size) else { return ptr::null_mut() };
    let block = word::get().take_small(bytes);
    if block.is_null() {
        return allocate_zeroed_slow(bytes);
    }
    // SAFETY: the block has at least that many bytes and is ours.
    unsafe { ptr::write_bytes(block, 0, bytes) };
    block
}

#[cold]
#[inline(never)]
fn allocate_zeroed_slow(bytes: usize) -> *mut u8 {
    let ask = Ask { size: bytes, align: 16, zero: true };
    with_cache(|cache| HEAP.allocate_zeroed(cache, bytes), |cache| watch::allocate(cache, ask))
}

/// Allocates `size` bytes at a multiple of `align`, a power of two, and of 16; null when memory is short.
#[inline(always)]
pub fn allocate_aligned(size: usize, align: usize) -> *mut u8 {
    if size <= SMALL_MAX {
        let block = word::get().take_small(round_up(size, align));
        if !block.is_null() {
            return block;
        }
    }
    allocate_aligned_slow(size, align)
}

#[inline(never)]
fn allocate_aligned_slow(size: usize, align: usize) -> *mut u8 {
    if align <= 16 {
        return allocate_slow(size);
    }
    let ask = Ask { size, align, zero: false };
    with_cache(
        |cache| HEAP.allocate_aligned(cache, size, align),
        |cache| watch::allocate(cache, ask),
    )
}

/// Frees a block, or nothing if it is null.
///
/// # Safety
/// The block is not in use by anyone.
#[inline(always)]
pub unsafe fn free(block: *mut u8) {
    // SAFETY: the caller's.
    match unsafe { word::get().give(block) } {
        Freed::Done => {}
        Freed::Full(class) => overflow(class),
        // SAFETY: the caller's.
        Freed::Slow => unsafe { free_slow(block) },
    }
}

/// Frees a block that was requested with this size and alignment (16 for none), or nothing if it is null. Another size
/// stops the program if it is impossible for the block: a block may be twice as long as the size requested.
///
/// # Safety
/// As for [`free`].
pub unsafe fn free_sized(block: *mut u8, size: usize, align: usize) {
    if block.is_null() {
        return;
    }
    let found = HEAP.examine(block).unwrap_or_else(|misuse| report::stop(misuse, block));
    let more = watch::reserved(found.size);
    let have = found.size - more;
    let class = class_of_aligned(size.saturating_add(more), align);
    let own = class.is_none_or(|class| class.size() >= found.size);
    let other = watch::asked_for(&found).is_some_and(|asked| asked != size);
    let misfit = size > have || (size < have / 2 && !own);
    if other || misfit || !block.addr().is_multiple_of(align.max(1)) {
        report::stop_sized(block);
    }
    // SAFETY: the caller's.
    unsafe { free(block) }
}

#[cold]
#[inline(never)]
fn overflow(class: SizeClass) {
    HEAP.overflow(word::get(), class);
    purger::consider();
}

/// The other half of [`free`]: says what kind of free it is, and jumps there.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_slow(block: *mut u8) {
    let cache = word::get();
    // SAFETY: the caller's, and the tag is the unit's.
    unsafe {
        match cache.tag_of(block) {
            Some(tag) => free_tagged(block, cache, tag),
            None if word::is_empty(cache) => free_entering(block),
            None => free_unknown(block, cache),
        }
    }
}

/// [`free`] of what lies in the region that the thread's cache knows: blocks of other threads, and of metered caches.
///
/// # Safety
/// As for [`free`], and the tag is that of the block's unit.
#[inline(always)]
unsafe fn free_tagged(block: *mut u8, cache: &Cache, tag: u64) {
    if cache.is_metered() {
        // SAFETY: the caller's.
        if unsafe { HEAP.give_metered(cache, block) } {
            return;
        }
        profile::forget(block);
    }
    // SAFETY: the caller's.
    match unsafe { HEAP.free_tagged(cache, block, tag) } {
        Ok(false) => {}
        given => {
            judge(given.map(|_| ()), block);
            purger::consider();
        }
    }
}

/// [`free`] of null, and of what the thread's cache knows nothing of.
///
/// # Safety
/// As for [`free`].
#[inline(never)]
unsafe fn free_unknown(block: *mut u8, cache: &Cache) {
    if block.is_null() {
        return;
    }
    if cache.is_metered() {
        profile::forget(block);
    }
    // SAFETY: the caller's.
    judge(unsafe { HEAP.free_slow(cache, block) }, block);
    purger::consider();
}

/// [`free`] by a thread whose calls are watched, or that has no cache yet.
///
/// # Safety
/// As for [`free`].
#[inline(never)]
unsafe fn free_entering(block: *mut u8) {
    if block.is_null() {
        return;
    }
    let Some(cache) = word::watched() else {
        // SAFETY: the caller's.
        return unsafe { free_without_cache(block) };
    };
    // SAFETY: the caller's.
    unsafe { watch::free(cache, block) }
}

/// [`free`] by a thread that has no cache.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_without_cache(block: *mut u8) {
    if thread::has_left() && !mode::is_on() {
        // SAFETY: the caller's.
        return judge(unsafe { HEAP.free_without_cache(block) }, block);
    }
    match thread::enter() {
        // SAFETY: the caller's.
        Some(Entered::Plain(cache)) => judge(unsafe { HEAP.free(cache, block) }, block),
        // SAFETY: the caller's.
        Some(Entered::Watched(cache)) => unsafe { watch::free(cache, block) },
        // Without even a page for a cache the block stays as it is, which is better than to fail.
        None => {}
    }
    purger::consider();
}

/// Whether a block of `have` bytes is kept for `size`: large enough, and not more than half wasted.
#[inline(always)]
fn keeps(have: usize, size: usize) -> bool {
    // What is too large wraps.
    have.wrapping_sub(size) <= have / 2
}

/// The hot half of [`reallocate`]: whether the block is of the calling thread's slabs and stays where
/// it is.
#[inline(always)]
pub fn stays(block: *mut u8, size: usize) -> bool {
    word::get().size_of(block).is_some_and(|have| keeps(have, size))
}

/// Resizes a block, moving it if need be; null when memory is short: then it is as it was.
///
/// # Safety
/// The block is null or the caller's; afterwards only the answer is, unless it is null.
#[inline(never)]
pub unsafe fn reallocate(block: *mut u8, size: usize) -> *mut u8 {
    let cache = word::get();
    if let Some(have) = cache.size_of(block) {
        if keeps(have, size) {
            return block;
        }
        let class = class_of_resized(have, size, Decisions::SHIPPED.resize_creep);
        let new = class.map_or(ptr::null_mut(), |class| cache.take_class(class));
        if !new.is_null() {
            // SAFETY: both blocks are the caller's, have that many bytes, and do not overlap; the
            // caller gives the old one up.
            unsafe {
                ptr::copy_nonoverlapping(block, new, have.min(size));
                free(block);
            }
            return new;
        }
    }
    // SAFETY: the caller's.
    unsafe { reallocate_slow(block, size) }
}

/// # Safety
/// As for [`reallocate`].
#[cold]
#[inline(never)]
unsafe fn reallocate_slow(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        return allocate(size);
    }
    let answer = |result| match result {
        Ok(block) => block,
        Err(misuse) => report::stop(misuse, block),
    };
    with_cache(
        // SAFETY: the caller's.
        |cache| answer(unsafe { HEAP.reallocate(cache, block, size) }),
        // SAFETY: the caller's.
        |cache| answer(unsafe { watch::reallocate(cache, block, size) }),
    )
}

/// How many bytes a block has for its user; 0 for null.
pub fn usable_size(block: *mut u8) -> usize {
    if block.is_null() {
        return 0;
    }
    match HEAP.usable_size(block) {
        Ok(size) => size - watch::reserved(size),
        Err(misuse) => report::stop(misuse, block),
    }
}

/// How full the slab of a block is, and the slab into which it would move ([`Utilization`]); `None` for null. In a watched
/// process no block moves: the target is 0.
pub fn utilization(block: *mut u8) -> Option<Utilization> {
    if block.is_null() {
        return None;
    }
    let cache = word::get();
    let found = match word::is_empty(cache) {
        true => HEAP.examine(block).map(|found| Utilization {
            size: found.size,
            blocks: 1,
            used: 1,
            target: 0,
        }),
        false => HEAP.utilization(cache, block),
    };
    match found {
        Ok(found) => Some(Utilization { size: found.size - watch::reserved(found.size), ..found }),
        Err(misuse) => report::stop(misuse, block),
    }
}

/// Allocates `size` bytes in the slab that [`utilization`] calls the target, at a multiple of 16; null when memory is short.
pub fn allocate_packed(size: usize) -> *mut u8 {
    let cache = word::get();
    match class_of(size).filter(|_| !word::is_empty(cache)) {
        Some(class) => HEAP.allocate_packed(cache, class),
        None => allocate_slow(size),
    }
}

/// As [`free`], but gives the block back to its slab at once, past the thread's stacks.
///
/// # Safety
/// As for [`free`].
pub unsafe fn free_packed(block: *mut u8) {
    let cache = word::get();
    if block.is_null() || word::is_empty(cache) || cache.is_metered() {
        // SAFETY: the caller's.
        return unsafe { free(block) };
    }
    // SAFETY: the caller's.
    judge(unsafe { HEAP.free_packed(cache, block) }, block);
    purger::consider();
}

/// Starts the heap and reads the options, if that was not done yet: for what may come before the first allocation.
pub fn start() {
    thread::start_heap();
}

/// Gives back every page that holds no block, at once; returns the bytes.
pub fn trim() -> usize {
    // Twice: the first round makes idle caches' slabs free units.
    let bytes = HEAP.purge(true).bytes + HEAP.purge(true).bytes;
    report::stop_if_late();
    bytes
}

/// Gives back the addresses that all heaps have reserved and do not use: they count against a limit on address space
/// (`RLIMIT_AS`). What is needed later is reserved then, in parts as long as the limit allows. O(heaps + free banks).
#[cold]
pub fn shrink_reservations() {
    mend_copy();
    HEAP.shrink_reservations();
    crate::heaps::with_list(|list| list.each(|private| private.heap.shrink_reservations()));
}

/// The machine's page size in bytes.
pub fn page_size() -> usize {
    HEAP.machine().page_size()
}

/// Makes this process whole if it is a copy of another that no handler of fork was told of, before it has a second thread.
pub fn mend_copy() {
    freehold_os::copied::mend();
}

/// Writes a message to the standard error without allocating.
pub fn complain(message: &[u8]) {
    HEAP.machine().complain(message);
}

/// Writes to an open descriptor what `work` puts; `false` when it could not be written.
pub fn write_to(descriptor: i32, work: impl FnOnce(&mut dyn crate::stats::Out)) -> bool {
    crate::file::write_to(descriptor, |file| work(file))
}

/// What the heap holds of the machine, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// In slabs and large blocks.
    pub used: usize,
    /// Free, but possibly resident.
    pub dirty: usize,
    /// Committed, in all.
    pub committed: usize,
}

/// What the heap holds of the machine now.
pub fn usage() -> Usage {
    let usage = HEAP.usage();
    let (used, dirty) = (usage.used.bytes(), usage.dirty.bytes());
    Usage { used, dirty, committed: usage.committed.bytes() }
}

/// Bytes of freed blocks that wait before they may be used again; 0 without `FREEHOLD_SECURE`.
pub fn quarantined() -> usize {
    crate::secure::waiting()
}

/// Walks the heap's structures; the first broken invariant is the error. Meaningful while no other
/// thread allocates.
pub fn check() -> Result<(), &'static str> {
    HEAP.check()
}

/// Runs one of the two with the thread's cache; null when there is no memory for one.
fn with_cache(
    plain: impl FnOnce(&'static Cache) -> *mut u8,
    watched: impl FnOnce(&'static Cache) -> *mut u8,
) -> *mut u8 {
    let cache = word::get();
    let entered = match word::is_empty(cache) {
        true => thread::enter(),
        false if cache.is_metered() => Some(Entered::Watched(cache)),
        false => Some(Entered::Plain(cache)),
    };
    let (cache, block) = match entered {
        Some(Entered::Plain(cache)) => {
            let block = plain(cache);
            purger::consider();
            (cache, block)
        }
        Some(Entered::Watched(cache)) => (cache, watched(cache)),
        None => return ptr::null_mut(),
    };
    if HEAP.is_stray(cache) {
        thread::settle(cache);
    }
    block
}
