//! Programs on policies.

use crate::frame_programs::{FrameProgram, frame_programs};
use crate::memory::SimRegion;
use crate::programs::{Op, Program, programs};
use crate::shadow::{Fault, ShadowHeap};
use freehold_blocks::align::Align;
use freehold_blocks::policy::Policy;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::fmt;

/// A broken promise and the program that shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// What happened, and after which call.
    pub reason: String,
    /// The shortest program found.
    pub program: Program,
    /// The seed of the hunt that found it.
    pub seed: u64,
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { reason, program, seed } = self;
        write!(
            f,
            "{reason}\nseed {seed}; as a test:\n    use Op::*;\n    let program = {program:?};"
        )
    }
}

/// What a call came to: where its object lies now, if it succeeded.
pub type Outcome = Option<u64>;

/// Makes one call. New objects are called `id`.
pub fn step<P: Policy>(heap: &mut ShadowHeap<P>, id: u32, op: Op) -> Result<Outcome, Fault> {
    match op {
        Op::Alloc(size) => {
            let done = heap.alloc(id, size, Align::ONE)?;
            Ok(done.then(|| heap.place(id)).flatten())
        }
        Op::Aligned(size, log2) => {
            let Some(align) = Align::from_log2(log2) else { return Ok(None) };
            let done = heap.alloc(id, size, align)?;
            Ok(done.then(|| heap.place(id)).flatten())
        }
        Op::Free(n) => {
            let Some(id) = heap.nth(n) else { return Ok(None) };
            heap.free(id)?;
            Ok(None)
        }
        Op::Resize(n, size) => {
            let Some(id) = heap.nth(n) else { return Ok(None) };
            let done = heap.resize(id, size)?;
            Ok(done.then(|| heap.place(id)).flatten())
        }
    }
}

/// How many calls may pass before the contents of all objects are looked at. (Those of an object
/// that is freed or resized always are.)
const CONTENTS_EVERY: usize = 16;

/// Runs a program under the oracle, verifying everything after every `every`th call (contents
/// less often), at the end, and after freeing all. Tells what each call came to; empty when the region is too short.
pub fn run_program<P: Policy>(program: &Program, every: usize) -> Result<Vec<Outcome>, String> {
    let memory = SimRegion::shifted(program.region, program.shift);
    let Some(mut heap) = ShadowHeap::<P>::new(memory) else { return Ok(Vec::new()) };
    let fresh = heap.blocks();
    let mut outcomes = Vec::with_capacity(program.ops.len());
    for (i, &op) in program.ops.iter().enumerate() {
        let after = |fault: Fault| format!("call {i}, {op:?}: {fault}");
        outcomes.push(step(&mut heap, i as u32, op).map_err(after)?);
        if i % every == 0 {
            heap.verify().map_err(after)?;
        }
        if i % CONTENTS_EVERY == 0 {
            heap.verify_contents().map_err(after)?;
        }
    }
    let end = heap.verify().and_then(|()| heap.verify_contents());
    end.map_err(|fault| format!("at the end: {fault}"))?;
    while let Some(id) = heap.nth(0) {
        heap.free(id).map_err(|fault| format!("freeing all: {fault}"))?;
    }
    heap.verify().map_err(|fault| format!("after freeing all: {fault}"))?;
    let left = heap.blocks();
    if left != fresh {
        return Err(format!("after freeing all: {left:?} is left of {fresh:?}"));
    }
    Ok(outcomes)
}

/// Runs `cases` random programs through `test`; the first that fails is shrunk.
///
/// `PROPTEST_CASES` overrides how many, `FREEHOLD_SEED` which: without them every run is the same.
pub fn hunt(cases: u32, test: impl Fn(&Program) -> Result<(), String>) -> Result<(), Failure> {
    hunt_in(cases, &programs(), test).map_err(|(reason, program, seed)| Failure {
        reason,
        program,
        seed,
    })
}

/// The same for page-frame allocators; the failure as text, with the shrunk program as Rust.
pub fn hunt_frames(
    cases: u32,
    test: impl Fn(&FrameProgram) -> Result<(), String>,
) -> Result<(), String> {
    hunt_in(cases, &frame_programs(), test).map_err(|(reason, program, seed)| {
        format!(
            "{reason}\nseed {seed}; as a test:\n    use FrameOp::*;\n    let program = {program:?};"
        )
    })
}

/// Why, the shortest program that shows it, and the seed.
type Found<T> = (String, T, u64);

fn hunt_in<S: Strategy>(
    cases: u32,
    strategy: &S,
    test: impl Fn(&S::Value) -> Result<(), String>,
) -> Result<(), Found<S::Value>> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let cases = number("PROPTEST_CASES").map_or(cases, |n| u32::try_from(n).unwrap_or(u32::MAX));
    let seed = number("FREEHOLD_SEED").unwrap_or(0);
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let found = TestRunner::new_with_rng(config, rng)
        .run(strategy, |program| test(&program).map_err(TestCaseError::fail));
    match found {
        Ok(()) => Ok(()),
        Err(TestError::Fail(reason, program)) => Err((reason.to_string(), program, seed)),
        Err(TestError::Abort(reason)) => panic!("the hunt gave up: {reason}"),
    }
}
