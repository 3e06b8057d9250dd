//! The two messages by which a process of the program meets the parent.
//!
//! The program connects to an abstract Unix socket (a sequenced-packet one, so that a message is
//! whole or absent), says who it is, and gets two descriptors: its ring set and the doorbell. It maps
//! both, closes all three descriptors and never uses one again.
//!
//! The address stands in the environment variable [`VARIABLE`] as `name:key`. Anybody can read the
//! names of abstract sockets, so the name opens nothing; the 128-bit key does.
//!
//! Invariant: both messages are plain bytes without padding; the parent checks magic, layout and
//! key before it believes anything.

use crate::ring_set::LAYOUT;
use core::mem::size_of;

/// The environment variable that makes a preloaded library record.
pub const VARIABLE: &str = "FREEHOLD_RECORD";
/// First word of each message.
pub const MAGIC: u32 = 0xF4EC_0001;
/// Bytes of the key.
pub const KEY_BYTES: usize = 16;
/// Longest socket name in bytes.
pub const NAME_BYTES: usize = 64;

/// The process has just begun, by `exec` or as the program itself.
pub const IMAGE: u32 = 1;
/// The process was forked from `process`.
pub const FORK: u32 = 2;
/// A known process has more threads than rings.
pub const MORE: u32 = 3;
/// A known process is about to end: the parent looks at its memory and hangs up, which is the answer.
pub const LAST: u32 = 4;

/// What the program says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Hello {
    /// [`MAGIC`].
    pub magic: u32,
    /// [`LAYOUT`].
    pub layout: u32,
    /// From the environment.
    pub key: [u8; KEY_BYTES],
    /// [`IMAGE`], [`FORK`], [`MORE`] or [`LAST`].
    pub what: u32,
    /// Number of the process that forked, or of this one; [`NOBODY`] for [`IMAGE`].
    pub process: u32,
    /// The thread that forked, by its number in that process; [`NOBODY`] where it had none.
    pub thread: u32,
    /// Reserved, 0.
    pub zero: u32,
    /// When the fork was called, or when the process began.
    pub tick: u64,
    /// Where the malloc begins that the program would have without us; 0 where that is not known.
    pub malloc: u64,
}

/// No process, no thread.
pub const NOBODY: u32 = u32::MAX;

/// What the parent answers, beside the two descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Welcome {
    /// [`MAGIC`].
    pub magic: u32,
    /// The number of the process in this recording.
    pub process: u32,
    /// [`CLOCK_TSC`] or [`CLOCK_MONOTONIC`].
    pub clock: u32,
    /// Which events have call stacks: [`NO_STACKS`], [`STACKS_OF_ALLOCATIONS`] or [`STACKS_OF_ALL`], and
    /// [`CHECK_STACKS`] or not. Only the library that was built for it obeys.
    pub stacks: u32,
}

/// No stacks.
pub const NO_STACKS: u32 = 0;
/// Stacks of allocations and reallocations.
pub const STACKS_OF_ALLOCATIONS: u32 = 1;
/// Stacks of frees, too.
pub const STACKS_OF_ALL: u32 = 2;
/// Each stack is compared with a plain walk.
pub const CHECK_STACKS: u32 = 1 << 8;

/// Ticks are the processor's time stamp counter.
pub const CLOCK_TSC: u32 = 0;
/// Ticks are nanoseconds of `CLOCK_MONOTONIC`.
pub const CLOCK_MONOTONIC: u32 = 1;

const _: () = assert!(size_of::<Hello>() == 56 && size_of::<Welcome>() == 16);

impl Hello {
    /// A message with magic and layout filled in.
    pub const fn new(
        key: [u8; KEY_BYTES],
        what: u32,
        process: u32,
        thread: u32,
        tick: u64,
    ) -> Self {
        Hello { magic: MAGIC, layout: LAYOUT, key, what, process, thread, zero: 0, tick, malloc: 0 }
    }

    /// The message as bytes.
    pub fn to_bytes(self) -> [u8; size_of::<Hello>()] {
        // SAFETY: repr(C), only integers, and the size assertion above leaves no room for padding.
        unsafe { core::mem::transmute(self) }
    }

    /// The message from bytes.
    pub fn from_bytes(bytes: [u8; size_of::<Hello>()]) -> Self {
        // SAFETY: every bit pattern is a valid Hello, which holds integers only.
        unsafe { core::mem::transmute(bytes) }
    }
}

impl Welcome {
    /// The message as bytes.
    pub fn to_bytes(self) -> [u8; size_of::<Welcome>()] {
        // SAFETY: repr(C), only integers, and the size assertion above leaves no room for padding.
        unsafe { core::mem::transmute(self) }
    }

    /// The message from bytes.
    pub fn from_bytes(bytes: [u8; size_of::<Welcome>()]) -> Self {
        // SAFETY: every bit pattern is a valid Welcome, which holds integers only.
        unsafe { core::mem::transmute(bytes) }
    }
}

/// Splits `name:key` (the key in 32 hexadecimal digits).
pub fn parse_address(text: &[u8]) -> Option<(&[u8], [u8; KEY_BYTES])> {
    let colon = text.iter().rposition(|&byte| byte == b':')?;
    let (name, digits) = (text.get(..colon)?, text.get(colon + 1..)?);
    if name.is_empty() || name.len() > NAME_BYTES || digits.len() != 2 * KEY_BYTES {
        return None;
    }
    let mut key = [0; KEY_BYTES];
    for (byte, pair) in key.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some((name, key))
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_name_and_a_key() {
        let text = b"freehold-12-ab:000102030405060708090a0b0c0d0eff";
        let (name, key) = parse_address(text).unwrap();
        assert_eq!(name, b"freehold-12-ab");
        assert_eq!(key, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
    }

    #[test]
    fn anything_else_is_refused() {
        let bad: [&[u8]; 5] = [b"", b":", b"name", b"name:00", &[b'a'; 200]];
        for text in bad {
            assert_eq!(parse_address(text), None);
        }
        assert_eq!(parse_address(b"name:00010203040506070809ZZ0b0c0d0eff"), None);
    }

    #[test]
    fn messages_survive_the_way() {
        let hello = Hello::new([7; KEY_BYTES], FORK, 3, NOBODY, u64::MAX - 1);
        let hello = Hello { malloc: u64::MAX - 2, ..hello };
        assert_eq!(Hello::from_bytes(hello.to_bytes()), hello);
        let welcome = Welcome { magic: MAGIC, process: 9, clock: CLOCK_MONOTONIC, stacks: 2 };
        assert_eq!(Welcome::from_bytes(welcome.to_bytes()), welcome);
    }
}
