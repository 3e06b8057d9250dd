//! Lines of a pipe, waited for no longer than a while.
//!
//! The thread that wants a line reads it itself. A thread that read for it and handed lines on would have to
//! be woken, and then wake the other: an idle virtual processor wakes a thread milliseconds late, more than
//! most of what is measured takes.

use std::io::{ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// The lines of `pipe`.
pub struct Lines<R> {
    pipe: R,
    /// Read, but not asked for yet: the beginning of a line, or more.
    pending: Vec<u8>,
}

impl<R: Read + AsRawFd> Lines<R> {
    /// Of a pipe.
    pub fn of(pipe: R) -> Lines<R> {
        Lines { pipe, pending: Vec::new() }
    }

    /// The next line, without its end; `None` when it has not come whole after `patience`, when there are no
    /// more, or when it is no text.
    pub fn next_within(&mut self, patience: Duration) -> Option<String> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(end) = self.pending.iter().position(|&byte| byte == b'\n') {
                let line = self.pending.drain(..=end).take(end).collect();
                return String::from_utf8(line).ok();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            if !self.is_readable(left) {
                continue;
            }
            let mut part = [0; 4096];
            match self.pipe.read(&mut part) {
                Ok(0) => return None,
                Ok(count) => self.pending.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Whether there is something to read, or the end; waits for it so long, or until a signal comes.
    fn is_readable(&self, wait: Duration) -> bool {
        let fd = self.pipe.as_raw_fd();
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // Rounded up, or the last millisecond would be waited awake.
        let ms = wait.as_millis().saturating_add(1).min(i32::MAX as u128) as i32;
        // SAFETY: one valid structure, and its number is 1.
        unsafe { libc::poll(&mut poll, 1, ms) > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Write, pipe};

    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn lines_come_whole_and_in_order_however_they_were_written() {
        let (read, mut write) = pipe().unwrap();
        let mut lines = Lines::of(read);
        write.write_all(b"one\ntwo\nth").unwrap();
        assert_eq!(lines.next_within(LONG).as_deref(), Some("one"));
        assert_eq!(lines.next_within(LONG).as_deref(), Some("two"));
        assert_eq!(lines.next_within(Duration::from_millis(2)), None, "half a line is none");
        write.write_all(&[b"ree\n", [b'x'; 10_000].as_slice(), b"\n"].concat()).unwrap();
        assert_eq!(lines.next_within(LONG).as_deref(), Some("three"));
        assert_eq!(lines.next_within(LONG).map(|line| line.len()), Some(10_000));
        drop(write);
        assert_eq!(lines.next_within(LONG), None, "the end is not waited for");
    }
}
