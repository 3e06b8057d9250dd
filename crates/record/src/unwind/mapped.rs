//! Modules as the kernel lists a process's memory (`/proc/self/maps`), for loaders that do not say (glibc before 2.35).
//!
//! A module is the mappings of one file, from its ELF header on. It is looked up in the kernel's list once, and
//! kept: to list all mappings takes long beside a walk. Code without a module (a JIT's) is kept, too: one look a mapping.
//!
//! Invariants: nothing here allocates or waits; memory is read only of a module whose code stands on the caller's stack.
//! Where the list cannot be opened (a sandbox), there are no modules.

use super::call;
use super::modules::Module;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};

/// The module that holds an address of code, or the mapping of code that belongs to none, without tables then (`eh_frame` 0).
///
/// # Safety
/// The address stands on the caller's stack, so that its module stays loaded.
pub unsafe fn find(address: u64) -> Option<Module> {
    kept(address).or_else(|| {
        // SAFETY: as the caller promises.
        let place = unsafe { look(address) }?;
        keep(place);
        Some(place)
    })
}

/// The same, if it was looked up before.
pub fn kept(address: u64) -> Option<Module> {
    let used = KEPT.get(..COUNT.load(Ordering::Acquire)).unwrap_or(&KEPT);
    used.iter().find_map(|kept| kept.module().filter(|it| (it.start..it.end).contains(&address)))
}

/// Forgets the modules that the kernel lists no more, and code without a module.
pub fn refresh() {
    let mut there = [false; MOST];
    each_line(|line| {
        if let Some(mapping) = Mapping::of(line) {
            for (kept, there) in KEPT.iter().zip(&mut there) {
                *there |= kept.module().is_some_and(|it| it.eh_frame != 0 && mapping.begins(&it));
            }
        }
        true
    });
    while_locked(|| {
        for (kept, there) in KEPT.iter().zip(there) {
            if !there {
                kept.set(None);
            }
        }
    });
}

/// By how much a module's addresses differ from those in its file, and the file's name.
///
/// # Safety
/// As [`find`], for an address in the module.
pub unsafe fn origin<'a>(place: &Module, name: &'a mut [u8]) -> (u64, &'a [u8]) {
    let mut len = 0;
    each_line(|line| {
        let Some(mapping) = Mapping::of(line) else { return true };
        if !mapping.begins(place) {
            return true;
        }
        let path = mapping.path;
        for (to, &from) in name.iter_mut().zip(path) {
            *to = from;
            len += 1;
        }
        false
    });
    // SAFETY: as the caller promises; the first page has the header.
    let bias = unsafe { Header::of(place.start, PAGE) }.map_or(0, |header| header.bias);
    (bias, name.get(..len).unwrap_or_default())
}

/// In a child of `fork`: a thread that kept something in the parent is not here.
pub fn forget_lock() {
    LOCK.store(false, Ordering::Release);
}

/// Modules that are kept; with more, some are looked up again.
const MOST: usize = 1024;
const PAGE: u64 = 4096;

/// A module, or none. The version is odd while it is being changed.
struct Kept {
    version: AtomicU64,
    words: [AtomicU64; 4],
}

static KEPT: [Kept; MOST] =
    [const { Kept { version: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; 4] } }; MOST];
/// Entries from here on were never used.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Taken by who writes an entry; nobody waits for it.
static LOCK: AtomicBool = AtomicBool::new(false);

impl Kept {
    fn module(&self) -> Option<Module> {
        let version = self.version.load(Ordering::Acquire);
        let [start, end, eh_frame, identity] =
            self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let same = version & 1 == 0 && self.version.load(Ordering::Relaxed) == version;
        (same && start != 0).then_some(Module { start, end, eh_frame, identity })
    }

    /// With the lock. (What a fork cut short in its parent's other thread is begun anew.)
    fn set(&self, place: Option<Module>) {
        let Module { start, end, eh_frame, identity } =
            place.unwrap_or(Module { start: 0, end: 0, eh_frame: 0, identity: 0 });
        let version = self.version.load(Ordering::Relaxed) | 1;
        self.version.store(version, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in self.words.iter().zip([start, end, eh_frame, identity]) {
            word.store(value, Ordering::Relaxed);
        }
        self.version.store(version.wrapping_add(1), Ordering::Release);
    }
}

fn while_locked(work: impl FnOnce()) {
    if !LOCK.swap(true, Ordering::Acquire) {
        work();
        LOCK.store(false, Ordering::Release);
    }
}

fn keep(place: Module) {
    while_locked(|| {
        let free = KEPT.iter().position(|kept| kept.module().is_none());
        if let Some((at, kept)) = free.and_then(|at| Some((at, KEPT.get(at)?))) {
            kept.set(Some(place));
            COUNT.fetch_max(at + 1, Ordering::Release);
        }
    });
}

/// # Safety
/// As [`find`].
unsafe fn look(address: u64) -> Option<Module> {
    let (mut first, mut found) = (None, None);
    each_line(|line| {
        let Some(mapping) = Mapping::of(line) else { return true };
        if mapping.offset == 0 && mapping.file != 0 {
            first = Some((mapping.start, mapping.end, mapping.file));
        }
        let holds = (mapping.start..mapping.end).contains(&address);
        if holds && mapping.code {
            found = Some((mapping.start, mapping.end, mapping.file));
        }
        !holds
    });
    let (start, end, file) = found?;
    let nothing = Module { start, end, eh_frame: 0, identity: 0 };
    let Some((start, page, _)) = first.filter(|first| first.2 == file) else {
        return Some(nothing);
    };
    // SAFETY: mapped, and of the module that the caller runs in.
    let Some(header) = (unsafe { Header::of(start, page - start) }) else { return Some(nothing) };
    Some(Module { start, end: header.end.max(end), eh_frame: header.eh_frame, identity: file })
}

/// A line of the list.
struct Mapping<'a> {
    start: u64,
    end: u64,
    /// Code may run there.
    code: bool,
    /// Where it begins in its file.
    offset: u64,
    /// Device and inode, mixed; 0 of anonymous memory.
    file: u64,
    path: &'a [u8],
}

impl<'a> Mapping<'a> {
    /// `start-end rwxp offset major:minor inode   path`
    fn of(line: &'a [u8]) -> Option<Mapping<'a>> {
        let mut fields = line.splitn(6, |&byte| byte == b' ');
        let mut range = fields.next()?.split(|&byte| byte == b'-');
        let (start, end) = (number(range.next()?, 16)?, number(range.next()?, 16)?);
        let code = fields.next()?.get(2) == Some(&b'x');
        let offset = number(fields.next()?, 16)?;
        let mut device = fields.next()?.split(|&byte| byte == b':');
        let (major, minor) = (number(device.next()?, 16)?, number(device.next()?, 16)?);
        let inode = number(fields.next()?, 10)?;
        let path = fields.next().unwrap_or_default().trim_ascii();
        let file = if inode == 0 { 0 } else { inode ^ (major << 48) ^ (minor << 32) };
        Some(Mapping { start, end, code, offset, file, path })
    }

    /// It is the module's first.
    fn begins(&self, place: &Module) -> bool {
        self.start == place.start && self.file == place.identity && self.offset == 0
    }
}

fn number(digits: &[u8], base: u32) -> Option<u64> {
    let digit = |&byte: &u8| char::from(byte).to_digit(base);
    let add = |sum: u64, byte| Some(sum * u64::from(base) + u64::from(digit(byte)?));
    (!digits.is_empty() && digits.len() <= 19).then(|| digits.iter().try_fold(0, add))?
}

/// What an ELF header says of a loaded module.
struct Header {
    bias: u64,
    end: u64,
    eh_frame: u64,
}

impl Header {
    /// # Safety
    /// So many bytes at `start` are mapped, readable, and stay so.
    unsafe fn of(start: u64, bytes: u64) -> Option<Header> {
        const PT_LOAD: u64 = 1;
        const PT_GNU_EH_FRAME: u64 = 0x6474_e550;
        // SAFETY: as the caller promises.
        let memory = unsafe { core::slice::from_raw_parts(start as *const u8, bytes as usize) };
        let word = |at: u64, bytes: u64| -> Option<u64> {
            let field = memory.get(at as usize..(at + bytes) as usize)?;
            Some(field.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
        };
        if memory.get(..5)? != b"\x7fELF\x02" {
            return None;
        }
        let (table, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
        let (mut least, mut most, mut eh_frame) = (u64::MAX, 0, None);
        for number in 0..count {
            let at = table.checked_add(number * size).filter(|at| *at < bytes)?;
            let (kind, begin, len) = (word(at, 4)?, word(at + 16, 8)?, word(at + 40, 8)?);
            match kind {
                PT_LOAD => {
                    least = least.min(begin & !(PAGE - 1));
                    most = most.max(begin.saturating_add(len));
                }
                PT_GNU_EH_FRAME => eh_frame = Some(begin),
                _ => {}
            }
        }
        let bias = start.wrapping_sub(least);
        let end = bias.wrapping_add(most).checked_next_multiple_of(PAGE)?;
        Some(Header { bias, end, eh_frame: bias.wrapping_add(eh_frame?) })
    }
}

/// Bytes that are read at a time, and of a line: a hook may run on a signal's small stack.
const LINE: usize = 1024;

/// Hands each line of the list to `take`, without its end, until it says false. What of a line is beyond [`LINE`] is left
/// out.
fn each_line(mut take: impl FnMut(&[u8]) -> bool) {
    let name = c"/proc/self/maps".as_ptr() as usize;
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: the kernel reads the name.
    let file = unsafe { call(libc::SYS_openat, [libc::AT_FDCWD as usize, name, flags, 0, 0, 0]) };
    let Ok(file) = usize::try_from(file) else { return };
    let mut buffer = [0; LINE];
    let (mut len, mut goes_on, mut is_rest) = (0, true, false);
    while goes_on {
        let room = buffer.get_mut(len..).unwrap_or_default();
        let arguments = [file, room.as_mut_ptr() as usize, room.len(), 0, 0, 0];
        // SAFETY: the kernel writes at most so many bytes there.
        let Ok(more @ 1..) = usize::try_from(unsafe { call(libc::SYS_read, arguments) }) else {
            break;
        };
        len += more;
        let mut rest = buffer.get(..len).unwrap_or_default();
        while goes_on && let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let line = rest.get(..end).unwrap_or_default();
            goes_on = core::mem::take(&mut is_rest) || take(line);
            rest = rest.get(end + 1..).unwrap_or_default();
        }
        // A line longer than the buffer: its beginning is a line.
        if goes_on && rest.len() == buffer.len() {
            goes_on = is_rest || take(rest);
            (is_rest, rest) = (true, &[]);
        }
        let (keep, from) = (rest.len(), len - rest.len());
        for at in 0..keep {
            let byte = buffer.get(from + at).copied().unwrap_or_default();
            if let Some(place) = buffer.get_mut(at) {
                *place = byte;
            }
        }
        len = keep;
    }
    // SAFETY: opened above.
    unsafe { call(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::modules;

    /// What `dl_iterate_phdr` lists: bias, name, the address of a byte of code.
    fn loaded() -> Vec<(u64, Vec<u8>, u64)> {
        unsafe extern "C" fn note(
            info: *mut libc::dl_phdr_info,
            _size: usize,
            list: *mut core::ffi::c_void,
        ) -> i32 {
            // SAFETY: the loader's own record, and the list given below.
            unsafe {
                let (info, list) = (&*info, &mut *list.cast::<Vec<(u64, Vec<u8>, u64)>>());
                let headers =
                    core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum));
                let is_code = |it: &&libc::Elf64_Phdr| it.p_type == 1 && it.p_flags & 1 != 0;
                if let Some(code) = headers.iter().find(is_code) {
                    let name = core::ffi::CStr::from_ptr(info.dlpi_name).to_bytes().to_vec();
                    list.push((info.dlpi_addr, name, info.dlpi_addr + code.p_vaddr));
                }
            }
            0
        }
        let mut list = Vec::new();
        // SAFETY: the function above gets the list that it expects.
        unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut list).cast()) };
        list
    }

    #[test]
    fn modules_are_as_the_loader_has_them() {
        crate::unwind::tests::begin();
        let mut seen = 0;
        for (bias, name, code) in loaded() {
            // Other tests load and unload libraries; the kernel's own has no file.
            let stays = |part: &[u8]| name.windows(part.len()).any(|at| at == part);
            if !name.is_empty() && !stays(b"libc.so") && !stays(b"ld-linux") {
                continue;
            }
            let theirs = modules::find(code).unwrap();
            // SAFETY: libraries of this program stay loaded.
            let ours = unsafe { find(code) }.unwrap();
            assert_eq!((ours.start, ours.eh_frame), (theirs.start, theirs.eh_frame));
            assert!(
                ours.end >= theirs.end && ours.end - theirs.end < 1 << 20,
                "{ours:?} {theirs:?}"
            );
            let mut room = [0; 512];
            // SAFETY: as above.
            let (our_bias, our_name) = unsafe { origin(&ours, &mut room) };
            assert_eq!(our_bias, bias);
            let real = std::fs::canonicalize(std::str::from_utf8(&name).unwrap());
            let real = real.or_else(|_| std::env::current_exe()).unwrap();
            assert_eq!(std::str::from_utf8(our_name).unwrap(), real.to_str().unwrap());
            seen += 1;
        }
        assert_eq!(seen, 3, "the program, libc and the loader");
        refresh();
        let here = modules_are_as_the_loader_has_them as *const () as u64;
        // SAFETY: this code runs.
        assert!(unsafe { find(here) }.is_some_and(|it| it.eh_frame != 0), "it is there");
    }

    #[test]
    fn code_of_no_file_is_no_module_and_is_forgotten() {
        // SAFETY: a mapping of our own.
        let page = unsafe {
            let bits = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(std::ptr::null_mut(), 4096, bits.0, bits.1, -1, 0) as u64
        };
        // SAFETY: no module, so nothing is read.
        let place = unsafe { find(page + 8) }.unwrap();
        assert!(place.eh_frame == 0 && place.start <= page);
        // Another test may hold the lock.
        let again = |done: fn(u64) -> bool| (0..1000).any(|_| done(page));
        // SAFETY: as above.
        assert!(again(|page| unsafe { find(page) }.is_some() && kept(page).is_some()));
        assert!(again(|page| {
            refresh();
            kept(page).is_none()
        }));
        let on_the_stack = &raw const place as u64;
        // SAFETY: as above.
        assert_eq!(unsafe { find(on_the_stack) }, None, "data is no code");
    }

    #[test]
    fn lines_are_read_to_their_last_field() {
        let line = b"7f79135fb000-7f7913626000 r-xp 0006d000 fe:01 326694     /usr/lib/a b.so";
        let it = Mapping::of(line).unwrap();
        assert_eq!((it.start, it.end, it.offset), (0x7f79_135f_b000, 0x7f79_1362_6000, 0x6d000));
        assert_eq!((it.code, it.path), (true, &b"/usr/lib/a b.so"[..]));
        assert_eq!(it.file, 326_694 ^ 0xfe << 48 ^ 1 << 32);
        let anonymous = Mapping::of(b"7f79-7f7a rw-p 00000000 00:00 0 ").unwrap();
        assert_eq!((anonymous.file, anonymous.code, anonymous.path), (0, false, &b""[..]));
        assert!(Mapping::of(b"7f79 rw-p").is_none() && Mapping::of(b"").is_none());
    }

    #[test]
    fn lines_longer_than_the_buffer_are_cut() {
        let folder = std::env::temp_dir().join(format!("freehold-maps-{}", std::process::id()));
        let mut long = folder.clone();
        for _ in 0..20 {
            long.push("x".repeat(200));
        }
        std::fs::create_dir_all(&long).unwrap();
        std::fs::write(long.join("f"), [0; 4096]).unwrap();
        let file = std::fs::File::open(long.join("f")).unwrap();
        // SAFETY: a mapping of our own.
        let at = unsafe {
            use std::os::fd::AsRawFd;
            let bits = (libc::PROT_READ, libc::MAP_PRIVATE);
            libc::mmap(std::ptr::null_mut(), 4096, bits.0, bits.1, file.as_raw_fd(), 0) as u64
        };
        let (mut lines, mut sound, mut ours) = (0, 0, 0);
        each_line(|line| {
            let mapping = Mapping::of(line);
            lines += 1;
            sound += usize::from(mapping.is_some());
            ours += usize::from(mapping.is_some_and(|it| it.start == at));
            true
        });
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((sound, ours), (lines, 1));
    }
}
