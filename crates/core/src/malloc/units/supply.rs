//! Which node the next banks come from: a path of places and the paper's search, on real memory.
//!
//! Asking a machine how full its nodes are costs as much as touching some dozen pages, so one answer is used for a
//! quarter of the free memory that it reported: seldom asked again on an empty node, for every bank on a nearly full one.
//! The caller holds a lock, so this file does not ask: it leaves a [`Question`], to be asked without the lock.
//!
//! A closed node gives nothing any more. A home on a closed node takes memory from the rest of the path,
//! and if that leads nowhere, from the nearest open node.
//!
//! Invariant: between two questions no home takes more of a node than the node had.
//!
//! Sources: path and search as in `place` (the chapter "DmRT for NUMA", 4.1.1 and 4.2.1; nodes without processors
//! are the shared memory). The search is complete here: a request fails only where the path ends.

mod question;

use super::BANK;
use crate::machine::{Machine, Nodes, Room, Survey};
use crate::place::{
    Average, Effort, Home, Load, MAX_NODES, Memories, NodeId, NodeSet, RemoteSearch, Stop,
    Thresholds,
};

pub use question::{Answer, Question};

/// Banks that a node gives its own before it is asked for the first time: small programs never ask.
const UNASKED: u32 = 4;
/// Banks for which an answer is good, at most: 512 MiB. Of a node that is not the first choice fewer, for the first
/// may have room again.
const MOST: u32 = 256;
const MOST_ELSEWHERE: u32 = 8;
/// The part of its memory that a node keeps, so that the kernel need not send single pages elsewhere: its low
/// watermark is about a thousandth.
const KEPT: u64 = 256;
/// And at least so much, in bytes: pages on processors' own lists are not free to others.
const KEPT_MIN: u64 = 4 << 20;

/// A node, and how many banks more it gives before it is asked again.
#[derive(Clone, Copy, Debug, Default)]
struct Offer {
    node: Home,
    banks: u32,
}

/// What the nodes offer each home. All-zero: nobody was asked yet.
#[derive(Debug)]
pub struct Supply {
    offers: [Offer; MAX_NODES],
    /// Homes that have asked.
    asked: NodeSet,
    /// Nodes that give nothing.
    closed: NodeSet,
    /// Whether a request fails when the open nodes have no room, although the machine might find some elsewhere.
    strict: bool,
    /// What must be known before more can be said.
    question: Question,
    /// What was asked since; forgotten when the lock is given back.
    answer: Answer,
    /// Whether it asks at once all the same.
    at_once: bool,
}

impl Default for Supply {
    fn default() -> Supply {
        Supply::new()
    }
}

impl Supply {
    /// Nobody was asked yet.
    pub const fn new() -> Supply {
        let offers = [Offer { node: Home::ANYWHERE, banks: 0 }; MAX_NODES];
        let none = NodeSet::from_bits(0);
        let (question, answer) = (Question::None, Answer::None);
        Supply {
            offers,
            asked: none,
            closed: none,
            strict: false,
            question,
            answer,
            at_once: false,
        }
    }

    /// Starts with an answer. `at_once`: asks further questions at once, though threads wait for the lock.
    pub fn start(&mut self, answer: Answer, at_once: bool) {
        (self.question, self.answer, self.at_once) = (Question::None, answer, at_once);
    }

    /// The question that must be answered first, if any: results since [`Supply::start`] are not valid
    /// then. Drops the stored answer.
    pub fn question(&mut self) -> Question {
        self.answer = Answer::None;
        core::mem::take(&mut self.question)
    }

    /// Whether something must be known before more can be said.
    pub fn has_question(&self) -> bool {
        self.question != Question::None
    }

    /// Leaves a question, or asks it at once.
    #[cold]
    fn raise(&mut self, nodes: &dyn Nodes, question: Question) -> bool {
        if self.at_once {
            self.answer = question.ask(nodes);
        } else {
            self.question = question;
        }
        self.at_once
    }

    /// How many banks a node has; `None`: to be asked first.
    fn banks_of(&mut self, nodes: &dyn Nodes, node: NodeId) -> Option<u32> {
        if self.answer.room(node).is_none() {
            self.raise(nodes, Question::Room(node));
        }
        self.answer.room(node).map(banks_in)
    }

    /// All memories as seen from one; `None`: to be asked first.
    fn survey(&mut self, nodes: &dyn Nodes, from: NodeId) -> Option<Survey> {
        if self.answer.survey(from).is_none() {
            self.raise(nodes, Question::Survey(from));
        }
        self.answer.survey(from).copied()
    }

    /// From now on the nodes of `closed` give nothing, and all others do. `strict`: rather nothing than memory that may
    /// come from a closed node.
    pub fn close(&mut self, closed: NodeSet, strict: bool) {
        (self.closed, self.strict) = (closed, strict);
        // What was offered is void: others may be the first choice now.
        self.asked = NodeSet::default();
    }

    /// What was offered and asked is forgotten: in a forked child it may be half written.
    pub fn forget(&mut self) {
        let (closed, strict) = (self.closed, self.strict);
        *self = Supply { closed, strict, ..Supply::new() };
    }

    /// The nodes that give nothing.
    pub fn closed(&self) -> NodeSet {
        self.closed
    }

    /// Whether the next bank of `here` would come from `here` itself; `None`: something must be asked first.
    pub fn stays_here(&mut self, nodes: &dyn Nodes, here: NodeId) -> Option<bool> {
        let offer = self.offer(here);
        if offer.banks > 0 {
            return Some(offer.node == Home::of(here));
        }
        Some(self.starts_here(nodes) && self.banks_here(nodes, here)? > 0)
    }

    /// Where the next banks of `here` come from, and how many of the `want` (at least one). `None` where the path ends
    /// before there is room for any, or something must be asked first. When every memory is full, a path with a search leads to `here`, or the nearest open
    /// node: the machine may have means that nobody sees from outside.
    pub fn next(
        &mut self,
        nodes: &dyn Nodes,
        here: NodeId,
        want: usize,
    ) -> Option<(NodeId, usize)> {
        self.find(nodes, here, want).or_else(|| self.last_resort(nodes, here, want))
    }

    /// The same where there is room only.
    pub fn find(
        &mut self,
        nodes: &dyn Nodes,
        here: NodeId,
        want: usize,
    ) -> Option<(NodeId, usize)> {
        let offer = self.offer(here);
        if let (Some(node), true) = (offer.node.node(), offer.banks as usize >= want) {
            self.set_offer(here, Offer { banks: offer.banks - want as u32, ..offer });
            return Some((node, want));
        }
        if self.starts_here(nodes) {
            let banks = self.banks_here(nodes, here)?;
            if banks as usize >= want {
                return Some(self.accept(here, (here, banks), want, true));
            }
        }
        self.choose(nodes, here, want)
    }

    /// Goes along the path, with all memories in view.
    fn choose(&mut self, nodes: &dyn Nodes, here: NodeId, want: usize) -> Option<(NodeId, usize)> {
        if self.strict && !self.closed.contains(here) {
            let banks = self.banks_here(nodes, here)?;
            return (banks > 0).then(|| self.accept(here, (here, banks), want, true));
        }
        let survey = self.survey(nodes, here)?;
        let mut open = Open { survey: &survey, here, nodes: survey.usable.without(self.closed) };
        if let Some((stop, node)) = nodes.path().walk(here, &mut open) {
            return Some(self.accept(here, (node, banks_of(&survey, node)), want, stop == 0));
        }
        // The path of a home that is closed may lead nowhere: then the nearest that is open.
        let node = self.nearest_open(here, &survey, 1)?;
        Some(self.accept(here, (node, banks_of(&survey, node)), want, false))
    }

    #[cold]
    fn last_resort(
        &mut self,
        nodes: &dyn Nodes,
        here: NodeId,
        want: usize,
    ) -> Option<(NodeId, usize)> {
        if self.has_question() || self.strict || !nodes.path().visits(Stop::Search) {
            return None;
        }
        let open = !self.closed.contains(here);
        if open {
            return Some((here, want));
        }
        let survey = self.survey(nodes, here)?;
        Some((self.nearest_open(here, &survey, 0)?, want))
    }

    /// For a home that is closed: the nearest open node that has at least so many banks.
    fn nearest_open(&self, here: NodeId, survey: &Survey, least: u32) -> Option<NodeId> {
        let candidates = survey.usable.without(self.closed);
        let roomy = candidates.iter().filter(|&node| banks_of(survey, node) >= least);
        let nearest = roomy.min_by_key(|node| survey.distances.get(node.index()).copied());
        nearest.filter(|_| self.closed.contains(here))
    }

    /// How many banks a node has to give its own; `None`: to be asked first.
    fn banks_here(&mut self, nodes: &dyn Nodes, here: NodeId) -> Option<u32> {
        if self.closed.contains(here) { Some(0) } else { self.banks_of(nodes, here) }
    }

    /// Takes up to `want` of the `banks` that a node was found to have.
    fn accept(
        &mut self,
        here: NodeId,
        (node, banks): (NodeId, u32),
        want: usize,
        first_choice: bool,
    ) -> (NodeId, usize) {
        let given = want.min(banks as usize);
        let most = if first_choice { MOST } else { MOST_ELSEWHERE };
        let rest = ((banks - given as u32) / 4).min(most);
        self.set_offer(here, Offer { node: Home::of(node), banks: rest });
        self.answer.spend(node, (given * BANK) as u64);
        (node, given)
    }

    /// Whether a node's own memory is the first place to look.
    fn starts_here(&self, nodes: &dyn Nodes) -> bool {
        self.strict || nodes.path().stops().first() == Some(&Stop::Local)
    }

    fn offer(&self, here: NodeId) -> Offer {
        match self.offers.get(here.index()) {
            Some(offer) if self.asked.contains(here) => *offer,
            _ if self.closed.contains(here) => Offer::default(),
            _ => Offer { node: Home::of(here), banks: UNASKED },
        }
    }

    fn set_offer(&mut self, here: NodeId, offer: Offer) {
        if let Some(place) = self.offers.get_mut(here.index()) {
            *place = offer;
            self.asked = self.asked.with(here);
        }
    }
}

/// The machine's nodes and the node of a home, where memory is placed.
pub fn nodes_of<M: Machine>(machine: &M, home: Home) -> Option<(&dyn Nodes, NodeId)> {
    home.node().and_then(|node| Some((machine.nodes()?, node)))
}

/// How many banks a node has to give. One of which nobody knows has plenty.
fn banks_in(room: Option<Room>) -> u32 {
    let Some(Room { free, capacity }) = room else { return u32::MAX };
    let banks = free.saturating_sub((capacity / KEPT).max(KEPT_MIN)) / BANK as u64;
    u32::try_from(banks).unwrap_or(u32::MAX)
}

fn banks_of(survey: &Survey, node: NodeId) -> u32 {
    banks_in(Some(survey.rooms.get(node.index()).copied().unwrap_or_default()))
}

/// The nodes that give memory, as seen from one.
struct Open<'a> {
    survey: &'a Survey,
    here: NodeId,
    nodes: NodeSet,
}

impl Open<'_> {
    fn has_room(&self, node: NodeId) -> bool {
        self.nodes.contains(node) && banks_of(self.survey, node) > 0
    }
}

impl Memories for Open<'_> {
    type Found = NodeId;

    fn node(&mut self, node: NodeId) -> Option<NodeId> {
        self.has_room(node).then_some(node)
    }

    /// The nearest of the nodes without processors.
    fn shared(&mut self) -> Option<NodeId> {
        let roomy = self.survey.shared.iter().filter(|&node| self.has_room(node));
        roomy.min_by_key(|node| self.survey.distances.get(node.index()).copied())
    }

    /// The paper's search among the nodes with processors, until one has room.
    fn search(&mut self, tried: NodeSet) -> Option<NodeId> {
        let survey = self.survey;
        let load = |room: Room| Load::of(room.capacity.saturating_sub(room.free), room.capacity);
        let loads = survey.rooms.map(load);
        let all = survey.usable.iter().filter_map(|node| loads.get(node.index()).copied());
        let search = RemoteSearch {
            loads: &loads,
            distances: &survey.distances,
            average: Average::of(all),
            thresholds: Thresholds::PAPER,
            here: self.here,
        };
        let tried = self.nodes.without(survey.shared).without(tried).complement();
        search.order(Effort::Complete, tried).find(|&node| self.has_room(node))
    }
}

#[cfg(test)]
#[path = "supply/tests.rs"]
mod tests;
