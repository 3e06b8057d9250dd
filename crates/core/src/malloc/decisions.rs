//! What the malloc decides by: every threshold, in one table.
//!
//! A mechanism asks one of these functions, which know counts only, and never decides by itself. The shipped library
//! decides by [`Decisions::SHIPPED`], which the compiler folds into the code. The laboratory runs the same code by other
//! values: its simulated machine returns them from [`Machine::decisions`](crate::machine::Machine::decisions).

use crate::malloc::units::{BANK, UNIT};
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
    /// Bytes that a refill from bits takes at most.
    "batch.bytes" batch_bytes = 8 << 10, off None;
    /// Blocks that a refill from bits takes, or a step gives back, at most: it bounds the longest call.
    "batch.blocks" batch_blocks = 64, off None;
    /// Bytes that the first refill of a class takes; each further one takes twice as many. A program that needs three
    /// blocks of a class touches the page of three.
    "batch.first" batch_first = 512, off Some(8 << 10);
    /// Bytes that a thread's reserve holds in depots. More goes back to bits while it is in the processor's caches.
    "reserve.bytes" reserve_bytes = 32 << 20, off Some(0);
    /// Bytes that a thread's reserve owes at most: for each new slab of one class, as much of other classes goes back to
    /// bits.
    "reserve.debt" reserve_debt = 4 * UNIT, off Some(0);
    /// Words of bits to which one free gives blocks back, at most: up to two hundred instructions each.
    "reserve.words" reserve_words = 8, off None;
    /// The same of a malloc that repays, which waits for memory anyway.
    "reserve.repaid-words" reserve_repaid_words = 16, off None;
    /// Blocks of another thread's slab that are collected before they go home together.
    "parcel.blocks" parcel_blocks = 64, off Some(1);
    /// Caches without a thread that are asked for a slab before a new one is cut.
    "slabs.adopt" slabs_adopt = 8, off Some(0);
    /// Listed slabs of which the fullest is allocated from next, so that the emptier ones can become free.
    "slabs.fullest" slabs_fullest = 8, off Some(1);
    /// Whether a thread keeps the last slab of a class when all of it is free (1), or gives it back (0).
    "slabs.kept" slabs_kept = 1, off Some(0);
    /// Bytes in use below which no bank gets a huge page: a small program would pay for what it does not touch.
    "huge.from" huge_from = 8 << 20, off Some(usize::MAX);
    /// Bytes in use below which no bank for slabs or smaller blocks gets one.
    "huge.slabs-from" huge_slabs_from = 12 << 20, off Some(usize::MAX);
    /// Bytes in use from which a bank more or less does not matter.
    "huge.always-from" huge_always_from = 32 << 20, off Some(usize::MAX);
    /// Bytes of the longest block that gets huge pages: longer ones are often tables of which little is ever touched.
    "huge.longest" huge_longest = 64 << 20, off Some(0);
    /// Bytes from which a block's pages are moved instead of copied, and discarded instead of cleared.
    "large.pages-from" large_pages_from = 1 << 20, off Some(usize::MAX);
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
    /// How many blocks of a class a full stack holds. Those of the smallest class cannot carry a magazine's header and go
    /// back to bits, in one step.
    #[inline(always)]
    pub const fn stack_len(&self, class: SizeClass) -> usize {
        if class.index() == 0 { self.batch_blocks } else { self.spare_len(class) }
    }

    /// How many blocks a full spare stack holds.
    #[inline(always)]
    pub const fn spare_len(&self, class: SizeClass) -> usize {
        blocks(class, self.stack_bytes, self.stack_blocks)
    }

    /// How many blocks of a class a refill takes at most.
    #[inline(always)]
    pub const fn batch_len(&self, class: SizeClass) -> usize {
        blocks(class, self.batch_bytes, self.batch_blocks)
    }

    /// How many the first refill takes.
    #[inline(always)]
    pub const fn first_batch(&self, class: SizeClass) -> usize {
        blocks(class, self.batch_first, self.batch_blocks)
    }

    /// How many blocks of a class are collected for another thread's slab.
    #[inline(always)]
    pub const fn parcel_len(&self, class: SizeClass) -> usize {
        blocks(class, self.batch_bytes, self.parcel_blocks)
    }

    /// For how many of the first banks of a run, which was taken for a block of `size` bytes (`None`: for a slab) while `used` units were
    /// in use, huge pages pay. `filled`: the thread fills its slabs; `slabs`: how many it has.
    ///
    /// A first touch of a 2 MiB page costs as much as some hundred first touches of 4 KiB pages, so huge pages pay once a
    /// seventh of a bank is used; but resident memory counts the unused part, too. So the heap asks for them only where next
    /// to nothing stays untouched. A slab gets one for its bank if its thread has as many slabs as a bank: of a thousand
    /// threads with a slab each, little of each slab is touched.
    #[inline]
    pub fn huge_banks(
        &self,
        size: Option<usize>,
        used: usize,
        filled: bool,
        slabs: usize,
    ) -> usize {
        let used = used * UNIT;
        let many = used >= self.huge_always_from;
        match size {
            None | Some(0..BANK) if used >= self.huge_slabs_from && filled => 1,
            None => usize::from(many && slabs >= BANK / UNIT),
            Some(0..BANK) => usize::from(many),
            Some(size) if size > self.huge_longest => 0,
            Some(size) if many => size.div_ceil(BANK),
            Some(size) => size / BANK,
        }
    }

    /// Whether a thread fills its slabs, of which `used` units consist with those of others: it has twice as many as
    /// classes, so that at most half of them are being filled; or as many as classes, which are half of what is in use, so
    /// that there are no other threads' slabs that are being filled, too.
    #[inline]
    pub const fn fills_slabs(slabs: usize, classes: usize, used: usize) -> bool {
        slabs >= classes * 2 || (slabs >= classes && slabs * 2 >= used)
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

    #[test]
    fn stacks_and_batches_hold_one_block_to_the_most() {
        let (shipped, classes) = (Decisions::SHIPPED, SizeClass::all());
        for class in classes {
            let bytes = shipped.stack_len(class) * class.size();
            assert!(bytes <= 16 << 10 || shipped.stack_len(class) == 1, "{class:?}");
            assert!(shipped.batch_len(class) <= 64 && shipped.first_batch(class) >= 1);
        }
        let of = |index| SizeClass::new(index).expect("a class");
        assert_eq!((shipped.stack_len(of(0)), shipped.first_batch(of(0))), (64, 32));
        assert_eq!((shipped.spare_len(of(0)), shipped.stack_len(of(1))), (256, 256));
        assert_eq!((shipped.stack_len(of(71)), shipped.batch_len(of(71))), (1, 1));
    }

    #[test]
    fn huge_pages_are_asked_for_where_banks_fill() {
        let banks = |size: usize, used: usize, filled, slabs| {
            let size = (size != 0).then_some(size);
            Decisions::SHIPPED.huge_banks(size, used / UNIT, filled, slabs)
        };
        let mib = 1 << 20;
        assert_eq!((banks(0, 11 * mib, true, 99), banks(0, 12 * mib, true, 1)), (0, 1));
        assert_eq!((banks(0, 31 * mib, false, 32), banks(0, 32 * mib, false, 32)), (0, 1));
        assert_eq!((banks(0, 32 * mib, false, 31), banks(mib, 32 * mib, false, 0)), (0, 1));
        assert_eq!((banks(5 * mib, 8 * mib, false, 0), banks(5 * mib, 32 * mib, false, 0)), (2, 3));
        assert_eq!(
            (banks(64 * mib, 9 * mib, false, 0), banks(65 * mib, 99 * mib, true, 99)),
            (32, 0)
        );
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
