//! Which build a module in memory is: the number that its linker wrote into a note (`NT_GNU_BUILD_ID`).
//!
//! All is read through `/proc/self/mem`: a module that another thread closes meanwhile is a read that fails, not a fault.

use core::ffi::CStr;

/// Longest build id that is kept, in bytes. (SHA-1 has 20.)
const MOST: usize = 32;
const MEMORY: &CStr = c"/proc/self/mem";
/// Most program headers and most bytes of notes that are looked at.
const HEADERS: usize = 32;
const NOTES: usize = 1024;

/// The process's own memory, as a file.
pub(super) struct Memory(libc::c_int);

impl Memory {
    /// Opens it; where that is forbidden, nothing can be read.
    pub fn open() -> Memory {
        // SAFETY: the name is a C string.
        Memory(unsafe { libc::open(MEMORY.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) })
    }

    /// Reads a value of numbers.
    fn read<T: Copy>(&self, address: usize, value: &mut T) -> bool {
        let len = size_of::<T>();
        // SAFETY: the place is ours and that long, and the types that are read are made of integers.
        let got =
            unsafe { libc::pread(self.0, (&raw mut *value).cast(), len, address as libc::off_t) };
        got == len as isize
    }

    /// The build id of the module whose file begins at `start` in memory, in hexadecimal digits.
    pub fn build_id(&self, start: usize) -> Option<Digits> {
        // SAFETY: zero is a value of integers.
        let mut head: libc::Elf64_Ehdr = unsafe { core::mem::zeroed() };
        if !self.read(start, &mut head) || head.e_ident.get(..4)? != b"\x7fELF" {
            return None;
        }
        let headers = start.wrapping_add(head.e_phoff as usize);
        (0..usize::from(head.e_phnum).min(HEADERS)).find_map(|number| {
            // SAFETY: as above.
            let mut header: libc::Elf64_Phdr = unsafe { core::mem::zeroed() };
            let at = headers.wrapping_add(number * size_of::<libc::Elf64_Phdr>());
            if !self.read(at, &mut header) || header.p_type != libc::PT_NOTE {
                return None;
            }
            // Notes lie in what is loaded from the file's beginning.
            let mut notes = [0; NOTES];
            let len = (header.p_filesz as usize).min(NOTES);
            let at = start.wrapping_add(header.p_offset as usize);
            self.read_some(at, notes.get_mut(..len)?).then(|| find(&notes))?
        })
    }

    fn read_some(&self, address: usize, bytes: &mut [u8]) -> bool {
        // SAFETY: the bytes are ours.
        let got = unsafe {
            libc::pread(self.0, bytes.as_mut_ptr().cast(), bytes.len(), address as libc::off_t)
        };
        got == bytes.len() as isize
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours, or none.
        unsafe { libc::close(self.0) };
    }
}

/// Hexadecimal digits.
pub(super) struct Digits {
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

    #[test]
    fn memory_that_is_not_there_is_no_module() {
        let memory = Memory::open();
        assert!(memory.build_id(0).is_none());
        assert!(memory.build_id(usize::MAX - 7).is_none());
        let no_module = [0u8; 4096];
        assert!(memory.build_id(no_module.as_ptr().addr()).is_none());
    }
}
