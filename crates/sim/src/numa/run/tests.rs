//! Small machines whose every outcome can be said beforehand.

use super::*;
use crate::numa::requests::NEVER;
use freehold_blocks::FirstFit;

const MIB: u64 = 1 << 20;

/// What happened, as a list.
#[derive(Default)]
struct Log {
    served: Vec<Option<Memory>>,
    room: Vec<bool>,
    ns: Vec<u64>,
    live: Vec<u64>,
    freed: usize,
}

impl Watch for Log {
    fn freed(&mut self, steps: u64, ns: u64) {
        assert!(steps > 0 && ns > 0);
        self.freed += 1;
    }

    fn asked(&mut self, seen: Seen<'_>) {
        self.served.push(seen.served);
        self.room.push(seen.room_enough);
        self.ns.push(seen.ns);
        self.live.push(seen.state.live);
    }
}

fn node(i: usize) -> NodeId {
    NodeId::new(i).unwrap()
}

fn of(i: usize) -> Option<Memory> {
    Some(Memory::Of(node(i)))
}

fn request(i: usize, size: u64, lifetime: u64) -> Request {
    Request { node: node(i), size, lifetime }
}

fn costs() -> Costs {
    let remote_ns = vec![130, 180];
    Costs { request_ns: 100, step_ns: 1, load_ns: 5, local_ns: 80, shared_ns: 110, remote_ns }
}

fn go(path: Path, effort: Effort, background: &[Vec<u64>], requests: &[Request]) -> Log {
    go_on(&[MIB; 4], path, effort, background, requests)
}

fn go_on(
    capacities: &[u64],
    path: Path,
    effort: Effort,
    background: &[Vec<u64>],
    requests: &[Request],
) -> Log {
    let machine = Machine::new(capacities, 2 * MIB, 2).unwrap();
    let background = Background(background.to_vec());
    let (costs, thresholds) = (costs(), Thresholds::PAPER);
    let setup = Setup {
        machine: &machine,
        costs: &costs,
        path,
        effort,
        thresholds,
        background: &background,
        free_of_charge: 0,
    };
    let mut log = Log::default();
    run(&mut Backing::default(), &setup, requests, FirstFit::new, &mut log).unwrap();
    log
}

#[test]
fn local_only_fails_when_the_own_node_is_full() {
    let requests = [request(0, MIB / 2, NEVER), request(0, MIB / 2, NEVER), request(1, 100, NEVER)];
    let log = go(Path::LOCAL, Effort::Strict, &[], &requests);
    assert_eq!(log.served, [of(0), None, of(1)]);
    assert_eq!(log.room, [false, false, false], "half a mebibyte and a header are not free");
}

#[test]
fn the_path_goes_on_to_shared_memory_and_then_to_the_emptiest_node() {
    let requests = [900_000, 900_000, 1_100_000, 900_000].map(|size| request(0, size, NEVER));
    let log = go(Path::LOCAL_SHARED_SEARCH, Effort::Strict, &[], &requests);
    assert_eq!(log.served, [of(0), Some(Memory::Shared), Some(Memory::Shared), of(1)]);
    assert!(log.ns[3] > log.ns[1] && log.ns[1] > log.ns[0], "farther takes longer: {:?}", log.ns);
}

#[test]
fn a_strict_search_gives_up_where_a_complete_one_finds_room() {
    // N1 is empty and therefore ideal, but too short; nobody asks whether the block fits.
    let fill = [vec![900_000], vec![], vec![500_000], vec![700_000]];
    let capacities = [MIB, MIB / 8, MIB, MIB];
    let requests = [request(0, 300_000, NEVER)];
    let log = |effort| go_on(&capacities, Path::SEARCH, effort, &fill, &requests);
    assert_eq!(log(Effort::Strict).served, [None]);
    assert_eq!(log(Effort::Complete).served, [of(2)]);
}

#[test]
fn blocks_live_as_long_as_they_are_meant_to() {
    let requests = [request(0, 600_000, 2), request(0, 600_000, 1), request(0, 600_000, NEVER)];
    let log = go(Path::LOCAL, Effort::Strict, &[], &requests);
    assert_eq!(log.served, [of(0), None, of(0)], "freed before the third, not before the second");
    assert_eq!(log.live, [600_000, 600_000, 600_000]);
    assert_eq!(log.freed, 1);
}

#[test]
fn a_failure_with_room_enough_is_told_apart() {
    // Two holes of 300,000 between blocks that stay: 600,000 free, no 400,000 in one piece.
    let sizes = [300_000, 16, 300_000, 16, 440_000].map(|size| request(0, size, NEVER));
    let mut requests = sizes.to_vec();
    (requests[0].lifetime, requests[2].lifetime) = (5, 3);
    requests.push(request(0, 400_000, NEVER));
    let log = go(Path::LOCAL, Effort::Strict, &[], &requests);
    assert_eq!((log.served[5], log.room[5]), (None, true));
}

#[test]
fn a_background_that_does_not_fit_is_an_error() {
    let machine = Machine::new(&[MIB; 1], MIB, 1).unwrap();
    let (costs, background) = (costs(), Background(vec![vec![MIB]]));
    let setup = Setup {
        machine: &machine,
        costs: &costs,
        path: Path::LOCAL,
        effort: Effort::Strict,
        thresholds: Thresholds::PAPER,
        background: &background,
        free_of_charge: 0,
    };
    let found = run(&mut Backing::default(), &setup, &[], FirstFit::new, &mut Log::default());
    assert!(
        found
            .unwrap_err()
            .to_string()
            .starts_with("the background does not fit into the memory of N0")
    );
}
