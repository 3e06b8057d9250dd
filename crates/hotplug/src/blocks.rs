//! The memory blocks: what the kernel says about each, and what is in it.

use crate::pages::Pages;
use crate::tree::{Tree, TreeError};
use crate::zones::{self, Zone};
use serde::Serialize;
use std::collections::BTreeSet;

/// Where the kernel has them.
pub(crate) const FOLDER: &str = "sys/devices/system/memory";
/// Frames looked at in one go: 128 KiB of flags.
const BATCH: u64 = 1 << 14;

/// A memory block: the unit of plugging, 128 MiB or a multiple.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// Its number: the kernel's `memoryN`.
    pub number: u64,
    /// `online`, `offline` or `going-offline`.
    pub state: String,
    /// The node it belongs to, where the kernel says.
    pub node: Option<u32>,
    /// Online: the zone that all of it lies in, `none` when it lies in several or has holes. Offline: the zones that it
    /// may be put into.
    pub valid_zones: String,
    /// Its frames by what is in them; all zero when it is offline.
    pub pages: Pages,
    /// Whether it can go.
    pub verdict: Verdict,
}

/// Whether a block can be taken offline, as it looks now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is.
    Offline,
    /// Nothing is in it.
    Empty,
    /// All that is in it can move.
    Movable,
    /// Something in it cannot move.
    Pinned,
    /// The kernel will not hear of it: several zones, or holes.
    Refused,
}

impl Verdict {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Offline => "offline",
            Verdict::Empty => "empty",
            Verdict::Movable => "movable",
            Verdict::Pinned => "pinned",
            Verdict::Refused => "refused",
        }
    }
}

impl Block {
    /// Whether the kernel uses it.
    pub fn is_online(&self) -> bool {
        self.state != "offline"
    }

    /// Whether it may go, at a price.
    pub fn can_go(&self) -> bool {
        matches!(self.verdict, Verdict::Empty | Verdict::Movable)
    }

    fn judge(&self) -> Verdict {
        match () {
            () if !self.is_online() => Verdict::Offline,
            () if self.valid_zones == "none" || self.pages.holes > 0 => Verdict::Refused,
            () if self.pages.pinned() > 0 => Verdict::Pinned,
            () if self.pages.movable > 0 => Verdict::Movable,
            () => Verdict::Empty,
        }
    }
}

/// A machine's memory at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Bytes of a frame.
    pub page_bytes: u64,
    /// In order of their numbers.
    pub blocks: Vec<Block>,
    /// Those that have memory.
    pub zones: Vec<Zone>,
    /// Frames that the kernel has moved since it started, for whatever reason, where it says.
    pub migrated: Option<u64>,
}

impl Machine {
    /// Reads everything: eight bytes a frame, twice.
    ///
    /// # Errors
    /// See [`TreeError`].
    pub fn read(tree: &Tree, page_bytes: u64) -> Result<Machine, TreeError> {
        if !tree.path(FOLDER).is_dir() {
            return Err(TreeError::NoBlocks(tree.path(FOLDER)));
        }
        let block_bytes = tree.hexadecimal(&format!("{FOLDER}/block_size_bytes"))?;
        let names = tree.names(FOLDER)?;
        let numbers = names.iter().filter_map(|name| name.strip_prefix("memory")?.parse().ok());
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        let frames = block_bytes / page_bytes;
        let blocks = numbers.into_iter().map(|number| block(tree, number, frames));
        let blocks = blocks.collect::<Result<_, _>>()?;
        let (zones, migrated) = (zones::read(tree)?, zones::migrated(tree));
        Ok(Machine { block_bytes, page_bytes, blocks, zones, migrated })
    }

    /// How many nodes have memory.
    pub fn nodes(&self) -> usize {
        self.zones.iter().map(|zone| zone.node).collect::<BTreeSet<_>>().len()
    }

    /// Frames of a block.
    pub fn frames(&self) -> u64 {
        self.block_bytes / self.page_bytes
    }

    /// The block of that number.
    pub fn block(&self, number: u64) -> Option<&Block> {
        self.blocks.iter().find(|block| block.number == number)
    }

    /// Frames that are off.
    pub fn offline(&self) -> u64 {
        self.blocks.iter().filter(|block| !block.is_online()).count() as u64 * self.frames()
    }

    /// Free frames of all zones.
    pub fn free(&self) -> u64 {
        self.zones.iter().map(|zone| zone.free).sum()
    }

    /// What is off of what nobody needs: offline frames over those that are off or free. `None` when there are none.
    pub fn c(&self) -> Option<f64> {
        let all = self.offline() + self.free();
        (all > 0).then(|| self.offline() as f64 / all as f64)
    }
}

fn block(tree: &Tree, number: u64, frames: u64) -> Result<Block, TreeError> {
    let folder = format!("{FOLDER}/memory{number}");
    let state = tree.text(&format!("{folder}/state"))?;
    let index = tree.hexadecimal(&format!("{folder}/phys_index"))?;
    let names = tree.names(&folder)?;
    let node = names.iter().find_map(|name| name.strip_prefix("node")?.parse().ok());
    // Kernels without memory removal have no such file.
    let valid_zones = tree.text(&format!("{folder}/valid_zones")).unwrap_or_default();
    let mut block = Block {
        number,
        state,
        node,
        valid_zones,
        pages: Pages::default(),
        verdict: Verdict::Offline,
    };
    if block.is_online() {
        block.pages = pages(tree, index * frames, frames, block.valid_zones == "Movable")?;
    }
    block.verdict = block.judge();
    Ok(block)
}

/// Looks at the pages of a block. What the files do not have is a hole.
fn pages(tree: &Tree, first: u64, frames: u64, movable_zone: bool) -> Result<Pages, TreeError> {
    let mut pages = Pages::default();
    let mut at = 0;
    while at < frames {
        let count = BATCH.min(frames - at) as usize;
        let flags = tree.words("proc/kpageflags", first + at, count)?;
        let mappings = tree.words("proc/kpagecount", first + at, count)?;
        pages.holes += (count - flags.len()) as u64;
        for (number, &flags) in flags.iter().enumerate() {
            pages.count(flags, mappings.get(number).copied().unwrap_or(0), movable_zone);
        }
        at += count as u64;
    }
    Ok(pages)
}
