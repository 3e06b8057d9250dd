//! Nodes for C: `freehold_vacate` and its kin, as `include/freehold.h` declares them.

use crate::malloc::set_errno;
use freehold::vacate::{self, NodeError, Pace, Vacated};
use libc::{c_int, size_t};

/// `struct freehold_vacated`: bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Moved by this call.
    pub moved: u64,
    /// Seen on the node, and not moved.
    pub left: u64,
}

/// Tells C what came of it: 0 when the node is empty, 1 when there is more to do, -1 and `errno` when nothing was done.
pub(crate) fn finish(result: Result<Vacated, NodeError>, out: *mut Moved) -> c_int {
    let (moved, answer) = match result {
        Ok(Vacated { moved, left, finished }) => (Moved { moved, left }, c_int::from(!finished)),
        Err(why) => {
            set_errno(match why {
                NodeError::NotPlaced => libc::ENOSYS,
                NodeError::NoSuchNode => libc::EINVAL,
                NodeError::LastNode => libc::EBUSY,
            });
            (Moved::default(), -1)
        }
    };
    if !out.is_null() {
        // SAFETY: who calls us says that it is null or can be written.
        unsafe { out.write(moved) };
    }
    answer
}

/// `freehold_vacate`: moves all that the program has on a node, and keeps away from it.
///
/// # Safety
/// `out` is null or can be written.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_vacate(
    node: c_int,
    rate: size_t,
    most: size_t,
    out: *mut Moved,
) -> c_int {
    let limit = |bytes: size_t| (bytes != 0).then_some(bytes as u64);
    let pace = Pace { bytes_per_second: limit(rate), most: limit(most) };
    finish(vacate::vacate(usize::try_from(node).unwrap_or(usize::MAX), pace), out)
}

/// `freehold_readmit`: memory may come from a node again.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn freehold_readmit(node: c_int) -> c_int {
    let result = vacate::readmit(usize::try_from(node).unwrap_or(usize::MAX));
    finish(result.map(|()| Vacated { finished: true, ..Vacated::default() }), core::ptr::null_mut())
}
