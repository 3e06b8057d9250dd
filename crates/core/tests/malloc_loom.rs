//! The lock-free parts of the malloc under loom: every interleaving of a few threads.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p freehold-core --test malloc_loom`
#![cfg(loom)]

use freehold_core::malloc::arrivals::Arrivals;
use freehold_core::malloc::depot::{Depot, HEADER, Magazine};
use freehold_core::malloc::inbox::{Inbox, Linked};
use freehold_core::malloc::slab::Slab;
use freehold_core::malloc::vacancy::Dequeued;
use freehold_core::malloc::{Block, Chain};
use freehold_core::size_class::class_of;
use freehold_core::sync::AtomicPtr;
use loom::sync::Arc;
use loom::thread;

/// A unit of memory.
#[repr(align(65536))]
struct Unit(#[allow(dead_code)] [u8; 65536]);

/// A slab, and its owner's inbox.
struct Owned {
    slab: Slab,
    inbox: Inbox<Slab>,
    blocks: u32,
    unit: *mut Unit,
}

// SAFETY: only one thread of a test, the owner, touches the slab's cells; what others touch is atomic.
unsafe impl Sync for Owned {}
// SAFETY: as above.
unsafe impl Send for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: from `taken`, and nobody else has it.
        drop(unsafe { Box::from_raw(self.unit) });
    }
}

impl Owned {
    /// A slab of `blocks` (1, 2 or 4), all taken.
    fn taken(blocks: u32) -> Arc<Owned> {
        let unit = Box::into_raw(Box::<Unit>::new_uninit()).cast::<Unit>();
        // One block of a slab is two of the largest class, of which the test has one.
        let whole = blocks.max(2);
        let owned = Owned { slab: Slab::new(), inbox: Inbox::new(), blocks: whole, unit };
        let owned = Arc::new(owned);
        owned.cut();
        let mut chain = Chain::new(KEY);
        owned.slab.take(whole as usize, &mut chain);
        assert_eq!(chain.len as u32, whole);
        if blocks == 1 {
            assert_eq!(owned.slab.give(0, 0b10, 1), Ok(false));
        }
        owned
    }

    fn cut(&self) {
        let class = class_of(65536 / self.blocks as usize).expect("a class");
        self.slab.cut(self.unit.expose_provenance(), class, std::ptr::null_mut());
        self.slab.vacancy.start(self.blocks);
    }

    fn push(&self) {
        // SAFETY: the caller was told to; the slab outlives the test.
        unsafe { self.inbox.push(std::ptr::from_ref(&self.slab).cast_mut()) };
    }

    /// A thread frees a block. Says whether it queued the slab.
    fn give(&self, block: u32) -> bool {
        let queued = self.slab.give(0, 1 << block, 1).expect("freed once");
        if queued {
            self.push();
        }
        queued
    }

    /// The owner looks for blocks, and forgets the slab when there are none. Whether there were.
    fn take_or_forget(&self) -> bool {
        let mut chain = Chain::new(KEY);
        self.slab.take(usize::MAX, &mut chain);
        if chain.len == 0 && self.slab.vacancy.unlist() {
            self.push();
        }
        chain.len != 0
    }

    /// The purger retires the slab, if its owner has forgotten it.
    fn retire_in_place_of_owner(&self) -> bool {
        let mut retired = false;
        self.inbox.take(|_| {
            retired = self.slab.end_unlisted();
            if !retired {
                self.push();
            }
        });
        retired
    }

    /// How often the slab is in the inbox.
    fn drain(&self) -> usize {
        let mut times = 0;
        self.inbox.take(|_| times += 1);
        times
    }
}

/// Three threads on a whole slab: every interleaving with at most four switches in the middle of something (all of them
/// take minutes).
fn model_of_three(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(4));
    builder.check(test);
}

#[test]
fn an_owner_who_forgets_a_slab_learns_of_a_block_given() {
    loom::model(|| {
        let it = Owned::taken(4);
        let giver = {
            let it = it.clone();
            thread::spawn(move || it.give(0))
        };
        let found = it.take_or_forget();
        giver.join().unwrap();
        assert!(found || it.drain() == 1, "lost wake-up");
    });
}

#[test]
fn two_givers_queue_a_slab_once() {
    loom::model(|| {
        let it = Owned::taken(4);
        assert!(!it.take_or_forget());
        let givers: Vec<_> = (0..2)
            .map(|block| {
                let it = it.clone();
                thread::spawn(move || it.give(block))
            })
            .collect();
        let queued = givers.into_iter().map(|giver| giver.join().unwrap()).filter(|&queued| queued);
        assert_eq!(queued.count(), 1);
        assert_eq!(it.drain(), 1);
        assert_eq!(it.slab.vacancy.dequeue().free, 2);
    });
}

#[test]
fn a_slab_that_is_retired_is_never_queued() {
    loom::model(|| {
        let it = Owned::taken(1);
        let giver = {
            let it = it.clone();
            thread::spawn(move || it.give(0))
        };
        // The owner, seeing all blocks free, retires the slab, and the unit becomes another slab at once.
        let retired = it.slab.end();
        if retired {
            it.cut();
        }
        let queued = giver.join().unwrap();
        assert!(!(retired && queued), "the unit's next life was queued");
        assert_eq!(it.drain(), queued as usize);
        assert!(retired || queued, "an empty slab nobody knows of");
    });
}

#[test]
fn a_slab_that_is_retired_in_its_owners_place_is_known_to_nobody() {
    model_of_three(|| {
        let it = Owned::taken(2);
        let giver = {
            let it = it.clone();
            thread::spawn(move || {
                _ = it.slab.give(0, 0b11, 2).map(|queue| {
                    queue && {
                        it.push();
                        true
                    }
                })
            })
        };
        let purger = {
            let it = it.clone();
            thread::spawn(move || it.retire_in_place_of_owner())
        };
        // The owner finds no bits, and forgets the slab; then it looks into its inbox.
        if it.slab.vacancy.unlist() {
            it.push();
        }
        let receive = |it: &Owned| {
            let news = it.drain();
            (0..news).for_each(|_| _ = it.slab.vacancy.dequeue());
            news
        };
        let received = receive(&it);
        giver.join().unwrap();
        let retired = purger.join().unwrap();
        let later = receive(&it);
        assert_ne!(received + later != 0, retired, "received, and listed, or retired");
        assert_eq!(it.slab.vacancy.is_alive(), !retired);
        assert!(retired || it.slab.end(), "the owner may retire it in its turn");
    });
}

#[test]
fn a_slab_whose_unit_was_wiped_in_between_is_queued_at_most_once_and_known_to_its_owner() {
    loom::model(|| {
        let it = Owned::taken(1);
        let giver = {
            let it = it.clone();
            thread::spawn(move || it.give(0))
        };
        let reborn = it.slab.end();
        if reborn {
            it.slab.vacancy.wipe();
            it.cut();
        }
        let queued = giver.join().unwrap();
        assert_eq!(it.drain(), queued as usize);
        assert!(reborn || queued, "an empty slab nobody knows of");
        if queued {
            assert_eq!(it.slab.vacancy.dequeue(), Dequeued { listed: true, free: it.blocks });
        }
        assert!(!reborn || it.slab.end(), "not to be retired when its news was received");
    });
}

/// What an owner, another thread and the purger do at once to a slab, an inbox and a depot: every block is in one place.
#[test]
fn a_block_is_in_one_place_whoever_gives_takes_or_purges() {
    model_of_three(|| {
        let it = Owned::taken(2);
        let depot = Arc::new(Depot::new());
        let giver = {
            let it = it.clone();
            thread::spawn(move || _ = it.give(0))
        };
        let purger = {
            let (it, depot) = (it.clone(), depot.clone());
            // The owner's block in the depot becomes a bit.
            thread::spawn(move || {
                let magazine = depot.take();
                if !magazine.is_null() {
                    it.give(1);
                }
                !magazine.is_null()
            })
        };
        let block = it.unit.cast::<u8>().wrapping_add(32768).cast::<Magazine>();
        // SAFETY: this thread is the owner, and the block is its own, half a unit.
        let kept = unsafe {
            depot.put(block, 1, KEY);
            !depot.pop(KEY).0.is_null()
        };
        let mut chain = Chain::new(KEY);
        it.slab.take(2, &mut chain);
        giver.join().unwrap();
        let purged = purger.join().unwrap();
        assert_ne!(kept, purged);
        assert_eq!(it.slab.count_free() as usize + chain.len + usize::from(kept), 2);
        assert_eq!(it.slab.vacancy.free(), it.slab.count_free());
        let known = it.drain();
        assert!(known <= 1, "queued twice");
    });
}

/// Something that can be in an inbox.
struct Item(AtomicPtr<Item>);

// SAFETY: the one word that it has.
unsafe impl Linked for Item {
    fn link(&self) -> &AtomicPtr<Item> {
        &self.0
    }
}

impl Item {
    fn new() -> Arc<Item> {
        Arc::new(Item(AtomicPtr::new(std::ptr::null_mut())))
    }
}

#[test]
fn an_inbox_loses_nothing() {
    loom::model(|| {
        let (one, two) = (Item::new(), Item::new());
        let inbox = Arc::new(Inbox::<Item>::new());
        let pushers: Vec<_> = [&one, &two]
            .map(|slab| {
                let (slab, inbox) = (slab.clone(), inbox.clone());
                // SAFETY: the slab is in no inbox, and outlives this one.
                thread::spawn(move || unsafe { inbox.push((&raw const *slab).cast_mut()) })
            })
            .into();
        let mut taken = 0;
        inbox.take(|_| taken += 1);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        inbox.take(|_| taken += 1);
        assert_eq!(taken, 2);
    });
}

/// A block large enough for a magazine's header.
fn magazine() -> *mut Magazine {
    Box::into_raw(Box::new([0u64; HEADER / 8])).cast()
}

/// Counts the magazines of a list that was taken, and frees them.
fn count(mut magazine: *mut Magazine) -> u32 {
    let mut magazines = 0;
    while !magazine.is_null() {
        // SAFETY: whoever takes a list holds its magazines, each of which came from `magazine`.
        unsafe {
            let next = Magazine::take_next(magazine, KEY);
            drop(Box::from_raw(magazine.cast::<[u64; HEADER / 8]>()));
            magazine = next;
        }
        magazines += 1;
    }
    magazines
}

const KEY: usize = 0x55;

#[test]
fn a_magazine_is_had_by_its_owner_or_by_who_takes_the_depot() {
    loom::model(|| {
        let depot = Arc::new(Depot::new());
        let taker = {
            let depot = depot.clone();
            thread::spawn(move || count(depot.take()))
        };
        // SAFETY: this thread is the owner, and the magazines are its own.
        let (popped, rest) = unsafe {
            depot.put(magazine(), 1, KEY);
            depot.put(magazine(), 1, KEY);
            let (popped, left) = depot.pop(KEY);
            assert!(left == 0 || !popped.is_null());
            depot.put(magazine(), 1, KEY);
            if !popped.is_null() {
                drop(Box::from_raw(popped.cast::<[u64; HEADER / 8]>()));
            }
            (u32::from(!popped.is_null()), count(depot.take()))
        };
        let taken = taker.join().unwrap();
        assert_eq!(popped + rest + taken, 3, "popped {popped}, rest {rest}, taken {taken}");
    });
}

#[test]
fn each_block_that_arrives_is_taken_once() {
    loom::model(|| {
        let class = class_of(32768).expect("a class");
        let unit = Box::into_raw(Box::<Unit>::new_uninit()).cast::<Unit>().expose_provenance();
        let arrivals = Arc::new(Arrivals::new());
        let free = move |arrivals: &Arrivals, number: usize| {
            let block = std::ptr::with_exposed_provenance_mut(unit + number * 32768);
            // SAFETY: half of the unit each, and freed once.
            assert!(unsafe { arrivals.push(block, class, 2, KEY) });
        };
        // The blocks that were there, a bit each.
        let take = move |arrivals: &Arrivals| {
            let list = arrivals.take(class);
            let (mut block, mut blocks) = (list.first, Vec::new());
            while !block.is_null() {
                blocks.push((block.addr() - unit) / 32768);
                // SAFETY: taken, and linked with this key.
                block = unsafe { Block::next(block, KEY) };
            }
            assert_eq!(blocks.len(), list.len);
            blocks
        };
        let freer = {
            let arrivals = arrivals.clone();
            thread::spawn(move || free(&arrivals, 0))
        };
        let purger = {
            let arrivals = arrivals.clone();
            thread::spawn(move || take(&arrivals))
        };
        free(&arrivals, 1);
        let mut taken = take(&arrivals);
        freer.join().unwrap();
        taken.extend(purger.join().unwrap());
        taken.extend(take(&arrivals));
        taken.sort_unstable();
        assert_eq!(taken, [0, 1]);
        // SAFETY: from `into_raw`, and nobody else has it.
        drop(unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Unit>(unit)) });
    });
}
