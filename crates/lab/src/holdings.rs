//! What the policies of one heap hold together, however threads share them.

use freehold_blocks::check::Broken;
use freehold_blocks::policy::Inspect;

/// A sum over policies, each walked once. Allocates nothing.
#[derive(Default)]
pub(crate) struct Holdings {
    /// Greatest extents, bytes.
    pub(crate) heap_bytes: u64,
    pub(crate) used_bytes: u64,
    pub(crate) used_blocks: u64,
    /// Below the greatest extents, as the two below.
    pub(crate) free_blocks: u64,
    free_bytes: u64,
    longest: u64,
    /// The first policy's fault that was found.
    pub(crate) broken: Option<Broken>,
}

impl Holdings {
    /// Checks a policy and adds what it holds.
    pub(crate) fn add(&mut self, policy: &impl Inspect) {
        self.broken = self.broken.or(policy.check().err());
        let totals = policy.totals();
        self.heap_bytes += totals.peak_extent;
        self.used_bytes += totals.used();
        self.used_blocks += totals.used_blocks;
        let mut start = None;
        policy.for_each_block(|block| {
            let start = *start.get_or_insert(block.offset);
            let end = (block.offset + block.size - start).min(totals.peak_extent);
            let inside = end.saturating_sub(block.offset - start);
            if block.free && inside > 0 {
                self.free_blocks += 1;
                self.free_bytes += inside;
                self.longest = self.longest.max(inside);
            }
        });
    }

    /// External fragmentation; `None` where nothing is free.
    pub(crate) fn external(&self) -> Option<f64> {
        (self.free_bytes > 0).then(|| 1.0 - self.longest as f64 / self.free_bytes as f64)
    }
}
