//! Filters that the program sets for system calls (seccomp). A filter may kill for a socket, so a process that has one talks to
//! the parent no more. What it has mapped by then stays: its threads are recorded as long as there are rings.
//!
//! Who sets a filter by an instruction of his own is not noticed.

use super::next;
use core::ffi::c_ulong;
use core::sync::atomic::{AtomicBool, Ordering};

static SET: AtomicBool = AtomicBool::new(false);

/// Whether the process, or one that it was forked from, has set a filter.
pub fn is_set() -> bool {
    SET.load(Ordering::Relaxed)
}

/// `prctl`.
///
/// # Safety
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: i32, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> i32 {
    if option == libc::PR_SET_SECCOMP {
        SET.store(true, Ordering::Relaxed);
    }
    // SAFETY: the caller's contract is prctl's; who reads fewer arguments does not see the others.
    unsafe { next::prctl()(option, a, b, c, d) }
}

/// `syscall`, by which libseccomp and others set filters. It jumps on, for a call may answer twice (`clone`).
///
/// # Safety
/// As the call's manual page says.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall() {
    core::arch::naked_asm!(
        "cmp rdi, {seccomp}",
        "jne 2f",
        "mov byte ptr [rip + {set}], 1",
        "2:",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jz 3f",
        "jmp rax",
        "3:",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "jmp rax",
        seccomp = const libc::SYS_seccomp,
        set = sym SET,
        next = sym next::SYSCALL,
        find = sym find,
    )
}

#[cfg(target_arch = "x86_64")]
extern "C" fn find() -> *mut core::ffi::c_void {
    next::SYSCALL.get()
}
