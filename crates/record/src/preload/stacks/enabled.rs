//! Whose call it is: the caller of each hook, its stack, and how it is told to the reader. The twin of `disabled.rs`.
//!
//! ```text
//!   hook ─▶ its caller's registers ─▶ find ── as last, or in the table ──▶ at most one event more
//!                                       │ missed
//!                                       ▼
//!                                     walk ─▶ modules, frames that are new ─▶ ring
//! ```
//!
//! Each hook is a naked function that hands the registers on and jumps: the slot of its return address is the top of
//! the stack that is walked, so no frame of ours is in it.
//!
//! Invariant: what the reader has as the last stack is what [`Stacks`] has, or [`Stacks::forget_last`] was called.

use super::next::Next;
use super::thread::Thread;
use super::{maps, next, process, sys};
use crate::hello::{CHECK_STACKS, NO_STACKS, STACKS_OF_ALL};
use crate::packed::{DATA_BYTES, MAP_RECORDER, NO_ENTRY, Packed, Stack};
use crate::ring_set::SLOTS;
use crate::unwind::cache::{self, Found, Stacks, Told};
use crate::unwind::modules::{self, Module};
use crate::unwind::walk::Comparison;
use crate::unwind::{self, list, rules};
use core::arch::naked_asm;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Who called a hook.
pub use crate::unwind::Caller;

/// What a thread keeps: its stacks, or null.
pub type Own = *mut Stacks;
/// Bytes of a thread's words.
pub const THREAD_BYTES: usize = 192;

/// Defines exported functions that hand their caller's registers on; `|caller|` is that caller. The number is that of
/// the arguments, which lie in registers before it.
macro_rules! hooks {
    ($($count:tt fn $name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?, |$caller:ident| $body:block)*) => {$(
        const _: () = {
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $answer)? {
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    hand_on!($count),
                    ".cfi_endproc",
                    hook = sym hook,
                )
            }

            unsafe extern "C" fn hook($($argument: $type,)* slot: u64, rbp: u64, rbx: u64) $(-> $answer)? {
                let $caller = $crate::preload::stacks::Caller::of(slot, rbp, rbx);
                $body
            }
        };
    )*};
}

/// Puts the caller's registers behind so many arguments, and goes on in the hook. Behind six arguments they lie on the
/// stack, in a frame of its own.
macro_rules! hand_on {
    (1) => {
        "mov rsi, rsp\nmov rdx, rbp\nmov rcx, rbx\njmp {hook}"
    };
    (2) => {
        "mov rdx, rsp\nmov rcx, rbp\nmov r8, rbx\njmp {hook}"
    };
    (3) => {
        "mov rcx, rsp\nmov r8, rbp\nmov r9, rbx\njmp {hook}"
    };
    (6) => {
        "mov rax, rsp\npush rbx\n.cfi_adjust_cfa_offset 8\npush rbp\n.cfi_adjust_cfa_offset 8\npush rax\n.cfi_adjust_cfa_offset 8\ncall {hook}\nadd rsp, 24\n.cfi_adjust_cfa_offset -24\nret"
    };
}

/// What `operator new` does to tell `leave` who called it: its frame has 40 bytes, `leave` three arguments before.
macro_rules! caller_registers {
    () => {
        "lea rcx, [rsp + 40]\nmov r8, rbp\nmov r9, rbx"
    };
}

impl Caller {
    /// No caller: the event has no stack.
    pub const NONE: Caller = Caller { slot: 0, rbp: 0, rbx: 0 };

    /// Of the registers that [`caller_registers`] sets.
    #[inline(always)]
    pub fn of(slot: u64, rbp: u64, rbx: u64) -> Caller {
        Caller { slot, rbp, rbx }
    }

    /// The caller of a free: nobody asks, unless all stacks are wanted.
    #[inline(always)]
    pub fn of_free(self) -> Caller {
        let all = ASKED.load(Ordering::Relaxed) & !CHECK_STACKS == STACKS_OF_ALL;
        if all { self } else { Caller::NONE }
    }
}

/// What the parent asked for.
static ASKED: AtomicU32 = AtomicU32::new(NO_STACKS);

/// The parent has answered.
pub fn obey(asked: u32) {
    ASKED.store(asked, Ordering::Relaxed);
}

/// The process is about to begin, which may be before our own constructor: those of other libraries allocate, too. No
/// lock is held, because the look-up takes the loader's.
pub fn find_all() {
    if !modules::is_ready() {
        let find = next::look_up(c"_dl_find_object", core::ptr::null_mut);
        // SAFETY: null, or the loader's function of that name.
        unsafe { modules::use_loader(find) };
        DLCLOSE.get();
    }
}

/// Tells, where it takes one event, the stack of the event that is about to be put. None where it takes more; else what
/// [`confirm`] wants.
///
/// # Safety
/// `thread` is the calling thread's words, its ticket is valid and its pen has room; `caller` is a hook's.
#[inline(always)]
pub unsafe fn is_told(thread: *mut Thread, caller: &Caller) -> Option<u32> {
    if caller.slot == 0 {
        return Some(0);
    }
    // SAFETY: null or mapped for as long as the thread is; nobody else has a reference.
    let stacks = unsafe { (*thread).stacks.as_mut()? };
    if !stacks.is_of(modules::generation()) {
        return None;
    }
    // SAFETY: as the caller promises; ring and slots are mapped (see `thread::emit`).
    unsafe {
        match stacks.find(caller) {
            Found::Last => {}
            Found::Entry(entry) => {
                let slot = (*thread).slots.add((*thread).pen.position() as usize & (SLOTS - 1));
                let event = Stack::Entry(entry as u32).pack();
                (*thread).pen.put(&*(*thread).ring, &*slot, event);
            }
            Found::Missed => return None,
        }
        if CHECKS && is_checked() {
            check(stacks, caller);
        }
        (*thread).pen.has_room().then(|| stacks.mark())
    }
}

/// The event was put. If a signal's handler told of another stack meanwhile, nobody knows what the reader has.
///
/// # Safety
/// As [`is_told`].
#[inline(always)]
pub unsafe fn confirm(thread: *mut Thread, mark: u32) {
    // SAFETY: as in `is_told`.
    if let Some(stacks) = unsafe { (*thread).stacks.as_mut() }
        && mark != 0
        && stacks.mark() != mark
    {
        stacks.forget_last();
    }
}

/// Whether stacks can be compared with plain walks at all; whether they are, the parent says.
const CHECKS: bool = true;

#[inline(always)]
fn is_checked() -> bool {
    ASKED.load(Ordering::Relaxed) & CHECK_STACKS != 0
}

/// Compares the last stack with a plain walk, and counts.
#[cold]
#[inline(never)]
fn check(stacks: &Stacks, caller: &Caller) {
    let same = Comparison::holds(caller, modules::generation(), stacks.last_frames());
    process::compared(same);
}

/// Tells the stack of the event that is about to be put, whatever it takes. False if the recording is over.
pub fn tell(thread: &mut Thread, caller: &Caller, put: fn(&mut Thread, Packed) -> bool) -> bool {
    if caller.slot == 0 {
        return true;
    }
    let Some(stacks) = memory(thread, put) else { return put(thread, Stack::Unknown.pack()) };
    let generation = modules::generation();
    if !stacks.is_of(generation) {
        stacks.forget(generation);
        if !put(thread, Stack::Generation(generation).pack()) {
            return false;
        }
    }
    // SAFETY: the hook whose caller it is has not returned.
    let goes_on = match unsafe { stacks.find(caller) } {
        Found::Last => true,
        Found::Entry(entry) => put(thread, Stack::Entry(entry as u32).pack()),
        Found::Missed => {
            // SAFETY: as above.
            let told = unsafe { stacks.walk(caller) };
            tell_new(thread, &told, put) && tell_rules(thread, put)
        }
    };
    if is_checked() {
        check(stacks, caller);
    }
    goes_on
}

/// The thread's stacks; none where there is no memory for them, or the thread is over.
fn memory<'a>(thread: &mut Thread, put: fn(&mut Thread, Packed) -> bool) -> Option<&'a mut Stacks> {
    if thread.stacks.is_null() && !thread.ended {
        let made = unwind::map(cache::BYTES)?;
        thread.stacks = made.cast();
        maps::tell_own(thread, (made as u64, cache::BYTES as u64), MAP_RECORDER, put);
    }
    // SAFETY: null, or a mapping of that size that is this thread's alone; all zero is valid.
    unsafe { thread.stacks.as_mut() }
}

/// The table of rules has grown: its memory is ours, not the program's.
fn tell_rules(thread: &mut Thread, put: fn(&mut Thread, Packed) -> bool) -> bool {
    rules::untold().is_none_or(|made| maps::tell_own(thread, made, MAP_RECORDER, put))
}

/// A thread ends: the memory that it had for stacks, which is not mapped any more.
pub fn give_back(thread: &mut Thread) -> Option<(*const c_void, usize)> {
    let stacks = core::mem::replace(&mut thread.stacks, core::ptr::null_mut());
    if stacks.is_null() {
        return None;
    }
    // SAFETY: mapped by `memory`, and no reference outlives a hook.
    unsafe { unwind::unmap(stacks.cast(), cache::BYTES) };
    Some((stacks.cast(), cache::BYTES))
}

/// A thread is another process's now, whose reader knows nothing.
pub fn forget(thread: &mut Thread) {
    // SAFETY: as in `memory`.
    if let Some(stacks) = unsafe { thread.stacks.as_mut() } {
        stacks.forget(0);
    }
}

/// In a forked child: other threads are not here.
pub fn forget_locks() {
    rules::forget_lock();
    modules::forget_lock();
}

/// A quarter of a ring has gone by: the loader may have unloaded something by itself.
pub fn watch() {
    if modules::is_quick() || is_due() {
        modules::check();
    }
}

/// Whether ten milliseconds have gone by since the last such look.
fn is_due() -> bool {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (now, next) = (sys::monotonic_ns(), NEXT.load(Ordering::Relaxed));
    let (order, otherwise) = (Ordering::Relaxed, Ordering::Relaxed);
    now >= next && NEXT.compare_exchange(next, now + 10_000_000, order, otherwise).is_ok()
}

fn tell_new(thread: &mut Thread, told: &Told<'_>, put: fn(&mut Thread, Packed) -> bool) -> bool {
    if !told.modules.iter().all(|module| tell_module(thread, module, put)) {
        return false;
    }
    let head = Stack::New {
        keep: told.keep as u32,
        push: told.push as u32,
        entry: told.entry.map_or(NO_ENTRY, |entry| entry as u32),
        cut: told.cut,
    };
    let mut frames = list::frames(told.new);
    let mut goes_on = put(thread, head.pack());
    while goes_on && let Some(first) = frames.next() {
        goes_on = put(thread, Packed::data(first, frames.next().unwrap_or(0)));
    }
    goes_on
}

#[cold]
#[inline(never)]
fn tell_module(thread: &mut Thread, module: &Module, put: fn(&mut Thread, Packed) -> bool) -> bool {
    let (mut room, mut own) = ([0; 512], [0; 512]);
    // SAFETY: the module's code stands on this thread's stack.
    let ((bias, name), build_id) = unsafe { (module.origin(&mut room), module.build_id()) };
    let build_id = build_id.unwrap_or_default();
    // The loader has no name for the program itself.
    let path = if name.is_empty() { program(&mut own) } else { name };
    let head = Stack::Module { build_id: build_id.len() as u32, path: path.len() as u32 };
    let mut goes_on = put(thread, head.pack())
        && put(thread, Packed::data(module.start, module.end))
        && put(thread, Packed::data(0, bias));
    let mut bytes = build_id.iter().chain(path).copied().peekable();
    while goes_on && bytes.peek().is_some() {
        let (mut words, mut at) = ([0u64; 2], 0);
        for byte in bytes.by_ref().take(DATA_BYTES) {
            // Six bytes in the first word, eight in the second.
            let (word, shift) = if at < 6 { (0, at) } else { (1, at - 6) };
            words[word] |= u64::from(byte) << (8 * shift);
            at += 1;
        }
        goes_on = put(thread, Packed::data(words[0], words[1]));
    }
    goes_on
}

/// The path of the program.
fn program(own: &mut [u8]) -> &[u8] {
    let link = c"/proc/self/exe";
    let arguments = [link.as_ptr() as usize, own.as_mut_ptr() as usize, own.len(), 0, 0, 0];
    // SAFETY: the kernel reads the name and writes at most so many bytes.
    let len = unsafe { unwind::call(libc::SYS_readlink, arguments) };
    usize::try_from(len).ok().and_then(|len| own.get(..len)).unwrap_or_default()
}

/// A program without it closes no libraries.
static DLCLOSE: Next = Next::new(c"dlclose", || nothing_closed as *mut c_void);

extern "C" fn nothing_closed(_handle: *mut c_void) -> i32 {
    -1
}

unsafe extern "C" fn next_dlclose() -> *mut c_void {
    DLCLOSE.get()
}

unsafe extern "C" fn closed() {
    modules::check();
}

/// `dlclose`, after which modules may be gone. Naked, with an unwind table: what the library's destructors free has a
/// stack, too.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(_handle: *mut c_void) -> i32 {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 24",
        ".cfi_adjust_cfa_offset 24",
        "mov [rsp + 8], rdi",
        "call {next}",
        "mov rdi, [rsp + 8]",
        "call rax",
        "mov [rsp + 8], rax",
        "call {closed}",
        "mov rax, [rsp + 8]",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "ret",
        ".cfi_endproc",
        next = sym next_dlclose,
        closed = sym closed,
    )
}
