//! The call stack of the moment, found by the tables that compilers leave for exceptions (`.eh_frame`).
//!
//! ```text
//!   registers ─▶ cache ── the same words still stand where they stood: the same stack (verified reuse)
//!                  │ no
//!                  ▼
//!                walk ── frame by frame, until it meets the last stack (its shadow)
//!                  │ rule of an address
//!                  ▼
//!                rules ── a global table, grown and never emptied
//!                  │ not there
//!                  ▼
//!                tables (.eh_frame_hdr) ─▶ cfi (DWARF's small machine) ─▶ rule
//! ```
//!
//! **Verified reuse.** A walk reads the registers at its top and words of the stack, nothing else: each rule is a
//! function of an address. So the result is kept with the words that were read; if top and words are the same, a
//! walk would give the same result. The words are compared in the order in which the walk read them, because a word
//! is known to be there only after those before it were found the same.
//!
//! Invariants: nothing here allocates, waits or takes a lock that it could wait for; a word of a stack is read only
//! where it is known to be readable ([`memory`]); a stack that could not be followed to its end says so ([`walk::Ended::Cut`]).

pub mod cache;
pub mod cfi;
pub mod list;
pub mod mapped;
pub mod memory;
pub mod modules;
pub mod rule;
pub mod rules;
pub mod tables;
pub mod walk;

#[cfg(test)]
mod tests;

/// What a walk begins with: the registers of the caller of a hook, just after the hook will have returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Caller {
    /// Where the return address lies; the stack pointer is 8 above it.
    pub slot: u64,
    /// The frame pointer.
    pub rbp: u64,
    /// The only other register that tables name (the dynamic loader's).
    pub rbx: u64,
}

/// Anonymous memory, zeroed, straight from the kernel.
pub fn map(bytes: usize) -> Option<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let answer = unsafe { call(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]) };
    (answer > 0).then_some(answer as *mut u8)
}

/// Gives memory of [`map`] back.
///
/// # Safety
/// The range was mapped whole by [`map`], and nobody uses it any more.
pub unsafe fn unmap(at: *mut u8, bytes: usize) {
    // SAFETY: as the caller promises.
    unsafe { call(libc::SYS_munmap, [at as usize, bytes, 0, 0, 0, 0]) };
}

/// A system call that leaves `errno` alone.
///
/// # Safety
/// As the call demands of its arguments.
pub unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let answer: isize;
    // SAFETY: the kernel changes rax, rcx and r11 and what the arguments allow it to change.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}
