//! The ways to share a heap under loom: interleavings of a few threads, with at most three preemptions.
//! Loom's cells tell who touches a policy at once; its locks, who waits for ever.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p freehold-blocks --test sharing_loom`
#![cfg(loom)]

mod sharing_common;

use freehold_blocks::FirstFitList;
use freehold_blocks::policy::{Inspect, Policy};
use freehold_blocks::sharing::{
    OneLock, PerThread, ReadWrite, ReaderWriter, Sharing, Striped, WriterFirst,
};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use sharing_common::{Over, Posix, Sendable, alloc, free};

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// Nothing is handed out any more, nothing is lost, every structure is whole.
fn assert_whole<H: Sharing>(over: Arc<Over<H>>) {
    let mut over = Arc::try_unwrap(over).ok().expect("all threads have ended");
    over.heap.inspect(|policy| {
        policy.check().unwrap();
        let totals = policy.totals();
        assert_eq!((totals.used_blocks, totals.free), (0, totals.capacity));
    });
}

/// Two threads hold a block each at once, then give it back.
fn blocks_are_handed_out_once<H: Sharing + Send + 'static>(
    make: impl Fn() -> Over<H> + Send + Sync + 'static,
) {
    model(move || {
        let shared = Arc::new(make());
        let other = Arc::clone(&shared);
        let work = |heap: &H, thread: usize| {
            let mut handle = heap.handle(thread).expect("a handle");
            let payload = alloc(&mut handle, 24).expect("there is room for two");
            let mark = 0x5eed + thread as u64;
            // SAFETY: 24 bytes that are this thread's alone.
            unsafe { payload.cast::<u64>().write(mark) };
            thread::yield_now();
            // SAFETY: as above.
            assert_eq!(unsafe { payload.cast::<u64>().read() }, mark, "handed out twice");
            free(&mut handle, payload);
        };
        let second = thread::spawn(move || work(&other.heap, 1));
        work(&shared.heap, 0);
        second.join().unwrap();
        assert_whole(shared);
    });
}

#[test]
fn one_lock() {
    blocks_are_handed_out_once(|| {
        Over::new(128, |region| OneLock::new(FirstFitList::new(region).unwrap(), Posix::new()))
    });
}

#[test]
fn reader_writer_under_the_lock_of_the_paper() {
    blocks_are_handed_out_once(|| {
        Over::new(128, |region| {
            ReaderWriter::new(FirstFitList::new(region).unwrap(), WriterFirst::new(Posix::new()))
        })
    });
}

#[test]
fn stripes() {
    blocks_are_handed_out_once(|| {
        Over::new(128, |region| {
            Striped::<Vec<_>, FirstFitList, _>::new(region, 2, Posix::new).unwrap()
        })
    });
}

#[test]
fn a_heap_a_thread() {
    blocks_are_handed_out_once(|| {
        Over::new(1024, |region| PerThread::<Vec<_>, FirstFitList>::new(region, 2).unwrap())
    });
}

#[test]
fn a_stripe_that_is_full_sends_on_and_takes_back_its_own() {
    model(|| {
        // One block a stripe: both threads begin at the first.
        let heap = |region| Striped::<Vec<_>, FirstFitList, _>::new(region, 2, Posix::new).unwrap();
        let shared = Arc::new(Over::new(128, heap));
        let other = Arc::clone(&shared);
        let second = thread::spawn(move || {
            let mut handle = other.heap.handle(0).unwrap();
            Sendable(alloc(&mut handle, 24).expect("the other stripe"))
        });
        let mut handle = shared.heap.handle(0).unwrap();
        let own = alloc(&mut handle, 24).expect("the other stripe");
        let theirs = second.join().unwrap().0;
        assert_ne!(own, theirs);
        free(&mut handle, theirs);
        free(&mut handle, own);
        assert_whole(shared);
    });
}

#[test]
fn what_others_free_comes_back_once() {
    model(|| {
        let heap = |region| PerThread::<Vec<_>, FirstFitList>::new(region, 3).unwrap();
        let shared = Arc::new(Over::new(1152, heap));
        let mut owner = shared.heap.handle(0).unwrap();
        let blocks = [(); 2].map(|()| alloc(&mut owner, 24).expect("two fit"));
        let senders = blocks.map(|payload| {
            let (other, payload) = (Arc::clone(&shared), Sendable(payload));
            thread::spawn(move || {
                let Sendable(payload) = { payload };
                let mut handle = other.heap.handle(1).expect("one a thread");
                free(&mut handle, payload);
            })
        });
        // The owner allocates meanwhile: what has come, or what was left.
        if let Some(payload) = alloc(&mut owner, 24) {
            free(&mut owner, payload);
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        drop(owner);
        assert_whole(shared);
    });
}

#[test]
fn a_heap_has_one_owner_at_a_time() {
    model(|| {
        let heap = |region| PerThread::<Vec<_>, FirstFitList>::new(region, 1).unwrap();
        let shared = Arc::new(Over::new(384, heap));
        let other = Arc::clone(&shared);
        let work = |heap: &PerThread<Vec<_>, FirstFitList>, thread| {
            let Some(mut owner) = heap.handle(thread) else { return false };
            let payload = alloc(&mut owner, 24).expect("the heap is empty");
            free(&mut owner, payload);
            true
        };
        let second = thread::spawn(move || work(&other.heap, 1));
        let first = work(&shared.heap, 0);
        let second = second.join().unwrap();
        assert!(first || second, "a heap that nobody has is to be had");
        assert_whole(shared);
    });
}

/// A number behind the lock of the paper; loom watches who touches it.
struct Guarded {
    lock: WriterFirst<Posix>,
    number: UnsafeCell<u32>,
}

impl Guarded {
    fn read(&self) -> u32 {
        self.lock.read(|| {
            self.number.with(|number| {
                // SAFETY: under the read lock nobody writes.
                unsafe { *number }
            })
        })
    }

    fn add_one(&self) {
        self.lock.write(|| {
            self.number.with_mut(|number| {
                // SAFETY: under the write lock nobody else reads or writes.
                unsafe { *number += 1 }
            });
        });
    }
}

#[test]
fn the_lock_of_the_paper_keeps_readers_and_writers_apart() {
    model(|| {
        let lock = WriterFirst::new(Posix::new());
        let guarded = Arc::new(Guarded { lock, number: UnsafeCell::new(0) });
        let writers = [(); 2].map(|()| {
            let guarded = Arc::clone(&guarded);
            thread::spawn(move || guarded.add_one())
        });
        assert!(guarded.read() <= 2);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(guarded.read(), 2);
        assert_eq!(guarded.lock.starvation().reads, 2);
    });
}
