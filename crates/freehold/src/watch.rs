//! Watched processes: exact counts, samples for a profile, hardened frees.
//!
//! Watching may cost other processes no instruction, so the hot paths do not know of it. In a watched
//! process a thread's hot word stays on the empty cache for good: every allocation finds an empty
//! stack, every free an address out of reach, and both take their existing cold call. The cold call finds
//! the thread's own cache in its second word, and makes the call, with the requested counts or checks
//! around it, by the same functions of the core.
//!
//! A process that wants samples only keeps hot allocations, and only its frees take the cold call: the thread's cache is
//! metered (`profile`).
//!
//! The mode is decided once, when the first thread starts the heap (`options`), and constant.

use crate::ask::Ask;
use crate::main_heap::HEAP;
use crate::mode::{COUNT, SAMPLE, SECURE, is_only, watches};
use crate::{counts, profile, purger, report, secure};
use core::ptr;
use freehold_core::malloc::{Block, Cache, Freed, Misuse};
use freehold_core::size_class::MAX_CLASS_SIZE;

/// Allocates under watch.
#[inline]
pub(crate) fn allocate(cache: &Cache, ask: Ask) -> *mut u8 {
    if is_only(SECURE) { secure::allocate(cache, ask) } else { allocate_noted(cache, ask) }
}

/// The same, where other things are watched as well, or instead.
#[inline(never)]
fn allocate_noted(cache: &Cache, ask: Ask) -> *mut u8 {
    let block = allocate_sampled(cache, ask);
    purger::consider();
    block
}

fn allocate_sampled(cache: &Cache, ask: Ask) -> *mut u8 {
    if let Some(meter) = profile::Meter::of_thread() {
        return meter.allocate(cache, ask);
    }
    let sampled = watches(SAMPLE) && profile::is_due(ask.size);
    let block = match sampled {
        true => profile::allocate(cache, ask, ask.size),
        false => secure::allocate_if_on(cache, ask),
    };
    if watches(COUNT) && !block.is_null() {
        counts::allocated(usable(block));
    }
    block
}

/// Frees under watch.
///
/// # Safety
/// The block is not in use by anyone.
pub(crate) unsafe fn free(cache: &Cache, block: *mut u8) {
    if is_only(SECURE) {
        // SAFETY: the caller's.
        unsafe { secure::free(cache, block) }
    } else {
        // SAFETY: the caller's.
        unsafe { free_noted(cache, block) }
    }
}

/// The same, where other things are watched as well, or instead.
///
/// # Safety
/// As for [`free`].
#[inline(never)]
unsafe fn free_noted(cache: &Cache, block: *mut u8) {
    if watches(SECURE) {
        match secure::find(cache, block) {
            Ok(found) => note_freed(block, found.size),
            Err(misuse) => report::stop(misuse, block),
        }
        // SAFETY: the caller's.
        unsafe { secure::free(cache, block) };
    } else {
        // SAFETY: the caller's.
        report::judge(unsafe { free_plain(cache, block) }, block);
    }
    purger::consider();
}

/// Frees under watch, but without checks.
///
/// # Safety
/// As for [`free`].
unsafe fn free_plain(cache: &Cache, block: *mut u8) -> Result<(), Misuse> {
    if watches(COUNT) {
        counts::freed(HEAP.usable_size(block)?);
    }
    // SAFETY: the caller's.
    match unsafe { cache.give(block) } {
        Freed::Done => Ok(()),
        Freed::Full(class) => {
            HEAP.overflow(cache, class);
            Ok(())
        }
        Freed::Slow => {
            if watches(SAMPLE) {
                // Sampled blocks are no thread's own: they all come by here.
                profile::forget(block);
            }
            // SAFETY: the caller's.
            unsafe { HEAP.free_slow(cache, block) }
        }
    }
}

/// Says that a block that the program had is free now, for counts and samples.
fn note_freed(block: *mut u8, size: usize) {
    if watches(COUNT) {
        counts::freed(size);
    }
    if watches(SAMPLE) {
        profile::forget(block);
    }
}

/// Resizes under watch: by allocating, copying and freeing, so that the new block is watched like any
/// other; large ones as the heap does it, unless they have fences or their turn to be sampled. Null when
/// memory is short.
///
/// # Safety
/// The block is the caller's; afterwards only the answer is, unless it is null.
#[inline(never)]
pub(crate) unsafe fn reallocate(
    cache: &Cache,
    block: *mut u8,
    size: usize,
) -> Result<*mut u8, Misuse> {
    let found = if watches(SECURE) { secure::find(cache, block)? } else { HEAP.examine(block)? };
    let have = found.size - reserved(found.size);
    if watches(COUNT) {
        counts::resized();
    }
    if size <= have && size >= have / 2 {
        if watches(SECURE) {
            secure::resize(&found, size);
        }
        return Ok(block);
    }
    if have > MAX_CLASS_SIZE && size > MAX_CLASS_SIZE && !watches(SECURE) {
        // SAFETY: the caller's.
        if let Some(resized) = unsafe { resize_large(cache, block, size) } {
            return resized;
        }
    }
    let new = allocate(cache, Ask { size, align: 16, zero: false });
    if !new.is_null() {
        // SAFETY: both blocks are the caller's, have that many bytes, and do not overlap.
        unsafe { ptr::copy_nonoverlapping(block, new, have.min(size)) };
        // SAFETY: the caller gives the old block up.
        unsafe { free(cache, block) };
    }
    Ok(new)
}

/// Lets the heap resize a large block; `None` when it is to be sampled instead.
///
/// # Safety
/// As for [`reallocate`].
unsafe fn resize_large(
    cache: &Cache,
    block: *mut u8,
    size: usize,
) -> Option<Result<*mut u8, Misuse>> {
    if watches(SAMPLE) && profile::is_due(size) {
        // Still due: `allocate` asks again.
        return None;
    }
    let have = usable(block);
    // SAFETY: the caller's.
    let new = unsafe { HEAP.reallocate(cache, block, size) };
    purger::consider();
    if new.is_ok_and(|new| !new.is_null()) {
        note_freed(block, have);
        if watches(COUNT) {
            counts::allocated(new.map_or(0, usable));
        }
    }
    Some(new)
}

/// What the user of a block asked for, where that is known.
pub(crate) fn asked_for(block: &Block) -> Option<usize> {
    if watches(SECURE) { secure::asked_for(block) } else { None }
}

/// What its user must not use of a block of this size.
pub(crate) fn reserved(size: usize) -> usize {
    if watches(SECURE) { secure::extra(size) } else { 0 }
}

fn usable(block: *mut u8) -> usize {
    HEAP.usable_size(block).unwrap_or(0)
}
