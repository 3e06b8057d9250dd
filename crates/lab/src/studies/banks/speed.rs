//! Real time of the code that ships: table 6.1's sequence, run on this machine and not simulated.

use freehold_core::frames::{Frame, Frames, Kind, Order, Policy, Request, Visitor, Zone, dispatch};
use freehold_sim::banks::Metadata;
use serde::Serialize;
use std::time::Instant;

/// Pages of the rows of table 6.1.
pub const PAGES: [u32; 5] = [10_000, 100_000, 1_000_000, 2_000_000, 4_000_000];

/// Frames of the zone: 16 GiB, as in the thesis, in banks of 256 MiB.
const FRAMES: u32 = 4 << 20;

/// A cell of table 6.1, and the frees that it names without numbers.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Timed {
    /// Policy.
    pub policy: &'static str,
    /// Pages allocated one by one, none of them freed before the end.
    pub pages: u32,
    /// Nanoseconds of an allocation, without a clock in the loop.
    pub mean_ns: f64,
    /// Of a thousand allocations all but the longest one: read with a clock around each.
    pub p999_ns: u64,
    /// The longest.
    pub worst_ns: u64,
    /// Nanoseconds of a free.
    pub free_ns: f64,
}

/// Measures every policy: seconds of work. Interrupts of the machine are in the longest, as in the thesis.
pub fn measure(policies: &[&'static str]) -> Vec<Timed> {
    let of = |policy: &&'static str| dispatch(policy, Sequence(policy)).unwrap_or_default();
    policies.iter().flat_map(of).collect()
}

struct Sequence(&'static str);

impl Visitor for Sequence {
    type Out = Vec<Timed>;

    fn visit<P: Policy>(self) -> Self::Out {
        PAGES.iter().filter_map(|&pages| timed::<P>(self.0, pages)).collect()
    }
}

fn timed<P: Policy>(policy: &'static str, pages: u32) -> Option<Timed> {
    let zone = Zone::new(Frame(0), FRAMES, 1 << 16);
    let mut metadata = Metadata::of::<P>(&zone).ok()?;
    let mut frames = Frames::<P>::new(zone, metadata.lend()).ok()?;
    let mut held = Vec::with_capacity(pages as usize);
    let page = Request::new(Order::FRAME, Kind::Movable);
    let begin = Instant::now();
    for _ in 0..pages {
        held.push(frames.alloc(page, &mut ()).ok()?);
    }
    let mean_ns = begin.elapsed().as_nanos() as f64 / f64::from(pages);
    let begin = Instant::now();
    for frame in held.drain(..) {
        frames.free(frame, Order::FRAME, &mut ()).ok()?;
    }
    let free_ns = begin.elapsed().as_nanos() as f64 / f64::from(pages);
    let mut each = Vec::with_capacity(pages as usize);
    for _ in 0..pages {
        let begin = Instant::now();
        held.push(frames.alloc(page, &mut ()).ok()?);
        each.push(begin.elapsed().as_nanos() as u64);
    }
    each.sort_unstable();
    let p999_ns = each[each.len() * 999 / 1_000];
    Some(Timed { policy, pages, mean_ns, p999_ns, worst_ns: *each.last()?, free_ns })
}
