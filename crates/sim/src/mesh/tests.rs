//! Whole runs: the same again, every cycle accounted for, nothing lost, nothing refused in vain.

use super::*;
use freehold_blocks::FirstFit;
use freehold_core::place::mesh::{HeapId, Order};
use std::collections::VecDeque;

fn setup(mesh: &str, allocator: Allocator, order: Order) -> Setup {
    Setup {
        mesh: mesh.parse().unwrap(),
        heap_bytes: 2048,
        allocator,
        order,
        rounds: 3,
        improve: Improve::default(),
        costs: Costs::default(),
        counts_accesses: false,
        warm_up: 20,
        events: 1500,
        least_per_node: 0,
        failure: None,
    }
}

fn synthetic(heavy_percent: u64) -> Synthetic {
    let (light_percent, grow_percent, think) = (50, 58, 300);
    let (seed, heap_bytes, least, most) = (1, 2048, 16, 256);
    Synthetic { seed, heap_bytes, heavy_percent, light_percent, grow_percent, think, least, most }
}

fn run_synthetic(setup: &Setup, heavy_percent: u64) -> Run {
    run::<FirstFit>(setup, &mut SyntheticLoad::new(synthetic(heavy_percent), setup.mesh)).unwrap()
}

/// Every allocator with every order that it has.
fn all() -> impl Iterator<Item = (Allocator, Order)> {
    let pairs = Allocator::ALL.into_iter().flat_map(|a| Order::ALL.map(|order| (a, order)));
    pairs.filter(|&pair| pair != (Allocator::Microcoded, Order::Hinted))
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_another() {
    for (allocator, order) in all() {
        let setup = setup("3x4", allocator, order);
        let once = run_synthetic(&setup, 195);
        assert_eq!(once, run_synthetic(&setup, 195), "{allocator:?} {order:?}");
        let other = Synthetic { seed: 2, ..synthetic(195) };
        let other = run::<FirstFit>(&setup, &mut SyntheticLoad::new(other, setup.mesh)).unwrap();
        assert_ne!(once, other);
    }
}

/// That causes add up to the time of each event is asserted event by event, in debug builds.
#[test]
fn nodes_and_causes_add_up_and_nothing_is_refused_in_vain() {
    for (allocator, order) in all() {
        for mesh in ["1x1", "1x5", "4x4"] {
            let run = run_synthetic(&setup(mesh, allocator, order), 195);
            let of = |get: fn(&NodeCounts) -> u64| run.nodes.iter().map(get).sum::<u64>();
            assert_eq!((of(|node| node.events), run.events), (1500, 1500));
            assert_eq!(of(|node| node.cycles.total()), run.cycles.total());
            assert_eq!(of(|node| node.refused), run.refused);
            assert_eq!(run.spurious, 0, "{allocator:?} {order:?} {mesh}");
            let alone = allocator == Allocator::Private || mesh == "1x1";
            assert_eq!(run.messages == 0, alone, "{allocator:?} {order:?} {mesh}");
        }
    }
}

/// Far more is wanted than there is: refusals are many, and each was right.
#[test]
fn a_platform_that_is_full_refuses_and_never_in_vain() {
    for (allocator, order) in all().filter(|&(allocator, _)| allocator != Allocator::Private) {
        let setup = Setup { events: 4000, ..setup("3x3", allocator, order) };
        let run = run_synthetic(&setup, 400);
        assert!(run.refused > 30, "{allocator:?} {order:?}: {}", run.refused);
        assert_eq!(run.spurious, 0, "{allocator:?} {order:?}");
    }
}

/// Each improvement alone, and all.
fn improvements() -> [Improve; 6] {
    let none = Improve::default();
    let batched = Improve { batch: 4, batch_age: 200, ..none };
    [
        Improve { one_message: true, ..none },
        Improve { trusted_for: 20_000, ..none },
        Improve { summary: true, ..none },
        Improve { page_bytes: 384, ..none },
        batched,
        Improve { one_message: true, trusted_for: 500, summary: true, page_bytes: 272, ..batched },
    ]
}

#[test]
fn improvements_are_reproducible_and_refuse_nothing_in_vain() {
    for improve in improvements() {
        for (mesh, heavy) in [("1x1", 195), ("2x2", 195), ("4x5", 195), ("3x3", 400)] {
            let order = Order::Hinted;
            let setup = Setup { improve, ..setup(mesh, Allocator::Proposed, order) };
            let run = run_synthetic(&setup, heavy);
            assert_eq!((run.events, run.spurious), (1500, 0), "{improve:?} {mesh}");
            assert_eq!(run, run_synthetic(&setup, heavy), "{improve:?} {mesh}");
        }
    }
}

#[test]
fn what_cannot_be_improved_so_is_refused() {
    let improve = improvements()[0];
    let run = |setup: &Setup| {
        let mut load = SyntheticLoad::new(synthetic(195), setup.mesh);
        run::<FirstFit>(setup, &mut load).unwrap_err().to_string()
    };
    let table = Setup { improve, ..setup("2x2", Allocator::Microcoded, Order::Index) };
    assert_eq!(run(&table), "only the proposed allocator has improvements, not microcoded");
    let lazy = setup("2x2", Allocator::Proposed, Order::Hinted);
    let batch = Improve { batch: 9, ..improve };
    assert!(run(&Setup { improve: batch, ..lazy }).contains("at most 8 frees, not 9"));
    let page = Improve { page_bytes: 2000, ..improve };
    assert!(run(&Setup { improve: page, ..lazy }).contains("at most 1024, not 2000"));
}

/// Frees by others find their way into pages that were lent, empty pages go home, and at the end
/// nothing is nobody's (`check` runs at the end of every run in debug builds).
#[test]
fn what_lies_in_a_lent_page_is_freed_by_anybody() {
    let size = 256;
    let fills = (0..7).map(|object| Act::Malloc { object, size });
    let borrows = (7..12).map(|object| Act::Malloc { object, size: 100 });
    let owner: Vec<Act> = fills.chain(borrows).collect();
    let frees: Vec<Act> = [Act::Think(20_000)]
        .into_iter()
        .chain((0..12).map(|object| Act::Free { object }))
        .collect();
    for batch in [1, 4] {
        let improve = Improve { page_bytes: 384, batch, batch_age: 100, ..Improve::default() };
        let setup = Setup { improve, ..setup("1x3", Allocator::Proposed, Order::Hinted) };
        let (run, done) = play(&setup, &[&owner, &[], &frees]);
        let freed = done.iter().filter(|(_, act, _)| matches!(act, Act::Free { .. })).count();
        assert_eq!((freed, run.refused), (12, 0));
        let remote = run.remote_mallocs;
        assert!((1..5).contains(&remote), "a page serves several: {remote} of 5 went out");
    }
}

/// What the paper's figure 5 shows, and why: the longer the mesh, the longer the walk by index.
#[test]
fn by_index_cost_grows_with_the_platform_and_by_distance_less() {
    let cost = |mesh, order| {
        let setup = Setup { events: 10_000, ..setup(mesh, Allocator::Proposed, order) };
        run_synthetic(&setup, 195).cycles_per_event()
    };
    let [small, large] = ["2x2", "8x8"].map(|mesh| cost(mesh, Order::Index));
    let near = cost("8x8", Order::Distance);
    assert!(large > 1.5 * small && near < 0.75 * large, "{small} {large} {near}");
}

#[test]
fn setups_without_sense_are_refused() {
    let said = |setup: &Setup| {
        let mut load = SyntheticLoad::new(synthetic(195), setup.mesh);
        run::<FirstFit>(setup, &mut load).unwrap_err().to_string()
    };
    let good = setup("2x2", Allocator::Microcoded, Order::Index);
    assert!(said(&Setup { order: Order::Hinted, ..good }).contains("tables know no hints"));
    assert!(said(&Setup { heap_bytes: 100, ..good }).contains("not 100"));
    let beyond = Setup { heap_bytes: 1 << 30, ..good };
    assert!(said(&beyond).contains("end beyond 32-bit addresses"), "{}", said(&beyond));
    let costs = Costs { link: 0, ..Costs::default() };
    assert!(said(&Setup { costs, ..good }).starts_with("link must be 1 to 1000"));
}

/// A program for every node, as written.
struct Script(Vec<VecDeque<Act>>, Vec<(HeapId, Act, bool)>);

impl Load for Script {
    fn next(&mut self, node: HeapId) -> Act {
        self.0[node.index()].pop_front().unwrap_or(Act::Pause)
    }

    fn done(&mut self, node: HeapId, act: Act, served: bool) {
        self.1.push((node, act, served));
    }

    fn woken(&mut self) -> Option<HeapId> {
        None
    }
}

fn play(setup: &Setup, acts: &[&[Act]]) -> (Run, Vec<(HeapId, Act, bool)>) {
    play_warm(&Setup { warm_up: 0, ..*setup }, acts)
}

fn play_warm(setup: &Setup, acts: &[&[Act]]) -> (Run, Vec<(HeapId, Act, bool)>) {
    let script = acts.iter().map(|acts| acts.iter().copied().collect()).collect();
    let mut script = Script(script, Vec::new());
    (run::<FirstFit>(setup, &mut script).unwrap(), script.1)
}

/// By the table of costs, summed by hand.
#[test]
fn one_malloc_and_free_cost_what_the_table_says() {
    let acts: &[&[Act]] = &[&[Act::Malloc { object: 0, size: 100 }, Act::Free { object: 0 }]];
    let total = |allocator| {
        let (run, _) = play(&setup("2x2", allocator, Order::Index), &[acts[0], &[], &[], &[]]);
        run.cycles.total()
    };
    let costs = Costs::default();
    let Costs { c_call, c_map, command, v2p, lock, unlock, alloc, free, record, .. } = costs;
    let local = command + lock + alloc + unlock + command + v2p + lock + free + unlock;
    assert_eq!(total(Allocator::Microcoded), local + 2 * record);
    assert_eq!(total(Allocator::Proposed), local + 2 * c_call + c_map);
    let in_c = costs.c_alloc + costs.c_free + 10 * costs.c_access;
    assert_eq!(total(Allocator::Private), 2 * (c_call + 2 * command + lock) + in_c);
}

/// Node 1 frees what node 0 allocated while node 0 keeps its own heap locked nearly all the time.
#[test]
fn frees_to_an_owner_that_is_busy_all_arrive() {
    let mine = |i: u32| [Act::Malloc { object: 100 + i, size: 16 }, Act::Free { object: 100 + i }];
    let owner: Vec<Act> = (0..8)
        .map(|object| Act::Malloc { object, size: 64 })
        .chain((0..200).flat_map(mine))
        .collect();
    let other: Vec<Act> =
        [Act::Think(5000)].into_iter().chain((0..8).map(|object| Act::Free { object })).collect();
    for allocator in [Allocator::Global, Allocator::Microcoded, Allocator::Proposed] {
        let setup = setup("1x2", allocator, Order::Index);
        let (run, done) = play(&setup, &[&owner, &other]);
        let freed = done.iter().filter(|(_, act, _)| matches!(act, Act::Free { .. })).count();
        assert_eq!((freed, run.refused), (208, 0), "{allocator:?}");
        assert!(run.nodes[1].cycles.wait > 0, "{allocator:?}: it had to wait");
    }
}

/// A program of two phases: every task's input is freed by its slave, its result by the master.
fn program() -> Program {
    let task = |n: u32| Task {
        parts: [
            vec![Op::Malloc { object: 2 * n, size: 64 }, Op::Accesses(8)],
            vec![
                Op::Malloc { object: 2 * n + 1, size: 32 },
                Op::Accesses(100),
                Op::Free { object: 2 * n },
            ],
            vec![Op::Accesses(4), Op::Free { object: 2 * n + 1 }],
        ],
    };
    let phases = vec![(0..20).map(task).collect(), (20..30).map(task).collect()];
    Program { name: "test".to_owned(), phases, objects: 60 }
}

/// Each task is done once and every object freed, whoever serves and however many slaves there are; more
/// slaves take less time.
#[test]
fn a_program_runs_to_its_end_on_any_mesh() {
    let program = program();
    for allocator in Allocator::ALL {
        let elapsed = ["1x1", "2x2", "4x4"].map(|mesh| {
            let setup =
                Setup { events: u64::MAX, warm_up: 0, ..setup(mesh, allocator, Order::Index) };
            let mut load = ProgramLoad::new(&program, setup.mesh, 10);
            let run = run::<FirstFit>(&setup, &mut load).unwrap();
            let private_only = if allocator == Allocator::Private { run.refused } else { 0 };
            assert_eq!((run.events, run.refused), (120, private_only), "{allocator:?} {mesh}");
            let thought: u64 = run.nodes.iter().map(|node| node.thought).sum();
            assert_eq!(thought, 30 * 112 * 10);
            run.elapsed
        });
        assert!(elapsed[0] > elapsed[1], "{allocator:?}: {elapsed:?}");
    }
}

/// Node 0 has long made its calls when node 1 has made the last of its warm-up; only what follows counts.
#[test]
fn counting_begins_when_the_slowest_node_is_warm() {
    let mallocs = |first: u32| (first..first + 4).map(|object| Act::Malloc { object, size: 16 });
    let fast: Vec<Act> = mallocs(0).collect();
    let slow: Vec<Act> = mallocs(4).flat_map(|act| [Act::Think(10_000), act]).collect();
    let counted = |warm_up| {
        let setup = Setup { warm_up, ..setup("1x2", Allocator::Microcoded, Order::Index) };
        let (run, _) = play_warm(&setup, &[&fast, &slow]);
        ([0, 1].map(|node| run.nodes[node].events), run.fewest_calls(), run.elapsed > 10_000)
    };
    assert_eq!(counted(0), ([4, 4], 4, true));
    assert_eq!(counted(2), ([0, 2], 0, true));
    assert_eq!(counted(4), ([0, 0], 0, false));
}

#[test]
fn a_run_ends_when_the_slowest_node_has_its_calls() {
    let fewest = |least_per_node| {
        let slow = setup("8x8", Allocator::Microcoded, Order::Index);
        run_synthetic(&Setup { events: 64, least_per_node, ..slow }, 195).fewest_calls()
    };
    assert_eq!((fewest(0), fewest(3), fewest(9)), (0, 3, 9));
}

/// A central manager that fails stops every node for ever. Of distributed heaps those nodes stop that ask
/// the failed one: with patience none does.
#[test]
fn a_node_that_fails_stops_who_waits_for_it() {
    let aftermath = |allocator, patience| {
        let node = HeapId::new(0).unwrap();
        let failure = Failure { node, after: 800, watched: 400_000, patience };
        let setup = Setup { failure: Some(failure), ..setup("3x3", allocator, Order::Index) };
        let run = run_synthetic(&setup, 195);
        assert_eq!(run, run_synthetic(&setup, 195));
        run.aftermath.unwrap()
    };
    for (central, patience) in
        [(Allocator::Master, 0), (Allocator::Global, 0), (Allocator::Master, 5_000)]
    {
        let found = aftermath(central, patience);
        assert_eq!((found.left, found.going), (8, 0), "{central:?}: patience finds no memory");
    }
    for distributed in [Allocator::Microcoded, Allocator::Proposed] {
        let (ever, patient) = (aftermath(distributed, 0), aftermath(distributed, 5_000));
        assert!(ever.going < 8, "{distributed:?}: by index each full heap's search begins at H0");
        assert_eq!(patient.going, 8, "{distributed:?}");
        assert!(patient.after.1 > ever.after.1);
    }
}

/// What leaves a heap out reads a hint or a bit, and reading costs.
#[test]
fn heaps_left_out_by_hint_or_summary_are_paid_for() {
    let cycles = |costs: Costs, improve: Improve| {
        let order = Order::Hinted;
        let setup = Setup { costs, improve, ..setup("4x5", Allocator::Proposed, order) };
        run_synthetic(&setup, 195).cycles.search
    };
    // So dear that a run that happens to go otherwise does not hide it.
    let [free, dear] = [0, 5000].map(|c| Costs { c_hint: c, c_bit: c, ..Costs::default() });
    for improve in [improvements()[1], improvements()[2]] {
        assert!(cycles(dear, improve) > 2 * cycles(free, improve), "{improve:?}");
    }
}

/// With one table for all nodes everybody asks H0 first, and waits there.
#[test]
fn one_table_for_all_waits_more_than_a_table_each() {
    let share = |allocator| {
        let run = run_synthetic(&setup("4x4", allocator, Order::Index), 195);
        run.cycles.wait as f64 / run.cycles.total() as f64
    };
    let (own, common) = (share(Allocator::Microcoded), share(Allocator::Common));
    assert!(common > 2.0 * own, "{own} {common}");
}

/// The way to the heaps that everybody asks is itself waited for, and that waiting is no travel.
#[test]
fn links_to_heaps_that_all_ask_are_waited_for() {
    let queued = |allocator| {
        let run = run_synthetic(&setup("4x4", allocator, Order::Index), 195);
        run.cycles.queued as f64 / run.cycles.total() as f64
    };
    let (own, common) = (queued(Allocator::Microcoded), queued(Allocator::Common));
    assert!(common > 2.0 * own && common > 0.02, "{own} {common}");
}

/// The accesses of a policy are its own where they are counted, and the table's where not.
#[test]
fn in_c_a_policy_pays_for_the_words_it_touches() {
    let acts: &[&[Act]] = &[&[Act::Malloc { object: 0, size: 100 }, Act::Free { object: 0 }]];
    let run = |counts_accesses| {
        let private = setup("1x1", Allocator::Private, Order::Index);
        play(&Setup { counts_accesses, ..private }, acts).0
    };
    let (table, counted) = (run(false), run(true));
    let costs = Costs::default();
    assert_eq!(table.accesses, costs.c_alloc_accesses + costs.c_free_accesses);
    assert!(counted.accesses > 10, "{}", counted.accesses);
    let more = (counted.accesses - table.accesses) * costs.c_access;
    assert_eq!(counted.cycles.total(), table.cycles.total() + more);
}
