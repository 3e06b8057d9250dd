//! C++ operators new and delete, all forms, without the C++ runtime.
//!
//! When memory is short, operator new must call the new-handler and throw. We do neither: the
//! failure path *jumps* to the runtime's own operator of the same name (the next one after ours),
//! which calls our malloc, the handler, and throws. No frame of ours is left to unwind through.

#![allow(non_snake_case, reason = "the mangled names are the interface")]
#![cfg_attr(not(feature = "preload"), allow(dead_code))]

use crate::next::{next, of_library};
use core::ffi::CStr;
use freehold::process;
use libc::{c_char, c_void, size_t};

extern "C" fn allocate(size: size_t) -> *mut c_void {
    process::allocate_slow(size).cast()
}

extern "C" fn allocate_aligned(size: size_t, align: size_t) -> *mut c_void {
    process::allocate_aligned(size, align).cast()
}

/// The operator of this name that comes after ours in the order of loading, else that of a runtime that is in no such
/// order, because it came with a library that was opened later.
extern "C" fn next_operator(name: *const c_char) -> *const c_void {
    // SAFETY: the callers pass C strings, which are constants.
    let name = unsafe { CStr::from_ptr(name) };
    let next = next(name);
    let next = if next.is_null() { operator_of_runtime(name) } else { next };
    if next.is_null() { out_of_memory as *const c_void } else { next }
}

/// The operator of a C++ runtime that is loaded; null when there is none.
fn operator_of_runtime(name: &CStr) -> *mut c_void {
    const RUNTIMES: [&CStr; 3] = [c"libstdc++.so.6", c"libc++.so.1", c"libc++abi.so.1"];
    let of = |runtime| of_library(runtime, name);
    RUNTIMES.into_iter().map(of).find(|found| !found.is_null()).unwrap_or(core::ptr::null_mut())
}

/// There is no C++ runtime: nobody to throw.
extern "C" fn out_of_memory() -> ! {
    process::complain(b"freehold: operator new: out of memory, and no C++ runtime to throw\n");
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

/// The cold half of an operator new: allocate, else find the next operator of this name and jump
/// there with the very arguments. `rdi`, `rsi` and `rdx` hold what any form takes.
///
/// The compiler says nothing of a naked function's frame, so the function says it: without that, no stack of a
/// profile or a debugger went beyond an operator new. The three words lie under the return address both times,
/// hence the CFA is at 8 before them and at 32 with them.
macro_rules! cold_half {
    ($slow:ident($($arg:ident),*), $allocate:ident, $name:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $slow($($arg: usize),*) -> *mut c_void {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "call {allocate}",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "test rax, rax",
                "jz 2f",
                "ret",
                "2:",
                "push rdi",
                ".cfi_adjust_cfa_offset 8",
                "push rsi",
                ".cfi_adjust_cfa_offset 8",
                "push rdx",
                ".cfi_adjust_cfa_offset 8",
                "lea rdi, [rip + {name}]",
                "call {next}",
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                "pop rsi",
                ".cfi_adjust_cfa_offset -8",
                "pop rdi",
                ".cfi_adjust_cfa_offset -8",
                "jmp rax",
                ".cfi_endproc",
                allocate = sym $allocate,
                name = sym $name,
                next = sym next_operator,
            )
        }
    };
}

/// A C string as a static, so that assembly can name it.
#[repr(transparent)]
struct Name<const N: usize>([u8; N]);

const fn name<const N: usize>(text: &CStr) -> Name<N> {
    let mut bytes = [0; N];
    let mut at = 0;
    while at < N {
        bytes[at] = text.to_bytes_with_nul()[at];
        at += 1;
    }
    Name(bytes)
}

macro_rules! operators {
    ($($(#[$doc:meta])* $export:ident, $slow:ident, $text:ident, $literal:literal,
        ($($arg:ident),*), $hot:expr, $allocate:ident;)*) => {$(
        static $text: Name<{ $literal.count_bytes() + 1 }> = name($literal);
        cold_half!($slow($($arg),*), $allocate, $text);
        $(#[$doc])*
        ///
        /// # Safety
        /// As the C++ standard says; may unwind by way of the C++ runtime.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C-unwind" fn $export($($arg: usize),*) -> *mut c_void {
            let hot: fn($($arg: usize),*) -> *mut u8 = $hot;
            let block = hot($($arg),*);
            if block.is_null() {
                // SAFETY: the same arguments; nothing of this frame is needed any more.
                unsafe { $slow($($arg),*) }
            } else {
                block.cast()
            }
        }
    )*};
}

operators! {
    /// `operator new(size_t)`
    _Znwm, new_slow, NEW, c"_Znwm", (size), |size| process::try_allocate(size), allocate;
    /// `operator new[](size_t)`
    _Znam, new_array_slow, NEW_ARRAY, c"_Znam", (size), |size| process::try_allocate(size), allocate;
    /// `operator new(size_t, nothrow_t const&)`
    _ZnwmRKSt9nothrow_t, new_nothrow_slow, NEW_NOTHROW, c"_ZnwmRKSt9nothrow_t", (size, tag),
        |size, _| process::try_allocate(size), allocate;
    /// `operator new[](size_t, nothrow_t const&)`
    _ZnamRKSt9nothrow_t, new_array_nothrow_slow, NEW_ARRAY_NOTHROW, c"_ZnamRKSt9nothrow_t",
        (size, tag), |size, _| process::try_allocate(size), allocate;
    /// `operator new(size_t, align_val_t)`
    _ZnwmSt11align_val_t, new_aligned_slow, NEW_ALIGNED, c"_ZnwmSt11align_val_t", (size, align),
        |_, _| core::ptr::null_mut(), allocate_aligned;
    /// `operator new[](size_t, align_val_t)`
    _ZnamSt11align_val_t, new_array_aligned_slow, NEW_ARRAY_ALIGNED, c"_ZnamSt11align_val_t",
        (size, align), |_, _| core::ptr::null_mut(), allocate_aligned;
    /// `operator new(size_t, align_val_t, nothrow_t const&)`
    _ZnwmSt11align_val_tRKSt9nothrow_t, new_aligned_nothrow_slow, NEW_ALIGNED_NOTHROW,
        c"_ZnwmSt11align_val_tRKSt9nothrow_t", (size, align, tag),
        |_, _, _| core::ptr::null_mut(), allocate_aligned;
    /// `operator new[](size_t, align_val_t, nothrow_t const&)`
    _ZnamSt11align_val_tRKSt9nothrow_t, new_array_aligned_nothrow_slow, NEW_ARRAY_ALIGNED_NOTHROW,
        c"_ZnamSt11align_val_tRKSt9nothrow_t", (size, align, tag),
        |_, _, _| core::ptr::null_mut(), allocate_aligned;
}

macro_rules! deletes {
    ($($(#[$doc:meta])* $export:ident($($arg:ident),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The block is null or the caller's.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C" fn $export(block: *mut c_void $(, $arg: usize)*) {
            $(let _ = $arg;)*
            // SAFETY: the caller's.
            unsafe { process::free(block.cast()) }
        }
    )*};
}

deletes! {
    /// `operator delete(void*)`
    _ZdlPv();
    /// `operator delete[](void*)`
    _ZdaPv();
    /// `operator delete(void*, nothrow_t const&)`
    _ZdlPvRKSt9nothrow_t(tag);
    /// `operator delete[](void*, nothrow_t const&)`
    _ZdaPvRKSt9nothrow_t(tag);
    /// `operator delete(void*, size_t)`
    _ZdlPvm(size);
    /// `operator delete[](void*, size_t)`
    _ZdaPvm(size);
    /// `operator delete(void*, align_val_t)`
    _ZdlPvSt11align_val_t(align);
    /// `operator delete[](void*, align_val_t)`
    _ZdaPvSt11align_val_t(align);
    /// `operator delete(void*, align_val_t, nothrow_t const&)`
    _ZdlPvSt11align_val_tRKSt9nothrow_t(align, tag);
    /// `operator delete[](void*, align_val_t, nothrow_t const&)`
    _ZdaPvSt11align_val_tRKSt9nothrow_t(align, tag);
    /// `operator delete(void*, size_t, align_val_t)`
    _ZdlPvmSt11align_val_t(size, align);
    /// `operator delete[](void*, size_t, align_val_t)`
    _ZdaPvmSt11align_val_t(size, align);
}
