//! Hardened frees (`FREEHOLD_SECURE=1`): immediate checks, a quarantine, wiping, canaries and guard pages.
//!
//! ```text
//! malloc   a block of its class's slab that nobody holds?  ->  noted, with a canary in its last word
//! free     exact block start? held? canary whole?  ->  wiped, marked  ->  swapped with a random block of the
//!          quarantine  ->  was that one written to meanwhile?  ->  given back
//! large    behind the last page of the block lies a page that nobody can touch
//! ```
//!
//! The quarantine delays and randomises at once: a block leaves it after a random number of frees,
//! so an attacker cannot aim the next allocation of a size, or any later one, at a block
//! just freed. All threads share it: one exchange empties and fills a slot, which is one word.
//!
//! Invariant: a block in the quarantine is marked as free (the core's `seal`) and zero behind its mark.

use crate::ask::Ask;
use crate::main_heap::HEAP;
use crate::wiped::{SHORT, is_zero, wipe};
use crate::{held, mode, purger, report};
use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use freehold_core::machine::Machine;
use freehold_core::malloc::{Block, Cache, Freed, Kind, Misuse};
use freehold_core::size_class::{MAX_CLASS_SIZE, SizeClass, class_of_aligned};
use freehold_os::thread::is_alone;

/// Blocks up to [`LITTLE_MAX`] bytes that wait: at most 1 MiB, which a processor's second cache holds. (With four times as many,
/// sqlite took 1.19 of glibc's time instead of 1.14.)
const LITTLE: usize = 1024;
const LITTLE_MAX: usize = 1024;
/// Larger ones: at most 4 MiB.
const BIG: usize = 64;
/// Bytes of a canary.
const CANARY: usize = size_of::<usize>();
/// From this bit on a canary says how much was asked for: its last two bytes, so that whoever writes a byte too far meets the others.
const ASKED_SHIFT: u32 = 48;
const _: () = assert!(MAX_CLASS_SIZE - CANARY < 1 << (usize::BITS - ASKED_SHIFT));
/// Fences at a time: each costs two mappings, of which a process has 65530.
const FENCES: usize = 16 * 1024;

/// What waits: an address, and above it how many 16 bytes the block has; 0 in an empty place.
static PLACES: [AtomicUsize; LITTLE + BIG] = [const { AtomicUsize::new(0) }; LITTLE + BIG];
/// Where the size begins in a place: no address of a program's reaches that far.
const SIZE_SHIFT: u32 = 48;
const _: () = assert!(MAX_CLASS_SIZE / 16 < 1 << (usize::BITS - SIZE_SHIFT));

/// Of all threads: two that throw at once may see the same number.
static DICE: AtomicU64 = AtomicU64::new(0);

/// What canaries are made of: random.
static SECRET: AtomicUsize = AtomicUsize::new(0);

/// How many blocks have a fence.
static FENCED: AtomicUsize = AtomicUsize::new(0);

/// Bytes in the quarantine: they are added up when somebody asks.
pub(crate) fn waiting() -> usize {
    PLACES.iter().map(|place| (place.load(Ordering::Relaxed) >> SIZE_SHIFT) * 16).sum()
}

/// Starts it: before the first cache is handed out.
pub(crate) fn start() {
    mode::add(mode::SECURE);
    SECRET.store(HEAP.machine().random() >> (usize::BITS - ASKED_SHIFT) | 1, Ordering::Relaxed);
    DICE.store(HEAP.machine().random() as u64, Ordering::Relaxed);
}

/// Allocates: a small block with a canary at its end, a large one with a fence behind it. What the heap hands out must be a
/// block of its own that nobody has: lists that were written to end the program here.
pub(crate) fn allocate(cache: &Cache, ask: Ask) -> *mut u8 {
    let small = ask.size <= MAX_CLASS_SIZE - CANARY;
    match class_of_aligned(ask.size.saturating_add(CANARY), ask.align) {
        Some(class) if small => {
            let block = cache.take_class(class);
            match block.is_null() {
                false => hand_out(cache, block, class, ask),
                true => allocate_refilled(cache, class, ask),
            }
        }
        _ => allocate_large(cache, ask),
    }
}

/// Allocates as the process's options say, but neither samples nor counts.
pub(crate) fn allocate_if_on(cache: &Cache, ask: Ask) -> *mut u8 {
    if mode::watches(mode::SECURE) { allocate(cache, ask) } else { ask.of_heap(cache) }
}

/// Allocates a small block where the thread's stack is empty.
#[cold]
#[inline(never)]
fn allocate_refilled(cache: &Cache, class: SizeClass, ask: Ask) -> *mut u8 {
    let block = HEAP.allocate_class(cache, class);
    purger::consider();
    if block.is_null() { block } else { hand_out(cache, block, class, ask) }
}

/// What is no free block of the class ends the program here. (What is rare is left for another call to do, the last one: so
/// no register has to be kept.)
#[inline(always)]
fn hand_out(cache: &Cache, address: *mut u8, class: SizeClass, ask: Ask) -> *mut u8 {
    match held::place(address) {
        Some(place) if !ask.zero && cache.has_at(address, class) => {
            if !place.give() {
                report::stop_taken(address);
            }
            let block = Block { address: address.addr(), size: class.size(), kind: Kind::Small };
            note_size(&block, ask.size);
            address
        }
        _ => hand_out_rare(cache, address, class, ask),
    }
}

/// The same of a block that must be zero, or that is another thread's, or the first of its GiB.
#[inline(never)]
fn hand_out_rare(cache: &Cache, address: *mut u8, class: SizeClass, ask: Ask) -> *mut u8 {
    let block = Block { address: address.addr(), size: class.size(), kind: Kind::Small };
    let found = cache.has_at(address, class) || HEAP.find(address) == Ok(block);
    if !found || !held::give(address) {
        report::stop_taken(address);
    }
    if ask.zero {
        // SAFETY: the block is ours and that long.
        unsafe { ptr::write_bytes(address, 0, ask.size) };
    }
    note_size(&block, ask.size);
    address
}

#[inline(never)]
fn allocate_large(cache: &Cache, ask: Ask) -> *mut u8 {
    let page = HEAP.machine().page_size();
    let Some(longer) = ask.size.max(MAX_CLASS_SIZE + 1).checked_add(page) else {
        return ptr::null_mut();
    };
    let address = Ask { size: longer, ..ask }.of_heap(cache);
    if !address.is_null() {
        let large = HEAP.find(address).is_ok_and(|found| found.kind == Kind::Large);
        if !large || !held::give(address) {
            report::stop_taken(address);
        }
        raise_fence(address, page);
    }
    purger::consider();
    address
}

/// The last word of a small block.
fn canary_of(block: &Block) -> *mut usize {
    ptr::with_exposed_provenance_mut(block.address + block.size - CANARY)
}

/// What is there as long as nobody writes behind the end of what he asked for, below [`ASKED_SHIFT`]: no address reaches that far,
/// nor does the secret, which is odd, so that the first byte is never 0, the end of a string.
fn canary(block: &Block) -> usize {
    SECRET.load(Ordering::Relaxed) ^ block.address
}

/// Writes a small block's canary, and the size that its user asked for.
fn note_size(block: &Block, size: usize) {
    // SAFETY: the block is its user's, who does not know of its last word.
    unsafe { canary_of(block).write(canary(block) | size << ASKED_SHIFT) };
}

/// The size that the user of a small block asked for last.
pub(crate) fn asked_for(block: &Block) -> Option<usize> {
    // SAFETY: the caller found the block, which ends with a canary.
    (block.kind == Kind::Small).then(|| unsafe { canary_of(block).read() } >> ASKED_SHIFT)
}

/// A block stays where it is, for another size.
pub(crate) fn resize(block: &Block, size: usize) {
    if block.kind == Kind::Small {
        note_size(block, size);
    }
}

/// The last page of a large block that `allocate` made one page longer.
fn fence_of(block: *mut u8, page: usize) -> *mut u8 {
    let size = HEAP.usable_size(block).unwrap_or(page);
    block.wrapping_add(size - page)
}

fn raise_fence(block: *mut u8, page: usize) {
    if FENCED.fetch_add(1, Ordering::Relaxed) >= FENCES {
        // Without a fence, but as long: freeing it need not tell the two apart.
        FENCED.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    // SAFETY: the page is ours, and its user does not know of it.
    if !unsafe { HEAP.machine().guard(fence_of(block, page), page) } {
        FENCED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What of a block's size its user must not use: the canary, or the fence.
pub(crate) fn extra(size: usize) -> usize {
    if size <= MAX_CLASS_SIZE { CANARY } else { HEAP.machine().page_size() }
}

/// The block at an address, if the program holds it.
pub(crate) fn find(cache: &Cache, address: *mut u8) -> Result<Block, Misuse> {
    let block = match cache.class_at(address) {
        Some(class) => Block { address: address.addr(), size: class.size(), kind: Kind::Small },
        None => HEAP.find(address)?,
    };
    if held::is_held(address) { Ok(block) } else { Err(Misuse::DoubleFree) }
}

/// Frees a block that the program holds; of what it does not hold it ends. (Rare things as in [`hand_out`].)
///
/// # Safety
/// The block is not in use by anyone.
#[inline(always)]
pub(crate) unsafe fn free(cache: &Cache, address: *mut u8) {
    match (cache.class_at(address), held::place(address)) {
        (Some(class), Some(place)) => {
            if !place.take() {
                report::stop(Misuse::DoubleFree, address);
            }
            // SAFETY: the caller's, and the program holds it no more.
            unsafe {
                match class.size() {
                    size @ ..=SHORT => bury(cache, address, size),
                    size => bury_long(cache, address, size),
                }
            }
        }
        // SAFETY: the caller's.
        _ => unsafe { free_rare(cache, address) },
    }
}

/// The same of a block that is large, or another thread's.
///
/// # Safety
/// As for [`free`].
#[cold]
#[inline(never)]
unsafe fn free_rare(cache: &Cache, address: *mut u8) {
    let found = find(cache, address).unwrap_or_else(|misuse| report::stop(misuse, address));
    if !held::take(address) {
        report::stop(Misuse::DoubleFree, address);
    }
    // SAFETY: the caller's, and the program holds it no more.
    unsafe {
        match found.kind {
            Kind::Large => free_large(cache, address),
            Kind::Small => bury_long(cache, address, found.size),
        }
    }
}

/// [`bury`] of a block of any length.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn bury_long(cache: &Cache, address: *mut u8, size: usize) {
    // SAFETY: the caller's.
    unsafe { bury(cache, address, size) }
}

/// Wipes a small block that the program gave back, and keeps it for a while.
///
/// # Safety
/// The block has `size` bytes, and is not in use by anyone.
#[inline(always)]
unsafe fn bury(cache: &Cache, address: *mut u8, size: usize) {
    let block = Block { address: address.addr(), size, kind: Kind::Small };
    // SAFETY: the block is the caller's and that long.
    let word = unsafe { canary_of(&block).read() };
    if (word ^ canary(&block)) << (usize::BITS - ASKED_SHIFT) != 0 {
        report::stop_overflowed(address);
    }
    // SAFETY: the block is the caller's and that long.
    unsafe {
        wipe(address, size);
        HEAP.seal(address);
    }
    let Some((leaving, size)) = exchange(&block) else { return };
    // SAFETY: the block was in the quarantine, hence sealed and nobody's.
    let whole = unsafe { HEAP.unseal(leaving) && is_zero(leaving, size) };
    if !whole {
        report::stop_written(leaving);
    }
    // SAFETY: nobody uses it.
    match unsafe { cache.give(leaving) } {
        Freed::Done => {}
        // SAFETY: as above.
        given => unsafe { give_back(cache, leaving, given) },
    }
}

/// What follows from a free that was not all done.
///
/// # Safety
/// As for [`bury`].
#[cold]
#[inline(never)]
unsafe fn give_back(cache: &Cache, block: *mut u8, given: Freed) {
    match given {
        Freed::Done => {}
        Freed::Full(class) => HEAP.overflow(cache, class),
        // SAFETY: the caller's.
        Freed::Slow => report::judge(unsafe { HEAP.free_slow(cache, block) }, block),
    }
    purger::consider();
}

/// Puts a block into a random place; the block that was there, and its size.
fn exchange(block: &Block) -> Option<(*mut u8, usize)> {
    // Knuth's congruential generator (TAOCP 2, 3.3.4), whose upper bits are random; its start is the kernel's randomness.
    let dice = DICE.load(Ordering::Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    DICE.store(dice, Ordering::Relaxed);
    let number = (dice >> 33) as usize;
    let number = if block.size <= LITTLE_MAX { number % LITTLE } else { LITTLE + number % BIG };
    let entering = block.address | (block.size / 16) << SIZE_SHIFT;
    let place = PLACES.get(number)?;
    let leaving = if is_alone() {
        let leaving = place.load(Ordering::Relaxed);
        place.store(entering, Ordering::Relaxed);
        leaving
    } else {
        // Release and Acquire: who takes the block out sees it wiped.
        place.swap(entering, Ordering::AcqRel)
    };
    let address = leaving & ((1 << SIZE_SHIFT) - 1);
    let size = (leaving >> SIZE_SHIFT) * 16;
    (leaving != 0).then(|| (ptr::with_exposed_provenance_mut(address), size))
}

/// # Safety
/// As for [`bury`].
#[inline(never)]
unsafe fn free_large(cache: &Cache, block: *mut u8) {
    let machine = HEAP.machine();
    let page = machine.page_size();
    let fence = fence_of(block, page);
    // SAFETY: the block is the caller's, up to its fence; the pages are wiped by giving them back, which
    // makes the fence a page again, too. Without memory for that, it stays taken: safe, if wasteful.
    unsafe {
        if !machine.commit(fence, page) {
            return;
        }
        let len = fence.addr() - block.addr();
        if len >= page && !machine.purge(block, len) {
            ptr::write_bytes(block, 0, len);
        }
    }
    let _ = FENCED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    // SAFETY: the caller's.
    unsafe { give_back(cache, block, Freed::Slow) }
}
