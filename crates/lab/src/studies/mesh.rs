//! `freehold study mesh`: distributed heaps on a mesh of nodes, published and ours.
//!
//! ```text
//!   config      the settings, checked          published   the printed figures
//! ```
//!
//! Invariant: the results are a function of the settings. One table of costs and one load serve every
//! allocator, order and platform; nothing is fitted to a single figure.

mod config;
mod published;

pub use config::{DEFAULT, Plan};
pub use published::{PUBLISHED, Published, published};
