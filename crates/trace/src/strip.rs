//! A trace without what names its owner: no command lines, titles, paths or names of functions, for a trace that leaves the house.
//! Memory outside of malloc (mappings and looks at what is resident) is left out as a whole.
//!
//! What stays: events, threads, processes, times, facts about the machine, and the shape of call stacks: which frame lies in which module at which
//! offset, and the modules' build ids. So its owner can still find out which function a frame is, and nobody without the modules can.

use crate::error::{Damage, ReadError, WriteError};
use crate::event::Record;
use crate::export::Control;
use crate::header::{Header, ProcessInfo};
use crate::reader::Trace;
use crate::stacks::{Frame, Module, StackId, Stacks};
use crate::writer::{Summary, Writer};
use std::path::Path;
use thiserror::Error;

/// Why a trace was not stripped.
#[derive(Debug, Error)]
pub enum StripError {
    /// The trace cannot be read any more.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The new trace cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The caller's flag was raised.
    #[error("interrupted")]
    Interrupted,
}

/// Writes the stripped trace to `to`, and says what of the old one could not be read. Nothing is left at `to` if it fails.
///
/// # Errors
/// When reading or writing fails, or the caller stops it.
pub fn strip(
    trace: &Trace,
    to: &Path,
    control: &mut Control<'_>,
) -> Result<(Summary, Vec<Damage>), StripError> {
    let mut writer = Writer::create(to, header(trace.header()))?;
    match copy(trace, &mut writer, control) {
        Ok(damage) => Ok((writer.finish()?, damage)),
        Err(error) => {
            writer.abandon();
            Err(error)
        }
    }
}

fn copy(
    trace: &Trace,
    writer: &mut Writer,
    control: &mut Control<'_>,
) -> Result<Vec<Damage>, StripError> {
    for info in trace.processes() {
        writer.process_at_end(process(info));
    }
    let (stacks, mut damage) = trace.stacks()?;
    writer.stacks(&nameless(&stacks))?;
    let mut records = trace.records()?;
    let mut done = 0;
    while let Some(run) = records.next_run()? {
        for (index, timed) in run.events.iter().enumerate() {
            let (process, thread) = (run.process, run.thread);
            let record = Record { tick: timed.tick, process, thread, event: timed.event };
            let stack = run.stacks.get(index).copied().unwrap_or_default();
            writer.push_stacked(&record, stack)?;
            done += 1;
            if !control.goes_on(done, trace.events()) {
                return Err(StripError::Interrupted);
            }
        }
    }
    damage.extend(trace.damage().iter().cloned());
    damage.extend(records.damage().iter().cloned());
    Ok(damage)
}

/// Named one by one, so that a field that is added later does not leave the house unasked.
fn process(info: &ProcessInfo) -> ProcessInfo {
    ProcessInfo {
        id: info.id,
        parent: info.parent,
        begins: info.begins,
        os_pid: info.os_pid,
        ended: info.ended,
        inherited_objects: info.inherited_objects,
        inherited_bytes: info.inherited_bytes,
        ..ProcessInfo::default()
    }
}

/// Notes may quote anything, so they go, too.
fn header(header: &Header) -> Header {
    let notes = vec!["Stripped: command lines, paths, names of functions and the recorder's notes were taken out.".to_owned()];
    Header {
        ticks_per_second: header.ticks_per_second,
        ticks_are_events: header.ticks_are_events,
        started_unix_ms: header.started_unix_ms,
        command: Vec::new(),
        recorder: header.recorder.clone(),
        machine: header.machine.clone(),
        notes,
    }
}

/// The same numbers, without names.
fn nameless(stacks: &Stacks) -> Stacks {
    let mut bare = Stacks::default();
    for (number, module) in stacks.modules().iter().enumerate() {
        let path = format!("module-{}", number + 1);
        bare.add_module(Module { path, build_id: module.build_id.clone() });
    }
    for frame in stacks.frames() {
        bare.add_frame(Frame { calls: Vec::new(), ..frame.clone() });
    }
    for number in 1..=stacks.len() as u32 {
        let (parent, frame) = stacks.node(StackId(number)).unwrap_or_default();
        bare.add(parent, frame);
    }
    bare
}
