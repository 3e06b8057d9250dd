//! A block as it is seen from outside.

/// What a block is cut from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A slab: its class's size.
    Small,
    /// A run of whole units.
    Large,
}

/// A block as seen from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Where it starts.
    pub address: usize,
    /// What its user may use, in bytes.
    pub size: usize,
    /// What it is cut from.
    pub kind: Kind,
}
