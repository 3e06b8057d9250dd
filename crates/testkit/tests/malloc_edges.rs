//! Programs that touch their large blocks at both ends only: the ends come to share pages, and for all others nothing changes.

use freehold_core::frames::{BANK, UNIT};
use freehold_core::heap::{Cache, NodeHeap};
use freehold_core::place::{NodeId, NodeSet};
use freehold_os::Linux;
use freehold_testkit::failing_machine::FailingMachine;
use freehold_testkit::nodes::FakeNodes;

const MIB: usize = 1 << 20;
const PAGE: usize = 4096;

/// What a program does with a block.
#[derive(Clone, Copy)]
enum Use {
    /// Writes into the first and the last word.
    Ends,
    /// And into every page.
    Pages,
    /// Asks for zeros, reads them, and writes into the first and the last word.
    Zeros,
}

fn heap_on(machine: FailingMachine) -> NodeHeap<FailingMachine> {
    let heap = NodeHeap::new(machine);
    heap.set_key(0x0123_4567_89AB_CDEF);
    heap
}

fn heap() -> NodeHeap<FailingMachine> {
    heap_on(FailingMachine::with_reservations(1024 * MIB))
}

/// A program that keeps some blocks of 64 KiB up to a most and exchanges one at a time; with 16 of up to 4 MiB the row
/// `large-edge`.
struct Program<'a> {
    heap: &'a NodeHeap<FailingMachine>,
    cache: &'a Cache,
    doublings: usize,
    /// Address and size, which is what is written into the ends.
    slots: Vec<(*mut u8, usize)>,
    dice: u64,
}

impl<'a> Program<'a> {
    fn new(heap: &'a NodeHeap<FailingMachine>, live: usize, most: usize) -> Program<'a> {
        let cache = heap.attach().expect("memory");
        let doublings = (most / UNIT).ilog2() as usize;
        Program { heap, cache, doublings, slots: vec![(std::ptr::null_mut(), 0); live], dice: 1 }
    }

    fn below(&mut self, end: usize) -> usize {
        // xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators" (2016).
        self.dice ^= self.dice >> 12;
        self.dice ^= self.dice << 25;
        self.dice ^= self.dice >> 27;
        (self.dice.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end
    }

    /// Exchanges a block and answers where the new one is: null when memory is short.
    fn exchange(&mut self, used: Use) -> *mut u8 {
        let (slot, least) = (self.below(self.slots.len()), UNIT << self.below(self.doublings));
        let size = least + self.below(least) + 1;
        self.clear(slot);
        let block = match used {
            Use::Zeros => self.heap.allocate_zeroed(self.cache, size),
            _ => self.heap.allocate(self.cache, size),
        };
        if block.is_null() {
            return block;
        }
        let mut pages = (0..size).step_by(PAGE);
        // SAFETY: the block has these bytes, and is ours.
        unsafe {
            match used {
                Use::Zeros => assert!(pages.all(|at| block.add(at).read() == 0)),
                Use::Pages => pages.for_each(|at| block.add(at).write(1)),
                Use::Ends => (),
            }
            block.cast::<usize>().write(size);
            block.add(size - 8).cast::<usize>().write_unaligned(size);
        }
        self.slots[slot] = (block, size);
        block
    }

    fn clear(&mut self, slot: usize) {
        let (block, size) = std::mem::replace(&mut self.slots[slot], (std::ptr::null_mut(), 0));
        if !block.is_null() {
            // SAFETY: the block is ours, and freed once.
            unsafe {
                assert_eq!(block.cast::<usize>().read(), size, "somebody else wrote here");
                assert_eq!(block.add(size - 8).cast::<usize>().read_unaligned(), size);
                self.heap.free(self.cache, block).expect("a block");
            }
        }
    }

    /// Exchanges so many blocks; in how many banks for which huge pages are advised there began one.
    fn run(&mut self, used: Use, exchanges: usize) -> usize {
        let mut huge = std::collections::BTreeSet::new();
        for _ in 0..exchanges {
            let block = self.exchange(used).addr();
            if self.heap.machine().is_huge(block) {
                huge.insert(block / BANK);
            }
        }
        assert_eq!(self.heap.check(), Ok(()));
        huge.len()
    }

    fn written(&self) -> usize {
        self.heap.machine().written_pages()
    }
}

#[test]
fn ends_come_to_share_pages() {
    let heap = heap();
    let mut program = Program::new(&heap, 16, 4 * MIB);
    let huge = program.run(Use::Ends, 5_000);
    let soon = program.written();
    program.run(Use::Ends, 15_000);
    // In the fullest bank that fits: 3,860, then 7,972, and nine banks.
    let (pages, found) = (program.written(), format!("{soon} pages, then {}", program.written()));
    assert!(soon < 1_400 && pages < 1_700 && huge == 0, "{found}, {huge} banks");
}

#[test]
fn ends_of_many_blocks_do() {
    let heap = heap();
    let mut program = Program::new(&heap, 200, UNIT * 4);
    program.run(Use::Ends, 50_000);
    // In the fullest bank that fits: 10,175.
    assert!(program.written() < 3_700, "{}", program.written());
}

#[test]
fn whole_blocks_and_zeros_lie_as_densely_as_ever() {
    for used in [Use::Pages, Use::Zeros] {
        let heap = heap();
        let mut program = Program::new(&heap, 16, 4 * MIB);
        let huge = program.run(used, 5_000);
        let units = heap.usage().used + heap.usage().dirty;
        assert!(huge >= 8 && units <= 820, "{huge} banks, {units} units");
    }
}

#[test]
fn pages_that_the_program_filled_with_zeros_are_not_untouched() {
    let heap = heap();
    // To read them causes no page fault.
    heap.machine().say_faults(7);
    let mut program = Program::new(&heap, 16, 4 * MIB);
    assert_ne!(program.run(Use::Ends, 5_000), 0);
}

#[test]
fn a_program_that_comes_to_touch_ends_only_is_understood() {
    let heap = heap();
    let mut program = Program::new(&heap, 16, 4 * MIB);
    program.run(Use::Pages, 2_000);
    // Not every block is looked at.
    program.run(Use::Ends, 600);
    (0..16).for_each(|slot| program.clear(slot));
    heap.purge(true);
    let before = program.written();
    program.run(Use::Ends, 5_000);
    // In the fullest bank that fits: 3,829.
    assert!(program.written() < before + 2_000, "{before}, then {}", program.written());
}

#[test]
fn a_program_that_comes_to_touch_all_gets_huge_pages() {
    let heap = heap();
    let mut program = Program::new(&heap, 16, 4 * MIB);
    assert_eq!(program.run(Use::Ends, 2_000), 0);
    program.run(Use::Pages, 600);
    (0..16).for_each(|slot| program.clear(slot));
    heap.purge(true);
    assert_ne!(program.run(Use::Pages, 600), 0);
}

#[test]
fn a_limit_holds_and_what_was_purged_reads_as_zero() {
    let heap = heap();
    heap.set_limit(24 * MIB);
    let mut program = Program::new(&heap, 16, 4 * MIB);
    let mut refused = 0;
    for round in 0..100 {
        refused += (0..50).filter(|_| program.exchange(Use::Ends).is_null()).count();
        refused += (0..5).filter(|_| program.exchange(Use::Zeros).is_null()).count();
        let usage = heap.usage();
        assert!((usage.used + usage.dirty) * UNIT <= 24 * MIB, "{usage:?}");
        assert_eq!(heap.check(), Ok(()));
        if round % 10 == 9 {
            heap.purge(true);
        }
    }
    assert!((1..2_000).contains(&refused), "{refused}");
}

#[test]
fn a_machine_that_refuses_now_and_then_is_survived() {
    for one_in in [2, 3, 7, 50] {
        let heap = heap_on(FailingMachine::at_times(one_in));
        if heap.attach().is_none() {
            continue;
        }
        let mut program = Program::new(&heap, 16, MIB);
        for _ in 0..60 {
            program.run(Use::Ends, 50);
            heap.purge(false);
        }
        (0..16).for_each(|slot| program.clear(slot));
        assert_eq!(heap.check(), Ok(()));
    }
}

#[test]
fn blocks_lie_on_the_node_of_their_thread() {
    let heap = heap_on(FailingMachine::with_nodes(FakeNodes::new(2)));
    let nodes = heap.machine().fake_nodes().expect("it was made with nodes");
    let mut programs = [0, 1].map(|node| {
        nodes.go_to(node);
        Program::new(&heap, 16, MIB / 2)
    });
    for _ in 0..2_000 {
        for (node, program) in programs.iter_mut().enumerate() {
            nodes.go_to(node);
            let block = program.exchange(Use::Ends).addr();
            assert_eq!(nodes.node_of(block), Some(node));
        }
    }
    assert_eq!(heap.check(), Ok(()));
    // In the fullest bank that fits: 2,518.
    assert!(programs[0].written() < 1_000, "{}", programs[0].written());
}

/// They must not be read: the program has forbidden it, or has kept them from its children.
#[test]
fn blocks_that_cannot_be_read_are_not_looked_at() {
    static HEAP: NodeHeap<Linux> = NodeHeap::new(Linux::new());
    HEAP.set_key(0x0123_4567_89AB_CDEF);
    let cache = HEAP.attach().expect("memory");
    // SAFETY: the blocks are ours, whole pages; a child does nothing but free them.
    let freed_in_a_child = |prepare: &dyn Fn(*mut u8) -> i32| unsafe {
        let block = HEAP.allocate(cache, MIB);
        block.write_bytes(1, MIB);
        assert_eq!(prepare(block), 0, "{}", std::io::Error::last_os_error());
        let child = libc::fork();
        if child == 0 {
            libc::_exit(HEAP.free(cache, block).is_err() as i32);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        status
    };
    // SAFETY: as above.
    let kept = |block: *mut u8| unsafe { libc::madvise(block.cast(), MIB, libc::MADV_DONTFORK) };
    assert_eq!(freed_in_a_child(&kept), 0);
    let guarded = |block: *mut u8| {
        let last = block.wrapping_add(MIB - PAGE).cast();
        // SAFETY: as above.
        unsafe { libc::mprotect(last, PAGE, libc::PROT_NONE) }
    };
    assert_eq!(freed_in_a_child(&guarded), 0);
}

#[test]
fn nothing_is_placed_by_its_end_on_a_node_that_is_closed() {
    let heap = heap_on(FailingMachine::with_nodes(FakeNodes::new(2)));
    let nodes = heap.machine().fake_nodes().expect("two");
    nodes.go_to(0);
    let cache = heap.attach().expect("memory");
    let size = 3 * MIB;
    for _ in 0..8 {
        let block = heap.allocate(cache, size);
        // SAFETY: ours, and so long.
        unsafe {
            block.write(1);
            block.add(size - 1).write(1);
            heap.free(cache, block).expect("a block");
        }
    }
    let closed = NodeSet::default().with(NodeId::new(0).expect("a number"));
    heap.close_nodes(closed, true);
    let block = heap.allocate(cache, size);
    assert_eq!(nodes.node_of(block.addr() + 2 * MIB), Some(1), "the bank of its end");
}
