//! [`RealTimeHeap`]: a heap on memory of the caller's, every call of which is bounded.
//!
//! ```
//! use freehold::realtime::RealTimeHeap;
//! use std::mem::MaybeUninit;
//!
//! let mut memory = vec![MaybeUninit::uninit(); 1 << 20];
//! let mut heap = RealTimeHeap::fast(&mut memory)?;
//! let inbox = heap.inbox();
//! let block = heap.malloc(100).expect("a megabyte holds that");
//! std::thread::scope(|scope| {
//!     scope.spawn(move || inbox.free(block)); // another thread frees: wait-free
//! });
//! assert!(heap.take_in()); // and the owner takes it in: here, or one with each malloc
//! # Ok::<(), freehold::realtime::Unfit>(())
//! ```
//!
//! Two modes, both within the instruction counts of [`freehold_blocks::realtime`], without a system
//! call, a loop over blocks, or a wait:
//!
//! - [`RealTimeHeap::fast`], DmRT: 8 B a block, little waste, no useful bound on fragmentation;
//! - [`RealTimeHeap::strict`], aligned first fit of powers of two: a proved bound on memory
//!   ([`StrictHeap::enough`] computes it).
//!
//! Pass any memory that you have (touch and lock it before the deadline counts), or let
//! [`RealTimeHeap::reserve_fast`] and its sibling map, fault in and lock it.
//!
//! A [`Block`] owns its bytes, so safe code can neither free it twice nor use it after free; a heap
//! refuses a block of another heap and hands it back. A block that is dropped instead of freed stays used.
//! For C and for code that keeps raw pointers, [`Control`] is the layer under both.

use crate::main_heap::HEAP;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
pub use freehold_blocks::Region;
pub use freehold_blocks::align::Align;
use freehold_blocks::check::Broken;
pub use freehold_blocks::realtime::{BoundedHeap, FastHeap, Misuse, StrictHeap, Unfit};
use freehold_core::machine::Machine;

/// A cache line: the control block begins on one.
const LINE: usize = 64;

/// A heap and what other threads may see of it, at the end of the heap's memory.
#[derive(Debug)]
#[repr(C)]
pub struct Control<H> {
    /// The owner's alone.
    pub heap: H,
    /// Anybody's.
    pub inbox: freehold_blocks::realtime::Inbox,
}

impl<H: BoundedHeap> Control<H> {
    /// Makes a heap over `len` bytes at `memory`: blocks from the beginning on, its control block at
    /// the end.
    ///
    /// # Safety
    /// The bytes are one allocation, readable and writable, and nobody else's until heap and inbox are
    /// no longer used.
    pub unsafe fn place(
        memory: NonNull<u8>,
        len: usize,
        make: impl FnOnce(Region) -> Result<H, Unfit>,
    ) -> Result<NonNull<Control<H>>, Unfit> {
        let end = memory.addr().get() + len;
        let control = end.checked_sub(size_of::<Control<H>>()).map(|at| at & !(LINE - 1));
        let room = control.and_then(|at| at.checked_sub(memory.addr().get())).unwrap_or(0);
        // SAFETY: the first part of the caller's bytes.
        let region = unsafe { Region::new(memory, room as u64) };
        let heap = make(region.ok_or(Unfit::Misaligned { align: 16 })?);
        let more = (len - room) as u64;
        let heap = heap.map_err(|unfit| match unfit {
            Unfit::TooShort { needed } => {
                Unfit::TooShort { needed: needed + more.max(2 * LINE as u64) }
            }
            Unfit::TooLong { most } => Unfit::TooLong { most: most + more },
            other => other,
        })?;
        // SAFETY: the inbox is not used longer than the memory, by the caller's promise.
        let inbox = unsafe { heap.inbox() };
        // SAFETY: `room` is inside the caller's bytes, a control block fits behind it, and it is aligned.
        unsafe {
            let control = memory.add(room).cast::<Control<H>>();
            control.write(Control { heap, inbox });
            Ok(control)
        }
    }
}

/// A heap in bounded time on memory that lives for `'r`; see the module. One thread owns it.
#[derive(Debug)]
pub struct RealTimeHeap<'r, H = FastHeap> {
    control: NonNull<Control<H>>,
    memory: PhantomData<&'r mut [u8]>,
}

// SAFETY: the heap is reached by this handle alone (the inbox is its own, and made for sharing).
unsafe impl<H: Send> Send for RealTimeHeap<'_, H> {}

/// Frees blocks of one heap from any thread; clones go where they are needed.
#[derive(Clone, Copy, Debug)]
pub struct Inbox<'r> {
    inbox: freehold_blocks::realtime::Inbox,
    memory: PhantomData<&'r [u8]>,
}

/// Bytes of a real-time heap; see the module.
#[derive(Debug)]
pub struct Block<'r> {
    payload: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'r mut [u8]>,
}

// SAFETY: a block is the only way to its bytes, and they are plain.
unsafe impl Send for Block<'_> {}
// SAFETY: as above; shared, it is only read.
unsafe impl Sync for Block<'_> {}

impl Block<'_> {
    /// The bytes, for code that keeps raw pointers. They stay used until [`Block::from_raw`] and a free.
    pub fn into_raw(self) -> NonNull<u8> {
        self.payload
    }

    /// The block again.
    ///
    /// # Safety
    /// `payload` came from [`Block::into_raw`] of a block with at least `len` bytes of a heap whose memory
    /// still lives, and this is the only block made of it.
    pub unsafe fn from_raw(payload: NonNull<u8>, len: usize) -> Self {
        Block { payload, len, memory: PhantomData }
    }
}

impl Deref for Block<'_> {
    type Target = [MaybeUninit<u8>];

    fn deref(&self) -> &[MaybeUninit<u8>] {
        // SAFETY: the bytes are this block's as long as it lives.
        unsafe { core::slice::from_raw_parts(self.payload.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Block<'_> {
    fn deref_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: as in `deref`.
        unsafe { core::slice::from_raw_parts_mut(self.payload.as_ptr().cast(), self.len) }
    }
}

/// A block that a heap did not take, and why.
#[derive(Debug)]
pub struct Refused<'r> {
    /// The block, as it was.
    pub block: Block<'r>,
    /// What is wrong with it.
    pub why: Misuse,
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl core::error::Error for Refused<'_> {}

impl<'r> RealTimeHeap<'r, FastHeap> {
    /// Fast mode over `memory`, which must begin at a multiple of 16.
    pub fn fast(memory: &'r mut [MaybeUninit<u8>]) -> Result<Self, Unfit> {
        RealTimeHeap::over(memory, FastHeap::over)
    }

    /// Fast mode over `len` bytes, rounded up to pages, of new memory that is never given back.
    pub fn reserve_fast(len: usize, pages: Pages) -> Result<Self, ReserveError> {
        RealTimeHeap::over(reserve(len, pages)?, FastHeap::over).map_err(ReserveError::Unfit)
    }
}

impl<'r> RealTimeHeap<'r, StrictHeap> {
    /// Strict mode over `memory`, which must begin at a multiple of 16; blocks are aligned to their
    /// length as far as it is. No block is shorter than `smallest` bytes, a power of two from 16 to 65,536.
    pub fn strict(memory: &'r mut [MaybeUninit<u8>], smallest: u64) -> Result<Self, Unfit> {
        RealTimeHeap::over(memory, |region| StrictHeap::over(region, smallest))
    }

    /// Strict mode over new memory that is never given back: enough of it for `live` bytes of blocks of
    /// at most `longest` bytes, whatever the order of calls ([`StrictHeap::enough`]).
    pub fn reserve_strict(
        live: u64,
        longest: u64,
        smallest: u64,
        pages: Pages,
    ) -> Result<Self, ReserveError> {
        let most = StrictHeap::most(smallest);
        let enough = StrictHeap::enough(live, longest, smallest);
        let enough = enough.and_then(|bytes| usize::try_from(bytes).ok());
        let len = enough.ok_or(ReserveError::Unfit(Unfit::TooLong { most }))?;
        let memory = reserve(len + size_of::<Control<StrictHeap>>() + LINE, pages)?;
        RealTimeHeap::over(memory, |region| StrictHeap::over(region, smallest))
            .map_err(ReserveError::Unfit)
    }
}

impl<'r, H: BoundedHeap> RealTimeHeap<'r, H> {
    fn over(
        memory: &'r mut [MaybeUninit<u8>],
        make: impl FnOnce(Region) -> Result<H, Unfit>,
    ) -> Result<Self, Unfit> {
        let at = NonNull::from(&mut *memory).cast::<u8>();
        // SAFETY: the bytes are borrowed for `'r`, which nothing that is made of them outlives.
        let control = unsafe { Control::place(at, memory.len(), make) }?;
        Ok(RealTimeHeap { control, memory: PhantomData })
    }

    fn heap(&self) -> &H {
        // SAFETY: this handle is the only way to the heap.
        unsafe { &(*self.control.as_ptr()).heap }
    }

    #[inline]
    fn heap_mut(&mut self) -> &mut H {
        // SAFETY: as in `heap`.
        unsafe { &mut (*self.control.as_ptr()).heap }
    }

    /// `size` bytes at a multiple of 16; `None` when the heap finds no room. Takes in one block that another
    /// thread has freed, if there is one.
    #[inline]
    pub fn malloc(&mut self, size: usize) -> Option<Block<'r>> {
        let payload = self.heap_mut().malloc(size as u64)?;
        Some(Block { payload, len: size, memory: PhantomData })
    }

    /// As [`malloc`](Self::malloc), at a multiple of `align`.
    pub fn malloc_aligned(&mut self, size: usize, align: Align) -> Option<Block<'r>> {
        let payload = self.heap_mut().malloc_aligned(size as u64, align)?;
        Some(Block { payload, len: size, memory: PhantomData })
    }

    /// Takes the block back, if it is this heap's.
    #[inline]
    pub fn free(&mut self, block: Block<'r>) -> Result<(), Refused<'r>> {
        match self.heap_mut().free(block.payload.as_ptr()) {
            Ok(()) => Ok(()),
            Err(why) => Err(Refused { block, why }),
        }
    }

    /// Makes the block `size` bytes long where it lies; `false`, and nothing done, where that is not possible.
    pub fn resize_in_place(&mut self, block: &mut Block<'r>, size: usize) -> Result<bool, Misuse> {
        let done = self.heap_mut().resize_in_place(block.payload, size as u64)?;
        if done {
            block.len = size;
        }
        Ok(done)
    }

    /// Takes in one block that another thread has freed; `false` when there was none. For idle time, and
    /// when `malloc` found no room.
    pub fn take_in(&mut self) -> bool {
        self.heap_mut().take_in()
    }

    /// What other threads free by.
    pub fn inbox(&self) -> Inbox<'r> {
        // SAFETY: the inbox is copied, and lives as long as the memory.
        Inbox { inbox: unsafe { (*self.control.as_ptr()).inbox }, memory: PhantomData }
    }

    /// Walks every structure. Not bounded.
    pub fn check(&self) -> Result<(), Broken> {
        self.heap().check()
    }
}

impl<'r> Inbox<'r> {
    /// Gives the block back to its heap. Wait-free.
    pub fn free(&self, block: Block<'r>) -> Result<(), Refused<'r>> {
        match self.inbox.free(block.payload) {
            Ok(()) => Ok(()),
            Err(why) => Err(Refused { block, why }),
        }
    }
}

/// What is done with reserved pages before the first call, so that none faults later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Faulted in and locked: the system may not take them away.
    Locked,
    /// Faulted in only: no privilege needed; under memory pressure the system may swap them.
    Touched,
}

/// Why no memory was reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReserveError {
    /// The system has no room for so many bytes.
    NoMemory {
        /// How many were asked for.
        bytes: usize,
    },
    /// The system would not lock so many bytes.
    NotLocked {
        /// How many were asked for.
        bytes: usize,
    },
    /// The memory will not do.
    Unfit(Unfit),
}

impl fmt::Display for ReserveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReserveError::NoMemory { bytes } => {
                write!(f, "the system has no room for {bytes} bytes")
            }
            ReserveError::NotLocked { bytes } => write!(
                f,
                "the system does not lock {bytes} bytes: raise RLIMIT_MEMLOCK (ulimit -l), or only touch them"
            ),
            ReserveError::Unfit(unfit) => unfit.fmt(f),
        }
    }
}

impl core::error::Error for ReserveError {}

/// `len` bytes, rounded up to pages, mapped for good, at a multiple of 2 MiB or of a page.
pub fn reserve(len: usize, pages: Pages) -> Result<&'static mut [MaybeUninit<u8>], ReserveError> {
    const HUGE: usize = 2 << 20;
    let none = ReserveError::NoMemory { bytes: len };
    let machine = HEAP.machine();
    let page = machine.page_size();
    let bytes = len.max(1).checked_next_multiple_of(page).ok_or(none)?;
    let align = if bytes >= HUGE { HUGE } else { page };
    let at = machine.reserve(bytes, align);
    // SAFETY: the reservation is fresh and ours.
    if at.is_null() || !unsafe { machine.commit(at, bytes) } {
        return Err(none);
    }
    match pages {
        // SAFETY: the pages are ours; locking faults them in.
        Pages::Locked if unsafe { libc::mlock(at.cast(), bytes) } != 0 => {
            return Err(ReserveError::NotLocked { bytes });
        }
        Pages::Locked => {}
        Pages::Touched => {
            for offset in (0..bytes).step_by(page) {
                // SAFETY: a byte of our pages; volatile, or nothing would be written.
                unsafe { at.add(offset).write_volatile(0) };
            }
        }
    }
    // SAFETY: committed, ours, and never unmapped.
    Ok(unsafe { core::slice::from_raw_parts_mut(at.cast(), bytes) })
}
