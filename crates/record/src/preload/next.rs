//! The functions we stand in front of: the next definition of each name after this library.
//!
//! Found by `dlsym(RTLD_NEXT, …)`, whatever allocator that is. `dlsym` itself may allocate; while a
//! thread is inside of it, allocations that cannot be forwarded yet come from a small reserve that
//! is never given back (the C library keeps what it takes there for good).
//!
//! Invariant: a pointer in a `Next` is null or the address of a function of the type that its
//! accessor names; once set it does not change.

use super::{maps, sys, thread};
use core::ffi::{CStr, c_ulong, c_void};
use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

pub type Malloc = unsafe extern "C" fn(usize) -> *mut c_void;
pub type Calloc = unsafe extern "C" fn(usize, usize) -> *mut c_void;
pub type Realloc = unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void;
pub type Free = unsafe extern "C" fn(*mut c_void);
pub type Aligned = unsafe extern "C" fn(usize, usize) -> *mut c_void;
pub type PosixMemalign = unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> i32;
pub type Usable = unsafe extern "C" fn(*mut c_void) -> usize;
pub type FreeSized = unsafe extern "C" fn(*mut c_void, usize);
pub type Mmap = unsafe extern "C" fn(*mut c_void, usize, i32, i32, i32, i64) -> *mut c_void;
pub type Munmap = unsafe extern "C" fn(*mut c_void, usize) -> i32;
pub type Mremap = unsafe extern "C" fn(*mut c_void, usize, usize, i32, *mut c_void) -> *mut c_void;
pub type Brk = unsafe extern "C" fn(*mut c_void) -> i32;
pub type Sbrk = unsafe extern "C" fn(isize) -> *mut c_void;
pub type Exit = unsafe extern "C" fn(i32) -> !;
pub type Prctl = unsafe extern "C" fn(i32, c_ulong, c_ulong, c_ulong, c_ulong) -> i32;
pub type FreeAlignedSized = unsafe extern "C" fn(*mut c_void, usize, usize);

/// One function to be found.
#[repr(C)]
pub struct Next {
    /// First, for functions that jump there.
    found: AtomicPtr<c_void>,
    name: &'static CStr,
    /// What to use where no other definition exists.
    otherwise: fn() -> *mut c_void,
}

impl Next {
    pub const fn new(name: &'static CStr, otherwise: fn() -> *mut c_void) -> Next {
        Next { found: AtomicPtr::new(null_mut()), name, otherwise }
    }

    /// The function; null only where `otherwise` is.
    #[inline(always)]
    pub fn get(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() { self.find_slow() } else { found }
    }

    /// Looks the name up. While this thread looks up already, answers with the reserve's function
    /// and remembers nothing.
    #[cold]
    #[inline(never)]
    fn find_slow(&self) -> *mut c_void {
        let words = thread::current();
        // SAFETY: the thread's own words, and no reference to them is alive.
        if unsafe { (*words).resolving } > 0 {
            return reserved(self.name);
        }
        let found = look_up(self.name, self.otherwise);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// The next definition of a name, or what stands in. What `dlsym` allocates for a message that
/// nobody reads is neither the program's nor recorded: it is given back before the ticket is.
pub fn look_up(name: &CStr, otherwise: fn() -> *mut c_void) -> *mut c_void {
    let words = thread::current();
    // SAFETY: the thread's own words, no reference to them is alive across a call; dlsym's names are C strings; errno's location is valid for the thread.
    unsafe {
        let errno = *libc::__errno_location();
        (*words).resolving += 1;
        (*words).ticket = thread::WITHDRAWN;
        let mut found = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if found.is_null() {
            found = otherwise();
            // Frees the message. `dlerror` does, too, but makes a text of it first by `realloc`: of a program that has its own and
            // is not ready for it before `main` (GNU Common Lisp).
            libc::dlsym(libc::RTLD_DEFAULT, c"malloc".as_ptr());
        }
        (*words).resolving -= 1;
        (*words).settle();
        *libc::__errno_location() = errno;
        found
    }
}

/// A program without this function could not have been started.
fn required() -> *mut c_void {
    sys::complain(b"freehold record: the C library has no malloc family; this cannot go on\n");
    // SAFETY: abort has no precondition.
    unsafe { libc::abort() }
}

fn free_itself() -> *mut c_void {
    FREE.get()
}

extern "C" fn free_first(object: *mut c_void, _size: usize) {
    // SAFETY: the caller gives the object up, as `free_sized` demands.
    unsafe { free()(object) }
}

extern "C" fn free_first_of_three(object: *mut c_void, _align: usize, _size: usize) {
    // SAFETY: the caller gives the object up, as `free_aligned_sized` demands.
    unsafe { free()(object) }
}

static MMAP: Next = Next::new(c"mmap", || maps::mmap_itself as *mut c_void);
static MUNMAP: Next = Next::new(c"munmap", || maps::munmap_itself as *mut c_void);
static MREMAP: Next = Next::new(c"mremap", || maps::mremap_itself as *mut c_void);
static BRK: Next = Next::new(c"brk", || maps::no_break as *mut c_void);
static SBRK: Next = Next::new(c"sbrk", || maps::no_more_break as *mut c_void);
static EXIT: Next = Next::new(c"_exit", || maps::exit_itself as *mut c_void);
static PRCTL: Next = Next::new(c"prctl", required);
/// `syscall`, which its hook jumps to.
pub static SYSCALL: Next = Next::new(c"syscall", required);
static MALLOC: Next = Next::new(c"malloc", required);
static CALLOC: Next = Next::new(c"calloc", required);
static REALLOC: Next = Next::new(c"realloc", required);
static FREE: Next = Next::new(c"free", required);
static USABLE: Next = Next::new(c"malloc_usable_size", || unknown_usable as *mut c_void);
static ALIGNED_ALLOC: Next = Next::new(c"aligned_alloc", required);
static POSIX_MEMALIGN: Next = Next::new(c"posix_memalign", required);
static MEMALIGN: Next = Next::new(c"memalign", required);
static VALLOC: Next = Next::new(c"valloc", required);
static PVALLOC: Next = Next::new(c"pvalloc", required);
static CFREE: Next = Next::new(c"cfree", free_itself);
static FREE_SIZED: Next = Next::new(c"free_sized", || free_first as *mut c_void);
static FREE_ALIGNED_SIZED: Next =
    Next::new(c"free_aligned_sized", || free_first_of_three as *mut c_void);

/// Usable size of an allocator that does not tell it.
pub const USABLE_UNKNOWN: usize = usize::MAX;

extern "C" fn unknown_usable(_object: *mut c_void) -> usize {
    USABLE_UNKNOWN
}

/// Defines the typed accessor of a `Next`.
macro_rules! accessor {
    ($($name:ident: $type:ty = $next:ident;)*) => {$(
        #[inline(always)]
        pub fn $name() -> $type {
            // SAFETY: `get` is not null here (`otherwise` aborts or stands in), and the function of
            // this name has this type by the C standard, POSIX or the GNU manual.
            unsafe { transmute::<*mut c_void, $type>($next.get()) }
        }
    )*};
}

accessor! {
    malloc: Malloc = MALLOC;
    calloc: Calloc = CALLOC;
    realloc: Realloc = REALLOC;
    free: Free = FREE;
    aligned_alloc: Aligned = ALIGNED_ALLOC;
    posix_memalign: PosixMemalign = POSIX_MEMALIGN;
    memalign: Aligned = MEMALIGN;
    valloc: Malloc = VALLOC;
    pvalloc: Malloc = PVALLOC;
    cfree: Free = CFREE;
    free_sized: FreeSized = FREE_SIZED;
    free_aligned_sized: FreeAlignedSized = FREE_ALIGNED_SIZED;
    mmap: Mmap = MMAP;
    munmap: Munmap = MUNMAP;
    mremap: Mremap = MREMAP;
    brk: Brk = BRK;
    sbrk: Sbrk = SBRK;
    exit: Exit = EXIT;
    prctl: Prctl = PRCTL;
}

/// What answers for usable sizes: [`early_usable`] until the process has begun.
static USABLE_NOW: AtomicPtr<c_void> = AtomicPtr::new(early_usable as *mut c_void);

/// `malloc_usable_size` of the next allocator.
#[inline(always)]
pub fn usable_size() -> Usable {
    // SAFETY: never null, and both that are stored there are of this type.
    unsafe { transmute::<*mut c_void, Usable>(USABLE_NOW.load(Ordering::Relaxed)) }
}

/// Before its own constructors have run, an allocator may have to allocate to answer (gperftools'
/// does, by operator new): then the question within the question is answered with "unknown".
extern "C" fn early_usable(object: *mut c_void) -> usize {
    let words = thread::current();
    // SAFETY: the thread's own words, and no reference to them is alive across the call; the object
    // is the next allocator's, or null.
    unsafe {
        if (*words).measuring {
            return USABLE_UNKNOWN;
        }
        (*words).measuring = true;
        let usable = transmute::<*mut c_void, Usable>(USABLE.get())(object);
        (*words).measuring = false;
        usable
    }
}

/// Finds what nearly every program calls, before it has threads or loads libraries.
pub fn find_all() {
    // Whatever the allocator makes at its first answer is made now, under guard.
    early_usable(null_mut());
    USABLE_NOW.store(USABLE.get(), Ordering::Relaxed);
    for next in [&MALLOC, &CALLOC, &REALLOC, &FREE, &USABLE, &ALIGNED_ALLOC, &POSIX_MEMALIGN] {
        next.get();
    }
    // Before the program changes its root or filters calls.
    for next in [&PRCTL, &SYSCALL] {
        next.get();
    }
}

/// Where the next malloc begins; 0 before it was looked up. Looks nothing up, because locks may be held.
pub fn known_malloc() -> u64 {
    MALLOC.found.load(Ordering::Relaxed) as u64
}

/// Whether the object came from the reserve: then nobody else may see it.
#[inline(always)]
pub fn is_reserved(object: *mut c_void) -> bool {
    (object as usize).wrapping_sub(&raw const RESERVE as usize) < RESERVE_BYTES
}

// The reserve.

const RESERVE_BYTES: usize = 16 << 10;

#[repr(C, align(64))]
struct Reserve(core::cell::UnsafeCell<[u8; RESERVE_BYTES]>);

// SAFETY: ranges of it are handed out once each, by an atomic counter, and never touched here.
unsafe impl Sync for Reserve {}

static RESERVE: Reserve = Reserve(core::cell::UnsafeCell::new([0; RESERVE_BYTES]));
static RESERVE_USED: AtomicUsize = AtomicUsize::new(0);

fn reserved(name: &CStr) -> *mut c_void {
    match name.to_bytes() {
        b"malloc" => reserve_malloc as *mut c_void,
        b"calloc" => reserve_calloc as *mut c_void,
        b"realloc" => reserve_realloc as *mut c_void,
        b"malloc_usable_size" => unknown_usable as *mut c_void,
        b"posix_memalign" => reserve_posix_memalign as *mut c_void,
        b"aligned_alloc" | b"memalign" => reserve_aligned as *mut c_void,
        b"valloc" | b"pvalloc" => reserve_page as *mut c_void,
        b"mmap" => maps::mmap_itself as *mut c_void,
        b"munmap" => maps::munmap_itself as *mut c_void,
        b"mremap" => maps::mremap_itself as *mut c_void,
        b"brk" => maps::no_break as *mut c_void,
        b"sbrk" => maps::no_more_break as *mut c_void,
        b"_exit" => maps::exit_itself as *mut c_void,
        _ => reserve_free as *mut c_void,
    }
}

/// Every block of the reserve begins after a word with its size.
const WORD: usize = 16;

extern "C" fn reserve_malloc(size: usize) -> *mut c_void {
    reserve_aligned(WORD, size)
}

extern "C" fn reserve_calloc(count: usize, size: usize) -> *mut c_void {
    // The reserve is zero from the start and nothing is handed out twice.
    count.checked_mul(size).map_or(null_mut(), |bytes| reserve_malloc(bytes))
}

extern "C" fn reserve_page(_size: usize) -> *mut c_void {
    null_mut()
}

extern "C" fn reserve_aligned(align: usize, size: usize) -> *mut c_void {
    if align > 64 || size > RESERVE_BYTES {
        return null_mut();
    }
    let bytes = (size + WORD + 63) & !63;
    let start = RESERVE_USED.fetch_add(bytes, Ordering::Relaxed);
    if start > RESERVE_BYTES || RESERVE_BYTES - start < bytes + 64 {
        return null_mut();
    }
    // An alignment of 64 puts the block onto the next line; the word then lies before it.
    let offset = if align > WORD { start + 64 } else { start + WORD };
    let block = RESERVE.0.get().cast::<u8>().wrapping_add(offset);
    // SAFETY: `offset - WORD .. offset + size` lies within the reserve and was handed out to us only.
    unsafe { block.sub(WORD).cast::<usize>().write(size) };
    block.cast()
}

extern "C" fn reserve_posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> i32 {
    let block = reserve_aligned(align, size);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: `out` is valid, as posix_memalign demands.
    unsafe { out.write(block) };
    0
}

/// Also called for a block of the reserve after the resolution.
pub extern "C" fn reserve_realloc(object: *mut c_void, size: usize) -> *mut c_void {
    let block = reserve_malloc(size);
    copy_reserved(object, block, size);
    block
}

/// Copies a reserved object into `block` of `size` bytes.
pub fn copy_reserved(object: *mut c_void, block: *mut c_void, size: usize) {
    if object.is_null() || block.is_null() {
        return;
    }
    // SAFETY: the word before a reserved object is its size; both ranges are as long as the copy and
    // lie in different objects.
    unsafe {
        let old = object.cast::<usize>().byte_sub(WORD).read();
        block.cast::<u8>().copy_from_nonoverlapping(object.cast(), old.min(size));
    }
}

extern "C" fn reserve_free(_object: *mut c_void) {}
