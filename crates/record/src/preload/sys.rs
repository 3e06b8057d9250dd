//! Linux system calls, made directly.
//!
//! The C library's wrappers are cancellation points, set `errno` and may be interposed by the
//! program; a hook may do none of these things. Every function returns the kernel's answer: negative
//! is an error number.

use core::arch::asm;
use core::ffi::c_void;
use core::mem::size_of;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicI32, Ordering};

/// # Safety
/// As the system call `number` demands of its arguments.
#[inline]
unsafe fn call(number: i64, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    let answer: isize;
    // SAFETY: the kernel changes rax, rcx and r11 and what the arguments allow it to change.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// A descriptor that is closed when dropped.
pub struct Descriptor(i32);

/// The descriptors that are open now, plus one each: for a child of a fork that came amid a talk with the parent.
/// (More than have a place here are not open at once but by threads that all doubt whether the parent lives.)
static OPEN: [AtomicI32; 8] = [const { AtomicI32::new(0) }; 8];

/// In a child of `fork`, before it opens any: closes those that it inherited.
pub fn close_inherited() {
    for place in &OPEN {
        let fd = place.swap(0, Ordering::Relaxed) - 1;
        if fd >= 0 {
            drop(Descriptor(fd));
        }
    }
}

impl Descriptor {
    fn new(fd: i32) -> Descriptor {
        let (free, taken) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = OPEN.iter().any(|place| place.compare_exchange(0, fd + 1, taken, free).is_ok());
        Descriptor(fd)
    }

    /// Maps `bytes` of it, shared and writable, or nothing.
    pub fn map(&self, bytes: usize) -> Option<*mut c_void> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let answer = unsafe {
            call(
                libc::SYS_mmap,
                0,
                bytes,
                protection as usize,
                libc::MAP_SHARED as usize,
                self.0 as usize,
                0,
            )
        };
        (answer > 0).then_some(answer as *mut c_void)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // Taken off first: once it is closed, the number may be the program's.
        for place in &OPEN {
            if place.load(Ordering::Relaxed) == self.0 + 1 {
                place.store(0, Ordering::Relaxed);
            }
        }
        // SAFETY: the descriptor is ours and is not used again.
        unsafe { call(libc::SYS_close, self.0 as usize, 0, 0, 0, 0, 0) };
    }
}

/// A socket connected to the abstract address `name`, or the error number.
pub fn connect(name: &[u8]) -> Result<Descriptor, i32> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: makes a descriptor; touches no memory.
    let fd = unsafe { call(libc::SYS_socket, libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0) };
    if fd < 0 {
        return Err(-fd as i32);
    }
    let socket = Descriptor::new(fd as i32);
    let mut address = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    // The path begins with a zero byte: the name is abstract.
    for (to, &from) in address.sun_path.iter_mut().skip(1).zip(name) {
        *to = from as i8;
    }
    let bytes = size_of::<u16>() + 1 + name.len();
    loop {
        // SAFETY: `address` is a whole sockaddr_un and `bytes` is at most its size (name is at most
        // NAME_BYTES long).
        let answer = unsafe {
            call(libc::SYS_connect, fd as usize, &raw const address as usize, bytes, 0, 0, 0)
        };
        match -answer as i32 {
            0 => return Ok(socket),
            libc::EINTR => {}
            error => return Err(error),
        }
    }
}

/// Sets the time after which [`receive`] gives up.
pub fn set_patience(socket: &Descriptor, seconds: i64) {
    let time = libc::timeval { tv_sec: seconds, tv_usec: 0 };
    // SAFETY: the option takes a timeval, which `time` is.
    unsafe {
        call(
            libc::SYS_setsockopt,
            socket.0 as usize,
            libc::SOL_SOCKET as usize,
            libc::SO_RCVTIMEO as usize,
            &raw const time as usize,
            size_of::<libc::timeval>(),
            0,
        )
    };
}

/// Sends one message whole. Never raises SIGPIPE.
pub fn send(socket: &Descriptor, message: &[u8]) -> bool {
    let flags = libc::MSG_NOSIGNAL as usize;
    loop {
        // SAFETY: the kernel reads `message` only.
        let answer = unsafe {
            call(
                libc::SYS_sendto,
                socket.0 as usize,
                message.as_ptr() as usize,
                message.len(),
                flags,
                0,
                0,
            )
        };
        if answer != -(libc::EINTR as isize) {
            return answer == message.len() as isize;
        }
    }
}

/// Room for two descriptors in a control message.
#[repr(C, align(8))]
struct Control {
    header: libc::cmsghdr,
    descriptors: [i32; 2],
}

/// Receives one message of exactly `N` bytes and two descriptors.
pub fn receive<const N: usize>(socket: &Descriptor) -> Option<([u8; N], [Descriptor; 2])> {
    let mut bytes = [0u8; N];
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: N };
    // SAFETY: all zero is a valid cmsghdr.
    let mut control = Control { header: unsafe { core::mem::zeroed() }, descriptors: [-1; 2] };
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    let flags = libc::MSG_CMSG_CLOEXEC as usize;
    let answer = loop {
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>();
        // SAFETY: the message names `bytes` and `control` with their true sizes.
        let answer = unsafe {
            call(libc::SYS_recvmsg, socket.0 as usize, &raw mut message as usize, flags, 0, 0, 0)
        };
        if answer != -(libc::EINTR as isize) {
            break answer;
        }
    };
    // SAFETY: the kernel wrote `bytes` and `control` through the pointers above; reading them as
    // volatile keeps the compiler from remembering what stood there before.
    let (bytes, control) =
        unsafe { ((&raw const bytes).read_volatile(), (&raw const control).read_volatile()) };
    let rights = control.header.cmsg_level == libc::SOL_SOCKET
        && control.header.cmsg_type == libc::SCM_RIGHTS
        && control.header.cmsg_len == size_of::<libc::cmsghdr>() + 2 * size_of::<i32>();
    if !rights {
        return None;
    }
    let [first, second] = control.descriptors;
    let descriptors = [Descriptor::new(first), Descriptor::new(second)];
    (answer == N as isize).then_some((bytes, descriptors))
}

/// `madvise`; true if the kernel took it.
///
/// # Safety
/// The range is a mapping of our own, and the advice keeps what others may read.
pub unsafe fn advise(start: *mut c_void, bytes: usize, advice: i32) -> bool {
    // SAFETY: as the caller promises.
    unsafe { call(libc::SYS_madvise, start as usize, bytes, advice as usize, 0, 0, 0) == 0 }
}

/// Puts zeroes where nothing is mapped; false where something is, or where there is no room.
///
/// # Safety
/// Nobody relies on the range being without memory.
pub unsafe fn fill(start: *mut c_void, bytes: usize) -> bool {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: with MAP_FIXED_NOREPLACE no memory in use is touched. (A kernel that does not know the flag takes the
    // address for a hint.)
    unsafe {
        let start = start as usize;
        call(libc::SYS_mmap, start, bytes, protection, flags as usize, usize::MAX, 0)
            == start as isize
    }
}

/// All signals, or those that were blocked before.
pub struct Signals(u64);

/// Bytes of the kernel's set of signals.
const SIGNAL_BYTES: usize = size_of::<u64>();

impl Signals {
    /// Blocks all signals of this thread, until dropped.
    pub fn block() -> Signals {
        let (all, mut before) = (u64::MAX, 0u64);
        let set = libc::SIG_SETMASK as usize;
        let (new, old) = (&raw const all as usize, &raw mut before as usize);
        // SAFETY: the kernel reads one set and writes another.
        unsafe { call(libc::SYS_rt_sigprocmask, set, new, old, SIGNAL_BYTES, 0, 0) };
        // SAFETY: read as volatile, for the kernel wrote through the pointer above.
        Signals(unsafe { (&raw const before).read_volatile() })
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        let (set, before) = (libc::SIG_SETMASK as usize, &raw const self.0 as usize);
        // SAFETY: the kernel reads the set.
        unsafe { call(libc::SYS_rt_sigprocmask, set, before, 0, SIGNAL_BYTES, 0, 0) };
    }
}

/// The number of this process.
pub fn pid() -> u32 {
    // SAFETY: touches nothing.
    unsafe { call(libc::SYS_getpid, 0, 0, 0, 0, 0, 0) as u32 }
}

/// Sleeps while `*word` is `expected`, at most `milliseconds`. The word may be shared.
pub fn wait(word: &core::sync::atomic::AtomicU32, expected: u32, milliseconds: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    let word = core::ptr::from_ref(word) as usize;
    let time = &raw const time as usize;
    // SAFETY: the kernel reads the word and the time.
    unsafe {
        call(libc::SYS_futex, word, libc::FUTEX_WAIT as usize, expected as usize, time, 0, 0)
    };
}

/// Wakes whoever sleeps on the word.
pub fn wake(word: &core::sync::atomic::AtomicU32) {
    let word = core::ptr::from_ref(word) as usize;
    let all = i32::MAX as usize;
    // SAFETY: the kernel reads the address only.
    unsafe {
        call(
            libc::SYS_futex,
            word,
            libc::FUTEX_WAKE as usize,
            all,
            null::<u8>() as usize,
            null_mut::<u8>() as usize,
            0,
        )
    };
}

/// Lets others run.
pub fn pass() {
    // SAFETY: touches nothing.
    unsafe { call(libc::SYS_sched_yield, 0, 0, 0, 0, 0, 0) };
}

/// Sleeps.
pub fn nap(milliseconds: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: milliseconds * 1_000_000 };
    // SAFETY: the kernel reads the time.
    unsafe { call(libc::SYS_nanosleep, &raw const time as usize, 0, 0, 0, 0, 0) };
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let clock = libc::CLOCK_MONOTONIC as usize;
    // SAFETY: the kernel writes the one timespec.
    unsafe { call(libc::SYS_clock_gettime, clock, &raw mut time as usize, 0, 0, 0, 0) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Writes a line on the program's standard error.
pub fn complain(line: &[u8]) {
    // SAFETY: the kernel reads `line` only.
    unsafe { call(libc::SYS_write, 2, line.as_ptr() as usize, line.len(), 0, 0, 0) };
}
