//! Measurements of the machine one sits at: what its pages cost.
//!
//! Invariant: a measurement says what was really had (huge pages asked for are not huge pages given), and
//! a verdict speaks of this machine at this moment only.

pub mod tlb;
