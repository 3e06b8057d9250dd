//! A part of a region's metadata, committed as far as it is needed.

use crate::machine::Machine;

/// A part of the metadata: where it starts, and how much of it is committed.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) start: usize,
    pub(super) committed: usize,
}

impl Part {
    pub(super) const NONE: Part = Part { start: 0, committed: 0 };

    /// Makes the first `len` bytes from the start usable; `false` when memory is short.
    pub(super) fn extend(&mut self, machine: &impl Machine, len: usize) -> bool {
        let have = self.committed;
        self.lengthen(machine, len, |start, _| start + have)
    }

    /// The same for the `len` bytes in front of the start.
    pub(super) fn extend_down(&mut self, machine: &impl Machine, len: usize) -> bool {
        self.lengthen(machine, len, |start, len| start - len)
    }

    /// `at` says where what is missing lies, by the start and the new length.
    fn lengthen(
        &mut self,
        machine: &impl Machine,
        len: usize,
        at: impl FnOnce(usize, usize) -> usize,
    ) -> bool {
        let len = len.next_multiple_of(machine.page_size());
        if len <= self.committed {
            return true;
        }
        let at = at(self.start, len) as *mut u8;
        // SAFETY: parts are disjoint, page-aligned and sized for the whole reservation; what lies
        // past `committed` was never handed out.
        if !unsafe { machine.commit(at, len - self.committed) } {
            return false;
        }
        self.committed = len;
        true
    }
}

/// Writes a zero into every 4 KiB of a fresh range, as yet zero: a page that is read before it is
/// written faults twice.
pub(super) fn touch(from: usize, len: usize) {
    for at in (from..from + len).step_by(4096) {
        // SAFETY: the range is committed and zero, so nothing changes.
        unsafe { (at as *mut u8).write_volatile(0) };
    }
}
