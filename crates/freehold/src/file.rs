//! Files that the library writes by itself: a whole file, or none.

use crate::off_heap::Zeroed;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use freehold_core::stats::Out;
use freehold_os::thread::process;

/// Longest name of a file, with its end.
const PATH_MAX: usize = 4096;

/// A file name that options gave; at most one thread sets it, before anyone reads.
pub(crate) struct PathOption {
    text: AtomicUsize,
    len: AtomicUsize,
    /// The process that set it.
    pid: AtomicU32,
}

impl PathOption {
    pub const fn new() -> PathOption {
        PathOption { text: AtomicUsize::new(0), len: AtomicUsize::new(0), pid: AtomicU32::new(0) }
    }

    /// Keeps a copy; `false` if the name is empty or too long.
    pub fn set(&self, name: &[u8]) -> bool {
        if name.is_empty() || name.len() > PATH_MAX - 16 {
            return false;
        }
        let Some(copy) = crate::off_heap::map::<Byte>(name.len()) else { return false };
        for (to, from) in copy.iter_mut().zip(name) {
            to.0 = *from;
        }
        self.len.store(name.len(), Ordering::Relaxed);
        self.pid.store(process(), Ordering::Relaxed);
        self.text.store(copy.as_ptr().expose_provenance(), Ordering::Release);
        true
    }

    pub fn text(&self) -> Option<&'static [u8]> {
        let text: *const u8 = core::ptr::with_exposed_provenance(self.text.load(Ordering::Acquire));
        // SAFETY: `set` made a copy that lives for ever.
        (!text.is_null())
            .then(|| unsafe { core::slice::from_raw_parts(text, self.len.load(Ordering::Relaxed)) })
    }

    /// The name for this process, with a zero at its end: `None` if there is none, or if it is a
    /// forked child's turn and the name has no place for its number.
    pub fn for_this_process(&self) -> Option<[u8; PATH_MAX]> {
        let text = self.text()?;
        let pid = process();
        let has_place = text.windows(2).any(|pair| pair == b"%p");
        if pid != self.pid.load(Ordering::Relaxed) && !has_place {
            return None;
        }
        let mut path = [0; PATH_MAX];
        let mut free = path.iter_mut();
        let mut rest = text;
        while let [first, after @ ..] = rest {
            match after {
                [b'p', after @ ..] if *first == b'%' => {
                    put_decimal(&mut free, pid);
                    rest = after;
                }
                _ => {
                    *free.next()? = *first;
                    rest = after;
                }
            }
        }
        // The zero at the end.
        free.next().is_some().then_some(path)
    }
}

#[derive(Clone, Copy)]
#[repr(transparent)]
struct Byte(u8);

// SAFETY: a number.
unsafe impl Zeroed for Byte {}

fn put_decimal<'a>(to: &mut impl Iterator<Item = &'a mut u8>, value: u32) {
    let mut power = 1_000_000_000;
    while power > 1 && value < power {
        power /= 10;
    }
    while power > 0 {
        if let Some(place) = to.next() {
            *place = b'0' + (value / power % 10) as u8;
        }
        power /= 10;
    }
}

/// A file that is being written: beside its final name, and renamed when it is whole.
pub(crate) struct File {
    descriptor: libc::c_int,
    failed: bool,
    buffer: [u8; 4096],
    len: usize,
}

impl File {
    fn flush(&mut self) {
        let mut rest = self.buffer.get(..self.len).unwrap_or(&[]);
        while !rest.is_empty() && !self.failed {
            // SAFETY: writes bytes of ours.
            let wrote = unsafe { libc::write(self.descriptor, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(wrote) {
                Ok(wrote) if wrote > 0 => rest = rest.get(wrote..).unwrap_or(&[]),
                // SAFETY: every thread has an errno.
                _ => self.failed = unsafe { *libc::__errno_location() } != libc::EINTR,
            }
        }
        self.len = 0;
    }
}

impl Out for File {
    #[inline(never)]
    fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.len == self.buffer.len() {
                self.flush();
            }
            if let Some(place) = self.buffer.get_mut(self.len) {
                *place = byte;
                self.len += 1;
            }
        }
    }
}

/// Writes to an open descriptor what `work` puts; `false` when it could not be written.
pub(crate) fn write_to(descriptor: libc::c_int, work: impl FnOnce(&mut File)) -> bool {
    let mut file = File { descriptor, failed: false, buffer: [0; 4096], len: 0 };
    work(&mut file);
    file.flush();
    !file.failed
}

/// Writes a whole file, or none. What is no file (a pipe, a terminal, `/dev/null`) is written to as it stands: it must not be
/// replaced by one. `path` ends with a zero.
pub(crate) fn write_file(path: &[u8], work: impl FnOnce(&mut File)) -> bool {
    match is_special(path) {
        true => write_special(path, work),
        false => write_regular(path, work),
    }
}

fn is_special(path: &[u8]) -> bool {
    let mut found = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path is a C string; the kernel writes the structure, which is valid when zero.
    unsafe {
        libc::stat(path.as_ptr().cast(), found.as_mut_ptr()) == 0
            && found.assume_init().st_mode & libc::S_IFMT != libc::S_IFREG
    }
}

fn write_special(path: &[u8], work: impl FnOnce(&mut File)) -> bool {
    // A pipe that nobody reads is refused: the program shall end.
    const FLAGS: libc::c_int = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    // SAFETY: the path is a C string, and the descriptor ours.
    unsafe {
        let descriptor = libc::open(path.as_ptr().cast(), FLAGS);
        if descriptor < 0 || libc::fcntl(descriptor, libc::F_SETFL, 0) != 0 {
            return false;
        }
        let whole = write_to(descriptor, work);
        libc::close(descriptor) == 0 && whole
    }
}

fn write_regular(path: &[u8], work: impl FnOnce(&mut File)) -> bool {
    let mut beside = [0; PATH_MAX + 8];
    let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
    let name = path.get(..end).unwrap_or(path).iter().chain(b".part");
    for (to, from) in beside.iter_mut().take(PATH_MAX + 7).zip(name) {
        *to = *from;
    }
    const FLAGS: libc::c_int = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
    // SAFETY: both names are C strings.
    unsafe {
        let descriptor = libc::open(beside.as_ptr().cast(), FLAGS, 0o644);
        if descriptor < 0 {
            return false;
        }
        let whole = write_to(descriptor, work);
        let closed = libc::close(descriptor) == 0;
        let done =
            whole && closed && libc::rename(beside.as_ptr().cast(), path.as_ptr().cast()) == 0;
        if !done {
            libc::unlink(beside.as_ptr().cast());
        }
        done
    }
}
