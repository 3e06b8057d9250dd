//! An event as it lies in a ring: two words, and a third and fourth for what does not fit.
//!
//! ```text
//! word 0   63       53 52   48 47                                    0
//!         │  slack    │ kind  │ address                              │
//! word 1   63                            24 23                       0
//!         │ low 40 bits of the tick        │ size                    │
//! ```
//!
//! *Slack* is usable size minus size. A size of 16 MiB and more, a slack of 2,047 bytes and more, or
//! an alignment takes a [`Kind::Wide`] event directly before, which then holds all three:
//!
//! ```text
//! word 0         │ 0         │ Wide  │ slack, 40 bits    │ align_log2 │
//! word 1         │ size, 64 bits                                      │
//! ```
//!
//! An access has in *size* twice its offset, plus 1 where it wrote, and in *slack* how many words of
//! 8 bytes it touched from there on.
//!
//! The upper 24 bits of the tick come from the last [`Kind::Clock`] event of the ring, which is
//! written whenever they change (at 2 GHz, every nine minutes) and first of all.
//!
//! Invariant: `unpack(pack(x)) == x` for everything the constructors accept; the drain never trusts
//! it and treats an unknown kind as damage, for the memory belongs to a program that may be broken.

/// Bits of the tick that an event carries.
pub const TICK_BITS: u32 = 40;
/// Sizes below this fit into the event.
pub const SIZE_LIMIT: u64 = 1 << SIZE_BITS;
/// Slacks below this fit into the event; [`SLACK_UNKNOWN`] is the limit itself.
pub const SLACK_LIMIT: u64 = (1 << SLACK_BITS) - 1;
/// The recorded allocator does not tell usable sizes.
pub const SLACK_UNKNOWN: u64 = SLACK_LIMIT;
/// The same, in a [`Kind::Wide`] event.
pub const WIDE_SLACK_UNKNOWN: u64 = (1 << WIDE_SLACK_BITS) - 1;

const ADDRESS_BITS: u32 = 48;
const KIND_BITS: u32 = 5;
const SLACK_BITS: u32 = 11;
const SIZE_BITS: u32 = 24;
const WIDE_SLACK_BITS: u32 = 40;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;

const _: () = assert!(ADDRESS_BITS + KIND_BITS + SLACK_BITS == 64);
const _: () = assert!(SIZE_BITS + TICK_BITS == 64);
const _: () = assert!(8 + WIDE_SLACK_BITS == ADDRESS_BITS);

/// What an event in a ring says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// `malloc` and what is like it returned `address` (0: it failed).
    Malloc = 1,
    /// `calloc` returned.
    Calloc = 2,
    /// A function that names an alignment returned.
    Aligned = 3,
    /// `operator new` returned.
    New = 4,
    /// `operator new[]` returned.
    NewArray = 5,
    /// `free` of `address` is about to be called.
    Free = 6,
    /// `realloc` of `address` is about to be called.
    ReallocBegin = 7,
    /// The `realloc` begun last in this thread returned `address` (0: it failed, or freed).
    ReallocEnd = 8,
    /// Size, slack and alignment of the event that follows.
    Wide = 9,
    /// Word 1 is the whole tick.
    Clock = 10,
    /// The thread's first event.
    ThreadStart = 11,
    /// The thread is ending; frees by the C library may still follow.
    ThreadEnd = 12,
    /// The program says that it touched words of the object at `address`.
    Access = 13,
    /// Whose the events are that follow: see [`Stack`].
    Stack = 14,
    /// Two words that belong to the [`Kind::Stack`] before.
    Data = 15,
    /// Memory outside of malloc came or went at `address`. Its bytes and, as slack, its flags ([`MAP_FILE`] …) stand in the
    /// [`Kind::Wide`] before, which it always has.
    Map = 16,
}

impl Kind {
    /// Every kind, by its number less one.
    const ALL: [Kind; 16] = [
        Kind::Malloc,
        Kind::Calloc,
        Kind::Aligned,
        Kind::New,
        Kind::NewArray,
        Kind::Free,
        Kind::ReallocBegin,
        Kind::ReallocEnd,
        Kind::Wide,
        Kind::Clock,
        Kind::ThreadStart,
        Kind::ThreadEnd,
        Kind::Access,
        Kind::Stack,
        Kind::Data,
        Kind::Map,
    ];

    /// The kind of this number.
    pub fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number).wrapping_sub(1)).copied()
    }

    /// Whether the event brings an object to life (or fails to).
    pub const fn is_alloc(self) -> bool {
        (self as u8) <= Kind::NewArray as u8
    }
}

/// [`Kind::Map`]: it shows a file.
pub const MAP_FILE: u64 = 1;
/// Other processes see what is written there.
pub const MAP_SHARED: u64 = 2;
/// It may be executed.
pub const MAP_CODE: u64 = 4;
/// It was asked for as a stack.
pub const MAP_STACK: u64 = 8;
/// Huge pages were asked for.
pub const MAP_HUGE: u64 = 16;
/// Addresses only.
pub const MAP_RESERVED: u64 = 32;
/// By `brk` or `sbrk`.
pub const MAP_BREAK: u64 = 64;
/// The recorder's own.
pub const MAP_RECORDER: u64 = 128;
/// It is gone: only this flag is set.
pub const MAP_GONE: u64 = 1 << 15;

/// What a [`Kind::Stack`] says, by its slack. The stack said last is that of every event after it that has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// The stack is that of this place of the reader's table.
    Entry(u32),
    /// The stack is so many outer frames of the one before, then so many new ones, which follow, two in a
    /// [`Kind::Data`], the outermost first. It takes that place of the table ([`NO_ENTRY`]: none).
    New {
        /// Frames kept.
        keep: u32,
        /// Frames that follow.
        push: u32,
        /// The place.
        entry: u32,
        /// A frame comes before the new ones that says that the callers are unknown.
        cut: bool,
    },
    /// Nothing is known of the stack.
    Unknown,
    /// All that was said of stacks is forgotten; what comes is of this generation of modules.
    Generation(u64),
    /// A module of this generation: [`MODULE_WORDS`] words follow, then so many bytes of the build id and of the path.
    Module {
        /// Bytes of the build id.
        build_id: u32,
        /// Bytes of the path.
        path: u32,
    },
}

/// [`Stack::New`]: the stack takes no place.
pub const NO_ENTRY: u32 = 0xffff;
/// Of a [`Stack::Module`]: its first address, its end, and by how much addresses differ from its file's.
pub const MODULE_WORDS: usize = 3;
/// Bytes that a [`Kind::Data`] holds.
pub const DATA_BYTES: usize = 14;

impl Stack {
    /// As an event.
    pub const fn pack(self) -> Packed {
        let (what, field, word) = match self {
            Stack::Entry(entry) => (0, entry as u64, 0),
            Stack::New { keep, push, entry, cut } => {
                (1, entry as u64 | (cut as u64) << 16, keep as u64 | (push as u64) << 32)
            }
            Stack::Unknown => (2, 0, 0),
            Stack::Generation(generation) => (3, 0, generation),
            Stack::Module { build_id, path } => (4, 0, build_id as u64 | (path as u64) << 32),
        };
        Packed(
            field | (Kind::Stack as u64) << ADDRESS_BITS | what << (ADDRESS_BITS + KIND_BITS),
            word,
        )
    }

    /// What the event says, if it makes sense.
    pub fn unpack(event: Packed) -> Option<Stack> {
        let (field, low, high) = (event.address(), event.1 as u32, (event.1 >> 32) as u32);
        Some(match event.slack() {
            0 => Stack::Entry(field as u32),
            1 => Stack::New {
                keep: low,
                push: high,
                entry: field as u32 & 0xffff,
                cut: field >> 16 & 1 == 1,
            },
            2 => Stack::Unknown,
            3 => Stack::Generation(event.1),
            4 => Stack::Module { build_id: low, path: high },
            _ => return None,
        })
    }

    /// How many [`Kind::Data`] follow.
    pub const fn data(self) -> usize {
        match self {
            Stack::New { push, .. } => (push as usize).div_ceil(2),
            Stack::Module { build_id, path } => {
                MODULE_WORDS.div_ceil(2) + (build_id as usize + path as usize).div_ceil(DATA_BYTES)
            }
            _ => 0,
        }
    }
}

/// Two words in a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Packed(pub u64, pub u64);

impl Packed {
    /// An event. `size` is below [`SIZE_LIMIT`], `slack` at most [`SLACK_UNKNOWN`]; what is above is
    /// cut off, so a [`Packed::wide`] event must come before.
    #[inline(always)]
    pub const fn new(kind: Kind, address: u64, slack: u64, size: u64, tick: u64) -> Packed {
        Packed(
            (address & ADDRESS_MASK)
                | (kind as u64) << ADDRESS_BITS
                | slack << (ADDRESS_BITS + KIND_BITS),
            (size & (SIZE_LIMIT - 1)) | tick << SIZE_BITS,
        )
    }

    /// Size, slack ([`WIDE_SLACK_UNKNOWN`] at most) and alignment of the next event.
    pub const fn wide(size: u64, slack: u64, align_log2: u8) -> Packed {
        let word = align_log2 as u64 | (slack << 8) & ADDRESS_MASK;
        Packed(word | (Kind::Wide as u64) << ADDRESS_BITS, size)
    }

    /// An access to `words` words of 8 bytes from `offset` on; both are cut off at what fits.
    pub const fn access(object: u64, offset: u64, words: u64, write: bool, tick: u64) -> Packed {
        let slack = if words < SLACK_LIMIT { words } else { SLACK_LIMIT - 1 };
        Packed::new(Kind::Access, object, slack, offset << 1 | write as u64, tick)
    }

    /// Memory outside of malloc: the two events that tell of it.
    pub const fn map(address: u64, bytes: u64, flags: u64, tick: u64) -> [Packed; 2] {
        [Packed::wide(bytes, flags, 0), Packed::new(Kind::Map, address, 0, 0, tick)]
    }

    /// The whole tick.
    pub const fn clock(tick: u64) -> Packed {
        Packed((Kind::Clock as u64) << ADDRESS_BITS, tick)
    }

    /// Two words of 48 and 64 bits that belong to what came before.
    pub const fn data(first: u64, second: u64) -> Packed {
        Packed(first & ADDRESS_MASK | (Kind::Data as u64) << ADDRESS_BITS, second)
    }

    /// Whether the event has a time: it says something itself.
    #[inline]
    pub const fn is_timed(kind: Kind) -> bool {
        !matches!(kind, Kind::Wide | Kind::Clock | Kind::Stack | Kind::Data)
    }

    /// The kind, if it is one.
    #[inline]
    pub fn kind(self) -> Option<Kind> {
        Kind::from_number((self.0 >> ADDRESS_BITS) as u8 & ((1 << KIND_BITS) - 1))
    }

    /// The same event of another kind.
    pub const fn with_kind(self, kind: Kind) -> Packed {
        let mask = ((1 << KIND_BITS) - 1) << ADDRESS_BITS;
        Packed(self.0 & !mask | (kind as u64) << ADDRESS_BITS, self.1)
    }

    /// The same event at another time.
    pub const fn at(self, tick: u64) -> Packed {
        Packed(self.0, self.1 & (SIZE_LIMIT - 1) | tick << SIZE_BITS)
    }

    /// The address.
    #[inline]
    pub const fn address(self) -> u64 {
        self.0 & ADDRESS_MASK
    }

    /// Usable size minus size, [`SLACK_UNKNOWN`] where unknown.
    #[inline]
    pub const fn slack(self) -> u64 {
        self.0 >> (ADDRESS_BITS + KIND_BITS)
    }

    /// The size.
    #[inline]
    pub const fn size(self) -> u64 {
        self.1 & (SIZE_LIMIT - 1)
    }

    /// The low [`TICK_BITS`] bits of the tick.
    #[inline]
    pub const fn low_tick(self) -> u64 {
        self.1 >> SIZE_BITS
    }

    /// Slack of a [`Kind::Wide`] event.
    pub const fn wide_slack(self) -> u64 {
        (self.0 & ADDRESS_MASK) >> 8
    }

    /// log2 of the alignment in a [`Kind::Wide`] event.
    pub const fn wide_align_log2(self) -> u8 {
        self.0 as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index + 1);
            assert_eq!(Kind::from_number(kind as u8), Some(kind));
        }
        assert_eq!(Kind::from_number(0), None);
        assert_eq!(Kind::from_number(17), None);
    }

    #[test]
    fn fields_do_not_touch_each_other() {
        let limits = [0, 1, SIZE_LIMIT - 1];
        for (size, slack) in limits.into_iter().zip([0, 8, SLACK_UNKNOWN]) {
            let tick = (0xABCDE << TICK_BITS) | ((1 << TICK_BITS) - 2);
            let event = Packed::new(Kind::NewArray, 0x7FFF_FFFF_FFF8, slack, size, tick);
            assert_eq!(event.kind(), Some(Kind::NewArray));
            assert_eq!(event.address(), 0x7FFF_FFFF_FFF8);
            assert_eq!((event.size(), event.slack()), (size, slack));
            assert_eq!(event.low_tick(), (1 << TICK_BITS) - 2);
            assert_eq!(event.with_kind(Kind::Free).kind(), Some(Kind::Free));
            assert_eq!(event.with_kind(Kind::Free).address(), event.address());
        }
    }

    #[test]
    fn a_wide_event_holds_what_does_not_fit() {
        let event = Packed::wide(u64::MAX, WIDE_SLACK_UNKNOWN, 63);
        assert_eq!(event.kind(), Some(Kind::Wide));
        assert_eq!((event.1, event.wide_slack()), (u64::MAX, WIDE_SLACK_UNKNOWN));
        assert_eq!(event.wide_align_log2(), 63);
    }

    #[test]
    fn what_is_said_of_stacks_survives_the_way() {
        let new = Stack::New { keep: 12_000, push: 3, entry: 255, cut: true };
        let none = Stack::New { keep: 0, push: u32::MAX, entry: NO_ENTRY, cut: false };
        let module = Stack::Module { build_id: 20, path: 4095 };
        for said in
            [Stack::Entry(7), new, none, Stack::Unknown, Stack::Generation(u64::MAX), module]
        {
            assert_eq!(said.pack().kind(), Some(Kind::Stack));
            assert_eq!(Stack::unpack(said.pack()), Some(said));
        }
        assert_eq!((new.data(), Stack::Unknown.data()), (2, 0));
        assert_eq!(Stack::Module { build_id: 20, path: 9 }.data(), 2 + 3);
    }

    #[test]
    fn memory_outside_of_malloc_takes_two_events() {
        let [wide, map] = Packed::map(0x7fff_0000_1000, 1 << 46, MAP_GONE, 77);
        assert_eq!((wide.kind(), wide.1, wide.wide_slack()), (Some(Kind::Wide), 1 << 46, MAP_GONE));
        assert_eq!((map.kind(), map.address()), (Some(Kind::Map), 0x7fff_0000_1000));
        assert_eq!(map.low_tick(), 77);
    }

    #[test]
    fn only_the_five_kinds_make_objects() {
        let makers = Kind::ALL.into_iter().filter(|kind| kind.is_alloc()).count();
        assert_eq!(makers, 5);
    }
}
