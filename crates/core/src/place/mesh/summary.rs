//! One word for 64 heaps: which of them have a block of some length free.
//!
//! The mesh is cut into tiles of 8 x 8 nodes. The middle node of each keeps a summary: for each of four
//! lengths a bit for every heap, which that heap has set or cleared by a message when it crossed the
//! length. A search reads one word instead of asking 64 heaps. The word is as old as its journey, so
//! it only says whom to ask first.

use super::{HeapId, Mesh};

/// Rows and columns of a tile.
const SIDE: usize = 8;
/// Lengths of free blocks in bytes, headers included, whose crossing is told.
pub const LENGTHS: [u64; 4] = [80, 144, 208, 272];

/// How many of [`LENGTHS`] a free block of `bytes` reaches.
pub fn level(bytes: u64) -> usize {
    LENGTHS.iter().filter(|&&length| bytes >= length).count()
}

/// A tile of the mesh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tile {
    mesh: Mesh,
    top: usize,
    left: usize,
}

impl Tile {
    /// The tile that `heap` lies in.
    pub const fn of(mesh: Mesh, heap: HeapId) -> Tile {
        let (row, column) = mesh.place(heap);
        Tile { mesh, top: row / SIDE * SIDE, left: column / SIDE * SIDE }
    }

    /// The node that keeps its summary: the middle one. `None` for a tile of another mesh.
    pub fn keeper(&self) -> Option<HeapId> {
        let bottom = self.mesh.rows().min(self.top + SIDE);
        let right = self.mesh.columns().min(self.left + SIDE);
        self.mesh.at((self.top + bottom) / 2, (self.left + right) / 2)
    }

    /// The bit of `heap`; `None` when it lies elsewhere.
    pub fn bit(&self, heap: HeapId) -> Option<u32> {
        let (row, column) = self.mesh.place(heap);
        let (row, column) = (row.checked_sub(self.top)?, column.checked_sub(self.left)?);
        (row < SIDE && column < SIDE).then_some((row * SIDE + column) as u32)
    }
}

/// What a keeper knows of its tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary([u64; LENGTHS.len()]);

impl Summary {
    /// A tile of empty heaps.
    pub const fn new() -> Summary {
        Summary([u64::MAX; LENGTHS.len()])
    }

    /// The heap of that bit says that its longest free block reaches so many [`LENGTHS`].
    pub fn told(&mut self, bit: u32, level: usize) {
        for (number, word) in self.0.iter_mut().enumerate() {
            *word = (*word & !(1 << bit)) | (u64::from(number < level) << bit);
        }
    }

    /// The heaps that had a block of `bytes`, by the shortest length that surely holds it: none for what
    /// is longer than all.
    pub fn having(&self, bytes: u64) -> u64 {
        let sure = LENGTHS.iter().position(|&length| length >= bytes);
        sure.map_or(0, |number| self.0[number])
    }
}

impl Default for Summary {
    fn default() -> Self {
        Summary::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_have_a_bit_for_every_heap_and_a_keeper_in_the_middle() {
        for text in ["1x1", "2x2", "8x8", "9x20"] {
            let mesh: Mesh = text.parse().unwrap();
            for heap in mesh.all() {
                let tile = Tile::of(mesh, heap);
                let keeper = tile.keeper().unwrap();
                assert_eq!(Tile::of(mesh, keeper), tile, "{text} {heap:?}");
                let same = mesh.all().filter(|&other| tile.bit(other) == tile.bit(heap));
                assert!(same.eq([heap]), "{text} {heap:?}");
            }
        }
        let mesh = "16x16".parse().unwrap();
        let tile = Tile::of(mesh, HeapId::new(255).unwrap());
        assert_eq!(tile.keeper(), mesh.at(12, 12));
        assert_eq!(tile.bit(HeapId::new(0).unwrap()), None);
    }

    #[test]
    fn a_summary_names_only_heaps_that_surely_had_room() {
        let mut summary = Summary::new();
        assert_eq!(summary.having(272), u64::MAX);
        summary.told(5, level(150));
        let has = |bytes| summary.having(bytes) >> 5 & 1;
        assert_eq!([32, 80, 144, 145, 272].map(has), [1, 1, 1, 0, 0]);
        assert_eq!(summary.having(273), 0, "longer than any told length");
        assert_eq!([79, 80, 271, 272, 9999].map(level), [0, 1, 3, 4, 4]);
    }
}
