//! A policy of your own: the youngest free block that fits.

use freehold_blocks::align::Align;
use freehold_blocks::check::Broken;
use freehold_blocks::policy::{Inspect, Policy};
use freehold_blocks::probe::{Probe, Step};
use freehold_blocks::{Block, BlockHeap, Census, FreeIndex, Granules, Region, Tags, View};

/// A stack of free blocks, linked both ways through link 0 (down) and link 1 (up).
#[derive(Default)]
struct Stack {
    top: Option<Block>,
}

// SAFETY: only blocks inserted and not removed since are linked, and `find` gives one of them.
unsafe impl FreeIndex for Stack {
    fn insert<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        view.set_link(block, 0, self.top);
        view.set_link(block, 1, None);
        if let Some(old) = self.top.replace(block) {
            view.set_link(old, 1, Some(block));
        }
    }

    fn remove<P: Probe>(&mut self, view: &mut View<P>, block: Block, _: Granules) {
        let (down, up) = (view.link(block, 0), view.link(block, 1));
        match up {
            Some(up) => view.set_link(up, 0, down),
            None => self.top = down,
        }
        if let Some(down) = down {
            view.set_link(down, 1, up);
        }
    }

    fn find<P: Probe>(&mut self, view: &mut View<P>, need: Granules) -> Option<Block> {
        let mut at = self.top;
        while let Some(block) = at {
            view.step(Step::Inspect);
            if view.size(block) >= need {
                return at;
            }
            at = view.link(block, 0);
        }
        None
    }

    fn largest(&self, tags: &Tags) -> Granules {
        let mut view = tags.quiet();
        let mut largest = Granules::default();
        let mut at = self.top;
        while let Some(block) = at {
            largest = largest.max(view.size(block));
            at = view.link(block, 0);
        }
        largest
    }

    fn check(&self, tags: &Tags) -> Result<Census, Broken> {
        let mut census = Census::default();
        let mut at = self.top;
        while let Some(block) = at {
            census.add_indexed(tags, block)?; // a free block of this region, and no endless ring
            at = tags.quiet().link(block, 0);
        }
        Ok(census)
    }
}

// In the registry: "youngest-fit" => blocks::BlockHeap<Stack>, "the youngest block that fits";
fn main() {
    let mut memory = [0_u128; 64];
    let base = core::ptr::NonNull::from(&mut memory).cast::<u8>();
    // SAFETY: `memory` is touched through the region only, and outlives it.
    let region = unsafe { Region::new(base, 1024) }.unwrap();
    let mut heap = BlockHeap::<Stack>::new(region).unwrap();
    let payload = heap.alloc(100, Align::ONE, &mut ()).unwrap();
    assert_eq!(heap.totals().used(), 112);
    // SAFETY: just allocated, and never used again.
    unsafe { heap.free(payload, &mut ()) };
    assert_eq!(heap.check(), Ok(()));
}
