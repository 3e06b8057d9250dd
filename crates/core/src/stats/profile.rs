//! The sampled heap profile as it lies in memory, and as a file.
//!
//! ```text
//! Page    magic | version | changes | sites, how many | live samples, places | rate, lost     in the writable data of the library
//! Site    one call stack that allocates, and what was freed of it                           a row of them, never moved
//! Live    a sampled block that lives; address 0 is an empty place                            a hash table
//! ```
//!
//! The malloc fills the tables (`freehold::profile`) and writes the file from inside the process; `freehold top --serve` reads them from
//! outside, as [`page`](super::page) is read. Nobody waits for that reader: it reads a piece, and once more if [`Page::changes`] says that
//! something moved meanwhile. So each row is whole, but pieces are of different moments, some milliseconds apart.

mod build_id;
mod pprof;

pub use build_id::{Digits, build_id};
pub use pprof::{Facts, Mappings, Range, Writer};

use super::plain::{Plain, read};
use crate::malloc::census::Peek;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// The first bytes of a page.
pub const MAGIC: [u8; 32] = *b"freehold: where the samples are\n";
/// Grows when the meaning of a field changes.
const VERSION: u32 = 1;
/// Most callers of a site.
pub const DEPTH: usize = 40;
/// Rows that are read at once.
const PIECE: usize = 64;
/// How often a piece that changes is read.
const ATTEMPTS: usize = 1000;

/// How long blocks live: what is written of each age, and below how many nanoseconds it is.
pub const AGES: [(&[u8], u64); 5] = [
    (b"under 1 ms", 1_000_000),
    (b"1 ms to 1 s", 1_000_000_000),
    (b"1 s to 1 min", 60 * 1_000_000_000),
    (b"1 min to 1 h", 3600 * 1_000_000_000),
    (b"over 1 h", u64::MAX),
];

/// Blocks and their bytes, by the samples' weights.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Amount {
    /// Blocks.
    pub blocks: f64,
    /// Bytes asked for.
    pub bytes: f64,
}

impl Amount {
    /// Adds a sample.
    pub fn add(&mut self, size: usize, weight: f64) {
        self.blocks += weight;
        self.bytes += weight * size as f64;
    }
}

/// One caller, with everything above it, and what it allocated.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Site {
    /// Of the frames.
    pub hash: u64,
    /// The callers, innermost first; addresses within the calling instructions.
    pub frames: [usize; DEPTH],
    /// How many there are.
    pub len: usize,
    /// Blocks that were freed, by how long they lived.
    pub freed: [Amount; AGES.len()],
    /// Blocks in use, by their age, when somebody last [took stock](take_stock).
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
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Live {
    /// Of the block.
    pub address: usize,
    /// Bytes asked for.
    pub size: usize,
    /// The number of its site.
    pub site: usize,
    /// For how many such blocks it stands.
    pub weight: f64,
    /// When it was allocated, in nanoseconds of the machine's clock.
    pub born: u64,
}

impl Live {
    /// Adds the block to those that have lived as long.
    pub fn add_to(&self, ages: &mut [Amount; AGES.len()], now: u64) {
        let lived = now.saturating_sub(self.born);
        let found = ages.iter_mut().zip(AGES).find(|(_, (_, below))| lived < *below);
        if let Some((amount, _)) = found {
            amount.add(self.size, self.weight);
        }
    }
}

/// Adds up what is in use at the time `now`, by site and age.
pub fn take_stock<'a>(sites: &mut [Site], live: impl Iterator<Item = &'a Live>, now: u64) {
    sites.iter_mut().for_each(|site| site.in_use = Default::default());
    for live in live.filter(|live| live.address != 0) {
        if let Some(site) = sites.get_mut(live.site) {
            live.add_to(&mut site.in_use, now);
        }
    }
}

/// Where the tables are. See the module.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Page {
    magic: [u8; 32],
    version: u32,
    site_bytes: u32,
    live_bytes: u32,
    _reserved: u32,
    changes: AtomicUsize,
    sites: AtomicUsize,
    sites_len: AtomicUsize,
    live: AtomicUsize,
    live_places: AtomicUsize,
    rate: AtomicUsize,
    lost: AtomicU64,
}

const _: () = assert!(align_of::<Page>() == super::page::PAGE_ALIGN);

impl Page {
    /// Of a process that does not sample.
    pub const fn new() -> Page {
        Page {
            magic: MAGIC,
            version: VERSION,
            site_bytes: size_of::<Site>() as u32,
            live_bytes: size_of::<Live>() as u32,
            _reserved: 0,
            changes: AtomicUsize::new(0),
            sites: AtomicUsize::new(0),
            sites_len: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            live_places: AtomicUsize::new(0),
            rate: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// Says where the tables are, and of how many bytes one is sampled.
    pub fn publish(&self, sites: *const Site, live: &[Live], rate: usize) {
        self.live.store(live.as_ptr().expose_provenance(), Ordering::Relaxed);
        self.live_places.store(live.len(), Ordering::Relaxed);
        self.rate.store(rate, Ordering::Relaxed);
        self.sites.store(sites.expose_provenance(), Ordering::Release);
    }

    /// Before the tables change. The caller holds the lock of the tables.
    pub fn begin(&self) {
        self.changes.store(self.changes.load(Ordering::Relaxed) | 1, Ordering::Relaxed);
        // Pairs with the reader, who reads the number before and after a piece: no store below is seen before this one.
        fence(Ordering::Release);
    }

    /// After a change: so many sites are used, so many samples had no place.
    pub fn end(&self, sites_len: usize, lost: u64) {
        self.sites_len.store(sites_len, Ordering::Relaxed);
        self.lost.store(lost, Ordering::Relaxed);
        let changes = (self.changes.load(Ordering::Relaxed) | 1).wrapping_add(1);
        self.changes.store(changes, Ordering::Release);
    }
}

impl Default for Page {
    fn default() -> Page {
        Page::new()
    }
}

/// Why the tables of a process cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreadable {
    /// It takes no samples.
    Off,
    /// They are another version's.
    OtherVersion,
    /// Memory that should be there cannot be read.
    Memory,
    /// They changed whenever they were read.
    Busy,
}

/// The tables of another process, whose page is at `address`.
#[derive(Debug)]
pub struct Tables<'a, P> {
    peek: &'a P,
    address: usize,
    page: Page,
}

impl<'a, P: Peek> Tables<'a, P> {
    /// Finds them.
    ///
    /// # Errors
    /// When the process takes no samples, or not as this version does.
    pub fn find(peek: &'a P, address: usize) -> Result<Self, Unreadable> {
        let page: Page = read(peek, address).ok_or(Unreadable::Memory)?;
        let ours = Page::new();
        if (page.magic, page.version, page.site_bytes, page.live_bytes)
            != (ours.magic, ours.version, ours.site_bytes, ours.live_bytes)
        {
            return Err(Unreadable::OtherVersion);
        }
        match page.sites.load(Ordering::Relaxed) {
            0 => Err(Unreadable::Off),
            _ => Ok(Tables { peek, address, page }),
        }
    }

    /// Bytes between samples on average, and how many samples had no place.
    pub fn rate_and_lost(&self) -> (u64, u64) {
        (self.page.rate.load(Ordering::Relaxed) as u64, self.page.lost.load(Ordering::Relaxed))
    }

    /// Calls `each` with every live sample, then with every site.
    ///
    /// # Errors
    /// When memory cannot be read, or changes too fast.
    pub fn visit(
        &self,
        mut live: impl FnMut(&Live),
        mut site: impl FnMut(&Site),
    ) -> Result<(), Unreadable> {
        let page = &self.page;
        let at = |place: &AtomicUsize| place.load(Ordering::Relaxed);
        self.rows::<Live>(at(&page.live), at(&page.live_places), &mut live)?;
        // Samples that were made meanwhile may be of new sites.
        let now: Page = read(self.peek, self.address).ok_or(Unreadable::Memory)?;
        self.rows::<Site>(at(&page.sites), at(&now.sites_len), &mut site)
    }

    fn rows<T: Plain>(
        &self,
        start: usize,
        len: usize,
        each: &mut dyn FnMut(&T),
    ) -> Result<(), Unreadable> {
        for from in (0..len).step_by(PIECE) {
            let rows: [T; PIECE] = self.piece(start, from, PIECE.min(len - from))?;
            rows.iter().take(len - from).for_each(&mut *each);
        }
        Ok(())
    }

    /// So many rows of one moment; the rest is zero.
    fn piece<T: Plain>(
        &self,
        start: usize,
        from: usize,
        len: usize,
    ) -> Result<[T; PIECE], Unreadable> {
        let changes = self.address + core::mem::offset_of!(Page, changes);
        let at = start + from * size_of::<T>();
        for _ in 0..ATTEMPTS {
            let before: usize = read(self.peek, changes).ok_or(Unreadable::Memory)?;
            let mut rows = MaybeUninit::<[T; PIECE]>::zeroed();
            // SAFETY: the bytes are those rows', zeroed, and we hold them alone.
            let bytes = unsafe {
                core::slice::from_raw_parts_mut(rows.as_mut_ptr().cast(), len * size_of::<T>())
            };
            if !self.peek.peek(at, bytes) {
                return Err(Unreadable::Memory);
            }
            let after: usize = read(self.peek, changes).ok_or(Unreadable::Memory)?;
            if before == after && before & 1 == 0 {
                // SAFETY: any bytes are numbers.
                return Ok(unsafe { rows.assume_init() });
            }
        }
        Err(Unreadable::Busy)
    }
}

// SAFETY: numbers.
unsafe impl Plain for Page {}
// SAFETY: numbers.
unsafe impl Plain for Site {}
// SAFETY: numbers.
unsafe impl Plain for Live {}

#[cfg(test)]
mod tests;
