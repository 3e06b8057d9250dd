//! Requests that are served from memory of their own and end at once: a [`Heap`] each, beside malloc and bumpalo.
//!
//! ```sh
//! cargo run --release -p freehold --example requests              # every way, five rounds, interleaved; a line of JSON a run
//! cargo run --release -p freehold --example requests -- LIBRARY   # the same, and in each round `malloc` once more with LIBRARY preloaded
//! cargo run --release -p freehold --example requests -- heap 100  # one run: the way, and the keys of a request
//! ```
//!
//! A request builds a map from some words to the places where they stand, sums it up, and ends. A process a run, so that its peak is
//! its own. `heap` leaves the objects as they are and drops the heap; `heap-freed` frees each before; `heap-kept` is one heap for all
//! requests, each object freed; `malloc` is whatever malloc the process has (`LD_PRELOAD` changes it); `bump` is an arena a request;
//! `bump-reset` keeps one arena, which no request gives back.

use allocator_api2::alloc::{Allocator, Global};
use allocator_api2::vec::Vec;
use bumpalo::Bump;
use freehold::{Heap, HeapOptions};
use hashbrown::{DefaultHashBuilder, HashMap};
use std::mem::ManuallyDrop;
use std::process::Command;
use std::time::Instant;

const WAYS: [&str; 6] = ["malloc", "heap", "heap-freed", "heap-kept", "bump", "bump-reset"];
/// Keys of a request: some kilobytes, some hundred, some megabytes.
const KEYS: [usize; 3] = [100, 3_000, 100_000];
const ROUNDS: usize = 5;
/// Keys of all requests of a run together.
const WORK: usize = 3_000_000;

type Index<A> = HashMap<u64, Vec<u64, A>, DefaultHashBuilder, A>;

/// One request: a word stands in one to eight places.
fn serve<A: Allocator + Copy>(keys: usize, memory: A) -> (u64, Index<A>) {
    let mut index = Index::new_in(memory);
    let mut place = 0;
    for key in 0..keys as u64 {
        let word = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let places = index.entry(word).or_insert_with(|| Vec::new_in(memory));
        for _ in 0..=(word >> 61) {
            places.push(place);
            place += 1;
        }
    }
    (index.values().map(|places| places.iter().sum::<u64>()).sum(), index)
}

fn new_heap() -> Heap {
    Heap::new(HeapOptions::default()).expect("memory for a heap")
}

/// What all requests answer together.
fn serve_all(way: &str, keys: usize, requests: usize) -> u64 {
    let (kept, mut arena) = (new_heap(), Bump::new());
    let one = |way: &str, arena: &Bump| match way {
        "malloc" => serve(keys, Global).0,
        "heap-kept" => serve(keys, &kept).0,
        "heap-freed" => serve(keys, &new_heap()).0,
        "heap" => {
            let heap = new_heap();
            let (sum, index) = serve(keys, &heap);
            let _left = ManuallyDrop::new(index);
            sum
        }
        "bump" => {
            let arena = Bump::new();
            let (sum, index) = serve(keys, &arena);
            let _left = ManuallyDrop::new(index);
            sum
        }
        "bump-reset" => {
            let (sum, index) = serve(keys, arena);
            let _left = ManuallyDrop::new(index);
            sum
        }
        _ => panic!("{way} is none of {WAYS:?}"),
    };
    let mut sum = 0_u64;
    for _ in 0..requests {
        sum = sum.wrapping_add(one(way, &arena));
        arena.reset();
    }
    sum
}

/// The most that was resident, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Processor time of this process, all threads, in seconds: other programs' load changes it less than the clock's time.
fn processor() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn load() -> String {
    let all = std::fs::read_to_string("/proc/loadavg").expect("Linux");
    all.split(' ').next().unwrap_or_default().to_owned()
}

fn run(way: &str, keys: usize) {
    let requests = WORK / keys;
    let before = peak();
    let (began, used) = (Instant::now(), processor());
    let sum = serve_all(way, keys, requests);
    let a_request = |seconds: f64| seconds * 1e6 / requests as f64;
    let (wall, cpu) = (a_request(began.elapsed().as_secs_f64()), a_request(processor() - used));
    let peak = peak() - before;
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    let malloc = preloaded.rsplit('/').next().unwrap_or_default();
    let load = load();
    println!(
        "{{\"way\":\"{way}\",\"preloaded\":\"{malloc}\",\"keys\":{keys},\"requests\":{requests},\"cpu_us\":{cpu:.2},\
         \"wall_us\":{wall:.2},\"peak_kib\":{peak},\"sum\":{sum},\"load\":{load}}}"
    );
}

/// A process for one run.
fn start(way: &str, keys: usize, library: Option<&str>) {
    let mut one = Command::new(std::env::current_exe().expect("this program"));
    one.args([way, &keys.to_string()]);
    if let Some(library) = library {
        one.env("LD_PRELOAD", library);
    }
    assert!(one.status().is_ok_and(|status| status.success()), "{way} with {keys} keys");
}

fn main() {
    let words: std::vec::Vec<String> = std::env::args().skip(1).collect();
    if let [way, keys] = &words[..] {
        return run(way, keys.parse().expect("a number of keys"));
    }
    let library = words.first().map(String::as_str);
    for _ in 0..ROUNDS {
        for keys in KEYS {
            WAYS.iter().for_each(|way| start(way, keys, None));
            if library.is_some() {
                start("malloc", keys, library);
            }
        }
    }
}
