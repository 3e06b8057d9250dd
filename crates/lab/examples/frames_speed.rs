//! Real time of page-frame allocators: bulk, repeat and random, of 4 KiB and 2 MiB, on one and two threads.
//!
//! `cargo run --release -p freehold-lab --example frames_speed [-- --json]`
//!
//! ```text
//!   bulk     allocates half of the memory, then frees all of it in the order of allocation
//!   repeat   allocates one block and frees it, again and again, with half of the memory in use
//!   random   allocates half of the memory, then frees all of it in random order
//! ```
//!
//! These are the workloads of LLFree's own benchmark (Wrenger et al., "LLFree: scalable and optionally persistent
//! page-frame allocation", USENIX ATC 2023, section 5). LLFree is not part of this project: to measure it beside, build
//! its crate elsewhere and call `LLFree::get` and `LLFree::put` where this file calls `alloc` and `free`, on 16 GiB of
//! frames, `Init::FreeAll`, `Classing::simple` with as many cores as threads, and orders 0 and 9; bench/NOTES.md has
//! the numbers.
//! 0 threads is one without a lock. Ours are called by several threads through one lock, as Linux's zones are; LLFree needs none.

use freehold_core::frames::pages::{
    Area, Bank, Frame, Frames, Kind, Link, MAX_ORDER, Memory, POLICIES, Policy, Request, Visitor,
    Zone, dispatch,
};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Instant;

/// 16 GiB.
const FRAMES: u32 = 4 << 20;

const ORDERS: [u8; 2] = [0, 9];
const THREADS: [usize; 2] = [1, 2];

/// Nanoseconds of one kind of call.
#[derive(Default)]
struct Times {
    mean: f64,
    /// Of ten thousand calls all but the longest, and the longest: where a clock was read around each.
    p9999: Option<u64>,
    worst: Option<u64>,
}

impl Times {
    /// Sorts `each`.
    fn of(mut each: Vec<u64>, mean: f64) -> Times {
        each.sort_unstable();
        let at = |permyriad: usize| each.get(each.len() * permyriad / 10_000).copied();
        Times { mean, p9999: at(9_999), worst: each.last().copied() }
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

struct Speed {
    name: &'static str,
    json: bool,
}

impl Visitor for Speed {
    type Out = ();

    fn visit<P: Policy>(self) {
        for order in ORDERS {
            alone::<P>(&self, order);
            for threads in THREADS {
                shared::<P>(&self, order, threads);
            }
        }
    }
}

impl Speed {
    fn tell(&self, workload: &str, order: u8, threads: usize, calls: [(&str, Times); 2]) {
        for (call, Times { mean, p9999, worst }) in calls {
            let Speed { name, json } = self;
            let shown =
                |ns: Option<u64>, none: &str| ns.map_or(none.to_owned(), |ns| ns.to_string());
            if *json {
                println!(
                    "{{\"allocator\":\"{name}\",\"workload\":\"{workload}\",\"order\":{order},\"threads\":{threads},\
                     \"call\":\"{call}\",\"mean_ns\":{mean:.2},\"p9999_ns\":{},\"worst_ns\":{}}}",
                    shown(p9999, "null"),
                    shown(worst, "null")
                );
            } else {
                println!(
                    "{name:20} {workload:7} order {order} {threads} thr {call:6} mean {mean:8.1} p99.99 {:>8} worst {:>9}",
                    shown(p9999, "-"),
                    shown(worst, "-")
                );
            }
        }
    }
}

/// A zone with its metadata for the length of a call.
fn with_zone<P: Policy, R>(call: impl FnOnce(Frames<'_, P>) -> R) -> Option<R> {
    let zone = Zone::new(Frame(0), FRAMES, 1 << 16);
    let needs = Frames::<P>::needs(&zone).ok()?;
    let (mut tags, mut links) = (vec![0; needs.frames], vec![Link::default(); needs.frames]);
    let mut page_blocks = vec![0; needs.page_blocks];
    let (mut areas, mut sets) =
        (vec![Area::default(); needs.areas], vec![Bank::default(); needs.sets]);
    let memory = Memory {
        tags: &mut tags,
        links: &mut links,
        page_blocks: &mut page_blocks,
        areas: &mut areas,
        sets: &mut sets,
    };
    Some(call(Frames::new(zone, memory).ok()?))
}

fn count(order: u8) -> usize {
    (FRAMES / 2) as usize >> order
}

/// Orders as random as a fixed seed makes them.
fn shuffle(held: &mut [Frame]) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..held.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        held.swap(last, (random % (last as u64 + 1)) as usize);
    }
}

/// One thread without a lock; a second time with a clock around each call, for the longest.
fn alone<P: Policy>(speed: &Speed, order: u8) {
    let wanted = Request::new(order.min(MAX_ORDER), Kind::Movable);
    for random in [false, true] {
        let name = if random { "random" } else { "bulk" };
        let times = with_zone::<P, _>(|mut frames| {
            let mut run = |clock: bool| {
                let mut held = Vec::with_capacity(count(order));
                let mut each = Vec::with_capacity(count(order));
                let begin = Instant::now();
                for _ in 0..count(order) {
                    let begin = clock.then(Instant::now);
                    held.extend(frames.alloc(wanted, &mut ()));
                    each.extend(begin.map(|begin| begin.elapsed().as_nanos() as u64));
                }
                let alloc = begin.elapsed().as_nanos() as f64 / held.len() as f64;
                if random {
                    shuffle(&mut held);
                }
                let mut frees = Vec::with_capacity(count(order));
                let (begin, all) = (Instant::now(), held.len());
                for frame in held {
                    let begin = clock.then(Instant::now);
                    let _ = black_box(frames.free(frame, order, &mut ()));
                    frees.extend(begin.map(|begin| begin.elapsed().as_nanos() as u64));
                }
                let free = begin.elapsed().as_nanos() as f64 / all as f64;
                (each, alloc, frees, free)
            };
            run(false); // The first touch of the metadata is the operating system's time.
            let (_, alloc, _, free) = run(false);
            let (each, _, frees, _) = run(true);
            [("alloc", Times::of(each, alloc)), ("free", Times::of(frees, free))]
        });
        if let Some(times) = times {
            speed.tell(name, order, 0, times);
        }
    }
    let times = with_zone::<P, _>(|mut frames| {
        for _ in 0..count(order) {
            let _ = black_box(frames.alloc(wanted, &mut ()));
        }
        let calls = 1_000_000;
        let begin = Instant::now();
        for _ in 0..calls {
            if let Ok(frame) = frames.alloc(wanted, &mut ()) {
                let _ = black_box(frames.free(black_box(frame), order, &mut ()));
            }
        }
        let mean = begin.elapsed().as_nanos() as f64 / f64::from(calls) / 2.0;
        [
            ("alloc", Times { mean, ..Times::default() }),
            ("free", Times { mean, ..Times::default() }),
        ]
    });
    if let Some(times) = times {
        speed.tell("repeat", order, 0, times);
    }
}

/// Threads on one zone behind one lock.
fn shared<P: Policy>(speed: &Speed, order: u8, threads: usize) {
    let wanted = Request::new(order, Kind::Movable);
    let each = count(order) / threads;
    let times = with_zone::<P, _>(|frames| {
        let frames = Spin { taken: AtomicBool::new(false), inner: Mutex::new(frames) };
        let start = Barrier::new(threads);
        let one = || {
            let mut held = Vec::with_capacity(each);
            start.wait();
            let begin = Instant::now();
            (0..each)
                .for_each(|_| held.extend(frames.with(|frames| frames.alloc(wanted, &mut ()))));
            let alloc = begin.elapsed().as_nanos() as f64 / each as f64;
            start.wait();
            let begin = Instant::now();
            for &frame in &held {
                let _ = black_box(frames.with(|frames| frames.free(frame, order, &mut ())));
            }
            (alloc, begin.elapsed().as_nanos() as f64 / each as f64)
        };
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
            let all: Vec<(f64, f64)> =
                all.into_iter().filter_map(|thread| thread.join().ok()).collect();
            let mean =
                |get: fn(&(f64, f64)) -> f64| all.iter().map(get).sum::<f64>() / all.len() as f64;
            let times = |mean| Times { mean, ..Times::default() };
            [("alloc", times(mean(|one| one.0))), ("free", times(mean(|one| one.1)))]
        })
    });
    if let Some(times) = times {
        speed.tell("bulk", order, threads, times);
    }
}

fn main() {
    let json = std::env::args().any(|argument| argument == "--json");
    for policy in POLICIES {
        dispatch(policy.name, Speed { name: policy.name, json });
    }
}
