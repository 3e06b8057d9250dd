//! Which module an address lies in, as the dynamic loader says, and whether modules went away.
//!
//! `_dl_find_object` (glibc 2.35 and later) answers without a lock. `dl_iterate_phdr` takes the loader's, and a hook must not wait for a lock that a
//! thread may hold which itself waits for what the caller of the hook holds: so with an older library the kernel is asked ([`mapped`]).
//!
//! **Generations.** What is kept of an address holds only while its module is loaded. So everything kept belongs to a
//! generation, which ends when a module that was told of is gone or another stands in its place ([`check`]).
//!
//! Invariant: a module is told of once in a generation, or more often, never less.

use super::mapped;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// `struct dl_find_object` of glibc on x86-64.
#[repr(C)]
struct Answer {
    flags: u64,
    start: u64,
    end: u64,
    link_map: *const LinkMap,
    eh_frame: u64,
    reserved: [u64; 7],
}

/// The public beginning of the loader's `struct link_map`.
#[repr(C)]
struct LinkMap {
    addr: u64,
    name: *const c_char,
}

type Find = unsafe extern "C" fn(*const c_void, *mut Answer) -> i32;

static FIND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// [`FIND`] is known.
static READY: AtomicBool = AtomicBool::new(false);

/// Uses `function`, the loader's `_dl_find_object` (null: it has none).
///
/// # Safety
/// `function` is null or that function.
pub unsafe fn use_loader(function: *mut c_void) {
    FIND.store(function, Ordering::Relaxed);
    READY.store(true, Ordering::Release);
}

/// A loaded module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Module {
    /// Its first mapped byte.
    pub start: u64,
    /// The end of its last.
    pub end: u64,
    /// Where its `.eh_frame_hdr` lies.
    pub eh_frame: u64,
    /// Which one it is: the loader's `link_map`, or the file that the kernel lists.
    pub(super) identity: u64,
}

/// Whether anybody can be asked yet: what is not known now may be known later.
pub fn is_ready() -> bool {
    READY.load(Ordering::Acquire)
}

/// Whether the loader answers. Then a [`check`] takes a microsecond, else the time in which the kernel lists the process's memory.
pub fn is_quick() -> bool {
    !FIND.load(Ordering::Relaxed).is_null()
}

/// The module that holds an address, which stands on the caller's stack.
pub fn find(address: u64) -> Option<Module> {
    match is_ready() {
        true if is_quick() => ask_loader(address),
        // SAFETY: as the callers of this function see to.
        true => unsafe { mapped::find(address) }.filter(has_tables),
        false => None,
    }
}

/// Else it is code that belongs to no module.
fn has_tables(module: &Module) -> bool {
    module.eh_frame != 0
}

fn ask_loader(address: u64) -> Option<Module> {
    let function = FIND.load(Ordering::Relaxed);
    let mut answer = Answer {
        flags: 0,
        start: 0,
        end: 0,
        link_map: core::ptr::null(),
        eh_frame: 0,
        reserved: [0; 7],
    };
    // SAFETY: `use_loader` was given this very function; it writes at most its structure, takes no lock and accepts any
    // address.
    let found = unsafe {
        let find: Find = core::mem::transmute::<*mut c_void, Find>(function);
        find(address as *const c_void, &mut answer)
    };
    let Answer { start, end, link_map, eh_frame, .. } = answer;
    (found == 0).then_some(Module { start, end, eh_frame, identity: link_map as u64 })
}

impl Module {
    /// All of its memory. There may be holes; who reads keeps to what the module's own tables name.
    ///
    /// # Safety
    /// The module stays loaded while the slice is used: an address in it stands on the caller's stack.
    pub unsafe fn memory<'a>(&self) -> &'a [u8] {
        // SAFETY: mapped by the loader from start to end, as the caller promises.
        unsafe {
            core::slice::from_raw_parts(self.start as *const u8, (self.end - self.start) as usize)
        }
    }

    /// By how much its addresses differ from those in its file, and the file's name as the loader has it (of the program
    /// itself: none), or as the kernel has it, put into `room` then.
    ///
    /// # Safety
    /// As [`Module::memory`].
    pub unsafe fn origin<'a>(&self, room: &'a mut [u8]) -> (u64, &'a [u8]) {
        if !is_quick() {
            // SAFETY: as the caller promises.
            return unsafe { mapped::origin(self, room) };
        }
        // SAFETY: the loader's own entry, alive as long as the module.
        unsafe {
            let map = &*(self.identity as *const LinkMap);
            let name = if map.name.is_null() { &[] } else { CStr::from_ptr(map.name).to_bytes() };
            (map.addr, name)
        }
    }

    /// The part with the tables. Of a program with gaps between its segments the loader knows each segment by itself.
    pub fn part_with_tables(&self) -> Option<Module> {
        let is_here = (self.start..self.end).contains(&self.eh_frame);
        if is_here { Some(*self) } else { find(self.eh_frame) }
    }

    /// The part that begins with the ELF header. Of a program with gaps between its segments the loader knows each
    /// segment by itself; where its headers are, the kernel has said.
    ///
    /// # Safety
    /// As [`Module::memory`].
    unsafe fn part_with_header(&self) -> Option<Module> {
        // SAFETY: as the caller promises.
        if unsafe { self.memory() }.starts_with(b"\x7fELF") {
            return Some(*self);
        }
        // SAFETY: has no precondition.
        let headers = unsafe { libc::getauxval(libc::AT_PHDR) };
        find(headers).filter(|part| part.identity == self.identity)
    }

    /// Its build id, from the notes that are loaded with it.
    ///
    /// # Safety
    /// As [`Module::memory`].
    pub unsafe fn build_id<'a>(&self) -> Option<&'a [u8]> {
        // SAFETY: as the caller promises; the part with the header belongs to the same module.
        let (part, (bias, _)) = unsafe { (self.part_with_header()?, self.origin(&mut [])) };
        // SAFETY: as above.
        let memory = unsafe { part.memory() };
        let word = |at: usize, bytes: usize| -> Option<u64> {
            let field = memory.get(at..at + bytes)?;
            Some(field.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)))
        };
        if memory.get(..5)? != b"\x7fELF\x02" {
            return None;
        }
        let (table, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
        (0..count).find_map(|number| {
            let at = usize::try_from(table + number * size).ok()?;
            const PT_NOTE: u64 = 4;
            if word(at, 4)? != PT_NOTE {
                return None;
            }
            let begin = word(at + 16, 8)?.wrapping_add(bias).checked_sub(part.start)? as usize;
            let len = word(at + 40, 8)? as usize;
            note(memory.get(begin..begin.checked_add(len)?)?)
        })
    }
}

/// The build id among notes.
fn note(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3;
    loop {
        let field = |at: usize| -> Option<u32> {
            Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?))
        };
        let (name, desc, kind) = (field(0)? as usize, field(4)? as usize, field(8)?);
        let begin = 12 + name.checked_next_multiple_of(4)?;
        let end = begin.checked_add(desc)?;
        if kind == BUILD_ID && notes.get(12..16)? == b"GNU\0" {
            return notes.get(begin..end);
        }
        notes = notes.get(end.checked_next_multiple_of(4)?..)?;
    }
}

/// Modules that are remembered as told; with more, some are told again.
const MOST: usize = 1024;

/// A module that was told of, valid in one generation only (0: none). The generation is written last, and an entry
/// changes only when its generation is over.
struct Told {
    generation: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
    eh_frame: AtomicU64,
    identity: AtomicU64,
}

static TOLD: [Told; MOST] = [const {
    Told {
        generation: AtomicU64::new(0),
        start: AtomicU64::new(0),
        end: AtomicU64::new(0),
        eh_frame: AtomicU64::new(0),
        identity: AtomicU64::new(0),
    }
}; MOST];
/// Entries from here on were never used.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Taken by who writes an entry; nobody waits for it.
static LOCK: AtomicBool = AtomicBool::new(false);
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The generation of now.
#[inline(always)]
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Acquire)
}

/// In a child of `fork`: a thread that wrote an entry in the parent is not here.
pub fn forget_lock() {
    mapped::forget_lock();
    LOCK.store(false, Ordering::Release);
}

impl Told {
    /// The module, if the entry is of that generation.
    fn of(&self, generation: u64) -> Option<Module> {
        (self.generation.load(Ordering::Acquire) == generation).then(|| Module {
            start: self.start.load(Ordering::Relaxed),
            end: self.end.load(Ordering::Relaxed),
            eh_frame: self.eh_frame.load(Ordering::Relaxed),
            identity: self.identity.load(Ordering::Relaxed),
        })
    }

    fn set(&self, module: &Module, generation: u64) {
        self.generation.store(0, Ordering::Release);
        self.start.store(module.start, Ordering::Release);
        self.end.store(module.end, Ordering::Relaxed);
        self.eh_frame.store(module.eh_frame, Ordering::Relaxed);
        self.identity.store(module.identity, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Release);
    }
}

fn told(generation: u64) -> impl Iterator<Item = Module> {
    let used = TOLD.get(..COUNT.load(Ordering::Acquire)).unwrap_or(&TOLD);
    used.iter().filter_map(move |entry| entry.of(generation))
}

/// Whether the module must still be told of in this generation; from now on, it counts as told.
pub fn is_news(module: &Module, generation: u64) -> bool {
    if told(generation).any(|known| known == *module) {
        return false;
    }
    if !LOCK.swap(true, Ordering::Acquire) {
        let place =
            TOLD.iter().position(|entry| entry.generation.load(Ordering::Relaxed) < generation);
        if let Some((place, entry)) = place.and_then(|place| Some((place, TOLD.get(place)?))) {
            entry.set(module, generation);
            COUNT.fetch_max(place + 1, Ordering::Release);
        }
        LOCK.store(false, Ordering::Release);
    }
    true
}

/// Looks whether every module that was told of is still there. If not, a new generation begins, in which none is told of.
pub fn check() {
    let generation = generation();
    let quick = is_quick();
    if !quick {
        mapped::refresh();
    }
    // Nothing is read of a module that may have gone.
    let now = |at: u64| if quick { ask_loader(at) } else { mapped::kept(at).filter(has_tables) };
    if !told(generation).all(|module| now(module.start) == Some(module)) {
        let (order, otherwise) = (Ordering::AcqRel, Ordering::Relaxed);
        // Who was quicker has seen the same.
        let _ = GENERATION.compare_exchange(generation, generation + 1, order, otherwise);
    }
}
