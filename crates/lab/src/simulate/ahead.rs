//! Looking ahead: a few events are named to the policy before the first of them is applied.
//!
//! A call of a policy misses two to eight lines of cache, one after the other; nothing else in a
//! replay of many objects takes as long. What comes next is known, so those misses are taken
//! together: station by station, for all of the few at each.
//!
//! ```text
//!   few n+1   entries of the object table
//!   few n     blocks  ──►  their neighbours  ──►  what the index links those to  ──►  applied
//! ```
//!
//! Invariant: a hint changes nothing, and is given only of objects that are alive.

use super::objects::Objects;
use freehold_blocks::policy::{Distance, Policy};
use freehold_trace::{Event, Timed};
use std::ptr::NonNull;

/// Events that are foreseen together: enough for the misses of one station to overlap, few enough
/// for what was fetched to be there still.
pub const FEW: usize = 32;
/// With fewer blocks than this, a second-level cache holds all of their tags, and hints would cost
/// more than they save.
const MANY_BLOCKS: u64 = 4096;

/// What a few events will ask of a policy.
#[derive(Clone, Copy)]
pub struct Few {
    /// Objects that will be freed or resized.
    leaving: [u32; FEW],
    left: usize,
    /// Sizes that will be allocated.
    sizes: [u64; FEW],
    asked: usize,
}

impl Few {
    /// What `few` events, [`FEW`] at most, will ask, were it foreseen; fetches the entries of the
    /// objects they name.
    #[inline]
    pub fn arrive(few: &[Timed], objects: &Objects) -> Few {
        let mut next = Few { leaving: [0; FEW], left: 0, sizes: [0; FEW], asked: 0 };
        for timed in &few[..few.len().min(FEW)] {
            let (leaves, object, asks, size) = match timed.event {
                Event::Alloc { request, .. } => (false, 0, true, request.size),
                Event::Free { object, .. } | Event::Realloc { object, .. } => {
                    (true, object.0, false, 0)
                }
                _ => (false, 0, false, 0),
            };
            // Nobody can foretell which it is: written to both, kept where it belongs.
            next.leaving[next.left % FEW] = object;
            next.left += usize::from(leaves);
            next.sizes[next.asked % FEW] = size;
            next.asked += usize::from(asks);
        }
        objects.fetch(&next.leaving[..next.left.min(FEW)]);
        next
    }

    /// Fetches the blocks that the events will touch, if there are many.
    #[inline]
    pub fn foresee<P: Policy>(&self, objects: &Objects, policy: &P) {
        let totals = policy.totals();
        if totals.used_blocks + totals.free_blocks < MANY_BLOCKS {
            return;
        }
        let mut payloads = [NonNull::dangling(); FEW];
        let left = objects.payloads(&self.leaving[..self.left.min(FEW)], &mut payloads);
        for distance in [Distance::Far, Distance::Middle, Distance::Near] {
            for payload in &payloads[..left] {
                // SAFETY: by the invariant of the table the payload came from this policy and is
                // alive; nothing is freed before this function returns.
                unsafe { policy.foresee_free(*payload, distance) };
            }
            for size in &self.sizes[..self.asked.min(FEW)] {
                policy.foresee_alloc(*size, distance);
            }
        }
    }
}
