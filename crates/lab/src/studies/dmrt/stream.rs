//! A recorded program as the stream of requests.
//!
//! Of each object: its size, how many allocations lay between its own and its free, and its thread.
//! An attempt takes consecutive allocations from a place of its own in the trace; threads become
//! nodes in the order of their numbers, and where there is but one, nodes are drawn by their weights.

use crate::simulate::busiest;
use freehold_core::place::NodeId;
use freehold_sim::numa::{NEVER, Request};
use freehold_sim::random::Random;
use freehold_trace::{Event, OpenError, ReadError, Trace};

/// The most objects that are kept: a study of a longer trace sees its beginning.
const MOST: usize = 1 << 22;

/// A trace that cannot be the stream.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file.
    #[error("{path:?} is neither \"generator\" nor a trace: {source}")]
    Open {
        /// The path.
        path: String,
        /// What is wrong.
        source: OpenError,
    },
    /// Its contents.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Nothing in it.
    #[error("{path:?} allocates nothing, so there is nothing to request")]
    Empty {
        /// The path.
        path: String,
    },
}

/// One allocation of the program.
#[derive(Clone, Copy, Debug)]
struct Allocation {
    size: u64,
    lifetime: u64,
    thread: u32,
}

/// The allocations of a trace, in order.
#[derive(Debug)]
pub struct Stream {
    allocations: Vec<Allocation>,
    threads: u32,
}

impl Stream {
    /// Reads the busiest process of the trace at `path`.
    ///
    /// # Errors
    /// When it cannot be read or allocates nothing.
    pub fn open(path: &str) -> Result<Stream, StreamError> {
        let empty = || StreamError::Empty { path: path.to_owned() };
        let trace = Trace::open(path)
            .map_err(|source| StreamError::Open { path: path.to_owned(), source })?;
        let process = busiest(&trace).ok_or_else(empty)?;
        let mut records = trace.records_of(process)?;
        let mut stream = Stream { allocations: Vec::new(), threads: 1 };
        let mut alive: Vec<Option<usize>> = Vec::new();
        while let Some(run) = records.next_run()? {
            for timed in run.events {
                stream.event(&timed.event, run.thread.0, &mut alive);
            }
            if stream.allocations.len() >= MOST {
                break;
            }
        }
        if stream.allocations.is_empty() { Err(empty()) } else { Ok(stream) }
    }

    fn event(&mut self, event: &Event, thread: u32, alive: &mut Vec<Option<usize>>) {
        match *event {
            Event::Alloc { object, request } | Event::Inherit { object, request } => {
                let id = object.0 as usize;
                if id >= alive.len() && id <= self.allocations.len() + alive.len() {
                    alive.resize(id + 1, None);
                }
                if let Some(slot) = alive.get_mut(id) {
                    *slot = Some(self.allocations.len());
                }
                self.threads = self.threads.max(thread + 1);
                let lifetime = NEVER;
                self.allocations.push(Allocation { size: request.size, lifetime, thread });
            }
            Event::Free { object, .. } => {
                let slot = alive.get_mut(object.0 as usize).and_then(Option::take);
                let now = self.allocations.len();
                if let Some(allocation) =
                    slot.and_then(|at| Some((at, self.allocations.get_mut(at)?)))
                {
                    allocation.1.lifetime = (now - allocation.0) as u64;
                }
            }
            _ => {}
        }
    }

    /// `count` requests for a machine of `nodes` nodes; attempt `attempt`'s.
    pub fn requests(
        &self,
        seed: u64,
        attempt: &[u64],
        count: usize,
        node_weights: &[u32],
    ) -> Vec<Request> {
        let mut random = Random::named(seed, attempt);
        let start = random.below(self.allocations.len() as u64) as usize;
        let nodes = node_weights.len().max(1);
        let along = self.allocations.iter().cycle().skip(start).take(count);
        let one = |allocation: &Allocation| {
            let drawn = random.weighted(node_weights);
            let index = if self.threads > 1 { allocation.thread as usize % nodes } else { drawn };
            let node = NodeId::new(index).or(NodeId::new(0));
            node.map(|node| Request { node, size: allocation.size, lifetime: allocation.lifetime })
        };
        along.filter_map(one).collect()
    }
}
