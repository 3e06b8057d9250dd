//! The lock of one heap: who may go in, who is turned away, who waits.
//!
//! The asked side of every message. A command that looks for a block or frees one holds the lock while
//! it runs; a [`TryLock`](Ask::TryLock) may keep it from one message to the next. Whoever drives it
//! keeps those that wait, in order, and lets the first of them in when the gate says so: nothing that
//! waits is answered "busy", so that a free which finds its owner locked is late, never lost.
//!
//! Invariant: the lock has at most one holder, and only the holder's [`Take`](Ask::Take) gets in.

use super::{Ask, HeapId};

/// What becomes of a message at the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// It may go in. The lock is held until [`Gate::leave`].
    Go,
    /// The answer is [`Answer::Busy`](super::Answer::Busy).
    Busy,
    /// Keep it, behind those that wait already, until [`Gate::leave`] says that it is free.
    Wait,
    /// A `Take` by somebody who does not hold the lock: the driver's mistake.
    Refused,
}

/// The lock of one heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Gate {
    holder: Option<HeapId>,
}

impl Gate {
    /// Who holds the lock.
    pub const fn holder(&self) -> Option<HeapId> {
        self.holder
    }

    /// `from` comes with `ask`. O(1).
    pub fn arrive(&mut self, from: HeapId, ask: Ask) -> Pass {
        match (ask, self.holder) {
            (Ask::Take, holder) if holder == Some(from) => Pass::Go,
            (Ask::Take, _) => Pass::Refused,
            (_, None) => {
                self.holder = Some(from);
                Pass::Go
            }
            (Ask::TryLock | Ask::TryAlloc, Some(_)) => Pass::Busy,
            (Ask::Lock | Ask::Alloc | Ask::Free, Some(_)) => Pass::Wait,
        }
    }

    /// What was let in is done. Whether the lock is free now, and the first that waits may
    /// [`arrive`](Self::arrive) again: not after `Lock` and `TryLock`, which keep it. O(1).
    pub fn leave(&mut self, ask: Ask) -> bool {
        if !matches!(ask, Ask::Lock | Ask::TryLock) {
            self.holder = None;
        }
        self.holder.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_and_only_its_take_goes_in() {
        let [a, b] = [HeapId::new(1).unwrap(), HeapId::new(2).unwrap()];
        let mut gate = Gate::default();
        assert_eq!(gate.arrive(a, Ask::TryLock), Pass::Go);
        assert!(!gate.leave(Ask::TryLock));
        let others = [Ask::TryLock, Ask::Alloc, Ask::Free, Ask::Lock, Ask::Take];
        let found = others.map(|ask| gate.arrive(b, ask));
        assert_eq!(found, [Pass::Busy, Pass::Wait, Pass::Wait, Pass::Wait, Pass::Refused]);
        assert_eq!(gate.arrive(a, Ask::Take), Pass::Go);
        assert!(gate.leave(Ask::Take));
        assert_eq!((gate.arrive(b, Ask::Free), gate.holder()), (Pass::Go, Some(b)));
    }
}
