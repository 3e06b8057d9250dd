//! Pages that are in memory for few bytes: whose blocks keep them, by the addresses that malloc gave.
//!
//! A page is *kept* if blocks have at most a quarter of it. Its bytes are divided among their call stacks by what each has there. Blocks longer than a page
//! keep none: they need their last page, however little of it.
//!
//! A page that holds a block was written, at least by malloc, so it is in memory, and nothing need be asked of the kernel.

use super::space::Space;
use freehold_trace::{Kept, Namer, ObjectId, ProcessId, StackId};
use std::collections::BTreeMap;

const PAGE: u64 = 4096;
/// Most bytes of a page that is kept for them.
const FEW: u64 = PAGE / 4;

/// A block that lives.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Where.
    pub address: u64,
    /// Bytes asked for, at most as many as fit.
    pub size: u32,
    /// Who asked.
    pub stack: StackId,
}

/// The blocks of which is known who made them.
pub fn blocks(namer: &Namer, space: &Space, process: ProcessId) -> Vec<Block> {
    let mut blocks = Vec::new();
    namer.each_live(process, &mut |address, request, object| {
        let size = u32::try_from(request.size).unwrap_or(u32::MAX);
        blocks.push(Block { address, size, stack: maker(Some(space), object) });
    });
    blocks
}

/// Who made an object, where that is known.
pub fn maker(space: Option<&Space>, object: Option<ObjectId>) -> StackId {
    object.zip(space).map_or(StackId::NONE, |(object, space)| space.maker(object))
}

/// What stacks keep, the most first. Takes `n log n` steps for `n` blocks.
pub fn kept(mut blocks: Vec<Block>) -> Vec<Kept> {
    blocks.sort_unstable_by_key(|block| block.address);
    let mut pages = Pages::default();
    for block in blocks {
        let end = block.address + u64::from(block.size).max(1);
        let (first, last) = (block.address / PAGE, (end - 1) / PAGE);
        if end - block.address > PAGE {
            pages.have(first, PAGE, block.stack);
            pages.have(last, PAGE, block.stack);
        } else if first == last {
            pages.have(first, end - block.address, block.stack);
        } else {
            pages.have(first, last * PAGE - block.address, block.stack);
            pages.have(last, end - last * PAGE, block.stack);
        }
    }
    pages.close();
    let mut kept: Vec<Kept> = pages.by_stack.into_values().collect();
    kept.sort_by_key(|kept| (std::cmp::Reverse(kept.pages), kept.stack));
    kept
}

/// Pages in the order of their addresses, one open.
#[derive(Default)]
struct Pages {
    number: u64,
    used: u64,
    here: Vec<(StackId, u64)>,
    by_stack: BTreeMap<StackId, Kept>,
}

impl Pages {
    /// A block has so many bytes of the page.
    fn have(&mut self, number: u64, bytes: u64, stack: StackId) {
        if number != self.number {
            self.close();
            self.number = number;
        }
        self.used += bytes;
        self.here.push((stack, bytes));
    }

    fn close(&mut self) {
        for (stack, bytes) in self.here.drain(..).filter(|_| self.used <= FEW) {
            let kept = self.by_stack.entry(stack).or_insert(Kept { stack, ..Kept::default() });
            kept.live += bytes;
            kept.pages += PAGE * bytes / self.used;
        }
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_divided_among_the_few_blocks_that_keep_them() {
        let block = |address, size, stack| Block { address, size, stack: StackId(stack) };
        let blocks = vec![
            block(0x2010, 100, 1),
            block(0x1010, 100, 1),
            block(0x2100, 300, 2),
            block(0x3000, 1025, 3), // more than a quarter
            block(0x4f00, 300, 4),  // on two pages
            block(0x7000, 9000, 5), // needs all of its pages
        ];
        let told: Vec<(u32, u64, u64)> =
            kept(blocks).iter().map(|kept| (kept.stack.0, kept.live, kept.pages)).collect();
        assert_eq!(told, [(4, 300, 8192), (1, 200, 5120), (2, 300, 3072)]);
    }
}
