//! What is wrong with a call: values, never damage.

use core::fmt;

/// A pointer that was given to `free` or its kin and is no used block of this heap. The heap is as it
/// was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Misuse {
    /// It lies outside of the heap's region, or where no block can begin.
    Foreign = 1,
    /// No used block begins there: it was freed before, or lies inside a block.
    NotInUse,
    /// Another thread has freed it already; it waits in the inbox.
    Sent,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Misuse::Foreign => "the pointer is not of this heap: it lies outside of its region, or where no block begins",
            Misuse::NotInUse => "no used block begins there: it was freed before, or the pointer lies inside a block",
            Misuse::Sent => "another thread has freed the block already",
        })
    }
}

impl core::error::Error for Misuse {}

/// Why no heap can be made over a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// It does not begin at a multiple of so many bytes.
    Misaligned {
        /// The alignment asked for, in bytes.
        align: u64,
    },
    /// The heap's own structures and one block need so many bytes.
    TooShort {
        /// The least length, in bytes.
        needed: u64,
    },
    /// It is longer than the heap can name.
    TooLong {
        /// The greatest length, in bytes.
        most: u64,
    },
    /// The smallest block is not a power of two from 16 B to 64 KiB.
    SmallestBlock,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Misaligned { align } => {
                write!(f, "the region does not begin at a multiple of {align} bytes")
            }
            Unfit::TooShort { needed } => {
                write!(f, "the region is too short: this heap needs at least {needed} bytes")
            }
            Unfit::TooLong { most } => {
                write!(f, "the region is too long: this heap can use at most {most} bytes")
            }
            Unfit::SmallestBlock => {
                f.write_str("the smallest block must be a power of two from 16 to 65536 bytes")
            }
        }
    }
}

impl core::error::Error for Unfit {}
