//! What happens when: the agenda of a discrete-event simulation.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things to happen, the earliest first; of one moment in the order in which they were entered.
#[derive(Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Reverse<Entry<E>>>,
    entered: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: u64,
    number: u64,
    what: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (u64, u64) {
        (self.at, self.number)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Agenda<E> {
    /// Nothing to happen.
    pub fn new() -> Agenda<E> {
        Agenda { heap: BinaryHeap::new(), entered: 0 }
    }

    /// `what` happens at `at`. O(log n).
    pub fn enter(&mut self, at: u64, what: E) {
        self.entered += 1;
        self.heap.push(Reverse(Entry { at, number: self.entered, what }));
    }

    /// The next thing and when. O(log n).
    pub fn next(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at, entry.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earliest_first_and_first_come_first_served() {
        let mut agenda = Agenda::new();
        for (at, what) in [(5, 'd'), (3, 'a'), (5, 'e'), (3, 'b'), (4, 'c')] {
            agenda.enter(at, what);
        }
        let order: String = std::iter::from_fn(|| agenda.next()).map(|(_, what)| what).collect();
        assert_eq!(order, "abcde");
    }
}
