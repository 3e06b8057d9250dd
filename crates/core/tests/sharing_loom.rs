//! The ways to share a heap under loom: interleavings of a few threads, with at most three preemptions.
//! Loom's cells tell who touches a policy at once; its locks, who waits for ever.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p freehold-core --test sharing_loom`
#![cfg(loom)]

use freehold_core::blocks::{FirstFitList, Region};
use freehold_core::heap::sharing::{
    Exclusive, Handle, Monitor, OneLock, PerThread, ReadWrite, ReaderWriter, Sharing, Striped,
    WriterFirst,
};
use freehold_core::policy::{Inspect, Policy};
use freehold_core::units::Align;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use std::ptr::NonNull;

struct Plain(Mutex<()>);

impl Plain {
    fn new() -> Plain {
        Plain(Mutex::new(()))
    }
}

// SAFETY: loom's mutex.
unsafe impl Exclusive for Plain {
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.0.lock().unwrap();
        work()
    }
}

struct Posix(Mutex<()>, Condvar);

impl Posix {
    fn new() -> Posix {
        Posix(Mutex::new(()), Condvar::new())
    }
}

// SAFETY: both closures run under loom's mutex.
unsafe impl Monitor for Posix {
    fn enter(&self, mut ready: impl FnMut() -> bool) {
        let mut held = self.0.lock().unwrap();
        while !ready() {
            held = self.1.wait(held).unwrap();
        }
    }

    fn leave(&self, change: impl FnOnce() -> bool) {
        let _held = self.0.lock().unwrap();
        if change() {
            self.1.notify_all();
        }
    }
}

/// Memory of one model, and the heap over it.
struct Model<H> {
    heap: H,
    _memory: Vec<u128>,
}

impl<H> Model<H> {
    fn new(granules: usize, heap: impl FnOnce(Region) -> H) -> Model<H> {
        let mut memory = vec![0u128; granules];
        let base = NonNull::new(memory.as_mut_ptr().cast()).unwrap();
        // SAFETY: the vector is the model's, which drops the heap first.
        let region = unsafe { Region::new(base, 16 * granules as u64) }.unwrap();
        Model { heap: heap(region), _memory: memory }
    }
}

/// A block that another thread may free.
struct Sendable(NonNull<u8>);

// SAFETY: a payload may be freed by any thread.
unsafe impl Send for Sendable {}

fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

fn alloc(handle: &mut impl Handle, size: u64) -> Option<NonNull<u8>> {
    handle.alloc(size, Align::ONE, &mut ())
}

fn free(handle: &mut impl Handle, payload: NonNull<u8>) {
    // SAFETY: the models free once what they have allocated.
    unsafe { handle.free(payload, &mut ()) };
}

/// Nothing is handed out any more, nothing is lost, every structure is whole.
fn assert_whole<H: Sharing>(model: Arc<Model<H>>) {
    let mut model = Arc::try_unwrap(model).ok().expect("all threads have ended");
    model.heap.inspect(|policy| {
        policy.check().unwrap();
        let totals = policy.totals();
        assert_eq!((totals.used_blocks, totals.free), (0, totals.capacity));
    });
}

/// Two threads hold a block each at once, then give it back.
fn blocks_are_handed_out_once<H: Sharing + Send + 'static>(
    make: impl Fn() -> Model<H> + Send + Sync + 'static,
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
        Model::new(8, |region| OneLock::new(FirstFitList::new(region).unwrap(), Plain::new()))
    });
}

#[test]
fn reader_writer_under_the_lock_of_the_paper() {
    blocks_are_handed_out_once(|| {
        Model::new(8, |region| {
            ReaderWriter::new(FirstFitList::new(region).unwrap(), WriterFirst::new(Posix::new()))
        })
    });
}

#[test]
fn stripes() {
    blocks_are_handed_out_once(|| {
        Model::new(8, |region| {
            Striped::<Vec<_>, FirstFitList, _>::new(region, 2, Plain::new).unwrap()
        })
    });
}

#[test]
fn a_heap_a_thread() {
    blocks_are_handed_out_once(|| {
        Model::new(64, |region| PerThread::<Vec<_>, FirstFitList>::new(region, 2).unwrap())
    });
}

#[test]
fn a_stripe_that_is_full_sends_on_and_takes_back_its_own() {
    model(|| {
        // One block a stripe: both threads begin at the first.
        let heap = |region| Striped::<Vec<_>, FirstFitList, _>::new(region, 2, Plain::new).unwrap();
        let shared = Arc::new(Model::new(8, heap));
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
        let shared = Arc::new(Model::new(3 * 24, heap));
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
        let shared = Arc::new(Model::new(24, heap));
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

#[test]
fn the_lock_of_the_paper_keeps_readers_and_writers_apart() {
    model(|| {
        let lock = Arc::new((WriterFirst::new(Posix::new()), loom::cell::UnsafeCell::new(0u32)));
        let writers = [(); 2].map(|()| {
            let lock = Arc::clone(&lock);
            // SAFETY: nobody else reads or writes; loom watches.
            thread::spawn(move || lock.0.write(|| lock.1.with_mut(|it| unsafe { *it += 1 })))
        });
        // SAFETY: nobody writes; loom watches.
        let seen = lock.0.read(|| lock.1.with(|it| unsafe { *it }));
        assert!(seen <= 2);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(lock.0.read(|| lock.1.with(|it| unsafe { *it })), 2);
        assert_eq!(lock.0.starvation().reads, 2);
    });
}
