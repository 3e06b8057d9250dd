//! How fast the simulator is: events a second on one core, decoding included.
//!
//! `cargo run --release -p freehold-lab --example replay_speed [EVENTS] [LIVE] [POLICY…]`
//!
//! `cargo run --release -p freehold-lab --example replay_speed TRACE [POLICY…]`
//!
//! Replays a recorded trace, or makes one of EVENTS events (default 10 million) that keeps LIVE
//! objects alive (default 100,000), of which any may be the next to be freed: the least friendly
//! order for caches. Sizes are log-uniform from 16 B to 1 KiB. Replays each policy alone, so that
//! a figure is that of one core, and counts CPU time, so that a busy machine does not spoil it more
//! than it must. The `-list` variants walk all free blocks and are left out unless they are named.

use freehold_blocks::policy::POLICIES;
use freehold_lab::simulate::{self, Options};
use freehold_trace::{
    Api, Event, Header, ObjectId, ProcessId, Record, Request, ThreadId, Tick, Trace, Writer,
};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_made = args.first().is_none_or(|first| first.parse::<u64>().is_ok());
    let (numbers, named) = args.split_at(args.len().min(if is_made { 2 } else { 1 }));
    let is_asked = |name: &str| match named {
        [] => !name.ends_with("-list"),
        some => some.iter().any(|one| one == name),
    };

    let folder = tempfile::tempdir()?;
    let path = if is_made {
        let path = folder.path().join("speed.fht");
        let events = numbers.first().map_or(Ok(10_000_000), |text| text.parse())?;
        let live = numbers.get(1).map_or(Ok(100_000), |text| text.parse())?;
        write(&path, events, live)?;
        path
    } else {
        PathBuf::from(&args[0])
    };
    let trace = Trace::open(&path)?;
    let process = simulate::busiest(&trace).ok_or("the trace has no process")?;
    let events = trace.events_of(process);
    println!("{events} events, {} bytes on disk", trace.file_len());

    let calm = AtomicBool::new(false);
    let began = cpu_seconds();
    let survey = simulate::survey(&trace, process, &mut |_, _| (), &calm)?;
    report("(survey: decoding and a tally)", events, cpu_seconds() - began);
    let options = Options { process, limit: None };
    for name in POLICIES.iter().map(|policy| policy.name).filter(|name| is_asked(name)) {
        let began = cpu_seconds();
        simulate::replay(&trace, &survey, &[name], options, &mut |_, _| (), &calm)?;
        report(name, events, cpu_seconds() - began);
    }
    Ok(())
}

fn report(name: &str, events: u64, seconds: f64) {
    let millions = events as f64 / seconds / 1e6;
    println!("{name:32} {millions:8.2} million events/s  {:6.1} ns an event", 1e3 / millions);
}

/// CPU seconds this process has used, in all of its threads.
fn cpu_seconds() -> f64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that may be written, and the clock exists on every Linux.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    assert_eq!(status, 0, "the clock of this process can be read");
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn write(path: &Path, events: u64, live: u32) -> Result<(), Box<dyn Error>> {
    let header = Header { ticks_per_second: 1_000_000_000, ..Header::default() };
    let mut writer = Writer::create(path, header)?;
    let mut random = Random(1);
    let mut alive: Vec<u32> = Vec::new();
    let mut spare: Vec<u32> = (0..live).rev().collect();
    for tick in 0..events {
        // Grows to fifteen sixteenths, and then wavers above that.
        let grows = alive.len() < (live - live / 16) as usize || random.below(2) == 0;
        let event = match grows.then(|| spare.pop()).flatten() {
            Some(object) => {
                alive.push(object);
                let least = 16 << random.below(6);
                let size = least + random.below(least);
                let request = Request { size, api: Api::Malloc, ..Request::default() };
                Event::Alloc { object: ObjectId(object), request }
            }
            None => {
                let object = alive.swap_remove(random.below(alive.len() as u64) as usize);
                spare.push(object);
                Event::Free { object: ObjectId(object), remote: false }
            }
        };
        let (process, thread) = (ProcessId(0), ThreadId(0));
        writer.push(&Record { tick: Tick(tick * 50), process, thread, event })?;
    }
    writer.finish()?;
    Ok(())
}

/// Knuth's linear congruential generator: the same trace on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
