//! Calls of one page-frame policy, to be counted from outside: `frames_calls POLICY WORKLOAD ORDER`.
//!
//! The workloads are those of `freehold-lab`'s `frames_speed`, on 4 GiB: bulk, repeat, random; 4 KiB or 2 MiB by the
//! order. Any other name of a workload allocates and does nothing more, so that a caller can take off what
//! making the zone costs. Prints how many calls were made beyond that.

use freehold_core::frames::{Frame, Frames, Kind, Order, Policy, Request, Visitor, Zone, dispatch};
use freehold_testkit::FrameMemory;
use std::hint::black_box;

const FRAMES: u32 = 1 << 20;
/// Pairs, at least.
const PAIRS: usize = 1 << 18;

struct Calls<'a> {
    workload: &'a str,
    order: Order,
}

impl Calls<'_> {
    fn alloc<P: Policy>(&self, frames: &mut Frames<'_, P>) -> Option<Frame> {
        frames.alloc(Request::new(black_box(self.order), Kind::Movable), &mut ()).ok()
    }

    fn free<P: Policy>(&self, frames: &mut Frames<'_, P>, frame: Frame) {
        let _ = black_box(frames.free(black_box(frame), black_box(self.order), &mut ()));
    }

    /// Fills half of the zone and empties it.
    fn round<P: Policy>(&self, frames: &mut Frames<'_, P>, held: &mut Vec<Frame>, order: &[u32]) {
        for _ in 0..order.len() {
            held.extend(self.alloc(frames));
        }
        for &nth in order {
            self.free(frames, held[nth as usize]);
        }
        held.clear();
    }
}

impl Visitor for Calls<'_> {
    type Out = usize;

    fn visit<P: Policy>(self) -> usize {
        let zone = Zone::new(Frame(0), FRAMES, 1 << 16);
        let mut memory = FrameMemory::new(Frames::<P>::needs(&zone).expect("a plain zone"));
        let mut frames = Frames::<P>::new(zone, memory.lend()).expect("what it needs");
        let count = FRAMES as usize / 2 / self.order.frames() as usize;
        let mut order: Vec<u32> = (0..count as u32).collect();
        if self.workload == "random" {
            shuffle(&mut order);
        }
        let mut held = Vec::with_capacity(count);
        match self.workload {
            "bulk" | "random" => {
                let rounds = PAIRS.div_ceil(count);
                (0..rounds).for_each(|_| self.round(&mut frames, &mut held, &order));
                rounds * count * 2
            }
            "repeat" => {
                for _ in 0..PAIRS {
                    let frame = self.alloc(&mut frames).expect("the zone is empty");
                    self.free(&mut frames, frame);
                }
                PAIRS * 2
            }
            _ => 0,
        }
    }
}

/// Orders as random as a fixed seed makes them.
fn shuffle(order: &mut [u32]) {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..order.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(last, (random % (last as u64 + 1)) as usize);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [policy, workload, order] = arguments.as_slice() else {
        return eprintln!("frames_calls POLICY WORKLOAD ORDER");
    };
    let order = order.parse().ok().and_then(Order::new).expect("an order");
    let calls = dispatch(policy, Calls { workload, order }).expect("a registered policy");
    println!("{calls}");
}
