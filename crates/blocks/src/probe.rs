//! What a policy does, counted.
//!
//! [`Probe`] is a type parameter of every operation: `()` in what ships, where it compiles to nothing, and a counting
//! probe in simulators and `--stats`.

/// One thing a policy does that costs time on a real machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A candidate block (or frame, or node) was looked at and judged.
    Inspect,
    /// A word of a block header, link or footer was read or written, `at` bytes into the region.
    Touch {
        /// Where, in bytes from the start of the region.
        at: u64,
    },
    /// A word of the policy's own index (bitmap, list head, tree root) was read or written.
    Index,
    /// A block was cut in two.
    Split,
    /// Two neighbours became one.
    Merge,
}

/// Watches the steps of a policy. Called on every step, in order; must not call the policy back.
pub trait Probe {
    /// A step was taken.
    fn step(&mut self, step: Step);
}

/// Nobody watches: what ships.
impl Probe for () {
    #[inline(always)]
    fn step(&mut self, _: Step) {}
}

/// A probe that somebody else holds.
impl<P: Probe> Probe for &mut P {
    #[inline(always)]
    fn step(&mut self, step: Step) {
        (**self).step(step);
    }
}
