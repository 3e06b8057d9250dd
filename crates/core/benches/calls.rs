//! Processor time per call of every registered policy: `cargo bench -p freehold-core --bench calls`.
//!
//! Two pictures. *Warm*: 64 live objects of small sizes, one freed and one asked for in turn, all
//! in the cache. *Crowd*: 100,000 live objects of mixed sizes, one chosen at random freed and
//! another size asked for, the state that a replay of a large program is in. The plain lists run
//! the crowd with 4,000 objects: they are not meant for more. Arguments name the policies to run.

use freehold_core::blocks::Region;
use freehold_core::policy::{POLICIES, Policy, Visitor, dispatch};
use freehold_core::units::Align;
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
        let layout = Layout::from_size_align(REGION, 1 << 21).expect("a plain layout");
        // SAFETY: the layout has a size.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).expect("1 GiB of address space");
        unsafe extern "C" { fn madvise(p: *mut u8, n: usize, a: i32) -> i32; }
        if std::env::var("HUGE").is_ok() { unsafe { madvise(base.as_ptr(), REGION, 14) }; }
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

/// Frees and asks in turn with `live` objects; nanoseconds per call.
fn time<P: Policy>(live: usize, calls: usize, size: fn(&mut Dice) -> u64) -> f64 {
    let memory = Memory::new();
    let mut policy = memory.policy::<P>();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let ask = |policy: &mut P, dice: &mut Dice| {
        policy.alloc(size(dice), Align::ONE, &mut ()).expect("the region is long enough")
    };
    let mut objects: Vec<_> = (0..live).map(|_| ask(&mut policy, &mut dice)).collect();
    let mut turn = |policy: &mut P, rounds: usize| {
        for _ in 0..rounds {
            let object = &mut objects[dice.below(live)];
            // SAFETY: it lives, and its place in the table is overwritten at once.
            unsafe { policy.free(*object, &mut ()) };
            *object = black_box(ask(policy, &mut dice));
        }
    };
    turn(&mut policy, calls / 4); // until fragmentation has settled
    let start = processor_ns();
    turn(&mut policy, calls / 2);
    let spent = processor_ns() - start;
    assert_eq!(policy.check(), Ok(()));
    spent as f64 / calls as f64
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
        let (crowd, calls) = if list { (4_000, 100_000) } else { (100_000, 4_000_000) };
        let warm = time::<P>(64, 8_000_000, Dice::small);
        let crowded = time::<P>(crowd, calls, Dice::mixed);
        let million = 1e3;
        println!(
            "{:<16}{warm:>8.1}{:>10.1}{crowd:>12}{crowded:>10.1}{:>10.2}",
            self.0,
            million / warm,
            million / crowded
        );
    }
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!("{:<16}{:>8}{:>10}{:>12}{:>10}{:>10}", "", "warm", "", "crowd of", "", "");
    println!("{:<16}{:>8}{:>10}{:>12}{:>10}{:>10}", "policy", "ns", "M calls/s", "objects", "ns", "M calls/s");
    for policy in POLICIES {
        if asked.is_empty() || asked.iter().any(|name| name == policy.name) {
            dispatch(policy.name, Row(policy.name)).expect("registered");
        }
    }
}
