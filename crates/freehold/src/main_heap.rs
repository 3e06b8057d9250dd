//! The one heap of the process.

use freehold_core::malloc::NodeHeap;
use freehold_os::Linux;

/// Every function that C and Rust export works on it.
pub(crate) static HEAP: NodeHeap<Linux> = NodeHeap::new(Linux);
