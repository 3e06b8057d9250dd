//! The search against a second reading of the chapter, written as it is printed, over every state
//! of four nodes and a great many of eight.

extern crate std;

use super::*;
use std::vec::Vec;

/// Every load at which something changes, at some average of the others.
const LOADS: [u64; 9] = [0, 9, 10, 25, 33, 48, 65, 80, 100];

fn loads(percents: &[u64]) -> Vec<Load> {
    percents.iter().map(|&percent| Load::of(percent, 100)).collect()
}

fn node(number: usize) -> NodeId {
    NodeId::new(number).expect("few nodes")
}

fn search<'a>(
    loads: &'a [Load],
    shared: Load,
    here: usize,
    distances: &'a [u32],
) -> RemoteSearch<'a> {
    let average = Average::of(loads.iter().copied()).and(shared);
    RemoteSearch { loads, distances, average, thresholds: Thresholds::PAPER, here: node(here) }
}

/// The pseudo-code, branch by branch: "sort nodes in ascending order of utilization", then the
/// first of each category that is not the asking node. Exact rationals by cross-multiplication.
fn as_printed(percents: &[u64], shared: u64, here: usize, distances: &[u32]) -> usize {
    let n = percents.len() as u64 + 1;
    let sum: u64 = percents.iter().sum::<u64>() + shared;
    let is_ideal = |u: u64| u < 10;
    let is_light = |u: u64| !is_ideal(u) && u * n * 10 <= sum * 7;
    let is_heavy = |u: u64| !is_ideal(u) && !is_light(u) && u * n * 10 >= sum * 13;
    let is_normal = |u: u64| !is_ideal(u) && !is_light(u) && !is_heavy(u);
    let mut sorted: Vec<usize> = (0..percents.len()).filter(|&i| i != here).collect();
    sorted.sort_by_key(|&i| (percents[i], distances[i], i));
    let first = |is: &dyn Fn(u64) -> bool| sorted.iter().copied().find(|&i| is(percents[i]));
    let own = percents[here];
    if is_ideal(own) {
        here
    } else if let Some(ideal) = first(&is_ideal) {
        ideal
    } else if let Some(light) = first(&is_light) {
        if percents[light] <= own { light } else { here }
    } else if let Some(normal) = first(&is_normal) {
        if percents[normal] <= own { normal } else { here }
    } else {
        here
    }
}

/// All lists of `len` of the interesting loads.
fn every_state(len: u32) -> impl Iterator<Item = Vec<u64>> {
    let count = LOADS.len().pow(len);
    (0..count).map(move |mut number| {
        let digits = (0..len).map(|_| {
            let digit = number % LOADS.len();
            number /= LOADS.len();
            LOADS[digit]
        });
        digits.collect()
    })
}

#[test]
fn the_first_choice_is_the_printed_one_in_every_state_of_four_nodes() {
    let distances = [[10, 16, 16, 22], [16, 10, 22, 16], [16, 22, 10, 16], [22, 16, 16, 10]];
    for percents in every_state(4) {
        let found = loads(&percents);
        for (shared, here) in [(0, 0), (20, 1), (55, 2), (100, 3), (33, 0)] {
            let search = search(&found, Load::of(shared, 100), here, &distances[here]);
            let printed = as_printed(&percents, shared, here, &distances[here]);
            assert_eq!(
                search.next(NodeSet::default()),
                Some(node(printed)),
                "N{here} asks; loads {percents:?}, shared {shared}"
            );
        }
    }
}

/// Eight nodes: a walk through states that a linear congruence draws.
#[test]
fn eight_nodes_choose_as_printed_too() {
    let distances = [10, 12, 14, 16, 18, 20, 22, 24];
    let mut state = 1_u64;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..50_000 {
        let percents: Vec<u64> = (0..8).map(|_| LOADS[draw() as usize % LOADS.len()]).collect();
        let (shared, here) = (draw() % 101, draw() as usize % 8);
        let found = loads(&percents);
        let search = search(&found, Load::of(shared, 100), here, &distances);
        let printed = as_printed(&percents, shared, here, &distances);
        assert_eq!(search.next(NodeSet::default()), Some(node(printed)), "{percents:?} {here}");
        assert_eq!(search.order(Effort::Complete, NodeSet::default()).count(), 8);
    }
}

#[test]
fn a_complete_search_tries_every_node_once_and_begins_with_the_strict_one() {
    for percents in every_state(4) {
        let found = loads(&percents);
        let search = search(&found, Load::of(40, 100), 2, &[16, 22, 10, 16]);
        let none = NodeSet::default();
        let strict: Vec<NodeId> = search.order(Effort::Strict, none).collect();
        let complete: Vec<NodeId> = search.order(Effort::Complete, none).collect();
        assert_eq!(strict[..], complete[..1]);
        let mut all = complete.clone();
        all.sort();
        assert_eq!(all, [0, 1, 2, 3].map(node), "{percents:?}: {complete:?}");
    }
}

#[test]
fn once_self_was_tried_the_rest_come_from_the_most_welcome_to_the_least() {
    let found = loads(&[90, 60, 20, 61]);
    let search = search(&found, Load::of(60, 100), 0, &[10, 16, 16, 22]);
    let rest: Vec<NodeId> =
        search.order(Effort::Complete, NodeSet::default().with(node(0))).collect();
    assert_eq!(rest, [2, 1, 3].map(node));
}

#[test]
fn ties_go_to_the_nearer_then_to_the_lower_number() {
    let found = loads(&[50, 5, 5, 5]);
    let near = |distances: &[u32]| {
        search(&found, Load::of(50, 100), 0, distances).next(NodeSet::default())
    };
    assert_eq!(near(&[10, 22, 16, 16]), Some(node(2)));
    assert_eq!(near(&[10, 16, 16, 16]), Some(node(1)));
    assert_eq!(near(&[10]), Some(node(1)), "distances that are not known are equal");
}

#[test]
fn one_node_is_always_its_own_answer() {
    for percent in [0, 50, 100] {
        let found = loads(&[percent]);
        let search = search(&found, Load::of(50, 100), 0, &[10]);
        let all: Vec<NodeId> = search.order(Effort::Complete, NodeSet::default()).collect();
        assert_eq!(all, [node(0)]);
    }
}
