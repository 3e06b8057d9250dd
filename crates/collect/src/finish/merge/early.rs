//! Stamps that are early: an event that makes no sense before another thread's, and what is done about it.

use super::{Kind, Merge, Reverse, Seen, Stop, makes_object};

/// How far ahead the event is looked for that would let another one make sense: the free of an address
/// that an allocation found live, the allocation of one that a free found dead. Stamps are early by
/// what a processor looks ahead, a few hundred ticks; what comes later than this is another story.
const LOOK_AHEAD_TICKS: u64 = 20_000;

/// Why an allocation is at an address that is live, or a free of one that is not.
pub(super) enum Oddity {
    /// Its stamp is early: another thread frees it, or allocates it, a moment later.
    Early,
    /// Another thread's stamp was early by more than this event and the thread's next at the address,
    /// which is the opposite: what lived between the two, or around them, is at no address any more.
    Pair,
    /// An event is missing.
    Gap,
}

impl Merge<'_> {
    /// Explains the thread's next event, an allocation at an address that is live or a free of one
    /// that is not. Where it is early, the thread waits from now on.
    #[cold]
    pub(super) fn explain(
        &mut self,
        index: usize,
        seen: &Seen,
        makes: bool,
    ) -> Result<Oddity, Stop> {
        let until = self.threads[index].floor.max(seen.tick) + LOOK_AHEAD_TICKS;
        let mut awaited: Option<(u64, usize, u64)> = None;
        for other in 0..self.threads.len() {
            if other == index
                || self.threads[other].process != self.threads[index].process
                || self.waits.would_close(index, other)
            {
                continue;
            }
            if let Some((tick, told)) = self.ahead(other, seen.address, !makes, until)?
                && awaited.is_none_or(|(first, ..)| tick < first)
            {
                awaited = Some((tick, other, told));
            }
        }
        let pair = self.pair_ends(index, seen, until)?;
        match (awaited, pair) {
            (None, None) => Ok(Oddity::Gap),
            (Some((tick, other, told)), pair) if pair.is_none_or(|ends| tick <= ends) => {
                self.threads[other].awaited = self.waits.wait(index, other, told);
                Ok(Oddity::Early)
            }
            _ => {
                self.threads[index].pairs.push(seen.address);
                Ok(Oddity::Pair)
            }
        }
    }

    /// If what the thread does next with the address, before `until`, undoes its next event: when.
    fn pair_ends(&mut self, index: usize, seen: &Seen, until: u64) -> Result<Option<u64>, Stop> {
        let stream = &mut self.threads[index].stream;
        stream.read_ahead(&mut self.loader, until)?;
        let mut ahead = stream.ahead().skip(1).take_while(|event| event.tick < until);
        let next =
            ahead.find(|event| event.address == seen.address && makes_object(event.kind).is_some());
        Ok(next
            .filter(|next| match seen.kind {
                Kind::Free => next.kind.is_alloc(),
                kind => kind.is_alloc() && next.kind == Kind::Free,
            })
            .map(|next| next.tick))
    }

    /// If the first thing that a thread does with the address before `until` is to make an object
    /// there (else: to let one die): when, and how many events it has then told.
    fn ahead(
        &mut self,
        index: usize,
        address: u64,
        makes: bool,
        until: u64,
    ) -> Result<Option<(u64, u64)>, Stop> {
        let thread = &mut self.threads[index];
        thread.stream.read_ahead(&mut self.loader, until)?;
        let floor = thread.floor;
        let first = (thread.told + 1..)
            .zip(thread.stream.ahead())
            .take_while(|(_, event)| event.tick.max(floor) < until)
            .find(|(_, event)| event.address == address && makes_object(event.kind).is_some());
        Ok(first
            .filter(|(_, event)| makes_object(event.kind) == Some(makes))
            .map(|(told, event)| (event.tick.max(floor), told)))
    }

    /// Those who waited for what the thread has told by now come after it.
    #[cold]
    pub(super) fn wake(&mut self, index: usize) {
        let (told, now) = (self.threads[index].told, self.threads[index].floor);
        while let Some(waiter) = self.waits.end_one(index, told) {
            let thread = &mut self.threads[waiter];
            // On one tick, a reader of the trace would take frees first.
            thread.floor = thread.floor.max(now + 1);
            if let Some(key) = thread.key(waiter) {
                self.heap.push(Reverse(key));
            }
        }
        self.threads[index].awaited = self.waits.first(index);
    }
}
