//! Writes a trace of many processes, to show that readers' memory does not grow with their number:
//!
//! ```text
//! cargo run --release -p freehold-trace --example processes -- many.fht 20000 1 1000
//! ```
//!
//! The numbers are the processes, how many of them are alive at once, and the events of each.

use freehold_trace::*;
use std::error::Error;

/// Objects that a process keeps.
const LIVE: u64 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, processes, at_once, events] = &args[..] else {
        return Err("usage: processes FILE PROCESSES AT_ONCE EVENTS".into());
    };
    let (processes, at_once): (u32, u32) = (processes.parse()?, at_once.parse()?);
    let events: u64 = events.parse()?;
    let header = Header {
        ticks_per_second: 1_000_000,
        recorder: "processes, an example of freehold-trace".into(),
        ..Header::default()
    };
    let mut writer = Writer::create(path, header)?;
    let mut tick = 0;
    for first in (0..processes).step_by(at_once.max(1) as usize) {
        let alive = first..processes.min(first + at_once.max(1));
        for process in alive.clone() {
            writer.process(told(process))?;
        }
        for step in 0..events {
            for process in alive.clone() {
                tick += 1 + (step * 7 + u64::from(process)) % 5;
                let event = event(process, step, events);
                let (process, thread) = (ProcessId(process), ThreadId(0));
                writer.push(&Record { tick: Tick(tick), process, thread, event })?;
            }
        }
    }
    let summary = writer.finish()?;
    println!("{} events, {} bytes", summary.events, summary.bytes);
    Ok(())
}

fn told(process: u32) -> ProcessInfo {
    ProcessInfo {
        parent: process.checked_sub(1).map(ProcessId),
        begins: if process == 0 { Begin::Root } else { Begin::Exec },
        os_pid: 1000 + process,
        command: vec!["cc".into(), "-c".into(), format!("part-{process}.c")],
        ended: Some(Ending::Code(0)),
        ..ProcessInfo::unseen(ProcessId(process))
    }
}

/// Allocations and frees in turn, the oldest object going first, once so many are alive.
fn event(process: u32, step: u64, events: u64) -> Event {
    let number = step.saturating_sub(LIVE) / 2;
    if step + 1 == events {
        Event::ThreadEnd
    } else if step >= LIVE && step.is_multiple_of(2) {
        Event::Free { object: ObjectId((number % LIVE) as u32), remote: false }
    } else {
        let object = if step < LIVE { step } else { number % LIVE };
        let size = 16 + (step * 2_654_435_761 + u64::from(process) * 40_503) % 1021;
        let request = Request { size, ..Request::default() };
        Event::Alloc { object: ObjectId(object as u32), request }
    }
}
