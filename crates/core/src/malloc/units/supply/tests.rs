//! The supply against machines whose memory really shrinks by what is given.

extern crate std;

use super::*;
use crate::place::Path;
use core::cell::{Cell, RefCell};
use std::vec::Vec;

const GIB: u64 = 1 << 30;

/// Nodes of 1 GiB each; the last `shared` have no processors.
struct Fake {
    free: RefCell<Vec<u64>>,
    shared: usize,
    path: Path,
    questions: Cell<usize>,
}

impl Fake {
    fn new(free: &[u64], shared: usize, path: &str) -> Fake {
        let path = path.parse().expect("a path");
        Fake { free: RefCell::new(free.to_vec()), shared, path, questions: Cell::new(0) }
    }

    /// Takes `want` banks for `here`, of whichever nodes the supply names, and says which.
    fn take(&self, supply: &mut Supply, here: usize, mut want: usize) -> Option<Vec<usize>> {
        let mut nodes = Vec::new();
        while want > 0 {
            let (node, given) =
                self.ask_for(supply, |supply| supply.next(self, node(here), want))?;
            let free = &mut self.free.borrow_mut()[node.index()];
            *free = free.saturating_sub((given * BANK) as u64);
            nodes.extend(core::iter::repeat_n(node.index(), given));
            want -= given;
        }
        Some(nodes)
    }
}

impl Fake {
    /// What the supply says, once it knows what it must: while it holds the lock it asks nothing.
    fn ask_for<R>(
        &self,
        supply: &mut Supply,
        mut work: impl FnMut(&mut Supply) -> Option<R>,
    ) -> Option<R> {
        let mut answer = Answer::None;
        loop {
            let before = self.questions.get();
            supply.start(answer, false);
            let said = work(supply);
            assert_eq!(self.questions.get(), before, "asked under the lock");
            match supply.question() {
                Question::None => return said,
                _ if said.is_some() => panic!("said something, and has a question"),
                question => answer = question.ask(self),
            }
        }
    }
}

impl Nodes for Fake {
    fn here(&self) -> Option<NodeId> {
        None
    }

    fn has_policy(&self) -> bool {
        false
    }

    fn path(&self) -> Path {
        self.path
    }

    fn room(&self, node: NodeId) -> Option<Room> {
        self.questions.set(self.questions.get() + 1);
        Some(Room { free: self.free.borrow()[node.index()], capacity: GIB })
    }

    fn survey(&self, from: NodeId) -> Survey {
        let count = self.free.borrow().len();
        let mut survey = Survey::NOTHING;
        for node in (0..count).filter_map(NodeId::new) {
            survey.usable = survey.usable.with(node);
            if node.index() + self.shared >= count {
                survey.shared = survey.shared.with(node);
            }
            survey.rooms[node.index()] = self.room(node).expect("it is there");
            survey.distances[node.index()] = 10 + from.index().abs_diff(node.index()) as u32;
        }
        survey
    }

    fn prefer(&self, _: *mut u8, _: usize, _: NodeId) -> bool {
        true
    }
}

fn node(number: usize) -> NodeId {
    NodeId::new(number).expect("few nodes")
}

fn runs(nodes: &[usize]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &node in nodes {
        match runs.last_mut() {
            Some((last, len)) if *last == node => *len += 1,
            _ => runs.push((node, 1)),
        }
    }
    runs
}

#[test]
fn small_programs_ask_nothing_and_large_ones_seldom() {
    let (fake, mut supply) = (Fake::new(&[GIB; 4], 0, "local>search"), Supply::new());
    assert_eq!(fake.take(&mut supply, 1, 4).unwrap(), [1; 4]);
    assert_eq!(fake.questions.get(), 0);
    for _ in 0..400 {
        assert_eq!(fake.take(&mut supply, 1, 1).unwrap(), [1]);
    }
    assert!(fake.questions.get() < 12, "{} questions for 800 MiB", fake.questions.get());
}

/// The order is that of `RemoteSearch`: node 2 is light, 3 normal, 0 heavy; each gives what it has.
#[test]
fn what_a_full_node_lacks_comes_from_where_the_search_says() {
    let mib = |mib: u64| mib << 20;
    let free = [mib(24), mib(64), mib(824), mib(424)];
    let (fake, mut supply) = (Fake::new(&free, 0, "local>shared>search"), Supply::new());
    let order = runs(&fake.take(&mut supply, 1, 4 + 600).unwrap());
    // 4 MiB stay with each; the four banks that nobody asked for are of node 1.
    assert_eq!(order[0], (1, 30));
    assert_eq!(order[1..].iter().map(|run| run.0).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(order[1].1, 410);
}

#[test]
fn shared_memory_comes_where_the_path_has_it() {
    let free = [GIB / 4, 0, GIB / 2, GIB / 2];
    let first = |path: &str| {
        let (fake, mut supply) = (Fake::new(&free, 1, path), Supply::new());
        supply.set_offer(node(1), Offer { node: Home::of(node(1)), banks: 0 });
        fake.take(&mut supply, 1, 1).map(|nodes| nodes[0])
    };
    assert_eq!(first("local>shared>search"), Some(3));
    assert_eq!(first("local>search>shared"), Some(2));
    assert_eq!(first("shared>local"), Some(3));
    assert_eq!(first("search"), Some(2));
    assert_eq!(first("local"), None);
}

#[test]
fn first_choice_is_also_not_asked_for_every_bank() {
    let (fake, mut supply) = (Fake::new(&[GIB; 3], 1, "shared>local>search"), Supply::new());
    let mut taken = Vec::new();
    for _ in 0..450 {
        taken.extend(fake.take(&mut supply, 0, 1).unwrap());
    }
    // What nobody asked for is the node's own; then the shared memory until it is full.
    assert_eq!(runs(&taken), [(0, 4), (2, 446)]);
    assert!(fake.questions.get() < 40, "{}", fake.questions.get());
}

#[test]
fn when_everything_is_full_it_is_the_machine_s_business() {
    let (fake, mut supply) = (Fake::new(&[0; 3], 1, "local>shared>search"), Supply::new());
    assert_eq!(fake.take(&mut supply, 2, 20).unwrap(), [2; 20]);
    let fake = Fake::new(&[0, GIB], 0, "local");
    assert_eq!(fake.take(&mut Supply::new(), 0, 20), None);
}

#[test]
fn nobody_gets_more_than_there_is_while_another_has_some() {
    let free = [300 << 20, 100 << 20, 500 << 20, 40 << 20];
    let (fake, mut supply) = (Fake::new(&free, 1, "local>shared>search"), Supply::new());
    let mut got = [0; 4];
    for step in 0..440 {
        // Two homes by turns, sizes from one bank to nine.
        for node in fake.take(&mut supply, step % 2, 1 + step % 9 / 8 * 8).unwrap() {
            got[node] += BANK as u64;
        }
        let used: u64 = got.iter().sum();
        let room: u64 = free.iter().map(|free| free - KEPT_MIN).sum();
        if used + (64 << 20) < room {
            let over = (0..4).find(|&node| got[node] > free[node]);
            assert_eq!(over, None, "after {step}: {got:?}");
        }
    }
}

fn set(nodes: &[usize]) -> NodeSet {
    nodes.iter().fold(NodeSet::default(), |set, &number| set.with(node(number)))
}

/// What was offered before is void; others go where the path leads without that node; and back when it is open again.
#[test]
fn a_closed_node_gives_nothing_until_it_is_open_again() {
    let (fake, mut supply) = (Fake::new(&[GIB; 4], 0, "local>shared>search"), Supply::new());
    assert_eq!(fake.take(&mut supply, 1, 40).unwrap(), [1; 40]);
    supply.close(set(&[1]), false);
    let stays = fake.ask_for(&mut supply, |supply| supply.stays_here(&fake, node(1)));
    assert_eq!(stays, Some(false));
    let taken = fake.take(&mut supply, 1, 40).unwrap();
    assert!(!taken.contains(&1), "{taken:?}");
    assert_eq!(fake.take(&mut supply, 0, 40).unwrap(), [0; 40]);
    supply.close(set(&[]), false);
    assert_eq!(fake.take(&mut supply, 1, 40).unwrap(), [1; 40]);
}

#[test]
fn a_closed_home_finds_memory_even_where_its_path_ends_there() {
    let (fake, mut supply) = (Fake::new(&[GIB; 4], 0, "local"), Supply::new());
    supply.close(set(&[1, 2]), false);
    assert_eq!(fake.take(&mut supply, 2, 8).unwrap(), [3; 8]);
    // Nothing anywhere: its path allows no other; one with a search leads to the nearest that is open.
    supply.close(set(&[1, 2]), false);
    let full = Fake::new(&[0; 4], 0, "local");
    assert_eq!(full.take(&mut supply, 2, 1), None);
    let full = Fake::new(&[0; 4], 0, "local>search");
    assert_eq!(full.take(&mut supply, 2, 1).unwrap(), [3]);
}

#[test]
fn who_is_bound_is_refused_rather_than_sent_elsewhere() {
    for path in ["local>shared>search", "shared>local", "search", "shared"] {
        let fake = Fake::new(&[GIB, GIB, 20 << 20, GIB], 1, path);
        let mut supply = Supply::new();
        supply.close(set(&[2]).complement(), true);
        assert_eq!(fake.take(&mut supply, 2, 8).unwrap(), [2; 8], "{path}");
        assert_eq!(fake.take(&mut supply, 2, 8), None, "{path}");
    }
}

/// Where several homes ask by turns, the last word is had at once.
#[test]
fn in_haste_it_asks_at_once() {
    let (fake, mut supply) = (Fake::new(&[0, 0, GIB, 0], 0, "local>search"), Supply::new());
    supply.set_offer(node(1), Offer { node: Home::of(node(1)), banks: 0 });
    supply.start(Answer::None, true);
    assert_eq!(supply.next(&fake, node(1), 3), Some((node(2), 3)));
    assert_eq!(supply.question(), Question::None);
    assert!(fake.questions.get() > 1);
}
