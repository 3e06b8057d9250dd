//! A module's tables: `.eh_frame_hdr` finds the description (FDE) of a function by binary search, `.eh_frame` holds it.
//!
//! Invariant: nothing outside of the module's mapping is read, and what contradicts itself is no description.

use super::cfi::{self, Bytes, Program};
use super::rule::{Rule, Special};

/// A module's memory, and where its `.eh_frame_hdr` begins.
#[derive(Clone, Copy)]
pub struct Tables<'a> {
    /// Everything from the module's first mapped byte to its last.
    pub memory: &'a [u8],
    /// The address of the first byte.
    pub start: u64,
    /// The address of `.eh_frame_hdr`.
    pub header: u64,
}

/// Encodings of pointers: the low four bits are the format, the next three what it is relative to.
const ABSENT: u8 = 0xff;
const RELATIVE_TO_PLACE: u8 = 0x10;
const RELATIVE_TO_HEADER: u8 = 0x30;
/// What linkers write: four signed bytes, relative to the header.
const SORTED_TABLE: u8 = 0x3b;
/// Descriptions looked at one by one where there is no sorted table.
const MOST_SCANNED: usize = 1 << 16;

impl<'a> Tables<'a> {
    /// The rule at `pc`; [`Rule::Untold`] where no description holds it.
    pub fn rule_at(&self, pc: u64) -> (Rule, Option<Special>) {
        let Some(found) = self.find(pc) else { return (Rule::Untold, None) };
        match self.program(found) {
            Some((program, end)) if pc >= program.begin && pc < end => cfi::rule_at(&program, pc),
            _ => (Rule::Untold, None),
        }
    }

    fn from(&self, address: u64) -> Option<Bytes<'a>> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        Some(Bytes::new(self.memory.get(offset..)?))
    }

    /// Where a reader stands that was made by [`Tables::from`] and not cut.
    fn address(&self, bytes: &Bytes<'_>) -> u64 {
        self.start + (self.memory.len() - bytes.len()) as u64
    }

    fn pointer(&self, bytes: &mut Bytes<'a>, encoding: u8) -> Option<u64> {
        let base = match encoding & 0x70 {
            0 => 0,
            RELATIVE_TO_PLACE => self.address(bytes),
            RELATIVE_TO_HEADER => self.header,
            _ => return None,
        };
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => bytes.number::<8>()?,
            0x01 => bytes.uleb()?,
            0x02 => bytes.number::<2>()?,
            0x03 => bytes.number::<4>()?,
            0x09 => bytes.sleb()? as u64,
            0x0a => i64::from(bytes.number::<2>()? as i16) as u64,
            0x0b => i64::from(bytes.number::<4>()? as i32) as u64,
            _ => return None,
        };
        Some(base.wrapping_add(value))
    }

    /// The address of the description that may hold `pc`.
    fn find(&self, pc: u64) -> Option<u64> {
        let mut bytes = self.from(self.header)?;
        let [version, of_frame, of_count, of_table] = *bytes.take(4)? else { return None };
        if version != 1 {
            return None;
        }
        let frame = self.pointer(&mut bytes, of_frame)?;
        if of_count == ABSENT || of_table != SORTED_TABLE {
            return self.scan(frame, pc);
        }
        let count = usize::try_from(self.pointer(&mut bytes, of_count)?).ok()?;
        let table = bytes.rest().get(..count.checked_mul(8)?)?;
        let word = |at: usize| -> Option<u64> {
            let offset = Bytes::new(table.get(at..at + 4)?).number::<4>()? as i32;
            Some(self.header.wrapping_add_signed(offset.into()))
        };
        // The last entry that begins at or before the address.
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = (low + high) / 2;
            if word(middle * 8)? <= pc { low = middle + 1 } else { high = middle }
        }
        word(low.checked_sub(1)? * 8 + 4)
    }

    /// Looks at one description after the other.
    fn scan(&self, frame: u64, pc: u64) -> Option<u64> {
        let mut at = frame;
        for _ in 0..MOST_SCANNED {
            let mut bytes = self.from(at)?;
            let (len, wide) = length(&mut bytes)?;
            if len == 0 {
                return None;
            }
            if let Some((program, end)) = self.program(at)
                && pc >= program.begin
                && pc < end
            {
                return Some(at);
            }
            at = at.checked_add(len)?.checked_add(if wide { 12 } else { 4 })?;
        }
        None
    }

    /// The description at that address, and the end of its function.
    fn program(&self, fde: u64) -> Option<(Program<'a>, u64)> {
        let mut bytes = self.from(fde)?;
        let (len, wide) = length(&mut bytes)?;
        if wide {
            return None;
        }
        let place = self.address(&bytes);
        let rest = bytes.len();
        let back = bytes.number::<4>()?;
        if back == 0 {
            return None; // a CIE
        }
        let cie = self.cie(place.checked_sub(back)?)?;
        let begin = self.pointer(&mut bytes, cie.pointers)?;
        let size = self.pointer(&mut bytes, cie.pointers & 0x0f)?;
        if cie.augmented {
            let skip = usize::try_from(bytes.uleb()?).ok()?;
            bytes.take(skip)?;
        }
        let used = rest - bytes.len();
        let own = bytes.take(usize::try_from(len).ok()?.checked_sub(used)?)?;
        let Cie { code_align, data_align, initial, signal, .. } = cie;
        let program = Program { code_align, data_align, initial, own, begin, signal };
        Some((program, begin.checked_add(size)?))
    }

    fn cie(&self, at: u64) -> Option<Cie<'a>> {
        let mut bytes = self.from(at)?;
        let (len, wide) = length(&mut bytes)?;
        let rest = bytes.len();
        if wide || bytes.number::<4>()? != 0 {
            return None;
        }
        let version = bytes.byte()?;
        let text = bytes.rest();
        let augmentation = text.get(..text.iter().take(16).position(|&byte| byte == 0)?)?;
        bytes.take(augmentation.len() + 1)?;
        let (code_align, data_align) = (bytes.uleb()?, bytes.sleb()?);
        let return_register = if version == 1 { u64::from(bytes.byte()?) } else { bytes.uleb()? };
        let mut cie = Cie {
            code_align,
            data_align,
            initial: &[],
            pointers: 0,
            augmented: augmentation.first() == Some(&b'z'),
            signal: false,
        };
        if !matches!(version, 1 | 3) || return_register != 16 {
            return None;
        }
        if !cie.augmented && !augmentation.is_empty() {
            return None;
        }
        if cie.augmented {
            let size = usize::try_from(bytes.uleb()?).ok()?;
            let mut data = bytes;
            bytes.take(size)?;
            for letter in augmentation.iter().skip(1) {
                match letter {
                    b'R' => cie.pointers = data.byte()?,
                    b'P' => {
                        let encoding = data.byte()?;
                        // Where it points does not matter, only how long it is.
                        self.pointer(&mut data, encoding & 0x0f)?;
                    }
                    b'L' => {
                        data.byte()?;
                    }
                    b'S' => cie.signal = true,
                    _ => return None,
                }
            }
        }
        let used = rest - bytes.len();
        cie.initial = bytes.take(usize::try_from(len).ok()?.checked_sub(used)?)?;
        Some(cie)
    }
}

/// What descriptions have in common.
struct Cie<'a> {
    code_align: u64,
    data_align: i64,
    initial: &'a [u8],
    /// How pointers are encoded.
    pointers: u8,
    /// The description holds more data, with its length before it.
    augmented: bool,
    signal: bool,
}

/// The length of a record, and whether it is the long form.
fn length(bytes: &mut Bytes<'_>) -> Option<(u64, bool)> {
    match bytes.number::<4>()? {
        0xffff_ffff => Some((bytes.number::<8>()?, true)),
        len => Some((len, false)),
    }
}
