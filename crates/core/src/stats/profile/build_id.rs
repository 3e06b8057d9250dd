//! Which build a module in memory is: the number that its linker wrote into a note (`NT_GNU_BUILD_ID`).

use crate::malloc::census::Peek;

/// Longest build id that is kept, in bytes. (SHA-1 has 20.)
const MOST: usize = 32;
/// Most program headers and most bytes of notes that are looked at.
const HEADERS: usize = 32;
const NOTES: usize = 1024;
/// Bytes of the head of an ELF file of 64 bits, and of a program header; the type of one that has notes.
const HEAD: usize = 64;
const HEADER: usize = 56;
const PT_NOTE: u64 = 4;

/// The build id of the module whose file begins at `start` in memory, in hexadecimal digits.
pub fn build_id(memory: &impl Peek, start: usize) -> Option<Digits> {
    let mut head = [0; HEAD];
    if !memory.peek(start, &mut head) || head.get(..4)? != b"\x7fELF" {
        return None;
    }
    let headers = start.wrapping_add(number(&head, 32, 8)? as usize);
    (0..(number(&head, 56, 2)? as usize).min(HEADERS)).find_map(|which| {
        let mut header = [0; HEADER];
        let at = headers.wrapping_add(which * HEADER);
        if !memory.peek(at, &mut header) || number(&header, 0, 4)? != PT_NOTE {
            return None;
        }
        // Notes lie in what is loaded from the file's beginning.
        let mut notes = [0; NOTES];
        let len = (number(&header, 32, 8)? as usize).min(NOTES);
        let at = start.wrapping_add(number(&header, 8, 8)? as usize);
        memory.peek(at, notes.get_mut(..len)?).then(|| find(&notes))?
    })
}

/// The number of so many bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + len)?;
    Some(bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// Hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    digits: [u8; 2 * MOST],
    len: usize,
}

impl Digits {
    fn of(bytes: &[u8]) -> Option<Digits> {
        let mut digits = [0; 2 * MOST];
        let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        for (place, half) in digits.iter_mut().zip(halves) {
            *place = b"0123456789abcdef".get(usize::from(half)).copied()?;
        }
        (bytes.len() <= MOST).then_some(Digits { digits, len: 2 * bytes.len() })
    }

    /// The digits.
    pub fn as_bytes(&self) -> &[u8] {
        self.digits.get(..self.len).unwrap_or(&[])
    }
}

/// The build id among notes: each is the lengths of its name and of its text, its type, and both, rounded up to 4.
fn find(mut notes: &[u8]) -> Option<Digits> {
    const GNU_BUILD_ID: usize = 3;
    loop {
        let number = |at: usize| -> Option<usize> {
            let bytes = notes.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_ne_bytes(bytes) as usize)
        };
        let (name, text, kind) = (number(0)?, number(4)?, number(8)?);
        let text_at = 12 + name.checked_next_multiple_of(4)?;
        let bytes = notes.get(text_at..text_at.checked_add(text)?)?;
        if kind == GNU_BUILD_ID && notes.get(12..12 + name) == Some(b"GNU\0") {
            return Digits::of(bytes);
        }
        notes = notes.get(text_at + text.checked_next_multiple_of(4)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A note with a name of four bytes, in `N` bytes.
    fn note<const N: usize>(name: [u8; 4], kind: u32, text: &[u8]) -> [u8; N] {
        let mut note = [0; N];
        note[..4].copy_from_slice(&4u32.to_ne_bytes());
        note[4..8].copy_from_slice(&(text.len() as u32).to_ne_bytes());
        note[8..12].copy_from_slice(&kind.to_ne_bytes());
        note[12..16].copy_from_slice(&name);
        note[16..16 + text.len()].copy_from_slice(text);
        note
    }

    #[test]
    fn a_build_id_is_found_among_notes() {
        let mut notes = [0; 72];
        notes[..32].copy_from_slice(&note::<32>(*b"abc\0", 3, &[1; 13]));
        notes[32..52].copy_from_slice(&note::<20>(*b"GNU\0", 1, &[7; 4]));
        assert!(find(&notes).is_none());
        notes[52..].copy_from_slice(&note::<20>(*b"GNU\0", 3, &[0x0a, 0xff]));
        assert_eq!(find(&notes).expect("the third").as_bytes(), b"0aff");
    }

    #[test]
    fn damaged_notes_have_no_build_id() {
        assert!(find(&note::<52>(*b"GNU\0", 3, &[9; 33])).is_none(), "too long");
        let whole = note::<36>(*b"GNU\0", 3, &[9; 20]);
        assert!(find(&whole).is_some());
        for len in 0..whole.len() {
            assert!(find(&whole[..len]).is_none(), "{len} bytes");
        }
        assert!(find(&[0xff; 64]).is_none(), "longer than there is memory");
    }

    /// Memory that begins at 0x1000.
    struct Bytes([u8; 256]);

    impl Peek for Bytes {
        fn peek(&self, address: usize, into: &mut [u8]) -> bool {
            let from = address.checked_sub(0x1000);
            let bytes = from.and_then(|from| self.0.get(from..from.checked_add(into.len())?));
            bytes.map(|bytes| into.copy_from_slice(bytes)).is_some()
        }
    }

    #[test]
    fn the_notes_of_a_module_are_where_its_headers_say() {
        let mut module = Bytes([0; 256]);
        let mut put = |at: usize, value: u64, len: usize| {
            module.0[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
        };
        put(32, 64, 8);
        put(56, 2, 2);
        put(64, 1, 4);
        put(120, PT_NOTE, 4);
        put(120 + 8, 200, 8);
        put(120 + 32, 20, 8);
        module.0[..4].copy_from_slice(b"\x7fELF");
        module.0[200..220].copy_from_slice(&note::<20>(*b"GNU\0", 3, &[0x0a, 0xff]));
        assert_eq!(build_id(&module, 0x1000).expect("a note").as_bytes(), b"0aff");
        assert!(build_id(&module, 0).is_none());
        assert!(build_id(&module, usize::MAX - 7).is_none());
        module.0[0] = 0;
        assert!(build_id(&module, 0x1000).is_none(), "no module");
    }
}
