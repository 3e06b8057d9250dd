//! Which id a new object gets.
//!
//! An id is a slot that a replay shares between the thread that frees it and the one that takes it
//! again, so reuse across threads makes one wait for the other where the program did not. Hence: a
//! thread takes the ids of its own objects that it freed itself, last in, first out; ids freed by
//! another thread than made the object go to a queue, and leave it only after many others entered.
//!
//! Invariant: each id is with an object, on one stack or in the queue. The queue keeps at most
//! `AGE` ids from being used and every thread `MOST_OWN`, which bounds how far ids exceed the peak
//! of live objects.

use crate::event::ThreadId;
use std::collections::VecDeque;

/// Ids that must be in the queue before the oldest leaves it.
const AGE: usize = 1024;
/// Ids a thread may hold; beyond, the older half goes to the queue.
const MOST_OWN: usize = 4096;

#[derive(Default)]
pub(super) struct Pool {
    fresh: u32,
    own: Vec<Vec<u32>>,
    queue: VecDeque<u32>,
}

impl Pool {
    #[inline]
    pub(super) fn take(&mut self, thread: ThreadId) -> u32 {
        match self.own.get_mut(thread.0 as usize).and_then(Vec::pop) {
            Some(id) => id,
            None => self.take_slow(),
        }
    }

    fn take_slow(&mut self) -> u32 {
        if self.queue.len() > AGE
            && let Some(id) = self.queue.pop_front()
        {
            return id;
        }
        let id = self.fresh;
        // 2^32 live objects would need 64 GiB for the addresses alone.
        self.fresh = self.fresh.checked_add(1).expect("fewer than 2^32 objects live at once");
        id
    }

    /// Takes an id back that `thread` freed; `remote` when another thread made its object.
    #[inline]
    pub(super) fn give(&mut self, thread: ThreadId, id: u32, remote: bool) {
        if remote {
            self.queue.push_back(id);
            return;
        }
        let index = thread.0 as usize;
        if index >= self.own.len() {
            self.own.resize_with(index + 1, Vec::new);
        }
        let own = &mut self.own[index];
        own.push(id);
        if own.len() > MOST_OWN {
            self.queue.extend(own.drain(..MOST_OWN / 2));
        }
    }

    /// A thread that ends needs no ids.
    pub(super) fn thread_end(&mut self, thread: ThreadId) {
        if let Some(own) = self.own.get_mut(thread.0 as usize) {
            self.queue.extend(std::mem::take(own));
        }
    }
}
