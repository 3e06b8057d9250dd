//! Fits that never merge: every promise of a policy but one, that freeing all leaves one block; and the
//! two halves of an allocation, which choose what the whole does.

use freehold_blocks::align::Align;
use freehold_blocks::policy::{Inspect, Policy};
use freehold_blocks::{
    BestFit, BestFitList, FirstFit, FirstFitList, Search, Unmerged, WorstFit, WorstFitList,
};
use freehold_testkit::run::step;
use freehold_testkit::{Op, Program, ShadowHeap, SimRegion, hunt};

fn run<P: Policy>(program: &Program) -> Result<(), String> {
    let memory = SimRegion::shifted(program.region, program.shift);
    let Some(mut heap) = ShadowHeap::<P>::new(memory) else { return Ok(()) };
    for (i, &op) in program.ops.iter().enumerate() {
        let done = step(&mut heap, i as u32, op).and_then(|_| heap.verify());
        done.map_err(|fault| format!("call {i}, {op:?}: {fault}"))?;
    }
    while let Some(id) = heap.nth(0) {
        heap.free(id).map_err(|fault| format!("freeing all: {fault}"))?;
    }
    heap.verify().and_then(|()| heap.verify_contents()).map_err(|fault| fault.to_string())
}

fn assert_keeps_promises<P: Policy>() {
    if let Err(failure) = hunt(64, run::<P>) {
        panic!("{failure:?}");
    }
}

#[test]
fn unmerged_fits_keep_their_promises() {
    assert_keeps_promises::<Unmerged<FirstFitList>>();
    assert_keeps_promises::<Unmerged<BestFitList>>();
    assert_keeps_promises::<Unmerged<WorstFitList>>();
    assert_keeps_promises::<Unmerged<FirstFit>>();
    assert_keeps_promises::<Unmerged<BestFit>>();
    assert_keeps_promises::<Unmerged<WorstFit>>();
}

/// What is free when two blocks have come and gone: nothing has merged.
#[test]
fn what_was_cut_stays_cut() {
    let mut memory = SimRegion::new(272);
    // SAFETY: the policy dies before the memory.
    let mut fit = Unmerged::<FirstFitList>::new(unsafe { memory.region() }).unwrap();
    let blocks = [(); 2].map(|()| fit.alloc(24, Align::ONE, &mut ()).unwrap());
    // SAFETY: both came from this policy, and are freed once.
    blocks.into_iter().for_each(|block| unsafe { fit.free(block, &mut ()) });
    let mut seen = Vec::new();
    fit.for_each_block(|block| seen.push(format!("{block:?}")));
    assert_eq!(seen, ["free 32", "free 32", "free 192"]);
    fit.check().unwrap();
}

/// Found by `core/tests/sharing.rs`: a block cut out behind a free one forgot to tell of it.
#[test]
fn a_block_between_free_ones_tells_of_the_one_before_it() {
    let mut memory = SimRegion::new(272);
    // SAFETY: the policy dies before the memory.
    let mut fit = Unmerged::<FirstFitList>::new(unsafe { memory.region() }).unwrap();
    let small = fit.alloc(24, Align::ONE, &mut ()).unwrap();
    // SAFETY: it came from this policy, and is freed once.
    unsafe { fit.free(small, &mut ()) };
    fit.alloc(40, Align::ONE, &mut ()).unwrap();
    fit.check().unwrap();
}

/// The calls of a program on two heaps: one allocates, the other searches and then takes.
fn halves_choose_alike<P: Search>(program: &Program) -> Result<(), String> {
    let [mut first, mut second] =
        [(); 2].map(|()| SimRegion::shifted(program.region, program.shift));
    // SAFETY: the policies die before their memories.
    let (whole, halves) = unsafe { (P::new(first.region()), P::new(second.region())) };
    let (Some(mut whole), Some(mut halves)) = (whole, halves) else { return Ok(()) };
    let mut held = Vec::new();
    for &op in &program.ops {
        match op {
            Op::Alloc(size) | Op::Aligned(size, _) => {
                let one = whole.alloc(size, Align::ONE, &mut ());
                let found = halves.search(size, &mut ());
                // SAFETY: found just now.
                let other = found.map(|found| unsafe { halves.take_found(found, &mut ()) });
                held.extend(one.zip(other));
                if one.is_some() != other.is_some() {
                    return Err(format!("{op:?}: one found a block, the other did not"));
                }
            }
            Op::Free(n) | Op::Resize(n, _) if !held.is_empty() => {
                let (one, other) = held.swap_remove(n as usize % held.len());
                // SAFETY: each came from its policy, and is freed once.
                unsafe { (whole.free(one, &mut ()), halves.free(other, &mut ())) };
            }
            Op::Free(_) | Op::Resize(..) => {}
        }
        let [mut one, mut other] = [Vec::new(), Vec::new()];
        whole.for_each_block(|block| one.push(block));
        halves.for_each_block(|block| other.push(block));
        if one != other {
            return Err(format!("after {op:?}: {one:?} and {other:?}"));
        }
    }
    halves.check().map_err(|broken| broken.to_string())
}

#[test]
fn searching_and_taking_is_allocating() {
    let hunts = [
        hunt(48, halves_choose_alike::<FirstFitList>),
        hunt(48, halves_choose_alike::<BestFitList>),
        hunt(48, halves_choose_alike::<WorstFitList>),
        hunt(48, halves_choose_alike::<FirstFit>),
        hunt(48, halves_choose_alike::<BestFit>),
        hunt(48, halves_choose_alike::<WorstFit>),
        hunt(48, halves_choose_alike::<Unmerged<BestFit>>),
    ];
    let failures: Vec<_> = hunts.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{failures:?}");
}
