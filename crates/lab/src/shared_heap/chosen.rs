//! The schemes that a process can be served by, and what they stand for.

use super::{HeapError, HeapsUse, Parked, number};
use crate::holdings::Holdings;
use crate::simulate::Memory;
use crate::studies::threads::locks::{Metered, Seen};
use freehold_blocks::align::Align;
use freehold_blocks::policy::Policy;
use freehold_blocks::sharing::{Handle, OneLock, OwnHeap, Owner, PerThread, Sharing, Striped};
use freehold_blocks::{BestFit, FirstFit, Region};
use freehold_os::Linux;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::fmt;
use std::ops::Range;
use std::ptr::{self, NonNull};

/// A way of sharing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// As the command line takes it.
    pub name: &'static str,
    /// What it is, in a report.
    pub about: &'static str,
    /// Which of the paper's allocators it stands for.
    pub stands_for: &'static str,
}

/// All of them.
pub const SCHEMES: [Scheme; 4] = [
    Scheme {
        name: "one-lock-best-fit",
        about: "one lock over best fit",
        stands_for: "the standard malloc of IRIX, which cannot be had",
    },
    Scheme {
        name: "one-lock-first-fit",
        about: "one lock over first fit",
        stands_for: "the fast malloc of IRIX (-lmalloc), which cannot be had",
    },
    Scheme {
        name: "heap-a-thread",
        about: "a heap of first fit and a lock a thread",
        stands_for: "the paper's first design, arenas of the fast malloc",
    },
    Scheme {
        name: "heaps-with-inboxes",
        about: "a heap of best fit a thread, frees of others' blocks by inbox",
        stands_for: "the paper's last design, glibc with its scaling faults mended",
    },
];

/// Address space for all heaps together.
const REGION: u64 = 16 << 30;

type Mutex = Metered<Parked<Linux>>;
type Each<P> = Striped<Vec<OneLock<P, Mutex>>, P, Mutex>;
type Boxes<P> = PerThread<Vec<OwnHeap<P>>, P>;
type OwnerOf<P> = Owner<'static, Vec<OwnHeap<P>>, P>;

enum Chosen {
    OneBest(Box<OneLock<BestFit, Mutex>>),
    OneFirst(Box<OneLock<FirstFit, Mutex>>),
    Each(Each<FirstFit>),
    Inboxes(Inboxes<BestFit>),
}

/// Heaps with inboxes, and who owns which.
struct Inboxes<P: Policy + Send + 'static> {
    /// One for each thread's number; only that thread touches it, and never while it is inside.
    owners: Vec<UnsafeCell<Option<OwnerOf<P>>>>,
    /// Leaked: the owners live in it.
    heaps: NonNull<Boxes<P>>,
}

/// A scheme over its memory.
pub struct Heaps {
    chosen: Chosen,
    addresses: Range<usize>,
    /// Held as long as the heaps are.
    _memory: Memory,
}

// SAFETY: the schemes are `Sync` by core's contract; an owner is touched by the thread of its number alone.
unsafe impl Sync for Heaps {}
// SAFETY: nothing of it belongs to the thread that made it.
unsafe impl Send for Heaps {}

impl fmt::Debug for Heaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "heaps at {:#x?}", self.addresses)
    }
}

impl Heaps {
    /// The scheme called `name`, for so many threads and the one that switches it on.
    pub fn new(name: &str, threads: u32, watch: bool) -> Result<Heaps, HeapError> {
        let failed = |source| HeapError::Memory { bytes: REGION, source };
        let mut memory = Memory::reserve(REGION).map_err(failed)?;
        let short = || failed(std::io::ErrorKind::OutOfMemory.into());
        // SAFETY: the only region of this memory, which is dropped after the heaps.
        let region = unsafe { memory.region() }.ok_or_else(short)?;
        let base = region.base().addr().get();
        let count = threads.max(1) + 1;
        let chosen = Chosen::new(name, region, count, watch)
            .ok_or_else(|| HeapError::Unknown { name: name.to_owned() })?
            .ok_or_else(short)?;
        Ok(Heaps { chosen, addresses: base..base + REGION as usize, _memory: memory })
    }

    /// Whether the payload is one of these.
    #[inline]
    pub fn holds(&self, payload: NonNull<u8>) -> bool {
        self.addresses.contains(&payload.addr().get())
    }

    /// A payload, or null.
    #[inline]
    pub fn alloc(&self, layout: Layout) -> *mut u8 {
        let size = layout.size() as u64;
        let Some(align) = Align::from_bytes(layout.align() as u64) else { return ptr::null_mut() };
        let payload = match &self.chosen {
            Chosen::OneBest(heap) => (&**heap).alloc(size, align, &mut ()),
            Chosen::OneFirst(heap) => (&**heap).alloc(size, align, &mut ()),
            Chosen::Each(heap) => {
                heap.handle(number()).and_then(|mut home| home.alloc(size, align, &mut ()))
            }
            Chosen::Inboxes(inboxes) => {
                inboxes.with_own(|own| own.alloc(size, align, &mut ())).flatten()
            }
        };
        payload.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    /// Takes a payload back.
    ///
    /// # Safety
    /// It came from [`alloc`](Self::alloc), and nobody uses it any more.
    #[inline]
    pub unsafe fn free(&self, payload: NonNull<u8>) {
        // SAFETY: the caller's promise, for each of the schemes.
        unsafe {
            match &self.chosen {
                Chosen::OneBest(heap) => (&**heap).free(payload, &mut ()),
                Chosen::OneFirst(heap) => (&**heap).free(payload, &mut ()),
                Chosen::Each(heap) => {
                    if let Some(mut home) = heap.handle(number()) {
                        home.free(payload, &mut ());
                    }
                }
                Chosen::Inboxes(inboxes) => {
                    inboxes.with_own(|own| own.free(payload, &mut ()));
                }
            }
        }
    }

    /// What the heaps hold, and what was seen of their locks until now. Walks them, and allocates nothing
    /// meanwhile.
    pub fn look(&mut self) -> Result<HeapsUse, HeapError> {
        let mut holds = Holdings::default();
        let seen = match &mut self.chosen {
            Chosen::OneBest(heap) => {
                let seen = heap.lock().seen();
                heap.inspect(|policy| holds.add(policy));
                seen
            }
            Chosen::OneFirst(heap) => {
                let seen = heap.lock().seen();
                heap.inspect(|policy| holds.add(policy));
                seen
            }
            Chosen::Each(heap) => {
                let locks = heap.stripes().iter().map(|stripe| stripe.lock().seen());
                let seen = locks.fold(Seen::default(), Seen::plus);
                heap.inspect(|policy| holds.add(policy));
                seen
            }
            Chosen::Inboxes(inboxes) => {
                inboxes.inspect(|policy| holds.add(policy));
                Seen::default()
            }
        };
        in_use(&holds, seen)
    }
}

impl Chosen {
    /// `None` if there is no such scheme; `Some(None)` if the region is too short.
    fn new(name: &str, region: Region, count: u32, watch: bool) -> Option<Option<Chosen>> {
        let lock = || Metered::new(Parked::new(Linux), watch);
        Some(match name {
            "one-lock-best-fit" => BestFit::new(region)
                .map(|policy| Chosen::OneBest(Box::new(OneLock::new(policy, lock())))),
            "one-lock-first-fit" => FirstFit::new(region)
                .map(|policy| Chosen::OneFirst(Box::new(OneLock::new(policy, lock())))),
            "heap-a-thread" => Striped::new(region, count, lock).map(Chosen::Each),
            "heaps-with-inboxes" => Inboxes::new(region, count).map(Chosen::Inboxes),
            _ => return None,
        })
    }
}

impl<P: Policy + Send + 'static> Inboxes<P> {
    fn new(region: Region, count: u32) -> Option<Inboxes<P>> {
        let heaps = Box::leak(Box::new(Boxes::<P>::new(region, count)?));
        let owners = (0..count).map(|_| UnsafeCell::new(None)).collect();
        Some(Inboxes { owners, heaps: NonNull::from(heaps) })
    }

    /// Does something by way of this thread's heap, which becomes its own with the first call. `None` if
    /// there are more threads than heaps.
    #[inline]
    fn with_own<R>(&self, work: impl FnOnce(&mut OwnerOf<P>) -> R) -> Option<R> {
        let number = number();
        let cell = self.owners.get(number)?;
        // SAFETY: only the thread of this number comes here, and not from within `work`: heaps do not
        // allocate from themselves. The heaps are leaked.
        let (own, heaps) = unsafe { (&mut *cell.get(), self.heaps.as_ref()) };
        if own.is_none() {
            *own = heaps.handle(number);
        }
        own.as_mut().map(work)
    }

    fn inspect(&mut self, visit: impl FnMut(&P)) {
        // Nobody may own a heap meanwhile; each thread takes its own again with its next call.
        self.owners.iter_mut().for_each(|owner| *owner.get_mut() = None);
        // SAFETY: leaked, and the owners, which pointed into it, are gone.
        unsafe { self.heaps.as_mut() }.inspect(visit);
    }
}

/// Whether all is whole, and what of it is in use.
fn in_use(holds: &Holdings, seen: Seen) -> Result<HeapsUse, HeapError> {
    if let Some(broken) = holds.broken {
        return Err(HeapError::Broken(broken.to_string()));
    }
    Ok(HeapsUse {
        heap_bytes: holds.heap_bytes,
        used_bytes: holds.used_bytes,
        external: holds.external(),
        locks_taken: seen.taken,
        locks_contended: seen.contended,
        lock_wait_ns: seen.wait_ns,
    })
}
