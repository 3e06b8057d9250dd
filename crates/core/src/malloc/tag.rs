//! The word that a free looks up: what the unit of an address holds.
//!
//! ```text
//! slab        its owner (4 KiB aligned) | SHARED? | SPARSE? | class     the block's own tag xor the cache
//! large       LARGE                                                         gives the class, if it is ours
//! caches      CACHES
//! otherwise   0
//! ```

use crate::size_class::SizeClass;

/// The unit is a slab in which free blocks have lost their marks, for their pages were purged: frees take the
/// careful path; see `sparse`.
pub const SPARSE: u64 = 0x80;
/// The unit is the first of a large block.
pub const LARGE: u64 = 0x100;

/// The unit holds caches.
pub const CACHES: u64 = 0x200;
/// The unit is a slab that threads share: whoever frees a block of it puts it into a stack of their own.
pub const SHARED: u64 = 0x400;

const LOW: u64 = 0xFFF;

/// The owner of a slab: the address of a cache, with whose slabs it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner(pub usize);

/// What a tag says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tag {
    /// Blocks of this class, in a slab of this owner's.
    Slab(Owner, SizeClass),
    /// The first unit of a large block.
    Large,
    /// No block starts here.
    Nothing,
}

impl Tag {
    /// Reads a tag.
    #[inline]
    pub fn decode(bits: u64) -> Tag {
        if bits == LARGE {
            return Tag::Large;
        }
        match SizeClass::new((bits & (SPARSE - 1)) as usize) {
            Some(class) if bits > LOW => Tag::Slab(Owner((bits & !LOW) as usize), class),
            _ => Tag::Nothing,
        }
    }
}

/// The tag of a slab.
pub fn of_slab(owner: Owner, class: SizeClass) -> u64 {
    debug_assert_eq!(owner.0 as u64 & LOW, 0);
    owner.0 as u64 | class.index() as u64
}

/// Whether blocks of a slab with that tag may be in the stacks of the owner with whose slabs of the class begins `own`.
pub fn is_in_stacks_of(tag: u64, own: u64) -> bool {
    let differs = (tag & !SPARSE) ^ own;
    differs == 0 || (tag & SHARED != 0 && differs & (SPARSE - 1) == 0)
}
