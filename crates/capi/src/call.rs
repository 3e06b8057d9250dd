//! A system call that is made here.

use crate::malloc::set_errno;
use libc::{c_int, c_long};

/// Makes a system call, as the C library does: -1, and `errno` says why, if it fails.
///
/// # Safety
/// As the call's manual page says.
pub unsafe fn make(number: c_long, a: [c_long; 6]) -> c_long {
    let result: c_long;
    // SAFETY: the kernel preserves all but rax, rcx and r11; memory is the caller's argument.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) {
        set_errno(-result as c_int);
        return -1;
    }
    result
}
