//! dlopen and dlmopen, as far as a malloc is concerned: no library finds the C library's before ours.
//!
//! A library that is opened with `RTLD_DEEPBIND` looks its names up among its own dependencies first, so its `free` is the
//! C library's, while `strdup` and the program give it blocks of ours: php died of that at its start. The flag is
//! taken away; what else it does (the library's names before the program's of the same name) is lost with it. In a namespace
//! of its own (`dlmopen`) a library has a C library, and a malloc, of its own, and the flag stays.
//!
//! Invariant: the C library sees the caller's return address. By it, it knows whose `RUNPATH`, `$ORIGIN` and namespace
//! are meant. So nothing is called here: the functions change a register and jump.

#![cfg_attr(not(feature = "preload"), allow(dead_code))]

use crate::next::Next;
use core::ptr;
use libc::{Lmid_t, c_char, c_int, c_void};

/// What comes after ours.
static DLOPEN: Next = Next::new(c"dlopen");
static DLMOPEN: Next = Next::new(c"dlmopen");

extern "C" fn find_dlopen() -> *mut c_void {
    DLOPEN.find_or(|| opens_nothing as *mut c_void)
}

extern "C" fn find_dlmopen() -> *mut c_void {
    DLMOPEN.find_or(|| opens_nothing as *mut c_void)
}

/// There is no such function.
extern "C" fn opens_nothing() -> *mut c_void {
    ptr::null_mut()
}

/// `dlopen`, without `RTLD_DEEPBIND`.
///
/// # Safety
/// As POSIX says.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(all(feature = "preload", not(feature = "archive")), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "and esi, {kept}",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        // The stack is a multiple of 16 at a call.
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "call {find}",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        ".cfi_endproc",
        kept = const !libc::RTLD_DEEPBIND,
        next = sym DLOPEN,
        find = sym find_dlopen,
    )
}

/// `dlmopen`, without `RTLD_DEEPBIND` in the program's own namespace.
///
/// # Safety
/// As glibc says.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(all(feature = "preload", not(feature = "archive")), unsafe(no_mangle))]
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn dlmopen(
    namespace: Lmid_t,
    file: *const c_char,
    mode: c_int,
) -> *mut c_void {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "cmp rdi, {base}",
        "jne 3f",
        "and edx, {kept}",
        "3:",
        "mov rax, [rip + {next}]",
        "test rax, rax",
        "jz 2f",
        "jmp rax",
        "2:",
        "push rdi",
        ".cfi_adjust_cfa_offset 8",
        "push rsi",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "call {find}",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rsi",
        ".cfi_adjust_cfa_offset -8",
        "pop rdi",
        ".cfi_adjust_cfa_offset -8",
        "jmp rax",
        ".cfi_endproc",
        base = const libc::LM_ID_BASE,
        kept = const !libc::RTLD_DEEPBIND,
        next = sym DLMOPEN,
        find = sym find_dlmopen,
    )
}
