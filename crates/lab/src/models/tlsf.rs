//! TLSF as first published: good fit that rounds the *request* up, not only the search.
//!
//! Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator for real-time systems",
//! ECRTS 2004, and its version 2.4: a request is rounded up to the width of its size class (32 to a
//! doubling), and the block that is cut off has the rounded length. So any block of a list fits any
//! request of it, at a price of up to 1/32 inside each block. Later implementations round only the
//! search and cut at the need: that is the core's `good-fit`, and all but the rounding of this one.
//!
//! Differences from version 2.4: the header has 8 B where 64-bit TLSF has 16 B, and blocks are cut
//! at 16 B; both in its favour.

use freehold_core::blocks::{GoodFit, Granules, Region, TAG};
use freehold_core::check::Broken;
use freehold_core::machine::Probe;
use freehold_core::policy::{BlockInfo, Distance, Inspect, Policy, Totals};
use freehold_core::units::Align;
use std::ptr::NonNull;

/// log2 of the size classes of a doubling.
const SECOND_LEVEL_LOG2: u32 = 5;

/// TLSF; see the module.
#[derive(Debug)]
pub struct Tlsf(GoodFit);

/// The least request whose block is as long as the size class that serves `size` begins.
fn rounded(size: u64) -> u64 {
    let Some(need) = Granules::for_request(size) else { return size };
    let width = 1_u64 << (need.bytes().ilog2().saturating_sub(SECOND_LEVEL_LOG2));
    // Never less than asked for: 16 B and less is what granules round to anyway.
    size.max(need.bytes().next_multiple_of(width) - TAG)
}

impl Policy for Tlsf {
    fn new(region: Region) -> Option<Self> {
        GoodFit::new(region).map(Tlsf)
    }

    fn alloc<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<NonNull<u8>> {
        self.0.alloc(rounded(size), align, probe)
    }

    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, probe: &mut P) {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.0.free(payload, probe) }
    }

    unsafe fn resize_in_place<P: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        probe: &mut P,
    ) -> bool {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.0.resize_in_place(payload, rounded(size), probe) }
    }

    unsafe fn usable(&self, payload: NonNull<u8>) -> u64 {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.0.usable(payload) }
    }

    fn foresee_alloc(&self, size: u64, distance: Distance) {
        self.0.foresee_alloc(rounded(size), distance);
    }

    unsafe fn foresee_free(&self, payload: NonNull<u8>, distance: Distance) {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.0.foresee_free(payload, distance) }
    }
}

impl Inspect for Tlsf {
    fn totals(&self) -> Totals {
        self.0.totals()
    }

    fn largest_free(&self) -> u64 {
        self.0.largest_free()
    }

    fn largest_free_inside(&self) -> Option<u64> {
        self.0.largest_free_inside()
    }

    fn for_each_block(&self, visit: impl FnMut(BlockInfo)) {
        self.0.for_each_block(visit);
    }

    fn check(&self) -> Result<(), Broken> {
        self.0.check()
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn a_request_is_rounded_up_by_less_than_a_32nd() {
        assert_eq!(rounded(1000), 1000, "1008 with its header; classes are 16 B apart there");
        assert_eq!(rounded(1017), 1048, "1040 with its header; classes are 32 B apart there");
        for size in (1..1 << 22).step_by(997) {
            let gross = rounded(size) + 8;
            assert!(gross >= size + 8 && gross < (size + 8 + 16) * 33 / 32 + 16, "{size}: {gross}");
        }
        assert_eq!(rounded(u64::MAX), u64::MAX, "refused later, not wrapped");
    }
}
