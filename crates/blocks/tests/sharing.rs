//! The ways to share a heap on real threads, and the starvation that the lock of the paper implies.
#![cfg(not(loom))]

mod sharing_common;

use freehold_blocks::align::Align;
use freehold_blocks::policy::{Inspect, Policy};
use freehold_blocks::sharing::{
    Handle, OneLock, PerThread, ReadWrite, ReaderWriter, Sharing, Starvation, Striped, WriterFirst,
};
use freehold_blocks::{
    BestFit, BestFitList, FirstFit, FirstFitList, Region, Search, Unmerged, WorstFit, WorstFitList,
};
use proptest::prelude::*;
use sharing_common::{Over, Posix, Sendable, alloc, free};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

/// Waits for something that another thread is about to do.
fn until(what: impl Fn() -> bool) {
    while !what() {
        thread::yield_now();
    }
}

/// Of two writers, the one that is in leaves when the other one waits. A reader that came while the first
/// was in is overtaken by all that follow.
#[test]
fn the_lock_of_the_paper_starves_a_reader() {
    const TURNS: u64 = 200;
    let lock = WriterFirst::new(Posix::new());
    let (turns, reads) = (AtomicU64::new(0), AtomicU64::new(0));
    let stream = || {
        while turns.fetch_add(1, Ordering::SeqCst) < TURNS {
            lock.write(|| {
                until(|| lock.waiting().readers + reads.load(Ordering::SeqCst) as u32 == 1);
                until(|| lock.waiting().writers == 1 || turns.load(Ordering::SeqCst) >= TURNS);
            });
        }
    };
    thread::scope(|scope| {
        scope.spawn(stream);
        until(|| turns.load(Ordering::SeqCst) == 1);
        scope.spawn(|| lock.read(|| reads.fetch_add(1, Ordering::SeqCst)));
        scope.spawn(stream);
    });
    let starvation = lock.starvation();
    assert_eq!(starvation.reads, 1, "when the stream ends, it gets in");
    assert!((TURNS - 3..TURNS).contains(&starvation.most), "{starvation:?}");
    assert_eq!((starvation.overtaken, starvation.overtakings), (1, starvation.most));
}

/// And without writers, readers read together.
#[test]
fn readers_of_the_lock_of_the_paper_are_in_together() {
    let lock = WriterFirst::new(Posix::new());
    let both = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| lock.read(|| both.wait().is_leader()));
        }
    });
    assert_eq!(lock.starvation(), Starvation { reads: 2, ..Starvation::default() });
}

/// What one caller sees: where each allocation lies, from the start of the heap.
fn places(handle: &mut impl Handle, base: usize, calls: &[(bool, u16)]) -> Vec<Option<usize>> {
    let mut held = Vec::new();
    let mut seen = Vec::new();
    for &(is_free, number) in calls {
        if is_free && !held.is_empty() {
            let payload = held.swap_remove(usize::from(number) % held.len());
            free(handle, payload);
        } else {
            let payload = alloc(handle, number.into());
            seen.push(payload.map(|payload| payload.addr().get() - base));
            held.extend(payload);
        }
    }
    held.into_iter().for_each(|payload| free(handle, payload));
    seen
}

/// A bare policy as a handle.
struct Bare<P>(P);

impl<P: Policy> Handle for Bare<P> {
    fn alloc<W: freehold_blocks::probe::Probe>(
        &mut self,
        size: u64,
        align: Align,
        probe: &mut W,
    ) -> Option<NonNull<u8>> {
        // The smallest that a heap a thread asks for.
        self.0.alloc(size.max(8), align, probe)
    }

    unsafe fn free<W: freehold_blocks::probe::Probe>(
        &mut self,
        payload: NonNull<u8>,
        probe: &mut W,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.0.free(payload, probe) };
    }
}

const BYTES: usize = 16 << 10;

fn schemes_choose_alike<P: Search + Send + Sync>(
    calls: &[(bool, u16)],
) -> Result<(), TestCaseError> {
    let mut bare = Over::new(BYTES, |region| {
        let base = region.base().addr().get();
        (Bare(P::new(region).unwrap()), base)
    });
    let expected = places(&mut bare.heap.0, bare.heap.1, calls);
    bare.heap.0.0.check().unwrap();
    macro_rules! same {
        ($make:expr) => {
            let mut over = Over::new(BYTES, |region| (region.base().addr().get(), $make(region)));
            let (base, heap) = &mut over.heap;
            let found = places(&mut heap.handle(0).unwrap(), *base, calls);
            prop_assert_eq!(&found, &expected);
            heap.inspect(|policy| {
                policy.check().unwrap();
                assert_eq!(policy.totals().used_blocks, 0);
            });
        };
    }
    let policy = |region| P::new(region).unwrap();
    same!(|region| OneLock::new(policy(region), Posix::new()));
    same!(|region| ReaderWriter::new(policy(region), WriterFirst::new(Posix::new())));
    same!(|region| Striped::<Vec<_>, P, _>::new(region, 1, Posix::new).unwrap());
    same!(|region| PerThread::<Vec<_>, P>::new(region, 1).unwrap());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A scheme changes who waits, not what is chosen.
    #[test]
    fn one_thread_gets_the_blocks_that_the_bare_policy_chooses(
        calls in prop::collection::vec((any::<bool>(), 0u16..700), 1..120)
    ) {
        schemes_choose_alike::<FirstFitList>(&calls)?;
        schemes_choose_alike::<BestFitList>(&calls)?;
        schemes_choose_alike::<WorstFitList>(&calls)?;
        schemes_choose_alike::<Unmerged<FirstFitList>>(&calls)?;
        schemes_choose_alike::<Unmerged<BestFit>>(&calls)?;
        schemes_choose_alike::<WorstFit>(&calls)?;
        schemes_choose_alike::<FirstFit>(&calls)?;
    }
}

/// A block for another thread, and what was written into it.
struct Marked(Sendable, u64);

impl Marked {
    fn check_and_free(self, handle: &mut impl Handle) {
        let Marked(Sendable(payload), mark) = self;
        // SAFETY: the sender wrote eight bytes, and gave them up.
        assert_eq!(unsafe { payload.cast::<u64>().read() }, mark);
        free(handle, payload);
    }
}

const THREADS: usize = 4;

/// Each thread marks what it allocates, frees half of it and hands the rest to its neighbour, who looks
/// at the marks and frees it.
fn nothing_is_lost<H: Sharing>(bytes: usize, make: impl FnOnce(Region) -> H) {
    let mut over = Over::new(bytes, make);
    const ROUNDS: u64 = 400;
    let (to, from): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel::<Marked>()).unzip();
    thread::scope(|scope| {
        for (number, inbox) in from.into_iter().enumerate() {
            let (heap, next) = (&over.heap, to[(number + 1) % THREADS].clone());
            scope.spawn(move || {
                let mut handle = heap.handle(number).expect("a handle a thread");
                for round in 0..ROUNDS {
                    let mark = (number as u64) << 32 | round;
                    let size = 8 + round * 37 % 900;
                    let Some(payload) = alloc(&mut handle, size) else { continue };
                    // SAFETY: at least eight bytes that are this thread's alone.
                    unsafe { payload.cast::<u64>().write(mark) };
                    if round % 2 == 0 {
                        next.send(Marked(Sendable(payload), mark)).unwrap();
                    } else {
                        free(&mut handle, payload);
                    }
                    inbox.try_iter().for_each(|sent| sent.check_and_free(&mut handle));
                }
                // What the neighbour still sends, until it has ended.
                drop(next);
                inbox.iter().for_each(|sent| sent.check_and_free(&mut handle));
            });
        }
        drop(to);
    });
    over.heap.inspect(|policy| {
        policy.check().unwrap();
        assert_eq!((policy.totals().used_blocks, policy.totals().free_blocks), (0, 1));
    });
}

#[test]
fn threads_share_without_loss() {
    const BYTES: usize = 4 << 20;
    let policy = |region| FirstFitList::new(region).unwrap();
    nothing_is_lost(BYTES, |region| OneLock::new(policy(region), Posix::new()));
    nothing_is_lost(BYTES, |region| {
        ReaderWriter::new(policy(region), WriterFirst::new(Posix::new()))
    });
    nothing_is_lost(BYTES, |region| {
        Striped::<Vec<_>, FirstFitList, _>::new(region, 3, Posix::new).unwrap()
    });
    nothing_is_lost(BYTES, |region| {
        PerThread::<Vec<_>, FirstFitList>::new(region, THREADS as u32).unwrap()
    });
}

/// To look for a heap that nobody owns must not take one away from its owner.
#[test]
fn a_heap_has_one_owner_however_often_it_is_asked_for() {
    let over =
        Over::new(1 << 20, |region| PerThread::<Vec<_>, FirstFitList>::new(region, 2).unwrap());
    let (first, second) = (over.heap.handle(0), over.heap.handle(0));
    assert!(first.is_some() && second.is_some(), "two heaps, two owners");
    assert!((0..4).all(|thread| over.heap.handle(thread).is_none()), "no third one");
    drop(second);
    assert!(over.heap.handle(0).is_some(), "the one that was given back");
}
