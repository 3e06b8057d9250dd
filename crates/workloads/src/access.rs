//! Says which words of which objects a workload touches, for models of caches, TLBs and pages.
//!
//! A recorder that wants to hear of it exports `freehold_record_access`. Without one every call here is a
//! load and a branch. Who watches decides when and what: [`watch`] turns it on for a stretch of the work and
//! says which share of its pieces is told, so that the sample has a rate that can be stated. A piece is
//! told whole or not at all ([`attend`]): a sample of single accesses would have lost their locality.
//!
//! Invariant: `object` is where an allocation begins, `offset` lies within it; or `offset` is a mark.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A mark: the stretch that begins is told in small parts ([`Share::Units`]).
pub const PARTS: usize = (1 << 23) - 4;
/// A mark: from here to the next one work is done that is not told.
pub const ASIDE: usize = (1 << 23) - 3;
/// A mark: here begins a piece of work that can be done apart from the others of its phase. The object
/// beside it stands for the data it works on.
pub const TASK: usize = (1 << 23) - 2;
/// A mark: all pieces of work before it end before one after it begins. As a read, it also says that
/// from here on nothing is told.
pub const BARRIER: usize = (1 << 23) - 1;
/// Bytes before what an `Arc` points to: its two counters. (As the standard library lays it out;
/// a test holds it to that.)
pub const ARC_HEAD: usize = 2 * size_of::<usize>();
/// Bytes of a word.
const WORD: usize = 8;

type Hook = unsafe extern "C" fn(*const libc::c_void, usize, usize, bool);

static WATCHED: AtomicBool = AtomicBool::new(false);
/// The share that is told: the groups (low half) or units (high half) of which one is; 0: all.
static SHARE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Whether this thread tells what it does now, while it is watched.
    static ATTENDS: Cell<bool> = const { Cell::new(true) };
}

/// Which pieces of watched work are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// Those of one group in so many (1: all): long bursts, so that what neighbours share stays visible.
    Groups(u32),
    /// One unit in so many, wherever it belongs: short bursts from everywhere.
    Units(u32),
}

fn hook() -> Option<Hook> {
    static HOOK: OnceLock<Option<Hook>> = OnceLock::new();
    *HOOK.get_or_init(find)
}

#[expect(unsafe_code, reason = "a symbol that may not be there has to be looked up")]
fn find() -> Option<Hook> {
    // SAFETY: the name is a C string; the recorder's symbol of this name is a function of this type.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"freehold_record_access".as_ptr());
        (!found.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, Hook>(found))
    }
}

/// Whether anybody listens at all.
pub fn is_heard() -> bool {
    hook().is_some()
}

/// Begins to tell of a share of the work, on all threads; without a recorder nothing is told.
pub fn watch(share: Share) {
    let coded = match share {
        Share::Groups(of) => u64::from(of),
        Share::Units(of) => u64::from(of) << 32,
    };
    SHARE.store(coded, Relaxed);
    ATTENDS.set(true);
    WATCHED.store(is_heard(), Relaxed);
}

/// Turns telling off, with a mark beside some object that an `Arc` owns.
pub fn end_watch<T>(value: &T) {
    ATTENDS.set(true);
    touch(std::ptr::from_ref(value) as usize - ARC_HEAD, BARRIER, WORD, false);
    WATCHED.store(false, Relaxed);
}

/// What this thread does from here on belongs to this unit of this group, and works on `value`, which an
/// `Arc` owns: it is told if the share says so. Threads begin attentive.
#[inline(always)]
pub fn attend<T>(value: &T, group: u64, unit: u64) {
    if is_watched() {
        choose(std::ptr::from_ref(value) as usize - ARC_HEAD, group, unit);
    }
}

#[cold]
#[inline(never)]
fn choose(object: usize, group: u64, unit: u64) {
    let share = SHARE.load(Relaxed);
    let (of, key) = if share >> 32 == 0 { (share, group) } else { (share >> 32, unit) };
    let now = is_chosen(key, of);
    let before = ATTENDS.replace(true);
    if before != now {
        touch(object, if now { TASK } else { ASIDE }, WORD, true);
    }
    ATTENDS.set(now);
}

/// Whether the piece with this key is one of `of`. Keys are mixed: neighbours' would choose a pattern.
fn is_chosen(key: u64, of: u64) -> bool {
    let mixed = (key ^ key >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    of <= 1 || (mixed >> 32).is_multiple_of(of)
}

/// Whether this thread's work is told just now.
#[inline(always)]
pub fn is_attended() -> bool {
    is_watched() && ATTENDS.get()
}

/// Whether it is on.
#[inline(always)]
pub fn is_watched() -> bool {
    WATCHED.load(Relaxed)
}

#[cold]
#[inline(never)]
#[expect(unsafe_code, reason = "the recorder's function is a C function")]
fn tell(object: usize, offset: usize, words: usize, write: bool) {
    // Phases are everybody's, whatever this thread does.
    if !ATTENDS.get() && offset != BARRIER && offset != PARTS {
        return;
    }
    if let Some(hook) = hook() {
        // SAFETY: it takes any address: it is a name there, and nothing is read through it.
        unsafe { hook(object as *const libc::c_void, offset, words, write) }
    }
}

/// `bytes` bytes from `offset` on of the object at address `object` are read (or written).
#[inline(always)]
pub fn touch(object: usize, offset: usize, bytes: usize, write: bool) {
    if is_watched() {
        tell(object, offset, bytes.div_ceil(WORD), write);
    }
}

/// Something that an `Arc` owns is touched: `bytes` bytes from `offset` on within the value.
#[inline(always)]
pub fn touch_shared<T>(value: &T, offset: usize, bytes: usize, write: bool) {
    touch(std::ptr::from_ref(value) as usize - ARC_HEAD, ARC_HEAD + offset, bytes, write);
}

/// An item of a list is touched, whole. What lies so far behind that it could be taken for a mark is not told.
#[inline(always)]
pub fn touch_item<T>(list: &[T], index: usize, write: bool) {
    let offset = index * size_of::<T>();
    if is_watched() && offset < TASK {
        tell(list.as_ptr() as usize, offset, size_of::<T>().div_ceil(WORD), write);
    }
}

/// A whole list is touched, from its first item to its last.
#[inline(always)]
pub fn touch_list<T>(list: &[T], write: bool) {
    touch(list.as_ptr() as usize, 0, size_of_val(list), write);
}

/// Every item of a list is touched for itself, as by a program that goes through it item by item: as many
/// loads or stores as it has items. The list is a whole allocation.
#[inline(always)]
pub fn touch_each<T>(list: &[T], write: bool) {
    if is_watched() {
        (0..list.len()).for_each(|index| touch_item(list, index, write));
    }
}

/// A mark ([`TASK`] or [`BARRIER`]) beside some object that an `Arc` owns.
#[inline(always)]
pub fn mark<T>(value: &T, mark: usize) {
    touch(std::ptr::from_ref(value) as usize - ARC_HEAD, mark, WORD, true);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// The allocation of an `Arc` is its counters and then the value, for all values aligned to a word.
    #[test]
    fn counters_stand_before_a_shared_value() {
        let shared = Arc::new([7u64; 3]);
        let other = Arc::clone(&shared);
        let strong = Arc::as_ptr(&shared) as usize - ARC_HEAD;
        #[expect(unsafe_code, reason = "reads the counter whose place is in question")]
        // SAFETY: the Arc's own allocation begins there, with the strong count.
        let count = unsafe { *(strong as *const usize) };
        assert_eq!((count, Arc::strong_count(&other)), (2, 2));
    }

    #[test]
    fn nobody_listens_to_a_test() {
        watch(Share::Groups(1));
        assert!(!is_heard() && !is_watched());
        touch(0, 0, 64, true);
    }

    #[test]
    fn one_piece_in_so_many_is_chosen() {
        for of in [4, 100, 2048] {
            // Patches, and elements' paths below one of them.
            let patches = (0..200 * of).filter(|&key| is_chosen(key, of)).count();
            let paths =
                (1u64 << 34..(1 << 34) + 200 * of).filter(|&key| is_chosen(key, of)).count();
            assert!((120..280).contains(&patches), "one of {of}: {patches}");
            assert!((120..280).contains(&paths), "one of {of}: {paths}");
        }
        assert!((0..100).all(|key| is_chosen(key, 1) && is_chosen(key, 0)));
    }
}
