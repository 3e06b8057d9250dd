//! The cold way of a malloc: one that cuts a new slab, an instruction at a time.

use super::library::Library;
use anyhow::Context;
use freehold_stepper::{Call, Moment, Stepper};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_void};

/// Sizes of two classes: the first call starts the heap, the second finds no slab of its class.
const FIRST: usize = 64;
const SECOND: usize = 1_000;
/// log2 of a slab's bytes.
const SLAB: u32 = 16;

/// The files on its way, and its instructions; `None` where instructions cannot be counted.
pub fn walk(library: &Library) -> anyhow::Result<Option<(BTreeSet<String>, u64)>> {
    let Some(mut stepper) = Stepper::new() else { return Ok(None) };
    let (malloc, base) = load(library)?;
    // SAFETY: malloc may be called with any size.
    let first = unsafe { malloc(FIRST, 0) };
    let (second, instructions, moments) = stepper.watch(malloc, SECOND, 0);
    anyhow::ensure!(first != 0 && second != 0, "the library's malloc finds no memory");
    anyhow::ensure!(
        first >> SLAB != second >> SLAB,
        "two classes in one slab: the rule is out of date"
    );
    let places: BTreeSet<u64> =
        moments.iter().filter_map(|moment: &Moment| moment.at.checked_sub(base)).collect();
    let files = places.into_iter().flat_map(|place| library.files_at(place)).collect();
    Ok(Some((files, instructions)))
}

/// The library's malloc, beside that of this process, and the address that the library's own begin at.
fn load(library: &Library) -> anyhow::Result<(Call, u64)> {
    let path = CString::new(library.path.to_str().context("a path that is not UTF-8")?)?;
    // Who is stepped through cannot start a thread: the trap's flag would be the thread's, too.
    // SAFETY: this process has no other thread yet.
    unsafe { std::env::set_var("FREEHOLD_PURGE", "off") };
    // SAFETY: the library does nothing when it is loaded but look at the environment; it is never closed.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    anyhow::ensure!(!handle.is_null(), "{} cannot be loaded", library.path.display());
    let at = find(handle, c"malloc")?;
    // SAFETY: filled by the call, and looked at only if it says so.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about.
    let known = unsafe { libc::dladdr(at, &raw mut info) } != 0;
    anyhow::ensure!(known, "the loader does not know where it has put the library");
    // SAFETY: a function of C that takes one word and gives one; it ignores the second.
    let malloc = unsafe { std::mem::transmute::<*mut c_void, Call>(at) };
    Ok((malloc, info.dli_fbase.addr() as u64))
}

fn find(handle: *mut c_void, name: &CStr) -> anyhow::Result<*mut c_void> {
    // SAFETY: the handle is that of a library that is never closed.
    let at = unsafe { libc::dlsym(handle, name.as_ptr()) };
    anyhow::ensure!(!at.is_null(), "the library lacks {name:?}");
    Ok(at)
}
