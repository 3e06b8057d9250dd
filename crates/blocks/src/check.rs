//! What a broken invariant looks like.
//!
//! Every structure of the core can walk itself and say whether it is whole. The answer is a value,
//! made of `core` only, so that a test, a simulator and the command line print the same sentence.

use core::fmt;

/// An invariant that does not hold: which, where, and by how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The invariant, as a sentence that should be true.
    pub what: &'static str,
    /// Where, in bytes from the start of the region.
    pub at: u64,
    /// What the invariant demands there.
    pub expected: u64,
    /// What was found instead.
    pub found: u64,
}

impl Broken {
    /// `Ok` when `found` is what is `expected`, else the report of it.
    pub fn unless_equal(
        what: &'static str,
        at: u64,
        expected: u64,
        found: u64,
    ) -> Result<(), Broken> {
        if expected == found { Ok(()) } else { Err(Broken { what, at, expected, found }) }
    }

    /// `Ok` when `holds`, else the report that it does not (1 was expected, 0 found).
    pub fn unless(holds: bool, what: &'static str, at: u64) -> Result<(), Broken> {
        Broken::unless_equal(what, at, 1, u64::from(holds))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { what, at, expected, found } = self;
        write!(f, "broken at byte {at}: {what} (expected {expected}, found {found})")
    }
}

impl core::error::Error for Broken {}
