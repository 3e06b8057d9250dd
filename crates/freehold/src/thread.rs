//! Threads that come and go, and forks.
//!
//! A thread gets its cache at its first allocation and leaves it by a pthread key's destructor.
//! Other destructors may still allocate, so the cache is kept for one more of glibc's rounds; a thread that
//! allocates after that gets another cache, and another destructor.
//!
//! A fork takes no lock and waits for no thread: the child repairs the half-done changes of other threads (`core::malloc::fork`).
//!
//! Lock order: the start, the list of heaps, each heap's slots and own locks, the
//! quarantine, the profile, the main heap's.

use crate::main_heap::HEAP;
use crate::page::PAGE;
use crate::profile::Meter;
use crate::{heaps, mode, options, profile, purger, word};
use core::ptr;
use core::sync::atomic::{AtomicU32, Ordering};
use freehold_core::machine::Machine;
use freehold_core::malloc::Cache;
use freehold_core::sync::Lock;
use freehold_os::copied;
use libc::{c_int, c_void};

// Both in `.data`, the page of which the dynamic loader has written to: no fault at the start.
#[unsafe(link_section = ".data.freehold_start")]
static STARTING: Lock = Lock::new();
/// The pthread key + 1; 0 before the start.
#[unsafe(link_section = ".data.freehold_start")]
static KEY: AtomicU32 = AtomicU32::new(0);

/// In the key's value, beside the (page-aligned) cache: the destructor has been called once.
const SECOND_ROUND: usize = 1;

/// The countdown of a thread that has left its cache, where there is no key.
const LEFT: i64 = i64::MIN;

/// A thread's cache, and how it is to be used.
pub(crate) enum Entered {
    /// By the heap's own functions.
    Plain(&'static Cache),
    /// By those of `watch`.
    Watched(&'static Cache),
}

/// The cache of a thread whose hot word is empty: because it has none yet, and gets one, or because
/// the process is watched. `None` when memory is short.
#[inline]
pub(crate) fn enter() -> Option<Entered> {
    match word::watched() {
        Some(cache) => Some(Entered::Watched(cache)),
        None => attach(),
    }
}

/// Gives the calling thread a cache; `None` when memory is short.
#[cold]
#[inline(never)]
fn attach() -> Option<Entered> {
    start_heap();
    if HEAP.has_caches() || !freehold_os::thread::is_first() {
        copied::notice(HEAP.machine().page_size());
    }
    let cache = HEAP.attach()?;
    let entered = if mode::is_on() {
        profile::enter_thread();
        if !(mode::is_only(mode::SAMPLE) && Meter::start(cache)) {
            word::set_watched(Some(cache));
        }
        Entered::Watched(cache)
    } else {
        word::set(Some(cache));
        Entered::Plain(cache)
    };
    // May allocate: after the word is set.
    arm(cache, 0);
    Some(entered)
}

/// Starts the heap, if that was not done yet.
pub(crate) fn start_heap() {
    if KEY.load(Ordering::Acquire) == 0 {
        STARTING.with(HEAP.machine(), start);
    }
}

/// Starts the heap: once, before the first cache.
fn start() {
    if KEY.load(Ordering::Relaxed) != 0 {
        return;
    }
    let machine = HEAP.machine();
    copied::prepare(after_copy);
    HEAP.set_key(machine.random());
    // SAFETY: asks for a constant, which lies where the kernel put it: `sysconf` reads two more pages.
    let page = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    machine.set_page_size(page.max(machine.page_size()).min(64 * 1024));
    PAGE.main.fill(HEAP.roots());
    options::read();
    machine.find_nodes();
    let mut key = 0;
    // SAFETY: the key is ours; the destructor takes what `arm` sets.
    let refused = unsafe { libc::pthread_key_create(&mut key, Some(leave)) } != 0;
    // SAFETY: the handler allocates nothing.
    unsafe { libc::pthread_atfork(None, None, Some(after_fork_in_child)) };
    KEY.store(if refused { u32::MAX } else { key + 1 }, Ordering::Release);
}

/// Gives a thread that has moved to another node, whose cache is `cache`, a cache of that node.
#[cold]
pub(crate) fn settle(cache: &'static Cache) {
    let Some(new) = HEAP.attach() else { return };
    if word::watched().is_some() {
        word::set_watched(Some(new));
    } else {
        if let Some(meter) = Meter::of_thread() {
            meter.go_to(new);
        }
        word::set(Some(new));
    }
    HEAP.detach(cache);
    arm(new, 0);
}

fn arm(cache: &'static Cache, round: usize) {
    let key = KEY.load(Ordering::Relaxed);
    if key == u32::MAX {
        if !has_left() {
            arm_without_key(cache);
        }
    } else {
        let value = ptr::from_ref(cache).cast::<u8>().wrapping_add(round);
        // SAFETY: the key exists. Failure means that this cache is lost when the thread exits.
        unsafe { libc::pthread_setspecific(key - 1, value.cast()) };
    }
}

/// Where a program took all keys before its first allocation: the end of a thread's C++ objects is the end of its cache. What
/// the C library frees after that is freed without one. (Who allocates then gets another one, which is lost.)
#[cold]
fn arm_without_key(cache: &'static Cache) {
    type Register = unsafe extern "C" fn(
        unsafe extern "C" fn(*mut c_void),
        *mut c_void,
        *const c_void,
    ) -> c_int;
    // SAFETY: asks for a function of the C library.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_thread_atexit_impl".as_ptr()) };
    if !found.is_null() {
        let cache = ptr::from_ref(cache).cast_mut().cast();
        // SAFETY: the Itanium C++ ABI's function has this type; the last argument is any address of the library.
        unsafe {
            core::mem::transmute::<*mut c_void, Register>(found)(
                leave_now,
                cache,
                (&raw const KEY).cast(),
            );
        }
    }
}

unsafe extern "C" fn leave_now(cache: *mut c_void) {
    word::set_countdown(LEFT);
    // SAFETY: `arm_without_key` registered this cache, which lives for ever.
    leave_cache(unsafe { &*cache.cast::<Cache>() });
}

/// Whether the calling thread has left its cache, and nobody would tell of the end of another.
pub(crate) fn has_left() -> bool {
    KEY.load(Ordering::Relaxed) == u32::MAX && word::countdown() == LEFT
}

/// The key's destructor.
unsafe extern "C" fn leave(value: *mut c_void) {
    let cache = value.map_addr(|at| at & !SECOND_ROUND).cast::<Cache>();
    // SAFETY: `arm` set this value: a cache, which lives for ever.
    let cache = unsafe { &*cache };
    if value.addr() & SECOND_ROUND == 0 {
        return arm(cache, SECOND_ROUND);
    }
    leave_cache(cache);
}

/// The calling thread has no cache any more.
fn leave_cache(cache: &'static Cache) {
    let meter = Meter::of_thread();
    word::set(None);
    word::set_watched(None);
    if let Some(meter) = meter {
        meter.free(cache);
    }
    HEAP.detach(cache);
    purger::consider();
}

/// The handler of a fork in the child: nobody waited for anybody, so this is where what other threads were doing is made whole.
/// Handlers that were registered before it run before it: where they need a lock that nobody holds any more, or start the purger,
/// `freehold_os::copied` notices, and this has been done.
unsafe extern "C" fn after_fork_in_child() {
    if copied::are_noticed() {
        copied::mend();
    } else {
        after_copy();
    }
}

/// Makes the heaps of a copied process whole, before it has a second thread.
fn after_copy() {
    STARTING.disown(HEAP.machine());
    let mine = word::watched().unwrap_or(word::get());
    HEAP.after_fork_in_child(|cache| ptr::eq(cache, mine));
    profile::after_fork_in_child();
    heaps::after_fork_in_child();
    purger::forget();
}
