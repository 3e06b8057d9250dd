//! The serving side: messages, the controllers that perform them, and the way back.

use super::costs::Costs;
use super::load::Act;
use super::network::Sent;
use super::run::{Allocator, Event, Message, What, World};
use freehold_core::place::mesh::{
    Answer, Ask, Batch, HeapId, Hint, Hints, Order, Pass, Tile, level,
};

impl World<'_> {
    /// Gives the command at `at`; it is on its way when it has been given, and is waited for.
    pub(super) fn send(&mut self, from: HeapId, home: HeapId, ask: Ask, found: u64, at: u64) {
        let Costs { command, v2p, .. } = self.costs;
        // What lies on another node is shared memory, and so is whatever is freed.
        let command = command + if ask == Ask::Free || from != home { v2p } else { 0 };
        self.run.asked += u64::from(self.is_counting() && ask != Ask::Take);
        self.dispatch(from, home, What::Ask(ask), found, command, at);
    }

    /// Sends what nobody waits for.
    pub(super) fn post(&mut self, from: HeapId, home: HeapId, what: What, at: u64) {
        self.dispatch(from, home, what, 0, 0, at);
    }

    fn dispatch(
        &mut self,
        from: HeapId,
        home: HeapId,
        what: What,
        found: u64,
        command: u64,
        at: u64,
    ) {
        let sent = at + found + command;
        // Whoever knows that the home is gone gives up before it sends.
        let gone = what.is_answered() && self.is_gone(home) && self.cores[from.index()].knows;
        let Sent { arrived, waited: queued } = match from == home || gone {
            true => Sent { arrived: sent, waited: 0 },
            false => {
                let flits = self.costs.flits_out * what.flits();
                self.network.send(&self.costs, from, home, flits, sent)
            }
        };
        let message = Message {
            from,
            home,
            what,
            found,
            command,
            sent,
            arrived,
            started: sent,
            done: sent,
            queued,
            answer: Answer::Full,
            room: 0,
        };
        let id = self.keep(message);
        let event = if gone { Event::GivenUp(id) } else { Event::Arrive(id) };
        self.agenda.enter(arrived, event);
    }

    fn keep(&mut self, message: Message) -> u32 {
        if let Some(unused) = self.unused.pop() {
            self.messages[unused as usize] = message;
            return unused;
        }
        self.messages.push(message);
        (self.messages.len() - 1) as u32
    }

    /// A message is at its home.
    pub(super) fn arrive(&mut self, id: u32) {
        let Message { from, home, .. } = self.messages[id as usize];
        if self.is_gone(home) {
            return self.lose(id);
        }
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
        let Message { from, home, what, .. } = self.messages[id as usize];
        let controller = &mut self.controllers[home.index()];
        let pass = what.at_the_gate().map(|ask| controller.gate.arrive(from, ask));
        if pass == Some(Pass::Wait) {
            controller.waiting.push_back(id);
            return;
        }
        debug_assert_ne!(pass, Some(Pass::Refused), "only a holder sends Take");
        let answer = if pass == Some(Pass::Busy) { Answer::Busy } else { self.perform(id) };
        let cycles = self.service(what, answer);
        let room = self.sites.room(home);
        let message = &mut self.messages[id as usize];
        (message.answer, message.room) = (answer, room);
        (message.started, message.done) = (self.now, self.now + cycles);
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
        let Message { from, home, what, .. } = self.messages[id as usize];
        match (what, self.cores[from.index()].act) {
            (What::Ask(Ask::Lock | Ask::TryLock), _) => Answer::Locked,
            (What::Ask(Ask::Free), Act::Free { object }) => self.free_at(home, object),
            (What::Ask(_), Act::Malloc { object, size }) => self.alloc_at(from, home, object, size),
            (What::Frees(batch), _) => {
                self.free_all(home, &batch);
                Answer::Freed
            }
            (What::Page(page), _) => {
                self.sites.take_back(page, self.now);
                Answer::Freed
            }
            (What::Told(bit, level), _) => {
                self.controllers[home.index()].summary.told(bit, level);
                Answer::Freed
            }
            (What::Consult, _) => {
                let need = self.need(from);
                let bits = self.controllers[home.index()].summary.having(need);
                self.cores[from.index()].summary = Some(bits);
                Answer::Full
            }
            (What::Unlock | What::Ask(_), _) => Answer::Freed,
        }
    }

    /// A block for `from`: a page to cut it from where pages are lent, else the block.
    fn alloc_at(&mut self, from: HeapId, home: HeapId, object: u32, size: u64) -> Answer {
        let lends = from != home && self.setup.improve.page_bytes > 0;
        let page = lends.then(|| self.sites.lend(object, home, from, size, self.now)).flatten();
        let found = page.or_else(|| self.sites.alloc(object, home, size, self.now));
        match found {
            Some(_) => {
                self.cores[from.index()].served_by = Some(home);
                self.tell(home);
                Answer::Served
            }
            None => Answer::Full,
        }
    }

    fn free_at(&mut self, home: HeapId, object: u32) -> Answer {
        match self.sites.owner(object) {
            Some(owner) if owner.home == home && owner.holder != home => {
                return Answer::Lent(owner.holder);
            }
            _ => {}
        }
        if let Some((page, lender)) = self.sites.free(object, self.now) {
            self.post(home, lender, What::Page(page), self.now);
        }
        self.tell(home);
        Answer::Freed
    }

    /// Frees a batch; what lies in pages that were lent goes on to their borrowers.
    fn free_all(&mut self, home: HeapId, batch: &Batch<u32>) {
        for object in batch.blocks() {
            if let Answer::Lent(holder) = self.free_at(home, object) {
                let mut one = Batch::new();
                one.add(holder, object, 1, self.now);
                self.post(home, holder, What::Frees(one), self.now);
            }
        }
    }

    /// Tells the keeper of the tile's summary when `heap` has crossed one of its lengths.
    fn tell(&mut self, heap: HeapId) {
        if !self.setup.improve.summary {
            return;
        }
        let now_at = level(self.sites.room(heap));
        let tile = Tile::of(self.setup.mesh, heap);
        let (Some(keeper), Some(bit)) = (tile.keeper(), tile.bit(heap)) else { return };
        let told = std::mem::replace(&mut self.controllers[heap.index()].told, now_at);
        if told == now_at {
            return;
        }
        if keeper == heap {
            self.controllers[heap.index()].summary.told(bit, now_at);
        } else {
            self.post(heap, keeper, What::Told(bit, now_at), self.now);
        }
    }

    /// How long the controller is at it.
    fn service(&self, what: What, answer: Answer) -> u64 {
        let costs = &self.costs;
        let full = match self.setup.allocator {
            Allocator::Microcoded | Allocator::Common => costs.full_exhaustive,
            _ => costs.full_lazy,
        };
        let heap = match answer {
            Answer::Served => costs.alloc,
            Answer::Freed => costs.free,
            Answer::Full => full,
            Answer::Locked | Answer::Busy | Answer::Lent(_) => 0,
        };
        match what {
            What::Ask(Ask::Lock | Ask::TryLock) => costs.lock,
            What::Ask(Ask::TryAlloc) if answer == Answer::Busy => costs.lock,
            What::Ask(Ask::Take) => heap + costs.unlock,
            What::Ask(Ask::Alloc | Ask::TryAlloc | Ask::Free) => costs.lock + heap + costs.unlock,
            What::Unlock => costs.unlock,
            What::Frees(batch) => costs.lock + costs.free * batch.len() as u64 + costs.unlock,
            What::Page(_) => costs.lock + costs.free + costs.unlock,
            What::Told(..) | What::Consult => costs.summary,
        }
    }

    /// The controller has performed it.
    pub(super) fn done(&mut self, id: u32) {
        let Message { from, home, what, answer, .. } = self.messages[id as usize];
        if self.is_gone(home) {
            return self.lose(id);
        }
        let controller = &mut self.controllers[home.index()];
        if from != home {
            controller.at_work = false;
        }
        let inside = what.at_the_gate().filter(|_| answer != Answer::Busy);
        let free = inside.is_some_and(|ask| controller.gate.leave(ask));
        if let Some(first) = free.then(|| controller.waiting.pop_front()).flatten() {
            self.resume(first);
        }
        self.take_up(home);
        if !what.is_answered() {
            self.unused.push(id);
        } else if from == home {
            self.answered(id);
        } else {
            let back = self.network.send(&self.costs, home, from, self.costs.flits_back, self.now);
            self.messages[id as usize].queued += back.waited;
            self.agenda.enter(back.arrived, Event::Answered(id));
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
    pub(super) fn answered(&mut self, id: u32) {
        let message = self.messages[id as usize];
        self.unused.push(id);
        if self.is_gone(message.from) {
            return;
        }
        self.charge(&message);
        let Message { from, home, what, answer, room, .. } = message;
        let now = self.now;
        if from != home && self.setup.order == Order::Hinted {
            let hints = &mut self.cores[from.index()].hints;
            hints.resize(self.setup.mesh.heaps(), Hint::default());
            Hints::over(hints).heard(home, room, now);
        }
        match (what, answer) {
            (What::Consult, _) => self.step(from, Some(Answer::Full), now),
            (_, Answer::Freed) => self.end(from, true, now),
            (_, Answer::Lent(holder)) => self.send(from, holder, Ask::Free, 0, now),
            (_, Answer::Full) if from == home && self.looks_further(from) => {
                self.look_further(from)
            }
            (_, answer) => self.step(from, Some(answer), now),
        }
    }

    /// Whether the own heap is full and there is something to do before others are asked.
    fn looks_further(&self, node: HeapId) -> bool {
        self.setup.improve.summary && self.cores[node.index()].summary.is_none()
    }

    /// Reads the summary of the tile, near or far.
    fn look_further(&mut self, node: HeapId) {
        let keeper = Tile::of(self.setup.mesh, node).keeper().unwrap_or(node);
        let command = self.costs.command;
        self.dispatch(node, keeper, What::Consult, 0, command, self.now);
    }

    /// Every cycle from the command to the answer has a cause.
    fn charge(&mut self, message: &Message) {
        let Message { sent, arrived, started, done, queued, found, command, answer, .. } = *message;
        let spent = &mut self.cores[message.from.index()].spent;
        spent.travel += arrived - sent + self.now - done - queued;
        spent.queued += queued;
        spent.wait += started - arrived;
        spent.search += found;
        let own = command + done - started;
        match answer {
            Answer::Served | Answer::Freed => spent.work += own,
            Answer::Locked if self.setup.allocator.is_in_c() => spent.work += own,
            Answer::Locked | Answer::Busy | Answer::Full | Answer::Lent(_) => spent.search += own,
        }
    }
}

impl What {
    /// Its length, in commands.
    fn flits(&self) -> u64 {
        match self {
            What::Frees(batch) => batch.len().max(1) as u64,
            _ => 1,
        }
    }
}
