//! Calls by which a program gives something up, or for which it must have one thread: the purger ends before them, and does
//! not start while they last.
//!
//! glibc's `setuid` and its relatives reach the threads that glibc knows; a filter for system calls that shall hold for all
//! threads cannot reach one that has a filter of its own; `unshare` and `setns` want a process without other threads. So these
//! names are ours. Those by which the C library changes all its threads lead to its own function of the name; the others are
//! system calls, and made here. `syscall` is among them: it is how libseccomp, libcap and others make such calls. Who makes
//! them by an instruction of his own is not noticed; then what the purger may do at all is all that is left to it
//! (`freehold_os::thread::confine`).

#![cfg_attr(not(feature = "preload"), allow(dead_code))]

use crate::call::make;
use crate::malloc::set_errno;
use crate::next::Next;
use freehold::purger;
use libc::{c_int, c_long, c_ulong, c_void, gid_t, size_t, uid_t};

/// Functions by which the C library changes all threads that it knows.
macro_rules! for_all_threads {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, while there is no purger.")]
        ///
        /// # Safety
        /// As its manual page says.
        #[cfg_attr(all(feature = "preload", not(feature = "archive")), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
            static NEXT: Next = Next::new(
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );
            let next = NEXT.get();
            if next.is_null() {
                set_errno(libc::ENOSYS);
                return -1;
            }
            let _pause = purger::pause();
            // SAFETY: the C library's function of this name has these arguments; the rest is the caller's.
            unsafe {
                core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($type),*) -> c_int>(next)($($arg),*)
            }
        }
    )*};
}

for_all_threads! {
    setuid(user: uid_t);
    seteuid(user: uid_t);
    setreuid(real: uid_t, effective: uid_t);
    setresuid(real: uid_t, effective: uid_t, saved: uid_t);
    setgid(group: gid_t);
    setegid(group: gid_t);
    setregid(real: gid_t, effective: gid_t);
    setresgid(real: gid_t, effective: gid_t, saved: gid_t);
    setgroups(len: size_t, groups: *const gid_t);
}

/// Functions that are system calls of the same name, in the C library, too.
macro_rules! system_calls {
    ($($name:ident($a:ident: $first:ty $(, $b:ident: $second:ty)?) = $number:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, while there is no purger.")]
        ///
        /// # Safety
        /// As its manual page says.
        #[cfg_attr(feature = "preload", unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($a: $first $(, $b: $second)?) -> c_int {
            let words = [$a as c_long, 0 $(+ $b as c_long)?, 0, 0, 0, 0];
            let _pause = purger::pause();
            // SAFETY: the caller's.
            unsafe { make(libc::$number, words) as c_int }
        }
    )*};
}

system_calls! {
    setfsuid(user: uid_t) = SYS_setfsuid;
    setfsgid(group: gid_t) = SYS_setfsgid;
    capset(header: *mut c_void, data: *const c_void) = SYS_capset;
    unshare(what: c_int) = SYS_unshare;
    setns(descriptor: c_int, what: c_int) = SYS_setns;
}

const PR_CAPBSET_DROP: c_int = 24;
const PR_SET_SECUREBITS: c_int = 28;
const PR_CAP_AMBIENT: c_int = 47;

/// `prctl`; there is no purger while a filter is set or a privilege given up.
///
/// # Safety
/// As its manual page says.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(
    option: c_int,
    a: c_ulong,
    b: c_ulong,
    c: c_ulong,
    d: c_ulong,
) -> c_int {
    let gives_up = matches!(
        option,
        libc::PR_SET_SECCOMP
            | libc::PR_SET_NO_NEW_PRIVS
            | PR_CAPBSET_DROP
            | PR_SET_SECUREBITS
            | PR_CAP_AMBIENT
    );
    let _pause = gives_up.then(purger::pause);
    // SAFETY: the caller's; the kernel looks at what the option has.
    unsafe { make(libc::SYS_prctl, [option.into(), a as _, b as _, c as _, d as _, 0]) as c_int }
}

/// The numbers of system calls for which `syscall` ends the purger, one bit each.
static NUMBERS: [u64; 5] = {
    let all = [
        libc::SYS_exit,
        libc::SYS_setuid,
        libc::SYS_setgid,
        libc::SYS_setreuid,
        libc::SYS_setregid,
        libc::SYS_setgroups,
        libc::SYS_setresuid,
        libc::SYS_setresgid,
        libc::SYS_setfsuid,
        libc::SYS_setfsgid,
        libc::SYS_capset,
        libc::SYS_prctl,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_seccomp,
    ];
    let (mut bits, mut at) = ([0; 5], 0);
    while at < all.len() {
        bits[all[at] as usize / 64] |= 1 << (all[at] % 64);
        at += 1;
    }
    bits
};

/// `syscall`, and for those of [`NUMBERS`] without the purger. All others are made here and now.
///
/// # Safety
/// As the call's manual page says.
#[cfg(feature = "preload")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    core::arch::naked_asm!(
        "cmp rdi, {most}",
        "ja 2f",
        "lea rax, [rip + {numbers}]",
        "bt qword ptr [rax], rdi",
        "jc {slow}",
        "2:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 3f",
        "ret",
        "3:",
        "neg eax",
        "mov edi, eax",
        "sub rsp, 8",
        "call {failed}",
        "add rsp, 8",
        "mov rax, -1",
        "ret",
        most = const libc::SYS_seccomp,
        numbers = sym NUMBERS,
        slow = sym syscall_slow,
        failed = sym failed,
    )
}

extern "C" fn failed(error: c_int) {
    set_errno(error);
}

/// # Safety
/// As [`syscall`].
#[cold]
unsafe extern "C" fn syscall_slow(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    let pause = purger::pause();
    // A thread that ends takes nothing along: others may need the purger.
    let _pause = (number != libc::SYS_exit).then_some(pause);
    // SAFETY: the caller's.
    unsafe { make(number, [a, b, c, d, e, f]) }
}
