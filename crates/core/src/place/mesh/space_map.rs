//! The heap space map: one contiguous address range over all heaps.
//!
//! ```text
//!   0x6000_0000            + len 0        + len 0 + len 1                       < 2^32
//!   | H0                   | H1           | H2                ...            |
//! ```
//!
//! The range lies above the layer at [`V2P_BASE`], by which a node reaches another's memory. Where all
//! heaps are equally long and that a power of two, the heap of an address is a shift; else a
//! binary search over the ends. Addresses have 32 bits: a map that would go beyond is refused when it is
//! made, so that no sum below can wrap. Koutras et al. 2016, section II and figure 2.

use super::{HeapId, MAX_HEAPS};
use core::fmt;

/// Where the map begins.
pub const HSM_BASE: u32 = 0x6000_0000;
/// Where the layer below it begins: a node's own view of all shared memory.
pub const V2P_BASE: u32 = 0x4020_0000;

const _: () = assert!(HSM_BASE > V2P_BASE, "the map lies above the layer that it is made of");

/// Bytes between the base and the end of 32-bit addresses.
const ROOM: u64 = (1 << 32) - HSM_BASE as u64;

/// A map that cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadMap {
    /// No heap, or more than can be numbered.
    Heaps(usize),
    /// A heap without a byte.
    Empty(HeapId),
    /// All heaps together end beyond the last 32-bit address.
    Beyond {
        /// Their bytes together.
        bytes: u64,
    },
    /// The memory for the ends is too short.
    Ends,
}

impl fmt::Display for BadMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadMap::Heaps(count) => write!(f, "1 to {MAX_HEAPS} heaps can be mapped, not {count}"),
            BadMap::Empty(heap) => write!(f, "{heap} has no byte to map"),
            BadMap::Beyond { bytes } => write!(
                f,
                "{bytes} bytes of heaps from {HSM_BASE:#x} on end beyond 32-bit addresses: \
                 {ROOM} bytes are possible"
            ),
            BadMap::Ends => f.write_str("the map needs a word for every heap"),
        }
    }
}

impl core::error::Error for BadMap {}

/// An address that no heap of the map has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreign(pub u32);

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no heap has the address {:#x}", self.0)
    }
}

impl core::error::Error for Foreign {}

/// The map. Two words, or a table of ends in memory that the caller brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpaceMap<T> {
    heaps: usize,
    kind: Kind<T>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind<T> {
    /// All heaps have 2^log2 bytes.
    Equal { log2: u32 },
    /// Bytes from the base to the end of each heap.
    Ends(T),
}

impl<T: AsRef<[u32]> + AsMut<[u32]>> SpaceMap<T> {
    /// The map of heaps of these lengths; it keeps their ends in `ends`, one word a heap, and needs none
    /// where all are the same power of two. O(heaps).
    ///
    /// # Errors
    /// See [`BadMap`].
    pub fn new(lengths: &[u64], mut ends: T) -> Result<SpaceMap<T>, BadMap> {
        let heaps = lengths.len();
        let Some(&first) = lengths.first().filter(|_| heaps <= MAX_HEAPS) else {
            return Err(BadMap::Heaps(heaps));
        };
        if let Some(empty) = lengths.iter().position(|&len| len == 0).and_then(HeapId::new) {
            return Err(BadMap::Empty(empty));
        }
        let bytes = lengths.iter().fold(0_u64, |sum, &len| sum.saturating_add(len));
        if bytes > ROOM {
            return Err(BadMap::Beyond { bytes });
        }
        if first.is_power_of_two() && lengths.iter().all(|&len| len == first) {
            return Ok(SpaceMap { heaps, kind: Kind::Equal { log2: first.trailing_zeros() } });
        }
        let mut end = 0;
        for (slot, &len) in
            ends.as_mut().get_mut(..heaps).ok_or(BadMap::Ends)?.iter_mut().zip(lengths)
        {
            // At most ROOM, which has 32 bits.
            end += len as u32;
            *slot = end;
        }
        Ok(SpaceMap { heaps, kind: Kind::Ends(ends) })
    }

    /// How many heaps.
    pub fn heaps(&self) -> usize {
        self.heaps
    }

    /// The heap of an address, and how far into it. O(1) where heaps are equal, else O(log heaps).
    ///
    /// # Errors
    /// When it lies in no heap.
    pub fn find(&self, address: u32) -> Result<(HeapId, u32), Foreign> {
        let from_base = address.checked_sub(HSM_BASE).ok_or(Foreign(address))?;
        let (number, offset) = match &self.kind {
            Kind::Equal { log2 } => (from_base >> log2, from_base & ((1 << log2) - 1)),
            Kind::Ends(ends) => {
                let ends = ends.as_ref().get(..self.heaps).unwrap_or_default();
                let number = ends.partition_point(|&end| end <= from_base);
                (number as u32, from_base - start(ends, number))
            }
        };
        let heap = HeapId::new(number as usize).filter(|heap| heap.index() < self.heaps);
        heap.map(|heap| (heap, offset)).ok_or(Foreign(address))
    }

    /// The address `offset` bytes into `heap`; `None` outside. O(1).
    pub fn address(&self, heap: HeapId, offset: u32) -> Option<u32> {
        if heap.index() >= self.heaps {
            return None;
        }
        let (start, len) = match &self.kind {
            Kind::Equal { log2 } => ((heap.index() as u32) << log2, 1 << log2),
            Kind::Ends(ends) => {
                let start = start(ends.as_ref(), heap.index());
                (start, ends.as_ref().get(heap.index())? - start)
            }
        };
        (offset < len).then(|| HSM_BASE + start + offset)
    }
}

fn start(ends: &[u32], number: usize) -> u32 {
    number.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn heap(number: usize) -> HeapId {
        HeapId::new(number).unwrap()
    }

    #[test]
    fn equal_heaps_are_found_by_a_shift() {
        let map = SpaceMap::new(&[2048; 64], []).unwrap();
        assert_eq!(map.find(0x6000_0000), Ok((heap(0), 0)));
        assert_eq!(map.find(0x6000_0000 + 5 * 2048 + 7), Ok((heap(5), 7)));
        assert_eq!(map.address(heap(63), 2047), Some(0x6000_0000 + 64 * 2048 - 1));
        assert_eq!(map.find(0x6000_0000 + 64 * 2048), Err(Foreign(0x6002_0000)));
        assert_eq!(map.find(V2P_BASE), Err(Foreign(V2P_BASE)));
        assert_eq!((map.address(heap(64), 0), map.address(heap(0), 2048)), (None, None));
    }

    #[test]
    fn unequal_heaps_are_found_among_their_ends() {
        let map = SpaceMap::new(&[100, 1, 4096], [0; 3]).unwrap();
        let at = |offset| map.find(HSM_BASE + offset);
        assert_eq!([at(0), at(99)], [Ok((heap(0), 0)), Ok((heap(0), 99))]);
        assert_eq!([at(100), at(101)], [Ok((heap(1), 0)), Ok((heap(2), 0))]);
        assert_eq!(at(100 + 1 + 4096), Err(Foreign(HSM_BASE + 4197)));
    }

    #[test]
    fn every_address_comes_back_on_both_kinds_of_map() {
        let unequal = SpaceMap::new(&[48, 16, 1000, 3, 512], [0; 5]).unwrap();
        for map in [unequal, SpaceMap::new(&[512; 5], [0; 5]).unwrap()] {
            let all = (0..map.heaps()).flat_map(|h| (0..1000).map(move |o| (heap(h), o)));
            let mapped: Vec<_> =
                all.filter_map(|(h, o)| Some((map.address(h, o)?, h, o))).collect();
            assert!(mapped.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0), "contiguous");
            assert!(mapped.iter().all(|&(address, h, o)| map.find(address) == Ok((h, o))));
        }
    }

    /// The sum of lengths, the base plus it, and the shift itself must not wrap at 32 bits.
    #[test]
    fn a_map_beyond_32_bits_is_refused() {
        let room = 0xa000_0000_u64;
        let new = |lengths: &[u64]| SpaceMap::new(lengths, [0; 2]);
        assert!(new(&[room - 1, 1]).is_ok());
        let beyond = |bytes| Err(BadMap::Beyond { bytes });
        assert_eq!(new(&[room, 1]), beyond(room + 1));
        assert_eq!(new(&[u64::MAX - 1, u64::MAX]), beyond(u64::MAX));
        assert_eq!(new(&[1 << 32, 1]), beyond((1 << 32) + 1));
        assert_eq!(new(&[1 << 20; 4096]), beyond(1 << 32));
        assert_eq!(new(&[1 << 60; 4096]), beyond(u64::MAX));
        assert_eq!(new(&[1 << 63]), beyond(1 << 63));
        let last = new(&[1 << 29; 5]).unwrap();
        assert_eq!(last.address(heap(4), (1 << 29) - 1), Some(u32::MAX));
        assert_eq!(last.find(u32::MAX), Ok((heap(4), (1 << 29) - 1)));
        let whole = new(&[1, room - 1]).unwrap();
        assert_eq!(whole.find(u32::MAX), Ok((heap(1), room as u32 - 2)));
    }

    #[test]
    fn maps_without_sense_are_refused() {
        assert_eq!(SpaceMap::new(&[], []), Err(BadMap::Heaps(0)));
        assert_eq!(SpaceMap::new(&[16; 4097], []), Err(BadMap::Heaps(4097)));
        assert_eq!(SpaceMap::new(&[7, 0], [0; 2]), Err(BadMap::Empty(heap(1))));
        assert_eq!(SpaceMap::new(&[7, 9], [0; 1]), Err(BadMap::Ends));
    }
}
