//! Predicting object ids. Freed ids come back last in, first out within a thread (see `namer`), so
//! an allocation mostly takes the id this thread freed last: that costs one zero byte, which
//! compresses to almost nothing.
//!
//! Invariant: encoder and decoder make the same calls in the same order.

use crate::varint::{fold, unfold};

#[derive(Default)]
pub(super) struct Ids {
    /// Freed in this block and not taken since.
    freed: Vec<u32>,
    /// The last id an allocation took.
    newest: u32,
    /// The last id of any event.
    last: u32,
}

impl Ids {
    pub(super) fn clear(&mut self) {
        self.freed.clear();
        self.newest = u32::MAX;
        self.last = 0;
    }

    /// The number that stands for an allocation's id.
    pub(super) fn alloc_code(&mut self, id: u32) -> u64 {
        let expected = self.expected();
        let code = if id == expected { 0 } else { 1 + fold(i64::from(id) - i64::from(expected)) };
        self.allocated(id, code == 0);
        code
    }

    /// The inverse of [`Self::alloc_code`].
    #[inline]
    pub(super) fn alloc_id(&mut self, code: u64) -> Option<u32> {
        let expected = self.expected();
        let id = match code {
            0 => expected,
            _ => offset(expected, code - 1)?,
        };
        self.allocated(id, code == 0);
        Some(id)
    }

    #[inline]
    fn expected(&self) -> u32 {
        self.freed.last().copied().unwrap_or(self.newest.wrapping_add(1))
    }

    #[inline]
    fn allocated(&mut self, id: u32, hit: bool) {
        if hit {
            self.freed.pop();
        }
        self.newest = id;
        self.last = id;
    }

    /// The number that stands for the id of a live object.
    pub(super) fn live_code(&mut self, id: u32) -> u64 {
        let code = fold(i64::from(id) - i64::from(self.last));
        self.last = id;
        code
    }

    /// The inverse of [`Self::live_code`].
    #[inline]
    pub(super) fn live_id(&mut self, code: u64) -> Option<u32> {
        let id = offset(self.last, code)?;
        self.last = id;
        Some(id)
    }

    /// An id was freed by its own thread, and will be taken again soon.
    #[inline]
    pub(super) fn freed(&mut self, id: u32) {
        self.freed.push(id);
    }
}

#[inline]
fn offset(base: u32, code: u64) -> Option<u32> {
    u32::try_from(i64::from(base).checked_add(unfold(code))?).ok()
}
