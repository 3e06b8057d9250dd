//! The lock-free parts of the malloc under loom: every interleaving of a few threads.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p freehold-core --test malloc_loom`
#![cfg(loom)]

use freehold_core::malloc::depot::{Depot, HEADER, Magazine};
use freehold_core::malloc::inbox::{Inbox, Linked};
use freehold_core::malloc::vacancy::{Dequeued, Vacancy};
use freehold_core::sync::{AtomicPtr, AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

/// A slab of up to 64 blocks, and its owner's inbox.
struct Model {
    vacancy: Vacancy,
    bits: AtomicU64,
    news: AtomicPtr<Model>,
    inbox: Inbox<Model>,
}

// SAFETY: `link` is `news`, used by nothing else.
unsafe impl Linked for Model {
    fn link(&self) -> &AtomicPtr<Model> {
        &self.news
    }
}

impl Model {
    /// A slab of `blocks`, all taken.
    fn taken(blocks: u32) -> Arc<Model> {
        let model = Model {
            vacancy: Vacancy::new(),
            bits: AtomicU64::new(0),
            news: AtomicPtr::new(std::ptr::null_mut()),
            inbox: Inbox::new(),
        };
        model.vacancy.start(blocks);
        model.vacancy.withdraw(blocks);
        Arc::new(model)
    }

    fn push(&self) {
        // SAFETY: the caller was told to; the model outlives the test.
        unsafe { self.inbox.push(std::ptr::from_ref(self).cast_mut()) };
    }

    /// What a thread does that frees a block. Says whether it queued the slab.
    fn give(&self, block: u32, blocks: u32) -> bool {
        let ticket = self.vacancy.add(1);
        assert_eq!(self.bits.fetch_or(1 << block, Ordering::AcqRel) & (1 << block), 0);
        let queued = self.vacancy.announce(ticket, blocks);
        if queued {
            self.push();
        }
        queued
    }

    /// What the purger does. Says whether it retired the slab.
    fn retire_in_place_of_owner(&self) -> bool {
        let mut retired = false;
        self.inbox.take(|_| {
            let idle = self.vacancy.free() == 1 && !self.vacancy.is_listed();
            if idle && self.bits.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                self.vacancy.retire_queued();
                retired = true;
            } else {
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

#[test]
fn an_owner_who_forgets_a_slab_hears_of_a_block_given() {
    loom::model(|| {
        let slab = Model::taken(4);
        let giver = {
            let slab = slab.clone();
            thread::spawn(move || slab.give(0, 4))
        };
        // The owner finds no bits, and forgets the slab.
        let found = slab.bits.fetch_and(0, Ordering::AcqRel);
        if found == 0 && slab.vacancy.unlist() {
            slab.push();
        }
        giver.join().unwrap();
        assert!(found != 0 || slab.drain() == 1, "lost wake-up");
    });
}

#[test]
fn two_givers_queue_a_slab_once() {
    loom::model(|| {
        let slab = Model::taken(4);
        assert!(!slab.vacancy.unlist());
        let givers: Vec<_> = (0..2)
            .map(|block| {
                let slab = slab.clone();
                thread::spawn(move || slab.give(block, 4))
            })
            .collect();
        let queued = givers.into_iter().map(|giver| giver.join().unwrap()).filter(|&queued| queued);
        assert_eq!(queued.count(), 1);
        assert_eq!(slab.drain(), 1);
        assert_eq!(slab.vacancy.dequeue().free, 2);
    });
}

#[test]
fn a_slab_that_is_retired_is_never_queued() {
    loom::model(|| {
        let slab = Model::taken(1);
        let giver = {
            let slab = slab.clone();
            thread::spawn(move || slab.give(0, 1))
        };
        // The owner, seeing all blocks free, claims the bits and retires the slab, and the unit
        // becomes another slab at once.
        let mut retired = false;
        if slab.vacancy.free() == 1
            && slab.bits.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            retired = slab.vacancy.retire();
            if retired {
                slab.vacancy.start(1);
            }
        }
        let queued = giver.join().unwrap();
        assert!(!(retired && queued), "the unit's next life was queued");
        assert_eq!(slab.drain(), queued as usize);
        assert!(retired || queued, "an empty slab nobody knows of");
    });
}

#[test]
fn a_slab_that_is_retired_in_its_owners_place_is_known_to_nobody() {
    loom::model(|| {
        let slab = Model::taken(1);
        let giver = {
            let slab = slab.clone();
            thread::spawn(move || _ = slab.give(0, 1))
        };
        let purger = {
            let slab = slab.clone();
            thread::spawn(move || slab.retire_in_place_of_owner())
        };
        // The owner has found no bits, and forgets the slab; then it hears the news.
        if slab.vacancy.unlist() {
            slab.push();
        }
        let hear = |slab: &Model| {
            let news = slab.drain();
            (0..news).for_each(|_| _ = slab.vacancy.dequeue());
            news
        };
        let heard = hear(&slab);
        giver.join().unwrap();
        let retired = purger.join().unwrap();
        let later = hear(&slab);
        assert_ne!(heard + later != 0, retired, "heard of, and listed, or retired");
        assert_eq!(slab.vacancy.is_alive(), !retired);
        assert!(retired || slab.vacancy.retire(), "the owner may retire it in its turn");
    });
}

#[test]
fn a_slab_whose_unit_was_wiped_in_between_is_queued_at_most_once_and_known_to_its_owner() {
    loom::model(|| {
        let slab = Model::taken(1);
        let giver = {
            let slab = slab.clone();
            thread::spawn(move || slab.give(0, 1))
        };
        let mut reborn = false;
        if slab.vacancy.free() == 1
            && slab.bits.compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            && slab.vacancy.retire()
        {
            slab.vacancy.wipe();
            slab.vacancy.start(1);
            reborn = true;
        }
        let queued = giver.join().unwrap();
        assert_eq!(slab.drain(), queued as usize);
        assert!(reborn || queued, "an empty slab nobody knows of");
        if queued {
            assert_eq!(slab.vacancy.dequeue(), Dequeued { listed: true, free: 1 });
        }
        assert!(!reborn || slab.vacancy.retire(), "not to be retired when its news was heard");
    });
}

#[test]
fn an_inbox_loses_nothing() {
    loom::model(|| {
        let (one, two) = (Model::taken(1), Model::taken(1));
        let inbox = Arc::new(Inbox::<Model>::new());
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
            let next = Magazine::next(magazine, KEY);
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
