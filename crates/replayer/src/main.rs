//! `freehold-replayer`: replays one process of a trace on whatever malloc this process has, and
//! measures it. A user never calls it; `lab::real::launch` does, with the flat file as standard input.
//!
//! ```text
//! freehold-replayer describe                     where malloc comes from, and its version
//! freehold-replayer baseline                     memory of this program before the first event
//! freehold-replayer time    TOUCH LIMIT          the timing run: no clocks, no accounts
//! freehold-replayer latency TOUCH LIMIT          a clock around each call, and the timeline
//! freehold-replayer place   TOUCH LIMIT          where each object lies that lives at the end
//! ```
//!
//! One invariant: **only events reach the tested malloc.** This is why there is no Rust `fn main`:
//! the runtime before it asks glibc for the bounds of the stack, and glibc opens and buffers
//! `/proc/self/maps` with malloc. Our own tables come from shared mappings ([`sys`]), the Rust heap
//! is a bump over one ([`bump`]), thread stacks are shared mappings too. What remains: one `calloc`
//! per thread inside `pthread_create` (glibc's vector of thread-local blocks, freed with the
//! thread), and whatever the tested library and the loader do on their own before `main`.
//!
//! Shared mappings also make the numbers: they count as `RssShmem` and `RssFile`, so `RssAnon` is
//! the tested malloc's, plus a constant that `baseline` measures without any preload.
//!
//! Read on in [`engine`] (the loop), [`slots`] (order between threads), [`threads`], [`content`].

#![no_main]

mod bump;
mod clock;
mod content;
mod describe;
mod engine;
mod gate;
mod memory;
mod output;
mod phases;
mod plan;
mod run;
mod slots;
mod sys;
mod threads;
mod timeline;

use core::ffi::{CStr, c_char, c_int};
use std::str::FromStr;

#[global_allocator]
static OWN: bump::Bump = bump::Bump::new();

/// The entry called by the C runtime. See the module for why it is not Rust's.
#[unsafe(no_mangle)]
extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    sys::die_with_parent();
    let word = |index: c_int| {
        if index >= count {
            return "";
        }
        // SAFETY: the C runtime passes `count` valid C strings that live as long as the process.
        unsafe { CStr::from_ptr(*words.add(index as usize)) }.to_str().unwrap_or("")
    };
    match word(1) {
        "describe" => describe::print(),
        "baseline" => run::baseline(),
        "time" => run::run(settings(run::Pass::Time, word(2), word(3))),
        "latency" => run::run(settings(run::Pass::Latency, word(2), word(3))),
        "place" => run::run(settings(run::Pass::Place, word(2), word(3))),
        _ => sys::fatal(format_args!("started by hand; use `freehold replay`")),
    }
    sys::exit(0)
}

fn settings(pass: run::Pass, touch: &str, limit: &str) -> run::Settings {
    let touch = content::Touch::from_str(touch)
        .unwrap_or_else(|()| sys::fatal(format_args!("touch is none, page or all, not {touch:?}")));
    let limit = limit
        .parse()
        .unwrap_or_else(|_| sys::fatal(format_args!("the limit is a number, not {limit:?}")));
    run::Settings { pass, touch, limit }
}
