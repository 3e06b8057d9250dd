//! Leaving a node while the program runs: because it will be unplugged, or others need its memory.
//!
//! ```text
//! close    no heap takes memory of the node any more            also those that are made later
//! trim     what holds no block is given back, not moved
//! rounds   every heap, bank by bank, at a bounded rate          core::malloc::vacate
//!          until a whole round finds nothing there              which is the proof
//! rest     stacks, data, mappings, likewise piece by piece       os::Elsewhere
//! ```
//!
//! A call with a limit on bytes to move ends early; the next one continues. Moved memory stays away, since the node
//! stays closed until [`readmit`]. Threads may run on: they find their blocks at the same addresses.

use crate::heaps::{self, with_list};
use crate::main_heap::HEAP;
use crate::process;
use core::sync::atomic::AtomicU32;
use freehold_core::malloc::units::Cursor;
use freehold_core::place::{NodeId, NodeSet};

/// Rounds over all memory before what is left counts as stuck.
const ROUNDS: u32 = 8;
/// Between two rounds, because kernel threads may hold a page for milliseconds.
const REST_NS: u64 = 20_000_000;

/// How fast, and how much at a time; [`Pace::default`] is as fast as it goes, all of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Bytes that are moved in a second at most, on average.
    pub bytes_per_second: Option<u64>,
    /// Bytes after which the call ends, give or take a bank of 2 MiB.
    pub most: Option<u64>,
}

/// What a call came to, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vacated {
    /// Moved by this call: of heaps, stacks, data, mappings.
    pub moved: u64,
    /// Of heaps found on the node when last looked at, and not moved.
    pub left: u64,
    /// A whole round found nothing of heaps on the node any more, and everything else was looked at.
    pub finished: bool,
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeError {
    /// There is one memory only, or its placing is not the heap's business (`FREEHOLD_NODES=off`, numactl).
    NotPlaced,
    /// The program may not use such a node.
    NoSuchNode,
    /// There would be no other.
    LastNode,
}

/// Moves everything that the program has on `node` to its other nodes, and takes no memory there any more until
/// [`readmit`]. A heap that is bound to the node keeps what it has.
///
/// # Errors
/// See [`NodeError`]. Too little room elsewhere is no error: then something is left, and a later call goes on.
pub fn vacate(node: usize, pace: Pace) -> Result<Vacated, NodeError> {
    let node = usable(node)?;
    let set = NodeSet::default().with(node);
    let others = HEAP.machine().usable_nodes().without(heaps::closed());
    if others.without(set) == NodeSet::default() {
        return Err(NodeError::LastNode);
    }
    heaps::leave(set);
    close_everywhere();
    process::trim();
    with_list(|list| {
        list.each(|heap| {
            heap.heap.purge(true);
        });
    });
    let (mut heap, mut cursor) = (0, Cursor::default());
    let mut done = rounds(pace, || {
        loop {
            let step = match heap {
                0 => Some(HEAP.vacate(&mut cursor)),
                further => heaps::nth(further - 1, |it| it.heap.vacate(&mut cursor)),
            };
            match step {
                Some(Some(step)) => return Some(step),
                Some(None) => (heap, cursor) = (heap + 1, Cursor::default()),
                None => {
                    heap = 0;
                    return None;
                }
            }
        }
    });
    if done.finished {
        move_rest(set, others.without(set), pace, &mut done);
    }
    Ok(done)
}

/// Moves memory outside of heaps, once: pages shared with other processes stay, and a thread on the node may touch new ones.
fn move_rest(from: NodeSet, to: NodeSet, pace: Pace, done: &mut Vacated) {
    let Some(mut rest) = HEAP.machine().elsewhere(from, to) else { return };
    while let Some(moved) = rest.step() {
        done.moved += moved as u64;
        pace.pause(moved);
        if pace.is_enough(done.moved) {
            done.finished = false;
            return;
        }
    }
}

impl Pace {
    /// Sleeps as long as that much takes.
    fn pause(self, moved: usize) {
        if let Some(rate) = self.bytes_per_second {
            sleep((moved as u64).saturating_mul(1_000_000_000) / rate.max(1));
        }
    }

    /// Whether the call has moved what it may.
    fn is_enough(self, moved: u64) -> bool {
        self.most.is_some_and(|most| moved >= most)
    }
}

/// Lets heaps take memory of a node again that was left. What moved stays where it is.
///
/// # Errors
/// See [`NodeError`].
pub fn readmit(node: usize) -> Result<(), NodeError> {
    let set = NodeSet::default().with(usable(node)?);
    heaps::readmit(set);
    close_everywhere();
    Ok(())
}

/// A node by its number, if memory is placed on it.
pub(crate) fn usable(node: usize) -> Result<NodeId, NodeError> {
    process::start();
    let nodes = HEAP.machine().usable_nodes();
    if nodes == NodeSet::default() {
        return Err(NodeError::NotPlaced);
    }
    NodeId::new(node).filter(|&node| nodes.contains(node)).ok_or(NodeError::NoSuchNode)
}

/// Tells every heap. Under the list's lock, under which heaps are listed, so that none is forgotten.
fn close_everywhere() {
    with_list(|list| {
        HEAP.close_nodes(heaps::closed(), false);
        list.each(|heap| heap.close(heaps::closed()));
    });
}

/// Goes round until a round finds nothing, or nothing more can be done. `step` moves a bank's worth; `None` ends a round.
pub(crate) fn rounds(
    pace: Pace,
    mut step: impl FnMut() -> Option<freehold_core::malloc::Vacated>,
) -> Vacated {
    let mut done = Vacated::default();
    for _ in 0..ROUNDS {
        let before = done.moved;
        done.left = 0;
        while let Some(part) = step() {
            done.moved += part.moved as u64;
            done.left += part.left as u64;
            pace.pause(part.moved);
            if pace.is_enough(done.moved) {
                return done;
            }
        }
        if done.left == 0 && done.moved == before {
            done.finished = true;
            break;
        }
        sleep(if done.left == 0 { 0 } else { REST_NS });
    }
    done
}

fn sleep(nanoseconds: u64) {
    if nanoseconds != 0 {
        HEAP.machine().sleep_on(&AtomicU32::new(0), 0, Some(nanoseconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_core::malloc::Vacated as Part;

    /// Rounds of these parts; after the last, nothing is there.
    fn go(pace: Pace, parts: &[&[(usize, usize)]]) -> (Vacated, usize) {
        let (mut round, mut at) = (0, 0);
        let done = rounds(pace, || {
            let part = parts.get(round).and_then(|parts| parts.get(at));
            at += 1;
            if part.is_none() {
                (round, at) = (round + 1, 0);
            }
            part.map(|&(moved, left)| Part { moved, left })
        });
        (done, round)
    }

    #[test]
    fn a_round_that_finds_nothing_is_the_last() {
        let (done, rounds) = go(Pace::default(), &[&[(10, 0), (20, 5)], &[(5, 0)], &[(0, 0)]]);
        assert_eq!((done, rounds), (Vacated { moved: 35, left: 0, finished: true }, 3));
    }

    #[test]
    fn what_cannot_move_is_said_after_some_rounds() {
        let stuck: [&[(usize, usize)]; 20] = [&[(0, 7)]; 20];
        let (done, rounds) = go(Pace::default(), &stuck);
        assert_eq!(
            (done, rounds),
            (Vacated { moved: 0, left: 7, finished: false }, ROUNDS as usize)
        );
    }

    #[test]
    fn a_call_ends_when_it_has_moved_what_it_may() {
        let pace = Pace { most: Some(30), ..Pace::default() };
        let (done, rounds) = go(pace, &[&[(20, 0), (20, 0), (20, 0)]]);
        assert_eq!((done, rounds), (Vacated { moved: 40, left: 0, finished: false }, 0));
    }
}
