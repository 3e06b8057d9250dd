//! Sites (call stacks that allocate) and live samples, in hash tables of fixed size off the heap. Sites lie
//! one after the other, and a table of their numbers finds them: so only used sites are ever touched.
//!
//! Linear probing; a removed sample's followers move up (Knuth, TAOCP 3, 6.4, algorithm R), so that
//! there are no tombstones. When a table is full, new entries are counted as lost and the file says so.

use super::stack::Stack;
use crate::off_heap;
use freehold_core::stats::profile::{Live, Page, Site, take_stock};

/// Sites that can be told apart: 12 MiB of address space, touched as they are used.
const SITES: usize = 1 << 15;
/// Places in the table of their numbers.
const PLACES: usize = 2 * SITES;
/// Samples that can live at a time: 256 GiB at the default rate.
const LIVE: usize = 1 << 17;

/// Where readers outside of the process find the tables. (Used: by them. The compiler would take it apart and leave out the fields
/// that nobody here reads, its first bytes among them.)
#[used]
static PAGE: Page = Page::new();

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

    /// Lets readers outside of the process find them; one of `rate` bytes is sampled.
    pub fn publish(&self, rate: usize) {
        PAGE.publish(self.sites.as_ptr(), self.live, rate);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        PAGE.begin();
        off_heap::wipe(self.sites);
        off_heap::wipe(self.numbers);
        off_heap::wipe(self.live);
        (self.sites_len, self.live_len, self.lost) = (0, 0, 0);
        PAGE.end(0, 0);
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
        PAGE.begin();
        let kept = self.add_unseen(address, size, stack, weight, now);
        PAGE.end(self.sites_len, self.lost);
        kept
    }

    fn add_unseen(
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
        let sites = self.sites.get_mut(..self.sites_len).unwrap_or_default();
        take_stock(sites, self.live.iter(), now);
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
        PAGE.begin();
        if let Some(site) = self.sites.get_mut(found.site) {
            found.add_to(&mut site.freed, now);
        }
        self.live_len -= 1;
        self.close_gap(at);
        PAGE.end(self.sites_len, self.lost);
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
