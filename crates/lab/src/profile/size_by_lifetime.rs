//! Size × lifetime: how many objects and bytes, by doublings of both.

use serde::Serialize;

const SIDE: usize = 65;

/// One cell that holds something. Rows and columns double: a cell reaches from its bounds up to,
/// and not including, twice their values (a size of 0 stands alone).
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Cell {
    /// Least size, bytes.
    pub size: u64,
    /// Least lifetime, seconds.
    pub lifetime_s: f64,
    /// Objects.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Clone, Debug)]
pub(super) struct SizeByLifetime {
    cells: Box<[[(u64, u64); SIDE]; SIDE]>,
}

impl Default for SizeByLifetime {
    fn default() -> Self {
        Self { cells: Box::new([[(0, 0); SIDE]; SIDE]) }
    }
}

impl SizeByLifetime {
    #[inline]
    pub(super) fn add(&mut self, size: u64, ticks: u64) {
        let cell = &mut self.cells[bits(size)][bits(ticks)];
        cell.0 += 1;
        cell.1 = cell.1.saturating_add(size);
    }

    pub(super) fn merge(&mut self, other: &SizeByLifetime) {
        let theirs = other.cells.iter().flatten();
        for (mine, theirs) in self.cells.iter_mut().flatten().zip(theirs) {
            mine.0 += theirs.0;
            mine.1 = mine.1.saturating_add(theirs.1);
        }
    }

    /// The cells that hold something, by size, then by lifetime.
    pub(super) fn finish(&self, seconds_per_tick: f64) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (row, columns) in self.cells.iter().enumerate() {
            for (column, &(count, bytes)) in columns.iter().enumerate().filter(|(_, c)| c.0 > 0) {
                let lifetime_s = least(column) as f64 * seconds_per_tick;
                cells.push(Cell { size: least(row), lifetime_s, count, bytes });
            }
        }
        cells
    }
}

/// Bits a value needs: 0 for 0, 1 for 1, 2 for 2 and 3 …
#[inline]
fn bits(value: u64) -> usize {
    (64 - value.leading_zeros()) as usize
}

/// The least value that needs so many bits.
fn least(bits: usize) -> u64 {
    if bits == 0 { 0 } else { 1 << (bits - 1) }
}
