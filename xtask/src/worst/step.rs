//! Counts the instructions of one call: the processor traps after each (the trap flag of x86-64).
//!
//! Exact and repeatable, needs no tool and no privilege, and stops a call that does not end.
//! One measurement at a time in a process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// A function of two words, as every allocator's malloc and free can be called.
pub type Call = unsafe extern "C" fn(usize, usize) -> usize;

/// What takes more is a loop without a bound.
const MOST: u64 = 20_000_000;

static STEPS: AtomicU64 = AtomicU64::new(0);
static ENDLESS: AtomicBool = AtomicBool::new(false);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The right to count.
pub struct Stepper {
    _turn: MutexGuard<'static, ()>,
    /// Traps of a call of an empty function, but for its one instruction.
    overhead: u64,
}

extern "C" fn nothing(_: usize, _: usize) -> usize {
    0
}

impl Stepper {
    /// Installs the trap's handler. `None` where the processor is not x86-64.
    pub fn new() -> Option<Stepper> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            return None;
        }
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        static ONCE: Once = Once::new();
        ONCE.call_once(install);
        let mut stepper = Stepper { _turn: turn, overhead: 0 };
        // What `nothing` compiles to is not known; a bare return is one instruction.
        let (_, least) = stepper.count(ret(), 0, 0);
        stepper.overhead = least - 1;
        let (_, empty) = stepper.count(nothing, 0, 0);
        (1..10).contains(&empty).then_some(stepper)
    }

    /// Calls `f`, and counts from its first instruction to its return, both included.
    pub fn count(&mut self, f: Call, a: usize, b: usize) -> (usize, u64) {
        STEPS.store(0, Relaxed);
        let result = stepped(f, a, b);
        assert!(!ENDLESS.swap(false, Relaxed), "a call took more than {MOST} instructions");
        (result, STEPS.load(Relaxed) - self.overhead)
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn install() {
    extern "C" fn trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        if STEPS.fetch_add(1, Relaxed) > MOST {
            ENDLESS.store(true, Relaxed);
            // SAFETY: the kernel gives a handler its context; without the flag the call runs on freely.
            unsafe {
                let context = context.cast::<libc::ucontext_t>();
                (*context).uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100;
            }
        }
    }
    // SAFETY: the handler touches two atomics and its own context.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = trap;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn ret() -> Call {
    #[unsafe(naked)]
    unsafe extern "C" fn bare(_: usize, _: usize) -> usize {
        std::arch::naked_asm!("ret")
    }
    bare
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn stepped(f: Call, a: usize, b: usize) -> usize {
    let result;
    // SAFETY: sets the trap flag, calls a C function, and clears the flag; the stack is as it was.
    unsafe {
        std::arch::asm!(
            "pushfq",
            "or qword ptr [rsp], 0x100",
            "popfq",
            "call {f}",
            "pushfq",
            "and qword ptr [rsp], -0x101",
            "popfq",
            f = in(reg) f,
            inout("rdi") a => _,
            inout("rsi") b => _,
            out("rax") result,
            clobber_abi("C"),
        );
    }
    result
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn install() {}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn ret() -> Call {
    nothing
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn stepped(f: Call, a: usize, b: usize) -> usize {
    // SAFETY: never called: `Stepper::new` gives none here.
    unsafe { f(a, b) }
}

#[cfg(test)]
mod tests {
    use super::Stepper;

    extern "C" fn sum_to(n: usize, _: usize) -> usize {
        (0..n).fold(0, |sum, i| std::hint::black_box(sum + i))
    }

    #[test]
    fn counts_are_exact_and_repeat() {
        let Some(mut stepper) = Stepper::new() else { return };
        assert_eq!(stepper.count(super::ret(), 0, 0).1, 1);
        let (sum, ten) = stepper.count(sum_to, 10, 0);
        assert_eq!(sum, 45);
        assert_eq!(stepper.count(sum_to, 10, 0).1, ten);
        let (twenty, thirty) = (stepper.count(sum_to, 20, 0).1, stepper.count(sum_to, 30, 0).1);
        assert_eq!(twenty - ten, thirty - twenty, "every round is as long");
    }
}
