//! Zones of a machine: which one a request is served from.
//!
//! As in Linux: the zones of the asking node, the highest first, then those of the other nodes in turn; a zone for
//! devices that reach little memory comes last of all. A zone that admits only movable pages (`ZONE_MOVABLE`) is
//! what the thesis argues against (section 4.4): its size must be known beforehand.

use super::allocator::{AllocError, Frames, FreeError};
use super::order::Order;
use super::policy::Policy;
use super::request::{Class, Frame, Request};
use super::zone::SetupError;
use freehold_blocks::probe::Probe;

/// What a zone is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admits {
    /// Everything.
    All,
    /// Users' pages only.
    Movable,
    /// Everything, when no other zone has it: memory that old devices reach.
    Devices,
}

/// A zone's place in the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Role {
    /// Its node.
    pub node: u8,
    /// Whom it serves.
    pub admits: Admits,
}

/// All zones of a machine.
pub struct Zones<'z, 'm, P: Policy> {
    zones: &'z mut [Frames<'m, P>],
    roles: &'z [Role],
    nodes: u8,
    far_first: bool,
}

impl<'z, 'm, P: Policy> Zones<'z, 'm, P> {
    /// Takes them over, with the role of each.
    ///
    /// # Errors
    /// When two zones hold the same frame, or there is not a role for each.
    pub fn new(zones: &'z mut [Frames<'m, P>], roles: &'z [Role]) -> Result<Self, SetupError> {
        if roles.len() < zones.len() {
            return Err(SetupError::TooShort("roles", zones.len(), roles.len()));
        }
        for (index, one) in zones.iter().enumerate() {
            for other in &zones[..index] {
                let (a, b) = (one.zone(), other.zone());
                let from = a.first.max(b.first);
                if from.0 < a.end().min(b.end()) {
                    return Err(SetupError::Overlap(from));
                }
            }
        }
        let nodes = roles.iter().map(|role| role.node + 1).max().unwrap_or(1);
        Ok(Zones { zones, roles, nodes, far_first: false })
    }

    /// From here on a user's page comes from another node's memory rather than from a set that would have to be
    /// switched on for it, where the policy knows the difference.
    #[must_use]
    pub fn far_before_waking(self, far_first: bool) -> Self {
        Zones { far_first, ..self }
    }

    /// A block for a processor of `node`, and the zone that it came from.
    ///
    /// # Errors
    /// When no zone has one.
    #[inline]
    pub fn alloc<Q: Probe>(
        &mut self,
        wanted: Request,
        node: u8,
        probe: &mut Q,
    ) -> Result<(usize, Frame), AllocError> {
        let far_first = self.far_first && wanted.kind.class() == Class::User;
        if far_first && let Some(got) = self.alloc_awake(wanted, node, probe) {
            return Ok(got);
        }
        let serves = |role: &Role, devices: bool| match role.admits {
            Admits::All => !devices,
            Admits::Movable => !devices && wanted.kind.class() == Class::User,
            Admits::Devices => devices,
        };
        let mut why = AllocError::Exhausted;
        for devices in [false, true] {
            for next in 0..self.nodes {
                let of = node.wrapping_add(next) % self.nodes;
                for index in (0..self.zones.len()).rev() {
                    let role = &self.roles[index];
                    if role.node != of || !serves(role, devices) {
                        continue;
                    }
                    match self.zones[index].alloc(wanted, probe) {
                        Ok(frame) => return Ok((index, frame)),
                        Err(error) => why = error,
                    }
                }
            }
        }
        Err(why)
    }

    fn alloc_awake<Q: Probe>(
        &mut self,
        wanted: Request,
        node: u8,
        probe: &mut Q,
    ) -> Option<(usize, Frame)> {
        (0..self.nodes).find_map(|next| {
            let of = node.wrapping_add(next) % self.nodes;
            (0..self.zones.len()).rev().find_map(|index| {
                let Role { node, admits } = self.roles[index];
                let frame = (node == of && admits != Admits::Devices)
                    .then(|| self.zones[index].alloc_awake(wanted, probe));
                Some((index, frame?.ok()?))
            })
        })
    }

    /// Takes a block back.
    ///
    /// # Errors
    /// When no used block of that order begins there.
    pub fn free<Q: Probe>(
        &mut self,
        frame: Frame,
        order: Order,
        probe: &mut Q,
    ) -> Result<(), FreeError> {
        let index = self.zone_of(frame).ok_or(FreeError::Foreign(frame))?;
        self.zones[index].free(frame, order, probe)
    }

    /// The zone that holds the frame.
    pub fn zone_of(&self, frame: Frame) -> Option<usize> {
        self.zones.iter().position(|zone| {
            let zone = zone.zone();
            (zone.first.0..zone.end()).contains(&frame.0)
        })
    }

    /// The zones.
    pub fn zones(&mut self) -> &mut [Frames<'m, P>] {
        self.zones
    }
}
