//! The thread's words: three of hidden thread-local storage, read initial-exec.
//!
//! ```text
//! +0   the cache that hot paths use; the static empty one before the first call, and for good in a
//!      watched process (see `watch`)
//! +8   the thread's own cache when hot paths must not find it; or what meters it, and a bit that says so (both are
//!      aligned); else null
//! +16  bytes until the next sample (see `profile`)
//! ```
//!
//! Two instructions, no call: `thread_local!` in a shared library goes through `__tls_get_addr`.
//! A few bytes fit the surplus that glibc keeps for libraries loaded late, so `dlopen` works. The
//! first word initially points to the empty cache. No fast path needs to distinguish that cache from others, and
//! no thread can write to it: it lies among the constants.

use core::arch::{asm, global_asm};
use freehold_core::malloc::Cache;

global_asm!(
    ".pushsection .rodata.freehold_no_cache,\"a\",@progbits",
    ".p2align 12",
    ".hidden freehold_no_cache",
    ".globl freehold_no_cache",
    ".type freehold_no_cache, @object",
    ".size freehold_no_cache, {len}",
    "freehold_no_cache:",
    ".zero {key_at}",
    ".quad {no_key}",
    ".zero {rest}",
    ".popsection",
    ".pushsection .tdata,\"awT\",@progbits",
    ".p2align 3",
    ".hidden freehold_thread_cache",
    ".globl freehold_thread_cache",
    ".type freehold_thread_cache, @object",
    ".size freehold_thread_cache, 24",
    "freehold_thread_cache:",
    ".quad freehold_no_cache",
    ".quad 0",
    ".quad 0",
    ".popsection",
    len = const size_of::<Cache>(),
    key_at = const Cache::KEY_AT,
    no_key = const Cache::NO_KEY,
    rest = const size_of::<Cache>() - Cache::KEY_AT - 8,
);

unsafe extern "C" {
    /// The cache of a thread that has none yet.
    #[link_name = "freehold_no_cache"]
    static EMPTY: Cache;
}

/// Reads the thread's word at an offset.
macro_rules! read {
    ($offset:literal, $into:ident) => {
        asm!(
            "mov {0}, qword ptr [rip + freehold_thread_cache@GOTTPOFF]",
            concat!("mov {0}, qword ptr fs:[{0} + ", $offset, "]"),
            out(reg) $into,
            options(readonly, nostack, preserves_flags),
        )
    };
}

/// Writes the thread's word at an offset.
macro_rules! write {
    ($offset:literal, $value:expr) => {
        asm!(
            "mov {0}, qword ptr [rip + freehold_thread_cache@GOTTPOFF]",
            concat!("mov qword ptr fs:[{0} + ", $offset, "], {1}"),
            out(reg) _,
            in(reg) $value,
            options(nostack, preserves_flags),
        )
    };
}

/// The cache that the calling thread's hot paths use; [`EMPTY`] for one that has none.
#[inline(always)]
pub fn get() -> &'static Cache {
    let cache: *const Cache;
    // SAFETY: the word exists in every thread and holds a pointer to a cache, which lives for ever.
    unsafe {
        read!(0, cache);
        &*cache
    }
}

/// Sets the cache that the calling thread's hot paths use; `None` for none.
pub fn set(cache: Option<&'static Cache>) {
    let cache = cache.map_or(&raw const EMPTY, core::ptr::from_ref);
    // SAFETY: as for `get`; no other thread writes this word.
    unsafe { write!(0, cache) };
}

/// Whether the calling thread has no cache that its hot paths may use.
#[inline]
pub fn is_empty(cache: &Cache) -> bool {
    core::ptr::eq(cache, &raw const EMPTY)
}

/// In the second word: the word points to a meter.
const METER: usize = 1;

#[inline(always)]
fn second() -> *const u8 {
    let word: *const u8;
    // SAFETY: the word exists in every thread.
    unsafe { read!(8, word) };
    word
}

/// The calling thread's cache in a watched process, if it has one yet.
#[inline]
pub(crate) fn watched() -> Option<&'static Cache> {
    let word = second();
    // SAFETY: without the bit, the word is null or points to a cache, which lives for ever.
    if word.addr() & METER == 0 { unsafe { word.cast::<Cache>().as_ref() } } else { None }
}

/// What [`set_meter`] was told; null if there is none.
#[inline]
pub(crate) fn meter() -> *const u8 {
    let word = second();
    if word.addr() & METER != 0 { word.wrapping_sub(METER) } else { core::ptr::null() }
}

/// Sets the calling thread's cache in a watched process.
pub(crate) fn set_watched(cache: Option<&'static Cache>) {
    let word = cache.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: no other thread writes this word.
    unsafe { write!(8, word) };
}

/// Sets what meters the calling thread's cache, at an even address.
pub(crate) fn set_meter(meter: *const u8) {
    let word = meter.map_addr(|bits| bits | METER);
    // SAFETY: no other thread writes this word.
    unsafe { write!(8, word) };
}

/// Bytes until the calling thread's next sample.
#[inline(always)]
pub(crate) fn countdown() -> i64 {
    let left: i64;
    // SAFETY: the word exists in every thread.
    unsafe { read!(16, left) };
    left
}

/// Sets them.
#[inline(always)]
pub(crate) fn set_countdown(left: i64) {
    // SAFETY: no other thread writes this word.
    unsafe { write!(16, left) };
}
