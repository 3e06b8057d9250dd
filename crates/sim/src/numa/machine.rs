//! Capacities and distances.

use freehold_blocks::MAX_REGION;
use freehold_core::place::{MAX_NODES, NodeId};

/// The longest memory of a simulated machine, in bytes.
pub const MAX_CAPACITY: u64 = MAX_REGION;

/// The shortest: a block, its neighbours' tags, and a page of tcmalloc's.
const MIN_CAPACITY: u64 = 64 << 10;

/// A machine that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadMachine {
    /// No node, or too many.
    #[error("a machine has 1 to {MAX_NODES} nodes, not {nodes}")]
    Nodes {
        /// How many were asked for.
        nodes: usize,
    },
    /// A memory that is too short or too long.
    #[error("{memory} cannot have {capacity} bytes: 64 KiB to 64 GiB is possible")]
    Capacity {
        /// Which memory.
        memory: Memory,
        /// Its length.
        capacity: u64,
    },
    /// Nobody to ask for memory.
    #[error("a node has 1 to 1024 processors, not {0}")]
    Processors(u32),
}

/// One of the machine's memories.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Memory {
    /// That of a node.
    Of(NodeId),
    /// The one that all nodes share.
    Shared,
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Memory::Of(node) => write!(f, "the memory of {node}"),
            Memory::Shared => f.write_str("the shared memory"),
        }
    }
}

/// Nodes on a ring, each with memory, and a shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    capacities: Vec<u64>,
    shared: u64,
    processors_per_node: u32,
    hops: Vec<Vec<u32>>,
}

impl Machine {
    /// A machine whose nodes have these capacities, and whose shared memory has `shared`, in bytes.
    ///
    /// # Errors
    /// See [`BadMachine`].
    pub fn new(
        capacities: &[u64],
        shared: u64,
        processors_per_node: u32,
    ) -> Result<Machine, BadMachine> {
        let nodes = capacities.len();
        if nodes == 0 || nodes > MAX_NODES {
            return Err(BadMachine::Nodes { nodes });
        }
        if !(1..=1024).contains(&processors_per_node) {
            return Err(BadMachine::Processors(processors_per_node));
        }
        let of_nodes = capacities
            .iter()
            .enumerate()
            .filter_map(|(i, &capacity)| Some((Memory::Of(NodeId::new(i)?), capacity)));
        for (memory, capacity) in of_nodes.chain([(Memory::Shared, shared)]) {
            if !(MIN_CAPACITY..=MAX_CAPACITY).contains(&capacity) {
                return Err(BadMachine::Capacity { memory, capacity });
            }
        }
        let hops = |i: usize| (0..nodes).map(|j| ring(i, j, nodes)).collect();
        let hops = (0..nodes).map(hops).collect();
        Ok(Machine { capacities: capacities.to_vec(), shared, processors_per_node, hops })
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.capacities.len()
    }

    /// How many processors each has.
    pub fn processors_per_node(&self) -> u32 {
        self.processors_per_node
    }

    /// The capacity of a memory, in bytes; 0 for a node that is not there.
    pub fn capacity(&self, memory: Memory) -> u64 {
        match memory {
            Memory::Of(node) => self.capacities.get(node.index()).copied().unwrap_or(0),
            Memory::Shared => self.shared,
        }
    }

    /// Every memory: the nodes', then the shared one.
    pub fn memories(&self) -> impl Iterator<Item = Memory> {
        (0..self.nodes()).filter_map(NodeId::new).map(Memory::Of).chain([Memory::Shared])
    }

    /// How far every node is from `node`, in hops along the ring.
    pub fn hops_from(&self, node: NodeId) -> &[u32] {
        self.hops.get(node.index()).map_or(&[], Vec::as_slice)
    }
}

fn ring(i: usize, j: usize, nodes: usize) -> u32 {
    let apart = i.abs_diff(j);
    apart.min(nodes - apart) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_go_the_shorter_way_round() {
        let machine = Machine::new(&[1 << 20; 4], 1 << 20, 2).unwrap();
        assert_eq!(machine.hops_from(NodeId::new(1).unwrap()), [1, 0, 1, 2]);
        assert_eq!(machine.memories().count(), 5);
    }

    #[test]
    fn impossible_machines_are_refused_by_name() {
        let said = |capacities: &[u64], shared, processors| {
            Machine::new(capacities, shared, processors).unwrap_err().to_string()
        };
        assert_eq!(said(&[], 1 << 20, 2), "a machine has 1 to 64 nodes, not 0");
        assert!(said(&[1 << 20; 65], 1 << 20, 2).contains("not 65"));
        assert!(
            said(&[1 << 20, 5], 1 << 20, 2).starts_with("the memory of N1 cannot have 5 bytes")
        );
        assert!(said(&[1 << 20], u64::MAX, 2).starts_with("the shared memory cannot have"));
        assert!(said(&[1 << 20], 1 << 20, 0).contains("processors, not 0"));
    }
}
