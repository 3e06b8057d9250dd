//! Every object of a solution: what it is, where it lies, how long it is.

use super::{Edge, Hierarchy, Link, Patch, Vertex};
use crate::access::ARC_HEAD;
use std::collections::BTreeSet;
use std::mem::size_of;
use std::sync::Arc;

/// How much there is of everything, and how many bytes it occupies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Elements of all levels.
    pub elements: u64,
    /// Elements without children.
    pub meshes: u64,
    /// Live links.
    pub links: u64,
    /// Edges.
    pub edges: u64,
    /// Vertices.
    pub vertices: u64,
    /// Bytes of the solution: what the program's objects occupy, allocator overhead excluded.
    pub useful_bytes: u64,
}

/// What an allocation holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// A patch, or the list of them.
    Patch,
    /// An element.
    Element {
        /// Whether it has no children.
        is_mesh: bool,
    },
    /// A link.
    Link,
    /// An element's list of links, or of sub-centres.
    List,
    /// An edge.
    Edge,
    /// A vertex.
    Vertex,
}

impl Hierarchy {
    /// Calls `tell` with every allocation of the solution, its address and its bytes; each once.
    /// O((elements + links) log elements); its own lists are temporary.
    pub fn each_object(&self, mut tell: impl FnMut(Object, usize, usize)) {
        fn shared<T>(arc: &Arc<T>) -> (usize, usize) {
            (Arc::as_ptr(arc) as usize - ARC_HEAD, ARC_HEAD + size_of::<T>())
        }
        let list = self.patches.capacity() * size_of::<Box<Patch>>();
        tell(Object::Patch, self.patches.as_ptr() as usize, list);
        for patch in &self.patches {
            tell(Object::Patch, std::ptr::from_ref(&**patch) as usize, size_of::<Patch>());
        }
        let (mut edges, mut vertices) = (BTreeSet::new(), BTreeSet::new());
        let mut waiting: Vec<_> = self.patches.iter().map(|patch| &patch.root).collect();
        while let Some(element) = waiting.pop() {
            let mut say = |object, (address, bytes)| tell(object, address, bytes);
            say(Object::Element { is_mesh: element.children().is_none() }, shared(element));
            let links = element.links();
            let list = links.capacity() * size_of::<Arc<Link>>();
            if list > 0 {
                say(Object::List, (links.as_ptr() as usize, list));
            }
            if let Some(samples) = element.sub_centres.get() {
                say(Object::List, (samples.as_ptr() as usize, size_of_val(&**samples)));
            }
            let own = links.iter().filter(|link| link.a.key == element.key);
            own.for_each(|link| say(Object::Link, shared(link)));
            element.edges().for_each(|edge| with_halves(edge, &mut edges));
            vertices.extend(element.corners.iter().map(|vertex| shared(vertex).0));
            waiting.extend(element.children().into_iter().flatten());
        }
        let size = |of: usize| ARC_HEAD + of;
        edges.into_iter().for_each(|edge| tell(Object::Edge, edge, size(size_of::<Edge>())));
        vertices.into_iter().for_each(|at| tell(Object::Vertex, at, size(size_of::<Vertex>())));
    }

    /// Counts everything. O((elements + links) log elements).
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        self.each_object(|object, _, bytes| {
            census.useful_bytes += bytes as u64;
            match object {
                Object::Element { is_mesh } => {
                    census.elements += 1;
                    census.meshes += u64::from(is_mesh);
                }
                Object::Link => census.links += 1,
                Object::Edge => census.edges += 1,
                Object::Vertex => census.vertices += 1,
                Object::Patch | Object::List => {}
            }
        });
        census
    }
}

/// The allocations of an edge and of its halves, of all levels.
fn with_halves(edge: &Arc<Edge>, edges: &mut BTreeSet<usize>) {
    if edges.insert(Arc::as_ptr(edge) as usize - ARC_HEAD)
        && let Some(split) = edge.halves()
    {
        split.halves.iter().for_each(|half| with_halves(half, edges));
    }
}
