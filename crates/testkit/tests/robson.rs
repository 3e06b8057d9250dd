//! Robson's adversary against the strict mode: its memory stays within the proved bound, and the
//! adversary is a real one.

use freehold_blocks::realtime::StrictHeap;
use freehold_testkit::SimRegion;
use std::ptr::NonNull;

const UNIT: u64 = 16;

/// A block in use: where, in units, how long, and its payload.
type Held = (u64, u64, NonNull<u8>);

/// Plays with at most `live` units in use and blocks of 1 to 2^`log2_n`: how far the heap reached,
/// in units, and how many calls found no room.
///
/// Robson, "Bounds for some functions concerning dynamic storage allocation", JACM 21 (3), 1974: all of
/// the live memory is filled with blocks of 2^k; of them those stay that hold a word at a certain place of
/// every 2^(k+1), the better one of two; then the same with blocks of 2^(k+1).
fn reach(live: u64, log2_n: u32, room: u64) -> (u64, u64) {
    let mut memory = SimRegion::new((room * UNIT) as usize);
    // SAFETY: the heap ends before the memory.
    let region = unsafe { memory.region() };
    let base = region.base().addr().get() as u64;
    let mut heap = StrictHeap::over(region, UNIT).expect("long enough");
    let (mut held, mut reached, mut refused) = (Vec::<Held>::new(), 0, 0);
    let mut place = 0;
    for order in 0..=log2_n {
        let len = 1 << order;
        let used: u64 = held.iter().map(|held| held.1).sum();
        for _ in 0..(live - used) / len {
            let Some(payload) = heap.malloc(len * UNIT) else {
                refused += 1;
                continue;
            };
            let at = (payload.addr().get() as u64 - base) / UNIT;
            held.push((at, len, payload));
            reached = reached.max(at + len);
        }
        let holds = |place: u64, &(at, held_len, _): &Held| {
            // Whether a word at `place` of some 2 * len is in the block.
            let from = at.wrapping_sub(place) % (2 * len);
            from == 0 || from + held_len > 2 * len
        };
        let stays = |place: u64| -> u64 {
            held.iter().filter(|held| holds(place, held)).map(|held| held.1).sum()
        };
        if stays(place) < stays(place + len) {
            place += len;
        }
        let (stay, go): (Vec<_>, Vec<_>) = held.iter().partition(|held| holds(place, held));
        held = stay;
        for (_, _, payload) in go {
            assert_eq!(heap.free(payload.as_ptr()), Ok(()));
        }
        assert_eq!(heap.check(), Ok(()));
    }
    (reached, refused)
}

#[test]
fn the_adversary_never_gets_beyond_the_bound_and_gets_near_it() {
    for log2_n in [1, 2, 3, 4, 6, 8, 10, 12] {
        let n = 1_u64 << log2_n;
        let live = 4 * n.max(64);
        let bound = live * (2 + u64::from(log2_n)) / 2;
        let (reached, refused) = reach(live, log2_n, 2 * bound + 4096);
        assert_eq!(refused, 0, "n = {n}");
        assert!(reached <= bound, "n = {n}: reached {reached} units, proved {bound}");
        assert!(4 * reached >= 3 * bound, "n = {n}: {reached} of {bound}: no adversary to fear");
    }
}

#[test]
fn a_region_of_what_is_enough_refuses_the_adversary_nothing() {
    for log2_n in [4, 8, 12] {
        let n = 1_u64 << log2_n;
        let live = 3 * n + 5; // the proof wants a multiple of 2 n: rounded up
        // The adversary asks for powers of two, so that rounding doubles nothing: half of it is enough.
        let enough = StrictHeap::enough(live * UNIT / 2, n * UNIT, UNIT).expect("short enough");
        let (_, refused) = reach(live, log2_n, enough.div_ceil(UNIT));
        assert_eq!(refused, 0, "n = {n}");
    }
}

#[test]
fn enough_is_fourteen_times_what_lives_at_a_ratio_of_4096() {
    let (live, longest, smallest) = (1 << 20, 1 << 16, 16);
    let enough = StrictHeap::enough(live, longest, smallest).expect("short enough");
    assert!(enough >= 14 << 20, "{enough}");
    assert!(enough <= (14 << 20) * 5 / 4, "the structures take less than a quarter: {enough}");
    assert_eq!(StrictHeap::enough(live, longest, 24), None);
    assert_eq!(StrictHeap::enough(1 << 50, longest, smallest), None);
    assert_eq!(StrictHeap::enough(u64::MAX, u64::MAX, smallest), None);
}
