//! A recorded program as an adversary: the CSV that `freehold export` writes.

use super::subject::Player;
use anyhow::Context;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// What a program asked for, in order.
pub enum Ask {
    /// An object of so many bytes.
    Alloc(u64, usize),
    /// The object's end.
    Free(u64),
}

/// Calls of a recorded program that are played: more lead to states no longer, and take memory.
const MOST: usize = 400_000;

/// Reads the first [`MOST`] calls of the process that makes most of them. A reallocation is a free and an
/// allocation.
pub fn read(path: &Path) -> anyhow::Result<Vec<Ask>> {
    let open = || -> anyhow::Result<_> {
        let file = File::open(path);
        let file = file.with_context(|| format!("{} cannot be read", path.display()))?;
        Ok(BufReader::new(file).lines())
    };
    let head = open()?.next().transpose()?.unwrap_or_default();
    let head: Vec<&str> = head.split(',').collect();
    let column = |name: &str| {
        head.iter().position(|column| *column == name).with_context(|| {
            format!(
                "{}: no column {name}; is it of `freehold export --format csv`?",
                path.display()
            )
        })
    };
    let (process, event) = (column("process")?, column("event")?);
    let (object, size) = (column("object")?, column("size")?);
    let mut processes = BTreeMap::new();
    for line in open()?.skip(1) {
        let line = line?;
        let id = line.split(',').nth(process).unwrap_or_default().to_owned();
        *processes.entry(id).or_insert(0_u64) += 1;
    }
    let busiest = processes.into_iter().max_by_key(|(_, lines)| *lines).unwrap_or_default().0;
    let mut asks = Vec::new();
    for line in open()?.skip(1) {
        let line = line?;
        let fields: Vec<&str> = line.split(',').collect();
        let (Some(&event), Some(Ok(object))) =
            (fields.get(event), fields.get(object).map(|field| field.parse()))
        else {
            continue;
        };
        if fields.get(process) != Some(&busiest.as_str()) {
            continue;
        }
        let size = fields.get(size).and_then(|field| field.parse().ok()).unwrap_or(0);
        match event {
            "alloc" => asks.push(Ask::Alloc(object, size)),
            "free" => asks.push(Ask::Free(object)),
            "realloc" => asks.extend([Ask::Free(object), Ask::Alloc(object, size)]),
            _ => {}
        }
        if asks.len() >= MOST {
            break;
        }
    }
    Ok(asks)
}

/// Twice the most that ever lives, for the heap: 64 bytes for each object beside what it asks for.
pub fn needs(asks: &[Ask]) -> usize {
    let (mut live, mut peak, mut sizes) = (0, 0, HashMap::new());
    for ask in asks {
        match *ask {
            Ask::Alloc(object, size) => {
                live += size + 64;
                peak = peak.max(live);
                sizes.insert(object, size);
            }
            Ask::Free(object) => live -= sizes.remove(&object).map_or(0, |size| size + 64),
        }
    }
    (2 * peak).max(1 << 20).next_power_of_two()
}

/// Plays it.
pub fn play(player: &mut Player<'_>, asks: &[Ask]) {
    let mut blocks = BTreeMap::new();
    for ask in asks {
        match *ask {
            Ask::Alloc(object, size) => {
                if let Some(block) = player.malloc(size) {
                    blocks.insert(object, (block, size));
                }
            }
            Ask::Free(object) => {
                if let Some((block, size)) = blocks.remove(&object) {
                    player.free(block, size);
                }
            }
        }
    }
    for (block, size) in blocks.into_values() {
        player.free(block, size);
    }
}
