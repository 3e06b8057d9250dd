//! Atomics and cells: the machine's own, or loom's when [`realtime::sent`](crate::realtime::sent) and
//! [`sharing`](crate::sharing) are being proved.
//!
//! Chosen once, here (`--cfg loom`); the modules under proof import from here and hold no `cfg` of their own. In an
//! [`UnsafeCell`] loom sees who touches what at once.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

#[cfg(loom)]
pub use loom::cell::UnsafeCell;

/// A cell whose contents are reached through pointers, as loom's are.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    /// Hands the contents to `work`, which reads them.
    #[inline(always)]
    pub fn with<R>(&self, work: impl FnOnce(*const T) -> R) -> R {
        work(self.0.get())
    }

    /// Hands the contents to `work`, which may change them.
    #[inline(always)]
    pub fn with_mut<R>(&self, work: impl FnOnce(*mut T) -> R) -> R {
        work(self.0.get())
    }
}
