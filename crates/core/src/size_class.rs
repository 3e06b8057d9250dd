//! Size <-> class: which sizes a slab may hold.
//!
//! Sixteen-byte steps up to 128 bytes, then eight per doubling up to a unit. Of steps of which a unit holds equally many
//! blocks only the largest is a class, for a shorter block would save no unit: 61 classes; internal waste at most one ninth
//! from 128 bytes to 6 KiB, and less than half above. The tables are evaluated by the compiler.
//!
//! Invariant: [`class_of`] returns the smallest class whose [`SizeClass::size`] is at least the
//! request. Neighbours: `malloc::cache` indexes its bins by class, `malloc::slab` cuts units by size.

/// How many classes there are.
pub const CLASSES: usize = 61;
const _: () = assert!(CLASSES <= 64, "a set of classes is a word");

/// The largest size that a class holds, in bytes: a unit. Larger requests take runs of units.
pub const MAX_CLASS_SIZE: usize = 64 * 1024;

/// The largest size that is looked up in a table, in bytes.
pub const SMALL_MAX: usize = 1024;

/// Where the linear steps of 16 bytes end and the eight steps per doubling begin, in bytes.
const LINEAR_MAX: usize = 128;

/// How many steps there are from which classes are chosen.
const STEPS: usize = LINEAR_MAX / 16 + 8 * (MAX_CLASS_SIZE / LINEAR_MAX).ilog2() as usize;

/// What creeps gets one such part of its size as room.
const SLACK: usize = 3;

/// One of the [`CLASSES`] sizes, `0 ..= 60`. A word, for it is an index: from a byte it would have to be made again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeClass(usize);

impl SizeClass {
    /// The class with this index; `None` past the last.
    #[inline]
    pub const fn new(index: usize) -> Option<SizeClass> {
        if index < CLASSES { Some(SizeClass(index)) } else { None }
    }

    /// The index, below [`CLASSES`].
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0
    }

    /// The size of every block of this class, in bytes; a multiple of 16.
    #[inline(always)]
    pub const fn size(self) -> usize {
        // SAFETY: every constructor keeps the index below CLASSES, the table's length.
        unsafe { *SIZES.as_ptr().add(self.0) as usize }
    }

    /// How many blocks of this class fit `len` bytes, for the unit's length computed at build time.
    #[inline(always)]
    pub const fn blocks_in(self, len: usize) -> usize {
        len / self.size()
    }

    /// `offset / size` without a division, for offsets below 64 KiB (proved by a test over all).
    #[inline(always)]
    pub const fn divide(self, offset: usize) -> usize {
        ((offset as u64 * self.reciprocal() as u64) >> 32) as usize
    }

    /// Whether a whole block of this class starts `offset` bytes into a unit of 64 KiB, for offsets below that (proved by
    /// a test over all): Lemire, Kaser and Kurz, "Faster remainder by direct computation" (2019), section 3.2, with a
    /// lower bound, which leaves out the piece behind the last block.
    #[inline(always)]
    pub const fn starts_at(self, offset: usize) -> bool {
        // SAFETY: as in `size`.
        let bound = unsafe { *TABLES.bounds.as_ptr().add(self.0) };
        (offset as u32).wrapping_mul(self.reciprocal()) < bound
    }

    #[inline(always)]
    const fn reciprocal(self) -> u32 {
        // SAFETY: as in `size`.
        unsafe { *TABLES.reciprocals.as_ptr().add(self.0) }
    }

    /// All classes, smallest first.
    pub fn all() -> impl DoubleEndedIterator<Item = SizeClass> {
        (0..CLASSES).map(SizeClass)
    }
}

impl core::fmt::Debug for SizeClass {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "C{}({})", self.0, self.size())
    }
}

/// The smallest class that holds `size` bytes; `None` above [`MAX_CLASS_SIZE`]. Size 0 takes the
/// smallest class. O(1).
#[inline]
pub const fn class_of(size: usize) -> Option<SizeClass> {
    if size <= SMALL_MAX {
        Some(class_of_small(size))
    } else if size <= MAX_CLASS_SIZE {
        // SAFETY: the steps end at the largest class.
        Some(SizeClass(unsafe { *CLASS_OF_STEP.as_ptr().add(step_of(size)) } as usize))
    } else {
        None
    }
}

/// The class for what moves from a block of `have` bytes to one of `size`; `None` above [`MAX_CLASS_SIZE`]. What creeps
/// will come back for the next step: it gets room, and so moves with every third class instead of each. What doubles
/// (or shrinks) gets what was asked for. A block creeps if it grows by at most one of `creep` parts of its length.
#[inline]
pub const fn class_of_resized(have: usize, size: usize, creep: usize) -> Option<SizeClass> {
    // Of a size below `have` the difference wraps.
    let creeps = size.wrapping_sub(have) <= have / creep;
    let roomy = size + if creeps { size / SLACK } else { 0 };
    // Where classes lie far apart, or end, there is none with so little room.
    match class_of(roomy) {
        Some(class) if class.size() / 2 <= size => Some(class),
        _ => class_of(size),
    }
}

/// The smallest class that holds `size` bytes and whose blocks all start at multiples of `align`
/// (a power of two) when the first does; `None` if there is none.
pub const fn class_of_aligned(size: usize, align: usize) -> Option<SizeClass> {
    if size > MAX_CLASS_SIZE { None } else { class_of(round_up(size, align)) }
}

/// The least multiple of `align` that holds `size` bytes, at most [`MAX_CLASS_SIZE`], and at least one. The class that
/// holds it is a multiple of `align`, too: steps between sizes are powers of two, so either `align` divides the step,
/// or the step divides `align`, and the multiple is a step itself; for the steps that are no classes a test shows it.
#[inline(always)]
pub const fn round_up(size: usize, align: usize) -> usize {
    (if size == 0 { 0 } else { size - 1 } | (align - 1)) + 1
}

/// What the fast path looks up: one static, so that the processor needs one address for both.
#[repr(C)]
struct Tables {
    /// The class of every size up to [`SMALL_MAX`], one byte each.
    small: [u8; SMALL_MAX + 1],
    /// 2^32 / size, rounded up: of its product with an offset, the upper half is the quotient, and the lower half is below
    /// the bound where a block starts. (Two rows of words: LLVM computes the place of a pair in an instruction of its own.)
    reciprocals: [u32; CLASSES],
    /// What the offset behind the last block comes to; 1 where sizes divide 2^32, and every block's offset comes to 0.
    bounds: [u32; CLASSES],
}

static TABLES: Tables =
    Tables { small: small_classes(), reciprocals: reciprocals(), bounds: bounds() };

const fn small_classes() -> [u8; SMALL_MAX + 1] {
    let mut table = [0; SMALL_MAX + 1];
    let mut size = 0;
    while size <= SMALL_MAX {
        table[size] = CLASS_OF_STEP[step_of(size)];
        size += 1;
    }
    table
}

/// The class of a size up to [`SMALL_MAX`]; panics above.
#[inline(always)]
pub const fn class_of_small(size: usize) -> SizeClass {
    SizeClass(TABLES.small[size] as usize)
}

static SIZES: [u32; CLASSES] = {
    let mut sizes = [0; CLASSES];
    let mut step = 0;
    while step < STEPS {
        // The last step of a class is its size.
        sizes[CLASS_OF_STEP[step] as usize] = size_of_step(step) as u32;
        step += 1;
    }
    sizes
};

/// The class of each step: that of the next one if a unit holds equally many of both.
static CLASS_OF_STEP: [u8; STEPS] = {
    let mut classes = [0; STEPS];
    let (mut step, mut class) = (1, 0);
    while step < STEPS {
        if MAX_CLASS_SIZE / size_of_step(step) != MAX_CLASS_SIZE / size_of_step(step - 1) {
            class += 1;
        }
        classes[step] = class;
        step += 1;
    }
    classes
};

const fn reciprocals() -> [u32; CLASSES] {
    let mut table = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        table[class] = reciprocal(SIZES[class] as usize) as u32;
        class += 1;
    }
    table
}

const fn reciprocal(size: usize) -> u64 {
    (1u64 << 32).div_ceil(size as u64)
}

const fn bounds() -> [u32; CLASSES] {
    let mut table = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let size = SIZES[class] as usize;
        let excess = reciprocal(size) * size as u64 - (1 << 32);
        let behind = ((1 << 16) / size) as u64 * excess;
        table[class] = if behind == 0 { 1 } else { behind as u32 };
        class += 1;
    }
    table
}

const fn size_of_step(step: usize) -> usize {
    if step < LINEAR_MAX / 16 {
        return (step + 1) * 16;
    }
    let above = step - LINEAR_MAX / 16;
    let base = LINEAR_MAX << (above / 8);
    base + (above % 8 + 1) * (base / 8)
}

/// The least step that holds `size` bytes.
const fn step_of(size: usize) -> usize {
    if size <= LINEAR_MAX {
        return if size == 0 { 0 } else { (size - 1) / 16 };
    }
    // The top bit of size-1 names the doubling, the three bits below it the step within it.
    let last = size - 1;
    let doubling = last.ilog2() as usize - LINEAR_MAX.ilog2() as usize;
    LINEAR_MAX / 16 + doubling * 8 + ((last >> (doubling + 4)) & 7)
}

const _: () = assert!(CLASS_OF_STEP[STEPS - 1] as usize == CLASSES - 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_the_documented_ones() {
        let first: [usize; 18] =
            [16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320];
        for (class, size) in SizeClass::all().zip(first) {
            assert_eq!(class.size(), size);
        }
        assert_eq!(SizeClass::all().next_back().map(SizeClass::size), Some(MAX_CLASS_SIZE));
    }

    #[test]
    fn every_size_takes_the_smallest_class_that_holds_it() {
        for size in 0..=MAX_CLASS_SIZE {
            let class = class_of(size).expect("in range");
            assert!(class.size() >= size, "{size} in {class:?}");
            if let Some(below) = class.index().checked_sub(1).and_then(SizeClass::new) {
                assert!(below.size() < size, "{size} would fit {below:?}");
            }
        }
        assert_eq!(class_of(MAX_CLASS_SIZE + 1), None);
        assert_eq!(class_of(usize::MAX), None);
    }

    #[test]
    fn waste_is_at_most_one_ninth_above_the_linear_classes() {
        for size in LINEAR_MAX + 1..=MAX_CLASS_SIZE {
            let class = class_of(size).expect("in range");
            let parts = if size <= 6 << 10 { 9 } else { 2 };
            assert!((class.size() - size) * parts <= class.size(), "{size} in {class:?}");
        }
    }

    #[test]
    fn what_creeps_gets_room_and_what_doubles_or_shrinks_gets_none() {
        let size = |have, size| class_of_resized(have, size, 4).map(SizeClass::size);
        assert_eq!(
            (size(64, 80), size(1024, 1025), size(1024, 1280)),
            (Some(112), Some(1408), Some(1792))
        );
        assert_eq!(
            (size(48, 64), size(1024, 1281), size(1024, 2048)),
            (Some(64), Some(1408), Some(2048))
        );
        assert_eq!(
            (size(1024, 400), size(1 << 20, 400), size(16, 0)),
            (Some(416), Some(416), Some(16))
        );
        // Among the longest: room as long as a class has it that is not too long.
        assert_eq!((size(20480, 24576), size(20480, 25000)), (Some(32768), Some(32768)));
        assert_eq!((size(32768, 32769), size(32768, 40000)), (Some(65536), Some(65536)));
        assert_eq!((size(MAX_CLASS_SIZE, MAX_CLASS_SIZE + 1), size(32, usize::MAX)), (None, None));
    }

    /// `free_sized` stops a program that names another size than it may have asked for.
    #[test]
    fn no_block_is_more_than_twice_as_long_as_what_it_is_for() {
        for have in SizeClass::all().map(SizeClass::size) {
            for size in 8..=MAX_CLASS_SIZE {
                let class = class_of_resized(have, size, 4).expect("in range");
                assert!(
                    size <= class.size() && class.size() <= 2 * size,
                    "{have} {size} {class:?}"
                );
            }
        }
    }

    #[test]
    fn division_by_reciprocal_is_exact_below_a_unit() {
        for class in SizeClass::all() {
            for offset in 0..65536 {
                assert_eq!(class.divide(offset), offset / class.size(), "{offset} in {class:?}");
            }
        }
    }

    #[test]
    fn a_block_starts_where_a_whole_one_fits_at_a_multiple_of_its_size() {
        for class in SizeClass::all() {
            let size = class.size();
            for offset in 0..65536 {
                let starts = offset % size == 0 && offset + size <= 65536;
                assert_eq!(class.starts_at(offset), starts, "{offset} in {class:?}");
            }
        }
    }

    #[test]
    fn aligned_classes_are_the_smallest_multiples_of_the_alignment() {
        for align in (0..=16).map(|shift| 1 << shift) {
            let mut fitting = SizeClass::all().filter(|class| class.size() % align == 0).peekable();
            for size in 0..=MAX_CLASS_SIZE {
                while fitting.next_if(|class| class.size() < size).is_some() {}
                assert_eq!(
                    class_of_aligned(size, align),
                    fitting.peek().copied(),
                    "{size} {align}"
                );
            }
        }
        assert_eq!(class_of_aligned(usize::MAX, 16), None);
        assert_eq!(class_of_aligned(1, 1 << (usize::BITS - 1)), None);
    }
}
