//! Whether this process is a copy of another that nobody has made whole: a fork that told no handler (`clone` by hand, or
//! the handler of somebody else, who allocates before ours is called).
//!
//! A word in a page that the kernel wipes in every copy (`MADV_WIPEONFORK`, from Linux 4.14 on), but not for a child that
//! shares its parent's memory (`vfork`). It is looked at where waiting could be in vain: before a thread sleeps.

use crate::syscall::{Number, call};
use crate::{MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ_WRITE};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

const MADV_WIPEONFORK: usize = 18;

/// The word; null before there was a second thread.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// Whether the word has been set in this process.
static ARMED: AtomicBool = AtomicBool::new(false);
/// What makes a copy whole: a function's address.
static MEND: AtomicUsize = AtomicUsize::new(0);

/// From now on copies are noticed, and made whole by `mend`: before the process has a second thread. `page` is the machine's
/// page size. Where the kernel refuses, copies go unnoticed.
pub fn notice(page: usize, mend: fn()) {
    if ARMED.load(Ordering::Acquire) {
        return;
    }
    let mut word = WORD.load(Ordering::Acquire);
    if word.is_null() {
        const FLAGS: usize = MAP_PRIVATE | MAP_ANONYMOUS;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let at = unsafe { call(Number::Mmap, [0, page, PROT_READ_WRITE, FLAGS, usize::MAX, 0]) };
        if at <= 0 {
            return;
        }
        // SAFETY: the page is ours.
        if unsafe { call(Number::Madvise, [at as usize, page, MADV_WIPEONFORK, 0, 0, 0]) } != 0 {
            // SAFETY: as above, and nobody knows it.
            unsafe { call(Number::Munmap, [at as usize, page, 0, 0, 0, 0]) };
            return;
        }
        word = core::ptr::with_exposed_provenance_mut(at as usize);
        WORD.store(word, Ordering::Release);
    }
    // SAFETY: the page stays.
    unsafe { (*word).store(1, Ordering::Relaxed) };
    MEND.store((mend as fn() as *const ()).expose_provenance(), Ordering::Relaxed);
    ARMED.store(true, Ordering::Release);
}

/// A copy was made whole, or is about to be: nothing to notice until [`notice`] is called again.
pub fn settled() {
    ARMED.store(false, Ordering::Release);
}

/// Makes this process whole if it is a copy and nobody has done so; whether that was so.
#[cold]
pub fn mend() -> bool {
    let word = WORD.load(Ordering::Acquire);
    // SAFETY: a page that stays, if there is one.
    let wiped = !word.is_null() && unsafe { (*word).load(Ordering::Relaxed) } == 0;
    let copied = wiped && ARMED.swap(false, Ordering::AcqRel);
    let mend = core::ptr::with_exposed_provenance::<()>(MEND.load(Ordering::Relaxed));
    if copied && !mend.is_null() {
        // SAFETY: `notice` stored a function of this type.
        unsafe { core::mem::transmute::<*const (), fn()>(mend)() };
    }
    copied
}
