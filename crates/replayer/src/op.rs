//! One operation of a stream: 16 bytes, so that decoding costs a shift and a mask.
//!
//! ```text
//! what   bits 0..48 size | 48..52 kind | 52..58 log2 of the alignment | 58 sampled
//! which  bits 0..32 slot | 32..63 turn | 63 handoff
//! ```
//!
//! **Turns** carry all order between threads. Every slot of the table of objects counts the
//! operations done on it; an operation waits until the count equals its own turn, does its work and
//! raises the count. So a free in another thread waits for the allocation, a slot used again waits
//! until it has been emptied.
//!
//! **Phases** keep the threads in step, loosely: a thread may be ahead of the slowest by no more than
//! two phases (of fifty to a hundred). Without them a replay would have other threads' objects alive
//! together than the program had, and another peak of memory.
//!
//! Why this cannot deadlock: the preparer numbers turns along one total order of the process (the
//! trace's), each stream lists its operations in that order, a spawn stands in it before everything
//! of the thread it starts, and the end of a phase waits for the ends of an earlier one. Every wait
//! is therefore for operations that are *earlier* in the total order; of all unfinished operations the earliest waits for nothing and can always run.

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// `malloc(size)`; C++ `operator new` too, which is the same path in every allocator known here.
    Malloc = 1,
    /// `calloc(1, size)`.
    Calloc = 2,
    /// `posix_memalign(alignment, size)`, whatever function of that family the program called.
    Aligned = 3,
    /// `free`; `size` is that of the dying object.
    Free = 4,
    /// `realloc(object, size)`. The `size` of the word that follows is the object's old size.
    Realloc = 5,
    /// Start thread `slot` as the `turn`-th start of the process, after joining those that ended
    /// before (`size` of them, in the order of the end table).
    Spawn = 6,
    /// A point of the timeline: `size` nanoseconds into the recorded run, at event
    /// [`Op::position`]. Obeyed only where the position is a multiple of the header's stride.
    Sample = 7,
    /// The stream goes on at operation `size` of the file.
    Jump = 8,
    /// The thread ends here, as it did in the trace (for the main thread: its stream is done).
    End = 9,
    /// The thread has nothing more to do but was alive when the trace ended: it stays until all
    /// others have finished and memory has been measured.
    Park = 10,
    /// A phase of the trace is over at event [`Op::position`], when `size` threads were running:
    /// each of them says so, and waits until all have ended the phase *before*. Obeyed only where
    /// the position is a multiple of the header's phase.
    Phase = 11,
}

impl Kind {
    /// The kind of a number; `None` for a number that names none.
    #[inline(always)]
    pub const fn from_bits(bits: u8) -> Option<Kind> {
        Some(match bits {
            1 => Kind::Malloc,
            2 => Kind::Calloc,
            3 => Kind::Aligned,
            4 => Kind::Free,
            5 => Kind::Realloc,
            6 => Kind::Spawn,
            7 => Kind::Sample,
            8 => Kind::Jump,
            9 => Kind::End,
            10 => Kind::Park,
            11 => Kind::Phase,
            _ => return None,
        })
    }
}

/// The largest size an operation can carry, bytes; larger requests fail on every machine anyway.
pub const MAX_SIZE: u64 = (1 << 48) - 1;

const KIND_SHIFT: u32 = 48;
const ALIGN_SHIFT: u32 = 52;
const SAMPLED_BIT: u64 = 1 << 58;
const TURN_SHIFT: u32 = 32;
const TURN_MASK: u32 = (1 << 31) - 1;
const HANDOFF_BIT: u64 = 1 << 63;

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Op {
    what: u64,
    which: u64,
}

const _: () = assert!(size_of::<Op>() == Op::BYTES && align_of::<Op>() == 8);

impl Op {
    /// Bytes of an operation in the file.
    pub const BYTES: usize = 16;

    /// An operation without slot or turn: the word after a realloc, a jump, an end.
    pub const fn plain(kind: Kind, size: u64) -> Op {
        let size = if size > MAX_SIZE { MAX_SIZE } else { size };
        Op { what: size | (kind as u64) << KIND_SHIFT, which: 0 }
    }

    /// A point of the timeline, `elapsed_ns` into the recorded run, after `position` events.
    pub const fn sample(elapsed_ns: u64, position: u64) -> Op {
        Op { which: position, ..Op::plain(Kind::Sample, elapsed_ns) }
    }

    /// The end of a phase after `position` events, with `running` threads.
    pub const fn phase(running: u64, position: u64) -> Op {
        Op { which: position, ..Op::plain(Kind::Phase, running) }
    }

    /// The same operation as the `turn`-th (modulo 2^31) on `slot`.
    pub const fn on(self, slot: u32, turn: u32) -> Op {
        Op { which: slot as u64 | ((turn & TURN_MASK) as u64) << TURN_SHIFT, ..self }
    }

    /// The same operation with an alignment of `1 << log2` (`log2` at most 47).
    pub const fn aligned(self, log2: u8) -> Op {
        let log2 = if log2 > 47 { 47 } else { log2 };
        Op { what: self.what | (log2 as u64) << ALIGN_SHIFT, ..self }
    }

    /// The same operation, its object's content checked when it is freed or moved.
    pub const fn sampled(self, yes: bool) -> Op {
        Op { what: if yes { self.what | SAMPLED_BIT } else { self.what }, ..self }
    }

    /// The same operation, telling the thread that carries it out that another thread has the next
    /// turn on its slot and may sleep until then.
    pub const fn handing_off(self) -> Op {
        Op { which: self.which | HANDOFF_BIT, ..self }
    }

    /// What it does; `None` in a file that no preparer wrote.
    #[inline(always)]
    pub const fn kind(self) -> Option<Kind> {
        Kind::from_bits((self.what >> KIND_SHIFT) as u8 & 15)
    }

    /// Bytes, or what [`Kind`] says of the field.
    #[inline(always)]
    pub const fn size(self) -> u64 {
        self.what & MAX_SIZE
    }

    /// log2 of the alignment asked for.
    #[inline(always)]
    pub const fn align_log2(self) -> u8 {
        (self.what >> ALIGN_SHIFT) as u8 & 63
    }

    /// Whether the object's content is checked.
    #[inline(always)]
    pub const fn is_sampled(self) -> bool {
        self.what & SAMPLED_BIT != 0
    }

    /// The slot (or thread) it is about.
    #[inline(always)]
    pub const fn slot(self) -> u32 {
        self.which as u32
    }

    /// Its turn on the slot, modulo 2^31.
    #[inline(always)]
    pub const fn turn(self) -> u32 {
        (self.which >> TURN_SHIFT) as u32 & TURN_MASK
    }

    /// Whether another thread has the next turn on the slot.
    #[inline(always)]
    pub const fn hands_off(self) -> bool {
        self.which & HANDOFF_BIT != 0
    }

    /// Of a [`Kind::Sample`] or [`Kind::Phase`]: events replayed before it, in the order of the trace.
    #[inline(always)]
    pub const fn position(self) -> u64 {
        self.which
    }

    /// As it lies in the file.
    pub const fn to_bytes(self) -> [u8; Op::BYTES] {
        (self.what as u128 | (self.which as u128) << 64).to_le_bytes()
    }

    /// From the file.
    pub const fn from_bytes(bytes: [u8; Op::BYTES]) -> Op {
        let both = u128::from_le_bytes(bytes);
        Op { what: both as u64, which: (both >> 64) as u64 }
    }
}

/// The turn after `turn`.
#[inline(always)]
pub const fn next_turn(turn: u32) -> u32 {
    (turn + 1) & TURN_MASK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_meet() {
        let op = Op::plain(Kind::Realloc, MAX_SIZE).aligned(47).on(u32::MAX, TURN_MASK);
        assert_eq!(op.kind(), Some(Kind::Realloc));
        assert_eq!((op.size(), op.align_log2()), (MAX_SIZE, 47));
        assert_eq!((op.slot(), op.turn()), (u32::MAX, TURN_MASK));
        assert!(!op.is_sampled() && !op.hands_off());
        let marked = op.sampled(true).handing_off();
        assert!(marked.is_sampled() && marked.hands_off());
        assert_eq!(
            (marked.size(), marked.slot(), marked.turn()),
            (op.size(), op.slot(), op.turn())
        );
        assert_eq!(marked.kind(), op.kind());
        assert!(Op::from_bytes(marked.to_bytes()) == marked);
    }

    #[test]
    fn oversize_is_clamped_and_zero_is_no_operation() {
        assert_eq!(Op::plain(Kind::Malloc, u64::MAX).size(), MAX_SIZE);
        assert_eq!(Op::plain(Kind::Malloc, u64::MAX).kind(), Some(Kind::Malloc));
        assert_eq!(Op::from_bytes([0; Op::BYTES]).kind(), None);
    }

    #[test]
    fn turns_wrap() {
        assert_eq!(next_turn(TURN_MASK), 0);
        assert_eq!(Op::plain(Kind::Free, 1).on(3, TURN_MASK + 1).turn(), 0);
    }

    #[test]
    fn a_sample_keeps_its_position() {
        let op = Op::sample(77, 1 << 40);
        assert_eq!((op.kind(), op.size(), op.position()), (Some(Kind::Sample), 77, 1 << 40));
    }
}
