//! The thread's cache: one hidden word of thread-local storage, read initial-exec.
//!
//! Two instructions, no call: `thread_local!` in a shared library goes through `__tls_get_addr`.
//! Eight bytes fit the surplus that glibc keeps for libraries loaded late, so `dlopen` works. The
//! initial value points to the static empty cache, which no fast path needs to tell from others.

use core::arch::{asm, global_asm};
use freehold_core::heap::Cache;
use freehold_core::heap::cache::EMPTY;

global_asm!(
    ".pushsection .tdata,\"awT\",@progbits",
    ".p2align 3",
    ".hidden freehold_thread_cache",
    ".globl freehold_thread_cache",
    ".type freehold_thread_cache, @object",
    ".size freehold_thread_cache, 8",
    "freehold_thread_cache:",
    ".quad {empty}",
    ".popsection",
    empty = sym EMPTY,
);

/// The calling thread's cache; [`EMPTY`] for one that has none.
#[inline(always)]
pub fn get() -> &'static Cache {
    let cache: *const Cache;
    // SAFETY: the word exists in every thread and holds a pointer to a cache, which lives for ever.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + freehold_thread_cache@GOTTPOFF]",
            "mov {0}, qword ptr fs:[{0}]",
            out(reg) cache,
            options(readonly, nostack, preserves_flags),
        );
        &*cache
    }
}

/// Sets the calling thread's cache.
pub fn set(cache: &'static Cache) {
    // SAFETY: as for `get`; no other thread writes this word.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + freehold_thread_cache@GOTTPOFF]",
            "mov qword ptr fs:[{0}], {1}",
            out(reg) _,
            in(reg) core::ptr::from_ref(cache),
            options(nostack, preserves_flags),
        );
    }
}

/// Whether the calling thread has no cache yet.
#[inline]
pub fn is_empty(cache: &Cache) -> bool {
    core::ptr::eq(cache, &EMPTY)
}
