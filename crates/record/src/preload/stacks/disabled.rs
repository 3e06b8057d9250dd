//! Whose call it is: nobody asks. The twin of `enabled.rs`, in the library that records no stacks.

use super::thread::Thread;
use crate::packed::Packed;
use core::ffi::c_void;

/// Nothing is known of who called.
#[derive(Clone, Copy)]
pub struct Caller;

/// What a thread keeps.
pub type Own = [u64; 0];
/// Bytes of a thread's words.
pub const THREAD_BYTES: usize = 128;

/// Defines exported functions; `|caller|` is who called. The number is that of the arguments.
macro_rules! hooks {
    ($($count:tt fn $name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?, |$caller:ident| $body:block)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $answer)? {
            let $caller = $crate::preload::stacks::Caller;
            $body
        }
    )*};
}

/// What `operator new` does to tell `leave` who called it.
macro_rules! caller_registers {
    () => {
        ""
    };
}

impl Caller {
    /// No caller.
    pub const NONE: Caller = Caller;

    /// Of the registers that [`caller_registers`] sets.
    #[inline(always)]
    pub fn of(_slot: u64, _rbp: u64, _rbx: u64) -> Caller {
        Caller
    }

    /// The caller of a free.
    #[inline(always)]
    pub fn of_free(self) -> Caller {
        self
    }
}

/// The stack of the next event is told.
///
/// # Safety
/// None; its twin has.
#[inline(always)]
pub unsafe fn is_told(_thread: *mut Thread, _caller: &Caller) -> Option<()> {
    Some(())
}

/// The event was put.
///
/// # Safety
/// None; its twin has.
#[inline(always)]
pub unsafe fn confirm(_thread: *mut Thread, _mark: ()) {}

/// Tells nothing, and goes on.
pub fn tell(_: &mut Thread, _: &Caller, _: fn(&mut Thread, Packed) -> bool) -> bool {
    true
}

/// Nothing to find.
pub fn find_all() {}

/// The parent has answered.
pub fn obey(_what: u32) {}

/// Nothing to look at.
pub fn watch() {}

/// In a forked child.
pub fn forget_locks() {}

/// A thread is another process's now.
pub fn forget(_: &mut Thread) {}

/// A thread ends: it had no memory for stacks.
pub fn give_back(_: &mut Thread) -> Option<(*const c_void, usize)> {
    None
}
