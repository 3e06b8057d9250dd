//! The call stack: return addresses, found by the C library's `backtrace`.
//!
//! Its first call loads the unwinder, which must not happen in the middle of an allocation
//! (the dynamic loader itself allocates). So `.init_array` makes the first call, before `main`
//! and outside of everything; allocations before that are sampled without callers.

use crate::environment;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};
use freehold_core::stats::profile::DEPTH;

/// Frames of our own that may come first.
const OWN: usize = 12;

static READY: AtomicBool = AtomicBool::new(false);

/// The callers, innermost first; addresses within the calling instructions.
pub struct Stack {
    frames: [usize; DEPTH],
    len: usize,
}

unsafe extern "C" {
    /// Where the linker put the file that this code is in, and where its code ends.
    static __ehdr_start: u8;
    static _etext: u8;
}

/// Whether an address lies in our own library. In a program that has the malloc linked in, nothing does.
fn is_ours(address: usize) -> bool {
    let (start, end) = ((&raw const __ehdr_start).addr(), (&raw const _etext).addr());
    // SAFETY: asks for a number.
    let program = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    let in_program = (start..end).contains(&program);
    !in_program && (start..end).contains(&address)
}

impl Stack {
    /// The callers of the allocation that is being made.
    pub fn here() -> Stack {
        let mut stack = Stack { frames: [0; DEPTH], len: 0 };
        if !READY.load(Ordering::Acquire) {
            return stack;
        }
        let mut found = [core::ptr::null_mut::<c_void>(); DEPTH + OWN];
        // SAFETY: the buffer is ours and that long.
        let len = unsafe { libc::backtrace(found.as_mut_ptr(), found.len() as i32) };
        let found = found.iter().take(usize::try_from(len).unwrap_or(0)).map(|at| at.addr());
        let callers = found.skip_while(|&address| is_ours(address));
        for (place, address) in stack.frames.iter_mut().zip(callers) {
            // A return address is behind its call, possibly in another line.
            *place = address.saturating_sub(1);
            stack.len += 1;
        }
        stack
    }

    /// The callers, innermost first.
    pub fn frames(&self) -> &[usize] {
        self.frames.get(..self.len).unwrap_or(&[])
    }
}

extern "C" fn get_ready() {
    if !environment::is_given(b"FREEHOLD_PROFILE=") {
        return;
    }
    let mut one = [core::ptr::null_mut::<c_void>(); 1];
    // SAFETY: the buffer is ours and that long.
    unsafe { libc::backtrace(one.as_mut_ptr(), 1) };
    READY.store(true, Ordering::Release);
}

#[used]
#[unsafe(link_section = ".init_array")]
static GET_READY: extern "C" fn() = get_ready;
