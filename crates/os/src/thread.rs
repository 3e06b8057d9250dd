//! A thread that glibc does not know: for the purger.
//!
//! Why not `pthread_create`: it takes locks of glibc's under which glibc itself calls `free`
//! (thread stacks, dlopen), so a malloc that starts a thread from `free` could wait for itself; it
//! makes `__libc_single_threaded` false, which slows every C++ shared pointer; and it keeps a
//! process alive whose last real thread calls `pthread_exit`. What remains true of any second
//! thread: `unshare(CLONE_NEWUSER)` and `setns` to a user namespace refuse a process that has one.
//!
//! The thread shares its creator's thread pointer, so it must not touch thread-local storage,
//! `errno` included. It drops its capabilities: glibc's `setuid` cannot reach it, so what a program
//! gives up, this thread has given up before.

use crate::syscall::{Number, call};
use core::cell::UnsafeCell;

/// Bytes of stack.
const STACK: usize = 32 * 1024;

/// The stack of one hidden thread.
#[repr(C, align(64))]
pub struct Stack(UnsafeCell<[u8; STACK]>);

// SAFETY: only the thread that runs on it touches it; `spawn`'s contract allows one at a time.
unsafe impl Sync for Stack {}

impl Default for Stack {
    fn default() -> Stack {
        Stack::new()
    }
}

impl Stack {
    /// A stack nobody runs on.
    pub const fn new() -> Stack {
        Stack(UnsafeCell::new([0; STACK]))
    }
}

const CLONE_VM: usize = 0x100;
const CLONE_FS: usize = 0x200;
const CLONE_FILES: usize = 0x400;
const CLONE_SIGHAND: usize = 0x800;
const CLONE_THREAD: usize = 0x1_0000;
const CLONE_SYSVSEM: usize = 0x4_0000;
const SIG_SETMASK: usize = 2;

/// Starts `main` on `stack`, all signals blocked; `false` when the kernel refuses.
///
/// # Safety
/// No other thread runs on the stack. `main` uses no thread-local storage.
pub unsafe fn spawn(stack: &'static Stack, main: extern "C" fn() -> !) -> bool {
    let (all, mut old) = (u64::MAX, 0u64);
    let (all, saved) = ((&raw const all).addr(), (&raw mut old).addr());
    // SAFETY: both masks are ours, eight bytes each.
    unsafe { call(Number::SigProcMask, [SIG_SETMASK, all, saved, 8, 0, 0]) };
    let top = stack.0.get().addr() + STACK;
    // SAFETY: the stack is free and 16-aligned at its top.
    let started = unsafe { clone(top, main) };
    // SAFETY: as above.
    unsafe { call(Number::SigProcMask, [SIG_SETMASK, saved, 0, 8, 0, 0]) };
    started > 0
}

/// # Safety
/// As [`spawn`]; `top` is the end of the stack.
unsafe fn clone(top: usize, main: extern "C" fn() -> !) -> isize {
    const FLAGS: usize =
        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    let result: isize;
    // SAFETY: the child starts on its own stack with no frame above it and never returns; in the
    // parent this is a plain system call.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "call r12",
            "ud2",
            "2:",
            in("r12") main,
            inlateout("rax") Number::Clone as usize => result,
            in("rdi") FLAGS, in("rsi") top, in("rdx") 0, in("r10") 0, in("r8") 0,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// Gives up every capability of the calling thread.
pub fn drop_capabilities() {
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0u32; 6];
    // SAFETY: the kernel reads a header and two triples.
    unsafe { call(Number::CapSet, [header.as_ptr().addr(), none.as_ptr().addr(), 0, 0, 0, 0]) };
}
