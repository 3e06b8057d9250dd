//! Filters that the program sets for system calls (seccomp). A filter may kill for a socket, so a process talks to the parent
//! before it sets one, if it has not yet, and no more afterwards. What it has mapped by then stays: its threads are recorded as
//! long as there are rings. It still sleeps for room, and wakes the drain (`futex`).
//!
//! Who sets a filter by an instruction of his own is not noticed.

use super::{next, slow};
use core::ffi::{c_long, c_ulong};
use core::sync::atomic::{AtomicBool, Ordering};

const STRICT: c_ulong = libc::SECCOMP_SET_MODE_STRICT as c_ulong;
const FILTER: c_ulong = libc::SECCOMP_SET_MODE_FILTER as c_ulong;

static SET: AtomicBool = AtomicBool::new(false);

/// Whether the process, or one that it was forked from, has set a filter.
pub fn is_set() -> bool {
    SET.load(Ordering::Relaxed)
}

/// A filter is going to be set.
#[cold]
fn prepare() {
    slow::prepare();
    SET.store(true, Ordering::Relaxed);
}

/// `prctl`.
///
/// # Safety
/// As its manual page says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: i32, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> i32 {
    if option == libc::PR_SET_SECCOMP && (a == c_ulong::from(libc::SECCOMP_MODE_STRICT) || b != 0) {
        prepare();
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
        "je 2f",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
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
        next = sym next::SYSCALL,
        find = sym find,
    )
}

#[cfg(target_arch = "x86_64")]
extern "C" fn find(
    number: c_long,
    what: c_ulong,
    flags: c_ulong,
    argument: usize,
) -> *mut core::ffi::c_void {
    // Others ask what there is, by calls that must fail.
    let sets = match what {
        STRICT => flags == 0,
        FILTER => argument != 0,
        _ => false,
    };
    if number == libc::SYS_seccomp && sets {
        prepare();
    }
    next::SYSCALL.get()
}
