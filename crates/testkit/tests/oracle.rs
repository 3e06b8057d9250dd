//! The oracle itself: it must catch every kind of lie, and show it in few calls.

use freehold_blocks::align::Align;
use freehold_blocks::check::Broken;
use freehold_blocks::policy::{BlockInfo, Inspect, Policy, Totals};
use freehold_blocks::probe::Probe;
use freehold_blocks::{FirstFit, Region};
use freehold_testkit::{Fault, ShadowHeap, SimRegion, hunt, run_program};
use std::ptr::NonNull;

const TWICE: u8 = 0;
const TOO_LONG: u8 = 1;
const CROOKED: u8 = 2;
const NOT_GROWN: u8 = 3;
const LEAK: u8 = 4;
const SCRIBBLE: u8 = 5;
const MISCOUNT: u8 = 6;
const OUTSIDE: u8 = 7;

/// First fit with one fault.
struct Liar<const LIE: u8> {
    honest: FirstFit,
    last: Option<NonNull<u8>>,
}

impl<const LIE: u8> Policy for Liar<LIE> {
    fn new(region: Region) -> Option<Self> {
        Some(Liar { honest: FirstFit::new(region)?, last: None })
    }

    fn alloc<P: Probe>(&mut self, size: u64, align: Align, probe: &mut P) -> Option<NonNull<u8>> {
        match LIE {
            TWICE if size < 8 && self.last.is_some() => {
                return self.last;
            }
            SCRIBBLE => {
                if let Some(last) = self.last {
                    // SAFETY: a byte of the region; whose, is the point.
                    unsafe { last.add(3).write(0xA5) };
                }
            }
            OUTSIDE => probe.step(freehold_blocks::probe::Step::Touch { at: 1 << 40 }),
            _ => {}
        }
        let align = if LIE == CROOKED { Align::ONE } else { align };
        self.last = self.honest.alloc(size, align, probe);
        self.last
    }

    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, probe: &mut P) {
        self.last = None;
        if LIE != LEAK {
            // SAFETY: the caller's promise.
            unsafe { self.honest.free(payload, probe) }
        }
    }

    unsafe fn resize_in_place<P: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        probe: &mut P,
    ) -> bool {
        // SAFETY: the caller's promise.
        LIE == NOT_GROWN || unsafe { self.honest.resize_in_place(payload, size, probe) }
    }

    unsafe fn usable(&self, payload: NonNull<u8>) -> u64 {
        // SAFETY: the caller's promise.
        let usable = unsafe { self.honest.usable(payload) };
        if LIE == TOO_LONG { usable + 8 } else { usable }
    }
}

impl<const LIE: u8> Inspect for Liar<LIE> {
    fn totals(&self) -> Totals {
        let mut totals = self.honest.totals();
        if LIE == MISCOUNT && totals.used_blocks > 1 {
            totals.free += 16;
        }
        totals
    }

    fn largest_free(&self) -> u64 {
        self.honest.largest_free()
    }

    fn for_each_block(&self, visit: impl FnMut(BlockInfo)) {
        self.honest.for_each_block(visit);
    }

    fn check(&self) -> Result<(), Broken> {
        self.honest.check()
    }
}

/// The lie is found, told as `saying`, and shown in at most `calls` calls.
fn assert_caught<const LIE: u8>(saying: &str, calls: usize) {
    let found = hunt(64, |program| run_program::<Liar<LIE>>(program, 1).map(drop));
    let failure = found.expect_err("the oracle believes a liar");
    assert!(failure.reason.contains(saying), "{failure:?}");
    assert!(failure.program.ops.len() <= calls, "not shrunk: {failure:?}");
    assert!(format!("{failure:?}").contains("let program = Program { region: "));
}

#[test]
fn memory_given_out_twice() {
    assert_caught::<TWICE>("overlaps", 4);
}

#[test]
fn more_promised_than_there_is() {
    assert_caught::<TOO_LONG>("", 2);
}

#[test]
fn a_payload_out_of_line() {
    assert_caught::<CROOKED>("is not aligned", 1);
}

#[test]
fn a_resize_that_did_nothing() {
    assert_caught::<NOT_GROWN>("usable after a resize", 2);
}

#[test]
fn a_block_never_taken_back() {
    assert_caught::<LEAK>("used blocks", 2);
}

#[test]
fn a_byte_of_somebody_else() {
    assert_caught::<SCRIBBLE>("overwritten", 2);
}

#[test]
fn a_total_that_drifts() {
    assert_caught::<MISCOUNT>("free bytes", 2);
}

#[test]
fn a_touch_outside_of_the_region() {
    assert_caught::<OUTSIDE>("outside of the region", 1);
}

/// Where in the region a word is damaged, what it becomes, and the invariant that then is broken.
fn damage(at: usize, word: u64, saying: &str) {
    let mut memory = SimRegion::new(512 + 16);
    // SAFETY: the first region is not used, only its address is.
    let base = unsafe { memory.region() }.base();
    let mut heap = ShadowHeap::<FirstFit>::new(memory).expect("long enough");
    for id in 0..4 {
        assert_eq!(heap.alloc(id, 56, Align::ONE), Ok(true));
    }
    heap.free(1).expect("it lives");
    assert_eq!(heap.picture(), "[used 64, free 64, used 64, used 64, free 256]");
    assert_eq!(heap.verify(), Ok(()));
    // SAFETY: eight aligned bytes of the region.
    unsafe { base.add(at).cast::<u64>().write(word) };
    match heap.verify() {
        Err(Fault::Broken(broken)) => assert_eq!(broken.what, saying, "{broken}"),
        other => panic!("{saying}: {other:?}"),
    }
}

#[test]
fn damage_to_any_tag_is_found() {
    damage(8, 64 | 4, "bits 2 and 3 of a tag are clear");
    damage(8, 16, "a block is at least 32 B long");
    damage(8, 1 << 20, "a block ends inside its region");
    damage(8, 64 | 2, "PREV_FREE tells of the block before");
    damage(8, 64 | 1, "a footer repeats the size");
    damage(72, 64, "PREV_FREE tells of the block before");
    damage(72 + 56, 48, "a footer repeats the size");
    damage(520, 16 | 2, "the sentinel has no length");
    damage(520, 2 | 1, "the sentinel is never free");
    damage(520, 0, "PREV_FREE tells of the block before");
    damage(136, 128 | 2, "used blocks are counted");
}

#[test]
fn damage_to_any_link_is_found() {
    // The free 64 (granule 5) is alone in its tree; o0 is granule 1, o2 is 9, the free 256 is 17.
    let links = |left: u64, right: u64| right << 32 | left;
    damage(80, links(1, 0), "an index holds free blocks only");
    damage(80, links(0, 9), "an index holds free blocks only");
    damage(80, links(17, 0), "a child links back to what it hangs under");
    damage(80, links(0, 33), "an index holds blocks of its region");
    damage(80, links(u32::MAX.into(), 0), "an index holds blocks of its region");
    damage(80, links(5, 0), "a child links back to what it hangs under");
    let up_max = |up: u64, max: u64| max << 32 | up;
    damage(88, up_max(17, 4), "nothing is above the root");
    damage(88, up_max(0, 3), "a subtree knows its longest block");
    damage(88, up_max(0, 5), "a subtree knows its longest block");
}
