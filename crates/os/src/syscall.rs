//! Bare system calls. The answer is the kernel's: negative errors stay numbers, `errno` stays.

/// The calls that are made, by their number on x86-64.
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Number {
    Read = 0,
    Write = 1,
    Close = 3,
    Mmap = 9,
    Mprotect = 10,
    Munmap = 11,
    SigProcMask = 14,
    Mremap = 25,
    Madvise = 28,
    GetPid = 39,
    Clone = 56,
    Exit = 60,
    CapSet = 126,
    PrCtl = 157,
    GetTid = 186,
    Futex = 202,
    TgKill = 234,
    MBind = 237,
    GetMemPolicy = 239,
    OpenAt = 257,
    MovePages = 279,
    GetCpu = 309,
    Seccomp = 317,
    GetRandom = 318,
}

/// Makes a system call.
///
/// # Safety
/// As the call's manual page says.
#[cfg(target_arch = "x86_64")]
#[inline]
pub unsafe fn call(number: Number, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the kernel preserves all but rax, rcx and r11; memory is the caller's argument.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as usize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(not(target_arch = "x86_64"))]
compile_error!("freehold-os makes its system calls for x86-64 only, so far");
