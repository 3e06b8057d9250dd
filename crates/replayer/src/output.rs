//! What the replayer prints: lines of `name value…` on standard output, without stdio.

use core::fmt::{self, Write};

/// A buffer in front of standard output. Dropping it writes the rest.
pub struct Output {
    bytes: [u8; 4096],
    used: usize,
}

impl Output {
    /// An empty buffer.
    pub fn new() -> Output {
        Output { bytes: [0; 4096], used: 0 }
    }

    /// One line.
    pub fn line(&mut self, what: fmt::Arguments) {
        // Writing into the buffer cannot fail; see `write_str`.
        let _ = writeln!(self, "{what}");
    }

    fn flush(&mut self) {
        let mut from = 0;
        while from < self.used {
            let rest = &self.bytes[from..self.used];
            // SAFETY: the pointer and length are those of a live slice.
            let wrote = unsafe { libc::write(1, rest.as_ptr().cast(), rest.len()) };
            if wrote <= 0 {
                break; // Nobody reads any more: the parent sees an answer without its last line.
            }
            from += wrote as usize;
        }
        self.used = 0;
    }
}

impl Write for Output {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for piece in text.as_bytes().chunks(self.bytes.len()) {
            if self.used + piece.len() > self.bytes.len() {
                self.flush();
            }
            self.bytes[self.used..self.used + piece.len()].copy_from_slice(piece);
            self.used += piece.len();
        }
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.flush();
    }
}
