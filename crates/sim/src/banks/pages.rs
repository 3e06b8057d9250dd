//! Who owns which frame: objects with their blocks, and the way back from a frame to its owner.

use freehold_core::frames::migrate::Owner;
use freehold_core::frames::{Frame, Order};

/// A block as 32 bits: the frame, and its order above [`ORDER_SHIFT`].
type Packed = u32;

/// Frames below it: 1 TiB.
const ORDER_SHIFT: u32 = 28;

/// What migration needs: it moves a block, and its owner learns where it is now.
#[derive(Debug, Default)]
pub struct Pages {
    objects: Vec<Vec<Packed>>,
    /// For the first frame of every block: object and place in it, 32 bits each.
    owners: Vec<u64>,
}

/// (What was packed is an order.)
fn unpack(block: Packed) -> (Frame, Order) {
    let order = Order::new((block >> ORDER_SHIFT) as u8).unwrap_or(Order::MAX);
    (Frame(block & ((1 << ORDER_SHIFT) - 1)), order)
}

impl Pages {
    /// Nobody owns any of `frames` frames.
    pub fn new(frames: u32) -> Pages {
        Pages { objects: Vec::new(), owners: vec![0; frames as usize] }
    }

    /// Gives a block to an object.
    pub fn add(&mut self, object: usize, frame: Frame, order: Order) {
        if object >= self.objects.len() {
            self.objects.resize_with(object + 1, Vec::new);
        }
        let blocks = &mut self.objects[object];
        self.owners[frame.0 as usize] = (object as u64) << 32 | blocks.len() as u64;
        blocks.push(frame.0 | u32::from(order.log2()) << ORDER_SHIFT);
    }

    /// Takes `count` blocks from the `from`th on away from an object (fewer where it has fewer), and gives each to
    /// `freed`. The last ones take their places.
    pub fn shrink(
        &mut self,
        object: usize,
        from: u32,
        count: u32,
        mut freed: impl FnMut(Frame, Order),
    ) {
        let Some(blocks) = self.objects.get_mut(object) else { return };
        for nth in 0..count as usize {
            if blocks.is_empty() {
                return;
            }
            let at = (from as usize + nth) % blocks.len();
            let (frame, order) = unpack(blocks.swap_remove(at));
            if let Some(&moved) = blocks.get(at) {
                self.owners[unpack(moved).0.0 as usize] = (object as u64) << 32 | at as u64;
            }
            freed(frame, order);
        }
    }

    /// Takes all blocks of an object, in the order in which it got them.
    pub fn end(&mut self, object: usize, mut freed: impl FnMut(Frame, Order)) {
        let Some(blocks) = self.objects.get_mut(object) else { return };
        for &block in blocks.iter() {
            let (frame, order) = unpack(block);
            freed(frame, order);
        }
        // The next object of this number is seldom as large.
        *blocks = Vec::new();
    }
}

impl Owner for Pages {
    fn migrate(&mut self, from: Frame, to: Frame, order: Order) -> bool {
        let owner = self.owners[from.0 as usize];
        let (object, at) = ((owner >> 32) as usize, owner as u32 as usize);
        let packed = |frame: Frame| frame.0 | u32::from(order.log2()) << ORDER_SHIFT;
        let Some(block) = self.objects.get_mut(object).and_then(|blocks| blocks.get_mut(at)) else {
            return false;
        };
        if *block != packed(from) {
            return false;
        }
        *block = packed(to);
        self.owners[to.0 as usize] = owner;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_moved_is_freed_where_it_is() {
        let order = |log2: u32| Order::new(log2 as u8).expect("an order");
        let mut pages = Pages::new(100);
        for frame in 0..6 {
            pages.add(3, Frame(frame * 8), order(frame % 3));
        }
        assert!(pages.migrate(Frame(16), Frame(64), order(2)));
        assert!(!pages.migrate(Frame(16), Frame(80), order(2)), "it is not there any more");
        let mut freed = Vec::new();
        pages.shrink(3, 1, 2, |frame, order| freed.push((frame.0, order.log2())));
        assert_eq!(freed, [(8, 1), (64, 2)], "the last took the place of the first");
        freed.clear();
        pages.end(3, |frame, order| freed.push((frame.0, order.log2())));
        assert_eq!(freed, [(0, 0), (40, 2), (32, 1), (24, 0)]);
    }
}
