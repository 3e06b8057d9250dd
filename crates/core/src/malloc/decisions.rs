//! What the malloc decides by: every threshold, in one table.
//!
//! A mechanism asks one of these functions, which know counts only, and never decides by itself. The shipped library
//! decides by [`Decisions::SHIPPED`], which the compiler folds into the code. The laboratory runs the same code by other
//! values: its simulated machine returns them from [`Machine::decisions`](crate::machine::Machine::decisions).

use crate::malloc::units::{UNIT, UnitCount};
use crate::size_class::SizeClass;

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Decision {
    /// As it is written on a command line: `reserve.bytes`.
    pub name: &'static str,
    /// What is decided by it, and why so.
    pub reason: &'static str,
    /// What the shipped library uses.
    pub shipped: usize,
    /// The value at which the mechanism does nothing; `None` where there is no such value.
    pub off: Option<usize>,
    /// The field of a set of decisions.
    pub of: fn(&mut Decisions) -> &mut usize,
}

macro_rules! decisions {
    ($($(#[doc = $reason:literal])+ $name:literal $field:ident = $value:expr, off $off:expr;)*) => {
        /// See the module. Bytes unless a field says otherwise.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct Decisions {
            $($(#[doc = $reason])+ pub $field: usize,)*
        }

        impl Decisions {
            /// What the library decides by.
            pub const SHIPPED: Decisions = Decisions { $($field: $value,)* };
            /// All of them, with their names and reasons.
            pub const ALL: &[Decision] = &[$(Decision {
                name: $name,
                reason: concat!($($reason),+),
                shipped: $value,
                off: $off,
                of: |decisions| &mut decisions.$field,
            },)*];
        }
    };
}

decisions! {
    /// Bytes that a full stack of a thread holds: more would keep memory from other sizes, less would leave the hot path
    /// more often.
    "stack.bytes" stack_bytes = 16 << 10, off None;
    /// Blocks that a full stack holds at most.
    "stack.blocks" stack_blocks = 256, off None;
    /// And at least, where threads do not share slabs of such blocks: of each two frees that follow each other, a stack of
    /// one block sends one to the depot.
    "stack.least" stack_least = 4, off Some(1);
    /// Bytes that full stacks of all threads hold together, where threads share slabs of such blocks: else a hundred threads keep
    /// more in stacks than is in use.
    "stack.shared" stack_shared = 512 << 10, off Some(usize::MAX);
    /// Blocks that a refill from bits takes, or a step gives back, at most: it bounds the longest call. A refill takes no more
    /// than half of a stack, either.
    "batch.blocks" batch_blocks = 64, off None;
    /// Bytes that the first refill of a class takes; each further one takes twice as many. A program that needs three
    /// blocks of a class touches the page of three.
    "batch.first" batch_first = 512, off Some(8 << 10);
    /// Bytes that a thread's reserve holds in depots. More goes back to bits while it is in the processor's caches.
    "reserve.bytes" reserve_bytes = 32 << 20, off Some(0);
    /// The same as a part of the memory of the thread's slabs: what is set aside keeps slabs from other sizes, so a small heap
    /// sets little aside.
    "reserve.share" reserve_share = 64, off Some(1);
    /// Bytes that a thread's reserve holds in any case, but of blocks of slabs that threads share those of all threads together:
    /// frees stay short. With 6 MiB a heap whose blocks go in random order holds a sixth more. A block counts 64 bytes or more.
    "reserve.least" reserve_least = 4 << 20, off Some(0);
    /// Bytes that a thread's reserve holds, in a heap of which it cannot hold all, before a stack goes back to bits whose
    /// blocks lie close: there they get their order back, and the program its neighbours.
    "reserve.near" reserve_near = 256 << 10, off Some(usize::MAX);
    /// Bytes of freed runs, up to 16 units each, that each of several threads sets aside for its next large blocks: else they wait for each other, and for each other's cache lines.
    "reserve.runs" reserve_runs = 1 << 20, off Some(0);
    /// Bytes that a thread's reserve owes at most: for each new slab of one class, as much of other classes goes back to
    /// bits, of what is set aside, or else of stacks that nobody used for a while.
    "reserve.debt" reserve_debt = 4 * UNIT, off Some(0);
    /// Words of bits to which one free gives blocks back, at most: up to two hundred instructions each.
    "reserve.words" reserve_words = 5, off None;
    /// The same of a malloc that repays, which waits for memory anyway.
    "reserve.repaid-words" reserve_repaid_words = 16, off None;
    /// Blocks of another thread's slab that are collected before they go home together.
    "parcel.blocks" parcel_blocks = 64, off Some(1);
    /// Blocks of a class above 4 KiB that wait for the owner of their slabs, whole, when other threads freed them: else their
    /// slabs travel with them, and one that has no other block ends and is cut again. At most 511.
    "arrivals.blocks" arrivals_blocks = 64, off Some(0);
    /// Bytes of a block from which threads share slabs: a slab of a thread's own is mostly empty where each of a hundred
    /// threads needs a block or two. A half of it from 32 threads on, a third from 48, a quarter from 64, and so on; never
    /// less than two lines of cache.
    "slabs.shared-from" slabs_shared_from = 1 << 10, off Some(usize::MAX);
    /// Threads from which they do.
    "slabs.shared-threads" slabs_shared_threads = 8, off Some(usize::MAX);
    /// A thread counts four each time that it finds the lock of shared slabs taken, and one back each time that it does not;
    /// from this count on it takes slabs of its own, after a look at the shared ones that waits for nobody and counts one back,
    /// too: where threads get in each other's way, memory is the lesser cost. At most 255.
    "slabs.shared-waits" slabs_shared_waits = 64, off Some(0);
    /// Caches without a thread that are asked for a slab before a new one is cut.
    "slabs.adopt" slabs_adopt = 8, off Some(0);
    /// Listed slabs of which the fullest is allocated from next, so that the emptier ones can become free.
    "slabs.fullest" slabs_fullest = 8, off Some(1);
    /// Whether a thread keeps the last slab of a class when all of it is free (1), or gives it back (0).
    "slabs.kept" slabs_kept = 1, off Some(0);
    /// Bytes in use from which a thread that fills its slabs gets a huge page for the next 32 of them: a page that it does
    /// not fill is then at most one part in thirty of what is in use.
    "huge.from" huge_from = 64 << 20, off Some(usize::MAX);
    /// Bytes from which a block's pages are discarded instead of cleared.
    "large.discarded-from" large_discarded_from = 1 << 20, off Some(usize::MAX);
    /// Bytes from which a block's pages are moved instead of copied.
    "large.moved-from" large_moved_from = 256 << 10, off Some(usize::MAX);
    /// And at least one such part of what is in use: blocks that moved cost a process two mappings each, of which it may have
    /// 65,530.
    "large.moved-part" large_moved_part = 8 << 10, off None;
    /// Bytes in use from which a heap that follows its container looks at what is left there: a look reads some files.
    "room.from" room_from = 32 << 20, off None;
    /// All free memory goes back at once when at most one such part of a limit is left.
    "room.low" room_low = 8, off Some(usize::MAX);
    /// Freed bytes that start the purger.
    "purge.from" purge_from = 8 << 20, off Some(usize::MAX);
    /// Rounds of the purger that a free unit stays resident: a program that comes back within a second pays no page fault.
    "purge.rest" purge_rest = 2, off None;
    /// Milliseconds between two rounds.
    "purge.round" purge_round = 400, off None;
    /// Milliseconds without work after which the purger ends: with its last round, less than two seconds.
    "purge.patience" purge_patience = 1200, off None;
    /// Unsettled bytes that are worth another round; less is left to a program that uses it.
    "purge.again" purge_again = 1 << 20, off None;
    /// Whether pages are given back inside of slabs in use (1), or only where nothing at all is in use (0).
    "purge.slabs" purge_slabs = 1, off Some(0);
    /// Careful frees that cost about as much as a page fault, for which a page's free blocks get their marks back.
    "sparse.frees" sparse_frees = 256, off None;
    /// A block creeps if it grows by at most one such part of its length, and then gets a third of it as room.
    "resize.creep" resize_creep = 4, off Some(usize::MAX);
}

impl Decisions {
    /// How many blocks of a class a full stack holds, by its bytes.
    #[inline(always)]
    pub const fn stack_len(&self, class: SizeClass) -> usize {
        blocks(class, self.stack_bytes, self.stack_blocks)
    }

    /// How many blocks a refill takes at most, where a full stack holds `stack_len`.
    #[inline(always)]
    pub const fn batch_len(&self, stack_len: usize) -> usize {
        half(stack_len, self.batch_blocks)
    }

    /// How many the first refill takes.
    #[inline(always)]
    pub const fn first_batch(&self, class: SizeClass) -> usize {
        blocks(class, self.batch_first, self.batch_blocks)
    }

    /// Whether so many threads share slabs of a class.
    #[inline]
    pub fn is_shared(&self, class: SizeClass, threads: usize) -> bool {
        /// Of shorter blocks too many threads would write to one line.
        const LINES: usize = 128;
        threads >= self.slabs_shared_threads
            && class.size() >= LINES
            && class.size() * (threads / 16).max(1) >= self.slabs_shared_from
    }

    /// How many blocks of a class a full stack holds where so many threads share slabs of it.
    #[inline]
    pub fn shared_stack_len(&self, class: SizeClass, threads: usize) -> usize {
        let bytes = self.stack_bytes.min(self.stack_shared / threads.max(1));
        blocks(class, bytes, self.stack_blocks)
    }

    /// Bytes that the reserve of one of `threads` holds in depots, with so many slabs, before blocks of a class go back to bits.
    #[inline]
    pub fn reserve_of(&self, slabs: usize, class: SizeClass, threads: usize) -> usize {
        // Other threads have to do without what is set aside of shared slabs.
        let sharing = if self.is_shared(class, threads) { threads } else { 1 };
        let (share, least) = (slabs * UNIT / self.reserve_share, self.reserve_least / sharing);
        share.max(least).min(self.reserve_bytes)
    }

    /// How many blocks of a class are collected for another thread's slab.
    #[inline(always)]
    pub const fn parcel_len(&self, class: SizeClass) -> usize {
        blocks(class, self.stack_bytes / 2, self.parcel_blocks)
    }

    /// Whether the pages of a block of `len` bytes are moved instead of copied, while `used` units are in use.
    #[inline]
    pub fn moves_pages(&self, len: usize, used: UnitCount) -> bool {
        len >= self.large_moved_from.max(used.bytes() / self.large_moved_part)
    }

    /// Whether a huge page pays for a bank that a thread opens by a slab, while `used` units are in use, `slabs` of them
    /// the thread's, of `classes`.
    ///
    /// A first touch of a 2 MiB page costs as much as some hundred first touches of 4 KiB pages, so huge pages pay once a
    /// seventh of a bank is used; but resident memory counts the unused part, too. So the heap asks for them only where next
    /// to nothing stays untouched: for a thread with twice as many slabs as classes, at most half of which are being filled.
    /// It never asks for large blocks: a program may touch a table in part, and nobody can know.
    #[inline]
    pub fn is_huge(&self, used: UnitCount, slabs: usize, classes: usize) -> bool {
        used >= UnitCount::whole_in(self.huge_from) && slabs >= classes * 2
    }
}

/// Half of so many blocks, from one to `most`.
#[inline(always)]
const fn half(len: usize, most: usize) -> usize {
    if len < 2 {
        1
    } else if len / 2 > most {
        most
    } else {
        len / 2
    }
}

/// How many blocks of a class make up `bytes`, from one to `most`.
#[inline(always)]
const fn blocks(class: SizeClass, bytes: usize, most: usize) -> usize {
    let len = if bytes < UNIT { class.divide(bytes) } else { bytes / class.size() };
    if len == 0 {
        1
    } else if len > most {
        most
    } else {
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size_class::class_of;

    #[test]
    fn stacks_and_batches_hold_one_block_to_the_most() {
        let (shipped, classes) = (Decisions::SHIPPED, SizeClass::all());
        for class in classes {
            let bytes = shipped.stack_len(class) * class.size();
            assert!(bytes <= 16 << 10 || shipped.stack_len(class) == 1, "{class:?}");
            assert!(shipped.first_batch(class) >= 1);
        }
        let of = |size| class_of(size).expect("a class");
        assert_eq!((shipped.stack_len(of(16)), shipped.first_batch(of(16))), (256, 32));
        assert_eq!((shipped.stack_len(of(32)), shipped.first_batch(of(32))), (256, 16));
        assert_eq!((shipped.stack_len(of(UNIT)), shipped.parcel_len(of(UNIT))), (1, 1));
        assert_eq!([1, 2, 4, 5, 127, 256].map(|len| shipped.batch_len(len)), [1, 1, 2, 2, 63, 64]);
    }

    #[test]
    fn a_reserve_is_a_share_between_two_bounds() {
        let of = |mib: usize, size, threads| {
            let class = class_of(size).expect("a class");
            Decisions::SHIPPED.reserve_of((mib << 20) / UNIT, class, threads)
        };
        assert_eq!((of(0, 960, 1), of(256, 960, 1), of(0, 112, 128)), (4 << 20, 4 << 20, 4 << 20));
        assert_eq!((of(0, 1024, 7), of(0, 1024, 8)), (4 << 20, 512 << 10), "threads share slabs");
        assert_eq!(
            (of(0, 128, 127), of(0, 128, 128)),
            (4 << 20, 32 << 10),
            "and of shorter blocks"
        );
        assert_eq!(
            (of(512, 16, 1), of(512, 1024, 8), of(4096, 16, 1)),
            (8 << 20, 8 << 20, 32 << 20)
        );
    }

    #[test]
    fn huge_pages_are_asked_for_where_slabs_fill() {
        let huge = |mib: usize, slabs| {
            Decisions::SHIPPED.is_huge(UnitCount::whole_in(mib << 20), slabs, 40)
        };
        assert!(!huge(63, 1000) && huge(64, 80) && !huge(640, 79));
    }

    #[test]
    fn pages_move_if_the_block_is_long_and_such_blocks_are_few() {
        let moves =
            |len, mib: usize| Decisions::SHIPPED.moves_pages(len, UnitCount::whole_in(mib << 20));
        assert!(moves(256 << 10, 2048) && !moves((256 << 10) - 1, 1));
        assert!(!moves(256 << 10, 2056) && moves(1 << 20, 8192) && !moves(1 << 20, 8200));
    }

    #[test]
    fn every_row_is_a_field_of_its_own() {
        let mut decisions = Decisions::SHIPPED;
        for (at, row) in Decisions::ALL.iter().enumerate() {
            assert_eq!(*(row.of)(&mut decisions), row.shipped, "{}", row.name);
            assert!(
                row.reason.trim().ends_with('.') && row.off != Some(row.shipped),
                "{}",
                row.name
            );
            *(row.of)(&mut decisions) = at;
        }
        for (at, row) in Decisions::ALL.iter().enumerate() {
            assert_eq!(*(row.of)(&mut decisions), at, "{}", row.name);
        }
    }
}
