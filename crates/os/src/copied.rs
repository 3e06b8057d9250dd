//! Whether this process is a copy of another that nobody has made whole: a fork that told no handler (`clone` by hand, or
//! the handler of somebody else, who allocates before ours is called).
//!
//! A word in a page that the kernel wipes in every copy (`MADV_WIPEONFORK`, from Linux 4.14 on), but not for a child that
//! shares its parent's memory (`vfork`). It is looked at where waiting could be in vain, before a thread sleeps, and where the
//! process is about to get another thread.

use crate::syscall::{Number, call};
use crate::{MAP_ANONYMOUS, MAP_PRIVATE, PROT_READ_WRITE};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

const MADV_WIPEONFORK: usize = 18;

/// The word, 1 in a process that is whole; null before there was a second thread.
static WORD: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
/// What makes a copy whole: a function's address.
static MEND: AtomicUsize = AtomicUsize::new(0);

/// Says what makes a copy whole. Before [`notice`].
pub fn prepare(mend: fn()) {
    MEND.store((mend as fn() as *const ()).expose_provenance(), Ordering::Relaxed);
}

/// From now on copies are noticed, and made whole by what [`prepare`] said: before the process has a second thread. `page` is
/// the machine's page size. Where the kernel refuses, copies go unnoticed.
pub fn notice(page: usize) {
    const FLAGS: usize = MAP_PRIVATE | MAP_ANONYMOUS;
    if are_noticed() {
        return;
    }
    // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
    let at = unsafe { call(Number::Mmap, [0, page, PROT_READ_WRITE, FLAGS, usize::MAX, 0]) };
    if at <= 0 {
        return;
    }
    let word: *mut AtomicU32 = core::ptr::with_exposed_provenance_mut(at as usize);
    // SAFETY: the page is ours.
    let wiped = unsafe { call(Number::Madvise, [at as usize, page, MADV_WIPEONFORK, 0, 0, 0]) };
    // SAFETY: the page stays, if it is the one.
    unsafe { (*word).store(1, Ordering::Relaxed) };
    let first = wiped == 0
        && WORD.compare_exchange(null_mut(), word, Ordering::Release, Ordering::Relaxed).is_ok();
    if !first {
        // SAFETY: nobody knows the page.
        unsafe { call(Number::Munmap, [at as usize, page, 0, 0, 0, 0]) };
    }
}

/// Whether copies of this process, or of the one that it is a copy of, are noticed.
pub fn are_noticed() -> bool {
    !WORD.load(Ordering::Acquire).is_null()
}

/// Makes this process whole if it is a copy and nobody has done so; whether that was so.
#[cold]
pub fn mend() -> bool {
    let word = WORD.load(Ordering::Acquire);
    // SAFETY: a page that stays, if there is one.
    let Some(word) = (unsafe { word.as_ref() }) else {
        return false;
    };
    let copied = word.load(Ordering::Relaxed) == 0 && word.swap(1, Ordering::AcqRel) == 0;
    if copied {
        let mend = core::ptr::with_exposed_provenance::<()>(MEND.load(Ordering::Relaxed));
        // SAFETY: `prepare` stored a function of this type before there was a word.
        unsafe { core::mem::transmute::<*const (), fn()>(mend)() };
    }
    copied
}
