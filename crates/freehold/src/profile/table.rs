//! Sites (call stacks that allocate) and live samples, in hash tables of fixed size off the heap. Sites lie
//! one after the other, and a table of their numbers finds them: so only used sites are ever touched.
//!
//! Linear probing; a removed sample's followers move up (Knuth, TAOCP 3, 6.4, algorithm R), so that
//! there are no tombstones. When a table is full, new entries are counted as lost and the file says so.

use super::stack::{DEPTH, Stack};
use crate::off_heap;

/// Sites that can be told apart: 12 MiB of address space, touched as they are used.
const SITES: usize = 1 << 15;
/// Places in the table of their numbers.
const PLACES: usize = 2 * SITES;
/// Samples that can live at a time: 256 GiB at the default rate.
const LIVE: usize = 1 << 17;

/// How long blocks live: what is written of each age, and below how many nanoseconds it is.
pub const AGES: [(&[u8], u64); 5] = [
    (b"under 1 ms", 1_000_000),
    (b"1 ms to 1 s", 1_000_000_000),
    (b"1 s to 1 min", 60 * 1_000_000_000),
    (b"1 min to 1 h", 3600 * 1_000_000_000),
    (b"over 1 h", u64::MAX),
];

/// Blocks and their bytes, by the samples' weights.
#[derive(Clone, Copy, Default)]
pub struct Amount {
    pub blocks: f64,
    pub bytes: f64,
}

impl Amount {
    fn add(&mut self, size: usize, weight: f64) {
        self.blocks += weight;
        self.bytes += weight * size as f64;
    }
}

/// One caller, with everything above it, and what it allocated.
#[derive(Clone, Copy)]
pub struct Site {
    hash: u64,
    frames: [usize; DEPTH],
    len: usize,
    /// Blocks that were freed, by how long they lived.
    pub freed: [Amount; AGES.len()],
    /// Blocks in use, by their age: as [`Tables::take_stock`] found them.
    pub in_use: [Amount; AGES.len()],
    /// Blocks that there was no place to remember.
    pub forgotten: Amount,
}

impl Site {
    /// The callers, innermost first.
    pub fn frames(&self) -> &[usize] {
        self.frames.get(..self.len).unwrap_or(&[])
    }
}

/// A sampled block that lives; address 0 is an empty place.
#[derive(Clone, Copy, Default)]
pub struct Live {
    address: usize,
    size: usize,
    site: usize,
    weight: f64,
    /// When it was allocated, in nanoseconds of the machine's clock.
    born: u64,
}

impl Live {
    /// Adds the block to those that have lived as long.
    fn add_to(&self, ages: &mut [Amount; AGES.len()], now: u64) {
        let lived = now.saturating_sub(self.born);
        let found = ages.iter_mut().zip(AGES).find(|(_, (_, below))| lived < *below);
        if let Some((amount, _)) = found {
            amount.add(self.size, self.weight);
        }
    }
}

/// A site's number + 1; 0 is an empty place.
#[derive(Clone, Copy, Default)]
pub struct Number(u32);

/// See the module.
pub struct Tables {
    sites: &'static mut [Site],
    numbers: &'static mut [Number],
    live: &'static mut [Live],
    sites_len: usize,
    live_len: usize,
    /// Samples for which there was no place.
    pub lost: u64,
}

impl Tables {
    /// Empty tables; `None` without address space.
    pub fn new() -> Option<Tables> {
        let (sites, numbers) = (off_heap::map(SITES)?, off_heap::map(PLACES)?);
        let live = off_heap::map(LIVE)?;
        Some(Tables { sites, numbers, live, sites_len: 0, live_len: 0, lost: 0 })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        off_heap::wipe(self.sites);
        off_heap::wipe(self.numbers);
        off_heap::wipe(self.live);
        (self.sites_len, self.live_len, self.lost) = (0, 0, 0);
    }

    /// The sites in use.
    pub fn sites(&self) -> impl Iterator<Item = &Site> + Clone {
        self.sites.iter().take(self.sites_len)
    }

    /// Notes a sampled block of `size` bytes that stands for `weight` such, at the time `now`; whether there was a place
    /// to remember it until it is freed.
    pub fn add(
        &mut self,
        address: usize,
        size: usize,
        stack: &Stack,
        weight: f64,
        now: u64,
    ) -> bool {
        let Some(number) = self.site(stack) else {
            self.lost += 1;
            return false;
        };
        if self.live_len >= LIVE / 8 * 7 {
            self.lost += 1;
            if let Some(site) = self.sites.get_mut(number) {
                site.forgotten.add(size, weight);
            }
            return false;
        }
        let mut at = place(address);
        while self.at(at).address != 0 {
            at = (at + 1) % LIVE;
        }
        self.put(at, Live { address, size, site: number, weight, born: now });
        self.live_len += 1;
        true
    }

    /// Adds up what is in use at the time `now`, by site and age.
    pub fn take_stock(&mut self, now: u64) {
        let sites = &mut *self.sites;
        sites.iter_mut().take(self.sites_len).for_each(|site| site.in_use = Default::default());
        for live in self.live.iter().filter(|live| live.address != 0) {
            if let Some(site) = sites.get_mut(live.site) {
                live.add_to(&mut site.in_use, now);
            }
        }
    }

    /// Notes that a block is freed at the time `now`; whether it was sampled.
    pub fn remove(&mut self, address: usize, now: u64) -> bool {
        let mut at = place(address);
        let found = loop {
            let live = self.at(at);
            if live.address == address {
                break live;
            }
            if live.address == 0 {
                return false;
            }
            at = (at + 1) % LIVE;
        };
        if let Some(site) = self.sites.get_mut(found.site) {
            found.add_to(&mut site.freed, now);
        }
        self.live_len -= 1;
        self.close_gap(at);
        true
    }

    /// Empties a place, moving up entries that lie behind it only because it was taken.
    fn close_gap(&mut self, mut gap: usize) {
        let mut at = gap;
        loop {
            at = (at + 1) % LIVE;
            let live = self.at(at);
            if live.address == 0 {
                return self.put(gap, Live::default());
            }
            let wanted = place(live.address);
            // Whether its place of choice is not within (gap, at], round the end.
            if (at + LIVE - wanted) % LIVE >= (at + LIVE - gap) % LIVE {
                self.put(gap, live);
                gap = at;
            }
        }
    }

    fn at(&self, at: usize) -> Live {
        self.live.get(at).copied().unwrap_or_default()
    }

    fn put(&mut self, at: usize, live: Live) {
        if let Some(place) = self.live.get_mut(at) {
            *place = live;
        }
    }

    /// The number of the stack's site; a new one if need be, `None` when all are taken.
    fn site(&mut self, stack: &Stack) -> Option<usize> {
        let frames = stack.frames();
        let hash = frames.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &frame| {
            (hash ^ frame as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)
        });
        let mut at = (hash >> 32) as usize % PLACES;
        while let Some(number) = self.numbers.get(at)?.0.checked_sub(1) {
            let site = self.sites.get(number as usize)?;
            if site.hash == hash && site.frames() == frames {
                return Some(number as usize);
            }
            at = (at + 1) % PLACES;
        }
        // A new one; the table of numbers is never more than half full.
        let number = self.sites_len;
        let site = self.sites.get_mut(number)?;
        site.hash = hash;
        for (to, from) in site.frames.iter_mut().zip(frames) {
            *to = *from;
            site.len += 1;
        }
        self.sites_len += 1;
        self.numbers.get_mut(at)?.0 = self.sites_len as u32;
        Some(number)
    }
}

/// Where a block's sample is looked for first.
fn place(address: usize) -> usize {
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - LIVE.trailing_zeros())
}
