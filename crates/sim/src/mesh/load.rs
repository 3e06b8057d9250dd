//! What the nodes do: the synthetic load, and the contract of any other.

use crate::random::Random;
use freehold_blocks::Granules;
use freehold_core::place::mesh::{HeapId, Mesh};
use std::collections::VecDeque;

/// What a node does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Compute for so many cycles.
    Think(u64),
    /// Ask for memory for an object that has none.
    Malloc {
        /// Its number; they are dense.
        object: u32,
        /// Bytes.
        size: u64,
    },
    /// Free an object that has memory.
    Free {
        /// Its number.
        object: u32,
    },
    /// Nothing, until [`Load::woken`] names the node.
    Pause,
}

/// A program of every node. Called in the order of simulated time.
pub trait Load {
    /// What `node` does next.
    fn next(&mut self, node: HeapId) -> Act;
    /// It is done: whether it was served (frees always are).
    fn done(&mut self, node: HeapId, act: Act, served: bool);
    /// A node that paused and shall go on; asked until there is none.
    fn woken(&mut self) -> Option<HeapId>;
}

/// The parameters of the synthetic load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Synthetic {
    /// Of all draws.
    pub seed: u64,
    /// Bytes of a node's heap.
    pub heap_bytes: u64,
    /// The most that is alive of every third node, in percent of a heap; a block's header counts.
    pub heavy_percent: u64,
    /// That of the others.
    pub light_percent: u64,
    /// Of 100 calls below that aim, how many allocate; the others, and all at it, free.
    pub grow_percent: u64,
    /// Mean cycles between two calls, exponential.
    pub think: u64,
    /// The least size in bytes.
    pub least: u64,
    /// The greatest.
    pub most: u64,
}

/// Every node keeps a live set of its own: below its aim it mostly allocates, at its aim it frees a block
/// that it draws.
#[derive(Debug)]
pub struct SyntheticLoad {
    params: Synthetic,
    nodes: Vec<Node>,
    /// Numbers of objects that are free for use.
    unused: VecDeque<u32>,
    objects: u32,
}

#[derive(Debug)]
struct Node {
    random: Random,
    /// Object and the bytes of its block.
    live: Vec<(u32, u64)>,
    bytes: u64,
    aim: u64,
    /// Drawn already, not yet asked for.
    size: u64,
    thinks: bool,
    /// The last request was refused: free before the next.
    refused: bool,
}

impl SyntheticLoad {
    /// The load on that mesh.
    pub fn new(params: Synthetic, mesh: Mesh) -> SyntheticLoad {
        let node = |heap: HeapId| {
            let heavy = heap.index() % 3 == 1;
            let percent = if heavy { params.heavy_percent } else { params.light_percent };
            let mut random = Random::named(params.seed, &[heap.index() as u64]);
            let size = random.uniform(params.least, params.most);
            let aim = params.heap_bytes * percent / 100;
            Node { random, live: Vec::new(), bytes: 0, aim, size, thinks: false, refused: false }
        };
        let nodes = mesh.all().map(node).collect();
        SyntheticLoad { params, nodes, unused: VecDeque::new(), objects: 0 }
    }

    fn object(&mut self) -> u32 {
        self.unused.pop_front().unwrap_or_else(|| {
            self.objects += 1;
            self.objects - 1
        })
    }
}

/// Bytes of a block that holds `size`.
fn gross(size: u64) -> u64 {
    Granules::for_request(size).map_or(u64::MAX, Granules::bytes)
}

impl Load for SyntheticLoad {
    fn next(&mut self, at: HeapId) -> Act {
        let node = &mut self.nodes[at.index()];
        node.thinks = !node.thinks;
        if node.thinks {
            return Act::Think(node.random.exponential(self.params.think));
        }
        let below = !node.refused && node.bytes + gross(node.size) <= node.aim;
        let grows = below && node.random.below(100) < self.params.grow_percent;
        if grows || node.live.is_empty() {
            let size = node.size;
            return Act::Malloc { object: self.object(), size };
        }
        let chosen = node.random.below(node.live.len() as u64) as usize;
        Act::Free { object: node.live[chosen].0 }
    }

    fn done(&mut self, at: HeapId, act: Act, served: bool) {
        let node = &mut self.nodes[at.index()];
        match act {
            Act::Malloc { object, size } => {
                node.refused = !served;
                if served {
                    node.live.push((object, gross(size)));
                    node.bytes += gross(size);
                } else {
                    self.unused.push_back(object);
                }
                node.size = node.random.uniform(self.params.least, self.params.most);
            }
            Act::Free { object } => {
                node.refused = false;
                if let Some(found) = node.live.iter().position(|live| live.0 == object) {
                    node.bytes -= node.live.swap_remove(found).1;
                }
                self.unused.push_back(object);
            }
            Act::Think(_) | Act::Pause => {}
        }
    }

    fn woken(&mut self) -> Option<HeapId> {
        None
    }
}
