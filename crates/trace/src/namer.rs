//! Addresses in, object ids out: what a recorder's finisher and the importers share.
//!
//! A program speaks of addresses; a trace may not (DESIGN rule 4). The namer follows each process's
//! live objects and says every call again as [`Event`]s that name objects.
//!
//! Invariants: within a process no two live objects have one id; ids stay below the peak of live
//! objects plus what the pool holds back (see [`pool`]); a forked child costs its parent's table of
//! pages, not its objects, until one of the two changes a page.
//!
//! Neighbours: [`table`] finds an address, [`pool`] recycles ids, [`paged`] shares between parent
//! and child. Calls must come in the order of time over all threads of a process, frees first on
//! ties, a reallocation in its two halves; that order is the caller's work.

mod paged;
mod pool;
mod table;
#[cfg(test)]
mod tests;

use crate::event::{Event, ObjectId, ProcessId, Request, ThreadId, Tick};
use paged::Paged;
use pool::Pool;
use std::sync::Arc;
use table::{Entry, Table};

/// Generations of forks after which a child gets a fresh table instead of one more layer.
const MAX_DEPTH: u8 = 64;

/// Names the objects of all processes of a trace.
#[derive(Default)]
pub struct Namer {
    processes: Vec<Option<Box<Process>>>,
}

/// What a process did that the calls seen do not explain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Anomalies {
    /// Allocations at an address that was still live: its free was missed, and is implied.
    pub implied_frees: u64,
    /// Frees and reallocations of addresses that no call seen returned.
    pub unknown_frees: u64,
    /// Allocations at addresses no Linux process has (beyond 2^56 or null), which are dropped.
    pub impossible: u64,
}

/// What a forked child inherits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inherited {
    /// Live objects of the parent at the fork.
    pub objects: u64,
    /// Bytes asked for of them.
    pub bytes: u64,
}

/// An object between the two halves of its reallocation: alive, but at no address.
#[derive(Debug)]
#[must_use = "a reallocation that began must end or fail"]
pub struct Moving {
    /// The entry taken from the table, and its address; none where the address was unknown.
    from: Option<(u64, Entry)>,
    null: bool,
}

#[derive(Default)]
struct Process {
    table: Table,
    pool: Pool,
    /// What was asked for, by id.
    requests: Paged<Request>,
    /// The same of the process's ancestors when they forked, by depth.
    ancestors: Vec<Arc<Paged<Request>>>,
    live_bytes: u64,
    /// The most of them at once.
    peak_bytes: u64,
    anomalies: Anomalies,
}

impl Namer {
    /// No processes yet.
    pub fn new() -> Namer {
        Namer::default()
    }

    /// A process begins with nothing live: the root, or an exec (the process before it should be
    /// [`end`](Self::end)ed). One that is never announced begins with its first call.
    pub fn begin(&mut self, process: ProcessId) {
        *self.slot(process) = Some(Box::default());
    }

    /// A process forks. O(pages of the parent's tables), that is about one step for every 170 live
    /// objects.
    pub fn fork(&mut self, parent: ProcessId, child: ProcessId) -> Inherited {
        let forked = self.process(parent).fork();
        let inherited = Inherited { objects: forked.table.len() as u64, bytes: forked.live_bytes };
        *self.slot(child) = Some(Box::new(forked));
        inherited
    }

    /// A process ends or execs: its memory is forgotten.
    pub fn end(&mut self, process: ProcessId) {
        *self.slot(process) = None;
    }

    /// A thread ends: the ids it holds back go to the others.
    pub fn thread_end(&mut self, process: ProcessId, thread: ThreadId) {
        self.process(process).pool.thread_end(thread);
    }

    /// An allocation returned `address`. Where that is null, it is [`Event::Failed`].
    #[inline]
    pub fn alloc(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        address: u64,
        request: Request,
        emit: &mut impl FnMut(Event),
    ) {
        self.process(process).alloc(thread, address, request, emit);
    }

    /// `free(address)` was called. Null is no event.
    #[inline]
    pub fn free(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        address: u64,
        emit: &mut impl FnMut(Event),
    ) {
        if address != 0 {
            self.process(process).free(thread, address, emit);
        }
    }

    /// An object was made and freed at once, or its address belongs to another by now: it gets an id
    /// for that moment, and no address.
    pub fn flash(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        request: Request,
        emit: &mut impl FnMut(Event),
    ) {
        let pool = &mut self.process(process).pool;
        let id = pool.take(thread);
        emit(Event::Alloc { object: ObjectId(id), request });
        emit(Event::Free { object: ObjectId(id), remote: false });
        pool.give(thread, id, false);
    }

    /// `realloc(address, …)` was called: at its first time stamp. From now on, others may be given
    /// the address.
    pub fn realloc_begin(&mut self, process: ProcessId, address: u64) -> Moving {
        let from = self.process(process).table.remove(address).map(|entry| (address, entry));
        Moving { from, null: address == 0 }
    }

    /// The reallocation returned `address`: at its second time stamp. `began` is the first. The
    /// family of `request` is that of the call; the event names the one that made the object.
    #[expect(clippy::too_many_arguments, reason = "who, what, where, when: a call has these parts")]
    pub fn realloc_end(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        moving: Moving,
        address: u64,
        request: Request,
        began: Tick,
        emit: &mut impl FnMut(Event),
    ) {
        self.process(process).realloc_end(thread, moving, address, request, began, emit);
    }

    /// The reallocation returned null: the object stays where it was. (`realloc(p, 0)` that frees
    /// is a [`free`](Self::free).)
    pub fn realloc_failed(
        &mut self,
        process: ProcessId,
        moving: Moving,
        request: Request,
        emit: &mut impl FnMut(Event),
    ) {
        if let Some((address, entry)) = moving.from {
            self.process(process).table.insert(address, entry);
        }
        emit(Event::Failed { request });
    }

    /// The object live at `address`, if any, for accesses: its id, after an [`Event::Inherit`]
    /// where a forked child touches it first. O(1); interior addresses are not found.
    pub fn object_at(
        &mut self,
        process: ProcessId,
        thread: ThreadId,
        address: u64,
        emit: &mut impl FnMut(Event),
    ) -> Option<ObjectId> {
        let process = self.process(process);
        let entry = process.table.remove(address)?;
        let entry = process.own(thread, entry, emit);
        process.table.insert(address, entry);
        Some(ObjectId(entry.id))
    }

    /// Whether an object is live at `address`: where an allocation returns it again, the free was
    /// missed or is yet to come. O(1).
    #[inline]
    pub fn is_live(&self, process: ProcessId, address: u64) -> bool {
        let known = self.processes.get(process.0 as usize).and_then(Option::as_ref);
        known.is_some_and(|process| process.table.contains(address))
    }

    /// Brings near what the calls to come at these addresses will look at. Changes nothing, and may be
    /// left out: a table of many objects is far memory, and a row of looks that do not wait for each
    /// other costs little more than one that is waited for.
    pub fn look_ahead(&self, process: ProcessId, addresses: impl Iterator<Item = u64>) {
        if let Some(Some(process)) = self.processes.get(process.0 as usize) {
            std::hint::black_box(process.look_ahead(addresses));
        }
    }

    /// Live objects of a process, inherited ones included.
    pub fn live(&self, process: ProcessId) -> Inherited {
        let known = self.processes.get(process.0 as usize).and_then(Option::as_ref);
        known.map_or(Inherited::default(), |process| Inherited {
            objects: process.table.len() as u64,
            bytes: process.live_bytes,
        })
    }

    /// Most bytes asked for that were live at once, inherited ones included; lost when the process is ended.
    pub fn peak(&self, process: ProcessId) -> u64 {
        let known = self.processes.get(process.0 as usize).and_then(Option::as_ref);
        known.map_or(0, |process| process.peak_bytes)
    }

    /// Hands each live object of a process to `each`: its address, what was asked for, and its name, unless it was inherited. O(live objects).
    pub fn each_live(
        &self,
        process: ProcessId,
        each: &mut dyn FnMut(u64, Request, Option<ObjectId>),
    ) {
        let Some(Some(process)) = self.processes.get(process.0 as usize) else { return };
        for (address, entry) in process.table.iter() {
            let own = (entry.depth == process.depth()).then_some(ObjectId(entry.id));
            each(address, process.request_of(&entry), own);
        }
    }

    /// What could not be explained so far; lost when the process is ended.
    pub fn anomalies(&self, process: ProcessId) -> Anomalies {
        let known = self.processes.get(process.0 as usize).and_then(Option::as_ref);
        known.map_or(Anomalies::default(), |process| process.anomalies)
    }

    fn slot(&mut self, process: ProcessId) -> &mut Option<Box<Process>> {
        let index = process.0 as usize;
        if index >= self.processes.len() {
            self.processes.resize_with(index + 1, || None);
        }
        &mut self.processes[index]
    }

    #[inline]
    fn process(&mut self, process: ProcessId) -> &mut Process {
        let index = process.0 as usize;
        if index >= self.processes.len() {
            self.processes.resize_with(index + 1, || None);
        }
        self.processes[index].get_or_insert_default()
    }
}

impl Process {
    fn depth(&self) -> u8 {
        self.ancestors.len() as u8
    }

    #[inline]
    fn alloc(
        &mut self,
        thread: ThreadId,
        address: u64,
        request: Request,
        emit: &mut impl FnMut(Event),
    ) {
        if address == 0 {
            return emit(Event::Failed { request });
        }
        if !table::is_possible(address) {
            self.anomalies.impossible += 1;
            return;
        }
        let id = self.pool.take(thread);
        let entry = Entry { id, owner: thread.0, depth: self.depth() };
        self.requests.set(id as usize, request);
        self.live_bytes = self.live_bytes.saturating_add(request.size);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        if let Some(old) = self.table.insert(address, entry) {
            self.imply_free(thread, old, emit);
        }
        emit(Event::Alloc { object: ObjectId(id), request });
    }

    #[inline]
    fn free(&mut self, thread: ThreadId, address: u64, emit: &mut impl FnMut(Event)) {
        match self.table.remove(address) {
            Some(entry) => self.free_entry(thread, entry, emit),
            None => {
                self.anomalies.unknown_frees += 1;
                emit(Event::UnknownFree);
            }
        }
    }

    #[inline]
    fn free_entry(&mut self, thread: ThreadId, entry: Entry, emit: &mut impl FnMut(Event)) {
        let entry = self.own(thread, entry, emit);
        let remote = entry.owner != thread.0;
        let size = self.requests.get(entry.id as usize).size;
        self.live_bytes = self.live_bytes.saturating_sub(size);
        self.pool.give(thread, entry.id, remote);
        emit(Event::Free { object: ObjectId(entry.id), remote });
    }

    #[cold]
    fn imply_free(&mut self, thread: ThreadId, old: Entry, emit: &mut impl FnMut(Event)) {
        self.anomalies.implied_frees += 1;
        self.free_entry(thread, old, emit);
    }

    /// The entry as one of this process: an inherited object gets an id here.
    #[inline]
    fn own(&mut self, thread: ThreadId, entry: Entry, emit: &mut impl FnMut(Event)) -> Entry {
        if entry.depth == self.depth() { entry } else { self.inherit(thread, entry, emit) }
    }

    #[cold]
    fn inherit(&mut self, thread: ThreadId, entry: Entry, emit: &mut impl FnMut(Event)) -> Entry {
        let request = self.request_of(&entry);
        let id = self.pool.take(thread);
        self.requests.set(id as usize, request);
        emit(Event::Inherit { object: ObjectId(id), request });
        Entry { id, owner: thread.0, depth: self.depth() }
    }

    /// A sum of everything looked at, so that the looks are not optimised away.
    fn look_ahead(&self, addresses: impl Iterator<Item = u64>) -> u64 {
        addresses
            .map(|address| {
                let id = self.table.guess(address) as usize;
                self.requests.try_get(id).map_or(0, |request| request.size)
            })
            .fold(0, u64::wrapping_add)
    }

    fn request_of(&self, entry: &Entry) -> Request {
        let requests = match self.ancestors.get(usize::from(entry.depth)) {
            Some(ancestor) => ancestor,
            None => &self.requests,
        };
        *requests.get(entry.id as usize)
    }

    fn realloc_end(
        &mut self,
        thread: ThreadId,
        moving: Moving,
        address: u64,
        request: Request,
        began: Tick,
        emit: &mut impl FnMut(Event),
    ) {
        let Some((_, entry)) = moving.from else {
            if !moving.null {
                self.anomalies.unknown_frees += 1;
                emit(Event::UnknownFree);
            }
            return self.alloc(thread, address, request, emit);
        };
        let entry = self.own(thread, entry, emit);
        let remote = entry.owner != thread.0;
        let old = *self.requests.get(entry.id as usize);
        let request = Request { api: old.api, ..request };
        self.requests.set(entry.id as usize, request);
        self.live_bytes = self.live_bytes.saturating_sub(old.size).saturating_add(request.size);
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
        if !table::is_possible(address) {
            self.anomalies.impossible += 1;
        } else if let Some(old) = self.table.insert(address, Entry { owner: thread.0, ..entry }) {
            self.imply_free(thread, old, emit);
        }
        emit(Event::Realloc { object: ObjectId(entry.id), request, remote, began });
    }

    fn fork(&mut self) -> Process {
        if self.depth() + 1 == MAX_DEPTH {
            return self.fork_flat();
        }
        let mut ancestors = self.ancestors.clone();
        ancestors.push(Arc::new(self.requests.share()));
        Process {
            table: self.table.share(),
            ancestors,
            live_bytes: self.live_bytes,
            peak_bytes: self.live_bytes,
            ..Process::default()
        }
    }

    /// As [`fork`](Self::fork), with one ancestor that holds all live objects. O(live objects).
    fn fork_flat(&mut self) -> Process {
        let mut all = Paged::default();
        let mut table = Table::default();
        for (id, (address, entry)) in self.table.iter().enumerate() {
            all.set(id, self.request_of(&entry));
            table.insert(address, Entry { id: id as u32, depth: 0, ..entry });
        }
        Process {
            table,
            ancestors: vec![Arc::new(all)],
            live_bytes: self.live_bytes,
            peak_bytes: self.live_bytes,
            ..Process::default()
        }
    }
}
