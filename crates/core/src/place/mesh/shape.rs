//! The mesh: rows and columns of nodes, and how far they are from each other.

use super::{HeapId, MAX_HEAPS};
use core::fmt;
use core::str::FromStr;

/// A rectangle of nodes, numbered row by row. Written `8x8`: rows, then columns.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mesh {
    rows: u16,
    columns: u16,
}

/// A mesh that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadMesh {
    /// No node.
    Empty,
    /// More nodes than heaps can be numbered.
    TooLarge,
    /// Not two numbers.
    Text,
}

impl fmt::Display for BadMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadMesh::Empty => f.write_str("a mesh has at least one row and one column"),
            BadMesh::TooLarge => write!(f, "a mesh has at most {MAX_HEAPS} nodes, as 64x64 has"),
            BadMesh::Text => f.write_str("a mesh is a rectangle of rows x columns, such as 8x8"),
        }
    }
}

impl core::error::Error for BadMesh {}

impl Mesh {
    /// A mesh of `rows` x `columns` nodes.
    ///
    /// # Errors
    /// When it has no node or more than [`MAX_HEAPS`].
    pub const fn new(rows: usize, columns: usize) -> Result<Mesh, BadMesh> {
        if rows == 0 || columns == 0 {
            return Err(BadMesh::Empty);
        }
        match rows.checked_mul(columns) {
            Some(nodes) if nodes <= MAX_HEAPS => {
                Ok(Mesh { rows: rows as u16, columns: columns as u16 })
            }
            _ => Err(BadMesh::TooLarge),
        }
    }

    /// How many rows.
    pub const fn rows(&self) -> usize {
        self.rows as usize
    }

    /// How many columns.
    pub const fn columns(&self) -> usize {
        self.columns as usize
    }

    /// How many nodes, and so heaps.
    pub const fn heaps(&self) -> usize {
        self.rows() * self.columns()
    }

    /// Every heap, by number.
    pub fn all(&self) -> impl Iterator<Item = HeapId> + use<> {
        (0..self.heaps()).filter_map(HeapId::new)
    }

    /// The row and column of a heap's node.
    pub const fn place(&self, heap: HeapId) -> (usize, usize) {
        (heap.index() / self.columns(), heap.index() % self.columns())
    }

    /// The heap at that row and column; `None` outside.
    pub const fn at(&self, row: usize, column: usize) -> Option<HeapId> {
        if row >= self.rows() || column >= self.columns() {
            return None;
        }
        HeapId::new(row * self.columns() + column)
    }

    /// Hops from one node to the other along rows and columns.
    pub const fn hops(&self, from: HeapId, to: HeapId) -> usize {
        let ((a, b), (c, d)) = (self.place(from), self.place(to));
        a.abs_diff(c) + b.abs_diff(d)
    }
}

impl fmt::Display for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.columns)
    }
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mesh {
    type Err = BadMesh;

    fn from_str(text: &str) -> Result<Mesh, BadMesh> {
        let (rows, columns) = text.split_once('x').ok_or(BadMesh::Text)?;
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| BadMesh::Text);
        Mesh::new(number(rows)?, number(columns)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn hops_are_rows_and_columns_apart() {
        let mesh = Mesh::new(3, 4).unwrap();
        let heap = |i| HeapId::new(i).unwrap();
        assert_eq!((mesh.heaps(), mesh.place(heap(7))), (12, (1, 3)));
        assert_eq!([0, 3, 4, 11].map(|i| mesh.hops(heap(0), heap(i))), [0, 3, 1, 5]);
        assert_eq!((mesh.at(2, 3), mesh.at(3, 0), mesh.at(0, 4)), (Some(heap(11)), None, None));
    }

    #[test]
    fn only_rectangles_are_meshes() {
        assert_eq!("2x16".parse::<Mesh>().unwrap().to_string(), "2x16");
        for text in ["", "8", "8x", "x8", "2x2x2", "8*8", "-1x4", "2.5x2", "8x8 nodes"] {
            assert_eq!(text.parse::<Mesh>(), Err(BadMesh::Text), "{text:?}");
        }
        assert_eq!("0x4".parse::<Mesh>(), Err(BadMesh::Empty));
        assert_eq!("64x65".parse::<Mesh>(), Err(BadMesh::TooLarge));
        assert_eq!(Mesh::new(usize::MAX, 2), Err(BadMesh::TooLarge));
    }
}
