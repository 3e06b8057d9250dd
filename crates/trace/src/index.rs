//! Where the blocks are: the table at the end of a whole file, and the scan that replaces it.
//!
//! Invariant: an entry is a hint. The block it points to is compared with it before it is believed.

use crate::block::{BlockHeader, HEADER_LEN, Kind, MAGIC, u64_at};
use crate::error::{Damage, Reason};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Last bytes of a whole file.
pub(crate) const END_MAGIC: [u8; 8] = *b"FhEnd\r\n\x01";
/// Offset of the index block, then [`END_MAGIC`].
pub(crate) const END_LEN: usize = 16;
/// Offset of the block, then its header.
const ENTRY_LEN: usize = 8 + HEADER_LEN;

/// A block and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) offset: u64,
    pub(crate) header: BlockHeader,
}

/// The raw bytes of the index.
pub(crate) fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(entries.len() * ENTRY_LEN);
    for entry in entries {
        out.extend(entry.offset.to_le_bytes());
        out.extend(entry.header.encode());
    }
    out
}

fn decode(raw: &[u8]) -> Option<Vec<Entry>> {
    raw.chunks(ENTRY_LEN)
        .map(|bytes| {
            let bytes = bytes.get(..ENTRY_LEN)?;
            Some(Entry { offset: u64_at(bytes, 0), header: BlockHeader::decode(&bytes[8..])? })
        })
        .collect()
}

/// All blocks of a file whose first block would stand at `begin`, by the index or, where that is
/// missing or damaged, by scanning.
pub(crate) fn find(
    file: &File,
    begin: u64,
    len: u64,
    damage: &mut Vec<Damage>,
) -> io::Result<Vec<Entry>> {
    match read(file, begin, len)? {
        Found::Index(entries) => Ok(entries),
        Found::Damaged(offset) => {
            damage.push(Damage {
                offset,
                block: None,
                thread: None,
                reason: Reason::Index,
                events_lost: Some(0),
            });
            scan(file, begin, len, damage)
        }
        Found::Missing => {
            let entries = scan(file, begin, len, damage)?;
            damage.push(Damage {
                offset: len,
                block: None,
                thread: None,
                reason: Reason::Truncated,
                events_lost: None,
            });
            Ok(entries)
        }
    }
}

enum Found {
    Index(Vec<Entry>),
    Damaged(u64),
    Missing,
}

fn read(file: &File, begin: u64, len: u64) -> io::Result<Found> {
    if len < begin + (END_LEN + HEADER_LEN) as u64 {
        return Ok(Found::Missing);
    }
    let mut end = [0; END_LEN];
    file.read_exact_at(&mut end, len - END_LEN as u64)?;
    if end[8..] != END_MAGIC {
        return Ok(Found::Missing);
    }
    let offset = u64_at(&end, 0);
    if offset < begin || offset > len - (END_LEN + HEADER_LEN) as u64 {
        return Ok(Found::Damaged(len - END_LEN as u64));
    }
    let mut bytes = vec![0; (len - END_LEN as u64 - offset) as usize];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(match parse(&bytes, len) {
        Some(entries) => Found::Index(entries),
        None => Found::Damaged(offset),
    })
}

/// The entries of a stored index block. A file of `len` bytes has at most one block for every
/// header's length, which bounds what is allocated.
fn parse(bytes: &[u8], len: u64) -> Option<Vec<Entry>> {
    let header = BlockHeader::decode(bytes)?;
    let stored = bytes.get(HEADER_LEN..)?;
    let most = len / HEADER_LEN as u64 * ENTRY_LEN as u64;
    if header.kind != Kind::INDEX
        || header.stored_len as usize != stored.len()
        || header.crc != crc32fast::hash(stored)
        || u64::from(header.raw_len) > most
        || header.raw_len as usize != header.count as usize * ENTRY_LEN
    {
        return None;
    }
    let raw = zstd::bulk::decompress(stored, header.raw_len as usize).ok()?;
    decode(&raw).filter(|entries| entries.len() == header.count as usize)
}

/// Hops from header to header; where there is none, searches for the next.
fn scan(file: &File, begin: u64, len: u64, damage: &mut Vec<Damage>) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut at = begin;
    while at + (HEADER_LEN as u64) <= len {
        let mut bytes = [0; HEADER_LEN];
        file.read_exact_at(&mut bytes, at)?;
        let header = BlockHeader::decode(&bytes);
        if let Some(header) = header {
            let end = at + HEADER_LEN as u64 + u64::from(header.stored_len);
            if end > len {
                damage.push(cut_off(at, &header));
                break;
            }
            if header.kind != Kind::INDEX {
                entries.push(Entry { offset: at, header });
            }
            at = end;
        } else {
            let next = search(file, at + 1, len)?;
            // The end mark of a file whose index is damaged is no garbage.
            if next != len || len - at != END_LEN as u64 {
                damage.push(garbage(at));
            }
            at = next;
        }
    }
    Ok(entries)
}

fn cut_off(offset: u64, header: &BlockHeader) -> Damage {
    let events = header.kind == Kind::EVENTS;
    Damage {
        offset,
        block: events.then_some(header.sequence),
        thread: events.then_some((header.process, header.thread)),
        reason: Reason::Truncated,
        events_lost: Some(if events { header.count.into() } else { 0 }),
    }
}

fn garbage(offset: u64) -> Damage {
    Damage { offset, block: None, thread: None, reason: Reason::Garbage, events_lost: None }
}

/// The offset of the next sound header at or after `at`, or `len`.
fn search(file: &File, mut at: u64, len: u64) -> io::Result<u64> {
    let mut window = vec![0; 64 << 10];
    while at + (HEADER_LEN as u64) <= len {
        let size = window.len().min((len - at) as usize);
        let window = &mut window[..size];
        file.read_exact_at(window, at)?;
        let sound = (0..=size - HEADER_LEN).find(|i| {
            window[*i..].starts_with(&MAGIC) && BlockHeader::decode(&window[*i..]).is_some()
        });
        if let Some(found) = sound {
            return Ok(at + found as u64);
        }
        at += (size - HEADER_LEN + 1) as u64;
    }
    Ok(len)
}
