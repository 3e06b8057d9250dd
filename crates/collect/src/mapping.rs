//! Shared memory made for the program: ring sets and the doorbell.
//!
//! Invariant: a `Shared<T>` is mapped as long as it lives, and `T` is atomics only, because the
//! program writes there at any time.

use freehold_record::ring::{RingHead, Slot};
use freehold_record::ring_set::{self, DOORBELL_BYTES, Doorbell, RingSet, SET_BYTES, SLOTS};
use std::ffi::CStr;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// A mapping of shared memory that begins with a `T`.
pub struct Shared<T> {
    start: NonNull<T>,
    bytes: usize,
}

// SAFETY: T is atomics only (RingSet, Doorbell: the two constructors), and the mapping belongs to no
// thread.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Deref for Shared<T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: mapped while self lives, page-aligned, at least as long as a T, and any bits are
        // valid for atomics.
        unsafe { self.start.as_ref() }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A ring set, and the descriptor to give away.
pub fn new_ring_set() -> io::Result<(Shared<RingSet>, OwnedFd)> {
    new(c"freehold-rings", SET_BYTES)
}

/// The doorbell, and the descriptor to give away.
pub fn new_doorbell() -> io::Result<(Shared<Doorbell>, OwnedFd)> {
    new(c"freehold-doorbell", DOORBELL_BYTES)
}

fn new<T>(name: &CStr, bytes: usize) -> io::Result<(Shared<T>, OwnedFd)> {
    // SAFETY: the name is a C string; the descriptor is new and ours.
    let memory = unsafe {
        let fd = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: the descriptor is open; a new shared mapping touches no memory in use.
    let start = unsafe {
        if libc::ftruncate(memory.as_raw_fd(), bytes as libc::off_t) != 0 {
            return Err(io::Error::last_os_error());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let null = std::ptr::null_mut();
        libc::mmap(null, bytes, protection, libc::MAP_SHARED, memory.as_raw_fd(), 0)
    };
    match NonNull::new(start.cast::<T>()) {
        Some(start) if start.as_ptr() as isize != -1 => Ok((Shared { start, bytes }, memory)),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Shared<RingSet> {
    /// The positions of ring `ring` and its slots.
    pub fn ring(&self, ring: usize) -> (&RingHead, &[Slot; SLOTS]) {
        let head = &self.heads[ring];
        // SAFETY: `ring` was checked by the line above, the set is mapped whole, and the slots live
        // as long as the mapping that `self` keeps.
        let slots = unsafe { &*ring_set::slots_of(self.start.as_ptr(), ring).cast() };
        (head, slots)
    }
}
