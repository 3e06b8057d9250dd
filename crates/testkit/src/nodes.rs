//! Memories that are none: a machine's nodes for tests, one thread that is wherever the test says.

use freehold_core::machine::{Nodes, Room, Survey};
use freehold_core::malloc::units::BANK;
use freehold_core::place::{Home, NodeId, NodeSet, Path};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Bytes of each node.
pub const CAPACITY: u64 = 1 << 30;

/// See the module. Pages are told apart by banks.
#[derive(Debug)]
pub struct FakeNodes {
    here: Cell<usize>,
    free: Vec<Cell<u64>>,
    path: Path,
    shared: NodeSet,
    preferred: RefCell<BTreeMap<usize, NodeId>>,
    lying: RefCell<BTreeMap<usize, NodeId>>,
    stuck: Cell<Option<usize>>,
}

impl FakeNodes {
    /// `count` empty nodes with processors.
    pub fn new(count: usize) -> FakeNodes {
        FakeNodes {
            here: Cell::new(0),
            free: vec![Cell::new(CAPACITY); count],
            path: Path::LOCAL_SHARED_SEARCH,
            shared: NodeSet::default(),
            preferred: RefCell::new(BTreeMap::new()),
            lying: RefCell::new(BTreeMap::new()),
            stuck: Cell::new(None),
        }
    }

    /// The last node has no processors, and memory is looked for along `path`.
    #[must_use]
    pub fn with_shared_last(mut self, path: Path) -> FakeNodes {
        self.shared =
            NodeId::new(self.free.len() - 1).map_or(self.shared, |node| self.shared.with(node));
        self.path = path;
        self
    }

    /// The calling thread is on that node from now on.
    pub fn go_to(&self, node: usize) {
        self.here.set(node % self.free.len());
    }

    /// Says how many bytes a node has left.
    pub fn set_free(&self, node: usize, bytes: u64) {
        self.free[node].set(bytes);
    }

    /// Somebody touches these bytes: they lie from now on where they were to come from, unless they lie elsewhere already.
    pub fn touch(&self, at: usize, len: usize) {
        let mut lying = self.lying.borrow_mut();
        for bank in at / BANK..=(at + len - 1) / BANK {
            if let Some(&node) = self.preferred.borrow().get(&bank) {
                lying.entry(bank).or_insert(node);
            }
        }
    }

    /// Where the page at `address` lies.
    pub fn lies_on(&self, address: usize) -> Option<usize> {
        self.lying.borrow().get(&(address / BANK)).map(|node| node.index())
    }

    /// Somebody else holds the pages of the bank of `address`: they cannot be moved.
    pub fn hold(&self, address: Option<usize>) {
        self.stuck.set(address.map(|address| address / BANK));
    }

    /// The node that the page at `address` was to come from.
    pub fn node_of(&self, address: usize) -> Option<usize> {
        self.preferred.borrow().get(&(address / BANK)).map(|node| node.index())
    }
}

impl Nodes for FakeNodes {
    fn here(&self) -> Option<NodeId> {
        NodeId::new(self.here.get())
    }

    fn has_policy(&self) -> bool {
        false
    }

    fn path(&self) -> Path {
        self.path
    }

    fn room(&self, node: NodeId) -> Option<Room> {
        let free = self.free.get(node.index())?.get();
        Some(Room { free, capacity: CAPACITY })
    }

    fn survey(&self, from: NodeId) -> Survey {
        let mut survey = Survey { shared: self.shared, ..Survey::NOTHING };
        for node in (0..self.free.len()).filter_map(NodeId::new) {
            survey.usable = survey.usable.union(NodeSet::default().with(node));
            survey.rooms[node.index()] = self.room(node).unwrap_or_default();
            survey.distances[node.index()] = 10 * from.index().abs_diff(node.index()) as u32;
        }
        survey
    }

    fn prefer(&self, at: *mut u8, len: usize, node: NodeId) -> bool {
        let banks = at.addr() / BANK..(at.addr() + len) / BANK;
        self.preferred.borrow_mut().extend(banks.map(|bank| (bank, node)));
        true
    }

    fn locate(&self, at: *mut u8, page: usize, pages: &mut [Home]) -> bool {
        let lying = self.lying.borrow();
        for (number, home) in pages.iter_mut().enumerate() {
            let node = lying.get(&((at.addr() + number * page) / BANK));
            *home = node.copied().map_or(Home::ANYWHERE, Home::of);
        }
        true
    }

    fn migrate(&self, at: *mut u8, page: usize, pages: &[Home], from: NodeSet, to: NodeId) {
        for (number, home) in pages.iter().enumerate() {
            let bank = (at.addr() + number * page) / BANK;
            if home.node().is_some_and(|node| from.contains(node)) && self.stuck.get() != Some(bank)
            {
                self.lying.borrow_mut().insert(bank, to);
            }
        }
    }
}
