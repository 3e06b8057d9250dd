//! The calling side: what a core does next, and a call from beginning to end.

use super::account::Cycles;
use super::load::Act;
use super::run::{Allocator, Event, FIRST, Search, What, World};
use freehold_blocks::Granules;
use freehold_core::place::mesh::{
    Answer, Ask, Global, HeapId, HeapSet, Hints, Lazy, Order, PriorityTable, Step, Tile, Walk,
    record_of,
};
use std::cell::Cell;

impl World<'_> {
    /// The core goes on.
    pub(super) fn act(&mut self, node: HeapId) {
        if self.is_gone(node) {
            return;
        }
        let act = self.load.next(node);
        self.wake(self.now);
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
            Act::Pause => self.leave(node),
            Act::Malloc { .. } | Act::Free { .. } => self.call(node),
        }
    }

    fn call(&mut self, node: HeapId) {
        let setup = self.setup;
        let rest = Walk::new(setup.order, setup.mesh, node);
        if self.is_old(node) {
            self.leave(node);
        }
        let (in_c, table) = (self.locked_by_c(node), self.table_of(node));
        let core = &mut self.cores[node.index()];
        (core.begun, core.spent, core.served_by) = (self.now, Cycles::default(), None);
        core.summary = None;
        core.search = match setup.allocator {
            Allocator::Global | Allocator::Private => Search::Global(Global::new(in_c)),
            Allocator::Master => Search::Table(PriorityTable::alone(FIRST)),
            Allocator::Microcoded | Allocator::Common => Search::Table(PriorityTable::new(table)),
            Allocator::Proposed => {
                Search::Lazy(Lazy::new(rest, setup.rounds, setup.improve.one_message))
            }
        };
        let mut at = self.now;
        if !setup.allocator.is_microcode() {
            core.spent.work += self.costs.c_call;
            at += self.costs.c_call;
        }
        match core.act {
            Act::Free { object } if !setup.allocator.is_in_c() => self.free(node, object, at),
            _ => self.step(node, None, at),
        }
    }

    /// The priority table of `node`: its own, or the one for all, which is that of the first node by number.
    fn table_of(&self, node: HeapId) -> Walk {
        match self.setup.allocator {
            Allocator::Common => Walk::new(Order::Index, self.setup.mesh, FIRST),
            _ => Walk::new(self.setup.order, self.setup.mesh, node),
        }
    }

    /// Finds the owner and sends it the free, now or with others.
    fn free(&mut self, node: HeapId, object: u32, at: u64) {
        let Some(owner) = self.sites.owner(object) else { return self.end(node, true, at) };
        let found = match self.setup.allocator {
            Allocator::Microcoded | Allocator::Common => {
                self.costs.record * record_of(self.table_of(node), owner.home) as u64
            }
            Allocator::Master => self.costs.record,
            _ => self.costs.c_map,
        };
        // What lies in a page that the node itself has borrowed, it knows.
        let home = match self.setup.allocator {
            Allocator::Master => FIRST,
            _ if owner.holder == node => node,
            _ => owner.home,
        };
        if home != node && self.setup.improve.batch > 1 {
            return self.put_by(node, home, object, found, at);
        }
        self.send(node, home, Ask::Free, found, at);
    }

    /// The free waits for others of the same owner; the call is over.
    fn put_by(&mut self, node: HeapId, home: HeapId, object: u32, found: u64, at: u64) {
        let (most, command) = (self.setup.improve.batch, self.costs.command);
        let object = self.sites.part(object);
        if !self.cores[node.index()].batch.add(home, object, most, self.now) {
            self.leave(node);
            let added = self.cores[node.index()].batch.add(home, object, most, self.now);
            debug_assert!(added, "an empty batch takes any free");
        }
        let core = &mut self.cores[node.index()];
        core.spent.search += found;
        core.spent.work += command;
        if core.batch.len() == most {
            self.leave(node);
        }
        self.end(node, true, at + found + command);
    }

    /// Whether frees have waited too long.
    fn is_old(&self, node: HeapId) -> bool {
        let since = self.cores[node.index()].batch.since();
        since.is_some_and(|since| self.now - since >= self.setup.improve.batch_age)
    }

    /// The frees that wait leave.
    pub(super) fn leave(&mut self, node: HeapId) {
        let batch = self.cores[node.index()].batch.leave();
        if let Some(owner) = batch.owner() {
            self.post(node, owner, What::Frees(batch), self.now);
        }
    }

    /// The search goes on at `at`, after `answer`.
    pub(super) fn step(&mut self, node: HeapId, answer: Option<Answer>, at: u64) {
        let setup = self.setup;
        let tile = Tile::of(setup.mesh, node);
        let need = self.need(node);
        let core = &mut self.cores[node.index()];
        let hints = Hints::over(&mut core.hints);
        let hinted = setup.order == Order::Hinted && setup.improve.trusted_for > 0;
        // What is read to leave a heap out, or to find it worth asking.
        let (bits_read, hints_read) = (Cell::new(0), Cell::new(0));
        let expects = |heap: HeapId| {
            let listed = core.summary.filter(|&bits| bits != 0);
            bits_read.set(bits_read.get() + u64::from(listed.is_some()));
            let summary =
                listed.is_none_or(|bits| tile.bit(heap).is_some_and(|bit| bits >> bit & 1 == 1));
            hints_read.set(hints_read.get() + u64::from(summary && hinted));
            summary && hints.expects(heap, need, at, setup.improve.trusted_for)
        };
        let step = match &mut core.search {
            Search::None => return,
            Search::Global(search) => search.next(answer),
            Search::Table(search) => search.next(answer),
            Search::Lazy(search) => {
                let step = search.next(answer, &mut HeapSet::over(&mut core.full), expects);
                bits_read.set(bits_read.get() + u64::from(search.left_out()));
                step
            }
        };
        let looked = bits_read.get() * self.costs.c_bit + hints_read.get() * self.costs.c_hint;
        core.spent.search += looked;
        let at = at + looked;
        match step {
            Step::Ask(_, Ask::Take) if setup.allocator.is_in_c() => self.work_in_c(node, at),
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

    /// Bytes of the block that the call of `node` wants, its header included.
    pub(super) fn need(&self, node: HeapId) -> u64 {
        match self.cores[node.index()].act {
            Act::Malloc { size, .. } => {
                Granules::for_request(size).map_or(u64::MAX, Granules::bytes)
            }
            _ => 0,
        }
    }

    /// What it costs to come to that heap in the search.
    fn finding(&self, node: HeapId, home: HeapId, ask: Ask) -> u64 {
        match self.setup.allocator {
            allocator if allocator.is_microcode() => self.costs.record,
            Allocator::Proposed if home != node && ask != Ask::Take => self.costs.c_probe,
            _ => 0,
        }
    }

    /// The call returns at `at`.
    pub(super) fn end(&mut self, node: HeapId, served: bool, at: u64) {
        let core = &self.cores[node.index()];
        let (act, spent) = (core.act, core.spent);
        debug_assert_eq!(at - core.begun, spent.total(), "every cycle has a cause");
        if self.is_counting() {
            self.count(node, served);
        } else {
            self.warm(node);
        }
        if served && matches!(act, Act::Malloc { .. }) {
            self.cores[node.index()].last = at;
            self.served += u64::from(self.is_counting());
        }
        self.load.done(node, act, served);
        self.agenda.enter(at, Event::Core(node));
        self.wake(at);
        self.may_fail();
    }

    /// Nodes that paused and for which there is something to do now go on.
    fn wake(&mut self, at: u64) {
        while let Some(woken) = self.load.woken() {
            self.agenda.enter(at, Event::Core(woken));
        }
    }

    fn count(&mut self, node: HeapId, served: bool) {
        let core = &mut self.cores[node.index()];
        core.counts.events += 1;
        self.behind -= usize::from(core.counts.events == self.setup.least_per_node);
        core.counts.cycles += core.spent;
        self.run.events += 1;
        self.run.cycles += core.spent;
        let Act::Malloc { size, .. } = core.act else { return };
        self.run.mallocs += 1;
        self.run.remote_mallocs += u64::from(core.served_by.is_some_and(|home| home != node));
        if !served {
            core.counts.refused += 1;
            let spurious = self.sites.room_since(size, core.begun).is_some();
            let asks_all = self.setup.allocator != Allocator::Private;
            self.run.spurious += u64::from(spurious && asks_all);
        }
    }
}
