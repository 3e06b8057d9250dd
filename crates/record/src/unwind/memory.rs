//! What of a stack may be read.
//!
//! Sound tables never lead outside of a stack, but a walk must survive those that are not, and code without any. So a
//! word is read only where its page was asked for: the kernel says whether it can read a page when it is handed a
//! pointer into it, and does nothing else if the call makes no sense otherwise (`rt_sigprocmask` with no such way).
//!
//! Invariant: `from..to` are pages of one stack in a row, each of which answered, or holds a hook's own frame. A walk
//! that begins elsewhere begins a new range, so what is believed of a stack ends when the thread leaves it.

const PAGE: u64 = 4096;
/// Pages in a row that a range grows by at once. A frame larger than this is asked for by itself each time.
const MOST_PAGES: u64 = 64;
/// Addresses of programs end here.
const END: u64 = 1 << 47;

/// The readable range around a thread's stack pointer.
#[derive(Clone, Copy, Default, Debug)]
pub struct Range {
    from: u64,
    to: u64,
}

impl Range {
    /// A walk begins at `slot`, which a hook's caller has just written.
    #[inline]
    pub fn enter(&mut self, slot: u64) {
        if slot < self.from || slot >= self.to {
            let page = slot & !(PAGE - 1);
            *self = Range { from: page, to: page + PAGE };
        }
    }

    /// The word at `at`, if it can be read.
    #[inline(always)]
    pub fn word(&mut self, at: u64) -> Option<u64> {
        let is_inside = at.wrapping_sub(self.from) < self.to - self.from;
        if at & 7 != 0 || !(is_inside || self.reach(at)) {
            return None;
        }
        // SAFETY: aligned, and in a page that is readable: of this thread's stack, or the kernel has just read it.
        Some(unsafe { (at as *const u64).read_volatile() })
    }

    #[cold]
    #[inline(never)]
    fn reach(&mut self, at: u64) -> bool {
        if !(PAGE..END).contains(&at) {
            return false;
        }
        if at < self.to || at >= self.to + MOST_PAGES * PAGE {
            return can_read(at);
        }
        while at >= self.to {
            if !can_read(self.to) {
                return can_read(at);
            }
            self.to += PAGE;
        }
        true
    }
}

/// Whether the kernel can read the word at `at`. Changes nothing, `errno` included.
fn can_read(at: u64) -> bool {
    const NO_SUCH_WAY: usize = 1 << 16;
    const SET_BYTES: usize = 8;
    let arguments = [NO_SUCH_WAY, at as usize, 0, SET_BYTES, 0, 0];
    // SAFETY: the kernel reads a set of signals at `at`, or finds that it cannot, and then refuses the way.
    let answer = unsafe { super::call(libc::SYS_rt_sigprocmask, arguments) };
    answer == -(libc::EINVAL as isize)
}
