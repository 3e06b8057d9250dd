//! How often each thing happened.

use freehold_trace::Api;
use serde::Serialize;

/// Counts of calls and other events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Calls {
    /// `malloc`, `realloc(NULL, …)`.
    pub malloc: u64,
    /// `calloc`.
    pub calloc: u64,
    /// `aligned_alloc`, `posix_memalign`, `memalign` …
    pub aligned: u64,
    /// `operator new`.
    pub new: u64,
    /// `operator new[]`.
    pub new_array: u64,
    /// `realloc` of a live object.
    pub reallocs: u64,
    /// Of those, in another thread than the one that made or last resized the object.
    pub remote_reallocs: u64,
    /// Frees of objects of the trace.
    pub frees: u64,
    /// Of those, by another thread than the one that made or last resized the object.
    pub remote_frees: u64,
    /// Frees of what no recorded call returned.
    pub unknown_frees: u64,
    /// Allocations that returned null.
    pub failed: u64,
    /// Inherited objects that a forked child touched.
    pub inherited: u64,
    /// Forks.
    pub forks: u64,
    /// Recorded accesses to objects.
    pub accesses: u64,
    /// Events that contradict those before them; more than 0 only where events were lost.
    pub contradictions: u64,
}

impl Calls {
    pub(super) fn count(&mut self, api: Api) {
        *match api {
            Api::Malloc => &mut self.malloc,
            Api::Calloc => &mut self.calloc,
            Api::Aligned => &mut self.aligned,
            Api::New => &mut self.new,
            Api::NewArray => &mut self.new_array,
        } += 1;
    }

    /// Successful allocations of all families, reallocations aside.
    pub fn allocations(&self) -> u64 {
        self.malloc + self.calloc + self.aligned + self.new + self.new_array
    }

    pub(super) fn merge(&mut self, other: &Calls) {
        self.malloc += other.malloc;
        self.calloc += other.calloc;
        self.aligned += other.aligned;
        self.new += other.new;
        self.new_array += other.new_array;
        self.reallocs += other.reallocs;
        self.remote_reallocs += other.remote_reallocs;
        self.frees += other.frees;
        self.remote_frees += other.remote_frees;
        self.unknown_frees += other.unknown_frees;
        self.failed += other.failed;
        self.inherited += other.inherited;
        self.forks += other.forks;
        self.accesses += other.accesses;
        self.contradictions += other.contradictions;
    }
}
