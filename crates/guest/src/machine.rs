//! The machine that is emulated, as data, and as QEMU's arguments.

use anyhow::{Context, ensure};
use std::str::FromStr;

/// Most nodes that a machine can have: distances are a square of them on the command line.
const MAX_NODES: usize = 16;
/// The distance of a node from itself, and of two nodes for each step around the ring (SLIT: 10 is local).
const STEP: u8 = 10;
/// How far a memory-only node is from every other, as with memory behind a CXL link.
const FAR: u8 = 40;

/// A number of bytes, written as `512M` or `4G`; whole MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Bytes> {
        let shift = match text.chars().last() {
            Some('M' | 'm') => 20,
            Some('G' | 'g') => 30,
            _ => anyhow::bail!("{text} is not a size such as 512M or 4G"),
        };
        let number: u64 = text[..text.len() - 1]
            .parse()
            .with_context(|| format!("{text} is not a size such as 512M or 4G"))?;
        ensure!((1..=1 << 20).contains(&number), "{text} is not 1M to 1048576M or G");
        Ok(Bytes(number << shift))
    }
}

/// A node of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Its memory, in bytes.
    pub memory: Bytes,
    /// Its processors; 0 is a memory-only node.
    pub cpus: u32,
}

/// Memory that is plugged but offline until somebody puts it online (`/sys/devices/system/memory`).
#[derive(Clone, Copy, Debug)]
pub struct Dimm {
    /// Its size: a multiple of 128 MiB, the size of a memory block.
    pub memory: Bytes,
    /// The node that it belongs to.
    pub node: usize,
}

impl FromStr for Dimm {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Dimm> {
        let (memory, node) =
            text.split_once('@').with_context(|| format!("{text} is not SIZE@NODE, as 512M@1"))?;
        let node = node.parse().with_context(|| format!("{node} is not the number of a node"))?;
        Ok(Dimm { memory: memory.parse()?, node })
    }
}

/// What is emulated.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its nodes, in order of their numbers.
    pub nodes: Vec<Node>,
    /// How far each is from each, 10 to 254 and 10 from itself; empty for a ring, memory-only nodes far away.
    pub distances: Vec<Vec<u8>>,
    /// Memory that can be put online.
    pub dimms: Vec<Dimm>,
}

impl Machine {
    /// `nodes` equal nodes that share the processors and the memory evenly.
    ///
    /// # Errors
    /// When they cannot be shared so.
    pub fn even(nodes: usize, cpus: u32, memory: Bytes) -> anyhow::Result<Machine> {
        ensure!((1..=MAX_NODES).contains(&nodes), "a machine has 1 to {MAX_NODES} nodes");
        let each = cpus / nodes as u32;
        ensure!(each * nodes as u32 == cpus && each > 0, "{cpus} processors on {nodes} nodes");
        let memory = Bytes((memory.0 / nodes as u64) >> 20 << 20);
        ensure!(memory.0 >= 128 << 20, "a node has at least 128M of memory");
        let nodes = vec![Node { memory, cpus: each }; nodes];
        Ok(Machine { nodes, distances: Vec::new(), dimms: Vec::new() })
    }

    /// Adds a node without processors.
    #[must_use]
    pub fn with_memory_only(mut self, memory: Bytes) -> Machine {
        self.nodes.push(Node { memory, cpus: 0 });
        self
    }

    /// Adds memory that can be put online.
    #[must_use]
    pub fn with_dimm(mut self, dimm: Dimm) -> Machine {
        self.dimms.push(dimm);
        self
    }

    /// How far `to` is from `from`.
    fn distance(&self, from: usize, to: usize) -> u8 {
        let given = self.distances.get(from).and_then(|row| row.get(to));
        given.copied().unwrap_or_else(|| match self.nodes.iter().filter(|n| n.cpus > 0).count() {
            _ if from == to => STEP,
            ring if from < ring && to < ring => {
                let apart = from.abs_diff(to);
                STEP + STEP * apart.min(ring - apart) as u8
            }
            _ => FAR,
        })
    }

    /// QEMU's arguments for processors, memory and nodes.
    ///
    /// # Errors
    /// When a distance or a node that is named does not exist.
    pub fn arguments(&self) -> anyhow::Result<Vec<String>> {
        self.check()?;
        let cpus: u32 = self.nodes.iter().map(|node| node.cpus).sum();
        let memory: u64 = self.nodes.iter().map(|node| node.memory.0).sum();
        let plugged: u64 = self.dimms.iter().map(|dimm| dimm.memory.0).sum();
        let most = (memory + plugged) * 2;
        let slots = self.dimms.len() + 1;
        let mut words = vec![
            "-smp".to_owned(),
            cpus.to_string(),
            "-m".to_owned(),
            format!("{}M,slots={slots},maxmem={}M", memory >> 20, most >> 20),
        ];
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        let mut first = 0;
        for (number, node) in self.nodes.iter().enumerate() {
            let size = node.memory.0 >> 20;
            add("-object", format!("memory-backend-ram,id=ram{number},size={size}M"));
            let last = first + node.cpus;
            let cpus = (first..last).map(|cpu| format!(",cpus={cpu}")).collect::<String>();
            add("-numa", format!("node,nodeid={number},memdev=ram{number}{cpus}"));
            first = last;
        }
        for from in 0..self.nodes.len() {
            for to in 0..self.nodes.len() {
                let far = self.distance(from, to);
                add("-numa", format!("dist,src={from},dst={to},val={far}"));
            }
        }
        for (number, Dimm { memory, node }) in self.dimms.iter().enumerate() {
            let size = memory.0 >> 20;
            add("-object", format!("memory-backend-ram,id=plug{number},size={size}M"));
            add("-device", format!("pc-dimm,id=dimm{number},memdev=plug{number},node={node}"));
        }
        Ok(words)
    }

    fn check(&self) -> anyhow::Result<()> {
        let nodes = self.nodes.len();
        ensure!((1..=MAX_NODES).contains(&nodes), "a machine has 1 to {MAX_NODES} nodes");
        ensure!(self.nodes.iter().any(|node| node.cpus > 0), "a machine has processors");
        let square =
            self.distances.len() == nodes && self.distances.iter().all(|r| r.len() == nodes);
        ensure!(
            self.distances.is_empty() || square,
            "distances are {nodes} rows of {nodes} numbers"
        );
        for (from, row) in self.distances.iter().enumerate() {
            for (to, far) in row.iter().enumerate() {
                let fits = if from == to { *far == STEP } else { (STEP + 1..=254).contains(far) };
                ensure!(fits, "from node {from} to {to}: {far}; 10 is local, 11 to 254 remote");
            }
        }
        for dimm in &self.dimms {
            ensure!(dimm.node < nodes, "there is no node {} for a DIMM", dimm.node);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(nodes: usize) -> Machine {
        Machine::even(nodes, 8, "4G".parse().unwrap()).unwrap()
    }

    #[test]
    fn sizes_and_dimms_are_read() {
        assert_eq!("512M".parse::<Bytes>().unwrap(), Bytes(512 << 20));
        assert_eq!("4g".parse::<Bytes>().unwrap(), Bytes(4 << 30));
        for bad in ["", "4", "M", "-1G", "1.5G", "0M"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad:?}");
        }
        let dimm: Dimm = "512M@3".parse().unwrap();
        assert_eq!((dimm.memory, dimm.node), (Bytes(512 << 20), 3));
        assert!("512M".parse::<Dimm>().is_err());
    }

    #[test]
    fn nodes_stand_in_a_ring_and_those_without_processors_far_away() {
        let machine = even(4).with_memory_only(Bytes(512 << 20));
        let row = |from| (0..5).map(|to| machine.distance(from, to)).collect::<Vec<_>>();
        assert_eq!(row(0), [10, 20, 30, 20, 40]);
        assert_eq!(row(4), [40, 40, 40, 40, 10]);
        let words = machine.arguments().unwrap().join(" ");
        assert!(words.starts_with("-smp 8 -m 4608M,slots=1,maxmem=9216M"), "{words}");
        assert!(words.contains("node,nodeid=3,memdev=ram3,cpus=6,cpus=7"), "{words}");
        assert!(words.contains("node,nodeid=4,memdev=ram4 "), "{words}");
    }

    #[test]
    fn impossible_machines_are_refused() {
        assert!(Machine::even(3, 8, Bytes(4 << 30)).is_err());
        assert!(Machine::even(0, 8, Bytes(4 << 30)).is_err());
        let refused = |machine: Machine| machine.arguments().unwrap_err().to_string();
        let ragged = Machine { distances: vec![vec![10, 20], vec![20]], ..even(2) };
        assert_eq!(refused(ragged), "distances are 2 rows of 2 numbers");
        let near = Machine { distances: vec![vec![10, 10], vec![20, 10]], ..even(2) };
        assert!(refused(near).starts_with("from node 0 to 1: 10"));
        let lost = even(2).with_dimm(Dimm { memory: Bytes(128 << 20), node: 2 });
        assert_eq!(refused(lost), "there is no node 2 for a DIMM");
    }
}
