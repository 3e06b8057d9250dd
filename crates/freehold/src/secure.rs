//! Hardened frees (`FREEHOLD_SECURE=1`): what is checked at once, kept for a while, wiped, fenced.
//!
//! ```text
//! free     exact block start? in use?  ->  wiped, marked  ->  swapped with a random block of the
//!          quarantine  ->  was that one written to meanwhile?  ->  given back
//! large    behind the last page of the block lies a page that nobody can touch
//! ```
//!
//! The quarantine is at once the delay and the dice: a block leaves it after as many frees as fortune
//! has it, so that neither the next allocation of a size nor any later one can be aimed at a block
//! just freed. It is shared by all threads, under a lock: hardening is bought with time.
//!
//! Invariant: a block in the quarantine is marked as free (the core's `seal`) and zero behind its mark.

use crate::process::HEAP;
use crate::watch::{self, Ask};
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use freehold_core::heap::{Block, Cache, Kind, Misuse};
use freehold_core::machine::Machine;
use freehold_core::size_class::MAX_CLASS_SIZE;
use freehold_core::sync::Lock;

/// Blocks up to [`LITTLE_MAX`] bytes that wait: at most 4 MiB.
const LITTLE: usize = 4096;
const LITTLE_MAX: usize = 1024;
/// Larger ones: at most 8 MiB.
const BIG: usize = 256;
/// Fences at a time: each costs two mappings, of which a process has 65530.
const FENCES: usize = 16 * 1024;

/// Places for blocks, and the dice.
struct Quarantine {
    little: [usize; LITTLE],
    big: [usize; BIG],
    dice: u64,
}

struct Shared {
    lock: Lock,
    quarantine: UnsafeCell<Quarantine>,
}

// SAFETY: the quarantine is reached under the lock only.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    lock: Lock::new(),
    quarantine: UnsafeCell::new(Quarantine { little: [0; LITTLE], big: [0; BIG], dice: 0 }),
};

/// How many blocks have a fence.
static FENCED: AtomicUsize = AtomicUsize::new(0);

/// Starts it: before the first cache is handed out.
pub(crate) fn start() {
    watch::add(watch::SECURE);
    // SAFETY: nobody else is here before the start is over.
    unsafe { (*SHARED.quarantine.get()).dice = HEAP.machine().random() as u64 | 1 };
}

/// Before a fork.
pub(crate) fn before_fork() {
    SHARED.lock.lock(HEAP.machine());
}

/// After a fork, on both sides.
pub(crate) fn after_fork() {
    SHARED.lock.unlock(HEAP.machine());
}

/// Allocates; a block above all classes gets a fence.
pub(crate) fn allocate(cache: &Cache, ask: Ask) -> *mut u8 {
    let page = HEAP.machine().page_size();
    let large = ask.size > MAX_CLASS_SIZE || ask.align > MAX_CLASS_SIZE;
    let Some(longer) = ask.size.max(MAX_CLASS_SIZE + 1).checked_add(page).filter(|_| large) else {
        return ask.of_heap(cache);
    };
    let block = Ask { size: longer, ..ask }.of_heap(cache);
    if !block.is_null() && is_large(block) {
        raise_fence(block, page);
    }
    block
}

fn is_large(block: *mut u8) -> bool {
    HEAP.examine(block).is_ok_and(|block| block.kind == Kind::Large)
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

/// What of a block's size its user must not use: the fence.
pub(crate) fn extra(block: *mut u8) -> usize {
    if is_large(block) { HEAP.machine().page_size() } else { 0 }
}

/// Frees: checks, wipes, and keeps the block for a while.
///
/// # Safety
/// The block is not in use by anyone.
pub(crate) unsafe fn free(cache: &Cache, address: *mut u8) -> Result<(), Misuse> {
    let block = HEAP.examine(address)?;
    watch::note_freed(address, block.size);
    if block.kind == Kind::Large {
        // SAFETY: the caller's.
        return unsafe { free_large(cache, address) };
    }
    // SAFETY: the block is the caller's and that long.
    unsafe {
        ptr::write_bytes(address, 0, block.size);
        HEAP.seal(address);
    }
    let leaving: *mut u8 = ptr::with_exposed_provenance_mut(exchange(&block));
    if leaving.is_null() {
        return Ok(());
    }
    let size = HEAP.usable_size(leaving)?;
    // SAFETY: the block was in the quarantine, hence sealed and nobody's.
    let whole = unsafe { HEAP.unseal(leaving) && is_zero(leaving, size) };
    if !whole {
        crate::report::stop_written(leaving);
    }
    // SAFETY: nobody uses it.
    unsafe { HEAP.free(cache, leaving) }
}

/// Puts a block into a random place; the block that was there, 0 for none.
fn exchange(block: &Block) -> usize {
    SHARED.lock.with(HEAP.machine(), || {
        // SAFETY: the lock makes this the only access.
        let quarantine = unsafe { &mut *SHARED.quarantine.get() };
        // xorshift64: Marsaglia, "Xorshift RNGs" (2003); its start is the kernel's randomness.
        let mut dice = quarantine.dice;
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        quarantine.dice = dice;
        let places: &mut [usize] = match block.size {
            0..=LITTLE_MAX => &mut quarantine.little,
            _ => &mut quarantine.big,
        };
        let number = (dice >> 33) as usize % places.len().max(1);
        match places.get_mut(number) {
            Some(place) => core::mem::replace(place, block.address),
            None => block.address,
        }
    })
}

/// Whether a block is zero. (Its first bytes were the mark, and are.)
///
/// # Safety
/// The block has `size` bytes, a multiple of 16, and nobody writes to it.
unsafe fn is_zero(block: *mut u8, size: usize) -> bool {
    // SAFETY: the caller's; blocks are aligned to 16.
    let words = unsafe { core::slice::from_raw_parts(block.cast::<u64>(), size / 8) };
    words.iter().all(|&word| word == 0)
}

/// # Safety
/// As for [`free`].
unsafe fn free_large(cache: &Cache, block: *mut u8) -> Result<(), Misuse> {
    let machine = HEAP.machine();
    let page = machine.page_size();
    let fence = fence_of(block, page);
    // SAFETY: the block is the caller's, up to its fence; the pages are wiped by giving them back, which
    // makes the fence a page again, too. Without memory for that, it stays taken: safe, if wasteful.
    unsafe {
        if !machine.commit(fence, page) {
            return Ok(());
        }
        let len = fence.addr() - block.addr();
        if len >= page && !machine.purge(block, len) {
            ptr::write_bytes(block, 0, len);
        }
    }
    let _ = FENCED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    // SAFETY: the caller's.
    unsafe { HEAP.free(cache, block) }
}
