//! TLSF, three times: as specified for the studies, and as its two C libraries choose.
//!
//! ```text
//!   model         header  classed by         malloc cuts off          resized in place to
//!   tlsf           8 B    the whole block    the rounded length       the length asked for
//!   tlsf-2.4.6    16 B    the payload        the rounded length       the length asked for
//!   tlsf-3.1       8 B    the payload        the length asked for     the length asked for
//! ```
//!
//! Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator for real-time systems", ECRTS 2004. In
//! their library, version 2.4.6, a new block's length is rounded up to the width of its size class (32 to a doubling), so
//! that any block of a list fits any request of it, at a price of up to 1/32 inside each block; what `realloc` leaves in
//! place is cut to the byte (to 16). Matthew Conte's library of the same name, version 3.1, rounds the
//! search alone: good fit. On a 64-bit machine their headers take 16 B and 8 B of a used block.
//!
//! **How true they are.** Both libraries were compiled (`cc -O2`; 3.1 with payloads at multiples of 16 as malloc needs
//! them, its own being 8). Where nothing is resized the models take the libraries' blocks, address by address (a test
//! holds a made-up program against them). Resizing differs in the order of two lists: where a block keeps its
//! length or gives back 16 B, the libraries put its free neighbour in anew or leave it. What that comes to on
//! recorded programs is in `bench/NOTES.md`, "Fragmentation". `tlsf` is what the specification asks for (8 B, rounded up, 16 B granules),
//! which neither library is; it stands between them.

mod lists;

use freehold_blocks::align::Align;
use freehold_blocks::check::Broken;
use freehold_blocks::policy::{BlockInfo, Distance, Inspect, Policy, Totals};
use freehold_blocks::probe::Probe;
use freehold_blocks::{BlockHeap, FreeIndex, Granules, Region, SizeLists, TAG};
use lists::ByPayload;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// log2 of the size classes of a doubling.
const SECOND_LEVEL_LOG2: u32 = 5;

/// The specification's: 8 B of header, requests rounded up.
pub type Tlsf = Version<SizeLists, Specified>;

/// Version 2.4.6 on a 64-bit machine.
pub type Tlsf246 = Version<ByPayload<16>, Masmano>;

/// Version 3.1 on a 64-bit machine, with payloads at multiples of 16.
pub type Tlsf31 = Version<ByPayload<8>, Conte>;

/// What a version asks the blocks below for.
pub trait Asks {
    /// Bytes of header beyond the tag's 8.
    const MORE_HEADER: u64;

    /// In place of a new block of `size` bytes.
    fn anew(size: u64) -> u64;
}

/// See [`Tlsf`].
#[derive(Debug)]
pub struct Specified;

/// See [`Tlsf246`].
#[derive(Debug)]
pub struct Masmano;

/// See [`Tlsf31`].
#[derive(Debug)]
pub struct Conte;

/// `length` rounded up to the next that a size class begins with.
fn to_class(length: u64) -> u64 {
    length.next_multiple_of(1 << length.max(1).ilog2().saturating_sub(SECOND_LEVEL_LOG2))
}

impl Asks for Specified {
    const MORE_HEADER: u64 = 0;

    fn anew(size: u64) -> u64 {
        let Some(need) = Granules::for_request(size) else { return size };
        // Never less than asked for: 16 B and less is what granules round to anyway.
        size.max(to_class(need.bytes()) - TAG)
    }
}

impl Asks for Masmano {
    const MORE_HEADER: u64 = 8;

    fn anew(size: u64) -> u64 {
        let Some(payload) = size.max(16).checked_next_multiple_of(16) else { return size };
        to_class(payload.min(1 << 62)).max(size)
    }
}

impl Asks for Conte {
    const MORE_HEADER: u64 = 0;

    fn anew(size: u64) -> u64 {
        size
    }
}

/// Two-level segregated fit with the lists `I`, asked as `A` asks; see the module.
#[derive(Debug)]
pub struct Version<I, A> {
    heap: BlockHeap<I>,
    asks: PhantomData<A>,
}

impl<I: FreeIndex, A: Asks> Policy for Version<I, A> {
    fn new(region: Region) -> Option<Self> {
        Some(Version { heap: BlockHeap::new(region)?, asks: PhantomData })
    }

    fn alloc<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<NonNull<u8>> {
        self.heap.alloc(A::anew(size).checked_add(A::MORE_HEADER)?, align, probe)
    }

    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, probe: &mut P) {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.heap.free(payload, probe) }
    }

    unsafe fn resize_in_place<P: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        probe: &mut P,
    ) -> bool {
        let Some(size) = size.checked_add(A::MORE_HEADER) else { return false };
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.heap.resize_in_place(payload, size, probe) }
    }

    unsafe fn usable(&self, payload: NonNull<u8>) -> u64 {
        // SAFETY: the caller's promise is the one asked for here.
        let usable = unsafe { self.heap.usable(payload) };
        usable - A::MORE_HEADER
    }

    fn foresee_alloc(&self, size: u64, distance: Distance) {
        self.heap.foresee_alloc(A::anew(size).saturating_add(A::MORE_HEADER), distance);
    }

    unsafe fn foresee_free(&self, payload: NonNull<u8>, distance: Distance) {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.heap.foresee_free(payload, distance) }
    }
}

impl<I: FreeIndex, A> Inspect for Version<I, A> {
    fn totals(&self) -> Totals {
        self.heap.totals()
    }

    fn largest_free(&self) -> u64 {
        self.heap.largest_free()
    }

    fn largest_free_inside(&self) -> Option<u64> {
        self.heap.largest_free_inside()
    }

    fn for_each_block(&self, visit: impl FnMut(BlockInfo)) {
        self.heap.for_each_block(visit);
    }

    fn check(&self) -> Result<(), Broken> {
        self.heap.check()
    }
}

#[cfg(test)]
#[path = "tlsf/tests.rs"]
mod tests;
