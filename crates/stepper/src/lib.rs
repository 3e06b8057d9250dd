//! Counts the instructions of one call, or runs something between every two: the processor traps after each (the trap flag
//! of x86-64).
//!
//! Exact and repeatable, needs no tool and no privilege, and stops a call that does not end.
//! One measurement at a time in a process. Neighbours: `cargo xtask worst` looks for the longest calls with it,
//! the study of DmRT counts its allocators' calls, a test of the malloc forks between any two instructions.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// A function of two words, as every allocator's malloc and free can be called.
pub type Call = unsafe extern "C" fn(usize, usize) -> usize;

/// What takes more is a loop without a bound.
const MOST: u64 = 20_000_000;

static STEPS: AtomicU64 = AtomicU64::new(0);
/// Where the handler writes a moment for each step, for as many as there is room; null: nowhere.
static MOMENTS: AtomicPtr<Moment> = AtomicPtr::new(std::ptr::null_mut());
/// What the handler calls at each step; null: nothing.
static VISITOR: AtomicPtr<Visitor> = AtomicPtr::new(std::ptr::null_mut());
static ENDLESS: AtomicBool = AtomicBool::new(false);
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What is called with the step's number and its moment.
type Visitor<'a> = &'a mut dyn FnMut(u64, Moment);

/// Moments written down of one call; a longer one's others are lost.
const MOST_MOMENTS: usize = 1 << 16;

/// General registers by name, in the order of [`Moment::registers`].
pub const REGISTERS: [&str; 16] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];

/// The processor just before an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    /// Where the instruction is.
    pub at: u64,
    /// What the registers hold.
    pub registers: [u64; REGISTERS.len()],
}

impl Moment {
    /// The stack's pointer.
    pub fn stack(&self) -> u64 {
        self.registers[7]
    }
}

/// The right to count.
pub struct Stepper {
    _turn: MutexGuard<'static, ()>,
    /// Traps of a call of an empty function, but for its one instruction.
    overhead: u64,
    moments: Vec<Moment>,
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
        let mut stepper = Stepper { _turn: turn, overhead: 0, moments: Vec::new() };
        // What `nothing` compiles to is not known; a bare return is one instruction.
        let (_, least) = stepper.count(ret(), 0, 0);
        stepper.overhead = least - 1;
        let (_, empty) = stepper.count(nothing, 0, 0);
        (1..10).contains(&empty).then_some(stepper)
    }

    /// What `f` gives, and its instructions with a few of the call's own.
    pub fn count_in<R>(&mut self, f: impl FnOnce() -> R) -> (R, u64) {
        let mut given = None;
        let mut once = Some(f);
        let mut run = || given = once.take().map(|f| f());
        let (_, steps) = self.count(called(&run), &raw mut run as usize, 0);
        (given.expect("it ran"), steps)
    }

    /// What `f` gives; before its instructions, and a few of the call's own, `visit` is called with their number and moment. It runs
    /// in a signal's handler: it may use nothing that `f` may be in the middle of.
    pub fn visit_in<R>(&mut self, f: impl FnOnce() -> R, visit: &mut dyn FnMut(u64, Moment)) -> R {
        let mut visitor: Visitor = visit;
        VISITOR.store((&raw mut visitor).cast(), Relaxed);
        let (given, _) = self.count_in(f);
        VISITOR.store(std::ptr::null_mut(), Relaxed);
        given
    }

    /// As [`count`](Self::count), with the moments before its instructions (and a few of the caller's).
    pub fn watch(&mut self, f: Call, a: usize, b: usize) -> (usize, u64, &[Moment]) {
        self.moments.clear();
        self.moments.reserve(MOST_MOMENTS);
        MOMENTS.store(self.moments.as_mut_ptr(), Relaxed);
        let (result, steps) = self.count(f, a, b);
        MOMENTS.store(std::ptr::null_mut(), Relaxed);
        let written = (STEPS.load(Relaxed) as usize).min(MOST_MOMENTS);
        // SAFETY: the handler has written so many, into room that was reserved.
        unsafe { self.moments.set_len(written) };
        (result, steps, &self.moments)
    }

    /// Calls `f`, and counts from its first instruction to its return, both included.
    pub fn count(&mut self, f: Call, a: usize, b: usize) -> (usize, u64) {
        STEPS.store(0, Relaxed);
        let result = stepped(f, a, b);
        assert!(!ENDLESS.swap(false, Relaxed), "a call took more than {MOST} instructions");
        (result, STEPS.load(Relaxed) - self.overhead)
    }
}

/// What calls a closure of this type that its first argument points to.
fn called<F: FnMut()>(_: &F) -> Call {
    unsafe extern "C" fn call<F: FnMut()>(closure: usize, _: usize) -> usize {
        // SAFETY: `count_in` passes the address of its closure, which nobody else uses.
        unsafe { (*(closure as *mut F))() };
        0
    }
    call::<F>
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn install() {
    extern "C" fn trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        let step = STEPS.fetch_add(1, Relaxed);
        let moments = MOMENTS.load(Relaxed);
        if !moments.is_null() && (step as usize) < MOST_MOMENTS {
            // SAFETY: `watch` keeps room for so many; the kernel gives a handler its context.
            unsafe { moments.add(step as usize).write(moment(&*context.cast())) };
        }
        // SAFETY: null, or what `visit_in` keeps until the call has returned, which uses it nowhere else.
        if let Some(visit) = unsafe { VISITOR.load(Relaxed).as_mut() } {
            // SAFETY: the kernel gives a handler its context.
            visit(step, unsafe { moment(&*context.cast()) });
        }
        if step > MOST {
            ENDLESS.store(true, Relaxed);
            // SAFETY: the kernel gives a handler its context; without the flag the call runs on freely.
            unsafe {
                let context = context.cast::<libc::ucontext_t>();
                (*context).uc_mcontext.gregs[libc::REG_EFL as usize] &= !0x100;
            }
        }
    }
    // SAFETY: the handler touches atomics, what two of them lead to, and its own context.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = trap;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn moment(context: &libc::ucontext_t) -> Moment {
    use libc::*;
    let saved = |register: c_int| context.uc_mcontext.gregs[register as usize] as u64;
    let registers = [
        REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_R8, REG_R9,
        REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
    ];
    Moment { at: saved(REG_RIP), registers: registers.map(saved) }
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
        let Some(mut stepper) = Stepper::new() else {
            return freehold_testkit::skip("instructions are counted on x86-64 Linux only");
        };
        assert_eq!(stepper.count(super::ret(), 0, 0).1, 1);
        let (sum, ten) = stepper.count(sum_to, 10, 0);
        assert_eq!(sum, 45);
        assert_eq!(stepper.count(sum_to, 10, 0).1, ten);
        let (twenty, thirty) = (stepper.count(sum_to, 20, 0).1, stepper.count(sum_to, 30, 0).1);
        assert_eq!(twenty - ten, thirty - twenty, "every round is as long");
        let mut visited = 0;
        stepper.visit_in(|| sum_to(20, 0), &mut |_, _| visited += 1);
        assert!((twenty..twenty + 100).contains(&visited), "{visited} for {twenty}");
        let mut inside = |n| stepper.count_in(|| sum_to(n, 0));
        let ((sum, ten_inside), (_, twenty_inside)) = (inside(10), inside(20));
        assert_eq!((sum, twenty_inside - ten_inside), (45, twenty - ten));
    }
}
