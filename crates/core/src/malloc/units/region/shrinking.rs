//! Giving addresses back: all of a region's, or those that it does not use.
//!
//! ```text
//! | ..... records | tags | ... | away, free banks, index, states | ... | banks ... in use | ........ |
//!   goes             kept  goes           kept                     goes   kept              goes
//! ```
//!
//! Whatever the machine puts between the parts of a shrunk region, another region perhaps, has no tags in it but zeros.

use super::Region;
use crate::machine::Machine;
use crate::malloc::units::BANK;
use core::sync::atomic::Ordering;

impl Region {
    /// Gives back what is not committed, and the free banks at the end, for good: the region does not grow any more.
    /// O(banks at the end).
    #[cold]
    pub fn shrink(&mut self, machine: &impl Machine) {
        let committed_to = self.address(self.committed, 0);
        self.drop_last();
        let (start, len) = core::mem::take(&mut self.reserved);
        let (mut from, end) = match len {
            // It was shrunk before.
            0 => (self.address(self.committed, 0), committed_to),
            _ => (start, start + len),
        };
        for (at, kept) in self.parts().into_iter().chain([(end, 0)]) {
            if at > from {
                // SAFETY: `open` reserved it, and it was never committed or lies in free banks, which nobody finds any more.
                unsafe { machine.release(from as *mut u8, at - from) };
            }
            from = from.max(at + kept);
        }
        self.banks = self.committed;
        self.dumped = self.dumped.min(self.committed);
        self.span.store(self.committed * BANK, Ordering::Release);
    }

    /// Forgets the wholly free banks at the end.
    fn drop_last(&mut self) {
        let mut last = self.committed;
        while let Some(at) = last.checked_sub(1).filter(|&at| self.bank(at).used == 0) {
            let dirty = self.bank(at).dirty_units();
            self.dirty -= dirty;
            last = at;
        }
        self.committed = last;
    }

    /// Gives everything back.
    ///
    /// # Safety
    /// Nobody uses the region, or a block in it, from now on.
    pub unsafe fn release(&mut self, machine: &impl Machine) {
        let (start, len) = core::mem::take(&mut self.reserved);
        let (whole, parts) = ([(start, len)], self.parts());
        let all = if len == 0 { &parts[..] } else { &whole };
        for &(at, len) in all.iter().filter(|(_, len)| *len != 0) {
            // SAFETY: `open` reserved it, `shrink` left it; and the caller's.
            unsafe { machine.release(at as *mut u8, len) };
        }
    }

    /// What is committed, as (start, length), in the order of addresses.
    fn parts(&self) -> [(usize, usize); 4] {
        let [records, tags, words] = self.metadata();
        [records, tags, words, (self.address(0, 0), self.committed * BANK)]
    }
}
