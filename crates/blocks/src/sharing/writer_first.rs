//! The lock of the paper: a reader enters only if no writer writes or waits, a writer only if nobody
//! reads or writes (Quintana, "Performance Analysis of Multithreaded Memory Allocation Strategies",
//! 2019, Methodology, class `Locker`).
//!
//! Written as described: a few words guarded by a mutex, and one condition for all waiting
//! threads. Readers may wait for ever: while writers keep arriving before the last one leaves, no
//! reader enters. The lock counts this: a writer that arrived after a reader and entered before it has
//! overtaken it.

use super::lock::{Monitor, ReadWrite};
use crate::sync::UnsafeCell;

/// The lock; see the module.
#[derive(Debug)]
pub struct WriterFirst<M> {
    monitor: M,
    state: UnsafeCell<State>,
}

#[derive(Debug, Default)]
struct State {
    readers: u32,
    writing: bool,
    waiting: Waiting,
    /// Writers that ever came.
    writers_came: u64,
    starvation: Starvation,
}

/// How many wait at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waiting {
    /// Threads that want to read.
    pub readers: u32,
    /// Threads that want to write.
    pub writers: u32,
}

/// What readers had to suffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Starvation {
    /// Readers that entered.
    pub reads: u64,
    /// Those of them that were overtaken by a writer that came later.
    pub overtaken: u64,
    /// How often, together.
    pub overtakings: u64,
    /// How often, the one that suffered most.
    pub most: u64,
}

// SAFETY: the state is touched inside the monitor only, one thread at a time.
unsafe impl<M: Sync> Sync for WriterFirst<M> {}

impl<M: Monitor> WriterFirst<M> {
    /// A free lock. `monitor` guards nothing else.
    pub fn new(monitor: M) -> WriterFirst<M> {
        WriterFirst { monitor, state: UnsafeCell::new(State::default()) }
    }

    /// What readers had to suffer so far.
    pub fn starvation(&self) -> Starvation {
        self.look(|state| state.starvation)
    }

    /// How many wait at this moment.
    pub fn waiting(&self) -> Waiting {
        self.look(|state| state.waiting)
    }

    fn look<R: Default>(&self, what: impl FnOnce(&State) -> R) -> R {
        let mut seen = R::default();
        self.monitor.leave(|| {
            seen = self.change(|state| what(state));
            false
        });
        seen
    }

    /// Only to be called inside the monitor.
    fn change<R>(&self, work: impl FnOnce(&mut State) -> R) -> R {
        self.state.with_mut(|state| {
            // SAFETY: the monitor lets one thread in at a time.
            work(unsafe { &mut *state })
        })
    }
}

impl Starvation {
    /// A reader was overtaken so often.
    fn count(&mut self, overtakings: u64) {
        self.overtaken += u64::from(overtakings > 0);
        self.overtakings += overtakings;
        self.most = self.most.max(overtakings);
    }
}

impl State {
    /// Lets a reader in, if it may. `came` is how many writers had come when it was first refused.
    fn admit_reader(&mut self, came: &mut Option<u64>) -> bool {
        if self.writing || self.waiting.writers > 0 {
            if came.is_none() {
                *came = Some(self.writers_came);
                self.waiting.readers += 1;
            }
            return false;
        }
        self.readers += 1;
        self.starvation.reads += 1;
        if let Some(came) = *came {
            self.waiting.readers -= 1;
            // No writer waits: whoever came since has been in and has left.
            self.starvation.count(self.writers_came - came);
        }
        true
    }

    fn anybody_waits(&self) -> bool {
        self.waiting.readers + self.waiting.writers > 0
    }

    fn admit_writer(&mut self) -> bool {
        if self.writing || self.readers > 0 {
            return false;
        }
        self.waiting.writers -= 1;
        self.writing = true;
        true
    }
}

// SAFETY: `admit_writer` lets one in while nobody else is, `admit_reader` only while no writer is; the
// monitor's mutex orders each entry behind the departures that made it possible.
unsafe impl<M: Monitor> ReadWrite for WriterFirst<M> {
    #[inline]
    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        let mut came = None;
        self.monitor.enter(|| self.change(|state| state.admit_reader(&mut came)));
        let result = work();
        self.monitor.leave(|| {
            self.change(|state| {
                state.readers -= 1;
                state.readers == 0 && state.anybody_waits()
            })
        });
        result
    }

    #[inline]
    fn write<R>(&self, work: impl FnOnce() -> R) -> R {
        let mut came = false;
        self.monitor.enter(|| {
            self.change(|state| {
                if !came {
                    came = true;
                    state.writers_came += 1;
                    state.waiting.writers += 1;
                }
                state.admit_writer()
            })
        });
        let result = work();
        self.monitor.leave(|| {
            self.change(|state| {
                state.writing = false;
                state.anybody_waits()
            })
        });
        result
    }
}
