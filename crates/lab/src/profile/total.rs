//! All processes together: what was live at once, on one axis of time.
//!
//! Invariant: an object counts from its allocation to its free or to the end of its process,
//! whichever comes first, and an inherited one only for the process that made it.

use super::figures::{Figures, Level};
use super::process::{Change, Process, Sums};
use freehold_trace::{Header, ProcessId, ProcessInfo, Tick};
use rustc_hash::FxHashMap;
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
    /// Bytes and objects each process made and holds.
    held: FxHashMap<ProcessId, (u64, u64)>,
    /// When processes end, the next one last.
    ends: Vec<(Tick, ProcessId)>,
    ended: (u64, u64),
    first: Tick,
    last: Tick,
    threads: u64,
    /// The process of the last event and what it holds, outside the map.
    recent: (ProcessId, (u64, u64)),
}

impl Total {
    pub(super) fn new(infos: &[ProcessInfo]) -> Self {
        let mut ends: Vec<_> = infos.iter().map(|info| (info.last, info.id)).collect();
        ends.sort_by(|a, b| b.cmp(a));
        let first = infos.iter().map(|info| info.first).min().unwrap_or_default();
        Self {
            level: Level::new(first, 0, 0),
            allocated: 0,
            held: FxHashMap::default(),
            ends,
            ended: (0, 0),
            first,
            last: infos.iter().map(|info| info.last).max().unwrap_or_default(),
            threads: infos.iter().map(|info| u64::from(info.threads)).sum(),
            recent: (ProcessId(0), (0, 0)),
        }
    }

    /// Time has come to `tick`: processes that ended before hold nothing any more.
    #[inline]
    pub(super) fn advance(&mut self, tick: Tick) {
        while let Some(&(end, process)) = self.ends.last()
            && end < tick
        {
            self.end(process);
        }
    }

    #[cold]
    fn end(&mut self, process: ProcessId) {
        self.ends.pop();
        self.switch_to(process);
        let (bytes, objects) = std::mem::take(&mut self.recent.1);
        self.ended = (self.ended.0.saturating_add(bytes), self.ended.1 + objects);
        self.level.bytes = self.level.bytes.saturating_sub(bytes);
        self.level.objects = self.level.objects.saturating_sub(objects);
    }

    fn switch_to(&mut self, process: ProcessId) {
        self.held.insert(self.recent.0, self.recent.1);
        self.recent = (process, self.held.get(&process).copied().unwrap_or_default());
    }

    #[inline]
    pub(super) fn see(&mut self, process: ProcessId, tick: Tick, change: Change) {
        if self.recent.0 != process {
            self.switch_to(process);
        }
        for (bytes, objects) in [
            (&mut self.level.bytes, &mut self.level.objects),
            (&mut self.recent.1.0, &mut self.recent.1.1),
        ] {
            *bytes = bytes.saturating_add_signed(change.bytes);
            *objects = objects.saturating_add_signed(change.objects);
        }
        self.allocated = self.allocated.saturating_add(change.allocated);
        self.level.mark(tick, self.allocated);
    }

    pub(super) fn finish<'a>(
        self,
        header: &Header,
        processes: impl Iterator<Item = &'a Process>,
    ) -> TotalProfile {
        let mut sums = Sums::default();
        processes.for_each(|process| sums.merge(&process.sums));
        let mut figures = self.level.finish(&sums, header);
        figures.end_bytes = figures.end_bytes.saturating_add(self.ended.0);
        figures.end_objects += self.ended.1;
        let seconds = header.seconds(Tick(self.last.0.saturating_sub(self.first.0)));
        TotalProfile { threads: self.threads, seconds, figures }
    }
}
