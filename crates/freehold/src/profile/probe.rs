//! Probes for tracers outside of the process: the `otel_memory` contract of the OpenTelemetry eBPF profiler (its design
//! document 3, 2026).
//!
//! ```text
//! otel_memory:alloc(block, size, bytes)   a sampled allocation; `bytes` is what the sample stands for
//! otel_memory:free(block)                 the free of such a block
//! ```
//!
//! A probe is one `nop` and a note in the file that says where it is and where its arguments are (SystemTap's USDT format,
//! version 3). Nobody listening costs that `nop`; samples are taken only in a process with a profile.

use core::arch::{asm, global_asm};

// By which a reader of notes finds out how far the file was moved after it was linked. (R: the linker must keep it, though no
// code refers to it.)
global_asm!(
    ".pushsection .stapsdt.base,\"aGR\",\"progbits\",.stapsdt.base,comdat",
    ".weak _.stapsdt.base",
    ".hidden _.stapsdt.base",
    "_.stapsdt.base: .space 1",
    ".size _.stapsdt.base, 1",
    ".popsection",
);

macro_rules! probe {
    ($name:literal, $arguments:literal, $($register:tt = $value:expr),+) => {
        // SAFETY: does nothing; the note goes into a section of its own, which is never loaded.
        unsafe {
            asm!(
                "990: nop",
                ".pushsection .note.stapsdt,\"\",\"note\"",
                ".balign 4",
                ".4byte 992f - 991f, 994f - 993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                // No semaphore: the probe lies where only samples come by.
                ".8byte 0",
                ".asciz \"otel_memory\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $arguments, "\""),
                "994: .balign 4",
                ".popsection",
                $(in($register) $value,)+
                options(readonly, nostack, preserves_flags),
            )
        }
    };
}

/// A sampled block of `size` bytes was allocated, which stands for `bytes` bytes of such.
#[inline(never)]
pub(super) fn allocated(block: *mut u8, size: usize, bytes: usize) {
    probe!("alloc", "8@%rdi 8@%rsi 8@%rdx", "rdi" = block, "rsi" = size, "rdx" = bytes);
}

/// A sampled block is being freed.
#[inline(never)]
pub(super) fn freed(block: *mut u8) {
    probe!("free", "8@%rdi", "rdi" = block);
}
