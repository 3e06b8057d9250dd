//! Processor time per call of every registered policy: `cargo bench -p freehold-blocks --bench calls`.
//!
//! Two pictures. *Warm*: 64 live objects of small sizes, one freed and one asked for in turn, all
//! in the cache. *Crowd*: 100,000 live objects of mixed sizes, one chosen at random freed and
//! another size asked for, the state that a replay of a large program is in. The plain lists run
//! the crowd with 4,000 objects: they are not meant for more. Arguments name the policies to run.

use freehold_blocks::Region;
use freehold_blocks::align::Align;
use freehold_blocks::policy::{POLICIES, Policy, Visitor, dispatch};
use freehold_blocks::probe::{Probe, Step};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::LazyLock;
use std::time::Instant;

const REGION: usize = 1 << 30;

/// Memory for a region: fresh from the system, so that only what is touched is there.
struct Memory {
    base: NonNull<u8>,
    layout: Layout,
}

impl Memory {
    fn new() -> Memory {
        let layout = Layout::from_size_align(REGION, 1 << 12).expect("a plain layout");
        // SAFETY: the layout has a size.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("1 GiB of address space");
        Memory { base, layout }
    }

    fn policy<P: Policy>(&self) -> P {
        // SAFETY: one policy at a time lives on this memory, and dies before it (see `time`).
        let region = unsafe { Region::new(self.base, REGION as u64) };
        region.and_then(P::new).expect("the region is long enough")
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// xorshift64 (Marsaglia, 2003): the same numbers on every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize * n) >> 32
    }

    /// Every doubling from 16 B to 4 KiB is equally likely, every size in it too.
    fn mixed(&mut self) -> u64 {
        let log2 = 4 + self.below(8) as u64;
        (1 << log2) + (self.next() >> 20) % (1 << log2)
    }

    fn small(&mut self) -> u64 {
        16 + (self.next() >> 20) % 240
    }
}

/// Frees and asks in turn: what a program with a steady number of objects does.
struct Churn<P> {
    policy: P,
    objects: Vec<NonNull<u8>>,
    size: fn(&mut Dice) -> u64,
    dice: Dice,
    // Outlives the policy: fields are dropped in order.
    _memory: Memory,
}

impl<P: Policy> Churn<P> {
    /// `live` objects, freed and asked for often enough for fragmentation to settle.
    fn settled(live: usize, size: fn(&mut Dice) -> u64) -> Churn<P> {
        let memory = Memory::new();
        let policy = memory.policy();
        let dice = Dice(0x9e37_79b9_7f4a_7c15);
        let mut churn = Churn { policy, objects: Vec::new(), size, dice, _memory: memory };
        for _ in 0..live {
            let object = churn.ask(&mut ());
            churn.objects.push(object);
        }
        churn.turn(10 * live, &mut ());
        churn
    }

    fn ask<Q: Probe>(&mut self, probe: &mut Q) -> NonNull<u8> {
        let size = (self.size)(&mut self.dice);
        self.policy.alloc(size, Align::ONE, probe).expect("the region is long enough")
    }

    /// `rounds` times two calls.
    fn turn<Q: Probe>(&mut self, rounds: usize, probe: &mut Q) {
        for _ in 0..rounds {
            let i = self.dice.below(self.objects.len());
            // SAFETY: it lives, and its place in the table is overwritten at once.
            unsafe { self.policy.free(self.objects[i], probe) };
            self.objects[i] = black_box(self.ask(probe));
        }
    }

    /// Nanoseconds per call.
    fn time(&mut self, calls: usize) -> f64 {
        let start = processor_ns();
        self.turn(calls / 2, &mut ());
        (processor_ns() - start) as f64 / calls as f64
    }

    /// Words touched and lines missed per call.
    fn touch(&mut self, calls: usize) -> (f64, f64) {
        let mut cache = Cache { lines: vec![u64::MAX; 1 << 14], words: 0, missed: 0 };
        self.turn(calls / 2, &mut cache);
        (cache.words, cache.missed) = (0, 0);
        self.turn(calls / 2, &mut cache);
        (cache.words as f64 / calls as f64, cache.missed as f64 / calls as f64)
    }
}

/// A cache of 1 MiB, direct-mapped, lines of 64 B: unlike a time, the same on every machine.
struct Cache {
    lines: Vec<u64>,
    words: u64,
    missed: u64,
}

impl Probe for Cache {
    fn step(&mut self, step: Step) {
        let Step::Touch { at } = step else { return };
        let line = at / 64;
        let place = line as usize % self.lines.len();
        self.words += 1;
        self.missed += u64::from(self.lines[place] != line);
        self.lines[place] = line;
    }
}

/// Nanoseconds that this thread has spent on a processor: other programs may be running, too.
/// Where the kernel does not say, the clock on the wall.
fn processor_ns() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let wall = START.elapsed().as_nanos() as u64;
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    told.and_then(|told| told.split(' ').next()?.parse().ok()).unwrap_or(wall)
}

struct Row(&'static str);

impl Visitor for Row {
    type Out = ();

    fn visit<P: Policy>(self) {
        let list = self.0.ends_with("-list");
        let (crowd, calls) = if list { (4_000, 100_000) } else { (100_000, 2_000_000) };
        let warm = Churn::<P>::settled(64, Dice::small).time(4_000_000);
        let mut churn = Churn::<P>::settled(crowd, Dice::mixed);
        let crowded = churn.time(calls);
        let (words, missed) = churn.touch(calls / 4);
        let free = churn.policy.totals().free_blocks;
        assert_eq!(churn.policy.check(), Ok(()));
        let per_second = |ns: f64| 1e3 / ns;
        println!(
            "{:<16}{warm:>7.1}{:>8.2}{crowd:>9}{free:>8}{crowded:>9.1}{:>8.2}{words:>8.1}{missed:>8.1}",
            self.0,
            per_second(warm),
            per_second(crowded)
        );
    }
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!("                  warm              crowd");
    println!("policy              ns     M/s  objects    free       ns     M/s   words  misses");
    for policy in POLICIES {
        if asked.is_empty() || asked.iter().any(|name| name == policy.name) {
            dispatch(policy.name, Row(policy.name)).expect("registered");
        }
    }
}
