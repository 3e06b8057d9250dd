//! The events of a block, in one of two forms: plain, 16 bytes each, exactly as in the ring; or packed,
//! about five bytes each before zstd:
//!
//! ```text
//!   tag       kind (4 bits), length of the time (2), form of the address (2)
//!   time      1, 2, 3 or 8 bytes: ticks since the event before
//!   address   0 (as before), 2 or 3 (signed distance to the one before, in 16 bytes), 6 (itself)
//!   size      LEB128      ┐ where the event has them
//!   slack     LEB128      ┘
//! ```
//!
//! Invariant: a block is decoded by itself: distances begin at the tick in its head and address 0. Where
//! it is plain, the head's tick tells the upper bits of the first one; Clock events tell later ones.

use freehold_record::packed::{Kind, Packed, SLACK_UNKNOWN, TICK_BITS, WIDE_SLACK_UNKNOWN};
use freehold_trace::StackId;

/// An event as the finisher sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The whole tick.
    pub tick: u64,
    /// What.
    pub kind: Kind,
    /// Where; 0 for failures and for what has no address.
    pub address: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Usable bytes beyond those; none where unknown.
    pub slack: Option<u64>,
    /// log2 of the alignment asked for; 0 for none.
    pub align_log2: u8,
    /// Whose it is; none where that was not asked. The decoder leaves it to whoever hears what is said of stacks.
    pub stack: StackId,
}

/// Who hears what is said of stacks, in between events: [`Kind::Stack`] and [`Kind::Data`].
pub trait Hears {
    /// What is said.
    fn hear(&mut self, kind: Kind, said: Packed);
}

/// Nobody.
impl Hears for () {
    #[inline(always)]
    fn hear(&mut self, _: Kind, _: Packed) {}
}

/// Longest event: tag, time, address, size and slack.
const LONGEST: usize = 1 + 8 + 6 + 10 + 10;
// What is said of stacks: tag and three numbers.
const _: () = assert!(LONGEST >= 1 + 7 + 2 + 10);
/// The bits of a tag that hold the kind: 0 is [`Kind::Map`], the only one that they do not hold.
const KIND: u8 = 15;
const _: () = assert!(Kind::Map as u8 == KIND + 1);
/// Bytes of the first buffer of a thread.
const SMALLEST: usize = 1 << 10;

/// How the events of a block are stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    /// As in the ring.
    Plain,
    /// Packed.
    #[default]
    Packed,
}

/// Collects the events of a block.
#[derive(Default)]
pub struct Encoder {
    form: Form,
    out: Bytes,
    first: u64,
    tick: u64,
    address: u64,
    count: u32,
}

impl Encoder {
    /// An encoder of a first block in this form.
    pub fn new(form: Form) -> Encoder {
        Encoder { form, ..Encoder::default() }
    }

    /// Adds an event at its whole tick (that of the event to come, for [`Kind::Wide`]).
    #[inline]
    pub fn push(&mut self, kind: Kind, event: Packed, tick: u64) {
        if self.out.len == 0 {
            (self.first, self.tick) = (tick, tick);
        }
        self.count += u32::from(kind != Kind::Wide);
        self.out.make_room();
        match self.form {
            Form::Plain => self.out.plain(event),
            Form::Packed => self.pack(kind, event, tick),
        }
    }

    /// Adds events of the common kinds at once, whose ticks' upper bits are `epoch`. False, and nothing
    /// is done, where one is of another kind or the block is not plain.
    pub fn push_all(&mut self, events: &[Packed], epoch: u64) -> bool {
        let is_common = |event: &Packed| {
            event.kind().is_some_and(|k| k as u8 <= Kind::ReallocEnd as u8 || is_of_stacks(k))
        };
        if self.form != Form::Plain || !events.iter().all(is_common) {
            return false;
        }
        let timed = |event: &&Packed| event.kind().is_some_and(|kind| !is_of_stacks(kind));
        if self.out.len == 0 {
            let low = events.iter().find(timed).map_or(0, |first| first.low_tick());
            self.first = epoch << TICK_BITS | low;
        }
        self.count += events.iter().filter(timed).count() as u32;
        self.out.plain_all(events);
        true
    }

    /// Adds what is said of stacks, while ticks have these upper bits.
    pub fn untimed(&mut self, kind: Kind, said: Packed, epoch: u64) {
        if self.out.len == 0 {
            self.first = self.tick.max(epoch << TICK_BITS);
            self.tick = self.first;
        }
        self.out.make_room();
        match self.form {
            Form::Plain => self.out.plain(said),
            Form::Packed => {
                self.out.byte(kind as u8);
                self.out.leb(said.address());
                self.out.leb(said.slack());
                self.out.leb(said.1);
            }
        }
    }

    /// The upper bits of ticks change: whoever reads a plain block must know.
    pub fn clock(&mut self, event: Packed) {
        if self.form == Form::Plain && self.out.len > 0 {
            self.out.make_room();
            self.out.plain(event);
        }
    }

    #[inline]
    fn pack(&mut self, kind: Kind, event: Packed, tick: u64) {
        // The tag is written last, when the forms are known.
        let tag = self.out.len;
        self.out.len += 1;
        // A tick before the last one (a signal handler broke in) is moved to it.
        let time = tick.saturating_sub(self.tick);
        self.tick += time;
        let time_form = self.out.time(time);
        let address_form = match kind {
            Kind::Wide => {
                self.out.byte(event.wide_align_log2());
                self.out.leb(event.1);
                self.out.leb(event.wide_slack());
                0
            }
            Kind::ThreadEnd | Kind::Clock => 0,
            Kind::Free | Kind::ReallocBegin | Kind::ThreadStart | Kind::Map => {
                self.out.address(event.address(), &mut self.address)
            }
            _ => {
                let form = self.out.address(event.address(), &mut self.address);
                self.out.leb(event.size());
                self.out.leb(event.slack());
                form
            }
        };
        self.out.buffer[tag] = kind as u8 & KIND | time_form << 4 | address_form << 6;
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.out.len
    }

    /// The block: bytes, events and first tick.
    pub fn block(&self) -> (&[u8], u32, u64) {
        (&self.out.buffer[..self.out.len], self.count, self.first)
    }

    /// The form of the block.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Begins the next block.
    pub fn clear(&mut self, form: Form) {
        self.form = form;
        self.out.len = 0;
        self.count = 0;
        self.address = 0;
    }
}

/// Whether it says something of stacks.
#[inline]
fn is_of_stacks(kind: Kind) -> bool {
    matches!(kind, Kind::Stack | Kind::Data)
}

/// The packed bytes. Whole words are stored and the length moved by less, which is quicker than
/// storing exact lengths; so the buffer always has room for the longest event and a word more.
#[derive(Default)]
struct Bytes {
    buffer: Vec<u8>,
    len: usize,
}

impl Bytes {
    /// Room for one event.
    #[inline]
    fn make_room(&mut self) {
        if self.buffer.len() - self.len < LONGEST + 8 {
            self.grow();
        }
    }

    /// Twice as long: a thread that does little costs little.
    #[cold]
    fn grow(&mut self) {
        self.buffer.resize((2 * self.buffer.len()).max(SMALLEST), 0);
    }

    #[inline]
    fn word(&mut self, word: u64, bytes: usize) {
        self.buffer[self.len..self.len + 8].copy_from_slice(&word.to_le_bytes());
        self.len += bytes;
    }

    fn plain_all(&mut self, events: &[Packed]) {
        let bytes = size_of_val(events);
        while self.buffer.len() - self.len < bytes {
            self.grow();
        }
        let room = &mut self.buffer[self.len..self.len + bytes];
        for (to, event) in room.chunks_exact_mut(16).zip(events) {
            to[..8].copy_from_slice(&event.0.to_le_bytes());
            to[8..].copy_from_slice(&event.1.to_le_bytes());
        }
        self.len += bytes;
    }

    #[inline]
    fn plain(&mut self, event: Packed) {
        self.word(event.0, 8);
        self.word(event.1, 8);
    }

    fn byte(&mut self, byte: u8) {
        self.word(u64::from(byte), 1);
    }

    #[inline]
    fn time(&mut self, time: u64) -> u8 {
        let (form, bytes) = match time {
            0..=0xFF => (0, 1),
            0x100..=0xFFFF => (1, 2),
            0x1_0000..=0xFF_FFFF => (2, 3),
            _ => (3, 8),
        };
        self.word(time, bytes);
        form
    }

    #[inline]
    fn address(&mut self, address: u64, last: &mut u64) -> u8 {
        let distance = address.wrapping_sub(*last) as i64;
        *last = address;
        let units = distance >> 4;
        if distance == 0 {
            return 0;
        }
        if distance & 15 == 0 && units == i64::from(units as i16) {
            self.word(units as u64, 2);
            return 1;
        }
        if distance & 15 == 0 && (-(1 << 23)..1 << 23).contains(&units) {
            self.word(units as u64, 3);
            return 2;
        }
        self.word(address, 6);
        3
    }

    #[inline]
    fn leb(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.word(value & 0x7F | 0x80, 1);
            value >>= 7;
        }
        self.word(value, 1);
    }
}

/// An event of a plain block, with the Wide one before it.
#[inline(always)]
fn seen(kind: Kind, event: Packed, wide: Option<Packed>, tick: u64) -> Event {
    let has_size = kind.is_alloc() || matches!(kind, Kind::ReallocEnd | Kind::Access);
    let (size, slack) = if has_size { (event.size(), event.slack()) } else { (0, SLACK_UNKNOWN) };
    let slack = (slack != SLACK_UNKNOWN).then_some(slack);
    let (address, stack) = (event.address(), StackId::NONE);
    let plain = Event { tick, kind, address, size, slack, align_log2: 0, stack };
    let Some(wide) = wide else { return plain };
    let slack = Some(wide.wide_slack()).filter(|&slack| slack != WIDE_SLACK_UNKNOWN);
    Event { size: wide.1, slack, align_log2: wide.wide_align_log2(), ..plain }
}

/// Bytes of zero that follow a block in the decoder's buffer, so that whole words can be read to its
/// very end.
pub const PADDING: usize = 64;
const _: () = assert!(PADDING >= LONGEST + 8);

/// Masks for the low bytes of a word.
const LOW_BYTES: [u64; 9] = [
    0,
    0xFF,
    0xFFFF,
    0xFF_FFFF,
    0xFFFF_FFFF,
    0xFF_FFFF_FFFF,
    0xFFFF_FFFF_FFFF,
    0xFF_FFFF_FFFF_FFFF,
    u64::MAX,
];

/// Unpacks a block.
#[derive(Clone)]
pub struct Decoder {
    form: Form,
    at: usize,
    tick: u64,
    address: u64,
}

impl Decoder {
    /// At the beginning of a block of this form whose head names `first`.
    pub fn new(form: Form, first: u64) -> Decoder {
        Decoder { form, at: 0, tick: first, address: 0 }
    }

    /// The next event of the block, [`Kind::Wide`] ones merged into those that follow. None at the
    /// end of the block, and where its bytes make no sense (a checksum stands before that). `padded`
    /// is the block and [`PADDING`] bytes more.
    #[inline(always)]
    pub fn next(&mut self, padded: &[u8], hears: &mut impl Hears) -> Option<Event> {
        match self.form {
            Form::Plain => self.next_plain(padded, hears),
            Form::Packed => self.next_packed(padded, hears),
        }
    }

    #[inline(always)]
    fn next_plain(&mut self, padded: &[u8], hears: &mut impl Hears) -> Option<Event> {
        let end = padded.len().checked_sub(PADDING)?;
        let mut wide = None;
        while self.at < end {
            let event = Packed(self.word(padded, 8)?, self.word(padded, 8)?);
            let kind = event.kind()?;
            match kind {
                Kind::Wide => wide = Some(event),
                Kind::Stack | Kind::Data => hears.hear(kind, event),
                // Only the epoch: an event's own tick never steps back behind the one before it.
                Kind::Clock => self.tick = self.tick.max(event.1 >> TICK_BITS << TICK_BITS),
                _ => {
                    let tick = self.tick >> TICK_BITS << TICK_BITS | event.low_tick();
                    self.tick = self.tick.max(tick);
                    return Some(seen(kind, event, wide, self.tick));
                }
            }
        }
        None
    }

    #[inline(always)]
    fn next_packed(&mut self, padded: &[u8], hears: &mut impl Hears) -> Option<Event> {
        let end = padded.len().checked_sub(PADDING)?;
        let mut wide = None;
        while self.at < end {
            let tag = padded[self.at];
            self.at += 1;
            let kind = match tag & KIND {
                0 => Kind::Map,
                number => Kind::from_number(number)?,
            };
            if is_of_stacks(kind) {
                let said = self.said(kind, padded)?;
                hears.hear(kind, said);
                continue;
            }
            let time = self.word(padded, [1, 2, 3, 8][usize::from(tag >> 4 & 3)])?;
            self.tick = self.tick.wrapping_add(time);
            if kind == Kind::Wide {
                wide = Some(self.wide(padded)?);
                continue;
            }
            let (tick, stack) = (self.tick, StackId::NONE);
            let mut event =
                Event { tick, kind, address: 0, size: 0, slack: None, align_log2: 0, stack };
            if !matches!(kind, Kind::ThreadEnd | Kind::Clock) {
                event.address = self.address(padded, tag >> 6)?;
            }
            if kind.is_alloc() || matches!(kind, Kind::ReallocEnd | Kind::Access) {
                event.size = self.leb(padded)?;
                let slack = self.leb(padded)?;
                event.slack = (slack != SLACK_UNKNOWN).then_some(slack);
            }
            if let Some((size, slack, align_log2)) = wide {
                event = Event { size, slack, align_log2, ..event };
            }
            return (self.at <= end).then_some(event);
        }
        None
    }

    /// What is said of stacks.
    fn said(&mut self, kind: Kind, padded: &[u8]) -> Option<Packed> {
        let (field, slack, word) = (self.leb(padded)?, self.leb(padded)?, self.leb(padded)?);
        Some(Packed(Packed::new(kind, field, slack, 0, 0).0, word))
    }

    /// Size, slack and alignment of the event that follows.
    #[cold]
    fn wide(&mut self, padded: &[u8]) -> Option<(u64, Option<u64>, u8)> {
        let align_log2 = self.word(padded, 1)? as u8;
        let (size, slack) = (self.leb(padded)?, self.leb(padded)?);
        Some((size, (slack != WIDE_SLACK_UNKNOWN).then_some(slack), align_log2))
    }

    #[inline(always)]
    fn word(&mut self, padded: &[u8], bytes: usize) -> Option<u64> {
        let word = padded.get(self.at..self.at + 8)?.try_into().map(u64::from_le_bytes).ok()?;
        self.at += bytes;
        Some(word & LOW_BYTES[bytes])
    }

    #[inline(always)]
    fn address(&mut self, padded: &[u8], form: u8) -> Option<u64> {
        self.address = match form {
            0 => self.address,
            1 => {
                let units = self.word(padded, 2)? as i16;
                self.far(i64::from(units))
            }
            2 => {
                let units = self.word(padded, 3)? << 40;
                self.far(units as i64 >> 40)
            }
            _ => self.word(padded, 6)?,
        };
        Some(self.address)
    }

    fn far(&self, units: i64) -> u64 {
        self.address.wrapping_add_signed(units << 4)
    }

    #[inline(always)]
    fn leb(&mut self, padded: &[u8]) -> Option<u64> {
        let byte = *padded.get(self.at)?;
        if byte < 0x80 {
            self.at += 1;
            return Some(byte.into());
        }
        self.leb_long(padded)
    }

    #[inline(never)]
    fn leb_long(&mut self, padded: &[u8]) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *padded.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}
