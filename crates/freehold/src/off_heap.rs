//! Memory that the library maps for itself, outside of every heap: for tables about heaps.

use crate::main_heap::HEAP;
use core::ops::{Deref, DerefMut};
use core::ptr;
use freehold_core::machine::Machine;

/// Types of which zero bytes are a valid value and that need not be dropped.
///
/// # Safety
/// As it says.
pub(crate) unsafe trait Zeroed: Copy {}

// SAFETY: a number.
unsafe impl Zeroed for u64 {}
// SAFETY: numbers, and names of length 0.
unsafe impl Zeroed for freehold_core::stats::HeapReport {}

/// Pages for `len` values, all zero; touched as they are used.
pub(crate) fn map<T: Zeroed>(len: usize) -> Option<&'static mut [T]> {
    let machine = HEAP.machine();
    let page = machine.page_size();
    let bytes = len.max(1).checked_mul(size_of::<T>())?.checked_next_multiple_of(page)?;
    let at = machine.reserve(bytes, page);
    // SAFETY: the reservation is ours, and fresh.
    if at.is_null() || !unsafe { machine.commit(at, bytes) } {
        return None;
    }
    // SAFETY: committed pages read as zero, which is a value, and nobody else has them; a page's
    // start suits every type here.
    Some(unsafe { core::slice::from_raw_parts_mut(at.cast(), len) })
}

/// Makes all values of a mapping zero, whatever its length, by giving its pages back.
pub(crate) fn wipe<T: Zeroed>(values: &mut [T]) {
    let machine = HEAP.machine();
    let len = size_of_val(values).next_multiple_of(machine.page_size());
    // SAFETY: `map` made the range of whole pages, ours alone, and zero is a value.
    if !unsafe { machine.purge(values.as_mut_ptr().cast(), len) } {
        // SAFETY: as above.
        unsafe { ptr::write_bytes(values.as_mut_ptr(), 0, values.len()) };
    }
}

/// Values that go when this goes.
pub(crate) struct Table<T: Zeroed + 'static> {
    values: &'static mut [T],
}

impl<T: Zeroed> Table<T> {
    /// See [`map`].
    pub fn new(len: usize) -> Option<Table<T>> {
        map(len).map(|values| Table { values })
    }
}

impl<T: Zeroed> Deref for Table<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.values
    }
}

impl<T: Zeroed> DerefMut for Table<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.values
    }
}

impl<T: Zeroed> Drop for Table<T> {
    fn drop(&mut self) {
        let machine = HEAP.machine();
        let len = (self.values.len().max(1) * size_of::<T>()).next_multiple_of(machine.page_size());
        // SAFETY: `map` reserved just this, and nobody refers to it any more.
        unsafe { machine.release(ptr::from_mut(self.values).cast(), len) };
    }
}
