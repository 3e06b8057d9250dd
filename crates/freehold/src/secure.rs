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
use crate::{held, mode, report};
use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use freehold_core::machine::Machine;
use freehold_core::malloc::{Block, Cache, Kind, Misuse};
use freehold_core::size_class::{MAX_CLASS_SIZE, SizeClass, class_of_aligned};
use freehold_os::thread::is_alone;

/// Blocks up to [`LITTLE_MAX`] bytes that wait: at most 1 MiB, which a processor's second cache holds. (With four times as many,
/// sqlite took 1.19 of glibc's time instead of 1.14.)
const LITTLE: usize = 1024;
const LITTLE_MAX: usize = 1024;
/// Larger ones: at most 2 MiB.
const BIG: usize = 64;
/// Bytes of a canary.
const CANARY: usize = size_of::<usize>();
/// The bits of a canary that say how much was asked for.
const SIZE: usize = 0xFFFF;
const _: () = assert!(MAX_CLASS_SIZE <= SIZE);
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
    SECRET.store(HEAP.machine().random(), Ordering::Relaxed);
    DICE.store(HEAP.machine().random() as u64 | 1, Ordering::Relaxed);
}

/// Allocates: a small block with a canary at its end, a large one with a fence behind it. What the heap hands out must be a
/// block of its own that nobody has: lists that were written to end the program here.
pub(crate) fn allocate(cache: &Cache, ask: Ask) -> *mut u8 {
    let small = ask.size <= MAX_CLASS_SIZE - CANARY;
    match class_of_aligned(ask.size.saturating_add(CANARY), ask.align) {
        Some(class) if small => allocate_small(cache, class, ask),
        _ => allocate_large(cache, ask),
    }
}

/// Allocates as the process's options say, but neither samples nor counts.
pub(crate) fn allocate_if_on(cache: &Cache, ask: Ask) -> *mut u8 {
    if mode::watches(mode::SECURE) { allocate(cache, ask) } else { ask.of_heap(cache) }
}

#[inline]
fn allocate_small(cache: &Cache, class: SizeClass, ask: Ask) -> *mut u8 {
    let address = HEAP.allocate_class(cache, class);
    if address.is_null() {
        return address;
    }
    let block = Block { address: address.addr(), size: class.size(), kind: Kind::Small };
    let own = cache.class_at(address) == Some(class);
    if !own && locate_elsewhere(address) != Ok(block) || !held::give(address) {
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
    address
}

/// The block that starts at an address, in use or not.
#[inline]
fn locate(cache: &Cache, address: *mut u8) -> Result<Block, Misuse> {
    match cache.class_at(address) {
        Some(class) => Ok(Block { address: address.addr(), size: class.size(), kind: Kind::Small }),
        None => locate_elsewhere(address),
    }
}

/// The same where the block is no small one of the thread's own.
#[cold]
#[inline(never)]
fn locate_elsewhere(address: *mut u8) -> Result<Block, Misuse> {
    HEAP.find(address)
}

/// The last word of a small block.
fn canary_of(block: &Block) -> *mut usize {
    ptr::with_exposed_provenance_mut(block.address + block.size - CANARY)
}

/// What is there as long as nobody writes behind the end of what he asked for; but for [`SIZE`], where what he asked for is.
fn canary(block: &Block) -> usize {
    (SECRET.load(Ordering::Relaxed) ^ block.address) & !SIZE
}

/// Writes a small block's canary, and the size that its user asked for.
fn note_size(block: &Block, size: usize) {
    // SAFETY: the block is its user's, who does not know of its last word.
    unsafe { canary_of(block).write(canary(block) | size) };
}

/// The size that the user of a small block asked for last.
pub(crate) fn asked_for(block: &Block) -> Option<usize> {
    // SAFETY: the caller found the block, which ends with a canary.
    (block.kind == Kind::Small).then(|| unsafe { canary_of(block).read() } & SIZE)
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
    let block = locate(cache, address)?;
    if held::is_held(address) { Ok(block) } else { Err(Misuse::DoubleFree) }
}

/// The block at an address, which the program holds no more.
#[inline(always)]
pub(crate) fn take_back(cache: &Cache, address: *mut u8) -> Result<Block, Misuse> {
    let block = locate(cache, address)?;
    if held::take(address) { Ok(block) } else { Err(Misuse::DoubleFree) }
}

/// Frees a block that was taken back: wipes it, and keeps it for a while.
///
/// # Safety
/// The block is not in use by anyone.
#[inline(always)]
pub(crate) unsafe fn bury(cache: &Cache, block: &Block) -> Result<(), Misuse> {
    let address: *mut u8 = ptr::with_exposed_provenance_mut(block.address);
    if block.kind == Kind::Large {
        // SAFETY: the caller's.
        return unsafe { free_large(cache, address) };
    }
    // SAFETY: the block is the caller's and that long.
    if unsafe { canary_of(block).read() } & !SIZE != canary(block) {
        report::stop_overflowed(address);
    }
    // SAFETY: the block is the caller's and that long.
    unsafe {
        ptr::write_bytes(address, 0, block.size);
        HEAP.seal(address);
    }
    let Some((leaving, size)) = exchange(block) else { return Ok(()) };
    // SAFETY: the block was in the quarantine, hence sealed and nobody's.
    let whole = unsafe { HEAP.unseal(leaving) && is_zero(leaving, size) };
    if !whole {
        report::stop_written(leaving);
    }
    // SAFETY: nobody uses it.
    unsafe { HEAP.free(cache, leaving) }
}

/// Puts a block into a random place; the block that was there, and its size.
fn exchange(block: &Block) -> Option<(*mut u8, usize)> {
    // xorshift64: Marsaglia, "Xorshift RNGs" (2003); its start is the kernel's randomness.
    let mut dice = DICE.load(Ordering::Relaxed);
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
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

/// What a processor looks at in one step, of which blocks are made.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Pair(u64, u64);

/// Whether a block is zero. (Its first bytes were the mark, and are.)
///
/// # Safety
/// The block has `size` bytes, a multiple of 16, and nobody writes to it.
unsafe fn is_zero(block: *mut u8, size: usize) -> bool {
    // SAFETY: the caller's; blocks are aligned to 16.
    let pairs = unsafe { core::slice::from_raw_parts(block.cast::<Pair>(), size / 16) };
    let (fours, rest) = pairs.as_chunks::<4>();
    let bits =
        |pairs: &[Pair]| pairs.iter().fold((0, 0), |or, pair| (or.0 | pair.0, or.1 | pair.1));
    let or = |a: (u64, u64), b: (u64, u64)| (a.0 | b.0, a.1 | b.1);
    let all = fours.iter().fold(bits(rest), |so_far, four| or(so_far, bits(four)));
    all == (0, 0)
}

/// # Safety
/// As for [`bury`].
#[inline(never)]
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
