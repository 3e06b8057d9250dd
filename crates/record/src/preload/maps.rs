//! Memory outside of malloc, and the end of a process: `mmap` and its like, and `_exit`, as the program calls them.
//!
//! Each hook forwards to the next definition of its own name, as those of malloc do. What the C library maps for itself
//! (malloc's arenas, threads' stacks, libraries) does not come by here; samples of the process's map show it.
//!
//! Invariant: these calls are rare, so all of it is off the hot path; `errno` is what the next definition left.
#![allow(non_snake_case)] // `_Exit` is the name.
#![allow(clippy::missing_safety_doc)] // The contracts are those of the C functions of these names.

use super::stacks::Caller;
use super::sys::Signals;
use super::thread::{Thread, now};
use super::{connect, next, process, slow, sys};
use crate::packed::{
    MAP_BREAK, MAP_CODE, MAP_FILE, MAP_GONE, MAP_HUGE, MAP_RESERVED, MAP_SHARED, MAP_STACK, Packed,
};
use core::ffi::c_void;

/// What the kernel rounds lengths to.
const PAGE: u64 = 4096;

hooks! {
    6 fn mmap(at: *mut c_void, bytes: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is mmap's.
        unsafe { map((at, bytes, protection, flags, file, offset), caller) }
    }
    6 fn mmap64(at: *mut c_void, bytes: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is mmap's.
        unsafe { map((at, bytes, protection, flags, file, offset), caller) }
    }
    2 fn munmap(at: *mut c_void, bytes: usize) -> i32, |caller| {
        // Before the call: the addresses may be another's as soon as it is done. One that fails unmaps nothing; it is told
        // all the same, for that is a program's error.
        // SAFETY: the caller's contract is munmap's.
        unsafe {
            tell(at as u64, bytes as u64, MAP_GONE, caller);
            next::munmap()(at, bytes)
        }
    }
    // Variadic in C: the sixth is there to have as many registers as mmap.
    6 fn mremap(at: *mut c_void, old: usize, new: usize, flags: i32, to: *mut c_void, _none: usize) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is mremap's.
        unsafe {
            let moved = next::mremap()(at, old, new, flags, to);
            if moved != libc::MAP_FAILED {
                if flags & libc::MREMAP_DONTUNMAP == 0 {
                    tell(at as u64, old as u64, MAP_GONE, caller);
                }
                tell(moved as u64, new as u64, 0, caller);
            }
            moved
        }
    }
    1 fn brk(to: *mut c_void) -> i32, |caller| {
        // SAFETY: the caller's contract is brk's; asking for no more moves nothing.
        unsafe {
            let before = next::sbrk()(0);
            let error = next::brk()(to);
            if error == 0 {
                moved_break(before as u64, to as u64, caller);
            }
            error
        }
    }
    1 fn sbrk(more: isize) -> *mut c_void, |caller| {
        // SAFETY: the caller's contract is sbrk's.
        unsafe {
            let before = next::sbrk()(more);
            if before as isize != -1 {
                moved_break(before as u64, (before as u64).wrapping_add_signed(more as i64), caller);
            }
            before
        }
    }
    1 fn _exit(status: i32), |_caller| {
        connect::last();
        // SAFETY: the caller's contract is _exit's.
        unsafe { next::exit()(status) }
    }
    1 fn _Exit(status: i32), |_caller| {
        connect::last();
        // SAFETY: the caller's contract is _Exit's, which is _exit's.
        unsafe { next::exit()(status) }
    }
}

type Arguments = (*mut c_void, usize, i32, i32, i32, i64);

/// `mmap` of both names.
#[inline(always)]
unsafe fn map(
    (at, bytes, protection, flags, file, offset): Arguments,
    caller: Caller,
) -> *mut c_void {
    // SAFETY: the caller's contract is mmap's.
    unsafe {
        let made = next::mmap()(at, bytes, protection, flags, file, offset);
        if made != libc::MAP_FAILED {
            tell(made as u64, bytes as u64, facts(protection, flags), caller);
        }
        made
    }
}

/// What the arguments of `mmap` say of the mapping.
fn facts(protection: i32, flags: i32) -> u64 {
    let is = |condition: bool, fact: u64| if condition { fact } else { 0 };
    // MAP_SHARED_VALIDATE has the bit of MAP_SHARED, too.
    is(flags & libc::MAP_ANONYMOUS == 0, MAP_FILE)
        | is(flags & libc::MAP_SHARED != 0, MAP_SHARED)
        | is(protection & libc::PROT_EXEC != 0, MAP_CODE)
        | is(flags & (libc::MAP_STACK | libc::MAP_GROWSDOWN) != 0, MAP_STACK)
        | is(flags & libc::MAP_HUGETLB != 0, MAP_HUGE)
        | is(protection == libc::PROT_NONE, MAP_RESERVED)
}

unsafe fn moved_break(before: u64, after: u64, caller: Caller) {
    // SAFETY: as in `tell`.
    unsafe {
        if after > before {
            tell(before, after - before, MAP_BREAK, caller);
        } else if after < before {
            tell(after, before - after, MAP_GONE, caller);
        }
    }
}

/// Puts the event, with whole pages. Signals are blocked meanwhile: unlike malloc, handlers do call mmap.
#[cold]
unsafe fn tell(at: u64, bytes: u64, flags: u64, caller: Caller) {
    let (tick, bytes) = (now(), bytes.saturating_add(PAGE - 1) & !(PAGE - 1));
    if bytes > 0 {
        let _signals = Signals::block();
        // SAFETY: no reference to the thread's words is alive in a hook.
        unsafe { slow::emit_map(Packed::map(at, bytes, flags, tick), tick, caller) };
    }
}

/// Tells of memory of the recorder's own, amid another event. False if the recording is over.
pub fn tell_own(
    thread: &mut Thread,
    (at, bytes): (u64, u64),
    flags: u64,
    put: fn(&mut Thread, Packed) -> bool,
) -> bool {
    let tick = if process::is_monotonic() { sys::monotonic_ns() } else { now() };
    let bytes = bytes.saturating_add(PAGE - 1) & !(PAGE - 1);
    let [wide, map] = Packed::map(at, bytes, flags, tick);
    put(thread, wide) && put(thread, map)
}

// What stands in while this thread looks a name up, or where there is no such function.

pub unsafe extern "C" fn mmap_itself(
    at: *mut c_void,
    bytes: usize,
    protection: i32,
    flags: i32,
    file: i32,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's contract is mmap's.
    unsafe {
        libc::syscall(libc::SYS_mmap, at, bytes, protection, flags, file, offset) as *mut c_void
    }
}

pub unsafe extern "C" fn munmap_itself(at: *mut c_void, bytes: usize) -> i32 {
    // SAFETY: the caller's contract is munmap's.
    unsafe { libc::syscall(libc::SYS_munmap, at, bytes) as i32 }
}

pub unsafe extern "C" fn mremap_itself(
    at: *mut c_void,
    old: usize,
    new: usize,
    flags: i32,
    to: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's contract is mremap's.
    unsafe { libc::syscall(libc::SYS_mremap, at, old, new, flags, to) as *mut c_void }
}

/// Only the C library knows where the break is.
pub extern "C" fn no_break(_to: *mut c_void) -> i32 {
    no_memory();
    -1
}

pub extern "C" fn no_more_break(_more: isize) -> *mut c_void {
    no_memory();
    libc::MAP_FAILED
}

fn no_memory() {
    // SAFETY: errno's location is valid for the thread.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
}

pub unsafe extern "C" fn exit_itself(status: i32) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
