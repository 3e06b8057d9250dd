//! The gate of page frames: instructions a pair of calls, an allocation and a free, counted by valgrind. They do not depend on
//! the machine's mood, as the nanoseconds of `freehold-lab`'s `frames_speed` do.
//!
//! Counted is the example `frames_calls`, built as it is released: once with the workload and once without, so that making
//! the zone cancels out. Left is the loop around the calls, some thirty instructions a pair, the same for every policy.

use freehold_testkit::instructions::Counted;

/// Workload, order, and how many hundredths of our Linux-like buddy's instructions a policy of ours may take; beside it what it
/// takes and what the buddy does. (2 MiB are nearest: a set changes its bucket, and a group its list, where the buddy relinks a
/// block and knows of no set.)
const BOUNDS: [(&str, u8, u64); 6] = [
    ("bulk", 0, 81),   // 319, 412
    ("repeat", 0, 69), // 700, 1051
    ("random", 0, 82), // 337, 432
    ("bulk", 9, 99),   // 373, 384
    ("repeat", 9, 66), // 259, 412
    ("random", 9, 99), // 372, 381
];

/// Tenths of instructions a pair.
fn a_pair(example: &Counted, policy: &str, workload: &str, order: u8) -> u64 {
    let order = order.to_string();
    let (without, _) = example.run(&[policy, "none", &order]);
    let (with, calls) = example.run(&[policy, workload, &order]);
    (with - without) * 20 / calls.trim().parse::<u64>().expect("how many calls were made")
}

fn a_pair_of_calls_takes_no_more_instructions_than_it_may() {
    let example = Counted::example("freehold-testkit", "frames_calls");
    for (workload, order, bound) in BOUNDS {
        let of = |policy| a_pair(&example, policy, workload, order);
        let buddy = of("buddy");
        for policy in ["adaptive", "fullest"] {
            let found = of(policy);
            let shown =
                format!("{workload}, order {order}: {policy} {found}, buddy {buddy} tenths");
            println!("{shown}");
            assert!(found * 100 <= buddy * bound, "{shown}; {bound} hundredths may be");
            assert!(
                found * 100 > buddy * (bound - 12),
                "{shown}; {bound} is far from it: lower it"
            );
        }
    }
}

freehold_testkit::trials! {
    a_pair_of_calls_takes_no_more_instructions_than_it_may,
}
