//! A service in Rust on Freehold: the global allocator, a heap for each request, figures for monitoring.
//!
//! `cargo run --release -p freehold --example service`

use freehold::stats::{Format, Stats};
use freehold::{Freehold, Heap, HeapOptions};
use std::io::Write;

/// Everything that Rust allocates comes from Freehold.
#[global_allocator]
static MALLOC: Freehold = Freehold;

/// Serves a request in a heap of its own: what it takes is limited, and ends with it.
fn serve(request: &str) -> Option<usize> {
    let heap = Heap::new(HeapOptions { limit: Some(1 << 20), name: "request" })?;
    let mut longest = 0;
    for word in request.split(' ') {
        let copy = heap.allocate(word.len().max(1), 1)?;
        // SAFETY: the block is ours and that long.
        unsafe {
            copy.copy_from_nonoverlapping(
                std::ptr::NonNull::from(word.as_bytes()).cast(),
                word.len(),
            )
        };
        longest = longest.max(word.len());
    }
    Some(longest)
}

fn main() -> std::io::Result<()> {
    assert_eq!(serve("nobody frees these words"), Some(6));
    assert_eq!(serve(&"x".repeat(4 << 20)), None, "beyond the request's limit");

    // As a monitoring system would fetch it.
    let stats = Stats::take().ok_or(std::io::ErrorKind::OutOfMemory)?;
    let mut page = Vec::new();
    stats.write(Format::OpenMetrics, &mut |bytes: &[u8]| page.extend_from_slice(bytes));
    std::io::stdout().write_all(&page)
}
