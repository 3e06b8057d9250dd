//! A recorded program as an adversary: the CSV that `freehold export` writes.

use super::subject::Player;
use anyhow::Context;
use std::collections::HashMap;
use std::path::Path;

/// What a program asked for, in order.
pub enum Ask {
    /// An object of so many bytes.
    Alloc(u64, usize),
    /// The object's end.
    Free(u64),
}

/// Reads at most `most` calls. A reallocation is a free and an allocation.
pub fn read(path: &Path, most: usize) -> anyhow::Result<Vec<Ask>> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| {
        head.iter().position(|column| *column == name).with_context(|| {
            format!(
                "{}: no column {name}; is it of `freehold export --format csv`?",
                path.display()
            )
        })
    };
    let (event, object, size) = (column("event")?, column("object")?, column("size")?);
    let mut asks = Vec::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let (Some(&event), Some(Ok(object))) =
            (fields.get(event), fields.get(object).map(|field| field.parse()))
        else {
            continue;
        };
        let size = fields.get(size).and_then(|field| field.parse().ok()).unwrap_or(0);
        match event {
            "alloc" => asks.push(Ask::Alloc(object, size)),
            "free" => asks.push(Ask::Free(object)),
            "realloc" => asks.extend([Ask::Free(object), Ask::Alloc(object, size)]),
            _ => {}
        }
        if asks.len() >= most {
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
    let mut blocks = HashMap::new();
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
