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
use freehold_core::place::mesh::{
    Answer, Ask, Gate, Global, HeapId, HeapSet, Lazy, Mesh, Order, Pass, PriorityTable, Step, Walk,
    record_of,
};
use freehold_core::policy::Policy;
use std::collections::VecDeque;

/// Which allocator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocator {
    /// In C: one heap over all memories, one lock, at node 0.
    Global,
    /// In C: every node its own heap, and no other.
    Private,
    /// Microcode along priority tables.
    Microcoded,
    /// Lazy selection over the heap space map.
    Proposed,
}

impl Allocator {
    /// Every allocator.
    pub const ALL: [Allocator; 4] =
        [Allocator::Global, Allocator::Private, Allocator::Microcoded, Allocator::Proposed];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Allocator::Global => "global",
            Allocator::Private => "private",
            Allocator::Microcoded => "microcoded",
            Allocator::Proposed => "proposed",
        }
    }

    const fn is_in_c(self) -> bool {
        matches!(self, Allocator::Global | Allocator::Private)
    }
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
    /// What things cost.
    pub costs: Costs,
    /// Events before anything is counted.
    pub warm_up: u64,
    /// Events that are counted; then the run ends, if the load has not.
    pub events: u64,
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
}

/// Runs `load` on fresh heaps with policy `P`.
///
/// # Errors
/// See [`BadRun`].
pub fn run<P: Policy>(setup: &Setup, load: &mut impl Load) -> Result<Run, BadRun> {
    setup.costs.check()?;
    if setup.allocator == Allocator::Microcoded && setup.order == Order::Hinted {
        return Err(BadRun::Hinted);
    }
    let sites = Sites::<P>::new(
        setup.mesh.heaps(),
        setup.heap_bytes,
        setup.allocator == Allocator::Global,
    )?;
    let mut world = World::new(setup, sites, load);
    world.begin();
    world.until_the_end();
    Ok(world.finish())
}

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Event {
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
}

/// A message: a command on its way, and what became of it.
#[derive(Clone, Copy, Debug)]
struct Message {
    from: HeapId,
    home: HeapId,
    ask: Ask,
    /// Nobody waits for the answer.
    posted: bool,
    /// What finding this heap cost, and giving the command.
    found: u64,
    command: u64,
    sent: u64,
    arrived: u64,
    started: u64,
    done: u64,
    answer: Answer,
}

/// A core and the call that it is making.
#[derive(Debug)]
struct Core {
    act: Act,
    search: Search,
    full: Vec<u64>,
    begun: u64,
    spent: Cycles,
    counts: NodeCounts,
    /// Where the object went.
    served_by: Option<HeapId>,
}

#[derive(Clone, Copy, Debug)]
enum Search {
    None,
    Global(Global),
    Table(PriorityTable),
    Lazy(Lazy),
}

/// A node's controller, as others see it.
#[derive(Debug, Default)]
struct Controller {
    gate: Gate,
    /// At work for others.
    at_work: bool,
    /// Messages from elsewhere, in the order of arrival.
    queue: VecDeque<u32>,
    /// Messages that wait for the lock, in order.
    waiting: VecDeque<u32>,
}

struct World<'a, P, L> {
    setup: &'a Setup,
    costs: Costs,
    load: &'a mut L,
    sites: Sites<P>,
    network: Network,
    agenda: Agenda<Event>,
    cores: Vec<Core>,
    controllers: Vec<Controller>,
    messages: Vec<Message>,
    unused: Vec<u32>,
    now: u64,
    events: u64,
    run: Run,
    /// What the network had carried when counting began.
    before: (u64, u64, u64),
}

impl<'a, P: Policy, L: Load> World<'a, P, L> {
    fn new(setup: &'a Setup, sites: Sites<P>, load: &'a mut L) -> Self {
        let heaps = setup.mesh.heaps();
        let core = |_| Core {
            act: Act::Pause,
            search: Search::None,
            full: vec![0; HeapSet::words(heaps)],
            begun: 0,
            spent: Cycles::default(),
            counts: NodeCounts::default(),
            served_by: None,
        };
        World {
            setup,
            costs: setup.costs,
            load,
            sites,
            network: Network::new(setup.mesh),
            agenda: Agenda::new(),
            cores: (0..heaps).map(core).collect(),
            controllers: (0..heaps).map(|_| Controller::default()).collect(),
            messages: Vec::new(),
            unused: Vec::new(),
            now: 0,
            events: 0,
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
        while self.events < self.setup.warm_up + self.setup.events {
            let Some((now, event)) = self.agenda.next() else { return };
            self.now = now;
            match event {
                Event::Core(node) => self.act(node),
                Event::Rested(node) => self.step(node, None, now),
                Event::Arrive(message) => self.arrive(message),
                Event::Done(message) => self.done(message),
                Event::Answered(message) => self.answered(message),
            }
        }
    }

    fn is_counting(&self) -> bool {
        self.events >= self.setup.warm_up
    }
}

/// The core: what it does next, and the call from beginning to end.
impl<P: Policy, L: Load> World<'_, P, L> {
    fn act(&mut self, node: HeapId) {
        let act = self.load.next(node);
        let counting = self.is_counting();
        let core = &mut self.cores[node.index()];
        core.act = act;
        match act {
            Act::Think(cycles) => {
                if counting {
                    core.counts.thought += cycles;
                }
                self.load.done(node, act, true);
                self.agenda.enter(self.now + cycles, Event::Core(node));
            }
            Act::Pause => {}
            Act::Malloc { .. } | Act::Free { .. } => self.call(node),
        }
    }

    fn call(&mut self, node: HeapId) {
        let setup = self.setup;
        let rest = Walk::new(setup.order, setup.mesh, node);
        let core = &mut self.cores[node.index()];
        (core.begun, core.spent, core.served_by) = (self.now, Cycles::default(), None);
        core.search = match setup.allocator {
            Allocator::Global => Search::Global(Global::new(FIRST)),
            Allocator::Private => Search::Global(Global::new(node)),
            Allocator::Microcoded => Search::Table(PriorityTable::new(rest)),
            Allocator::Proposed => Search::Lazy(Lazy::new(rest, setup.rounds)),
        };
        let mut at = self.now;
        if setup.allocator != Allocator::Microcoded {
            core.spent.work += self.costs.c_call;
            at += self.costs.c_call;
        }
        match core.act {
            Act::Free { object } if !setup.allocator.is_in_c() => self.free(node, object, at),
            _ => self.step(node, None, at),
        }
    }

    /// Finds the owner and sends it the free.
    fn free(&mut self, node: HeapId, object: u32, at: u64) {
        let Some(owner) = self.sites.owner(object) else { return self.end(node, true, at) };
        let found = match self.setup.allocator {
            Allocator::Microcoded => {
                let rest = Walk::new(self.setup.order, self.setup.mesh, node);
                self.costs.record * record_of(rest, owner) as u64
            }
            _ => self.costs.c_map,
        };
        self.cores[node.index()].served_by = Some(owner);
        self.send(node, owner, Ask::Free, found, at);
    }

    /// The search goes on at `at`, after `answer`.
    fn step(&mut self, node: HeapId, answer: Option<Answer>, at: u64) {
        let core = &mut self.cores[node.index()];
        let step = match &mut core.search {
            Search::None => return,
            Search::Global(search) => search.next(answer),
            Search::Table(search) => search.next(answer),
            Search::Lazy(search) => search.next(answer, &mut HeapSet::over(&mut core.full)),
        };
        match step {
            Step::Ask(_, Ask::Take) if self.setup.allocator.is_in_c() => self.work_in_c(node, at),
            Step::Ask(home, ask) => {
                let found = self.finding(node, home, ask);
                self.send(node, home, ask, found, at);
            }
            Step::Rest(round) => {
                let rest = self.costs.rest(round);
                core.spent.wait += rest;
                self.agenda.enter(at + rest, Event::Rested(node));
            }
            Step::Served(_) => self.end(node, true, at),
            Step::Full => self.end(node, false, at),
        }
    }

    /// What it costs to come to that heap in the search.
    fn finding(&self, node: HeapId, home: HeapId, ask: Ask) -> u64 {
        match self.setup.allocator {
            Allocator::Microcoded => self.costs.record,
            Allocator::Proposed if home != node && ask != Ask::Take => self.costs.c_probe,
            _ => 0,
        }
    }

    fn end(&mut self, node: HeapId, served: bool, at: u64) {
        let counting = self.is_counting();
        let core = &mut self.cores[node.index()];
        let (act, spent) = (core.act, core.spent);
        debug_assert_eq!(at - core.begun, spent.total(), "every cycle has a cause");
        if counting {
            let counts = &mut core.counts;
            counts.events += 1;
            counts.cycles += spent;
            self.run.events += 1;
            self.run.cycles += spent;
            if let Act::Malloc { size, .. } = act {
                self.run.mallocs += 1;
                self.run.remote_mallocs +=
                    u64::from(core.served_by.is_some_and(|home| home != node));
                if !served {
                    core.counts.refused += 1;
                    self.run.refused += 1;
                    let spurious = self.sites.room_since(size, core.begun).is_some();
                    let all = self.setup.allocator != Allocator::Private;
                    self.run.spurious += u64::from(spurious && all);
                }
            }
        }
        self.events += 1;
        if self.events == self.setup.warm_up {
            self.begin_counting();
        }
        self.load.done(node, act, served);
        self.agenda.enter(at, Event::Core(node));
        while let Some(woken) = self.load.woken() {
            self.agenda.enter(at, Event::Core(woken));
        }
    }
}

/// Messages and controllers.
impl<P: Policy, L: Load> World<'_, P, L> {
    /// Gives the command at `at`; it is on its way when it has been given.
    fn send(&mut self, from: HeapId, home: HeapId, ask: Ask, found: u64, at: u64) {
        let Costs { command, v2p, .. } = self.costs;
        // What lies on another node is shared memory, and so is whatever is freed.
        let command = command + if ask == Ask::Free || from != home { v2p } else { 0 };
        self.run.asked += u64::from(self.is_counting() && ask != Ask::Take);
        let sent = at + found + command;
        let message = self.message(Message {
            from,
            home,
            ask,
            posted: false,
            found,
            command,
            sent,
            arrived: sent,
            started: sent,
            done: sent,
            answer: Answer::Full,
        });
        self.depart(message);
    }

    fn message(&mut self, message: Message) -> u32 {
        if let Some(unused) = self.unused.pop() {
            self.messages[unused as usize] = message;
            return unused;
        }
        self.messages.push(message);
        (self.messages.len() - 1) as u32
    }

    fn depart(&mut self, id: u32) {
        let Message { from, home, sent, .. } = self.messages[id as usize];
        let arrived = match from == home {
            true => sent,
            false => self.network.send(&self.costs, from, home, self.costs.flits_out, sent),
        };
        self.messages[id as usize].arrived = arrived;
        self.agenda.enter(arrived, Event::Arrive(id));
    }

    fn arrive(&mut self, id: u32) {
        let Message { from, home, .. } = self.messages[id as usize];
        if from == home {
            return self.enter(id);
        }
        self.controllers[home.index()].queue.push_back(id);
        self.take_up(home);
    }

    /// The half of the controller that serves others takes up its next message, if it is idle.
    fn take_up(&mut self, home: HeapId) {
        while !self.controllers[home.index()].at_work {
            let Some(id) = self.controllers[home.index()].queue.pop_front() else { return };
            self.enter(id);
        }
    }

    /// A message comes to the gate.
    fn enter(&mut self, id: u32) {
        let Message { from, home, ask, .. } = self.messages[id as usize];
        let controller = &mut self.controllers[home.index()];
        let pass = controller.gate.arrive(from, ask);
        if pass == Pass::Wait {
            controller.waiting.push_back(id);
            return;
        }
        debug_assert_ne!(pass, Pass::Refused, "only a holder sends Take");
        let answer = if pass == Pass::Go { self.perform(id) } else { Answer::Busy };
        let cycles = self.service(ask, answer);
        let message = &mut self.messages[id as usize];
        (message.answer, message.started, message.done) = (answer, self.now, self.now + cycles);
        self.agenda.enter(self.now + cycles, Event::Done(id));
        if from != home {
            self.controllers[home.index()].at_work = true;
            if self.is_counting() {
                let counts = &mut self.cores[home.index()].counts;
                counts.served += 1;
                counts.busy += cycles;
            }
        }
    }

    /// What was let in happens to the heap, whose lock is held until it is done.
    fn perform(&mut self, id: u32) -> Answer {
        let Message { from, home, ask, .. } = self.messages[id as usize];
        match (ask, self.cores[from.index()].act) {
            (Ask::Lock | Ask::TryLock, _) => Answer::Locked,
            // The core has done it itself; this gives the lock back.
            (Ask::Take, _) if self.setup.allocator.is_in_c() => Answer::Freed,
            (Ask::Take | Ask::Alloc, Act::Malloc { object, size }) => {
                match self.sites.alloc(object, home, size, self.now) {
                    Some(home) => {
                        self.cores[from.index()].served_by = Some(home);
                        Answer::Served
                    }
                    None => Answer::Full,
                }
            }
            (Ask::Free, Act::Free { object }) => {
                self.sites.free(object, self.now);
                Answer::Freed
            }
            _ => Answer::Full,
        }
    }

    /// How long the controller is at it.
    fn service(&self, ask: Ask, answer: Answer) -> u64 {
        let costs = &self.costs;
        let full = match self.setup.allocator {
            Allocator::Microcoded => costs.full_exhaustive,
            _ => costs.full_lazy,
        };
        let heap = match answer {
            Answer::Served => costs.alloc,
            Answer::Freed => costs.free,
            Answer::Full => full,
            Answer::Locked | Answer::Busy => 0,
        };
        match ask {
            Ask::Lock | Ask::TryLock => costs.lock,
            Ask::Take if self.setup.allocator.is_in_c() => costs.unlock,
            Ask::Take => heap + costs.unlock,
            Ask::Alloc | Ask::Free => costs.lock + heap + costs.unlock,
        }
    }

    fn done(&mut self, id: u32) {
        let Message { from, home, ask, posted, answer, .. } = self.messages[id as usize];
        let controller = &mut self.controllers[home.index()];
        if from != home {
            controller.at_work = false;
        }
        let free = answer != Answer::Busy && controller.gate.leave(ask);
        if let Some(first) = free.then(|| controller.waiting.pop_front()).flatten() {
            self.resume(first);
        }
        self.take_up(home);
        if posted {
            self.unused.push(id);
        } else if from == home {
            self.answered(id);
        } else {
            let back = self.network.send(&self.costs, home, from, self.costs.flits_back, self.now);
            self.agenda.enter(back, Event::Answered(id));
        }
    }

    /// The lock that it waited for is free: in at once, or, while the half that serves others is at
    /// work, first in its queue.
    fn resume(&mut self, id: u32) {
        let Message { from, home, .. } = self.messages[id as usize];
        let controller = &mut self.controllers[home.index()];
        if from != home && controller.at_work {
            controller.queue.push_front(id);
        } else {
            self.enter(id);
        }
    }

    /// The answer is back at the core that waits for it.
    fn answered(&mut self, id: u32) {
        let message = self.messages[id as usize];
        self.unused.push(id);
        let spent = &mut self.cores[message.from.index()].spent;
        let Message { sent, arrived, started, done, found, command, answer, .. } = message;
        spent.travel += arrived - sent + self.now - done;
        spent.wait += started - arrived;
        spent.search += found;
        let own = command + done - started;
        match answer {
            Answer::Served | Answer::Freed => spent.work += own,
            Answer::Locked if self.setup.allocator.is_in_c() => spent.work += own,
            Answer::Locked | Answer::Busy | Answer::Full => spent.search += own,
        }
        let now = self.now;
        match answer {
            Answer::Freed => self.end(message.from, true, now),
            answer => self.step(message.from, Some(answer), now),
        }
    }
}

/// The allocator in C: under the lock, the core itself goes through the heap.
impl<P: Policy, L: Load> World<'_, P, L> {
    fn work_in_c(&mut self, node: HeapId, at: u64) {
        let act = self.cores[node.index()].act;
        let costs = self.costs;
        let (answer, place, work, accesses) = match act {
            Act::Malloc { object, size } => {
                let home = if self.setup.allocator == Allocator::Global { FIRST } else { node };
                match self.sites.alloc(object, home, size, at) {
                    Some(place) => (Answer::Served, place, costs.c_alloc, costs.c_alloc_accesses),
                    None => (Answer::Full, home, costs.full_lazy, costs.c_alloc_accesses),
                }
            }
            Act::Free { object } => {
                let place = self.sites.owner(object).unwrap_or(node);
                self.sites.free(object, at);
                (Answer::Freed, place, costs.c_free, costs.c_free_accesses)
            }
            Act::Think(_) | Act::Pause => return,
        };
        let touched = self.touch(node, place, accesses, at + work);
        let core = &mut self.cores[node.index()];
        core.spent.work += work + accesses * costs.c_access;
        core.spent.travel += touched - (at + work + accesses * costs.c_access);
        core.served_by = (answer == Answer::Served).then_some(place);
        let end = self.unlock(node, touched);
        match answer {
            Answer::Freed => self.end(node, true, end),
            answer => self.step(node, Some(answer), end),
        }
    }

    /// So many accesses to the memory of `place`, one after the other: when the last is done.
    fn touch(&mut self, node: HeapId, place: HeapId, accesses: u64, at: u64) -> u64 {
        let costs = self.costs;
        if node == place {
            return at + accesses * costs.c_access;
        }
        (0..accesses).fold(at, |at, _| {
            let there = self.network.send(&costs, node, place, costs.flits_out, at);
            let done = there + costs.c_access;
            self.network.send(&costs, place, node, costs.flits_back, done)
        })
    }

    /// Gives the lock back without waiting for it to arrive: when the core goes on.
    fn unlock(&mut self, node: HeapId, at: u64) -> u64 {
        let home = if self.setup.allocator == Allocator::Global { FIRST } else { node };
        let command = self.costs.command;
        let sent = at + command;
        self.cores[node.index()].spent.work += command;
        let message = self.message(Message {
            from: node,
            home,
            ask: Ask::Take,
            posted: true,
            found: 0,
            command,
            sent,
            arrived: sent,
            started: sent,
            done: sent,
            answer: Answer::Freed,
        });
        self.depart(message);
        sent
    }
}

/// Counting.
impl<P: Policy, L: Load> World<'_, P, L> {
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
        self.run.refused = self.cores.iter().map(|core| core.counts.refused).sum();
        self.run.nodes = self.cores.iter().map(|core| core.counts).collect();
        debug_assert_eq!(self.sites.check(), Ok(()));
        self.run
    }
}

/// Where the lock of the one heap is.
const FIRST: HeapId = match HeapId::new(0) {
    Some(heap) => heap,
    None => panic!("there is a first heap"),
};
