//! The simulation: cores that call, controllers that serve, messages between them.
//!
//! ```text
//!   core ── command ──► own controller ──────────────── network ──► home's controller: a queue, first come
//!    ▲                   own heap: its gate                           first served, then the heap's gate
//!    └───────────────── answer ◄──────────────────────── network ◄── answer
//! ```
//!
//! A core makes one call at a time and waits for it. Its controller has two halves: one performs what the
//! own core commands, the other what comes from elsewhere; they meet at the heap's lock. Which heap
//! is asked next and who may pass a gate is decided by `core::place::mesh`, which block by the
//! policy; this file moves messages and charges cycles.
//!
//! Invariant: every cycle between a call and its return is charged to exactly one cause.

use super::account::{Cycles, NodeCounts, Run};
use super::agenda::Agenda;
use super::costs::{Costs, OutOfRange};
use super::load::{Act, Load};
use super::network::Network;
use super::sites::{BadHeaps, Sites};
use freehold_blocks::policy::Policy;
use freehold_core::place::mesh::{
    Answer, Ask, Batch, Gate, Global, HeapId, HeapSet, Hint, Lazy, MAX_BATCH, Mesh, Order,
    PriorityTable, Summary, level,
};
use std::collections::VecDeque;

/// Which allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocator {
    /// In C: one heap over all memories, one lock, at node 0.
    Global,
    /// In C: every node its own heap, and no other.
    Private,
    /// Microcode of the master's controller, node 0, for all: one heap over all memories.
    Master,
    /// Microcode along priority tables, the own heap first.
    Microcoded,
    /// Microcode along one table for all nodes, by number: the own heap where it stands.
    Common,
    /// Lazy selection over the heap space map.
    Proposed,
}

impl Allocator {
    /// Every allocator.
    pub const ALL: [Allocator; 6] = [
        Allocator::Global,
        Allocator::Private,
        Allocator::Master,
        Allocator::Microcoded,
        Allocator::Common,
        Allocator::Proposed,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Allocator::Global => "global",
            Allocator::Private => "private",
            Allocator::Master => "master",
            Allocator::Microcoded => "microcoded",
            Allocator::Common => "common table",
            Allocator::Proposed => "proposed",
        }
    }

    pub(super) const fn is_in_c(self) -> bool {
        matches!(self, Allocator::Global | Allocator::Private)
    }

    /// Whether no part of a call is in C.
    pub(super) const fn is_microcode(self) -> bool {
        matches!(self, Allocator::Master | Allocator::Microcoded | Allocator::Common)
    }
}

/// What the proposed allocator does better than it was published. All off: as published.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Improve {
    /// A remote heap is locked, searched and unlocked by one message instead of two.
    pub one_message: bool,
    /// Cycles for which a node believes that a heap is still as full as it said; 0: it never does. Takes
    /// part in the order `hinted` only.
    pub trusted_for: u64,
    /// The middle node of each 8 x 8 keeps a summary, and searches read it.
    pub summary: bool,
    /// Bytes of the pages that nodes borrow instead of blocks; 0: none.
    pub page_bytes: u32,
    /// Frees of another node's blocks that travel in one message; 1: each alone, and waited for.
    pub batch: usize,
    /// Cycles after which an unfilled batch leaves.
    pub batch_age: u64,
}

/// A node that fails: its core stops, and its controller answers nobody. Its memory is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Which.
    pub node: HeapId,
    /// After so many counted calls.
    pub after: u64,
    /// Cycles that are watched from then on; then the run ends.
    pub watched: u64,
    /// Cycles after which whoever waits for an answer of it gives up, and asks it no more; 0: never, as published.
    pub patience: u64,
}

/// Everything but the load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// The platform.
    pub mesh: Mesh,
    /// Bytes of each node's heap.
    pub heap_bytes: u64,
    /// Who serves.
    pub allocator: Allocator,
    /// In which order remote heaps are asked.
    pub order: Order,
    /// Rounds over busy heaps before waiting at each.
    pub rounds: u32,
    /// What the proposed allocator does better.
    pub improve: Improve,
    /// What things cost.
    pub costs: Costs,
    /// In C: the accesses to metadata are those that the policy makes, not those of the table of costs.
    pub counts_accesses: bool,
    /// Events of every node before anything is counted: the slowest has filled its heap, too.
    pub warm_up: u64,
    /// Events that are counted; then the run ends, if the load has not.
    pub events: u64,
    /// Events of every node that are counted before it may end: without, the slowest would hardly count.
    pub least_per_node: u64,
    /// A node that fails.
    pub failure: Option<Failure>,
}

/// A run that could not begin.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadRun {
    /// A cost.
    #[error(transparent)]
    Costs(#[from] OutOfRange),
    /// The heaps.
    #[error(transparent)]
    Heaps(#[from] BadHeaps),
    /// A table is fixed before the run.
    #[error("priority tables know no hints: microcoded goes by index, distance or rotated")]
    Hinted,
    /// Only a search that goes from heap to heap can be improved so.
    #[error("only the proposed allocator has improvements, not {0}")]
    Improved(&'static str),
    /// More than a message holds.
    #[error("a batch has at most {MAX_BATCH} frees, not {0}")]
    Batch(usize),
}

/// Runs `load` on fresh heaps with policy `P`.
///
/// # Errors
/// See [`BadRun`].
pub fn run<P: Policy>(setup: &Setup, load: &mut dyn Load) -> Result<Run, BadRun> {
    setup.costs.check()?;
    if setup.allocator == Allocator::Microcoded && setup.order == Order::Hinted {
        return Err(BadRun::Hinted);
    }
    if setup.allocator != Allocator::Proposed && setup.improve != Improve::default() {
        return Err(BadRun::Improved(setup.allocator.name()));
    }
    if setup.improve.batch > MAX_BATCH {
        return Err(BadRun::Batch(setup.improve.batch));
    }
    let shared = matches!(setup.allocator, Allocator::Global | Allocator::Master);
    let page_bytes = setup.improve.page_bytes;
    let sites = Sites::new::<P>(setup.mesh.heaps(), setup.heap_bytes, shared, page_bytes)?;
    let mut world = World::new(setup, sites, load);
    world.begin();
    world.until_the_end();
    Ok(world.finish())
}

/// What happens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A core goes on.
    Core(HeapId),
    /// A core's rest between rounds is over.
    Rested(HeapId),
    /// A message is at its home's controller.
    Arrive(u32),
    /// The controller has performed it.
    Done(u32),
    /// The answer is back.
    Answered(u32),
    /// There will be none: who waited for it gives up.
    GivenUp(u32),
}

/// What a message wants of its home.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// For the call that `from` is making; it waits for the answer.
    Ask(Ask),
    /// The lock of the one heap is given back.
    Unlock,
    /// Objects to be freed.
    Frees(Batch<u32>),
    /// A lent page comes home.
    Page(u32),
    /// The heap of that bit reaches that level: for the summary that `home` keeps.
    Told(u32, usize),
    /// Read the summary; `from` waits for it.
    Consult,
}

impl What {
    /// How it comes to the gate of its home, if it has to.
    pub(super) const fn at_the_gate(&self) -> Option<Ask> {
        match self {
            What::Ask(ask) => Some(*ask),
            What::Unlock => Some(Ask::Take),
            What::Frees(_) | What::Page(_) => Some(Ask::Free),
            What::Told(..) | What::Consult => None,
        }
    }

    /// Whether `from` waits for an answer.
    pub(super) const fn is_answered(&self) -> bool {
        matches!(self, What::Ask(_) | What::Consult)
    }
}

/// A message on its way, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) from: HeapId,
    pub(super) home: HeapId,
    pub(super) what: What,
    /// What finding this heap cost, and giving the command.
    pub(super) found: u64,
    pub(super) command: u64,
    pub(super) sent: u64,
    pub(super) arrived: u64,
    pub(super) started: u64,
    pub(super) done: u64,
    /// Cycles that it waited for links, there and back.
    pub(super) queued: u64,
    pub(super) answer: Answer,
    /// The longest free block of `home` afterwards, in bytes.
    pub(super) room: u64,
}

/// A core and the call that it is making.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) act: Act,
    pub(super) search: Search,
    pub(super) full: Vec<u64>,
    pub(super) begun: u64,
    pub(super) spent: Cycles,
    pub(super) counts: NodeCounts,
    /// Calls of its warm-up.
    pub(super) calls: u64,
    /// Where the object went.
    pub(super) served_by: Option<HeapId>,
    /// What its node has heard of others; empty until it has heard of one, and unless it goes by hints.
    pub(super) hints: Vec<Hint>,
    /// What the summary of its tile said, in this call.
    pub(super) summary: Option<u64>,
    /// It knows that the failed node is gone.
    pub(super) knows: bool,
    /// When its last request was served.
    pub(super) last: u64,
    pub(super) batch: Batch<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Search {
    None,
    Global(Global),
    Table(PriorityTable),
    Lazy(Lazy),
}

/// A node's controller, as others see it.
#[derive(Debug, Default)]
pub(super) struct Controller {
    pub(super) gate: Gate,
    /// At work for others.
    pub(super) at_work: bool,
    /// Messages from elsewhere, in the order of arrival.
    pub(super) queue: VecDeque<u32>,
    /// Messages that wait for the lock, in order.
    pub(super) waiting: VecDeque<u32>,
    /// Of its tile, where it keeps one.
    pub(super) summary: Summary,
    /// The level that its heap has told the keeper.
    pub(super) told: usize,
}

/// A run under way.
pub(super) struct World<'a> {
    pub(super) setup: &'a Setup,
    pub(super) costs: Costs,
    pub(super) load: &'a mut dyn Load,
    pub(super) sites: Sites<'a>,
    pub(super) network: Network,
    pub(super) agenda: Agenda<Event>,
    pub(super) cores: Vec<Core>,
    pub(super) controllers: Vec<Controller>,
    pub(super) messages: Vec<Message>,
    pub(super) unused: Vec<u32>,
    pub(super) now: u64,
    /// Nodes that have not yet made the calls of their warm-up.
    pub(super) cold: usize,
    /// Nodes of which too few calls are counted yet.
    pub(super) behind: usize,
    /// Requests served while calls are counted.
    pub(super) served: u64,
    /// When the node failed.
    pub(super) failed: Option<u64>,
    pub(super) run: Run,
    /// What the network had carried when counting began.
    pub(super) before: (u64, u64, u64),
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup, sites: Sites<'a>, load: &'a mut dyn Load) -> Self {
        let heaps = setup.mesh.heaps();
        let told = level(u64::MAX);
        let core = |_| Core {
            act: Act::Pause,
            search: Search::None,
            full: vec![0; HeapSet::words(heaps)],
            begun: 0,
            spent: Cycles::default(),
            counts: NodeCounts::default(),
            calls: 0,
            served_by: None,
            hints: Vec::new(),
            summary: None,
            knows: false,
            last: 0,
            batch: Batch::new(),
        };
        World {
            setup,
            costs: setup.costs,
            load,
            sites,
            network: Network::new(setup.mesh),
            agenda: Agenda::new(),
            cores: (0..heaps).map(core).collect(),
            controllers: (0..heaps).map(|_| Controller { told, ..Controller::default() }).collect(),
            messages: Vec::new(),
            unused: Vec::new(),
            now: 0,
            cold: if setup.warm_up == 0 { 0 } else { heaps },
            behind: if setup.least_per_node == 0 { 0 } else { heaps },
            served: 0,
            failed: None,
            run: Run::default(),
            before: (0, 0, 0),
        }
    }

    fn begin(&mut self) {
        for node in self.setup.mesh.all() {
            self.agenda.enter(0, Event::Core(node));
        }
    }

    fn until_the_end(&mut self) {
        while !self.is_over() {
            let Some((now, event)) = self.agenda.next() else { return };
            self.now = now;
            match event {
                Event::Core(node) => self.act(node),
                Event::Rested(node) => self.step(node, None, now),
                Event::Arrive(message) => self.arrive(message),
                Event::Done(message) => self.done(message),
                Event::Answered(message) => self.answered(message),
                Event::GivenUp(message) => self.give_up(message),
            }
        }
    }

    fn is_over(&self) -> bool {
        match self.setup.failure {
            Some(failure) => self.failed.is_some_and(|at| self.now >= at + failure.watched),
            None => self.run.events >= self.setup.events && self.behind == 0,
        }
    }

    pub(super) fn is_counting(&self) -> bool {
        self.cold == 0
    }
}

/// Counting.
impl World<'_> {
    /// A call of the warm-up has ended. With the last node's last one counting begins.
    pub(super) fn warm(&mut self, node: HeapId) {
        let core = &mut self.cores[node.index()];
        core.calls += 1;
        self.cold -= usize::from(core.calls == self.setup.warm_up);
        if self.is_counting() {
            self.begin_counting();
        }
    }

    fn begin_counting(&mut self) {
        self.before = (self.now, self.network.messages(), self.network.hops());
    }

    fn finish(mut self) -> Run {
        let (now, messages, hops) = self.before;
        self.run.elapsed = self.now - now;
        self.run.messages = self.network.messages() - messages;
        self.run.hops = self.network.hops() - hops;
        for (core, links) in self.cores.iter_mut().zip(self.network.taken().chunks(4)) {
            core.counts.links = links.iter().sum();
        }
        self.run.aftermath = self.aftermath();
        self.run.refused = self.cores.iter().map(|core| core.counts.refused).sum();
        self.run.nodes = self.cores.iter().map(|core| core.counts).collect();
        debug_assert_eq!(self.sites.check(), Ok(()));
        self.run
    }
}

/// Where the lock of the one heap is.
pub(super) const FIRST: HeapId = match HeapId::new(0) {
    Some(heap) => heap,
    None => panic!("there is a first heap"),
};
