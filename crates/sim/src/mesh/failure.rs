//! A node that fails, and what its absence does to the others.
//!
//! Its core stops and its controller answers nobody (its router goes on); its memory is lost with all that
//! lies in it. As the
//! letter has it, who waits for an answer waits for ever. With patience a node gives up after a while,
//! takes the heap for full, and asks it no more.

use super::account::Aftermath;
use super::load::Act;
use super::run::{Event, Message, What, World};
use freehold_core::place::mesh::{Answer, Ask, HeapId};

impl World<'_> {
    /// Whether `node` has failed.
    pub(super) fn is_gone(&self, node: HeapId) -> bool {
        self.failed.is_some() && self.setup.failure.is_some_and(|failure| failure.node == node)
    }

    /// Fails the node when it is time.
    pub(super) fn may_fail(&mut self) {
        let due = self.setup.failure.is_some_and(|failure| self.run.events >= failure.after);
        if due && self.failed.is_none() {
            self.failed = Some(self.now);
            let before = (self.now - self.before.0, self.served);
            self.run.aftermath = Some(Aftermath { before, ..Aftermath::default() });
            self.lose_what_waits();
        }
    }

    /// Messages that the failed controller had not taken up.
    fn lose_what_waits(&mut self) {
        let Some(failure) = self.setup.failure else { return };
        let controller = &mut self.controllers[failure.node.index()];
        let queue = std::mem::take(&mut controller.queue);
        let waiting = std::mem::take(&mut controller.waiting);
        queue.into_iter().chain(waiting).for_each(|id| self.lose(id));
    }

    /// A message to a node that has failed.
    pub(super) fn lose(&mut self, id: u32) {
        let Message { what, sent, .. } = self.messages[id as usize];
        let patience = self.setup.failure.map_or(0, |failure| failure.patience);
        if !what.is_answered() {
            self.unused.push(id);
        } else if patience > 0 {
            self.agenda.enter(self.now.max(sent + patience), Event::GivenUp(id));
        }
    }

    /// Who waited for the answer takes the heap for full, and what it wanted to free for freed.
    pub(super) fn give_up(&mut self, id: u32) {
        let Message { from, what, .. } = self.messages[id as usize];
        self.cores[from.index()].knows = true;
        let answer = match (what, self.cores[from.index()].act) {
            (What::Ask(Ask::Free), Act::Free { object }) => {
                self.sites.free(object, self.now);
                Answer::Freed
            }
            _ => Answer::Full,
        };
        let message = &mut self.messages[id as usize];
        (message.answer, message.started, message.done) = (answer, self.now, self.now);
        self.answered(id);
    }

    /// What came after the failure.
    pub(super) fn aftermath(&self) -> Option<Aftermath> {
        let (found, failure) = (self.run.aftermath?, self.setup.failure?);
        let failed = self.failed?;
        let end = failed + failure.watched;
        let others = || self.setup.mesh.all().filter(|&node| node != failure.node);
        let going = |node: &HeapId| self.cores[node.index()].last >= end - failure.watched / 2;
        Some(Aftermath {
            after: (failure.watched, self.served - found.before.1),
            left: others().count() as u64,
            going: others().filter(going).count() as u64,
            ..found
        })
    }
}
