//! `operator new` and `operator delete`, all forms.
//!
//! A `new` ends in a `malloc` (libstdc++, libc++) or does not (jemalloc, tcmalloc and mimalloc bring
//! their own), may call another `new` first (`new[]` and the nothrow forms of libstdc++ do), and may
//! throw. It must count once, as what the program wrote. So:
//!
//! - while a `new` is in progress the thread's ticket is withdrawn, and every event comes to
//!   [`adapt`], which swallows the allocation that looks like the one asked for; the event is put
//!   when the outermost `new` returns;
//! - the hooks are naked functions with unwind tables and no Rust frame, so that an exception passes
//!   through them as through any C function. A `new` left by an exception leaves its note behind,
//!   which the first event from a frame above it clears;
//! - a `delete` puts its event first and swallows the `free` of the same object inside of it.
//!
//! The next definition is looked up as for C. A library loaded later with a runtime of its own
//! (a Python module in C++) is out of sight for `RTLD_NEXT`: then the runtime is asked for by name.

use super::next::Next;
use super::stacks::Caller;
use super::thread::{NOTHING, Thread, WITHDRAWN, current};
use super::{hooks, next, sys};
use crate::packed::{Kind, Packed};
use core::arch::naked_asm;
use core::ffi::{CStr, c_void};
use core::mem::transmute;

/// The C++ runtimes, where a later loaded library brought one.
const RUNTIMES: [&CStr; 3] = [c"libstdc++.so.6", c"libc++.so.1", c"libc++abi.so.1"];

/// A function of a runtime that is loaded but not in the global scope, or null.
fn of_runtime(name: &CStr) -> *mut c_void {
    for runtime in RUNTIMES {
        // SAFETY: RTLD_NOLOAD loads nothing; a handle that is not closed keeps the runtime, which a
        // program that calls it needs anyway.
        let found = unsafe {
            let handle = libc::dlopen(runtime.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if handle.is_null() { continue } else { libc::dlsym(handle, name.as_ptr()) }
        };
        if !found.is_null() {
            return found;
        }
    }
    core::ptr::null_mut()
}

/// Defines the table of forms, and a function that stands in for each where no runtime has it.
macro_rules! forms {
    ($table:ident: $($name:literal => $otherwise:expr,)*) => {
        static $table: [Next; [$($name),*].len()] = [$(
            Next::new($name, || {
                let found = of_runtime($name);
                if found.is_null() { $otherwise as *mut c_void } else { found }
            })
        ),*];
    };
}

forms! { NEWS:
    c"_Znwm" => new_or_abort,
    c"_ZnwmRKSt9nothrow_t" => new_or_null,
    c"_ZnwmSt11align_val_t" => new_aligned_or_abort,
    c"_ZnwmSt11align_val_tRKSt9nothrow_t" => new_aligned_or_null,
    c"_Znam" => new_or_abort,
    c"_ZnamRKSt9nothrow_t" => new_or_null,
    c"_ZnamSt11align_val_t" => new_aligned_or_abort,
    c"_ZnamSt11align_val_tRKSt9nothrow_t" => new_aligned_or_null,
}

forms! { DELETES:
    c"_ZdlPv" => delete_by_free,
    c"_ZdlPvm" => delete_by_free,
    c"_ZdlPvRKSt9nothrow_t" => delete_by_free,
    c"_ZdlPvSt11align_val_t" => delete_by_free,
    c"_ZdlPvmSt11align_val_t" => delete_by_free,
    c"_ZdlPvSt11align_val_tRKSt9nothrow_t" => delete_by_free,
    c"_ZdaPv" => delete_by_free,
    c"_ZdaPvm" => delete_by_free,
    c"_ZdaPvRKSt9nothrow_t" => delete_by_free,
    c"_ZdaPvSt11align_val_t" => delete_by_free,
    c"_ZdaPvmSt11align_val_t" => delete_by_free,
    c"_ZdaPvSt11align_val_tRKSt9nothrow_t" => delete_by_free,
}

/// Finds all forms where the program has a C++ runtime from the start.
pub fn find_all() {
    let present = !next::look_up(c"_Znwm", core::ptr::null_mut).is_null();
    if present {
        NEWS.iter().chain(&DELETES).for_each(|form| {
            form.get();
        });
    }
}

/// What `operator new` number `form` is called.
const fn kind_of(form: usize) -> Kind {
    if form < 4 { Kind::New } else { Kind::NewArray }
}

/// Whether form `form` takes an alignment as its second argument.
const fn is_aligned(form: usize) -> bool {
    form & 2 != 0
}

/// What `enter` tells the naked hook.
#[repr(C)]
struct Entered {
    next: *mut c_void,
    /// Another `new` of ours is in progress: this one is part of it.
    nested: usize,
}

/// A `new` begins. `frame` is the stack pointer of the hook.
unsafe extern "C" fn enter(size: usize, second: usize, form: usize, frame: usize) -> Entered {
    let next = NEWS.get(form).map_or(core::ptr::null_mut(), Next::get);
    let thread = current();
    // SAFETY: the thread's own words; no reference is alive.
    unsafe {
        let nested = (*thread).making != 0 && (frame as u64) < (*thread).making_frame;
        if !nested {
            (*thread).making = kind_of(form) as u8;
            (*thread).making_size = size as u64;
            (*thread).making_align = if is_aligned(form) { second as u64 } else { 0 };
            (*thread).making_frame = frame as u64;
            (*thread).made = NOTHING;
            (*thread).ticket = WITHDRAWN;
        }
        Entered { next, nested: usize::from(nested) }
    }
}

/// The outermost `new` returns `object`, which it gives back.
unsafe extern "C" fn leave(
    object: *mut c_void,
    size: usize,
    form: usize,
    slot: u64,
    rbp: u64,
    rbx: u64,
) -> *mut c_void {
    let thread = current();
    // SAFETY: the thread's own words; the object is the next allocator's, or null.
    unsafe {
        let align = (*thread).making_align as usize;
        // A failure was put when the malloc inside failed.
        let counted = object.is_null() && (*thread).made == 0;
        (*thread).making = 0;
        (*thread).settle();
        if !counted {
            hooks::alloc(kind_of(form), object, size, align, Caller::of(slot, rbp, rbx));
        }
    }
    object
}

/// The event to be put in place of this one: none if a C++ operator in progress counts it.
pub fn adapt(thread: &mut Thread, wide: Option<Packed>, event: Packed) -> Option<Packed> {
    if thread.making == 0 && thread.deleting == 0 {
        return Some(event);
    }
    match event.kind() {
        Some(Kind::Free) => (event.address() != thread.deleting).then_some(event),
        Some(kind) if kind.is_alloc() && thread.making != 0 => {
            let size = wide.map_or(event.size(), |wide| wide.1);
            made_inside(thread, size, event)
        }
        _ => Some(event),
    }
}

/// An allocation while a `new` is in progress. The one that looks like what was asked for is left
/// to `leave`; its failure is put at once, for `new` may not return.
fn made_inside(thread: &mut Thread, size: u64, event: Packed) -> Option<Packed> {
    if &raw const size as u64 > thread.making_frame {
        thread.making = 0; // left by an exception
        return Some(event);
    }
    let more = size.wrapping_sub(thread.making_size);
    if more > thread.making_align.max(1) {
        return Some(event); // a new-handler's own, or the exception's
    }
    thread.made = event.address();
    match (thread.made, Kind::from_number(thread.making)) {
        (0, Some(kind)) => Some(event.with_kind(kind)),
        _ => None,
    }
}

/// Defines a hook of `operator new`: enter, the next definition, leave, in one frame of 40 bytes
/// that the unwind table describes.
macro_rules! new_hook {
    ($($form:literal $name:ident,)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() {
            naked_asm!(
                ".cfi_startproc",
                "sub rsp, 40",
                ".cfi_adjust_cfa_offset 40",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov edx, {form}",
                "mov rcx, rsp",
                "call {enter}",
                "mov [rsp + 24], rdx",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "call rax",
                "cmp qword ptr [rsp + 24], 0",
                "jne 2f",
                "mov rdi, rax",
                "mov rsi, [rsp]",
                "mov edx, {form}",
                caller_registers!(),
                "call {leave}",
                "2:",
                "add rsp, 40",
                ".cfi_adjust_cfa_offset -40",
                "ret",
                ".cfi_endproc",
                form = const $form,
                enter = sym enter,
                leave = sym leave,
            )
        }
    )*};
}

new_hook! {
    0 _Znwm,
    1 _ZnwmRKSt9nothrow_t,
    2 _ZnwmSt11align_val_t,
    3 _ZnwmSt11align_val_tRKSt9nothrow_t,
    4 _Znam,
    5 _ZnamRKSt9nothrow_t,
    6 _ZnamSt11align_val_t,
    7 _ZnamSt11align_val_tRKSt9nothrow_t,
}

/// Every `operator delete` takes at most three words.
type Delete = unsafe extern "C" fn(*mut c_void, usize, usize);

unsafe fn delete(form: usize, object: *mut c_void, second: usize, third: usize, caller: Caller) {
    let Some(form) = DELETES.get(form) else { return };
    let thread = current();
    // SAFETY: the function of this name takes these words or fewer; the thread's own words, with no
    // reference alive across the call.
    unsafe {
        let next = transmute::<*mut c_void, Delete>(form.get());
        if object.is_null() || (*thread).deleting == object as u64 {
            return next(object, second, third);
        }
        hooks::free_event(Kind::Free, object, caller);
        let outer = core::mem::replace(&mut (*thread).deleting, object as u64);
        (*thread).ticket = WITHDRAWN;
        next(object, second, third);
        (*thread).deleting = outer;
        (*thread).settle();
    }
}

macro_rules! delete_hook {
    ($($form:literal $name:ident,)*) => {
        hooks! {$(
            3 fn $name(object: *mut c_void, second: usize, third: usize), |caller| {
                // SAFETY: the caller's contract is this operator's.
                unsafe { delete($form, object, second, third, caller) }
            }
        )*}
    };
}

delete_hook! {
    0 _ZdlPv,
    1 _ZdlPvm,
    2 _ZdlPvRKSt9nothrow_t,
    3 _ZdlPvSt11align_val_t,
    4 _ZdlPvmSt11align_val_t,
    5 _ZdlPvSt11align_val_tRKSt9nothrow_t,
    6 _ZdaPv,
    7 _ZdaPvm,
    8 _ZdaPvRKSt9nothrow_t,
    9 _ZdaPvSt11align_val_t,
    10 _ZdaPvmSt11align_val_t,
    11 _ZdaPvSt11align_val_tRKSt9nothrow_t,
}

// Where no runtime is loaded at all, though somebody calls its operators.

unsafe extern "C" fn new_or_null(size: usize) -> *mut c_void {
    // SAFETY: malloc takes any size.
    unsafe { next::malloc()(size.max(1)) }
}

unsafe extern "C" fn new_or_abort(size: usize) -> *mut c_void {
    // SAFETY: as above.
    or_abort(unsafe { new_or_null(size) })
}

unsafe extern "C" fn new_aligned_or_null(size: usize, align: usize) -> *mut c_void {
    let rounded = size.max(1).checked_next_multiple_of(align.max(1)).unwrap_or(usize::MAX);
    // SAFETY: aligned_alloc takes any size and refuses a bad alignment.
    unsafe { next::aligned_alloc()(align, rounded) }
}

unsafe extern "C" fn new_aligned_or_abort(size: usize, align: usize) -> *mut c_void {
    // SAFETY: as above.
    or_abort(unsafe { new_aligned_or_null(size, align) })
}

fn or_abort(object: *mut c_void) -> *mut c_void {
    if object.is_null() {
        sys::complain(
            b"freehold record: operator new is out of memory, and no C++ runtime is loaded\n",
        );
        // SAFETY: abort has no precondition.
        unsafe { libc::abort() }
    }
    object
}

unsafe extern "C" fn delete_by_free(object: *mut c_void) {
    // SAFETY: the caller gives the object up.
    unsafe { next::free()(object) }
}
