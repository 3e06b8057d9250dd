//! When a sample is due, and what becomes of the sampled block.

use super::table::{self, Tables};
use super::{clock, math, pprof, probe, stack};
use crate::ask::Ask;
use crate::main_heap::HEAP;
use crate::off_heap::Zeroed;
use crate::{mode, secure, word};
use core::cell::{Cell, UnsafeCell};
use core::ptr;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use freehold_core::malloc::Cache;
use freehold_core::stats::profile::{Live, Range, Site};
use freehold_core::sync::Lock;

/// Bytes between samples, on average, unless told otherwise.
pub(crate) const DEFAULT_RATE: usize = 2 << 20;
/// No sample is due for so many bytes: while one is being taken.
const NEVER: i64 = i64::MAX;

static RATE: AtomicUsize = AtomicUsize::new(DEFAULT_RATE);
/// The state of the dice: SplitMix64 (Steele, Lea and Flood, 2014).
static DICE: AtomicU64 = AtomicU64::new(0);

struct Shared {
    lock: Lock,
    /// The cache that sampled blocks come from.
    cache: Cell<*const Cache>,
    tables: UnsafeCell<Option<Tables>>,
}

// SAFETY: cache and tables are reached under the lock only.
unsafe impl Sync for Shared {}

static SHARED: Shared =
    Shared { lock: Lock::new(), cache: Cell::new(ptr::null()), tables: UnsafeCell::new(None) };

/// Sets the bytes between samples, on average.
pub(crate) fn set_rate(bytes: usize) {
    RATE.store(bytes, Ordering::Relaxed);
}

fn rate() -> f64 {
    RATE.load(Ordering::Relaxed) as f64
}

/// Starts it: before the first cache is handed out.
pub(crate) fn start() {
    DICE.store(HEAP.machine().random() as u64, Ordering::Relaxed);
    // SAFETY: nobody else is here before the start is over.
    let tables = unsafe { &mut *SHARED.tables.get() };
    *tables = Tables::new();
    if let Some(tables) = tables {
        tables.publish(RATE.load(Ordering::Relaxed));
    }
    mode::add(mode::SAMPLE);
}

/// A thread comes: its first gap.
pub(crate) fn enter_thread() {
    word::set_countdown(draw_gap());
}

/// Bytes to the next sample point.
pub(super) fn draw_gap() -> i64 {
    let mut bits = DICE.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^= bits >> 31;
    // Uniform in (0, 1].
    let uniform = ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64;
    (-math::ln(uniform) * rate()) as i64
}

/// Whether a sample point falls into an allocation of `size` bytes, which passes by hereby.
#[inline]
pub(crate) fn is_due(size: usize) -> bool {
    let left = word::countdown().saturating_sub(size.max(1) as i64);
    word::set_countdown(left);
    left < 0
}

/// For how many allocations that count as `passed` bytes a sample stands.
fn weight(passed: usize) -> f64 {
    1.0 / (1.0 - math::exp_minus(passed.max(1) as f64 / rate()))
}

/// Allocates a block and notes who asked for it. Each such counts as `passed` bytes towards the next sample.
#[cold]
pub(crate) fn allocate(cache: &Cache, ask: Ask, passed: usize) -> *mut u8 {
    // What finding the callers allocates is not sampled: that would have no end.
    word::set_countdown(NEVER);
    let stack = stack::Stack::here();
    let block = with_tables(|sampled, tables| {
        let block = secure::allocate_if_on(sampled, ask);
        if !block.is_null() {
            let (size, weight) = (ask.size.max(1), weight(passed));
            probe::allocated(block, size, (weight * size as f64) as usize);
            if tables.add(block.addr(), size, &stack, weight, clock::now_ns()) {
                MAYBE.change(block, |count| count.saturating_add(1));
            }
        }
        block
    });
    word::set_countdown(draw_gap());
    block.unwrap_or_else(|| secure::allocate_if_on(cache, ask))
}

/// Runs `work` with the cache of sampled blocks and the tables; `None` without memory for them, and within itself: what
/// `work` calls of the C library may be another library's, which allocates.
fn with_tables<R>(work: impl FnOnce(&Cache, &mut Tables) -> R) -> Option<R> {
    if SHARED.lock.is_mine(HEAP.machine()) {
        return None;
    }
    SHARED.lock.with(HEAP.machine(), || {
        if SHARED.cache.get().is_null() {
            let cache = HEAP.attach()?;
            // What an earlier thread left in stacks may be of slabs that others own now, who would free it unseen.
            HEAP.give_all(cache);
            SHARED.cache.set(ptr::from_ref(cache));
        }
        // SAFETY: caches live for ever; the lock makes these the only accesses.
        let (cache, tables) = unsafe { (&*SHARED.cache.get(), &mut *SHARED.tables.get()) };
        tables.as_mut().map(|tables| work(cache, tables))
    })
}

/// Whether a block may be sampled: counters by a hash of its address, so that most frees of other
/// threads' and of large blocks take no lock. One that is full stays full.
struct Maybe([AtomicU8; MAYBE_LEN]);

const MAYBE_LEN: usize = 1 << 14;
static MAYBE: Maybe = Maybe([const { AtomicU8::new(0) }; MAYBE_LEN]);

impl Maybe {
    fn of(&self, block: *mut u8) -> Option<&AtomicU8> {
        let hash = (block.addr() >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0.get(hash >> (64 - MAYBE_LEN.trailing_zeros()))
    }

    /// Relaxed: the freeing thread got the block from the allocating one, which orders the two.
    fn says_yes(&self, block: *mut u8) -> bool {
        self.of(block).is_some_and(|counter| counter.load(Ordering::Relaxed) != 0)
    }

    /// Under the tables' lock.
    fn change(&self, block: *mut u8, by: impl Fn(u8) -> u8) {
        if let Some(counter) = self.of(block) {
            let count = counter.load(Ordering::Relaxed);
            counter.store(if count == u8::MAX { count } else { by(count) }, Ordering::Relaxed);
        }
    }
}

/// Forgets the sample of a block that is being freed, if there is one.
#[inline]
pub(crate) fn forget(block: *mut u8) {
    if MAYBE.says_yes(block) {
        forget_slow(block);
    }
}

#[cold]
fn forget_slow(block: *mut u8) {
    with_tables(|_, tables| {
        if tables.remove(block.addr(), clock::now_ns()) {
            probe::freed(block);
            MAYBE.change(block, |count| count.saturating_sub(1));
        }
    });
}

/// Whether samples are taken: the program runs with `FREEHOLD_PROFILE`.
pub fn is_on() -> bool {
    mode::watches(mode::SAMPLE)
}

/// Writes the profile to a new file; `path` ends with a zero. `false` when that failed.
pub fn write(path: &[u8]) -> bool {
    if !is_on() {
        return false;
    }
    let wrote = with_tables(|_, tables| {
        let rate = RATE.load(Ordering::Relaxed) as u64;
        tables.take_stock(clock::now_ns());
        crate::file::write_file(path, |file| pprof::write(tables, rate, file))
    });
    wrote.unwrap_or(false)
}

/// In a forked child: its profile starts anew, for the cache of sampled blocks is anyone's now. Not where a signal handler
/// forked that interrupted the taking of a sample.
pub(crate) fn after_fork_in_child() {
    SHARED.lock.disown(HEAP.machine());
    if SHARED.lock.is_mine(HEAP.machine()) {
        return;
    }
    SHARED.cache.set(ptr::null());
    // SAFETY: no other thread exists.
    if let Some(tables) = unsafe { &mut *SHARED.tables.get() } {
        tables.clear();
    }
}

// SAFETY: numbers.
unsafe impl Zeroed for Site {}
// SAFETY: numbers.
unsafe impl Zeroed for Live {}
// SAFETY: a number.
unsafe impl Zeroed for table::Number {}
// SAFETY: numbers.
unsafe impl Zeroed for Range {}
// SAFETY: a number.
unsafe impl Zeroed for usize {}
