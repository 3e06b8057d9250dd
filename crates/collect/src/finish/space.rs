//! The addresses of a process outside of malloc, as calls told of them, and where malloc's blocks ever lay.
//!
//! Invariants: pieces do not overlap; a piece is a part of one mapping. Memory grows with what is mapped at once.

use freehold_record::packed;
use freehold_trace::{MapChange, MapFlags, MapId, ObjectId, StackId};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// A part of a mapping that is still there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The first address behind it.
    pub end: u64,
    /// Of which mapping.
    pub map: MapId,
    /// What the call said of it.
    pub flags: MapFlags,
    /// Where it was mapped from.
    pub stack: StackId,
}

/// What is known of the addresses of a process.
#[derive(Clone, Default)]
pub struct Space {
    /// By their first address.
    pieces: BTreeMap<u64, Piece>,
    next: u32,
    /// An address of each thread's stack.
    stacks: BTreeMap<u32, u64>,
    touched: Touched,
    /// Who made the objects, by their names.
    makers: Vec<StackId>,
}

impl Space {
    /// A call told that `bytes` at `at` came or went, as `flags` of `freehold_record::packed` say.
    pub fn told(
        &mut self,
        at: u64,
        bytes: u64,
        flags: u64,
        stack: StackId,
        emit: &mut dyn FnMut(MapId, MapChange),
    ) {
        let end = at.saturating_add(bytes);
        self.unmap(at, end, emit);
        if flags == packed::MAP_GONE {
            return;
        }
        // The bits are the same in both.
        const _: () = assert!(MapFlags::FILE.0 as u64 == packed::MAP_FILE);
        const _: () = assert!(MapFlags::RECORDER.0 as u64 == packed::MAP_RECORDER);
        let flags = MapFlags(flags as u16);
        let map = MapId(self.next);
        self.next = self.next.wrapping_add(1);
        self.touched.forget(at, end);
        self.pieces.insert(at, Piece { end, map, flags, stack });
        emit(map, MapChange::Map { bytes, flags });
    }

    fn unmap(&mut self, at: u64, end: u64, emit: &mut dyn FnMut(MapId, MapChange)) {
        let first = self.first(at);
        let over: Vec<(u64, Piece)> = self
            .pieces
            .range(first..end.max(first))
            .map(|(&start, &piece)| (start, piece))
            .collect();
        for (start, piece) in over {
            self.pieces.remove(&start);
            let gone = (start.max(at), piece.end.min(end));
            if start < gone.0 {
                self.pieces.insert(start, Piece { end: gone.0, ..piece });
            }
            if gone.1 < piece.end {
                self.pieces.insert(gone.1, piece);
            }
            emit(piece.map, MapChange::Unmap { bytes: gone.1 - gone.0 });
        }
    }

    /// Where the piece begins that holds the address; the address itself where none does.
    fn first(&self, at: u64) -> u64 {
        let before = self.pieces.range(..at).next_back().filter(|(_, piece)| piece.end > at);
        before.map_or(at, |(&start, _)| start)
    }

    /// The pieces that have addresses of `start..end`, clipped to it.
    pub fn pieces(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, Piece)> + '_ {
        let first = self.first(start);
        self.pieces
            .range(first..end.max(first))
            .map(move |(&at, &piece)| (at.max(start), Piece { end: piece.end.min(end), ..piece }))
    }

    /// A thread began, and an address of its stack is this.
    pub fn thread_begins(&mut self, thread: u32, stack: u64) {
        self.stacks.insert(thread, stack);
    }

    /// A thread has ended.
    pub fn thread_ends(&mut self, thread: u32) {
        self.stacks.remove(&thread);
    }

    /// Whether a thread's stack lies there.
    pub fn holds_stack(&self, start: u64, end: u64) -> bool {
        self.stacks.values().any(|stack| (start..end).contains(stack))
    }

    /// A block of malloc lies at this address.
    #[inline]
    pub fn touch(&mut self, address: u64) {
        self.touched.add(address);
    }

    /// An object was made, or resized, by this stack.
    #[inline]
    pub fn made(&mut self, object: ObjectId, stack: StackId) {
        let index = object.0 as usize;
        if index >= self.makers.len() {
            self.makers.resize(index + 1, StackId::NONE);
        }
        self.makers[index] = stack;
    }

    /// Who made it.
    pub fn maker(&self, object: ObjectId) -> StackId {
        self.makers.get(object.0 as usize).copied().unwrap_or_default()
    }

    /// A forked child's: it names its objects anew.
    #[must_use]
    pub fn forked(&self) -> Space {
        Space { makers: Vec::new(), ..self.clone() }
    }

    /// Whether a block of malloc ever lay there, since it was mapped.
    pub fn was_touched(&self, start: u64, end: u64) -> bool {
        self.touched.any(start, end)
    }
}

/// The stretches of addresses in which blocks of malloc began.
#[derive(Clone)]
struct Touched {
    all: FxHashSet<u64>,
    /// The last ones, by their lowest bits, so that most blocks cost one comparison.
    recent: [u64; RECENT],
}

/// log2 of the bytes of a stretch.
const STRETCH: u32 = 16;
const RECENT: usize = 64;

impl Default for Touched {
    fn default() -> Touched {
        Touched { all: FxHashSet::default(), recent: [u64::MAX; RECENT] }
    }
}

impl Touched {
    #[inline]
    fn add(&mut self, address: u64) {
        let stretch = address >> STRETCH;
        let recent = &mut self.recent[stretch as usize % RECENT];
        if *recent != stretch {
            *recent = stretch;
            self.all.insert(stretch);
        }
    }

    /// Stretches that lie there whole have other memory now.
    fn forget(&mut self, start: u64, end: u64) {
        let (first, behind) = (start.div_ceil(1 << STRETCH), end >> STRETCH);
        if behind.saturating_sub(first) > self.all.len() as u64 {
            self.all.retain(|stretch| !(first..behind).contains(stretch));
        } else {
            for stretch in first..behind {
                self.all.remove(&stretch);
            }
        }
        self.recent = [u64::MAX; RECENT];
    }

    fn any(&self, start: u64, end: u64) -> bool {
        // A block that begins in the stretch of `start` may begin before it.
        let (first, behind) = (start.div_ceil(1 << STRETCH), end.div_ceil(1 << STRETCH));
        let first = if first < behind { first } else { start >> STRETCH };
        if behind.saturating_sub(first) > self.all.len() as u64 {
            return self.all.iter().any(|stretch| (first..behind).contains(stretch));
        }
        (first..behind).any(|stretch| self.all.contains(&stretch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_record::packed::{MAP_BREAK, MAP_GONE};

    fn told(space: &mut Space, at: u64, bytes: u64, flags: u64) -> Vec<(u32, MapChange)> {
        let mut all = Vec::new();
        space.told(at, bytes, flags, StackId(at as u32), &mut |map, change| {
            all.push((map.0, change))
        });
        all
    }

    fn picture(space: &Space) -> Vec<(u64, u64, u32)> {
        space.pieces.iter().map(|(&at, piece)| (at, piece.end, piece.map.0)).collect()
    }

    #[test]
    fn parts_of_mappings_go_from_the_front_the_middle_and_the_back() {
        let mut space = Space::default();
        let made = told(&mut space, 100, 100, MAP_BREAK);
        assert_eq!(made, [(0, MapChange::Map { bytes: 100, flags: MapFlags::BREAK })]);
        told(&mut space, 300, 100, 0);
        assert_eq!(told(&mut space, 140, 20, MAP_GONE), [(0, MapChange::Unmap { bytes: 20 })]);
        assert_eq!(picture(&space), [(100, 140, 0), (160, 200, 0), (300, 400, 1)]);
        let over = told(&mut space, 180, 140, 0);
        assert_eq!(
            over,
            [
                (0, MapChange::Unmap { bytes: 20 }),
                (1, MapChange::Unmap { bytes: 20 }),
                (2, MapChange::Map { bytes: 140, flags: MapFlags::default() })
            ],
            "a mapping takes the place of others"
        );
        assert_eq!(picture(&space), [(100, 140, 0), (160, 180, 0), (180, 320, 2), (320, 400, 1)]);
        assert_eq!(told(&mut space, 0, 1000, MAP_GONE).len(), 4);
        assert_eq!(picture(&space), []);
        assert_eq!(told(&mut space, 0, 1000, MAP_GONE), []);
    }

    #[test]
    fn pieces_are_clipped() {
        let mut space = Space::default();
        told(&mut space, 100, 100, 0);
        let found: Vec<(u64, u64)> =
            space.pieces(150, 170).map(|(at, piece)| (at, piece.end)).collect();
        assert_eq!(found, [(150, 170)]);
        assert_eq!(space.pieces(200, 300).count() + space.pieces(0, 100).count(), 0);
    }

    #[test]
    fn a_new_mapping_has_no_blocks_of_malloc() {
        let mut space = Space::default();
        space.touch(0x7f00_0001_2340);
        assert!(space.was_touched(0x7f00_0001_0000, 0x7f00_0002_0000));
        assert!(!space.was_touched(0x7f00_0002_0000, 0x7f00_0100_0000));
        told(&mut space, 0x7f00_0000_0000, 1 << 20, 0);
        assert!(!space.was_touched(0x7f00_0000_0000, 0x7f00_0100_0000));
        space.touch(0x7f00_0001_2340);
        assert!(space.was_touched(0, u64::MAX), "not remembered as told a moment ago");
    }
}
