//! libfreehold.so: malloc and its relatives for any program, by `LD_PRELOAD` or linking.
//!
//! ```text
//! malloc       what C11, C23, POSIX and glibc name, and what they say about errno and overflow
//! operators    every C++ operator new and delete
//! inspect      malloc_trim, mallinfo2, malloc_stats and the like; statistics and profile
//! heaps        heaps of one's own
//! loading      dlopen, so that libraries find this malloc
//! copies       _Fork and pthread_create, for copies of the process
//! privileges   setuid, seccomp, unshare and the like, before which the purger ends
//! limits       setrlimit and prlimit of address space
//! nodes        leaving a node of the machine's memory
//! realtime     heaps in bounded time on memory of the caller's
//! call         a system call made here                     next  another library's function of the same name
//! ```
//!
//! The names are exported with the feature `preload` only:
//! `cargo rustc -p freehold-capi --profile preload --features preload --crate-type cdylib`. The feature `archive`, for libfreehold.a,
//! exports them but for those that lead to another library's function of the same name, which a statically linked program has not.
//! Invariant: nothing unwinds through here, and start-up asks for one variable of the environment, no more.
#![no_std]

mod call;
pub mod copies;
pub mod heaps;
pub mod inspect;
pub mod limits;
pub mod loading;
pub mod malloc;
mod next;
pub mod nodes;
pub mod operators;
pub mod privileges;
pub mod realtime;

/// What panics is a broken invariant (an index out of the range that the structures promise): it
/// stops the program with a fixed message, and neither allocates nor unwinds.
#[cfg(all(feature = "preload", not(test)))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    freehold::process::complain(b"freehold: the heap's structures are damaged; stopping\n");
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}
