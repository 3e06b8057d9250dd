//! Resident memory of this process, as the kernel counts it.
//!
//! The kernel's counters may lag by up to 32 pages per processor (`percpu_counter`; recent kernels
//! sum them up for `status`, but not for the high-water mark), so a peak is known to some hundred
//! kilobytes. [`anonymous_exact`] walks the page tables instead and is used where a run stands still,
//! before and after.

use core::ffi::{CStr, c_int, c_void};

/// The lines of `/proc/self/status` that matter, bytes.
#[derive(Clone, Copy, Default)]
pub struct Resident {
    /// Anonymous pages: the tested malloc's, and a constant of ours.
    pub anonymous: u64,
    /// Pages of files: the operation streams, and code.
    pub file: u64,
    /// Pages of shared memory: our tables and thread stacks.
    pub shared: u64,
    /// The most that all three together have been since [`reset_peak`].
    pub peak: u64,
    /// Private writable mappings, resident or not: what `RLIMIT_DATA` limits.
    pub data: u64,
}

impl Resident {
    /// What is not anonymous: all of it the replayer's own, or code.
    pub fn other(&self) -> u64 {
        self.file + self.shared
    }

    /// The most anonymous bytes there can have been since [`reset_peak`], given what was resident
    /// then. `None` where pages of our own have gone since (the page cache was short of memory):
    /// then the mark cannot be split.
    pub fn peak_anonymous(&self, before: Resident) -> Option<u64> {
        let kept = self.other() + Self::LAG >= before.other();
        kept.then(|| self.peak.saturating_sub(self.other()))
    }

    /// Differences that mean nothing: the lag of the counters on a large machine.
    const LAG: u64 = 4 << 20;

    /// Reads them.
    pub fn now() -> Resident {
        with_text(c"/proc/self/status", |text| Resident {
            anonymous: field(text, b"RssAnon:"),
            file: field(text, b"RssFile:"),
            shared: field(text, b"RssShmem:"),
            peak: field(text, b"VmHWM:"),
            data: field(text, b"VmData:"),
        })
    }
}

/// Anonymous resident bytes, exact; `None` where the kernel has no `smaps_rollup`.
pub fn anonymous_exact() -> Option<u64> {
    with_text(c"/proc/self/smaps_rollup", |text| {
        (!text.is_empty()).then(|| field(text, b"Anonymous:"))
    })
}

/// Makes the code and constants of all loaded libraries resident, so that their pages do not appear
/// in the middle of a run: as page faults, and as file pages that blur the peak. Older kernels
/// cannot (before 5.14); then the peak is known a little less well.
pub fn settle_libraries() {
    // SAFETY: `settle` has the signature that dl_iterate_phdr calls, and uses no data.
    unsafe { libc::dl_iterate_phdr(Some(settle), core::ptr::null_mut()) };
}

/// One loaded object: populates its segments that are not writable.
unsafe extern "C" fn settle(info: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, whose headers are those of a loaded object.
    let (base, headers) = unsafe {
        let info = &*info;
        let headers = core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
        (info.dlpi_addr as usize, headers)
    };
    let constant = |h: &&libc::Elf64_Phdr| h.p_type == libc::PT_LOAD && h.p_flags & libc::PF_W == 0;
    for header in headers.iter().filter(constant) {
        let begin = base.wrapping_add(header.p_vaddr as usize);
        let start = begin & !4095;
        let bytes = begin + header.p_memsz as usize - start;
        let advice = libc::MADV_POPULATE_READ;
        // SAFETY: reading in pages of a loaded, read-only segment changes no memory.
        unsafe { libc::madvise(core::ptr::with_exposed_provenance_mut(start), bytes, advice) };
    }
    0
}

/// Sets the kernel's high-water mark of this process back to what is resident now. Returns whether
/// it could.
///
/// The kernel raises the mark before any unmapping, so a peak between two samples is not missed.
/// Since everything of ours is resident before and after, what the mark exceeds our files and
/// shared memory by is anonymous.
pub fn reset_peak() -> bool {
    // SAFETY: a constant C string, and a buffer of the length given.
    unsafe {
        let file = libc::open(c"/proc/self/clear_refs".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return false;
        }
        let wrote = libc::write(file, b"5".as_ptr().cast(), 1);
        libc::close(file);
        wrote == 1
    }
}

/// The number after `name` at the start of a line, times 1024; 0 where there is none.
fn field(text: &[u8], name: &[u8]) -> u64 {
    text.split(|&byte| byte == b'\n')
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| core::str::from_utf8(rest).ok())
        .and_then(|rest| rest.trim().split(' ').next()?.parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

fn with_text<R>(path: &CStr, use_it: impl FnOnce(&[u8]) -> R) -> R {
    let mut text = [0u8; 4096];
    let mut used = 0;
    // SAFETY: `path` is a C string; reads stay inside the rest of `text`.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        while file >= 0 && used < text.len() {
            let rest = &mut text[used..];
            let read = libc::read(file, rest.as_mut_ptr().cast(), rest.len());
            if read <= 0 {
                break;
            }
            used += read as usize;
        }
        if file >= 0 {
            libc::close(file);
        }
    }
    use_it(&text[..used])
}
