//! Who waits for whom: a thread of which the next event makes no sense before another thread's.
//!
//! A thread waits until the other has come past a certain one of its events. Nobody waits in a circle,
//! so whatever a damaged or incomplete recording says, the merge goes on.

/// The waits among threads, which are known by their index.
#[derive(Default)]
pub struct Waits {
    threads: Vec<Thread>,
}

#[derive(Default)]
struct Thread {
    waits_for: Option<usize>,
    /// Who waits for this one, and how many of its events must have been told then.
    awaited: Vec<(u64, usize)>,
}

/// No number of events told: nobody waits.
pub const NOBODY: u64 = u64::MAX;

impl Waits {
    /// Nobody waits among so many threads.
    pub fn new(threads: usize) -> Waits {
        let mut waits = Waits::default();
        waits.threads.resize_with(threads, Thread::default);
        waits
    }

    /// Whether a wait of `waiter` for `other` would close a circle. O(threads that wait).
    pub fn would_close(&self, waiter: usize, other: usize) -> bool {
        let mut at = other;
        while let Some(next) = self.threads[at].waits_for {
            at = next;
        }
        at == waiter
    }

    /// From now on, `waiter` waits until `told` events of `other` were told. Gives back how many of
    /// them must have been told for the first of those who wait for it.
    pub fn wait(&mut self, waiter: usize, other: usize, told: u64) -> u64 {
        debug_assert!(!self.would_close(waiter, other));
        self.threads[waiter].waits_for = Some(other);
        self.threads[other].awaited.push((told, waiter));
        self.first(other)
    }

    /// One that waits for `index` no longer, if there is any after `told` events of it.
    pub fn end_one(&mut self, index: usize, told: u64) -> Option<usize> {
        let awaited = &mut self.threads[index].awaited;
        let over = awaited.iter().position(|&(until, _)| until <= told)?;
        let (_, waiter) = awaited.remove(over);
        self.threads[waiter].waits_for = None;
        Some(waiter)
    }

    /// How many events of `index` must have been told for the first of those who wait for it.
    pub fn first(&self, index: usize) -> u64 {
        self.threads[index].awaited.iter().map(|wait| wait.0).min().unwrap_or(NOBODY)
    }
}
