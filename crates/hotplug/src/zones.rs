//! `/proc/zoneinfo`: what each zone has, and keeps; and of `/proc/vmstat` what was moved.

use crate::tree::{Tree, TreeError};
use serde::Serialize;

/// A zone of a node; frames.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Zone {
    /// The node.
    pub node: u32,
    /// DMA, DMA32, Normal, Movable, Device.
    pub name: String,
    /// Free now.
    pub free: u64,
    /// What the kernel tries to keep free: the high watermark.
    pub high: u64,
    /// That it has in all.
    pub present: u64,
}

impl Zone {
    /// What can be taken of it without waking the kernel's reclaim.
    pub fn spare(&self) -> u64 {
        self.free.saturating_sub(self.high)
    }
}

/// Reads the zones that have memory.
pub(crate) fn read(tree: &Tree) -> Result<Vec<Zone>, TreeError> {
    const NAME: &str = "proc/zoneinfo";
    let text = tree.text(NAME)?;
    let zones = parse(&text);
    if zones.is_empty() { Err(tree.strange(NAME, &text)) } else { Ok(zones) }
}

/// Frames moved since the kernel started, where it counts them.
pub(crate) fn migrated(tree: &Tree) -> Option<u64> {
    let text = tree.text("proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("pgmigrate_success ")?.trim().parse().ok())
}

fn parse(text: &str) -> Vec<Zone> {
    let mut zones: Vec<Zone> = Vec::new();
    for line in text.lines() {
        if let Some((node, name)) = heading(line) {
            zones.push(Zone { node, name, free: 0, high: 0, present: 0 });
        }
        let Some(zone) = zones.last_mut() else { continue };
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("pages"), Some("free"), Some(number)) => zone.free = number.parse().unwrap_or(0),
            // Per-processor counts have the same word with a colon.
            (Some("high"), Some(number), None) => zone.high = number.parse().unwrap_or(0),
            (Some("present"), Some(number), None) => zone.present = number.parse().unwrap_or(0),
            _ => {}
        }
    }
    zones.retain(|zone| zone.present > 0);
    zones
}

/// `Node 0, zone   Normal`.
fn heading(line: &str) -> Option<(u32, String)> {
    let (node, zone) = line.strip_prefix("Node ")?.split_once(", zone")?;
    Some((node.parse().ok()?, zone.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_with_memory_are_read() {
        let text = "Node 0, zone    DMA32\n  per-node stats\n      nr_inactive_anon 1\n  pages free     118952\n        boost    0\n        min      4845\n        low      6056\n        high     7267\n        spanned  126976\n        present  126976\n        managed  124820\n      nr_free_pages 118952\n  pagesets\n    cpu: 0\n              count: 22\n              high:  186\nNode 0, zone   Normal\n  pages free     0\n        high     0\n        present  0\nNode 1, zone  Movable\n  pages free     7\n        high     9\n        present  65536\n";
        let zone = |node, name: &str, free, high, present| Zone {
            node,
            name: name.to_owned(),
            free,
            high,
            present,
        };
        let zones = parse(text);
        assert_eq!(
            zones,
            [zone(0, "DMA32", 118_952, 7267, 126_976), zone(1, "Movable", 7, 9, 65_536)]
        );
        assert_eq!((zones[0].spare(), zones[1].spare()), (111_685, 0));
    }
}
