//! How densely live objects fill the pages they lie on.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// log2 of the page lengths looked at: 4 KiB, 16 KiB, 1 MiB, 2 MiB.
pub const PAGES_LOG2: [u32; 4] = [12, 14, 20, 21];

/// Pages of one length.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Packing {
    /// log2 of the length.
    pub page_log2: u32,
    /// Pages with at least one live byte.
    pub pages: u64,
    /// Live bytes, as asked for, over the bytes of those pages.
    pub density: f64,
    /// Pages less than half full.
    pub thin: u64,
}

impl Packing {
    /// Of objects given as (address, size). O(n log n).
    pub fn of(objects: &[(u64, u64)]) -> Vec<Packing> {
        PAGES_LOG2.into_iter().map(|page_log2| Packing::in_pages(objects, page_log2)).collect()
    }

    fn in_pages(objects: &[(u64, u64)], page_log2: u32) -> Packing {
        let length = 1u64 << page_log2;
        let mut filled: BTreeMap<u64, u64> = BTreeMap::new();
        for &(address, size) in objects {
            let mut at = address;
            while at < address + size {
                let next = ((at >> page_log2) + 1) << page_log2;
                let part = next.min(address + size) - at;
                *filled.entry(at >> page_log2).or_default() += part;
                at = next;
            }
        }
        let live: u64 = filled.values().sum();
        let pages = filled.len() as u64;
        let thin = filled.values().filter(|&&bytes| bytes < length / 2).count() as u64;
        let density = live as f64 / (pages.max(1) * length) as f64;
        Packing { page_log2, pages, density, thin }
    }
}
