//! All processes together: what was live at once, on one axis of time.
//!
//! Invariant: an object counts from its allocation to its free or to the end of its process,
//! whichever comes first, and an inherited one only for the process that made it. Of a process that has ended
//! nothing is kept but a few words; of one that has not, its live objects.

use super::figures::{Figures, Level};
use super::live::{Change, Held, LiveTable};
use super::process::Sums;
use freehold_trace::{Event, Header, ProcessId, ProcessInfo, Tick};
use serde::Serialize;

/// What all processes did.
#[derive(Clone, Debug, Serialize)]
pub struct TotalProfile {
    /// Threads with events.
    pub threads: u64,
    /// From the first event to the last, seconds.
    pub seconds: f64,
    /// What they did, in figures; the end is that of each process.
    #[serde(flatten)]
    pub figures: Figures,
}

pub(super) struct Total {
    level: Level,
    allocated: u64,
    /// In the order of the processes' numbers.
    holders: Vec<Holder>,
    /// The holder whose run is being read.
    current: usize,
    /// When holders end, the next one last.
    ends: Vec<(Tick, usize)>,
    ended: (u64, u64),
    first: Tick,
    last: Tick,
    threads: u64,
}

/// A process and what it made and holds.
struct Holder {
    process: ProcessId,
    bytes: u64,
    objects: u64,
    /// Its live objects, where nobody else follows them.
    table: LiveTable<Held>,
}

impl Total {
    pub(super) fn new(infos: &[&ProcessInfo]) -> Self {
        let mut ends: Vec<_> =
            infos.iter().enumerate().map(|(holder, info)| (info.last, holder)).collect();
        ends.sort_by(|a, b| b.cmp(a));
        let first = infos.iter().map(|info| info.first).min().unwrap_or_default();
        Self {
            level: Level::new(first, 0, 0),
            allocated: 0,
            holders: infos.iter().map(|info| Holder::new(info.id)).collect(),
            current: 0,
            ends,
            ended: (0, 0),
            first,
            last: infos.iter().map(|info| info.last).max().unwrap_or_default(),
            threads: infos.iter().map(|info| u64::from(info.threads)).sum(),
        }
    }

    /// The events that follow are this process's.
    pub(super) fn enter(&mut self, process: ProcessId) {
        let is_its = |holder: &Holder| holder.process == process;
        // Numbers are dense, as a rule.
        let likely = process.0 as usize;
        self.current = match self.holders.get(likely).is_some_and(is_its) {
            true => likely,
            false => self.find(process),
        };
    }

    #[cold]
    fn find(&mut self, process: ProcessId) -> usize {
        match self.holders.binary_search_by_key(&process, |holder| holder.process) {
            Ok(holder) => holder,
            // Every process with events is known from the start; `ends` would name wrong holders now.
            Err(_) => unreachable!("{process:?} has events, and a trace knows who has"),
        }
    }

    /// An event of a process that nobody else follows.
    #[inline]
    pub(super) fn follow(&mut self, tick: Tick, event: &Event) {
        let change = self.holders[self.current].table.change(event);
        self.see(tick, change);
    }

    /// Time has come to `tick`, and this is what changed. Processes that ended before hold nothing any more.
    #[inline]
    pub(super) fn see(&mut self, tick: Tick, change: Change) {
        while let Some(&(end, holder)) = self.ends.last()
            && end < tick
        {
            self.end(holder);
        }
        let holder = &mut self.holders[self.current];
        for (bytes, objects) in [
            (&mut self.level.bytes, &mut self.level.objects),
            (&mut holder.bytes, &mut holder.objects),
        ] {
            *bytes = bytes.saturating_add_signed(change.bytes);
            *objects = objects.saturating_add_signed(change.objects);
        }
        self.allocated = self.allocated.saturating_add(change.allocated);
        self.level.mark(tick, self.allocated);
    }

    #[cold]
    fn end(&mut self, holder: usize) {
        self.ends.pop();
        let holder = &mut self.holders[holder];
        let (bytes, objects) = (holder.bytes, holder.objects);
        *holder = Holder::new(holder.process);
        self.ended = (self.ended.0.saturating_add(bytes), self.ended.1 + objects);
        self.level.bytes = self.level.bytes.saturating_sub(bytes);
        self.level.objects = self.level.objects.saturating_sub(objects);
    }

    /// `sums` is what all processes add up to.
    pub(super) fn finish(self, header: &Header, sums: &Sums) -> TotalProfile {
        let mut figures = self.level.finish(sums, header);
        figures.end_bytes = figures.end_bytes.saturating_add(self.ended.0);
        figures.end_objects += self.ended.1;
        let seconds = header.seconds(Tick(self.last.0.saturating_sub(self.first.0)));
        TotalProfile { threads: self.threads, seconds, figures }
    }
}

impl Holder {
    fn new(process: ProcessId) -> Holder {
        Holder { process, bytes: 0, objects: 0, table: LiveTable::default() }
    }
}

impl LiveTable<Held> {
    /// Follows an event; what the profile of its process says it changed ([`super::process`]).
    #[inline]
    fn change(&mut self, event: &Event) -> Change {
        match *event {
            Event::Alloc { object, request } => {
                let held = Held { size: request.size, inherited: false };
                let lost = self.insert(object.0, held);
                Change::came(request.size, lost.as_ref().map(Change::went).unwrap_or_default())
            }
            Event::Free { object, .. } => {
                self.remove(object.0).as_ref().map(Change::went).unwrap_or_default()
            }
            Event::Realloc { object, request, .. } => {
                let Some(held) = self.get_mut(object.0).and_then(Option::as_mut) else {
                    return Change::default();
                };
                let new = Held { size: request.size, inherited: false };
                Change::resized(&std::mem::replace(held, new), request.size)
            }
            Event::Inherit { object, request } => {
                let held = Held { size: request.size, inherited: true };
                self.insert(object.0, held).as_ref().map(Change::went).unwrap_or_default()
            }
            _ => Change::default(),
        }
    }
}
