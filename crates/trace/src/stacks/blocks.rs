//! The tables of call stacks as blocks: nodes (kind 3), frames (kind 4), modules (kind 5).
//!
//! Invariant of reading: memory is bounded by the file's length ([`Budget`]); a node or frame that names what is not
//! there is damage, and so is all of its block. Numbers do not shift by it: the lost nodes of a block stand for
//! stacks of which nothing is known.

use super::{Frame, FrameId, Module, Node, StackId, Stacks};
use crate::block::{HEADER_LEN, Kind};
use crate::error::{Damage, ReadError, Reason};
use crate::index::Entry;
use crate::reader::{Source, at_block};
use crate::varint;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;

/// Raw bytes from which on another block is begun.
const TABLE_BYTES: usize = 1 << 20;
/// Most raw bytes of a block that a reader takes.
const MAX_RAW: usize = 4 << 20;
/// Raw bytes of all blocks together: so many, and so many more for each byte of the file.
const RAW_FLOOR: u64 = 64 << 20;
const RAW_PER_BYTE: u64 = 32;
/// Nodes that are kept: so many, and so many more for each byte of the file.
const NODES_FLOOR: u64 = 1 << 20;
const NODES_PER_BYTE: u64 = 8;
/// Fewest raw bytes of a node.
const LEAST_NODE: u32 = 2;

/// Hands the blocks of all tables to `put`: kind, entries, raw bytes.
pub(crate) fn store(
    stacks: &Stacks,
    mut put: impl FnMut(Kind, usize, Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    store_json(Kind::MODULES, &stacks.modules, &mut put)?;
    store_json(Kind::FRAMES, &stacks.frames, &mut put)?;
    let (mut raw, mut count, mut frame) = (Vec::new(), 0, 0);
    for (before, node) in stacks.nodes.iter().enumerate() {
        varint::put(&mut raw, before as u64 - u64::from(node.parent.0));
        varint::put(&mut raw, varint::fold(i64::from(node.frame.0) - frame));
        frame = node.frame.0.into();
        count += 1;
        if raw.len() >= TABLE_BYTES {
            put(Kind::STACKS, std::mem::take(&mut count), std::mem::take(&mut raw))?;
            frame = 0;
        }
    }
    if count > 0 { put(Kind::STACKS, count, raw) } else { Ok(()) }
}

/// A JSON array in as many blocks as it takes.
fn store_json<T: Serialize>(
    kind: Kind,
    entries: &[T],
    put: &mut impl FnMut(Kind, usize, Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    let (mut json, mut count) = (Vec::new(), 0);
    for entry in entries {
        json.push(if count == 0 { b'[' } else { b',' });
        serde_json::to_writer(&mut json, entry)?;
        count += 1;
        if json.len() >= TABLE_BYTES {
            json.push(b']');
            put(kind, std::mem::take(&mut count), std::mem::take(&mut json))?;
        }
    }
    if count == 0 {
        return Ok(());
    }
    json.push(b']');
    put(kind, count, json)
}

/// What the blocks of a file may take.
struct Budget {
    raw: u64,
    nodes: u64,
}

/// The stacks of all blocks among `entries`. Blocks that cannot be read are added to `damage`.
pub(crate) fn read(
    source: &Source,
    entries: &[Entry],
    file_len: u64,
    damage: &mut Vec<Damage>,
) -> Result<Stacks, ReadError> {
    let mut budget = Budget {
        raw: RAW_FLOOR.saturating_add(file_len.saturating_mul(RAW_PER_BYTE)),
        nodes: NODES_FLOOR.saturating_add(file_len.saturating_mul(NODES_PER_BYTE)),
    };
    let (mut stacks, mut bytes) = (Stacks::default(), Vec::new());
    for kind in [Kind::MODULES, Kind::FRAMES, Kind::STACKS] {
        for entry in entries.iter().filter(|entry| entry.header.kind == kind) {
            let raw = match source.read_block(entry, &mut bytes)? {
                Ok(()) => unpack(entry, &bytes[HEADER_LEN..], &mut budget).ok_or(Reason::Stacks),
                Err(reason) => Err(reason),
            };
            if let Err(reason) =
                raw.and_then(|raw| stacks.take(entry, &raw, &mut budget).ok_or(Reason::Stacks))
            {
                stacks.lose(entry, &mut budget);
                damage.push(at_block(entry, reason, Some(0)));
            }
        }
    }
    Ok(stacks)
}

fn unpack(entry: &Entry, stored: &[u8], budget: &mut Budget) -> Option<Vec<u8>> {
    let raw_len = entry.header.raw_len as usize;
    if raw_len > MAX_RAW {
        return None;
    }
    budget.raw = budget.raw.checked_sub(raw_len as u64)?;
    let raw = zstd::bulk::decompress(stored, raw_len).ok()?;
    (raw.len() == raw_len).then_some(raw)
}

impl Stacks {
    /// Takes the entries of a block, all or none.
    fn take(&mut self, entry: &Entry, raw: &[u8], budget: &mut Budget) -> Option<()> {
        match entry.header.kind {
            Kind::MODULES => self.modules.extend(json::<Module>(raw)?),
            Kind::FRAMES => {
                let frames: Vec<Frame> = json(raw)?;
                let there = |frame: &Frame| {
                    frame.module.is_none_or(|module| (module as usize) < self.modules.len())
                };
                self.frames.extend(frames.iter().all(there).then_some(frames)?);
            }
            _ => {
                let nodes = self.nodes_of(raw, entry.header.count)?;
                budget.nodes = budget.nodes.checked_sub(nodes.len() as u64)?;
                self.nodes.extend(nodes);
            }
        }
        Some(())
    }

    fn nodes_of(&self, raw: &[u8], count: u32) -> Option<Vec<Node>> {
        if count > raw.len() as u32 / LEAST_NODE {
            return None;
        }
        let (mut nodes, mut at, mut frame) = (Vec::with_capacity(count as usize), 0, 0i64);
        for before in (self.nodes.len() as u64..).take(count as usize) {
            let parent = before.checked_sub(varint::take(raw, &mut at)?)?;
            frame = frame.checked_add(varint::unfold(varint::take(raw, &mut at)?))?;
            let frame = u32::try_from(frame).ok().filter(|&f| f as usize <= self.frames.len())?;
            nodes.push(Node { parent: StackId(parent as u32), frame: FrameId(frame) });
        }
        (at == raw.len()).then_some(nodes)
    }

    /// Puts something in the place of what a damaged block held, so that what follows keeps its number.
    fn lose(&mut self, entry: &Entry, budget: &mut Budget) {
        let header = &entry.header;
        let lost = u64::from(header.count.min(header.raw_len / LEAST_NODE)).min(budget.nodes);
        budget.nodes -= lost;
        match header.kind {
            Kind::STACKS => self.nodes.resize(self.nodes.len() + lost as usize, Node::default()),
            Kind::FRAMES => self.frames.resize(self.frames.len() + lost as usize, Frame::default()),
            _ => self.modules.resize(self.modules.len() + lost as usize, Module::default()),
        }
    }
}

fn json<T: DeserializeOwned>(raw: &[u8]) -> Option<Vec<T>> {
    serde_json::from_slice(raw).ok()
}
