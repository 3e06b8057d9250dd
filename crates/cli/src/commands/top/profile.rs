//! The sampled profile of another process, from the tables in its memory, as the file that it would write itself.

use super::remote::Memory;
use anyhow::{Context, Result, anyhow};
use freehold_core::stats::profile::{
    Facts, Mappings, Range, Tables, Unreadable, Writer, build_id, take_stock,
};
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// Files of code that can be told apart.
const MAPPINGS: usize = 1024;

/// The profile of the process whose memory this is, for pprof; none where it takes no samples. `page` says where its tables are.
pub fn of(memory: &Memory, page: usize) -> Result<Option<Vec<u8>>> {
    let pid = memory.pid;
    let tables = match Tables::find(memory, page) {
        Ok(tables) => tables,
        Err(Unreadable::Off) => return Ok(None),
        Err(why) => return Err(unreadable(pid, why)),
    };
    let (mut live, mut sites) = (Vec::new(), Vec::new());
    let keep = |sample: &_| live.push(*sample);
    tables.visit(keep, |site| sites.push(*site)).map_err(|why| unreadable(pid, why))?;
    take_stock(&mut sites, live.iter(), now_ns());

    let maps =
        fs::read(format!("/proc/{pid}/maps")).with_context(|| format!("/proc/{pid}/maps"))?;
    let mut bytes = Vec::new();
    let mut out = |part: &[u8]| bytes.extend_from_slice(part);
    let (rate, lost) = tables.rate_and_lost();
    let date = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let facts = Facts { rate, date_ns: date.as_nanos() as u64, lost };
    let mut writer = Writer::begin(&mut out, facts);
    let mut ranges = vec![Range::default(); MAPPINGS];
    let mut known = Mappings::new(&mut ranges);
    for line in maps.split(|byte| *byte == b'\n') {
        writer.mapping(line, &mut known, |start| build_id(memory, start));
    }
    let frames: usize = sites.iter().map(|site| site.frames().len()).sum();
    let mut seen = vec![0; (frames * 2).max(16).next_power_of_two()];
    writer.samples(sites.iter(), &known, &mut seen);
    Ok(Some(bytes))
}

fn unreadable(pid: u32, why: Unreadable) -> anyhow::Error {
    match why {
        Unreadable::OtherVersion => anyhow!(
            "process {pid} samples by another version of Freehold: use the freehold command that came with it"
        ),
        Unreadable::Busy => anyhow!(
            "process {pid} samples faster than it can be read: let it sample more rarely (FREEHOLD_PROFILE_RATE)"
        ),
        Unreadable::Off | Unreadable::Memory => anyhow!("process {pid} cannot be read any more"),
    }
}

/// The clock by which the malloc tells ages.
fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written to a place of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}
