//! A heap that gave its unused addresses back: whatever comes to lie there, its blocks are told from others.

use freehold_core::machine::Machine;
use freehold_core::malloc::units::BANK;
use freehold_core::malloc::{Cache, Misuse, NodeHeap};
use freehold_os::Linux;
use std::cell::{Cell, RefCell};
use std::ops::Range;

/// Linux, but what was given back is reserved again first, the shortest stretch before the others, or the longest.
#[derive(Default)]
struct Filling {
    longest: bool,
    reserved: RefCell<Vec<Range<usize>>>,
    gone: RefCell<Vec<Range<usize>>>,
    again: Cell<usize>,
}

impl Filling {
    /// Takes `len` bytes of what was given back; where.
    fn take(&self, len: usize, align: usize) -> Option<usize> {
        let mut gone = self.gone.borrow_mut();
        let start = |all: &Range<usize>| all.start.next_multiple_of(align);
        gone.sort_by_key(ExactSizeIterator::len);
        if self.longest {
            gone.reverse();
        }
        let at = gone.iter().position(|all| start(all) + len <= all.end)?;
        let all = gone.swap_remove(at);
        let start = start(&all);
        gone.extend([all.start..start, start + len..all.end]);
        Some(start)
    }
}

// SAFETY: Linux does it; what is reserved again was mapped by nobody, or the mapping fails.
unsafe impl Machine for Filling {
    fn page_size(&self) -> usize {
        Linux.page_size()
    }
    fn reserve(&self, len: usize, align: usize) -> *mut u8 {
        let (none, protection) = (libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE, libc::PROT_NONE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | none;
        let at = match self.take(len, align) {
            Some(start) => {
                let wanted = start as *mut _;
                // SAFETY: nothing is replaced.
                let at = unsafe { libc::mmap(wanted, len, protection, flags, -1, 0) };
                assert_eq!(at, wanted, "somebody else was faster");
                self.again.set(self.again.get() + 1);
                at.cast()
            }
            None => Linux.reserve(len, align),
        };
        self.reserved.borrow_mut().push(at.addr()..at.addr() + len);
        at
    }
    unsafe fn release(&self, at: *mut u8, len: usize) {
        // SAFETY: the caller's.
        unsafe { Linux.release(at, len) };
        self.gone.borrow_mut().push(at.addr()..at.addr() + len);
    }
    unsafe fn commit(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's.
        unsafe { Linux.commit(at, len) }
    }
    unsafe fn purge(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's.
        unsafe { Linux.purge(at, len) }
    }
}

type Heap = NodeHeap<Filling>;

const SIZES: [usize; 5] = [16, 200, 5_000, 100_000, 3_000_000];

fn take(heap: &Heap, cache: &Cache) -> Vec<*mut u8> {
    let blocks = SIZES.iter().cycle().take(100).map(|&size| {
        let block = heap.allocate(cache, size);
        assert!(!block.is_null());
        assert!(heap.usable_size(block).is_ok_and(|usable| usable >= size), "{block:p}");
        // SAFETY: the block is ours and so long.
        unsafe { block.write_bytes(size as u8, size) };
        block
    });
    blocks.collect()
}

/// Frees by `cache`, and once more what is large: the memory of small blocks may be another's by then.
fn free(heap: &Heap, cache: &Cache, blocks: Vec<*mut u8>) {
    for (block, &size) in blocks.into_iter().zip(SIZES.iter().cycle()) {
        for at in [0, size - 1] {
            // SAFETY: the block is ours and so long.
            assert_eq!(unsafe { block.add(at).read() }, size as u8, "{block:p} + {at}");
        }
        // SAFETY: ours, and forgotten.
        assert_eq!(unsafe { heap.free(cache, block) }, Ok(()), "{block:p} of {size}");
        if size > 1_000_000 {
            // SAFETY: misuse is told.
            assert_eq!(unsafe { heap.free(cache, block) }, Err(Misuse::NotABlock), "{block:p}");
        }
    }
}

fn fill(longest: bool) {
    let heap = NodeHeap::new(Filling { longest, ..Filling::default() });
    heap.set_key(0x0123_4567_89AB_CDEF);
    let caches = [heap.attach().expect("memory"), heap.attach().expect("memory")];
    let mut blocks = take(&heap, caches[0]);
    // The free banks at the end go, too.
    let [first, second] = [60 << 20, 70 << 20].map(|size| heap.allocate(caches[0], size));
    for block in [first, second] {
        // SAFETY: ours, and forgotten.
        assert_eq!(unsafe { heap.free(caches[0], block) }, Ok(()));
    }
    heap.shrink_reservations();
    assert_eq!(heap.check(), Ok(()));
    // From now on small reservations, which fit where tags and states of a TiB were to lie.
    heap.reserve_at_most(64 << 20);
    for _ in 0..3 {
        blocks.extend(take(&heap, caches[0]));
        heap.shrink_reservations();
        assert_eq!(heap.check(), Ok(()));
    }
    let machine = heap.machine();
    let first = machine.reserved.borrow()[0].clone();
    let inside = blocks.iter().filter(|block| first.contains(&block.addr())).count();
    assert!(machine.again.get() > 2 && inside > 250, "{inside} of {}", blocks.len());
    for nobodys in machine.gone.borrow().iter().filter(|gone| !gone.is_empty()) {
        // SAFETY: misuse is told.
        let told = unsafe { heap.free(caches[0], nobodys.start as *mut u8) };
        assert_eq!(told, Err(Misuse::NotABlock));
    }
    let others = blocks.split_off(blocks.len() / 4 * 3);
    free(&heap, caches[0], blocks);
    free(&heap, caches[1], others);
    caches.iter().for_each(|cache| heap.detach(cache));
    heap.purge(true);
    heap.purge(true);
    assert_eq!(heap.check(), Ok(()));
    assert!(heap.usage().used.0 <= 1, "{:?}", heap.usage());
}

#[test]
fn blocks_between_the_parts_of_a_shrunk_region_are_blocks() {
    fill(false);
}

#[test]
fn blocks_where_a_shrunk_region_had_its_last_banks_are_blocks() {
    fill(true);
}

/// Each time costs a region, of which there are 64: half of them are enough.
#[test]
fn a_heap_that_shrinks_again_and_again_goes_on() {
    let heap = NodeHeap::new(Linux);
    heap.set_key(0x0123_4567_89AB_CDEF);
    let cache = heap.attach().expect("memory");
    for round in 0..200 {
        let block = heap.allocate(cache, 3 << 20);
        assert!(!block.is_null(), "round {round}");
        // SAFETY: ours, and forgotten.
        assert_eq!(unsafe { heap.free(cache, block) }, Ok(()));
        heap.shrink_reservations();
    }
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn of_a_heap_without_blocks_next_to_no_addresses_stay_and_all_go_at_the_end() {
    let heap = NodeHeap::new(Filling::default());
    heap.set_key(0x0123_4567_89AB_CDEF);
    let cache = heap.attach().expect("memory");
    let blocks = take(&heap, cache);
    free(&heap, cache, blocks);
    heap.detach(cache);
    heap.purge(true);
    heap.purge(true);
    let sum = |ranges: &RefCell<Vec<Range<usize>>>| -> usize {
        ranges.borrow().iter().map(ExactSizeIterator::len).sum()
    };
    for _ in 0..2 {
        heap.shrink_reservations();
        assert_eq!(heap.check(), Ok(()));
        let machine = heap.machine();
        let left = sum(&machine.reserved) - sum(&machine.gone);
        assert!((1..=4 * BANK).contains(&left), "{left} bytes");
    }
    // SAFETY: nobody uses it any more.
    unsafe { heap.release() };
    assert_eq!(sum(&heap.machine().reserved), sum(&heap.machine().gone));
}
