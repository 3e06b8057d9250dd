//! Vertices and the edges between them, which neighbouring elements share.
//!
//! An edge splits once, whoever asks first: so a side that one neighbour cut and the other did not is
//! still one edge, and shading can follow it to every vertex that lies on it.

use crate::radiosity::colour::{Cell, RgbCell};
use crate::radiosity::geometry::Vec3;
use std::sync::{Arc, OnceLock};

/// A corner of elements.
#[derive(Debug)]
pub struct Vertex {
    /// Where it is.
    pub position: Vec3,
    /// Light for smooth shading, written by [`shading`](crate::radiosity::shading) alone.
    pub shade: RgbCell,
    /// How much was added up in `shade`.
    pub weight: Cell,
}

impl Vertex {
    pub(super) fn new(position: Vec3) -> Arc<Vertex> {
        Arc::new(Vertex { position, shade: RgbCell::default(), weight: Cell::default() })
    }
}

/// A side that at most two neighbours share.
#[derive(Debug)]
pub struct Edge {
    /// Its ends.
    pub ends: [Arc<Vertex>; 2],
    split: OnceLock<Split>,
}

/// An edge cut in two.
#[derive(Debug)]
pub struct Split {
    /// The new vertex.
    pub middle: Arc<Vertex>,
    /// From the first end to the middle, and from the middle to the second end.
    pub halves: [Arc<Edge>; 2],
}

impl Edge {
    pub(super) fn new(ends: [Arc<Vertex>; 2]) -> Arc<Edge> {
        Arc::new(Edge { ends, split: OnceLock::new() })
    }

    /// The halves, if a neighbour asked for them.
    pub fn halves(&self) -> Option<&Split> {
        self.split.get()
    }

    /// The halves, made now if nobody has asked before.
    pub(super) fn split(&self) -> &Split {
        self.split.get_or_init(|| {
            let [first, second] = &self.ends;
            let middle = Vertex::new(first.position.middle(second.position));
            let halves = [
                Edge::new([first.clone(), middle.clone()]),
                Edge::new([middle.clone(), second.clone()]),
            ];
            Split { middle, halves }
        })
    }
}

/// An element's view of an edge.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// Shared with the neighbour.
    pub(super) edge: Arc<Edge>,
    /// Whether the element goes along it from its second end to its first.
    pub(super) reversed: bool,
}

impl Side {
    /// The half next to the side's own start (0) or end (1).
    pub(super) fn half(&self, which: usize) -> Side {
        let split = self.edge.split();
        Side { edge: split.halves[which ^ usize::from(self.reversed)].clone(), ..*self }
    }
}
