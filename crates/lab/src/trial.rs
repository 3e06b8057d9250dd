//! A recording as it would be if one site were changed, so that a replay tells what the change gives.
//!
//! ```text
//!   reserve   the objects of a site that grow step by step are made at their final size, and never grow
//!   apart     the objects of a site come from a region of their own, which the replay does not see; its bytes are counted here
//! ```
//!
//! Growing is what `sites::Counts::growths` counts: by `realloc`, or as containers do, by a longer object after which the thread frees the
//! shorter one. Such a chain of objects becomes one object.
//!
//! Invariants: all else that the process does is unchanged, and in its order; memory grows with live objects and with the chains of the site.

use crate::sites::{Place, SitesOf};
use freehold_trace::{
    Event, ObjectId, ProcessId, ReadError, Record, Request, StackId, ThreadId, Trace, WriteError,
    Writer,
};
use rustc_hash::FxHashMap;
use std::path::Path;

/// What is changed at a site.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Room for the final size is made at once.
    Reserve,
    /// A region of its own.
    Apart,
}

/// A change at a site, to be tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trial {
    /// What.
    pub change: Change,
    /// Where.
    pub place: Place,
}

/// Why a changed recording could not be written.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nor can the changed one be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Bytes of a region of its own: objects one behind the other, on multiples of 16; none goes back.
const GRANULE: u64 = 16;

/// Writes the process of `trace` to `to` with the change made; the most bytes that a region of its own has.
///
/// # Errors
/// When reading or writing fails.
pub fn write(
    trace: &Trace,
    process: ProcessId,
    trial: &Trial,
    to: &Path,
) -> Result<u64, TrialError> {
    let (stacks, _) = trace.stacks()?;
    let sites = SitesOf::new(&stacks);
    let wanted = sites.number(&trial.place);
    let is_there = |stack: StackId| Some(sites.of(stack)) == wanted;
    let chains = match trial.change {
        Change::Reserve => Chains::of(trace, process, &is_there)?,
        Change::Apart => Chains::default(),
    };
    let mut writer = Writer::create(to, trace.header().clone())?;
    if let Some(info) = trace.process(process) {
        writer.process(info.clone())?;
    }
    let mut changing = Changing {
        change: Some(trial.change),
        next: chains.objects,
        chains,
        ..Changing::default()
    };
    let mut records = trace.records_of(process)?;
    while let Some(run) = records.next_run()? {
        for (index, timed) in run.events.iter().enumerate() {
            let is_there = run.stacks.get(index).is_some_and(|&stack| is_there(stack));
            if let Some(event) = changing.see(timed.event, is_there) {
                writer.push(&Record { tick: timed.tick, process, thread: run.thread, event })?;
            }
        }
    }
    writer.finish()?;
    Ok(changing.most)
}

/// What a growing object becomes.
#[derive(Clone, Copy, Default)]
struct Chain {
    /// Its greatest size.
    size: u64,
    /// Objects of the recording that are it, one after the other.
    members: u32,
}

/// The chains of a site. Allocations are named by their number, for objects' numbers come again.
#[derive(Default)]
struct Chains {
    /// The first allocation of the chain to which an allocation belongs.
    first: FxHashMap<u64, u64>,
    chains: FxHashMap<u64, Chain>,
    /// One more than the greatest number of an object.
    objects: u32,
}

/// An object while chains are looked for.
#[derive(Clone, Copy)]
struct Live {
    number: u64,
    size: u64,
    is_there: bool,
}

impl Chains {
    fn of(
        trace: &Trace,
        process: ProcessId,
        is_there: &dyn Fn(StackId) -> bool,
    ) -> Result<Chains, ReadError> {
        let mut chains = Chains::default();
        let mut live: FxHashMap<ObjectId, Live> = FxHashMap::default();
        let mut last: FxHashMap<ThreadId, ObjectId> = FxHashMap::default();
        let mut number = 0;
        let mut records = trace.records_of(process)?;
        while let Some(run) = records.next_run()? {
            for (index, timed) in run.events.iter().enumerate() {
                let is_there = run.stacks.get(index).is_some_and(|&stack| is_there(stack));
                let before = last.remove(&run.thread);
                match timed.event {
                    Event::Alloc { object, request } => {
                        number += 1;
                        chains.objects = chains.objects.max(object.0.saturating_add(1));
                        live.insert(object, Live { number, size: request.size, is_there });
                        if is_there {
                            last.insert(run.thread, object);
                        }
                    }
                    Event::Inherit { object, .. } => {
                        chains.objects = chains.objects.max(object.0.saturating_add(1));
                    }
                    Event::Realloc { object, request, .. } => {
                        if let Some(known) = live.get_mut(&object) {
                            let grows = is_there && request.size > known.size;
                            if grows || chains.first.contains_key(&known.number) {
                                let size = known.size.max(request.size);
                                chains.join(known.number, known.number, size);
                            }
                            known.size = request.size;
                        }
                    }
                    Event::Free { object, .. } => {
                        let Some(old) = live.remove(&object) else { continue };
                        let longer = before.and_then(|before| live.get(&before).copied());
                        if let Some(longer) =
                            longer.filter(|new| old.is_there && new.size > old.size)
                        {
                            chains.join(old.number, old.number, old.size);
                            chains.join(old.number, longer.number, longer.size);
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(chains)
    }

    /// An allocation goes on with a chain, or begins it, at this size.
    fn join(&mut self, known: u64, number: u64, size: u64) {
        let first = *self.first.get(&known).unwrap_or(&known);
        let chain = self.chains.entry(first).or_default();
        chain.size = chain.size.max(size);
        if self.first.insert(number, first).is_none() {
            chain.members += 1;
        }
    }
}

/// While the changed recording is written.
#[derive(Default)]
struct Changing {
    change: Option<Change>,
    chains: Chains,
    /// Allocations so far.
    number: u64,
    /// The next number of an object that the recording does not have.
    next: u32,
    /// Chains that live: their new number, and members still to be freed.
    lives: FxHashMap<u64, (ObjectId, u32)>,
    /// Objects that are no longer what they were: the chain of each, or its bytes in the region of its own.
    others: FxHashMap<ObjectId, u64>,
    /// Bytes in the region of its own, and the most of them.
    apart: u64,
    most: u64,
}

impl Changing {
    /// What becomes of an event.
    fn see(&mut self, event: Event, is_there: bool) -> Option<Event> {
        match self.change {
            Some(Change::Apart) => self.put_apart(event, is_there),
            _ => self.reserve(event),
        }
    }

    fn put_apart(&mut self, event: Event, is_there: bool) -> Option<Event> {
        let bytes = |request: &Request| request.size.max(1).next_multiple_of(GRANULE);
        match event {
            Event::Alloc { object, request } if is_there => {
                self.others.insert(object, bytes(&request));
                self.apart += bytes(&request);
            }
            Event::Alloc { object, .. } => {
                self.others.remove(&object);
                return Some(event);
            }
            Event::Realloc { object, request, .. } => match self.others.get_mut(&object) {
                Some(own) => {
                    self.apart = self.apart - *own + bytes(&request);
                    *own = bytes(&request);
                }
                None => return Some(event),
            },
            Event::Free { object, .. } => match self.others.remove(&object) {
                Some(own) => self.apart -= own,
                None => return Some(event),
            },
            Event::Access { object, .. } if self.others.contains_key(&object) => {}
            _ => return Some(event),
        }
        self.most = self.most.max(self.apart);
        None
    }

    fn reserve(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Alloc { object, request } => {
                self.number += 1;
                let Some(&first) = self.chains.first.get(&self.number) else {
                    self.others.remove(&object);
                    return Some(event);
                };
                self.others.insert(object, first);
                let chain = self.chains.chains.get(&first).filter(|_| first == self.number)?;
                let whole = ObjectId(self.next);
                self.next += 1;
                self.lives.insert(first, (whole, chain.members));
                let request = Request { size: chain.size, usable: 0, ..request };
                Some(Event::Alloc { object: whole, request })
            }
            Event::Free { object, remote } => {
                let Some(first) = self.others.remove(&object) else { return Some(event) };
                let (whole, left) = self.lives.get_mut(&first)?;
                *left -= 1;
                let object = *whole;
                if *left > 0 {
                    return None;
                }
                self.lives.remove(&first);
                Some(Event::Free { object, remote })
            }
            Event::Realloc { object, .. } | Event::Access { object, .. }
                if self.others.contains_key(&object) =>
            {
                None
            }
            _ => Some(event),
        }
    }
}

#[cfg(test)]
mod tests;
