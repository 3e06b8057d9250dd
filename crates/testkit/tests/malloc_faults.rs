//! The malloc on a machine whose nth call fails, for every n: requests may be refused, but blocks
//! keep their contents, and afterwards every structure is whole.

use freehold_core::malloc::{Cache, NodeHeap};
use freehold_testkit::failing_machine::FailingMachine;

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % end
    }
}

/// A block, its length, and the byte it is filled with.
type Held = (*mut u8, usize, u8);

fn fill((block, len, byte): Held) -> Held {
    // SAFETY: the block is ours and has that many bytes.
    unsafe { block.write_bytes(byte, len) };
    (block, len, byte)
}

fn assert_filled((block, len, byte): Held, what: &str) {
    // SAFETY: as above, and `fill` has written it.
    let bytes = unsafe { std::slice::from_raw_parts(block, len) };
    assert!(bytes.iter().all(|&found| found == byte), "{what}: {len} bytes of {byte}");
}

fn size(random: &mut Random) -> usize {
    match random.below(20) {
        0..14 => random.below(600),
        14..18 => random.below(20_000),
        18 => random.below(100_000),
        _ => random.below(600_000),
    }
}

/// Long blocks that cannot all grow where they lie: pages move, or, where the machine refuses, blocks are copied or stay.
fn grow_long(heap: &NodeHeap<FailingMachine>, cache: &Cache, what: &str) -> Vec<Held> {
    const LENS: [usize; 2] = [1_500_000, 2_700_000];
    let allocate = |byte| {
        let block = heap.allocate(cache, LENS[0]);
        (!block.is_null()).then(|| fill((block, LENS[0], byte)))
    };
    let mut held: Vec<Held> = (1..4).filter_map(allocate).collect();
    for one in &mut held {
        let &mut (block, len, byte) = one;
        // SAFETY: the block is ours.
        let moved = unsafe { heap.reallocate(cache, block, LENS[1]) }.expect("a block");
        if !moved.is_null() {
            assert_filled((moved, len, byte), what);
            *one = fill((moved, LENS[1], byte + 8));
        }
    }
    held
}

/// Calls at random, purging now and then; answers how many calls of the machine it took.
fn program(fails_at: Option<usize>, page: usize, operations: usize) -> usize {
    let what = &format!("call {fails_at:?} failing, pages of {page}");
    let heap = NodeHeap::new(FailingMachine::new(fails_at).with_pages(page));
    heap.set_key(0x0123_4567_89AB_CDEF);
    let mut random = Random(7);
    let mut held: Vec<Held> = Vec::new();
    let mut cache: Option<&Cache> = None;
    for step in 0..operations {
        let Some(cache) = cache.or_else(|| {
            cache = heap.attach();
            cache
        }) else {
            continue;
        };
        if step % 150 == 149 {
            heap.shrink_reservations();
        }
        match random.below(10) {
            0..5 => {
                let len = size(&mut random).max(1);
                let block = match random.below(3) {
                    0 => heap.allocate_zeroed(cache, len),
                    1 => heap.allocate_aligned(cache, len, 1 << random.below(13)),
                    _ => heap.allocate(cache, len),
                };
                if !block.is_null() {
                    held.push(fill((block, len, step as u8)));
                }
            }
            5..8 if !held.is_empty() => {
                let one = held.swap_remove(random.below(held.len()));
                assert_filled(one, what);
                // SAFETY: the block is ours, and forgotten.
                assert_eq!(unsafe { heap.free(cache, one.0) }, Ok(()), "{what}");
            }
            8 if !held.is_empty() => {
                let at = random.below(held.len());
                let (block, len, byte) = held[at];
                let wish = size(&mut random).max(1);
                // SAFETY: the block is ours.
                let moved = unsafe { heap.reallocate(cache, block, wish) }.unwrap();
                if moved.is_null() {
                    assert_filled((block, len, byte), what);
                } else {
                    assert_filled((moved, len.min(wish), byte), what);
                    held[at] = fill((moved, wish, byte));
                }
            }
            _ if random.below(5) == 0 => {
                heap.purge(random.below(2) == 0);
                assert_eq!(heap.check(), Ok(()), "{what}");
            }
            _ => {}
        }
    }
    if let Some(cache) = cache {
        held.extend(grow_long(&heap, cache, what));
        for one in held {
            assert_filled(one, what);
            // SAFETY: the block is ours, and forgotten.
            assert_eq!(unsafe { heap.free(cache, one.0) }, Ok(()), "{what}");
        }
        heap.detach(cache);
    }
    assert_eq!(heap.check(), Ok(()), "{what}");
    // What the cache has in stacks and depots stays with it, for who comes next, until somebody wants all.
    heap.purge(true);
    assert_eq!(heap.check(), Ok(()), "{what}");
    // What stays is one unit of caches.
    assert!(heap.usage().used.0 <= 1, "{what}: {:?}", heap.usage());
    assert!(fails_at.is_some() || heap.machine().relocated() > 0, "no long block moved");
    heap.machine().calls()
}

#[test]
fn no_failing_call_breaks_the_heap() {
    const OPERATIONS: usize = 400;
    for page in [4 << 10, 16 << 10, 64 << 10] {
        let calls = program(None, page, OPERATIONS);
        assert!(calls > 10, "the program must ask the machine for something: {calls}");
        for fails_at in 0..calls {
            program(Some(fails_at), page, OPERATIONS);
        }
    }
}

#[test]
fn a_long_program_leaves_nothing_behind() {
    program(None, 4 << 10, 1500);
}

/// However short address space is: what a reservation holds can be had of it, whole, and one of 4 MiB serves a program.
#[test]
fn every_reservation_gives_what_it_should() {
    const BANK: usize = 2 << 20;
    for (longest, banks) in [(4 << 20, 1), (8 << 20, 3), (16 << 20, 7), (64 << 20, 31)] {
        let heap = NodeHeap::new(FailingMachine::with_reservations(longest));
        heap.set_key(1);
        let cache = heap.attach().expect("a cache's page");
        let small = heap.allocate(cache, 1000);
        assert!(!small.is_null(), "a small block of {longest}");
        // What lies in the first bank leaves the others.
        let rest = (banks - 1) * BANK;
        assert!(rest == 0 || !heap.allocate(cache, rest).is_null(), "{rest} bytes of {longest}");
        assert!(heap.allocate(cache, longest).is_null(), "more than a reservation");
        // SAFETY: the heap's own, freed once.
        assert_eq!(unsafe { heap.free(cache, small) }, Ok(()));
        assert_eq!(heap.check(), Ok(()));
    }
}
