//! A recorded program as the load: a master that makes tasks, slaves that work, a master that uses results.
//!
//! Node 0 is the master. It makes a task when a slave is idle, and uses results first. With one node it
//! works, too. All tasks of a phase end before the next begins. What handing a task over costs is not
//! modelled: it is not the allocator's.

use super::load::{Act, Load};
use freehold_core::place::mesh::{HeapId, Mesh};
use std::collections::VecDeque;

/// One thing that a part of a task does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Compute with so many items: loads and stores.
    Accesses(u64),
    /// Ask for memory for an object; every number comes once.
    Malloc {
        /// Its number.
        object: u32,
        /// Bytes.
        size: u64,
    },
    /// Free an object.
    Free {
        /// Its number.
        object: u32,
    },
}

/// A task: made by the master, worked on by a slave, its result used by the master.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Task {
    /// The three parts.
    pub parts: [Vec<Op>; 3],
}

/// Phases of tasks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program {
    /// What it is called.
    pub name: String,
    /// The phases.
    pub phases: Vec<Vec<Task>>,
    /// Objects are numbered below this.
    pub objects: u32,
}

const MAKE: usize = 0;
const WORK: usize = 1;
const USE: usize = 2;

/// A program on a mesh.
#[derive(Debug)]
pub struct ProgramLoad<'a> {
    program: &'a Program,
    /// Cycles of computing for each access.
    access: u64,
    phase: usize,
    /// The next task to make, and how many of the phase are used.
    made: usize,
    used: usize,
    nodes: Vec<Worker>,
    /// Slaves without a task.
    idle: VecDeque<usize>,
    /// Tasks that wait for the master to use them.
    results: VecDeque<usize>,
    woken: VecDeque<usize>,
    /// Objects that have memory.
    live: Vec<bool>,
}

/// What a node is at.
#[derive(Clone, Debug, Default)]
struct Worker {
    /// Task and part.
    at: Option<(usize, usize)>,
    op: usize,
    paused: bool,
}

impl<'a> ProgramLoad<'a> {
    /// `program` on that mesh, at `access` cycles of computing for each of its accesses.
    pub fn new(program: &'a Program, mesh: Mesh, access: u64) -> ProgramLoad<'a> {
        ProgramLoad {
            program,
            access,
            phase: 0,
            made: 0,
            used: 0,
            nodes: vec![Worker::default(); mesh.heaps()],
            idle: (1..mesh.heaps()).collect(),
            results: VecDeque::new(),
            woken: VecDeque::new(),
            live: vec![false; program.objects as usize],
        }
    }

    fn tasks(&self) -> &'a [Task] {
        self.program.phases.get(self.phase).map_or(&[], Vec::as_slice)
    }

    /// What comes after the part that `node` has ended.
    fn part_ended(&mut self, node: usize) {
        let alone = self.nodes.len() == 1;
        let worker = &mut self.nodes[node];
        let Some((task, part)) = worker.at.take() else { return };
        worker.op = 0;
        match part {
            MAKE if alone => worker.at = Some((task, WORK)),
            WORK if alone => worker.at = Some((task, USE)),
            MAKE => {
                if let Some(slave) = self.idle.pop_front() {
                    self.nodes[slave].at = Some((task, WORK));
                    self.wake(slave);
                }
            }
            WORK => {
                self.results.push_back(task);
                self.idle.push_back(node);
                self.wake(0);
            }
            _ => self.used += 1,
        }
    }

    fn wake(&mut self, node: usize) {
        if std::mem::take(&mut self.nodes[node].paused) {
            self.woken.push_back(node);
        }
    }

    /// The master's next part, if there is one.
    fn choose(&mut self) {
        if self.used == self.tasks().len() && self.phase < self.program.phases.len() {
            (self.phase, self.made, self.used) = (self.phase + 1, 0, 0);
            return self.choose();
        }
        let alone = self.nodes.len() == 1;
        if let Some(task) = self.results.pop_front() {
            self.nodes[0].at = Some((task, USE));
        } else if self.made < self.tasks().len() && (alone || !self.idle.is_empty()) {
            self.nodes[0].at = Some((self.made, MAKE));
            self.made += 1;
        }
    }

    fn act(&self, op: Op) -> Option<Act> {
        match op {
            Op::Accesses(count) => Some(Act::Think(count * self.access)),
            Op::Malloc { object, size } => Some(Act::Malloc { object, size }),
            // What was refused has nothing to free.
            Op::Free { object } => self.live[object as usize].then_some(Act::Free { object }),
        }
    }
}

impl Load for ProgramLoad<'_> {
    fn next(&mut self, node: HeapId) -> Act {
        let at = node.index();
        loop {
            if self.nodes[at].at.is_none() && at == 0 {
                self.choose();
            }
            let Some((task, part)) = self.nodes[at].at else {
                self.nodes[at].paused = true;
                return Act::Pause;
            };
            let op =
                self.tasks().get(task).and_then(|task| task.parts[part].get(self.nodes[at].op));
            let Some(&op) = op else {
                self.part_ended(at);
                continue;
            };
            self.nodes[at].op += 1;
            if let Some(act) = self.act(op) {
                return act;
            }
        }
    }

    fn done(&mut self, _: HeapId, act: Act, served: bool) {
        match act {
            Act::Malloc { object, .. } => self.live[object as usize] = served,
            Act::Free { object } => self.live[object as usize] = false,
            Act::Think(_) | Act::Pause => {}
        }
    }

    fn woken(&mut self) -> Option<HeapId> {
        self.woken.pop_front().and_then(HeapId::new)
    }
}
