//! The malloc under the oracle: programs that shrink, on machines that refuse; and millions of calls by threads that
//! free each other's blocks. `FREEHOLD_SEED`, `PROPTEST_CASES` and `FREEHOLD_CALLS` (a thread) make it hunt elsewhere and longer.

use freehold_os::Linux;
use freehold_testkit::malloc_programs::{Call, Stream, calls, run_calls};
use freehold_testkit::{ShadowMalloc, World};
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

const THREADS: u64 = 4;
/// Objects that a thread keeps, about.
const MOST_LIVE: usize = 1500;

fn number(variable: &str, default: u64) -> u64 {
    let value = std::env::var(variable).ok();
    value.map_or(default, |text| text.parse().expect("a number is a number"))
}

/// Hunts for a program that breaks a promise and panics with the shortest one found.
fn hunt(one_in: u32, page: usize, cases: u64) {
    let seed = number("FREEHOLD_SEED", 1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8] = one_in as u8;
    let config = Config {
        cases: number("PROPTEST_CASES", cases) as u32,
        failure_persistence: None,
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result =
        runner.run(&calls(), |calls| run_calls(&calls, one_in, page).map_err(TestCaseError::fail));
    if let Err(failure) = result {
        panic!("seed {seed}, one call in {one_in} refused, pages of {page}: {failure}");
    }
}

#[test]
fn programs_keep_every_promise() {
    hunt(0, 4096, 16);
}

#[test]
fn programs_keep_every_promise_on_a_machine_that_refuses() {
    hunt(5, 4096, 16);
}

#[test]
fn programs_keep_every_promise_on_longer_pages() {
    for page in [16 << 10, 64 << 10] {
        hunt(0, page, 6);
        hunt(5, page, 6);
    }
}

fn live(world: &World<Linux>, seed: u64, calls: u64) -> Result<(), String> {
    let mut stream = Stream::new(seed, MOST_LIVE);
    let mut shadow = ShadowMalloc::new(world, seed << 40, false);
    for number in 0..calls {
        let call = stream.next(shadow.live());
        shadow
            .call(call)
            .map_err(|why| format!("thread's seed {seed}, call {number}, {call:?}: {why}"))?;
    }
    shadow.end()
}

#[test]
fn threads_keep_every_promise() {
    let world = &World::new(Linux);
    let (seed, calls) = (number("FREEHOLD_SEED", 1), number("FREEHOLD_CALLS", 8_000));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || live(world, seed * THREADS + thread, calls)))
            .collect();
        for thread in threads {
            thread.join().expect("the oracle answers").unwrap();
        }
    });
    world.verify().unwrap();
    world.heap.purge(true);
    world.heap.purge(true);
    world.verify().unwrap();
    let usage = world.heap.usage();
    assert!(usage.dirty.0 == 0 && usage.used.0 <= 2, "something stayed: {usage:?}");
}

/// An empty program is a program, and so is one that only gives up.
#[test]
fn programs_about_nothing() {
    run_calls(&[], 0, 4096).unwrap();
    run_calls(&[Call::Leave, Call::Leave, Call::Receive, Call::Free(3)], 1, 4096).unwrap();
}
