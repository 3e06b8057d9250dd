//! Another process's memory, read through the kernel: where its page of statistics is, and what it
//! leads to.
//!
//! The page is found by its first bytes, in the writable data of the files that the process has mapped; no
//! symbol is needed, so stripped programs and such that have the malloc linked in are as good. The page of the sampled profile is found in the same way.

use super::{Look, profile};
use anyhow::{Context, Result, anyhow, bail};
use freehold_core::malloc::census::Peek;
use freehold_core::stats::page::{MAGIC, PAGE_ALIGN, Page, Unreadable};
use freehold_core::stats::profile::MAGIC as PROFILE_MAGIC;
use std::fs;
use std::io;

/// Writable data of one file larger than this is not searched.
const LARGEST_DATA: usize = 256 << 20;
/// Bytes read at a time when searching.
const WINDOW: usize = 1 << 20;

/// A process that has a page.
pub struct Process {
    memory: Memory,
    page: usize,
    /// Where its sampled profile may be: one page in each file that has the malloc.
    profiles: Vec<usize>,
}

/// The memory of a process.
pub struct Memory {
    /// The process.
    pub pid: u32,
}

impl Memory {
    /// Reads from `address` as much as can be read.
    fn read(&self, address: usize, into: &mut [u8]) -> io::Result<usize> {
        let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: the kernel writes at most `iov_len` bytes to our buffer.
        let got = unsafe {
            libc::process_vm_readv(
                self.pid as libc::pid_t,
                &raw const local,
                1,
                &raw const remote,
                1,
                0,
            )
        };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }
}

impl Peek for Memory {
    fn peek(&self, address: usize, into: &mut [u8]) -> bool {
        self.read(address, into).is_ok_and(|got| got == into.len())
    }
}

impl Process {
    /// Finds the page of process `pid`.
    pub fn find(pid: u32) -> Result<Process> {
        let maps =
            fs::read_to_string(format!("/proc/{pid}/maps")).map_err(|error| no_maps(pid, error))?;
        let memory = Memory { pid };
        let (mut found, mut other, mut profiles) = (None, None, Vec::new());
        for (start, end) in maps.lines().filter_map(data_of_a_file) {
            let (pages, of_profiles) = pages_in(&memory, start, end)?;
            profiles.extend(of_profiles);
            for page in pages {
                match Page::visit(&memory, page, |_| {}) {
                    Ok(_) | Err(Unreadable::NothingYet) => found = found.or(Some(page)),
                    Err(why) => other = Some(why),
                }
            }
        }
        if let Some(page) = found {
            return Ok(Process { memory, page, profiles });
        }
        if let Some(Unreadable::OtherVersion(version)) = other {
            bail!(
                "process {pid} runs on another version of Freehold (its page is version {version}): use the freehold command that came with it"
            );
        }
        bail!(
            "process {pid} does not run on Freehold's malloc: start it with `freehold run`, LD_PRELOAD=libfreehold.so, or link the library"
        )
    }

    /// What the process's heaps hold now.
    pub fn look(&self) -> Result<Look> {
        let pid = self.memory.pid;
        // The structures change while they are read: a list may lead nowhere for a moment.
        for attempt in 0.. {
            let mut heaps = Vec::new();
            match Page::visit(&self.memory, self.page, |heap| heaps.push(*heap)) {
                Ok(counts) => return Ok(Look { pid, heaps, counts }),
                Err(Unreadable::NothingYet) => return Ok(Look { pid, heaps, counts: None }),
                Err(_) if attempt < 3 && !self.has_ended() => {}
                Err(_) => break,
            }
        }
        Err(anyhow!("process {pid} cannot be read any more"))
    }

    /// What the process's sampled profile has now, for pprof; none where it takes no samples.
    pub fn profile(&self) -> Result<Option<Vec<u8>>> {
        for page in &self.profiles {
            if let Some(profile) = profile::of(&self.memory, *page)? {
                return Ok(Some(profile));
            }
        }
        Ok(None)
    }

    /// Whether the process is gone, or only its parent has not noticed yet.
    pub fn has_ended(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.memory.pid));
        // The state follows the name, which is in parentheses and may contain some.
        stat.map_or(true, |stat| {
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
        })
    }
}

fn no_maps(pid: u32, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::NotFound => anyhow!("there is no process {pid}"),
        io::ErrorKind::PermissionDenied => not_allowed(pid),
        _ => anyhow!(error).context(format!("/proc/{pid}/maps")),
    }
}

fn not_allowed(pid: u32) -> anyhow::Error {
    anyhow!(
        "process {pid} may not be read: that needs the permission to trace it (be its user; where /proc/sys/kernel/yama/ptrace_scope is 1 or more, root or CAP_SYS_PTRACE)"
    )
}

/// The range of a line of `/proc/PID/maps` that is the writable data of a file.
fn data_of_a_file(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let writable = fields.next()?.starts_with("rw-p");
    let named = fields.nth(3)?.starts_with('/');
    let hex = |text| usize::from_str_radix(text, 16).ok();
    (writable && named).then_some((hex(start)?, hex(end)?))
}

/// Where pages may start between two addresses: those of statistics, and those of profiles.
fn pages_in(memory: &Memory, start: usize, end: usize) -> Result<(Vec<usize>, Vec<usize>)> {
    let mut found = (Vec::new(), Vec::new());
    let mut window = vec![0; WINDOW];
    for at in (start..end.min(start + LARGEST_DATA)).step_by(WINDOW) {
        let window = &mut window[..WINDOW.min(end - at)];
        let got = match memory.read(at, window) {
            Ok(got) => got,
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                return Err(not_allowed(memory.pid));
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
                return Err(error).context("this kernel has no process_vm_readv");
            }
            // Some mappings cannot be read; the page is not in them.
            Err(_) => break,
        };
        let places = window[..got].chunks(PAGE_ALIGN).enumerate();
        for (number, bytes) in places {
            let page = at + number * PAGE_ALIGN;
            if bytes.starts_with(&MAGIC) {
                found.0.push(page);
            } else if bytes.starts_with(&PROFILE_MAGIC) {
                found.1.push(page);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::data_of_a_file;

    #[test]
    fn only_writable_data_of_files_is_searched() {
        let line = "7f00a000-7f00b000 rw-p 00001000 08:01 42       /usr/lib/libfreehold.so.1";
        assert_eq!(data_of_a_file(line), Some((0x7f00a000, 0x7f00b000)));
        for other in [
            "7f00a000-7f00b000 r--p 00001000 08:01 42       /usr/lib/libfreehold.so.1",
            "7f00a000-7f00b000 rw-s 00001000 08:01 42       /dev/shm/x",
            "7f00a000-7f00b000 rw-p 00000000 00:00 0",
            "7f00a000-7f00b000 rw-p 00000000 00:00 0        [heap]",
            "",
        ] {
            assert_eq!(data_of_a_file(other), None, "{other}");
        }
    }
}
