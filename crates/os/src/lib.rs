//! Linux, as the core needs it: [`Linux`] implements [`Machine`] by the mmap family and futexes.
//!
//! Invariant: nothing here touches `errno`, allocates, or needs libc to be initialised, so that it
//! can run before constructors, inside `free`, and in a forked child. Hence bare system calls.
#![no_std]

mod container;
pub mod copied;
mod elsewhere;
mod nodes;
mod small_file;
mod syscall;
pub mod thread;

pub use elsewhere::Elsewhere;

use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use freehold_core::machine::{Machine, Nodes, Room};
use freehold_core::place::{NodeSet, Path};
use nodes::Memories;
use syscall::{Number, call};

/// log2 of the smallest page size that Linux has.
const PAGE_SHIFT: u32 = 12;
const PROT_NONE: usize = 0;
const PROT_READ_WRITE: usize = 1 | 2;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;
const MADV_DONTNEED: usize = 4;
const MADV_HUGEPAGE: usize = 14;
const MADV_NOHUGEPAGE: usize = 15;
const MADV_DONTDUMP: usize = 16;
const MADV_DODUMP: usize = 17;
const MADV_COLD: usize = 20;
const MREMAP_MAYMOVE: usize = 1;
const MREMAP_FIXED: usize = 2;
const MREMAP_DONTUNMAP: usize = 4;
const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 129;

/// Linux, under this process. What it knows is the process's: page size (4 KiB until told), the wish for huge pages, and
/// where memories are. So all heaps of a process are of one type, and of one code.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

/// What [`Linux`] knows. All-zero.
struct Known {
    /// log2 of the page size less that of 4 KiB: a size that is no power of two, or 0, cannot be.
    page_shift: AtomicU32,
    /// What `madvise` is told of committed memory; 0 is nothing.
    advice: AtomicUsize,
    /// Whether [`Machine::advise`] is not passed on.
    deaf: AtomicBool,
    memories: Memories,
}

/// Whether memory shall be backed by transparent huge pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugePages {
    /// Where the heap is large and dense, and nowhere that it gave pages back: what is taken at first.
    WhereDense,
    /// As `/sys/kernel/mm/transparent_hugepage/enabled` says.
    AsSystem,
    /// Also where the system leaves that to programs (`madvise`).
    Always,
    /// Nowhere.
    Never,
}

static KNOWN: Known = Known {
    page_shift: AtomicU32::new(0),
    advice: AtomicUsize::new(0),
    deaf: AtomicBool::new(false),
    memories: Memories::new(),
};

impl Linux {
    /// Tells the page size in bytes, a power of two, before anything is reserved.
    pub fn set_page_size(&self, page: usize) {
        KNOWN.page_shift.store(page.trailing_zeros().saturating_sub(PAGE_SHIFT), Ordering::Relaxed);
    }

    /// Looks for memories that the program may use, and from then on places memory on them if there are several and
    /// nobody has set another policy (`numactl`). One system call where there is one.
    pub fn find_nodes(&self) {
        KNOWN.memories.find();
    }

    /// Where memory is looked for on a machine with several memories; `None` leaves it to the system. Before
    /// [`Linux::find_nodes`].
    pub fn set_path(&self, path: Option<Path>) {
        KNOWN.memories.set_path(path);
    }

    /// What else the process has on nodes of `from`, to be moved to those of `to` step by step; `None` where the kernel
    /// does not tell.
    pub fn elsewhere(&self, from: NodeSet, to: NodeSet) -> Option<Elsewhere<'static>> {
        Elsewhere::new(&KNOWN.memories, self.page_size(), from, to)
    }

    /// The nodes that memory is placed on; none where it is not placed.
    pub fn usable_nodes(&self) -> NodeSet {
        KNOWN.memories.usable()
    }

    /// Random bits from the kernel; what it gives early in boot is good enough for encoding links.
    pub fn random(&self) -> usize {
        const GRND_INSECURE: usize = 4;
        let mut bits = 0usize;
        // SAFETY: the buffer is eight bytes of ours.
        let got =
            unsafe { call(Number::GetRandom, [(&raw mut bits).addr(), 8, GRND_INSECURE, 0, 0, 0]) };
        if got == 8 { bits } else { (&raw const bits).addr().wrapping_mul(0x9E37_79B9_7F4A_7C15) }
    }

    /// Sleeps while `word` is `expected`, at most `nanoseconds` (`None`: until woken).
    pub fn sleep_on(&self, word: &AtomicU32, expected: u32, nanoseconds: Option<u64>) {
        let time = nanoseconds.map(|ns| [ns / 1_000_000_000, ns % 1_000_000_000]);
        let timeout = time.as_ref().map_or(0, |time| time.as_ptr().addr());
        let futex = word.as_ptr().addr();
        // SAFETY: a futex call reads the word and the time, both of which live.
        unsafe {
            call(Number::Futex, [futex, FUTEX_WAIT_PRIVATE, expected as usize, timeout, 0, 0])
        };
    }

    /// Writes a message to the standard error, as far as it will take it.
    pub fn complain(&self, message: &[u8]) {
        // SAFETY: the kernel reads the message only.
        unsafe { call(Number::Write, [2, message.as_ptr().addr(), message.len(), 0, 0, 0]) };
    }

    /// Says what is advised about huge pages for all that is committed from now on.
    pub fn set_huge_pages(&self, wish: HugePages) {
        let advice = match wish {
            HugePages::WhereDense | HugePages::AsSystem => 0,
            HugePages::Always => MADV_HUGEPAGE,
            HugePages::Never => MADV_NOHUGEPAGE,
        };
        KNOWN.advice.store(advice, Ordering::Relaxed);
        KNOWN.deaf.store(wish != HugePages::WhereDense, Ordering::Relaxed);
    }

    /// Makes pages unreadable and unwritable: whoever runs into them is stopped. Undone by
    /// [`Machine::commit`]. `false` when refused.
    ///
    /// # Safety
    /// `[at, at + len)` is committed, whole pages, and nothing in it is in use.
    pub unsafe fn guard(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: nothing in the range is in use.
        unsafe { call(Number::Mprotect, [at.addr(), len, PROT_NONE, 0, 0, 0]) == 0 }
    }

    fn map(&self, len: usize) -> Option<usize> {
        const FLAGS: usize = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let at = unsafe { call(Number::Mmap, [0, len, PROT_NONE, FLAGS, usize::MAX, 0]) };
        (at > 0).then_some(at as usize)
    }

    /// The same at a multiple of `align`.
    fn map_aligned(&self, len: usize, align: usize) -> Option<usize> {
        let at = self.map(len)?;
        if at.is_multiple_of(align) {
            return Some(at);
        }
        self.unmap(at, len);
        let wide = len.checked_add(align)?;
        let at = self.map(wide)?;
        let start = at.next_multiple_of(align);
        self.unmap(at, start - at);
        self.unmap(start + len, at + wide - (start + len));
        Some(start)
    }

    /// Unmaps what was mapped and never handed out.
    fn unmap(&self, at: usize, len: usize) {
        if len != 0 {
            // SAFETY: the callers' ranges are their own fresh mappings.
            unsafe { call(Number::Munmap, [at, len, 0, 0, 0, 0]) };
        }
    }
}

// SAFETY: reservations are fresh private mappings that only these methods change.
unsafe impl Machine for Linux {
    fn page_size(&self) -> usize {
        1 << (PAGE_SHIFT.wrapping_add(KNOWN.page_shift.load(Ordering::Relaxed)) & 63)
    }

    fn room(&self) -> Option<Room> {
        container::room()
    }

    /// A debugger writes what nobody can read into its core file, too (as zeros: 1 TiB), unless it is told.
    fn reserve(&self, len: usize, align: usize) -> *mut u8 {
        let Some(at) = self.map_aligned(len, align) else { return ptr::null_mut() };
        let start = ptr::with_exposed_provenance_mut(at);
        self.dump(start, len, false);
        start
    }

    unsafe fn release(&self, at: *mut u8, len: usize) {
        self.unmap(at.addr(), len);
    }

    unsafe fn commit(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's.
        let done = unsafe { self.commit_ahead(at, len) };
        if done {
            self.dump(at, len, true);
        }
        done
    }

    unsafe fn commit_ahead(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: the range is the caller's reservation and not in use.
        let done = unsafe { call(Number::Mprotect, [at.addr(), len, PROT_READ_WRITE, 0, 0, 0]) };
        let advice = KNOWN.advice.load(Ordering::Relaxed);
        if done == 0 && advice != 0 {
            // SAFETY: advice changes no contents. Refusal leaves things as the system has them.
            unsafe { call(Number::Madvise, [at.addr(), len, advice, 0, 0, 0]) };
        }
        done == 0
    }

    fn dump(&self, at: *mut u8, len: usize, wanted: bool) {
        let advice = if wanted { MADV_DODUMP } else { MADV_DONTDUMP };
        // SAFETY: advice changes no contents. Where it is refused, core files hold what the system puts there.
        unsafe { call(Number::Madvise, [at.addr(), len, advice, 0, 0, 0]) };
    }

    unsafe fn purge(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: nothing in the range is in use.
        unsafe { call(Number::Madvise, [at.addr(), len, MADV_DONTNEED, 0, 0, 0]) == 0 }
    }

    unsafe fn relocate(&self, from: *mut u8, to: *mut u8, len: usize) -> bool {
        const FLAGS: usize = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
        // SAFETY: both ranges are the caller's; the old one stays mapped, empty (Linux 5.7).
        let at = unsafe { call(Number::Mremap, [from.addr(), len, len, FLAGS, to.addr(), 0]) };
        at == to.addr() as isize
    }

    fn advise(&self, at: *mut u8, len: usize, huge: bool) {
        if KNOWN.deaf.load(Ordering::Relaxed) {
            return;
        }
        let advise = |len: usize, what: usize| {
            // SAFETY: advice changes no contents. Refusal leaves things as the system has them.
            unsafe { call(Number::Madvise, [at.addr(), len, what, 0, 0, 0]) }
        };
        if huge {
            advise(len, MADV_HUGEPAGE);
        } else {
            advise(len, MADV_NOHUGEPAGE);
            // Ageing one page of a huge page splits it, so that what is given back of it is free at
            // once, not when memory is short.
            advise(self.page_size(), MADV_COLD);
        }
    }

    #[inline]
    fn nodes(&self) -> Option<&dyn Nodes> {
        if KNOWN.memories.are_several() { Some(&KNOWN.memories) } else { None }
    }

    #[inline(always)]
    fn me(&self) -> u32 {
        // Threads' pointers are multiples of 64, so this tells apart those that lie within 128 GiB, or such a distance apart
        // that is no multiple of that: all that the C library makes.
        (thread::pointer() >> 6) as u32 & (u32::MAX >> 1) | 1
    }

    fn wait(&self, word: &AtomicU32, expected: u32) {
        if !copied::mend() {
            self.sleep_on(word, expected, None);
        }
    }

    fn wake(&self, word: &AtomicU32) {
        // SAFETY: the kernel looks for sleepers of this address only.
        unsafe { call(Number::Futex, [word.as_ptr().addr(), FUTEX_WAKE_PRIVATE, 1, 0, 0, 0]) };
    }
}
