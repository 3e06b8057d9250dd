//! Cycles of calls that find nothing in the caches: every line of the heap and of the library is flushed before each.
//!
//! What a real-time task meets that allocates once a period, after everything else has run. The time stamp counter, with fences,
//! less what an empty call takes; interrupts are in the maximum, hence the percentile.

use freehold_stepper::Call;
use std::ffi::CStr;
use std::path::{Path, PathBuf};

/// Cycles of single calls, mallocs apart from frees.
#[derive(Default)]
pub struct Cold {
    /// Memory that is flushed: address and bytes.
    places: Vec<(usize, usize)>,
    overhead: u64,
    /// Of each malloc.
    pub mallocs: Vec<u64>,
    /// Of each free.
    pub frees: Vec<u64>,
}

/// What is shown of some samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The middle one.
    pub median: u64,
    /// All but one in a thousand are at most this.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Spread {
    /// Of samples in any order; zeros when there are none.
    pub fn of(samples: &[u64]) -> Spread {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let at = |share: f64| {
            let place = (sorted.len() as f64 * share).ceil() as usize;
            sorted.get(place.saturating_sub(1)).copied().unwrap_or(0)
        };
        Spread { median: at(0.5), p999: at(0.999), max: at(1.0) }
    }
}

extern "C" fn nothing(_: usize, _: usize) -> usize {
    0
}

impl Cold {
    /// Nothing is flushed yet. `None` where cycles are not counted.
    pub fn new() -> Option<Cold> {
        if !cfg!(target_arch = "x86_64") {
            return None;
        }
        let overhead = (0..1000).map(|_| timed(nothing, 0, 0).1).min().unwrap_or(0);
        Some(Cold { overhead, ..Cold::default() })
    }

    /// From now on these places are flushed before every call: address and bytes.
    pub fn flush_always(&mut self, places: Vec<(usize, usize)>) {
        self.places = places;
    }

    /// A call that is among the samples.
    pub fn sample(&mut self, is_malloc: bool, f: Call, a: usize, b: usize) -> usize {
        let (result, cycles) = self.call(f, a, b);
        let samples = if is_malloc { &mut self.mallocs } else { &mut self.frees };
        samples.push(cycles);
        result
    }

    /// Flushes, calls, and tells how many cycles that took.
    fn call(&self, f: Call, a: usize, b: usize) -> (usize, u64) {
        for &(at, len) in &self.places {
            flush(at, len);
        }
        let (result, cycles) = timed(f, a, b);
        (result, cycles.saturating_sub(self.overhead))
    }
}

#[cfg(target_arch = "x86_64")]
fn flush(at: usize, len: usize) {
    use std::arch::x86_64::{_mm_clflush, _mm_mfence};
    for line in (at..at + len).step_by(64) {
        // SAFETY: the place is mapped; flushing changes nothing that a program can see.
        unsafe { _mm_clflush(line as *const u8) };
    }
    // SAFETY: as above: no access afterwards begins before the flushes are done.
    unsafe { _mm_mfence() };
}

#[cfg(target_arch = "x86_64")]
fn timed(f: Call, a: usize, b: usize) -> (usize, u64) {
    use std::arch::x86_64::{__rdtscp, _mm_lfence, _rdtsc};
    let mut processor = 0;
    // SAFETY: counters and fences; the call is the caller's.
    unsafe {
        _mm_lfence();
        let before = _rdtsc();
        _mm_lfence();
        let result = f(a, b);
        let after = __rdtscp(&raw mut processor);
        _mm_lfence();
        (result, after - before)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn flush(_: usize, _: usize) {}

#[cfg(not(target_arch = "x86_64"))]
fn timed(f: Call, a: usize, b: usize) -> (usize, u64) {
    // SAFETY: never called: `Cold::new` gives none here.
    (unsafe { f(a, b) }, 0)
}

/// Where a library's file is mapped so that it can be read: address and bytes.
pub fn mapped(library: &Path) -> Vec<(usize, usize)> {
    library.canonicalize().map(|path| mapped_as(&path.to_string_lossy())).unwrap_or_default()
}

/// As [`mapped`], of what /proc/self/maps calls `name`.
pub fn mapped_as(name: &str) -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let is_it = |line: &&str| line.split_whitespace().nth(5) == Some(name);
    maps.lines().filter(is_it).filter_map(stretch).collect()
}

/// The library that holds a function.
pub fn holder(function: *const ()) -> Option<PathBuf> {
    // SAFETY: filled by the call, and looked at only if it says so.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about.
    let found = unsafe { libc::dladdr(function.cast(), &raw mut info) } != 0;
    if !found || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a string of the loader's, which lives as long as the library.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    name.to_str().ok()?.parse::<PathBuf>().ok()?.canonicalize().ok()
}

fn stretch(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let [from, to] = [from, to].map(|end| usize::from_str_radix(end, 16).ok());
    rights.starts_with('r').then_some((from?, to? - from?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_the_sorted_samples() {
        let samples: Vec<u64> = (1..=2000).rev().collect();
        assert_eq!(Spread::of(&samples), Spread { median: 1000, p999: 1998, max: 2000 });
        assert_eq!(Spread::of(&[]), Spread::default());
    }

    #[test]
    fn what_is_flushed_takes_longer() {
        extern "C" fn read(at: usize, _: usize) -> usize {
            // SAFETY: the array below.
            unsafe { (at as *const usize).read_volatile() }
        }
        let memory = vec![1_usize; 4096];
        let place = (memory.as_ptr() as usize, memory.len() * 8);
        let least = |places| {
            let Some(mut cold) = Cold::new() else { return 0 };
            cold.flush_always(places);
            (0..200).map(|_| cold.call(read, place.0, 0).1).min().unwrap_or(0)
        };
        let (warm, cold) = (least(Vec::new()), least(vec![place]));
        assert!(cold > warm || !cfg!(target_arch = "x86_64"), "{cold} after a flush, else {warm}");
    }

    #[test]
    fn a_stretch_of_memory_is_read_off_its_line() {
        let line = "7f00-8f00 r-xp 00000000 08:01 77 /lib/libx.so";
        assert_eq!(stretch(line), Some((0x7f00, 0x1000)));
        assert_eq!(stretch("7f00-8f00 ---p 00000000 08:01 77 /lib/libx.so"), None);
    }
}
