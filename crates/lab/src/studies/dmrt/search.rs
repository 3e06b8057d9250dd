//! A search over everything that the chapter leaves open: which readings of it come near to what it prints?
//!
//! ```text
//!   space     the open settings and their levels     reading   one choice of all, run: distances to the printed rows
//!   design    which readings are run                 map       all that were run, and what they say
//!   export    the map as CSV                         page      the map as one HTML file
//! ```
//!
//! Three stages. *Design*: a Latin hypercube, in which each level of a setting is run equally often, so that the mean
//! over a level is that level's effect. *Descent*: from the best of the design for each aim, one setting is changed at
//! a time while that helps. *Confirm*: the best of all, run with as many attempts as the tables have. An aim is an
//! allocator, or all four at once, under one reading.
//!
//! Invariant: every reading that was run is in the map, also those that could not begin; nothing is left out because
//! it fits badly. Settings that the chapter prints (nodes, thresholds, limits of sizes, paths) are not moved.

mod design;
mod export;
mod map;
mod page;
mod reading;
mod space;

pub use design::{SearchError, search};
pub use export::write_map;
pub use map::Map;
pub use page::page as search_page;
pub use reading::Stage as SearchStage;
pub use space::Keys as SearchKeys;

#[cfg(test)]
mod tests;
