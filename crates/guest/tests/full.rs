//! A node that is full: where the rest of a demand goes, by the path and `core/place`, in order, and nothing fails.

#[allow(dead_code, reason = "not every file of tests needs all of it")]
mod support;

use freehold_core::place::{Average, Load, NodeId, NodeSet, RemoteSearch, Thresholds};
use freehold_guest::{Bytes, Machine};
use support::{four_nodes, job, run};

freehold_testkit::trials!(
    what_a_full_node_lacks_comes_from_where_place_says,
    a_memory_only_node_comes_when_its_option_says,
    a_program_that_wants_its_own_node_only_is_refused_not_killed,
    everything_full_but_one_far_node_is_no_out_of_memory,
);

/// MiB that are left on nodes 0 to 3: the program asks on node 1.
const FREE: [u64; 4] = [130, 64 + LOW, 110, 180];
/// MiB that the kernel keeps of such a node, about.
const LOW: u64 = 27;
/// MiB that it asks for.
const DEMAND: u64 = 256;

/// What a run of the program said.
struct Told {
    /// Free bytes above the kernel's low watermark, and capacity, of each node, before the demand.
    rooms: Vec<(u64, u64)>,
    /// Stretches of at least four MiB on one node, in order: node and MiB.
    runs: Vec<(usize, u64)>,
    /// MiB in shorter ones.
    strays: u64,
    refused: bool,
}

fn told(lines: &str) -> Told {
    let mut told = Told { rooms: Vec::new(), runs: Vec::new(), strays: 0, refused: false };
    for line in lines.lines() {
        let mut words = line.split_whitespace();
        let kind = words.next().expect("a word");
        let numbers: Vec<u64> = words.map(|word| word.parse().expect("a number")).collect();
        match (kind, &numbers[..]) {
            ("node", &[_, free, capacity, low]) => {
                told.rooms.push((free.saturating_sub(low), capacity));
            }
            ("run", &[node, mib]) if mib >= 4 => told.runs.push((node as usize, mib)),
            ("run", &[_, mib]) => told.strays += mib,
            ("refused", _) => told.refused = true,
            _ => panic!("{line}"),
        }
    }
    told
}

impl Told {
    /// Everything was served, nearly all of it where it was decided that it should be, and first of all by node 1, which
    /// gave what it had, less what it keeps and a bank.
    #[track_caller]
    fn assert_served(&self) {
        // What the kernel takes for itself meanwhile, of nodes that are nearly full, makes 1 to 6 MiB of short ones.
        assert!(!self.refused && self.strays <= DEMAND / 32, "{} MiB elsewhere", self.strays);
        assert_eq!(self.runs.iter().map(|&(_, mib)| mib).sum::<u64>() + self.strays, DEMAND);
        let (had, gave) = (self.rooms[1].0 >> 20, self.runs[0].1);
        assert!(self.runs[0].0 == 1 && gave + 12 >= had && gave <= had, "{had} MiB: {gave}");
    }

    /// Every stretch after the first lies where the search of `core::place` says, by the loads of that moment. An answer
    /// is good for some banks, by which the node that was the least used may have become another.
    #[track_caller]
    fn assert_searched(&self, processors: usize) {
        const SOME_BANKS: u32 = 6; // in per cent of a node
        let mut rooms = self.rooms.clone();
        for (at, &(node, mib)) in self.runs.iter().enumerate() {
            let loads: Vec<Load> =
                rooms.iter().map(|&(free, all)| Load::of(all - free, all)).collect();
            let said = search(&loads, processors);
            if at == 1 {
                assert_eq!(node, said, "the first choice, of {loads:?}");
            }
            let close = loads[node].percent() <= loads[said].percent() + SOME_BANKS;
            assert!(at == 0 || close, "stretch {at} on {node}, not {said}: {loads:?}");
            rooms[node].0 = rooms[node].0.saturating_sub(mib << 20);
        }
        let elsewhere = self.runs.iter().any(|&(node, _)| node >= processors);
        assert!(!elsewhere, "{:?}", self.runs);
    }
}

fn ask(machine: Machine, options: &str, free: &[u64], demand: u64) -> Told {
    let free: String = free.iter().map(|mib| format!(" {mib}")).collect();
    let script = format!("{options} LD_PRELOAD=/libfreehold.so /full 1 {demand}{free}");
    let done = run(&job(machine, "full", &script));
    println!("{options} leaving{free}:\n{}", done.stdout);
    assert!(!done.console.contains("Out of memory"), "{}", done.console);
    let told = told(&done.stdout);
    let Told { rooms, strays, refused, .. } = &told;
    let rooms: Vec<u64> = rooms.iter().map(|room| room.0 >> 20).collect();
    let runs: Vec<[u64; 2]> = told.runs.iter().map(|&(node, mib)| [node as u64, mib]).collect();
    let options = options.trim_start_matches("FREEHOLD_NODES=").trim_matches('\'');
    freehold_testkit::figures::keep(&format!(
        r#"{{"kind":"full","path":"{options}","home":1,"demand_mib":{demand},"rooms_mib":{rooms:?},"node_and_mib":{runs:?},"in_shorter_stretches_mib":{strays},"refused":{refused}}}"#
    ));
    told
}

/// The node with processors that `core::place` names for node 1 when that has no room.
fn search(loads: &[Load], processors: usize) -> usize {
    let here = NodeId::new(1).expect("a node");
    let search = RemoteSearch {
        loads: &loads[..processors],
        distances: &[20, 10, 20, 30],
        average: Average::of(loads.iter().copied()),
        thresholds: Thresholds::PAPER,
        here,
    };
    search.next(NodeSet::default().with(here)).expect("there are others").index()
}

fn what_a_full_node_lacks_comes_from_where_place_says() {
    let told = ask(four_nodes(512), "", &FREE, DEMAND);
    told.assert_served();
    told.assert_searched(4);
}

fn a_memory_only_node_comes_when_its_option_says() {
    let machine = || four_nodes(512).with_memory_only(Bytes(512 << 20));
    let free = [FREE[0], FREE[1], FREE[2], FREE[3], 400];
    let after_own = ask(machine(), "", &free, DEMAND);
    after_own.assert_served();
    assert_eq!(after_own.runs[1..].iter().map(|run| run.0).collect::<Vec<_>>(), [4]);
    let last = ask(machine(), "FREEHOLD_NODES='local>search>shared'", &free, DEMAND);
    last.assert_served();
    last.assert_searched(4);
    let first = ask(machine(), "FREEHOLD_NODES='shared>local>search'", &free, DEMAND);
    // What is taken before anybody is asked, four banks, is the own node's.
    let [(own, few), (shared, rest)] = first.runs[..] else { panic!("{:?}", first.runs) };
    assert!(own == 1 && few <= 10 && shared == 4 && rest >= DEMAND - 12, "{:?}", first.runs);
}

fn a_program_that_wants_its_own_node_only_is_refused_not_killed() {
    let told = ask(four_nodes(512), "FREEHOLD_NODES=local", &FREE, DEMAND);
    let [(node, mib)] = told.runs[..] else { panic!("{:?}", told.runs) };
    assert!(told.refused && told.strays == 0, "{:?}", told.runs);
    assert!(node == 1 && (44..=64).contains(&mib), "{mib} MiB on {node}");
}

fn everything_full_but_one_far_node_is_no_out_of_memory() {
    let told = ask(four_nodes(512), "", &[40, 40, 40, 330], DEMAND);
    let (last, _) = *told.runs.last().expect("it was served");
    assert!(!told.refused && last == 3, "{:?}", told.runs);
}
