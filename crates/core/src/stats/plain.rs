//! Values of another process: read as bytes, and believed as far as any bytes are a value.

use crate::malloc::census::Peek;
use core::mem::MaybeUninit;

/// Every bit pattern is valid.
///
/// # Safety
/// It must be so.
pub unsafe trait Plain {}
// SAFETY: a number.
unsafe impl Plain for usize {}

/// The value at an address of the other process; `None` where it can't be read.
pub fn read<T: Plain>(peek: &impl Peek, address: usize) -> Option<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: the bytes are the value's, zeroed, and we hold them alone.
    let bytes =
        unsafe { core::slice::from_raw_parts_mut(value.as_mut_ptr().cast(), size_of::<T>()) };
    // SAFETY: any bytes are a value.
    peek.peek(address, bytes).then(|| unsafe { value.assume_init() })
}
