//! A thread that glibc does not know: for the purger.
//!
//! Why not `pthread_create`: it takes locks of glibc's under which glibc itself calls `free`
//! (thread stacks, dlopen), so a malloc that starts a thread from `free` could wait for itself; it
//! makes `__libc_single_threaded` false, which slows every C++ shared pointer; and it keeps a
//! process alive whose last real thread calls `pthread_exit`. What remains true of any second
//! thread: `unshare(CLONE_NEWUSER)` and `setns` to a user namespace refuse a process that has one.
//!
//! ```text
//! Room   stack, growing down  |  block: its own address     what %fs points to, where glibc's thread would have its own
//! ```
//!
//! The thread has a thread pointer of its own, so that locks can name it, but no thread-local storage behind it: it must not
//! touch any, `errno` included. It cannot be reached by what glibc does to all threads (`setuid`), so it keeps nothing that a
//! program might give up: no capability, and of all system calls those that it needs ([`confine`]).

use crate::syscall::{Number, call};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Bytes of stack.
const STACK: usize = 32 * 1024;

/// Where one hidden thread lives.
#[repr(C, align(64))]
pub struct Room {
    stack: UnsafeCell<[u8; STACK]>,
    /// What the thread pointer points to. The processor's ABI wants its own address first, and compilers read no more than
    /// a few words of it.
    block: UnsafeCell<[usize; 8]>,
    /// Not 0 while a thread may be on the stack; the kernel makes it 0 when it has left that for good, and wakes who waits.
    tenant: AtomicU32,
    /// The thread's number. The system knows it a little longer: counts it, shows it, refuses what wants one thread only.
    number: AtomicU32,
    /// The number of the thread before it, which the system may know still.
    former: AtomicU32,
}

// SAFETY: only the thread that lives in it touches stack and block; `spawn` sees to it that there is one at a time.
unsafe impl Sync for Room {}

impl Default for Room {
    fn default() -> Room {
        Room::new()
    }
}

const CLONE_VM: usize = 0x100;
const CLONE_FS: usize = 0x200;
const CLONE_FILES: usize = 0x400;
const CLONE_SIGHAND: usize = 0x800;
const CLONE_THREAD: usize = 0x1_0000;
const CLONE_SYSVSEM: usize = 0x4_0000;
const CLONE_SETTLS: usize = 0x8_0000;
const CLONE_PARENT_SETTID: usize = 0x10_0000;
const CLONE_CHILD_CLEARTID: usize = 0x20_0000;
const SIG_SETMASK: usize = 2;
const FUTEX_WAIT: usize = 0;
/// How long the system may know a thread that has ended.
const MOMENTS: usize = 1000;
const MOMENT_NS: usize = 1_000_000;

impl Room {
    /// Nobody lives there.
    pub const fn new() -> Room {
        Room {
            stack: UnsafeCell::new([0; STACK]),
            block: UnsafeCell::new([0; 8]),
            tenant: AtomicU32::new(0),
            number: AtomicU32::new(0),
            former: AtomicU32::new(0),
        }
    }

    /// Whether no thread lives there any more.
    pub fn is_empty(&self) -> bool {
        self.tenant.load(Ordering::Acquire) == 0
    }

    /// In a process that was copied: the thread did not come along.
    pub fn vacate(&self) {
        self.number.store(0, Ordering::Relaxed);
        self.former.store(0, Ordering::Relaxed);
        self.tenant.store(0, Ordering::Release);
    }

    /// Waits until the system does not know any thread that lived there: at most `times` a tenth of a second for its end, and
    /// a second for each number.
    pub fn wait_until_forgotten(&self, times: usize) {
        self.wait_until_empty(times);
        for word in [&self.former, &self.number] {
            let number = word.load(Ordering::Relaxed);
            if number != 0 {
                wait_until_unknown(number);
                let _ = word.compare_exchange(number, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }

    fn wait_until_empty(&self, times: usize) {
        for _ in 0..times {
            let tenant = self.tenant.load(Ordering::Acquire);
            if tenant == 0 {
                return;
            }
            let (word, time) = (self.tenant.as_ptr().addr(), [0_usize, 100_000_000]);
            // The kernel wakes this word as one that processes may share. Signals may end the wait early.
            // SAFETY: reads the word and the time, which live.
            unsafe {
                call(Number::Futex, [word, FUTEX_WAIT, tenant as usize, time.as_ptr().addr(), 0, 0])
            };
        }
    }

    /// Starts `main` there, all signals blocked; `false` when somebody lives there, or the kernel refuses.
    ///
    /// # Safety
    /// `main` uses no thread-local storage, and one thread at a time calls this.
    pub unsafe fn spawn(&'static self, main: extern "C" fn()) -> bool {
        if !self.is_empty() {
            return false;
        }
        let block = self.block.get();
        // SAFETY: nobody lives there.
        unsafe { (*block)[0] = block.addr() };
        let (all, mut old) = (u64::MAX, 0u64);
        let (all, saved) = ((&raw const all).addr(), (&raw mut old).addr());
        // SAFETY: both masks are ours, eight bytes each.
        unsafe { call(Number::SigProcMask, [SIG_SETMASK, all, saved, 8, 0, 0]) };
        let top = self.stack.get().addr() + STACK;
        let words = [&self.number, &self.tenant].map(|word| word.as_ptr().addr());
        self.tenant.store(1, Ordering::Relaxed);
        self.former.store(self.number.load(Ordering::Relaxed), Ordering::Relaxed);
        // SAFETY: the stack is free and 16-aligned at its top.
        let started = unsafe { clone(top, main, words, block.addr()) };
        if started <= 0 {
            self.tenant.store(0, Ordering::Relaxed);
        }
        // SAFETY: as above.
        unsafe { call(Number::SigProcMask, [SIG_SETMASK, saved, 0, 8, 0, 0]) };
        started > 0
    }
}

/// Waits until no thread of this process has the number, a second at most: it may be another thread's by now.
fn wait_until_unknown(number: u32) {
    for _ in 0..MOMENTS {
        // SAFETY: asks whether there is a thread of this number, to which nothing is sent.
        let known =
            unsafe { call(Number::TgKill, [process() as usize, number as usize, 0, 0, 0, 0]) == 0 };
        if !known {
            return;
        }
        let (word, time) = (AtomicU32::new(0), [0_usize, MOMENT_NS]);
        let (at, time) = (word.as_ptr().addr(), time.as_ptr().addr());
        // SAFETY: reads the word and the time, which live.
        unsafe { call(Number::Futex, [at, FUTEX_WAIT, 0, time, 0, 0]) };
    }
}

const _: () = assert!(STACK.is_multiple_of(16) && offset_of!(Room, stack) == 0);

/// # Safety
/// As [`Room::spawn`]; `top` is the end of the stack, the others are the room's: where the thread's number is written, what is
/// made 0 at its end, and what it points to.
unsafe fn clone(
    top: usize,
    main: extern "C" fn(),
    [number, tenant]: [usize; 2],
    block: usize,
) -> isize {
    const FLAGS: usize = CLONE_VM
        | CLONE_FS
        | CLONE_FILES
        | CLONE_SIGHAND
        | CLONE_THREAD
        | CLONE_SYSVSEM
        | CLONE_SETTLS
        | CLONE_PARENT_SETTID
        | CLONE_CHILD_CLEARTID;
    let result: isize;
    // SAFETY: the child starts on its own stack with no frame above it, and ends itself when `main` returns; in the
    // parent this is a plain system call.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "call r12",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "ud2",
            "2:",
            exit = const Number::Exit as usize,
            in("r12") main,
            inlateout("rax") Number::Clone as usize => result,
            in("rdi") FLAGS, in("rsi") top, in("rdx") number, in("r10") tenant, in("r8") block,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// One instruction of a filter: `struct sock_filter`.
#[repr(C)]
struct Instruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

/// What a filter consists of: `struct sock_fprog`.
#[repr(C)]
struct Program {
    len: u16,
    first: *const Instruction,
}

const LOAD_WORD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7FFF_0000;
/// `EPERM` for everything else.
const REFUSE: u32 = 0x0005_0001;
/// In the data that a filter reads: the processor's architecture, and the number of the call.
const ARCHITECTURE_AT: u32 = 4;
const NUMBER_AT: u32 = 0;
const X86_64: u32 = 0xC000_003E;

/// Gives up, for the calling thread alone and for good, every capability, and every system call but giving pages back
/// (`madvise`), waiting (`futex`) and ending (`exit`); all others answer `EPERM`. `false` when the kernel refuses: then the
/// thread should end.
pub fn confine() -> bool {
    const NO_NEW_PRIVILEGES: usize = 38;
    const SET_FILTER: usize = 1;
    const fn allows(number: Number, on: u8) -> Instruction {
        Instruction { code: JUMP_IF_EQUAL, if_true: on, if_false: 0, operand: number as u32 }
    }
    static FILTER: [Instruction; 8] = [
        Instruction { code: LOAD_WORD, if_true: 0, if_false: 0, operand: ARCHITECTURE_AT },
        Instruction { code: JUMP_IF_EQUAL, if_true: 0, if_false: 4, operand: X86_64 },
        Instruction { code: LOAD_WORD, if_true: 0, if_false: 0, operand: NUMBER_AT },
        allows(Number::Madvise, 3),
        allows(Number::Futex, 2),
        allows(Number::Exit, 1),
        Instruction { code: RETURN, if_true: 0, if_false: 0, operand: REFUSE },
        Instruction { code: RETURN, if_true: 0, if_false: 0, operand: ALLOW },
    ];
    let header: [u32; 2] = [0x2008_0522, 0];
    let none = [0u32; 6];
    let program = Program { len: FILTER.len() as u16, first: FILTER.as_ptr() };
    // SAFETY: the kernel reads a header and two triples, and a filter, whose jumps stay within it.
    unsafe {
        call(Number::CapSet, [header.as_ptr().addr(), none.as_ptr().addr(), 0, 0, 0, 0]);
        call(Number::PrCtl, [NO_NEW_PRIVILEGES, 1, 0, 0, 0, 0]) == 0
            && call(Number::Seccomp, [SET_FILTER, 0, (&raw const program).addr(), 0, 0, 0]) == 0
    }
}

/// Whether the C library has started no thread, or all have ended: nobody else is about to touch anything. (The hidden ones do
/// not count. glibc says so from 2.32 on; where nobody says anything, there may be others.)
#[inline]
pub fn is_alone() -> bool {
    let flag: *const AtomicU8;
    // SAFETY: reads the address of a byte of the C library's, null where it has none.
    unsafe {
        core::arch::asm!(
            ".weak __libc_single_threaded",
            "mov {0}, qword ptr [rip + __libc_single_threaded@GOTPCREL]",
            out(reg) flag,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    // SAFETY: as above; the byte stays as long as the C library does.
    unsafe { flag.as_ref() }.is_some_and(|flag| flag.load(Ordering::Relaxed) != 0)
}

/// The process's number. Not `getpid`: a library that stands in front of it may allocate there (libfaketime does).
pub fn process() -> u32 {
    // SAFETY: asks for a number.
    unsafe { call(Number::GetPid, [0; 6]) as u32 }
}

/// Whether the calling thread is the process's first.
pub fn is_first() -> bool {
    // SAFETY: asks for a number.
    unsafe { call(Number::GetTid, [0; 6]) as u32 == process() }
}

/// The calling thread's pointer: where its own address lies.
#[inline(always)]
pub fn pointer() -> usize {
    let at: usize;
    // SAFETY: reads the thread pointer, whose first word is its own address (x86-64 ABI).
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr fs:[0]",
            out(reg) at,
            options(readonly, nostack, preserves_flags),
        );
    }
    at
}
