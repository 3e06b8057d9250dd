//! Any bytes as the value of any option that names no file: it is understood or refused, and the malloc lives on.

#![no_main]

use freehold::{OPTIONS, process};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, value)) = data.split_first() else { return };
    let row = &OPTIONS[usize::from(choice) % OPTIONS.len()];
    // At the end of the process a file of that name would be written, whatever the name.
    if row.values.contains("file") {
        return;
    }
    if row.set(value) {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric();
        assert!(!value.is_empty() && value.iter().all(plain), "{:?}={value:?} was taken", row.name);
    }
    let block = process::allocate(usize::from(choice) + 1);
    if !block.is_null() {
        // SAFETY: the block is ours, and has at least one byte.
        unsafe {
            block.write(choice);
            process::free(block);
        }
    }
});
