//! What the heaps hold, by glibc's calls and our own. `mallinfo` tells of the main heap, with glibc's sums: what is
//! allocated is `uordblks + hblkhd`, what is held of the machine `arena + hblkhd`, and `arena` is `uordblks + fordblks`.

use crate::malloc::{or_errno, set_errno};
use core::ptr;
use freehold::process;
use freehold::stats::{Census, ClassCensus, Format, Stats, UNIT};
use libc::{c_char, c_int, c_void, size_t};

/// `struct mallinfo2` of glibc.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mallinfo2 {
    /// Bytes of small blocks, used or free, and of free units that may be resident.
    pub arena: size_t,
    /// Free blocks, those that threads hold for their next requests included, and such units.
    pub ordblks: size_t,
    /// Always 0: there are no fast bins.
    pub smblks: size_t,
    /// Large blocks in use.
    pub hblks: size_t,
    /// Bytes that these hold.
    pub hblkhd: size_t,
    /// Always 0, as in glibc.
    pub usmblks: size_t,
    /// Always 0, as `smblks`.
    pub fsmblks: size_t,
    /// Bytes of small blocks in use, as large as they are.
    pub uordblks: size_t,
    /// Bytes free, those in quarantine included; without pages inside of slabs that went back to the system.
    pub fordblks: size_t,
    /// Bytes of free units that may be resident: `malloc_trim` releases these, and more inside of slabs.
    pub keepcost: size_t,
}

impl Mallinfo2 {
    fn of(census: &Census) -> Mallinfo2 {
        let all = |of: fn(&ClassCensus) -> u64| -> u64 {
            census.used_classes().map(|(_, class)| of(class)).sum()
        };
        let units = census.dirty / UNIT as u64;
        let waiting = process::quarantined() as u64;
        let used = census.in_use().saturating_sub(census.large_bytes).saturating_sub(waiting);
        let slabs = census.free() + census.cached();
        let free = slabs.saturating_sub(census.purged) + census.dirty + waiting;
        Mallinfo2 {
            arena: (used + free) as size_t,
            ordblks: (all(|class| class.free + class.cached) + units) as size_t,
            smblks: 0,
            hblks: census.large_blocks as size_t,
            hblkhd: census.large_held as size_t,
            usmblks: 0,
            fsmblks: 0,
            uordblks: used as size_t,
            fordblks: free as size_t,
            keepcost: census.dirty as size_t,
        }
    }
}

/// `struct mallinfo`: the same in `int`s.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Mallinfo {
    fields: [c_int; 10],
}

/// What the heaps hold, also before the first allocation.
fn statistics() -> Option<Stats> {
    process::start();
    Stats::take()
}

/// `mallinfo2`; all zero when memory is short. As glibc's it walks the heap: O(units in use).
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn mallinfo2() -> Mallinfo2 {
    let stats = statistics();
    let main = stats.as_ref().and_then(|stats| stats.heaps().first());
    main.map_or_else(Mallinfo2::default, |heap| Mallinfo2::of(&heap.census))
}

/// `mallinfo`; figures beyond an `int` wrap, as glibc's do.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn mallinfo() -> Mallinfo {
    let all = mallinfo2();
    let [arena, ordinary, small, large] = [all.arena, all.ordblks, all.smblks, all.hblks];
    let [held, most, cached] = [all.hblkhd, all.usmblks, all.fsmblks];
    let [used, free, keep] = [all.uordblks, all.fordblks, all.keepcost];
    let fields = [arena, ordinary, small, large, held, most, cached, used, free, keep];
    Mallinfo { fields: fields.map(|value| value as c_int) }
}

/// `malloc_trim`: gives back every page that holds no block; 1 if there was any.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn malloc_trim(_: size_t) -> c_int {
    (process::trim() != 0) as c_int
}

/// `mallopt`: accepted and ignored, as other allocators' parameters mean nothing here; 1.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn mallopt(_: c_int, _: c_int) -> c_int {
    1
}

/// Writes the process's statistics to a descriptor; `false` when that failed.
fn write(descriptor: c_int, format: Format) -> bool {
    let Some(stats) = statistics() else { return false };
    process::write_to(descriptor, |out| stats.write(format, out))
}

/// `malloc_stats`: every heap with its size classes, as text on the standard error.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn malloc_stats() {
    write(2, Format::Text);
}

/// `freehold_stats_write`: the statistics in one of the header's formats to a descriptor; 0, or -1 with
/// `errno`.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn freehold_stats_write(descriptor: c_int, format: c_int) -> c_int {
    let format = match format {
        0 => Format::Text,
        1 => Format::Json,
        2 => Format::OpenMetrics,
        3 => Format::Xml,
        _ => {
            set_errno(libc::EINVAL);
            return -1;
        }
    };
    if write(descriptor, format) { 0 } else { -1 }
}

/// `struct freehold_utilization` of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Utilization {
    /// Bytes of the block.
    pub size: u64,
    /// Blocks of its slab.
    pub blocks: u64,
    /// How many are used.
    pub used: u64,
    /// How many are used in the slab into which it would move.
    pub target: u64,
}

/// `freehold_utilization`: fills the first `size` bytes of `result`, so that later versions may know more; 0, or -1 and
/// `EINVAL` for a null block.
///
/// # Safety
/// The block is null or the caller's, and `size` bytes at `result` can be written.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_utilization(
    block: *const c_void,
    result: *mut Utilization,
    size: size_t,
) -> c_int {
    let Some(found) = process::utilization(block.cast_mut().cast()) else {
        set_errno(libc::EINVAL);
        return -1;
    };
    let [size_of_block, blocks, used, target] =
        [found.size, found.blocks, found.used, found.target].map(|value| value as u64);
    let known = Utilization { size: size_of_block, blocks, used, target };
    // SAFETY: the caller's.
    unsafe { fill(result, size, &known) };
    0
}

/// Copies what is known to `out`, of which `size` bytes can be written: later versions may know more. What is beyond ours
/// reads as zero.
///
/// # Safety
/// As said.
pub(crate) unsafe fn fill<T>(out: *mut T, size: size_t, known: &T) {
    let len = size.min(size_of::<T>());
    // SAFETY: the caller's, and `known` is that long.
    unsafe {
        ptr::write_bytes(out.cast::<u8>(), 0, size);
        ptr::copy_nonoverlapping(ptr::from_ref(known).cast::<u8>(), out.cast(), len);
    }
}

/// `freehold_malloc_packed`: as `malloc`, from the slab that `freehold_utilization` calls the target.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub extern "C" fn freehold_malloc_packed(size: size_t) -> *mut c_void {
    or_errno(process::allocate_packed(size))
}

/// `freehold_free_packed`: as `free`, past the thread's stacks.
///
/// # Safety
/// The block is null or the caller's.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_free_packed(block: *mut c_void) {
    // SAFETY: the caller's.
    unsafe { process::free_packed(block.cast()) }
}

/// `freehold_profile_write`: the heap profile so far, as a new file; 0, or -1 with `errno`: `ENODATA`
/// when the program does not run with `FREEHOLD_PROFILE`.
///
/// # Safety
/// `path` is a C string.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn freehold_profile_write(path: *const c_char) -> c_int {
    process::start();
    if !freehold::profile::is_on() {
        set_errno(libc::ENODATA);
        return -1;
    }
    // SAFETY: the caller's.
    let path = unsafe { core::ffi::CStr::from_ptr(path) }.to_bytes_with_nul();
    if freehold::profile::write(path) { 0 } else { -1 }
}

/// `malloc_info`: the statistics as XML, of glibc's shape. -1 and `EINVAL` for unknown options.
///
/// # Safety
/// `stream` is an open stream.
#[cfg_attr(feature = "preload", unsafe(no_mangle))]
pub unsafe extern "C" fn malloc_info(options: c_int, stream: *mut libc::FILE) -> c_int {
    if options != 0 {
        set_errno(libc::EINVAL);
        return -1;
    }
    let Some(stats) = statistics() else {
        set_errno(libc::ENOMEM);
        return -1;
    };
    let mut wrote = true;
    stats.write(Format::Xml, &mut |bytes: &[u8]| {
        // SAFETY: the stream is the caller's; the bytes are read only.
        let put = unsafe { libc::fwrite(bytes.as_ptr().cast(), 1, bytes.len(), stream) };
        wrote &= put == bytes.len();
    });
    if wrote { 0 } else { -1 }
}
