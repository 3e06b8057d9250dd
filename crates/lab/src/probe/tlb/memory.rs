//! Buffers whose pages are small, or huge as far as the kernel gives them.

use std::io;
use std::ptr::{self, NonNull};

/// Huge pages begin at multiples of this.
const HUGE: usize = 2 << 20;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No memory.
    #[error("a buffer of {bytes} bytes cannot be had: {source}; a lower --most needs less")]
    Memory {
        /// Its length.
        bytes: usize,
        /// What the system said.
        source: io::Error,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

/// Zeroed memory, every page of it touched; given back when dropped.
pub struct Buffer {
    mapped: NonNull<u8>,
    mapped_len: usize,
    start: NonNull<u64>,
    bytes: usize,
}

impl Buffer {
    /// `bytes` bytes (a multiple of 8) from a huge page's boundary on, with or without the wish for
    /// huge pages.
    pub fn new(bytes: usize, huge: bool) -> Result<Buffer, ProbeError> {
        let mapped_len = bytes.next_multiple_of(HUGE) + HUGE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let found = unsafe { libc::mmap(ptr::null_mut(), mapped_len, access, flags, -1, 0) };
        let mapped = NonNull::new(found.cast::<u8>()).filter(|_| found != libc::MAP_FAILED);
        let mapped = mapped
            .ok_or_else(|| ProbeError::Memory { bytes, source: io::Error::last_os_error() })?;
        let ahead = mapped.addr().get().next_multiple_of(HUGE) - mapped.addr().get();
        // SAFETY: less than a huge page ahead, within the mapping, which is one longer than needed.
        let start = unsafe { mapped.add(ahead) };
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // A kernel without huge pages refuses; what was really given is looked up in `huge_share`.
        // SAFETY: pages of our own mapping; the advice changes no content.
        unsafe { libc::madvise(start.as_ptr().cast(), bytes.next_multiple_of(HUGE), advice) };
        let mut buffer = Buffer { mapped, mapped_len, start: start.cast(), bytes };
        buffer.words().iter_mut().step_by(512).for_each(|word| *word = 1);
        Ok(buffer)
    }

    /// The memory.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: `bytes` bytes from `start` on are ours, mapped, zeroed by the kernel, aligned to
        // 2 MiB, and borrowed as `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes / 8) }
    }

    /// The share of the buffer that lies on huge pages, as /proc/self/smaps says; 0 where it does not.
    pub fn huge_share(&self) -> f64 {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        (huge_bytes(&text, self.start.addr().get()) as f64 / self.bytes as f64).min(1.0)
    }
}

/// `AnonHugePages` of the mapping that holds `address`, in bytes.
fn huge_bytes(smaps: &str, address: usize) -> usize {
    let mut is_ours = false;
    for line in smaps.lines() {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let ends = range.and_then(|(from, to)| {
            Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
        });
        if let Some((from, to)) = ends {
            is_ours = (from..to).contains(&address);
        } else if is_ours && let Some(size) = line.strip_prefix("AnonHugePages:") {
            let kib = size.trim().trim_end_matches("kB").trim();
            return kib.parse::<usize>().unwrap_or(0) << 10;
        }
    }
    0
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, whole; nothing borrows it any more.
        unsafe { libc::munmap(self.mapped.as_ptr().cast(), self.mapped_len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_read_off_the_right_mapping() {
        let smaps = "7f00-7f80 rw-p 00000000 00:00 0 \nSize: 4 kB\nAnonHugePages:      0 kB\n\
                     8000-9000 rw-p 00000000 00:00 0 \nRss: 9 kB\nAnonHugePages:   2048 kB\n";
        assert_eq!(huge_bytes(smaps, 0x8800), 2 << 20);
        assert_eq!(huge_bytes(smaps, 0x7f10), 0);
        assert_eq!(huge_bytes(smaps, 0x1), 0);
    }

    #[test]
    fn a_buffer_begins_on_a_huge_page_and_holds_zeroes_but_for_its_touches() {
        let mut buffer = Buffer::new(3 << 20, true).unwrap();
        let words = buffer.words();
        assert_eq!((words.len(), words.as_ptr() as usize % HUGE), ((3 << 20) / 8, 0));
        assert_eq!((words[0], words[1], words[512]), (1, 0, 1));
        assert!((0.0..=1.0).contains(&buffer.huge_share()));
    }
}
