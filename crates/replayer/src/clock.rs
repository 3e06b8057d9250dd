//! The clock around single calls: the processor's counter, fenced so that nothing of the call leaks
//! out of the two readings.

use core::time::Duration;

/// Ticks of the fastest clock there is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn ticks() -> u64 {
    use core::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: both instructions exist on every x86-64 processor and touch no memory.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Ticks of the fastest clock there is.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn ticks() -> u64 {
    read(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// Wall time since some fixed moment.
pub fn wall() -> Duration {
    read(libc::CLOCK_MONOTONIC)
}

/// CPU time of all threads of this process so far, user and system.
pub fn cpu() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn read(which: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a live timespec; the clocks named here always exist on Linux.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What the clock itself adds to what it measures, and how finely it measures. Ticks.
pub struct Grain {
    /// What two readings with nothing between them differ by: the median of many.
    pub overhead: u64,
    /// The least by which two such differences differ. On some processors the counter advances in
    /// strides of about 10 ns, however many ticks it counts a second.
    pub step: u64,
}

impl Grain {
    /// Reads the clock some thousand times.
    pub fn measure() -> Grain {
        let mut samples = [0u64; 2001];
        for sample in &mut samples {
            let before = ticks();
            *sample = ticks() - before;
        }
        samples.sort_unstable();
        let gaps = samples.windows(2).map(|pair| pair[1] - pair[0]);
        let step = gaps.filter(|&gap| gap > 0).min().unwrap_or(1);
        Grain { overhead: samples[samples.len() / 2], step }
    }
}

/// Both clocks read together, to learn how long a tick is.
pub struct Calibration {
    ticks: u64,
    wall: Duration,
}

impl Calibration {
    /// Shorter stretches than this say too little about the length of a tick.
    const LEAST: Duration = Duration::from_millis(20);

    /// Starts measuring.
    pub fn start() -> Calibration {
        Calibration { ticks: ticks(), wall: wall() }
    }

    /// Ticks per second since the start, waiting until enough time has passed.
    pub fn ticks_per_second(&self) -> f64 {
        while wall() - self.wall < Self::LEAST {
            core::hint::spin_loop();
        }
        (ticks() - self.ticks) as f64 / (wall() - self.wall).as_secs_f64()
    }
}
