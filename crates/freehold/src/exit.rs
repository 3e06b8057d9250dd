//! Files written when the program ends: statistics (`FREEHOLD_REPORT`) and the profile
//! (`FREEHOLD_PROFILE`).
//!
//! A function in `.fini_array`: it costs nothing before, and runs when `main` returns or `exit` is
//! called; not when the program is killed, aborts or calls `_exit`. In file names `%p` is the process's number,
//! so that forked children, which write only then, do not overwrite each other's files.

use crate::off_heap::Zeroed;
use crate::process::HEAP;
use crate::stats::{Format, Stats};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use freehold_core::stats::Out;

/// Longest name of a file, with its end.
const PATH_MAX: usize = 4096;

/// A file name that options gave; at most one thread sets it, before anyone reads.
pub(crate) struct PathOption {
    text: AtomicUsize,
    len: AtomicUsize,
    /// The process that set it.
    pid: AtomicI32,
}

impl PathOption {
    pub const fn new() -> PathOption {
        PathOption { text: AtomicUsize::new(0), len: AtomicUsize::new(0), pid: AtomicI32::new(0) }
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
        // SAFETY: asks for a number.
        self.pid.store(unsafe { libc::getpid() }, Ordering::Relaxed);
        self.text.store(copy.as_ptr().expose_provenance(), Ordering::Release);
        true
    }

    fn text(&self) -> Option<&'static [u8]> {
        let text: *const u8 = core::ptr::with_exposed_provenance(self.text.load(Ordering::Acquire));
        // SAFETY: `set` made a copy that lives for ever.
        (!text.is_null())
            .then(|| unsafe { core::slice::from_raw_parts(text, self.len.load(Ordering::Relaxed)) })
    }

    /// The name for this process, with a zero at its end: `None` if there is none, or if it is a
    /// forked child's turn and the name has no place for its number.
    fn for_this_process(&self) -> Option<[u8; PATH_MAX]> {
        let text = self.text()?;
        // SAFETY: asks for a number.
        let pid = unsafe { libc::getpid() };
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
                    put_decimal(&mut free, pid as u32);
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

/// Where statistics go at the end.
pub(crate) static REPORT: PathOption = PathOption::new();
/// Whether nobody cares if they cannot be written.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Says nothing when statistics cannot be written.
pub(crate) fn keep_silent() {
    SILENT.store(true, Ordering::Relaxed);
}

/// Where the profile goes at the end.
pub(crate) static PROFILE: PathOption = PathOption::new();

/// The format that a file's name asks for.
fn format_of(path: &[u8]) -> Format {
    let end = path.iter().position(|&byte| byte == 0).unwrap_or(path.len());
    let name = path.get(..end).unwrap_or(path);
    match name {
        name if name.ends_with(b".json") => Format::Json,
        name if name.ends_with(b".xml") => Format::Xml,
        name if name.ends_with(b".om") || name.ends_with(b".prom") => Format::OpenMetrics,
        _ => Format::Text,
    }
}

extern "C" fn at_exit() {
    // Names are long: a program without them shall not touch the stack that it takes.
    if REPORT.text().is_some() || PROFILE.text().is_some() {
        write_files();
    }
}

#[cold]
#[inline(never)]
fn write_files() {
    if let Some(path) = REPORT.for_this_process() {
        let stats = Stats::take();
        let format = format_of(&path);
        let wrote = stats.is_some_and(|stats| write_file(&path, |file| stats.write(format, file)));
        complain_unless(wrote || SILENT.load(Ordering::Relaxed), b"FREEHOLD_REPORT", &path);
    }
    if let Some(path) = PROFILE.for_this_process() {
        complain_unless(crate::profile::write(&path), b"FREEHOLD_PROFILE", &path);
    }
}

fn complain_unless(wrote: bool, option: &[u8], path: &[u8]) {
    if !wrote {
        let name = path.split(|&byte| byte == 0).next().unwrap_or(path);
        for part in
            [b"freehold: the file of ".as_slice(), option, b" cannot be written: ", name, b"\n"]
        {
            HEAP.machine().complain(part);
        }
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
