//! The real-time heap's two modes: under the oracle, beside their simpler twins, and misused.

use freehold_blocks::align::Align;
use freehold_blocks::check::Broken;
use freehold_blocks::policy::{BlockInfo, Inspect, Policy, Totals};
use freehold_blocks::probe::Probe;
use freehold_blocks::realtime::rings::{FIRST_LOOK, SECOND_LOOK};
use freehold_blocks::realtime::{BoundedHeap, FastHeap, Misuse, StrictHeap, Unfit};
use freehold_blocks::{BlockHeap, Counts, DmrtLists, DmrtParams, Region};
use freehold_testkit::run::step;
use freehold_testkit::{Fault, Op, Program, ShadowHeap, SimRegion, hunt, run_program};
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// The strict mode as a policy, for the oracle: totals are counted, addresses begin at the area.
struct Strict<const SMALLEST: u64> {
    heap: StrictHeap,
    peak: u64,
}

impl<const SMALLEST: u64> Policy for Strict<SMALLEST> {
    fn new(region: Region) -> Option<Self> {
        Some(Strict { heap: StrictHeap::over(region, SMALLEST).ok()?, peak: 0 })
    }

    fn alloc<P: Probe>(&mut self, size: u64, align: Align, _: &mut P) -> Option<NonNull<u8>> {
        let payload = self.heap.malloc_aligned(size, align)?;
        self.peak = self.peak.max(self.totals().extent);
        Some(payload)
    }

    unsafe fn free<P: Probe>(&mut self, payload: NonNull<u8>, _: &mut P) {
        self.heap.free(payload.as_ptr()).expect("the oracle frees what lives");
    }

    unsafe fn resize_in_place<P: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        _: &mut P,
    ) -> bool {
        let done = self.heap.resize_in_place(payload, size).expect("it lives");
        self.peak = self.peak.max(self.totals().extent);
        done
    }

    unsafe fn usable(&self, payload: NonNull<u8>) -> u64 {
        self.heap.usable(payload).expect("it lives")
    }
}

impl<const SMALLEST: u64> Inspect for Strict<SMALLEST> {
    fn totals(&self) -> Totals {
        let mut totals = Totals { capacity: self.heap.area(), ..Totals::default() };
        self.for_each_block(|block| {
            if block.free {
                totals.free += block.size;
                totals.free_blocks += 1;
            } else {
                totals.used_blocks += 1;
                totals.extent = block.offset + block.size;
            }
        });
        totals.peak_extent = self.peak;
        totals
    }

    fn largest_free(&self) -> u64 {
        let mut largest = 0;
        self.for_each_block(|block| {
            if block.free {
                largest = largest.max(block.size);
            }
        });
        largest
    }

    fn for_each_block(&self, visit: impl FnMut(BlockInfo)) {
        self.heap.for_each_block(visit);
    }

    fn check(&self) -> Result<(), Broken> {
        self.heap.check()
    }
}

fn under_the_oracle<P: Policy>(cases: u32) {
    let found = hunt(cases, |program| run_program::<P>(program, 1).map(drop));
    if let Err(failure) = found {
        panic!("{failure:?}");
    }
}

#[test]
fn fast_mode_under_the_oracle() {
    under_the_oracle::<FastHeap<Counts>>(48);
    under_the_oracle::<FastHeap<()>>(16);
}

#[test]
fn strict_mode_under_the_oracle() {
    std::thread::scope(|scope| {
        scope.spawn(|| under_the_oracle::<Strict<16>>(24));
        scope.spawn(|| under_the_oracle::<Strict<64>>(24));
    });
}

/// Runs a program, call by call, and tells where each object lies, from the first block on.
fn places<P: Policy>(
    mut heap: ShadowHeap<P>,
    program: &Program,
) -> Result<Vec<Option<u64>>, Fault> {
    let first = heap.blocks().first().map_or(0, |block| block.offset);
    let mut places = Vec::new();
    for (id, &op) in (0..).zip(&program.ops) {
        places.push(step(&mut heap, id, op)?.map(|at| at - first));
    }
    heap.verify()?;
    Ok(places)
}

#[test]
fn fast_mode_chooses_what_dmrt_chooses() {
    let found = hunt(128, |program| {
        // Alignments look at addresses, which differ by what lies in front of the blocks.
        let unaligned = |op: &Op| !matches!(op, Op::Aligned(_, log2) if *log2 > 4);
        let ops = program.ops.iter().copied().filter(unaligned).collect();
        let program = &Program { ops, ..program.clone() };
        let Some(fast) = ShadowHeap::<FastHeap>::new(SimRegion::new(program.region)) else {
            return Ok(());
        };
        let blocks = fast.policy().totals().capacity as usize;
        let dmrt = ShadowHeap::with(SimRegion::new(blocks + 16), |region| {
            let looks = DmrtParams::PAPER.with_first_look(FIRST_LOOK).with_second_look(SECOND_LOOK);
            BlockHeap::with_index(region, DmrtLists::<0>::with(looks))
        });
        let dmrt = dmrt.expect("as long");
        let (fast, dmrt) = (places(fast, program), places(dmrt, program));
        let (fast, dmrt) = (fast.map_err(|f| f.to_string())?, dmrt.map_err(|f| f.to_string())?);
        match fast.iter().zip(&dmrt).position(|(fast, dmrt)| fast != dmrt) {
            None => Ok(()),
            Some(i) => Err(format!("call {i}: fast {:?}, dmrt {:?}", fast[i], dmrt[i])),
        }
    });
    if let Err(failure) = found {
        panic!("{failure:?}");
    }
}

/// Aligned first fit as one would write it down: by unit, the end of the used block that begins there.
struct Plain {
    units: u64,
    used: BTreeMap<u64, u64>,
}

impl Plain {
    fn lowest(&self, order: u32) -> Option<u64> {
        let len = 1 << order;
        let mut at = 0;
        while at + len <= self.units {
            let below = self.used.range(..at + len).next_back();
            match below {
                Some((_, &end)) if end > at => at = end.next_multiple_of(len),
                _ => return Some(at),
            }
        }
        None
    }
}

/// Numbers that look random and are the same on every run (SplitMix64: Steele, Lea, Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % end
    }
}

/// `calls` at random on an area of so many bytes; every block must be where aligned first fit puts it.
fn strict_is_aligned_first_fit(bytes: usize, longest: u32, calls: usize) {
    const UNIT: u64 = 32;
    let mut memory = SimRegion::new(bytes);
    // SAFETY: the heap ends before the memory.
    let region = unsafe { memory.region() };
    let base = region.base().addr().get() as u64;
    let mut heap = StrictHeap::over(region, UNIT).expect("long enough");
    let mut plain = Plain { units: heap.area() / UNIT, used: BTreeMap::new() };
    let mut random = Random(longest.into());
    let mut live = Vec::new();
    for call in 0..calls {
        if random.below(100) < 53 || live.is_empty() {
            let order = random.below(longest.into()) as u32;
            let size = (UNIT << order) - random.below(UNIT << order) / 2;
            let order = size.div_ceil(UNIT).next_power_of_two().ilog2();
            let found = heap.malloc(size);
            let at = found.map(|payload| (payload.addr().get() as u64 - base) / UNIT);
            assert_eq!(at, plain.lowest(order), "call {call}: {size} bytes");
            if let (Some(payload), Some(at)) = (found, at) {
                plain.used.insert(at, at + (1 << order));
                live.push((payload, at));
            }
        } else {
            let (payload, at) = live.swap_remove(random.below(live.len() as u64) as usize);
            assert_eq!(heap.free(payload.as_ptr()), Ok(()));
            plain.used.remove(&at);
        }
        if call % 1024 == 0 {
            assert_eq!(heap.check(), Ok(()), "after call {call}");
        }
    }
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn strict_mode_takes_the_lowest_aligned_place() {
    strict_is_aligned_first_fit(3_000, 5, 4_000); // two levels
    strict_is_aligned_first_fit(100_000, 9, 20_000);
    strict_is_aligned_first_fit(1 << 20, 14, 20_000); // three
    strict_is_aligned_first_fit(20 << 20, 18, 6_000); // four
}

/// Runs of frees by the owner and by the inbox, contents left alone: the heap is whole afterwards.
fn what_others_free_comes_back<H: BoundedHeap>(mut heap: H) {
    // SAFETY: used in here only.
    let inbox = unsafe { heap.inbox() };
    let mut random = Random(1);
    let mut live: Vec<NonNull<u8>> = Vec::new();
    let mut sent = Vec::new();
    for call in 0..20_000 {
        match random.below(8) {
            0..4 => live.extend(heap.malloc(random.below(300))),
            4..6 if !live.is_empty() => {
                let one = live.swap_remove(random.below(live.len() as u64) as usize);
                assert_eq!(inbox.free(one), Ok(()));
                assert_eq!(inbox.free(one), Err(Misuse::Sent), "sent twice");
                assert_eq!(heap.free(one.as_ptr()), Err(Misuse::Sent), "sent, then freed");
                assert_eq!(heap.resize_in_place(one, 1), Err(Misuse::Sent));
                sent.push(one);
            }
            6 if !live.is_empty() => {
                let one = live.swap_remove(random.below(live.len() as u64) as usize);
                assert_eq!(heap.free(one.as_ptr()), Ok(()));
                assert_eq!(heap.free(one.as_ptr()), Err(Misuse::NotInUse), "freed twice");
                assert_eq!(inbox.free(one), Err(Misuse::NotInUse), "freed, then sent");
            }
            _ => {
                heap.take_in();
            }
        }
        if call % 512 == 0 {
            assert_eq!(heap.check(), Ok(()));
        }
    }
    while heap.take_in() {}
    assert!(!sent.is_empty());
    for one in live {
        assert_eq!(heap.free(one.as_ptr()), Ok(()));
    }
    assert_eq!(heap.check(), Ok(()));
}

/// A heap over `memory`, whose region must not end before it.
fn region(memory: &mut SimRegion) -> Region {
    // SAFETY: every caller's heap ends before its memory.
    unsafe { memory.region() }
}

#[test]
fn the_inbox_brings_back_every_block_once() {
    let mut memory = SimRegion::new(1 << 20);
    what_others_free_comes_back(FastHeap::<()>::over(region(&mut memory)).expect("long enough"));
    let mut memory = SimRegion::new(1 << 20);
    let strict = StrictHeap::over(region(&mut memory), 32);
    what_others_free_comes_back(strict.expect("long enough"));
}

/// Pointers of every wrong kind are refused and leave the heap as it was; absurd sizes get none.
fn misuse_is_an_error<H: BoundedHeap>(mut heap: H) {
    let one = heap.malloc(100).expect("room");
    let two = heap.malloc(0).expect("nothing at all is a block of its own");
    assert_ne!(one, two);
    for size in [u64::MAX, u64::MAX - 7, u64::MAX - 8, u64::MAX - 24, 1 << 63, 1 << 40, 1 << 33] {
        assert_eq!(heap.malloc(size), None, "{size}");
        assert_eq!(heap.resize_in_place(one, size), Ok(false), "{size}");
    }
    let huge = Align::from_log2(63).expect("an alignment");
    assert_eq!(heap.malloc_aligned(8, huge), None);
    let mut own = [0_u64; 4];
    let foreign = NonNull::from(&mut own).cast::<u8>();
    let inside = one.map_addr(|at| at.saturating_add(64));
    let crooked = one.map_addr(|at| at.saturating_add(1));
    let before = one.map_addr(|at| at.saturating_add(1 << 40));
    // SAFETY: used in here only.
    let inbox = unsafe { heap.inbox() };
    let first = NonNull::<u8>::dangling();
    for (wrong, why) in [
        (foreign, Misuse::Foreign),
        (before, Misuse::Foreign),
        (first, Misuse::Foreign),
        (crooked, Misuse::Foreign),
        (inside, Misuse::NotInUse),
    ] {
        assert_eq!(heap.free(wrong.as_ptr()), Err(why));
        assert_eq!(heap.usable(wrong), Err(why));
        assert_eq!(heap.resize_in_place(wrong, 8), Err(why));
        assert_eq!(inbox.free(wrong), Err(why));
        assert!(!why.to_string().is_empty());
    }
    assert_eq!(heap.check(), Ok(()));
    assert_eq!(heap.free(one.as_ptr()), Ok(()));
    assert_eq!(heap.free(one.as_ptr()), Err(Misuse::NotInUse));
    assert_eq!(heap.free(two.as_ptr()), Ok(()));
    assert_eq!(heap.check(), Ok(()));
}

#[test]
fn misuse_of_either_mode_is_an_error() {
    let mut memory = SimRegion::new(1 << 16);
    misuse_is_an_error(FastHeap::<()>::over(region(&mut memory)).expect("long enough"));
    let mut memory = SimRegion::new(1 << 16);
    misuse_is_an_error(StrictHeap::over(region(&mut memory), 32).expect("long enough"));
}

#[test]
fn regions_that_will_not_do_are_refused_with_the_length_that_would() {
    for len in 0..6_000 {
        let mut memory = SimRegion::new(len);
        let fast = FastHeap::<()>::over(region(&mut memory));
        let least = FastHeap::<()>::least();
        assert_eq!(fast.is_ok(), len as u64 / 16 * 16 >= least, "{len} bytes");
        match fast {
            Err(why) => assert_eq!(why, Unfit::TooShort { needed: least }),
            Ok(mut heap) => {
                assert!(heap.malloc(1).is_some() && BoundedHeap::check(&heap).is_ok());
            }
        }
        match StrictHeap::over(region(&mut memory), 64) {
            Err(why) => {
                assert_eq!(why, Unfit::TooShort { needed: 64 + 8 + 16 + 9 + 7 + 8 }, "{len}")
            }
            Ok(mut heap) => assert!(heap.malloc(1).is_some() && heap.check().is_ok()),
        }
    }
    let mut memory = SimRegion::new(4096);
    for smallest in [0, 8, 24, 1 << 17] {
        let refused = StrictHeap::over(region(&mut memory), smallest);
        assert_eq!(refused.err(), Some(Unfit::SmallestBlock));
    }
}

#[test]
fn a_strict_block_grows_where_it_lies_only_if_the_longer_place_is_aligned_and_free() {
    let mut memory = SimRegion::new(1 << 16);
    let mut heap = StrictHeap::over(region(&mut memory), 32).expect("long enough");
    let blocks: Vec<_> = (0..4).map(|_| heap.malloc(32).expect("room")).collect();
    assert_eq!(heap.resize_in_place(blocks[0], 64), Ok(false), "the neighbour is used");
    assert_eq!(heap.free(blocks[1].as_ptr()), Ok(()));
    assert_eq!(heap.resize_in_place(blocks[0], 33), Ok(true));
    assert_eq!(heap.usable(blocks[0]), Ok(64));
    assert_eq!(heap.resize_in_place(blocks[3], 64), Ok(false), "odd units begin no longer block");
    assert_eq!(heap.free(blocks[2].as_ptr()), Ok(()));
    assert_eq!(heap.free(blocks[3].as_ptr()), Ok(()));
    assert_eq!(heap.resize_in_place(blocks[0], 32 << 8), Ok(true), "across levels");
    assert_eq!(heap.check(), Ok(()));
    assert_eq!(heap.resize_in_place(blocks[0], 1), Ok(true));
    assert_eq!(heap.usable(blocks[0]), Ok(32));
    assert_eq!(heap.check(), Ok(()));
    assert_eq!(heap.free(blocks[0].as_ptr()), Ok(()));
    assert_eq!(heap.check(), Ok(()));
}
