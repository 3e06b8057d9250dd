//! A machine's zones and banks, and the metadata that they need.

use freehold_core::frames::{
    Admits, Area, Frame, Frames, Group, Interleave, Link, Memory, Needs, Policy, Role, SetRecord,
    SetupError, Zone,
};

/// Frames of a MiB.
pub const MIB: u32 = 256;

/// The 16 MiB that old devices reach: a zone of its own, always on (Panwar 2015, section 4.1.2). Of machines with
/// tiny banks, half a bank, so that the first bank is shared as it is on real ones.
const fn dma_frames(bank_frames: u32) -> u32 {
    if bank_frames > 32 * MIB { 16 * MIB } else { bank_frames / 2 }
}

/// What a machine is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// MiB of memory, of all nodes.
    pub memory_mib: u32,
    /// MiB of a bank: a power of two.
    pub bank_mib: u32,
    /// Nodes with the same share of the memory each.
    pub nodes: u32,
    /// Whether banks are tied in pairs, half a node apart (table 4.1).
    pub interleaved: bool,
    /// `ZONE_MOVABLE`: percent of each node that only movable pages get; 0 is no such zone.
    pub movable_percent: u32,
}

/// A machine that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BankMachineError {
    /// Numbers that do not go together.
    #[error("{0}")]
    Shape(String),
    /// A zone that core refuses.
    #[error("a zone cannot be managed: {0}")]
    Zone(#[from] SetupError),
}

/// Zones and their roles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BankMachine {
    /// What it was made of.
    pub shape: Shape,
    /// Zones in the order of addresses.
    pub zones: Vec<Zone>,
    /// The role of each.
    pub roles: Vec<Role>,
}

impl BankMachine {
    /// Zones of that machine: `DMA`, and one or two for each node.
    ///
    /// # Errors
    /// When the numbers do not go together: whole banks in every node, in pairs where interleaved.
    pub fn new(shape: Shape) -> Result<BankMachine, BankMachineError> {
        let Shape { memory_mib, bank_mib, nodes, interleaved, movable_percent } = shape;
        let refuse = |why: &str| Err(BankMachineError::Shape(why.to_owned()));
        if !bank_mib.is_power_of_two() || !(4..=65_536).contains(&bank_mib) {
            return refuse("a bank has a power of two of MiB, 4 to 65536");
        }
        if nodes == 0
            || nodes > 16
            || !memory_mib.is_multiple_of(nodes * bank_mib)
            || memory_mib == 0
        {
            return refuse("1 to 16 nodes, of whole banks each, are possible");
        }
        if memory_mib > 1 << 20 {
            return refuse("at most 1 TiB (1048576 MiB) is simulated");
        }
        if movable_percent > 90 || movable_percent > 0 && interleaved {
            return refuse(
                "ZONE_MOVABLE of at most 90 percent, and not with interleaving, is possible",
            );
        }
        let banks = memory_mib / nodes / bank_mib;
        if interleaved && !(banks.is_power_of_two() && banks >= 2) {
            return refuse("interleaving wants a power of two of banks in a node");
        }
        let stride_log2 = (banks / 2).max(1).trailing_zeros() as u8;
        let interleave =
            if interleaved { Interleave::Pairs { stride_log2 } } else { Interleave::None };
        let bank_frames = bank_mib * MIB;
        let dma = dma_frames(bank_frames);
        let mut machine = BankMachine { shape, zones: Vec::new(), roles: Vec::new() };
        machine.push(Zone::new(Frame(0), dma, bank_frames), 0, Admits::Devices)?;
        for node in 0..nodes {
            let first = node * banks * bank_frames;
            let movable = banks * movable_percent / 100 * bank_frames;
            let from = if node == 0 { dma } else { first };
            let to = first + banks * bank_frames - movable;
            let zone = Zone { interleave, ..Zone::new(Frame(from), to - from, bank_frames) };
            machine.push(zone, node, Admits::All)?;
            if movable > 0 {
                machine.push(Zone::new(Frame(to), movable, bank_frames), node, Admits::Movable)?;
            }
        }
        Ok(machine)
    }

    fn push(&mut self, zone: Zone, node: u32, admits: Admits) -> Result<(), SetupError> {
        zone.validate()?;
        self.zones.push(zone);
        self.roles.push(Role { node: node as u8, admits });
        Ok(())
    }

    /// Frames in all.
    pub fn frames(&self) -> u32 {
        self.shape.memory_mib * MIB
    }

    /// Frames of a bank set.
    pub fn set_frames(&self) -> u32 {
        self.shape.bank_mib * MIB * if self.shape.interleaved { 2 } else { 1 }
    }

    /// Banks in all.
    pub fn banks(&self) -> u32 {
        self.shape.memory_mib / self.shape.bank_mib
    }
}

/// A zone's metadata in ordinary memory.
#[derive(Debug)]
pub struct Metadata {
    tags: Vec<u8>,
    links: Vec<Link>,
    groups: Vec<Group>,
    page_blocks: Vec<u8>,
    areas: Vec<Area>,
    sets: Vec<SetRecord>,
}

impl Metadata {
    /// What that policy needs for that zone.
    pub fn of<P: Policy>(zone: &Zone) -> Result<Metadata, SetupError> {
        let Needs { frames, groups, page_blocks, areas, sets } = Frames::<P>::needs(zone)?;
        Ok(Metadata {
            tags: vec![0; frames],
            links: vec![Link::default(); frames],
            groups: vec![Group::default(); groups],
            page_blocks: vec![0; page_blocks],
            areas: vec![Area::default(); areas],
            sets: vec![SetRecord::default(); sets],
        })
    }

    /// To be handed in.
    pub fn lend(&mut self) -> Memory<'_> {
        Memory {
            tags: &mut self.tags,
            links: &mut self.links,
            groups: &mut self.groups,
            page_blocks: &mut self.page_blocks,
            areas: &mut self.areas,
            sets: &mut self.sets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THESIS: Shape = Shape {
        memory_mib: 32 << 10,
        bank_mib: 256,
        nodes: 2,
        interleaved: false,
        movable_percent: 0,
    };

    #[test]
    fn the_thesis_has_128_banks_and_three_zones() {
        let machine = BankMachine::new(THESIS).unwrap();
        assert_eq!((machine.banks(), machine.zones.len(), machine.frames()), (128, 3, 8 << 20));
        let sum: u32 = machine.zones.iter().map(|zone| zone.frames).sum();
        assert_eq!(sum, machine.frames());
        let tied = BankMachine::new(Shape { interleaved: true, ..THESIS }).unwrap();
        assert_eq!(tied.zones[1].interleave, Interleave::Pairs { stride_log2: 5 });
        let movable = BankMachine::new(Shape { movable_percent: 50, ..THESIS }).unwrap();
        assert_eq!(movable.zones.len(), 5);
    }

    #[test]
    fn machines_that_cannot_be_say_why() {
        for (shape, why) in [
            (Shape { bank_mib: 100, ..THESIS }, "power of two"),
            (Shape { nodes: 3, ..THESIS }, "whole banks"),
            (Shape { memory_mib: 0, ..THESIS }, "whole banks"),
            (Shape { memory_mib: 24 << 10, interleaved: true, ..THESIS }, "power of two of banks"),
            (Shape { movable_percent: 95, ..THESIS }, "at most 90"),
        ] {
            let error = BankMachine::new(shape).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
