//! What a heap may hold: its own limit, and when it looks again at what is left.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// See the module; `room` looks at them. All-zero: no limit.
pub(super) struct Limits {
    /// Bytes that may be in use or resident; 0: any number.
    pub(super) own: AtomicUsize,
    /// Bytes at the ends of large blocks' last units that are not the blocks', if `own` is set.
    pub(super) tails: AtomicUsize,
    /// Units to be taken from one look at what is left to the next, and taken since; 0: nobody looks.
    pub(super) step: AtomicUsize,
    pub(super) taken: AtomicUsize,
    /// Whether to ask the machine, too.
    pub(super) asks: AtomicBool,
}

impl Limits {
    pub(super) const fn new() -> Limits {
        Limits {
            own: AtomicUsize::new(0),
            tails: AtomicUsize::new(0),
            step: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            asks: AtomicBool::new(false),
        }
    }

    /// Whether the heap has a limit of its own.
    pub(super) fn has_own(&self) -> bool {
        self.own.load(Ordering::Relaxed) != 0
    }

    /// A large block has so many bytes more, or less, in its last unit than it uses. Counted where there is a limit of its own
    /// only: all threads write this word.
    pub(super) fn change_tails(&self, less: usize, more: usize) {
        if self.has_own() {
            self.tails.fetch_add(more.wrapping_sub(less), Ordering::Relaxed);
        }
    }

    /// In a forked child: so many they are in all.
    pub(super) fn set_tails(&self, bytes: usize) {
        self.tails.store(bytes, Ordering::Relaxed);
    }
}
