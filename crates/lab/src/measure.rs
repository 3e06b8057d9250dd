//! What a replay measures as it goes: fragmentation, steps, the timeline.
//!
//! Small accumulators fed once per event (or once per call) that hold a bounded amount of memory
//! however long the trace is. Integers inside, one division at the end, so that a result is the
//! same on every machine.
//!
//! Neighbours: `simulate` and `real` feed them; `results` holds what they find.

mod fragmentation;
mod histogram;
mod timeline;

pub use fragmentation::FragmentationMeter;
pub use histogram::StepHistogram;
pub use timeline::{MAX_POINTS, Timeline};
