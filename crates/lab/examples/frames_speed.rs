//! Real time of page-frame allocators: bulk, repeat and random, of 4 KiB and 2 MiB, on one and two threads.
//!
//! ```text
//! cargo run --release -p freehold-lab --example frames_speed [-- --rounds 5 --only buddy,fullest]
//!
//!   bulk     allocates half of the memory, then frees all of it in the order of allocation
//!   repeat   allocates one block and frees it, again and again, with half of the memory in use
//!   random   allocates half of the memory, then frees all of it in random order
//! ```
//!
//! One line of JSON for each round, allocator and call: the mean of a run without a clock in the loop; p99.99 and the
//! longest of a second run with a clock around each call, whose own time is in them. Allocators take turns within a
//! round. `threads` 0 is one without a lock; ours are called by several threads through one lock, as Linux's zones are.
//!
//! These are the workloads of LLFree's own benchmark (Wrenger et al., "LLFree: scalable and optionally persistent
//! page-frame allocation", USENIX ATC 2023, section 5). LLFree is no part of this project: to measure it in the same run,
//! a program outside includes this file as a module, implements [`Caller`] by `LLFree::get` and `LLFree::put`, and calls
//! [`time`] with one caller a thread (16 GiB of frames, `Init::FreeAll`, `Classing::simple` with as many cores as threads).

use freehold_core::frames::{
    Frame, Frames, Kind, Order, POLICIES, Policy, Request, Visitor, Zone, dispatch,
};
use freehold_sim::banks::Metadata;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Instant;

/// 16 GiB.
pub const FRAMES: u32 = 4 << 20;
/// 4 KiB and 2 MiB.
pub const ORDERS: [Order; 2] = [Order::FRAME, Order::PAGE_BLOCK];
/// See above.
pub const WORKLOADS: [&str; 3] = ["bulk", "repeat", "random"];
/// Pairs of the repeat workload.
const PAIRS: usize = 400_000;

/// One thread's way to an allocator.
pub trait Caller: Send {
    /// A block, if there is one.
    fn alloc(&mut self, order: Order) -> Option<u32>;
    /// Takes it back.
    fn free(&mut self, frame: u32, order: Order);
}

/// Nanoseconds of one kind of call: their sum, or each of them.
#[derive(Default)]
struct Times {
    calls: u64,
    total_ns: u64,
    each: Vec<u64>,
}

impl Times {
    /// Calls `call` that often, a clock around each or around all.
    fn of(calls: usize, clock: bool, mut call: impl FnMut(usize)) -> Times {
        let mut each = Vec::with_capacity(if clock { calls } else { 0 });
        let begin = Instant::now();
        for nth in 0..calls {
            let begin = clock.then(Instant::now);
            call(nth);
            each.extend(begin.map(|begin| begin.elapsed().as_nanos() as u64));
        }
        Times { calls: calls as u64, total_ns: begin.elapsed().as_nanos() as u64, each }
    }

    fn add(&mut self, other: Times) {
        self.calls += other.calls;
        self.total_ns += other.total_ns;
        self.each.extend(other.each);
    }

    fn mean(&self) -> f64 {
        self.total_ns as f64 / self.calls.max(1) as f64
    }
}

/// What one thread does: times of its allocations and frees. (Of `repeat` the pair is one call, told as an allocation.)
fn work(
    caller: &mut impl Caller,
    workload: &str,
    order: Order,
    threads: usize,
    clock: bool,
    start: &Barrier,
) -> [Times; 2] {
    let count = (FRAMES / 2 / order.frames()) as usize;
    let count = count / threads.max(1);
    let mut held = Vec::with_capacity(count);
    start.wait();
    let allocs = Times::of(count, clock, |_| held.extend(caller.alloc(order)));
    start.wait();
    if workload == "repeat" {
        let pairs = Times::of(PAIRS / threads.max(1), clock, |_| {
            if let Some(frame) = caller.alloc(order) {
                caller.free(black_box(frame), order);
            }
        });
        held.into_iter().for_each(|frame| caller.free(frame, order));
        return [pairs, Times::default()];
    }
    if workload == "random" {
        shuffle(&mut held);
    }
    start.wait();
    let frees = Times::of(held.len(), clock, |nth| caller.free(held[nth], order));
    [allocs, frees]
}

/// Orders as random as a fixed seed makes them.
fn shuffle(held: &mut [u32]) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..held.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        held.swap(last, (random % (last as u64 + 1)) as usize);
    }
}

/// Runs a workload on one allocator, a caller for each thread, and prints a line for each kind of call. (`shown` is 0 where
/// the one thread takes no lock.)
pub fn time<C: Caller>(
    round: u32,
    name: &str,
    shown: usize,
    workload: &str,
    order: Order,
    callers: &mut [C],
) {
    let threads = callers.len();
    let mut go = |clock: bool| {
        let start = Barrier::new(threads);
        std::thread::scope(|scope| {
            let all: Vec<_> = callers
                .iter_mut()
                .map(|caller| scope.spawn(|| work(caller, workload, order, threads, clock, &start)))
                .collect();
            let mut sums = [Times::default(), Times::default()];
            for times in all.into_iter().filter_map(|thread| thread.join().ok()) {
                for (sum, one) in sums.iter_mut().zip(times) {
                    sum.add(one);
                }
            }
            sums
        })
    };
    if shown < 2 {
        go(false); // The first touch of the metadata is the operating system's time.
    }
    let (plain, mut clocked) = (go(false), go(true));
    let calls = if workload == "repeat" { ["pair", ""] } else { ["alloc", "free"] };
    for ((call, plain), clocked) in calls.into_iter().zip(&plain).zip(&mut clocked) {
        clocked.each.sort_unstable();
        let Some(worst) = clocked.each.last() else { continue };
        let p9999 = clocked.each[clocked.each.len() * 9_999 / 10_000];
        let mean = plain.mean();
        println!(
            "{{\"round\":{round},\"allocator\":\"{name}\",\"workload\":\"{workload}\",\"order\":{order},\"threads\":{shown},\
             \"call\":\"{call}\",\"mean_ns\":{mean:.2},\"p9999_ns\":{p9999},\"worst_ns\":{worst}}}"
        );
    }
}

/// A lock that spins: what a kernel has.
struct Spin<T> {
    taken: AtomicBool,
    inner: Mutex<T>,
}

impl<T> Spin<T> {
    fn with<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        while self.taken.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // Never contended: the flag is held. It only makes this safe code.
        let result = match self.inner.lock() {
            Ok(mut inner) => call(&mut inner),
            Err(_) => std::process::abort(),
        };
        self.taken.store(false, Ordering::Release);
        result
    }
}

impl<P: Policy> Caller for &mut Frames<'_, P> {
    fn alloc(&mut self, order: Order) -> Option<u32> {
        let got = Frames::alloc(self, Request::new(order, Kind::Movable), &mut ());
        got.ok().map(|frame| frame.0)
    }

    fn free(&mut self, frame: u32, order: Order) {
        let _ = black_box(Frames::free(self, Frame(frame), order, &mut ()));
    }
}

impl<P: Policy> Caller for &Spin<Frames<'_, P>> {
    fn alloc(&mut self, order: Order) -> Option<u32> {
        self.with(|mut frames| Caller::alloc(&mut frames, order))
    }

    fn free(&mut self, frame: u32, order: Order) {
        self.with(|mut frames| Caller::free(&mut frames, frame, order));
    }
}

struct Ours {
    round: u32,
    name: &'static str,
    workload: &'static str,
    order: Order,
}

impl Visitor for Ours {
    type Out = ();

    fn visit<P: Policy>(self) {
        let Ours { round, name, workload, order } = self;
        let zone = Zone::new(Frame(0), FRAMES, 1 << 16);
        let Ok(mut metadata) = Metadata::of::<P>(&zone) else { return };
        let Ok(mut frames) = Frames::<P>::new(zone, metadata.lend()) else { return };
        time(round, name, 0, workload, order, &mut [&mut frames]);
        let spin = Spin { taken: AtomicBool::new(false), inner: Mutex::new(frames) };
        for threads in [1, 2] {
            time(round, name, threads, workload, order, &mut vec![&spin; threads]);
        }
    }
}

/// One policy of ours.
pub fn ours(round: u32, name: &'static str, workload: &'static str, order: Order) {
    dispatch(name, Ours { round, name, workload, order });
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut rounds, mut only) = (1, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--rounds" => rounds = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(1),
            "--only" => only = arguments.next(),
            other => return eprintln!("{other}: --rounds N and --only NAME,NAME are known"),
        }
    }
    let named = |name: &str| only.as_ref().is_none_or(|only| only.split(',').any(|of| of == name));
    for round in 0..rounds {
        for workload in WORKLOADS {
            for order in ORDERS {
                for policy in POLICIES.iter().filter(|policy| named(policy.name)) {
                    ours(round, policy.name, workload, order);
                }
            }
        }
    }
}
