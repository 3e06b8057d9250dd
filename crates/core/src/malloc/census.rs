//! What a heap holds, counted from outside while it works: by size class, large blocks, free memory.
//!
//! ```text
//! Layout     offsets of the counted structures: a process publishes it with its page
//! Peek       reads bytes of that process: this process's own memory, or another's through the kernel
//! Census     the result, plain numbers
//! ```
//!
//! No path does extra work for it: slabs keep their counts out of band, caches their stacks'
//! room. The same walk therefore serves the program itself and `freehold top`, which reads through
//! the kernel. It stops no thread, so the figures are of slightly different moments; each figure is bounded
//! by the next, so no sum ever wraps.
//!
//! Invariant: every value is checked against its possible range before it is used, because it may come
//! from another process's memory, in any state.

use super::cache::Cache;
use super::heap::NodeHeap;
use super::large::Large;
use super::registry::PER_UNIT;
use super::reserve::arrivals::{self, SHORT_CLASSES};
use super::slabs::pages::Pages;
use super::slabs::slab::Slab;
use super::slabs::vacancy::Vacancy;
use super::tag::Tag;
use super::units::bank::Bank;
use super::units::region::{DESCRIPTOR, Region, RegionLayout};
use super::units::{BANK, BANK_UNITS, MAX_REGIONS, UNIT};
use crate::machine::Machine;
use crate::size_class::{CLASSES, SizeClass};
use core::mem::offset_of;

/// Grows when the meaning of [`Layout`], [`Roots`] or a tag changes.
pub const LAYOUT_VERSION: u32 = 7;

/// Most caches that are visited: a list that never ends is not one.
const MOST_CACHES: usize = 1 << 20;

/// Reads bytes of the process whose heap is counted.
pub trait Peek {
    /// Fills `into` from `address`; `false` when not all of it can be read.
    fn peek(&self, address: usize, into: &mut [u8]) -> bool;
}

/// The memory of this very process.
#[derive(Debug)]
pub struct Direct(());

impl Direct {
    /// # Safety
    /// Every address that is peeked can be read: [`Roots`] are those of heaps that live.
    pub unsafe fn new() -> Direct {
        Direct(())
    }
}

impl Peek for Direct {
    fn peek(&self, address: usize, into: &mut [u8]) -> bool {
        let from: *const u8 = core::ptr::with_exposed_provenance(address);
        let whole = if address.is_multiple_of(8) { into.len() & !7 } else { 0 };
        let (words, rest) = into.split_at_mut(whole);
        for (at, word) in words.chunks_exact_mut(8).enumerate() {
            // SAFETY: `new`'s. Volatile: owners write meanwhile, each word by one instruction.
            let value = unsafe { from.cast::<u64>().add(at).read_volatile() };
            word.copy_from_slice(&value.to_ne_bytes());
        }
        for (at, byte) in rest.iter_mut().enumerate() {
            // SAFETY: as above.
            *byte = unsafe { from.add(whole + at).read_volatile() };
        }
        true
    }
}

/// Where the structures keep what is counted: offsets in bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Layout {
    version: u32,
    classes: u32,
    unit: u32,
    bank: u32,
    descriptor: u32,
    state_len: u32,
    state_used: u32,
    state_dirty: u32,
    region: RegionLayout,
    slab_free: u32,
    slab_blocks: u32,
    slab_purged: u32,
    large_size: u32,
    large_units: u32,
    cache_room: u32,
    cache_granted: u32,
    cache_spare_len: u32,
    cache_held: u32,
    cache_parcel_len: u32,
    cache_arrivals: u32,
    cache_attached: u32,
    cache_key: u32,
    cache_next_unit: u32,
}

impl Layout {
    /// That of this build.
    pub const OURS: Layout = Layout {
        version: LAYOUT_VERSION,
        classes: CLASSES as u32,
        unit: UNIT as u32,
        bank: BANK as u32,
        descriptor: DESCRIPTOR as u32,
        state_len: size_of::<Bank>() as u32,
        state_used: offset_of!(Bank, used) as u32,
        state_dirty: offset_of!(Bank, dirty) as u32,
        region: Region::LAYOUT,
        slab_free: (offset_of!(Slab, vacancy) + Vacancy::FREE_AT) as u32,
        slab_blocks: Slab::BLOCKS_AT as u32,
        slab_purged: offset_of!(Slab, purged) as u32,
        large_size: offset_of!(Large, size) as u32,
        large_units: offset_of!(Large, units) as u32,
        cache_room: offset_of!(Cache, magazines.room) as u32,
        cache_granted: offset_of!(Cache, magazines.granted) as u32,
        cache_spare_len: offset_of!(Cache, reserve.spare_len) as u32,
        cache_held: offset_of!(Cache, reserve.held) as u32,
        cache_parcel_len: offset_of!(Cache, reserve.parcels.len) as u32,
        cache_arrivals: offset_of!(Cache, reserve.arrivals) as u32,
        cache_attached: offset_of!(Cache, attached) as u32,
        cache_key: offset_of!(Cache, magazines.key) as u32,
        cache_next_unit: offset_of!(Cache, next_unit) as u32,
    };

    /// Whether this build can count by it: the numbers that are compiled in agree, and no offset
    /// leads out of its structure.
    pub fn is_readable(&self) -> bool {
        let ours = &Layout::OURS;
        let descriptor = [self.slab_free, self.slab_blocks, self.slab_purged]
            .into_iter()
            .chain([self.large_size, self.large_units]);
        (self.version, self.classes, self.unit, self.bank)
            == (ours.version, ours.classes, ours.unit, ours.bank)
            && self.descriptor as usize == DESCRIPTOR
            && self.state_len as usize <= STATE_MAX
            && self.state_used.max(self.state_dirty) + 4 <= self.state_len
            && descriptor.into_iter().all(|at| at as usize + 8 <= DESCRIPTOR)
            && self.region.len < 4096
    }
}

/// Where a heap's structures start, in its process.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Roots {
    /// The table of regions.
    pub regions: usize,
    /// The word that points to the first of all caches.
    pub caches: usize,
}

impl<M: Machine> NodeHeap<M> {
    /// Where this heap's structures start.
    pub fn roots(&self) -> Roots {
        Roots { regions: self.shared.units.table(), caches: self.registry.root() }
    }

    /// What the heap holds now. Any thread, any time; O(units in use + caches). Free blocks whose pages are just being
    /// given back count as the program's.
    pub fn census(&self) -> Census {
        // SAFETY: the heap lives, and its structures are never unmapped before it.
        let peek = unsafe { Direct::new() };
        Census::take(&peek, &Layout::OURS, self.roots()).unwrap_or_default()
    }
}

/// The slabs of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCensus {
    /// Slabs cut into blocks of this class.
    pub slabs: u64,
    /// Blocks in them.
    pub blocks: u64,
    /// Free blocks that nobody holds.
    pub free: u64,
    /// Free blocks in threads' stacks and parcels.
    pub cached: u64,
}

impl ClassCensus {
    /// Blocks that the program has.
    pub fn in_use(&self) -> u64 {
        self.blocks.saturating_sub(self.free).saturating_sub(self.cached)
    }
}

/// What a heap holds. Bytes unless a name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Census {
    /// Address space that is readable and writable.
    pub committed: u64,
    /// In slabs, large blocks (less their tails) and caches.
    pub held: u64,
    /// In free units whose pages may be resident.
    pub dirty: u64,
    /// In slabs' pages that were given back and not touched by a block since.
    pub purged: u64,
    /// By size class.
    pub classes: [ClassCensus; CLASSES],
    /// Blocks above the largest class.
    pub large_blocks: u64,
    /// What their users may use of them.
    pub large_bytes: u64,
    /// What they hold: whole units.
    pub large_held: u64,
    /// Caches that have a thread.
    pub caches: u64,
    /// Caches that wait for one.
    pub caches_idle: u64,
}

impl Default for Census {
    fn default() -> Census {
        Census {
            committed: 0,
            held: 0,
            dirty: 0,
            purged: 0,
            classes: [ClassCensus::default(); CLASSES],
            large_blocks: 0,
            large_bytes: 0,
            large_held: 0,
            caches: 0,
            caches_idle: 0,
        }
    }
}

/// Bank states read at once, and the longest a state may be.
const BANKS_AT_ONCE: usize = 32;
const STATE_MAX: usize = 64;

impl Census {
    /// Counts the heap at `roots`; `None` when its memory cannot be read, or is not what `layout`
    /// promises.
    pub fn take(peek: &impl Peek, layout: &Layout, roots: Roots) -> Option<Census> {
        if !layout.is_readable() {
            return None;
        }
        let mut census = Census::default();
        let walk = Walk { peek, layout };
        for number in 0..MAX_REGIONS {
            let region = roots.regions + number * layout.region.len as usize;
            if !walk.region(region, &mut census)? {
                break;
            }
        }
        walk.caches(roots.caches, &mut census)?;
        Some(census)
    }

    /// The classes that have slabs, with their sizes in bytes.
    pub fn used_classes(&self) -> impl Iterator<Item = (usize, &ClassCensus)> {
        SizeClass::all()
            .zip(&self.classes)
            .filter(|(_, class)| class.slabs != 0)
            .map(|(class, census)| (class.size(), census))
    }

    #[inline(never)]
    fn sum(&self, of: fn(&ClassCensus) -> u64) -> u64 {
        self.used_classes().map(|(size, class)| size as u64 * of(class)).sum()
    }

    /// Bytes of all blocks that the program has, as large as they are (not as was asked).
    pub fn in_use(&self) -> u64 {
        self.sum(ClassCensus::in_use) + self.large_bytes
    }

    /// Bytes in threads' stacks and parcels.
    pub fn cached(&self) -> u64 {
        self.sum(|class| class.cached)
    }

    /// Bytes of free blocks of slabs.
    pub fn free(&self) -> u64 {
        self.sum(|class| class.free)
    }

    /// Blocks that the program has.
    pub fn blocks(&self) -> u64 {
        self.used_classes().map(|(_, class)| class.in_use()).sum::<u64>() + self.large_blocks
    }
}

struct Walk<'a, P> {
    peek: &'a P,
    layout: &'a Layout,
}

impl<P: Peek> Walk<'_, P> {
    fn word(&self, address: usize) -> Option<usize> {
        let mut bytes = [0; 8];
        self.peek.peek(address, &mut bytes).then(|| usize::from_ne_bytes(bytes))
    }

    /// Counts one region; `false` when there is none.
    fn region(&self, at: usize, census: &mut Census) -> Option<bool> {
        let field = |offset: u32| self.word(at + offset as usize);
        let of = &self.layout.region;
        let base = field(of.base)?;
        if base == 0 {
            return Some(false);
        }
        let (start, committed) = (field(of.start)?, field(of.committed)?);
        let (states, record) = (field(of.states)?, of.record as usize);
        // What cannot be: more than an address has bits for.
        let before = start.wrapping_sub(base);
        if committed > 1 << 26 || before > BANK << 26 {
            return None;
        }
        census.committed += (committed * BANK) as u64;
        let len = self.layout.state_len.max(1) as usize;
        let mut bytes = [0; BANKS_AT_ONCE * STATE_MAX];
        for first in (0..committed).step_by(BANKS_AT_ONCE) {
            let banks = BANKS_AT_ONCE.min(committed - first);
            let bytes = bytes.get_mut(..banks * len)?;
            if !self.peek.peek(states + first * len, bytes) {
                return None;
            }
            for (bank, state) in (first..).zip(bytes.chunks_exact(len)) {
                let used = read_u32(state, self.layout.state_used);
                census.held += used.count_ones() as u64 * UNIT as u64;
                let dirty = read_u32(state, self.layout.state_dirty) & !used;
                census.dirty += dirty.count_ones() as u64 * UNIT as u64;
                if used != 0 {
                    let tags = base + (before / UNIT + bank * BANK_UNITS) * 8;
                    self.bank(used, tags, base.wrapping_sub((bank + 1) * record), census)?;
                }
            }
        }
        Some(true)
    }

    fn bank(&self, used: u32, tags: usize, descriptors: usize, census: &mut Census) -> Option<()> {
        let mut tag_bytes = [0; BANK_UNITS * 8];
        let mut bytes = [0; BANK_UNITS * DESCRIPTOR];
        if !(self.peek.peek(tags, &mut tag_bytes) && self.peek.peek(descriptors, &mut bytes)) {
            return None;
        }
        let units = tag_bytes.chunks_exact(8).zip(bytes.chunks_exact(DESCRIPTOR)).enumerate();
        for (_, (tag, descriptor)) in units.filter(|(unit, _)| used >> unit & 1 != 0) {
            match Tag::decode(read_u64(tag, 0)) {
                Tag::Slab(_, class) => self.slab(descriptor, class, census),
                Tag::Large => {
                    let held =
                        read_u64(descriptor, self.layout.large_units).saturating_mul(UNIT as u64);
                    let size = read_u64(descriptor, self.layout.large_size).min(held);
                    if size == 0 {
                        // Set aside.
                        census.held = census.held.saturating_sub(held);
                        census.dirty = census.dirty.saturating_add(held);
                        continue;
                    }
                    census.large_blocks += 1;
                    census.large_held = census.large_held.saturating_add(held);
                    census.held = census.held.saturating_sub(held - size);
                    census.large_bytes = census.large_bytes.saturating_add(size);
                }
                Tag::Nothing => {}
            }
        }
        Some(())
    }

    fn slab(&self, descriptor: &[u8], class: SizeClass, census: &mut Census) {
        let blocks = read_u16(descriptor, self.layout.slab_blocks) as u64;
        let free = read_u32(descriptor, self.layout.slab_free) as u64;
        let purged = read_u16(descriptor, self.layout.slab_purged);
        census.purged += Pages::from_bits(purged).bytes() as u64;
        if let Some(sum) = census.classes.get_mut(class.index()) {
            sum.slabs += 1;
            sum.blocks += blocks;
            sum.free += free.min(blocks);
        }
    }

    fn caches(&self, root: usize, census: &mut Census) -> Option<()> {
        let mut unit = self.word(root)?;
        let mut bytes = [0; size_of::<Cache>()];
        for number in 0..MOST_CACHES {
            if unit == 0 {
                return Some(());
            }
            // From the last page of a unit to the first, which knows the next.
            let page = PER_UNIT - 1 - number % PER_UNIT;
            if !self.peek.peek(unit + page * size_of::<Cache>(), &mut bytes) {
                return None;
            }
            // A page without a key is none.
            if read_u64(&bytes, self.layout.cache_key) != 0 {
                self.cache(&bytes, census);
            }
            if page == 0 {
                unit = read_u64(&bytes, self.layout.cache_next_unit) as usize;
            }
        }
        None
    }

    fn cache(&self, bytes: &[u8], census: &mut Census) {
        let layout = self.layout;
        match read_u16(bytes, layout.cache_attached) & 0xFF {
            0 => census.caches_idle += 1,
            _ => census.caches += 1,
        }
        for (class, sum) in (0_u32..).zip(&mut census.classes) {
            let granted = read_u16(bytes, layout.cache_granted + class * 2) as i64;
            let room = read_u32(bytes, layout.cache_room + class * 4) as i32 as i64;
            let stacked = (granted - room).clamp(0, granted + 1) as u64;
            let spare = read_u16(bytes, layout.cache_spare_len + class * 2) as u64;
            let held = read_u16(bytes, layout.cache_held + class * 2) as u64;
            let parcels = (read_u16(bytes, layout.cache_parcel_len + class) & 0xFF) as u64;
            let list =
                class.checked_sub(SHORT_CLASSES as u32).map(|at| layout.cache_arrivals + at * 8);
            let arrived = list.map_or(0, |at| arrivals::len_of(read_u64(bytes, at) as usize));
            let cached = stacked + spare + held + parcels + arrived as u64;
            sum.cached = (sum.cached + cached).min(sum.blocks - sum.free);
        }
    }
}

/// `N` bytes at an offset; zeros when it leads out of `bytes`.
fn read<const N: usize>(bytes: &[u8], at: u32) -> [u8; N] {
    let at = at as usize;
    bytes.get(at..).and_then(|bytes| bytes.first_chunk()).copied().unwrap_or([0; N])
}

fn read_u16(bytes: &[u8], at: u32) -> u16 {
    u16::from_ne_bytes(read(bytes, at))
}

fn read_u32(bytes: &[u8], at: u32) -> u32 {
    u32::from_ne_bytes(read(bytes, at))
}

fn read_u64(bytes: &[u8], at: u32) -> u64 {
    u64::from_ne_bytes(read(bytes, at))
}
