//! What the simulated malloc knows and no other outcome does: its pages, and where its memory is.
//!
//! Every resident byte is counted under one cause:
//!
//! ```text
//!   resident = live + inside blocks + caches + slabs + partly used + metadata + not due + huge pages
//! ```

use serde::{Deserialize, Serialize};

/// What is known of the simulated malloc alone. Bytes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Paged {
    /// Of the simulated machine.
    pub page_size: u64,
    /// Whether it gives huge pages where the malloc asks for them.
    pub huge_pages: bool,
    /// How many times faster than recorded the program ran.
    pub speed: f64,
    /// Decisions that were not as shipped.
    pub changed: Vec<Changed>,
    /// Resident memory, the mean over evenly spaced events.
    pub mean_memory: u64,
    /// Given back in all.
    pub purged: u64,
    /// Banks of 2 MiB (a number) that had resident pages at the peak.
    pub banks: u64,
    /// Resident memory at its peak, by cause.
    pub at_peak: Causes,
    /// The same at the points of the timeline.
    pub over_time: Vec<CausesPoint>,
}

/// A decision and its value.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Changed {
    /// As `--set` takes it.
    pub name: String,
    /// The value used.
    pub value: u64,
}

/// Resident memory by cause at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CausesPoint {
    /// Events replayed so far.
    pub events: u64,
    /// By cause.
    #[serde(flatten)]
    pub causes: Causes,
}

/// Resident bytes by cause; see the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Causes {
    /// Of objects alive, as they were asked for.
    pub live: u64,
    /// Between the end of a small object and that of its block: what size classes round up.
    pub inside_blocks: u64,
    /// Free blocks in threads' stacks, depots and parcels.
    pub caches: u64,
    /// Free blocks of slabs that no thread holds, and what is left over at slabs' ends.
    pub slabs: u64,
    /// Pages of large blocks behind the object's end.
    pub partly_used: u64,
    /// The malloc's own records, and threads' caches.
    pub metadata: u64,
    /// Free units of 64 KiB whose pages were not given back yet.
    pub not_due: u64,
    /// Pages that nobody has touched, resident only because they are part of a huge page.
    pub huge_pages: u64,
}

impl Causes {
    /// All that is resident.
    pub fn resident(&self) -> u64 {
        self.columns().iter().map(|(_, bytes)| bytes).sum()
    }

    /// With their names, as columns of a table.
    pub fn columns(&self) -> [(&'static str, u64); 8] {
        [
            ("live", self.live),
            ("inside blocks", self.inside_blocks),
            ("caches", self.caches),
            ("slabs", self.slabs),
            ("partly used", self.partly_used),
            ("metadata", self.metadata),
            ("not due", self.not_due),
            ("huge pages", self.huge_pages),
        ]
    }
}
