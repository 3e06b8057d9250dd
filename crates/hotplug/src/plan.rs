//! Which blocks to take offline: the rules are those by which `core::frames::pages` empties banks.
//!
//! A bank is a memory block here, or several that interleaving ties together. The emptiest set goes first, which frees
//! most for the least copying; a set goes only if all of its blocks can, and the rest of the machine has room for what is
//! in it and a slack besides. Linux moves pages to *other* nodes as long as there are any (mm/memory_hotplug.c,
//! `do_migrate_range`), so where there are several, room means room there.
//!
//! **What moves twice.** Linux isolates one block at a time, under one lock (`lock_device_hotplug`), and says nothing about
//! where pages go: they are allocated as any movable page is, from the movable zone before others, and there from the
//! shortest free blocks first, which lie in blocks that are partly used: just those that go next. So the order decides:
//!
//! ```text
//! empty blocks first                    they cost nothing, and nothing can move there any more
//! several nodes: one after the other,   pages leave for other nodes only, so none moves twice but into the nodes
//! the node with the least first         that come later
//! within a node: the emptiest first     on one node all that moved may move again with each block that comes later;
//!                                       of all orders this one has the smallest sum
//! ```
//!
//! On one node nothing that Linux offers does better: a page's node can be named (`move_pages`), its zone or block cannot;
//! filling the zone with pages of our own first, so that others must leave it, would take the machine's free memory away.

use crate::blocks::{Block, Machine, Verdict};
use freehold_core::frames::Interleave;
use freehold_core::frames::migrate::Eagerness;
use serde::Serialize;
use std::collections::BTreeMap;

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Blocks of this node only.
    pub node: Option<u32>,
    /// Enough when so many blocks are in the plan.
    pub most_blocks: Option<u64>,
    /// Sets with more used frames than this stay, in thousandths.
    pub most_used: u32,
    /// Frames that stay free beside what must; `None` is half a set.
    pub slack: Option<u64>,
    /// How blocks are tied.
    pub interleave: Interleave,
}

impl Default for Wanted {
    fn default() -> Wanted {
        let half = Eagerness::of(0).most_used;
        Wanted {
            node: None,
            most_blocks: None,
            most_used: half,
            slack: None,
            interleave: Interleave::None,
        }
    }
}

/// Blocks that go together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Set {
    /// The node they belong to, where the kernel says.
    pub node: Option<u32>,
    /// Their numbers.
    pub blocks: Vec<u64>,
    /// Frames that must move.
    pub migrated: u64,
    /// Frames that it has.
    pub frames: u64,
}

impl Set {
    fn free(&self) -> u64 {
        self.frames - self.migrated
    }
}

/// What shall go, in this order.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Plan {
    /// See [`Set`].
    pub sets: Vec<Set>,
    /// Sets that could go, but for which there is no room elsewhere, or that are too full.
    pub left: Vec<Set>,
    /// Whether the machine has memory on several nodes.
    pub several_nodes: bool,
}

impl Plan {
    /// Makes a plan.
    pub fn new(machine: &Machine, wanted: &Wanted) -> Plan {
        let mut sets = candidates(machine, wanted);
        let frames = machine.frames() * u64::from(wanted.interleave.width());
        let eagerness =
            Eagerness { most_used: wanted.most_used, ..Eagerness::of(frames32(frames)) };
        let slack = wanted.slack.map_or(eagerness.slack, frames32);
        let eagerness = Eagerness { slack, ..eagerness };
        // The emptiest first.
        sets.sort_by_key(|set| {
            let first = set.blocks.first().map_or(0, |&number| number as usize);
            std::cmp::Reverse(Eagerness::rank(frames32(set.free()), first))
        });
        let mut plan = Plan { several_nodes: machine.nodes() > 1, ..Plan::default() };
        for set in sets {
            let enough = wanted.most_blocks.is_some_and(|most| plan.blocks() >= most);
            let goes = !enough
                && eagerness.empties(frames32(set.migrated), frames32(set.frames))
                && plan.has_room(machine, &set, &eagerness);
            if goes { plan.sets.push(set) } else { plan.left.push(set) }
        }
        plan.put_in_order();
        plan
    }

    /// Whether there is room for all that moves when `next` goes, too: for what is in it, and still for what leaves other
    /// nodes, from which it takes room.
    fn has_room(&self, machine: &Machine, next: &Set, eagerness: &Eagerness) -> bool {
        let mut whole = Plan { sets: self.sets.clone(), left: Vec::new(), ..*self };
        whole.sets.push(next.clone());
        whole.put_in_order();
        let fits = |leaving, frames| {
            eagerness.has_room(frames32(whole.room(machine, leaving)), frames32(frames))
        };
        let mut of_node: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for (node, frames) in whole.moves().into_iter().filter(|_| self.several_nodes) {
            *of_node.entry(node).or_default() += frames;
        }
        let mut leaving = of_node.into_iter().filter(|(_, frames)| *frames > 0);
        fits(next.node, whole.migrated()) && leaving.all(|(node, frames)| fits(node, frames))
    }

    /// So that little moves twice; see the module. The sets of a node stay in their order.
    fn put_in_order(&mut self) {
        let mut of_node: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for set in &self.sets {
            *of_node.entry(set.node).or_default() += set.migrated;
        }
        let turn = |set: &Set| (of_node.get(&set.node).copied().unwrap_or(0), set.node);
        self.sets.sort_by_key(|set| (set.migrated > 0).then(|| turn(set)));
    }

    /// How many blocks go.
    pub fn blocks(&self) -> u64 {
        self.sets.iter().map(|set| set.blocks.len() as u64).sum()
    }

    /// Frames that must move.
    pub fn migrated(&self) -> u64 {
        self.sets.iter().map(|set| set.migrated).sum()
    }

    /// Frames that are moved at most. Linux isolates a block only while it goes, so what left one may have moved into
    /// another that goes later, and moves again; `core::frames::pages` isolates all before. Where there are several nodes,
    /// it comes back to none before another node goes.
    pub fn migrated_at_most(&self) -> u64 {
        self.moves().into_iter().map(|(_, frames)| frames).sum()
    }

    /// The same of each set, with the node that it leaves.
    fn moves(&self) -> Vec<(Option<u32>, u64)> {
        let (mut moves, mut before) = (Vec::new(), 0);
        // The node that goes, and what may have come there.
        let (mut node, mut guests) = (None, 0);
        for set in &self.sets {
            if !self.several_nodes || node != Some(set.node) {
                (node, guests) = (Some(set.node), before);
            }
            let again = set.free().min(guests);
            guests -= again;
            moves.push((set.node, set.migrated + again));
            before += set.migrated;
        }
        moves
    }

    /// Frames that what leaves a node can move to: what zones can spare, less what of it goes itself.
    fn room(&self, machine: &Machine, leaving: Option<u32>) -> u64 {
        let mut spare: BTreeMap<Option<u32>, u64> = BTreeMap::new();
        for zone in &machine.zones {
            *spare.entry(Some(zone.node)).or_default() += zone.spare();
        }
        for set in &self.sets {
            for block in set.blocks.iter().filter_map(|&number| machine.block(number)) {
                let spare = spare.entry(block.node).or_default();
                *spare = spare.saturating_sub(block.pages.free);
            }
        }
        if self.several_nodes && leaving.is_some() {
            spare.remove(&leaving);
        }
        spare.values().sum()
    }
}

/// Sets all of whose blocks can go.
fn candidates(machine: &Machine, wanted: &Wanted) -> Vec<Set> {
    let mut sets: BTreeMap<(Option<u32>, u16), Vec<&Block>> = BTreeMap::new();
    let mut first: BTreeMap<Option<u32>, u64> = BTreeMap::new();
    for block in &machine.blocks {
        // Banks are counted from a node's first.
        let first = *first.entry(block.node).or_insert(block.number);
        let set = wanted.interleave.set_of(frames32(block.number - first));
        sets.entry((block.node, set.0)).or_default().push(block);
    }
    let width = wanted.interleave.width() as usize;
    let ours =
        sets.into_iter().filter(|((node, _), _)| wanted.node.is_none() || wanted.node == *node);
    ours.map(|(_, blocks)| blocks)
        .filter(|blocks| blocks.len() == width && blocks.iter().any(|block| block.is_online()))
        .filter(|blocks| {
            blocks.iter().all(|block| block.can_go() || block.verdict == Verdict::Offline)
        })
        .map(|blocks| {
            let online = blocks.iter().filter(|block| block.is_online());
            Set {
                node: blocks.first().and_then(|block| block.node),
                blocks: online.clone().map(|block| block.number).collect(),
                migrated: online.clone().map(|block| block.pages.movable).sum(),
                frames: online.count() as u64 * machine.frames(),
            }
        })
        .collect()
}

fn frames32(frames: u64) -> u32 {
    u32::try_from(frames).unwrap_or(u32::MAX)
}
