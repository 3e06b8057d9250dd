//! The recorded kernels as programs of tasks.
//!
//! They ship as traces, recorded by `freehold record -o fast.fht -- freehold workload kernel fast` (and so
//! on), with one slave, so that the tasks come one after the other and each part of one begins with a mark.
//! Each load and store of an item is an access: what a kernel computes between its calls.

use freehold_sim::mesh::{Op, Program, Task};
use freehold_trace::{Event, ProcessId, ReadError, Trace};
use freehold_workloads::access::{BARRIER, TASK};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Every kernel: its name and its trace.
const TRACES: [(&str, &[u8]); 5] = [
    ("fast", include_bytes!("../../../../../studies/mesh/fast.fht")),
    ("gaussian", include_bytes!("../../../../../studies/mesh/gaussian.fht")),
    ("integral", include_bytes!("../../../../../studies/mesh/integral.fht")),
    ("matmul", include_bytes!("../../../../../studies/mesh/matmul.fht")),
    ("quadtree", include_bytes!("../../../../../studies/mesh/quadtree.fht")),
];

/// Two of them in tiles of another side: recorded with `--side 4`, and `--side 6 --width 126`.
const OTHER_TILES: [(&str, &[u8]); 3] = [
    ("integral, 4 x 4", include_bytes!("../../../../../studies/mesh/integral-4.fht")),
    ("integral, 6 x 6", include_bytes!("../../../../../studies/mesh/integral-6.fht")),
    ("matmul, 4 x 4", include_bytes!("../../../../../studies/mesh/matmul-4.fht")),
];

/// A trace that is no program of tasks.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No temporary file for it.
    #[error(
        "the trace of {0} needs a temporary file: {1}; set TMPDIR to a folder that can be written"
    )]
    Temporary(&'static str, io::Error),
    /// It cannot be read.
    #[error("the trace of {0} cannot be read: {1}")]
    Read(&'static str, String),
    /// It has no tasks.
    #[error("the trace of {0} marks no tasks")]
    NoTasks(&'static str),
}

/// All of them; objects of more than `most` bytes are static data and left out.
///
/// # Errors
/// See [`ProgramError`].
pub fn programs(most: u64) -> Result<Vec<Program>, ProgramError> {
    TRACES.iter().map(|&(name, bytes)| program(name, bytes, most)).collect()
}

/// Those whose tiles have another side; as [`programs`].
///
/// # Errors
/// See [`ProgramError`].
pub fn in_other_tiles(most: u64) -> Result<Vec<Program>, ProgramError> {
    OTHER_TILES.iter().map(|&(name, bytes)| program(name, bytes, most)).collect()
}

fn program(name: &'static str, bytes: &[u8], most: u64) -> Result<Program, ProgramError> {
    let mut file = tempfile::Builder::new()
        .suffix(".fht")
        .tempfile()
        .map_err(|why| ProgramError::Temporary(name, why))?;
    file.write_all(bytes).map_err(|why| ProgramError::Temporary(name, why))?;
    let trace =
        Trace::open(file.path()).map_err(|why| ProgramError::Read(name, why.to_string()))?;
    let mut reading = Reading { most, ..Reading::default() };
    let read = |why: ReadError| ProgramError::Read(name, why.to_string());
    let mut records = trace.records_of(ProcessId(0)).map_err(read)?;
    while let Some(run) = records.next_run().map_err(read)? {
        run.events.iter().for_each(|timed| reading.apply(&timed.event));
    }
    let Reading { phases, objects, .. } = reading;
    let phases: Vec<Vec<Task>> = phases.into_iter().filter(|tasks| !tasks.is_empty()).collect();
    if phases.is_empty() {
        return Err(ProgramError::NoTasks(name));
    }
    Ok(Program { name: name.to_owned(), phases, objects })
}

/// A trace half read.
#[derive(Default)]
struct Reading {
    most: u64,
    watched: bool,
    phases: Vec<Vec<Task>>,
    /// Marks of the phase so far: three a task.
    marks: usize,
    /// Trace's names of objects that are alive, and ours.
    live: BTreeMap<u32, u32>,
    objects: u32,
}

impl Reading {
    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Access { offset, write, .. } if offset == BARRIER as u64 => self.barrier(write),
            Event::Access { offset, .. } if offset == TASK as u64 => self.mark(),
            Event::Access { .. } => self.access(),
            Event::Alloc { object, request } => self.malloc(object.0, request.size),
            Event::Free { object, .. } => self.free(object.0),
            Event::Realloc { object, request, .. } => {
                self.free(object.0);
                self.malloc(object.0, request.size);
            }
            _ => {}
        }
    }

    fn barrier(&mut self, begins: bool) {
        (self.watched, self.marks) = (begins, 0);
        if begins {
            self.phases.push(Vec::new());
        }
    }

    fn mark(&mut self) {
        if self.watched && self.marks.is_multiple_of(3) {
            self.phases.last_mut().into_iter().for_each(|tasks| tasks.push(Task::default()));
        }
        self.marks += usize::from(self.watched);
    }

    /// The ops of the part that is being read; `None` before the first of a phase.
    fn part(&mut self) -> Option<&mut Vec<Op>> {
        let part = self.marks.checked_sub(1)? % 3;
        self.phases.last_mut()?.last_mut().map(|task| &mut task.parts[part])
    }

    fn access(&mut self) {
        let Some(part) = self.part() else { return };
        match part.last_mut() {
            Some(Op::Accesses(count)) => *count += 1,
            _ => part.push(Op::Accesses(1)),
        }
    }

    fn malloc(&mut self, object: u32, size: u64) {
        if !self.watched || size > self.most {
            return;
        }
        let ours = self.objects;
        if let Some(part) = self.part() {
            part.push(Op::Malloc { object: ours, size });
            self.live.insert(object, ours);
            self.objects += 1;
        }
    }

    fn free(&mut self, object: u32) {
        let Some(object) = self.live.remove(&object) else { return };
        if let Some(part) = self.part() {
            part.push(Op::Free { object });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing is freed that was not allocated, and each part is who does it: inputs by the master, and
    /// gone when the task is.
    #[test]
    fn every_kernel_is_tasks_of_three_parts() {
        for program in [programs(1024).unwrap(), in_other_tiles(1024).unwrap()].concat() {
            let tasks: Vec<&Task> = program.phases.iter().flatten().collect();
            assert!(tasks.len() >= 64, "{}: {} tasks", program.name, tasks.len());
            let mut live = vec![false; program.objects as usize];
            for op in tasks.iter().flat_map(|task| task.parts.iter().flatten()) {
                match *op {
                    Op::Malloc { object, .. } => {
                        assert!(!std::mem::replace(&mut live[object as usize], true));
                    }
                    Op::Free { object } => {
                        assert!(std::mem::replace(&mut live[object as usize], false));
                    }
                    Op::Accesses(count) => assert!(count > 0),
                }
            }
            assert!(!live.contains(&true), "{}: an object stays", program.name);
        }
    }

    /// What tasks keep alive, one after the other, leaves room in the heaps of four nodes: no result is
    /// kept beyond its task. And what a kernel computes is told item by item, whatever its size.
    #[test]
    fn a_task_leaves_nothing_behind_and_every_access_is_told() {
        let accesses = |program: &Program| {
            let ops = program.phases.iter().flatten().flat_map(|task| task.parts.iter().flatten());
            ops.map(|op| if let Op::Accesses(count) = op { *count } else { 0 }).sum::<u64>()
        };
        let counts: Vec<u64> = programs(1024).unwrap().iter().map(accesses).collect();
        // Gaussian: 192 tiles; 144 pixels copied; 96 and 64 sums of 5 written; 64 pixels copied.
        assert_eq!(counts[1], 192 * (2 * 144 + 96 * 6 + 64 * 6 + 2 * 64));
        // Matrix: 512 pairs of blocks; 72 items copied; 216 products (of 36 x 6: left, right, sum) and 36 sums.
        assert_eq!(counts[3], 512 * (2 * 72 + 36 + 36 + 216 * 3 + 36 * 3));
    }
}
