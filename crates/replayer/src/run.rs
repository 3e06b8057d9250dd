//! One run from mapping the file to printing the answer.

use core::time::Duration;

use freehold_replayer::histogram::BUCKETS;

use crate::clock::{self, Calibration};
use crate::content::Touch;
use crate::engine::{World, make_world};
use crate::memory::{self, Resident};
use crate::output::Output;
use crate::plan::Plan;
use crate::slots::LOOKS;
use crate::sys::fatal;
use crate::{threads, timeline};

use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// What a run is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// Wall and CPU time.
    Time,
    /// The latency of each call, and the timeline.
    Latency,
    /// The addresses of the objects that live at the end.
    Place,
}

/// What the parent asked for.
#[derive(Clone, Copy)]
pub struct Settings {
    /// What the run is for.
    pub pass: Pass,
    /// What is written to objects.
    pub touch: Touch,
    /// Bytes the tested malloc may map writable beyond what is mapped at the start; 0 = no limit.
    pub limit: u64,
}

/// Prints what this program itself has resident when a run would start.
pub fn baseline() {
    let settings = Settings { pass: Pass::Time, touch: Touch::None, limit: 0 };
    make_world(Plan::map_stdin(), settings);
    // As deep in the main stack as a run goes before its first event.
    core::hint::black_box(clock::Grain::measure());
    let mut output = Output::new();
    output.line(format_args!("anonymous {}", anonymous()));
    output.line(format_args!("done"));
}

/// Replays the file and prints what was measured.
pub fn run(settings: Settings) {
    let world = make_world(Plan::map_stdin(), settings);
    if processors() < 2 {
        LOOKS.store(0, Relaxed);
    }
    impose(settings.limit);
    make_inherited(world);
    let grain = clock::Grain::measure();
    memory::settle_libraries();
    let marked = memory::reset_peak().then(Resident::now);
    let calibration = Calibration::start();
    let before = Usage::now();
    world.run_stream(0, world.plan.start_of(0));
    threads::wait_for_all(world);
    let used = Usage::now().since(before);
    let resident = Resident::now();
    let anonymous = anonymous();
    let mut output = Output::new();
    output.line(format_args!("wall_ns {}", used.wall.as_nanos()));
    output.line(format_args!("cpu_ns {}", used.cpu.as_nanos()));
    output.line(format_args!("faults {}", used.faults));
    output.line(format_args!("anonymous {anonymous}"));
    if let Some(peak) = marked.and_then(|before| resident.peak_anonymous(before)) {
        output.line(format_args!("peak_anonymous {peak}"));
    }
    let sums = timeline::sum(world.accounts);
    output.line(format_args!("failed {}", sums.failed));
    output.line(format_args!("skipped {}", sums.skipped));
    if settings.pass == Pass::Latency {
        print_latencies(world, &grain, calibration.ticks_per_second(), &mut output);
        print_timeline(world, anonymous, &mut output);
    }
    if settings.pass == Pass::Place {
        print_objects(world, &mut output);
    }
    output.line(format_args!("done"));
}

/// Makes the objects that a forked process brought from its parent, before anything is measured.
fn make_inherited(world: &'static World) {
    let at = world.plan.header.inherited_at as usize;
    if at != 0 {
        world.run_stream(0, at);
    }
    if let Some(latencies) = world.latencies.first() {
        latencies.clear();
    }
}

/// `RLIMIT_DATA` counts private writable mappings, so that address space merely reserved is free,
/// as it is on a machine; the replayer's own tables are shared and do not count.
fn impose(limit: u64) {
    if limit == 0 {
        return;
    }
    let most = Resident::now().data.saturating_add(limit);
    let limits = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: `limits` is live; lowering a limit of this process touches no memory.
    if unsafe { libc::setrlimit(libc::RLIMIT_DATA, &raw const limits) } != 0 {
        fatal(format_args!("cannot limit memory to {limit} bytes"));
    }
}

fn processors() -> u32 {
    // SAFETY: an all-zero set is valid, and the call writes only inside it.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set);
        libc::CPU_COUNT(&set) as u32
    }
}

fn anonymous() -> u64 {
    memory::anonymous_exact().unwrap_or_else(|| Resident::now().anonymous)
}

#[derive(Clone, Copy)]
struct Usage {
    wall: Duration,
    cpu: Duration,
    faults: u64,
}

impl Usage {
    fn now() -> Usage {
        // SAFETY: all-zero is a valid rusage, and the call fills it.
        let usage = unsafe {
            let mut usage: libc::rusage = core::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        };
        let faults = (usage.ru_minflt + usage.ru_majflt) as u64;
        Usage { wall: clock::wall(), cpu: clock::cpu(), faults }
    }

    fn since(self, before: Usage) -> Usage {
        Usage {
            wall: self.wall - before.wall,
            cpu: self.cpu - before.cpu,
            faults: self.faults - before.faults,
        }
    }
}

fn print_latencies(
    world: &World,
    grain: &clock::Grain,
    ticks_per_second: f64,
    output: &mut Output,
) {
    output.line(format_args!("overhead_ticks {}", grain.overhead));
    output.line(format_args!("step_ticks {}", grain.step));
    output.line(format_args!("ticks_per_second {ticks_per_second}"));
    let worst = world.latencies.iter().map(|one| one.worst()).max().unwrap_or(0);
    output.line(format_args!("worst_ticks {worst}"));
    for bucket in 0..BUCKETS {
        let calls: u64 = world.latencies.iter().map(|one| one.in_bucket(bucket)).sum();
        if calls > 0 {
            output.line(format_args!("bucket {bucket} {calls}"));
        }
    }
}

/// Threads that wait for their end have left their slots alone since their last operation.
fn print_objects(world: &World, output: &mut Output) {
    for (number, slot) in world.slots.iter().enumerate() {
        let address = slot.address().addr();
        if address != 0 {
            output.line(format_args!("object {number} {address}"));
        }
    }
}

fn print_timeline(world: &World, anonymous: u64, output: &mut Output) {
    let mut point = |position, elapsed_ns, allocated, live, anonymous| {
        output.line(format_args!("point {position} {elapsed_ns} {allocated} {live} {anonymous}"));
    };
    for taken in world.timeline.points() {
        point(
            taken.position.load(Acquire),
            taken.elapsed_ns.load(Relaxed),
            taken.allocated.load(Relaxed),
            taken.live.load(Relaxed),
            taken.anonymous.load(Relaxed),
        );
    }
    let header = &world.plan.header;
    let sums = timeline::sum(world.accounts);
    point(header.events, header.elapsed_ns, sums.allocated, sums.live, anonymous);
}
