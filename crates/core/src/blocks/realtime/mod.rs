//! The real-time heap.

mod bounded;
mod fast;
mod hot;
mod misuse;
pub mod rings;
pub mod sent;
mod strict;
mod tree;
mod used;

use super::region::GRANULE;

pub use bounded::{BoundedHeap, Inbox};
pub use fast::FastHeap;
pub use misuse::{Misuse, Unfit};
pub use strict::StrictHeap;
