//! Work whose outcome can be told beforehand.

use super::*;
use crate::cache::{ORIGIN_SECOND, R10000_FIRST};
use crate::tlb::r10000;

const COSTS: Costs = Costs { word: 10, second: 0, memory: 0, call: 100, inbox: 20 };

fn machine(processors: u32, sharing: Sharing) -> MachineSpec {
    let caches = [R10000_FIRST, ORIGIN_SECOND];
    let dealing = Dealing::ByHome;
    MachineSpec { processors, tlb: r10000(14), caches, costs: COSTS, sharing, dealing }
}

/// One phase of tasks, each of a home of its own.
fn work(tasks: &[Vec<Op>], objects: u32) -> Work {
    let mut work = Work { objects, ..Work::default() };
    for task in tasks {
        work.ops.extend(task);
        work.homes.push(work.homes.len() as u64);
        work.task_ends.push(work.ops.len());
    }
    work.phase_ends.push(work.task_ends.len());
    work
}

fn touches(from: u64, count: u64) -> Vec<Op> {
    (0..count).map(|word| Op::Touch { address: from + 8 * word, words: 1 }).collect()
}

#[test]
fn equal_tasks_are_shared_equally() {
    let tasks: Vec<_> = (0..8).map(|_| touches(0, 100)).collect();
    let work = work(&tasks, 0);
    let times = [1, 2, 4, 8].map(|processors| {
        let run = run(&work, &machine(processors, Sharing::Inbox));
        assert_eq!((run.accesses, run.tlb_misses), (800, processors.into()));
        run.time_ns
    });
    // Every processor misses once, on the one page there is.
    assert_eq!(times, [8_000 + 250, 4_000 + 250, 2_000 + 250, 1_000 + 250]);
}

#[test]
fn who_has_nothing_left_steals() {
    let mut tasks = vec![touches(0, 10); 6];
    tasks[0] = touches(0, 1000);
    let run = run(&work(&tasks, 0), &machine(2, Sharing::Inbox));
    // The second processor does its own three and the two that are left of the first one's.
    assert_eq!((run.time_ns, run.idle_ns), (10_000 + 250, 10_250 - 500 - 250));
}

#[test]
fn one_lock_lets_one_run() {
    let tasks: Vec<_> = (0..4).map(|task| vec![Op::Alloc(task), Op::Free(task)]).collect();
    let work = work(&tasks, 4);
    let locked = run(&work, &machine(4, Sharing::OneLock));
    assert_eq!((locked.time_ns, locked.calls), (800, 8));
    assert!(locked.contended >= 6, "{locked:?}");
    for sharing in [Sharing::PerProcessor, Sharing::Inbox, Sharing::Heaps(8)] {
        let free = run(&work, &machine(4, sharing));
        assert_eq!((free.time_ns, free.contended), (200, 0), "{sharing:?}");
    }
    assert_eq!(run(&work, &machine(4, Sharing::Heaps(2))).time_ns, 400);
}

#[test]
fn a_free_goes_to_the_heap_it_came_from() {
    // Phase one: each of two makes an object. Phase two: the first frees both.
    let mut work = work(&[vec![Op::Alloc(0)], vec![Op::Alloc(1)]], 2);
    work.ops.extend([Op::Free(0), Op::Free(1)]);
    work.homes.push(9);
    work.task_ends.push(work.ops.len());
    work.phase_ends.push(3);
    assert_eq!(run(&work, &machine(2, Sharing::PerProcessor)).time_ns, 100 + 200);
    // The one task of a phase is dealt to the last processor, which made object 1.
    assert_eq!(run(&work, &machine(2, Sharing::Inbox)).time_ns, 100 + 100 + 20);
}

#[test]
fn more_processors_reach_more_pages() {
    // 16 tasks of 32 pairs of pages each, twice over: one TLB holds 64 pairs.
    let pair = 2 << 14;
    let task = |task: u64| -> Vec<Op> {
        let page = |page: u64| Op::Touch { address: (task * 32 + page) * pair, words: 1 };
        (0..32).map(page).collect()
    };
    let tasks: Vec<_> = (0..16).map(task).collect();
    let mut twice = work(&tasks, 0);
    let again = work(&tasks, 0);
    let offset = twice.ops.len();
    twice.ops.extend(again.ops);
    twice.homes.extend(again.homes);
    twice.task_ends.extend(again.task_ends.iter().map(|end| end + offset));
    twice.phase_ends.push(32);
    let misses = [1, 4, 8].map(|count| run(&twice, &machine(count, Sharing::Inbox)).tlb_misses);
    assert!(misses[0] > 900 && misses[1] > 700 && misses[2] == 512, "{misses:?}");
}

#[test]
fn who_owns_the_home_takes_the_task() {
    // Eight rows over the same four blocks of 64 pairs of pages: dealt in order each processor sees all
    // blocks, by home one of them.
    let pair = 2 << 14;
    let mut work = Work::default();
    for _ in 0..8 {
        for block in 0..4u64 {
            let page = |page: u64| Op::Touch { address: (block * 64 + page) * pair, words: 1 };
            work.ops.extend((0..64).map(page));
            work.homes.push(block * 64 * pair);
            work.task_ends.push(work.ops.len());
        }
    }
    work.phase_ends.push(32);
    let misses =
        |dealing| run(&work, &MachineSpec { dealing, ..machine(4, Sharing::Inbox) }).tlb_misses;
    assert_eq!(misses(Dealing::ByHome), 4 * 64);
    assert!(misses(Dealing::InOrder) > 4 * 256, "{}", misses(Dealing::InOrder));
}

#[test]
fn one_pass_for_all_tlbs_finds_what_a_run_for_each_does() {
    let tasks: Vec<_> = (0..60).map(|task| touches((task * 37 % 60) << 20, 500)).collect();
    let mut work = work(&tasks, 0);
    work.phase_ends = vec![20, 60];
    let tlbs = [r10000(14), r10000(20), crate::tlb::GOLDEN_COVE[0]];
    let found = alone(&work, &tlbs, Some([R10000_FIRST, ORIGIN_SECOND]));
    assert_eq!((found.len(), found[0].words, found[1].words), (2, 10_000, 20_000));
    let mut all = Found::default();
    found.iter().for_each(|phase| all.add(phase));
    for (at, tlb) in tlbs.into_iter().enumerate() {
        let run = run(&work, &MachineSpec { tlb, ..machine(1, Sharing::Inbox) });
        assert_eq!((run.tlb_misses, run.caches), (all.tlb_misses[at], all.caches));
    }
    assert_eq!(alone(&work, &tlbs, None)[0].caches, [Hits::default(); 2]);
}
