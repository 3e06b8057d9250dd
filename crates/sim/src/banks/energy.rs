//! What banks cost in energy: states times time, bytes moved, transitions, and the processor's share of copying.
//!
//! All of it is arithmetic on a run's samples; the tables are data (`studies/banks.toml`). A bank that is on stands in
//! active idle but for the time that it transfers; one that is off draws its low-power state.

use super::run::Run;

/// Power of the states of a memory, relative to reading and writing all the time.
#[derive(Clone, PartialEq, Debug)]
pub struct StatePower {
    /// Of which memory.
    pub name: String,
    /// Active idle, in percent.
    pub active_idle: f64,
    /// What a bank that is off draws, in percent: self-refresh or deep power down.
    pub off: f64,
    /// Microseconds from off to on, drawing active idle.
    pub exit_us: f64,
}

/// A module's power when it reads and writes all the time.
#[derive(Clone, PartialEq, Debug)]
pub struct DimmPower {
    /// Which.
    pub name: String,
    /// Watts.
    pub watts: f64,
    /// GB (2^30 bytes) of it.
    pub gigabytes: f64,
}

/// What a bill is made from besides states and modules.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Meter {
    /// Bytes a module moves in a second at full rate, in GB.
    pub peak_gb_s: f64,
    /// What the programs read and write of what they allocate: times each byte is moved.
    pub touches: f64,
    /// Watts of a processor that copies.
    pub cpu_watts: f64,
    /// GB that it copies in a second.
    pub copy_gb_s: f64,
}

/// Joules of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Bill {
    /// All banks on, all the time, and the programs' traffic.
    pub all_on: f64,
    /// As it was.
    pub managed: f64,
    /// Of it, the memory's share of copying.
    pub copying: f64,
    /// And the processor's.
    pub cpu: f64,
    /// And waking banks.
    pub waking: f64,
    /// Watts saved on average.
    pub saved_watts: f64,
    /// Percent of `all_on`.
    pub saved_percent: f64,
    /// Seconds that a bank half full must stay off until its copying is paid for.
    pub break_even_s: f64,
}

const PAGE: f64 = 4096.0;

impl Bill {
    /// Of that run, on a machine of `gigabytes` (2^30 bytes) in `sets` sets.
    pub fn of(
        run: &Run,
        gigabytes: f64,
        sets: u32,
        states: &StatePower,
        dimm: &DimmPower,
        meter: &Meter,
    ) -> Bill {
        let full = dimm.watts * gigabytes / dimm.gigabytes;
        let seconds = run.totals.seconds as f64;
        let off_share = mean_off_share(run, gigabytes);
        let (idle, off) = (states.active_idle / 100.0, states.off / 100.0);
        let joules_per_byte = dimm.watts * (1.0 - idle) / (meter.peak_gb_s * 1e9);
        let traffic = run.totals.allocated as f64 * PAGE * meter.touches * joules_per_byte;
        let copied = run.totals.copied as f64 * PAGE;
        let copying = copied * 2.0 * joules_per_byte;
        let cpu = copied / (meter.copy_gb_s * 1e9) * meter.cpu_watts;
        let set_watts = full / f64::from(sets.max(1));
        let waking = run.totals.onlines as f64 * states.exit_us * 1e-6 * set_watts * idle;
        let all_on = full * idle * seconds + traffic;
        let stand = full * seconds * (idle * (1.0 - off_share) + off * off_share);
        let managed = stand + traffic + copying + cpu + waking;
        let half = gigabytes * f64::from(1 << 30) / f64::from(sets.max(1)) / 2.0;
        let of_half =
            half * 2.0 * joules_per_byte + half / (meter.copy_gb_s * 1e9) * meter.cpu_watts;
        Bill {
            all_on,
            managed,
            copying,
            cpu,
            waking,
            saved_watts: (all_on - managed) / seconds.max(1.0),
            saved_percent: 100.0 * (all_on - managed) / all_on.max(f64::MIN_POSITIVE),
            break_even_s: of_half / (set_watts * (idle - off)).max(f64::MIN_POSITIVE),
        }
    }
}

fn mean_off_share(run: &Run, gigabytes: f64) -> f64 {
    let all = gigabytes * f64::from(1 << 30) / PAGE;
    let off: f64 = run.samples.iter().map(|sample| sample.offline as f64).sum();
    off / all / run.samples.len().max(1) as f64
}
