//! Blocks above the largest class: runs of whole units.
//!
//! A free run stays resident until the purger comes, so a program that allocates and frees a
//! large block over and over pays neither system calls nor page faults. Each bank records which of its units read
//! as zero; `calloc` need not write those.
//!
//! Invariant: the first unit of a large block is tagged `LARGE`, the others are tagged 0.

use super::misuse::Misuse;
use super::shared::Shared;
use super::slabs::vacancy::Vacancy;
use super::units::region::{DESCRIPTOR, Left, Region};
use super::units::{BANK, UnitCount};
use crate::machine::Machine;
use crate::size_class::MAX_CLASS_SIZE;
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::Ordering;

/// The descriptor of a large block's first unit.
#[repr(C)]
pub(super) struct Large {
    /// Not ours: a slab's late giver may still look at it. Never alive while the unit is large.
    _vacancy: Vacancy,
    /// What its user may use, in bytes: the request rounded up to pages; 0: it is free, and set aside.
    pub(super) size: Cell<usize>,
    pub(super) units: Cell<UnitCount>,
}

const _: () = assert!(size_of::<Large>() <= DESCRIPTOR);

impl Large {
    /// The descriptor of the unit of an address as that of a large block.
    pub(super) fn of(region: &Region, address: usize) -> &Large {
        // SAFETY: descriptors of committed units are readable, valid when zero, and live as long as the heap.
        unsafe { &*region.descriptor(address).cast::<Large>() }
    }
}

/// What the user of a large block may use, in bytes, if it has a user.
pub(super) fn size(region: &Region, address: usize) -> Result<usize, Misuse> {
    match Large::of(region, address).size.get() {
        0 => Err(Misuse::DoubleFree),
        size => Ok(size),
    }
}

/// How many units a large block has.
pub(super) fn units(region: &Region, address: usize) -> UnitCount {
    Large::of(region, address).units.get()
}

/// Makes a block of the caller's zero: long ones by giving their pages back, which takes less time, and no memory for
/// what the program does not touch.
pub(super) fn clear<M: Machine>(shared: &Shared<M>, block: *mut u8, size: usize) {
    let discard = size >= shared.decisions().large_discarded_from;
    // SAFETY: the block is the caller's, and large ones are as long as whole pages.
    unsafe {
        if !discard || !shared.machine.purge(block, rounded(shared, size)) {
            ptr::write_bytes(block, 0, size);
        }
    }
}

/// In a forked child: a block that was becoming shorter is no longer than its units. How many bytes of these are not the block's.
pub(super) fn mend(region: &Region, address: usize) -> usize {
    let (large, most) = (Large::of(region, address), units(region, address).bytes());
    large.size.set(large.size.get().min(most));
    most - large.size.get()
}

/// Frees a large block, of which the first so many bytes moved away, or a run that was set aside. The caller counts the bytes for
/// the purger.
#[inline(never)]
pub(super) fn free<M: Machine>(shared: &Shared<M>, region: &Region, address: usize, moved: usize) {
    let units = take_back(shared, region, address);
    // SAFETY: the region contains the block.
    unsafe { region.tag(address) }.store(0, Ordering::Relaxed);
    let clean = UnitCount::whole_in(moved);
    if clean.0 != 0 {
        shared.units.give_as(&shared.machine, address, clean, Left::Nothing);
    }
    if clean != units {
        shared.units.give(&shared.machine, address + clean.bytes(), units - clean);
    }
}

/// Takes a large block back from its user; its run stays one. How many units it has.
pub(super) fn take_back<M: Machine>(
    shared: &Shared<M>,
    region: &Region,
    address: usize,
) -> UnitCount {
    let (units, size) = (units(region, address), Large::of(region, address).size.take());
    shared.limits.change_tails(units.bytes() - size, 0);
    units
}

/// The bytes of a block of `size`: whole pages, and more than the largest class but where a limit counts.
pub(super) fn rounded<M: Machine>(shared: &Shared<M>, size: usize) -> usize {
    let least = match size {
        0..=MAX_CLASS_SIZE if !shared.limits.has_own() => MAX_CLASS_SIZE + 1,
        // Of no bytes there is no block.
        0 => 1,
        _ => size,
    };
    least.next_multiple_of(shared.machine.page_size())
}

/// Moves the pages of a block to another, which holds nothing yet. The kernel moves what was advised
/// alike in one call, so the whole banks and the rest may need one each. How many bytes are zero now where they were; 0: nothing
/// has changed.
pub(super) fn relocate<M: Machine>(
    shared: &Shared<M>,
    from: usize,
    to: *mut u8,
    len: usize,
) -> usize {
    let source: *mut u8 = ptr::with_exposed_provenance_mut(from);
    let (machine, whole) = (&shared.machine, len / BANK * BANK);
    // SAFETY: both blocks are the caller's, page-aligned, disjoint, and at least `len` long.
    let moved = unsafe {
        if machine.relocate(source, to, len) {
            len
        } else if whole == 0 || whole == len || !machine.relocate(source, to, whole) {
            return 0;
        } else {
            let (source, to) = (source.add(whole), to.add(whole));
            if machine.relocate(source, to, len - whole) {
                len
            } else {
                ptr::copy_nonoverlapping(source, to, len - whole);
                whole
            }
        }
    };
    shared.units.inherit(machine, from, to.addr(), len);
    moved
}
