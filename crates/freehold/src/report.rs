//! The message before a program error stops the program: one line on the standard error,
//! written without allocating, then `abort`.

use crate::main_heap::HEAP;
use freehold_core::malloc::Misuse;

/// Names the error and the address, and aborts.
#[cold]
pub(crate) fn stop(misuse: Misuse, block: *mut u8) -> ! {
    say(
        match misuse {
            Misuse::DoubleFree => b"freehold: double free of ",
            Misuse::NotABlock => b"freehold: not a block of this heap, or freed already: ",
            Misuse::Astray => {
                b"freehold: freed inside a block, or a freed block written to: no block starts at "
            }
        },
        block,
    )
}

/// If a free was an error, names it and aborts.
#[inline]
pub(crate) fn judge(result: Result<(), Misuse>, block: *mut u8) {
    if let Err(misuse) = result {
        stop(misuse, block);
    }
}

/// If an error was found where no caller could get it as a result, names it and aborts.
#[inline]
pub(crate) fn stop_if_late() {
    if let Some((misuse, block)) = HEAP.late_misuse() {
        stop(misuse, block);
    }
}

/// Says that a block was written to after it was freed, and aborts.
#[cold]
pub(crate) fn stop_written(block: *mut u8) -> ! {
    say(b"freehold: written to after it was freed: ", block)
}

/// Says that a block was written to behind its end, and aborts.
#[cold]
pub(crate) fn stop_overflowed(block: *mut u8) -> ! {
    say(b"freehold: written to behind its end: ", block)
}

/// Says that what a free block leads to is in use, or no block at all, and aborts.
#[cold]
pub(crate) fn stop_taken(block: *mut u8) -> ! {
    say(b"freehold: a freed block was written to, and led to what is no free block: ", block)
}

/// Says that a block was freed with a size that it cannot have been asked for with, and aborts.
#[cold]
pub(crate) fn stop_sized(block: *mut u8) -> ! {
    say(b"freehold: freed with another size than it has: ", block)
}

fn say(what: &[u8], block: *mut u8) -> ! {
    let mut line = [0u8; 160];
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        for &byte in bytes {
            if let Some(place) = line.get_mut(len) {
                *place = byte;
                len += 1;
            }
        }
    };
    put(what);
    put(b"0x");
    put(&hex(block.addr()));
    put(b"\n");
    HEAP.machine().complain(line.get(..len).unwrap_or(&line));
    // SAFETY: ends the process.
    unsafe { libc::abort() }
}

fn hex(value: usize) -> [u8; 16] {
    core::array::from_fn(|at| {
        let digit = (value >> (60 - 4 * at) & 15) as u8;
        if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
    })
}
