//! What a trace says: events of the threads of processes, naming objects, never addresses.
//!
//! One invariant carries everything: **within a process, an object id is given to one live object
//! at a time**. Ids are dense and recycled, so a reader can hold live objects in a plain table whose
//! length is the peak number of live objects, however long the trace is.
//!
//! Neighbours: `writer` makes blocks of these, `reader` gives them back in the order of time.

use core::fmt;
use serde::{Deserialize, Serialize};

/// A point in time: ticks of the recording clock since the trace began.
/// [`Header::ticks_per_second`](crate::Header) turns ticks into seconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Tick(pub u64);

/// A process of the trace, numbered in the order of first appearance; `P0` is the program recorded.
/// An `exec` ends one process of a trace and begins another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ProcessId(pub u32);

/// A thread of one process, numbered in the order of first appearance; `T0` is the main thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ThreadId(pub u32);

/// A live object of one process. Dense, recycled after the object is freed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct ObjectId(pub u32);

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}
impl fmt::Debug for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P{}", self.0)
    }
}
impl fmt::Debug for ThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}", self.0)
    }
}
impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "o{}", self.0)
    }
}

/// Which family of functions the program called. A replay on a real allocator calls the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[repr(u8)]
pub enum Api {
    /// `malloc`, `realloc(NULL, …)`, `reallocarray(NULL, …)`; freed by `free`.
    #[default]
    Malloc = 0,
    /// `calloc`: the program relies on zeroes.
    Calloc = 1,
    /// `aligned_alloc`, `posix_memalign`, `memalign`, `valloc`, `pvalloc`.
    Aligned = 2,
    /// C++ `operator new`, plain or aligned.
    New = 3,
    /// C++ `operator new[]`, plain or aligned.
    NewArray = 4,
}

/// What was asked for when an object came to life, and what was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Bytes asked for.
    pub size: u64,
    /// log2 of the alignment asked for; 0 where the call names none (then malloc's own holds).
    pub align_log2: u8,
    /// The family called.
    pub api: Api,
    /// Bytes the recorded allocator made usable (`malloc_usable_size`); 0 where unknown.
    pub usable: u64,
}

/// One thing that happened in one thread.
///
/// Times: a free carries the time *before* the call, an allocation the time *after* it, a
/// reallocation both. Two events of one tick are ordered frees first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// An object comes to life under an id that no live object of the process has.
    Alloc {
        /// The id given.
        object: ObjectId,
        /// What was asked for.
        request: Request,
    },
    /// An object of this process dies. `remote` when another thread allocated or last resized it:
    /// a replay with real threads must then wait for that thread.
    Free {
        /// The id given back.
        object: ObjectId,
        /// Whether another thread made the object: the happens-before edge of this free.
        remote: bool,
    },
    /// An object changes its size, keeping its id.
    Realloc {
        /// The object.
        object: ObjectId,
        /// The new request (`api` is how the object was first made).
        request: Request,
        /// Whether another thread made or last resized the object.
        remote: bool,
        /// When the call began; the event's own tick is when it returned.
        began: Tick,
    },
    /// A forked child touches, for the first time, an object it inherited from its parent. It comes
    /// directly before the free or realloc that touches it.
    Inherit {
        /// The id given in the child.
        object: ObjectId,
        /// As the parent asked for it.
        request: Request,
    },
    /// A free (or realloc) of an address that no recorded call returned: the object was made before
    /// the recording began or by an allocator the recorder cannot see.
    UnknownFree,
    /// An allocation that returned null.
    Failed {
        /// What was asked for.
        request: Request,
    },
    /// The thread begins. First event of its thread, where its beginning was seen.
    ThreadStart,
    /// The thread ends. Last event of its thread, where its end was seen.
    ThreadEnd,
    /// The thread forked; `child` is the new process.
    Fork {
        /// The new process.
        child: ProcessId,
    },
    /// The program touched memory of an object: for cache, TLB and page models.
    Access {
        /// The object touched.
        object: ObjectId,
        /// Bytes from its start.
        offset: u64,
        /// Whether it wrote.
        write: bool,
    },
}

/// An event with its place in the trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// When.
    pub tick: Tick,
    /// In which process.
    pub process: ProcessId,
    /// In which thread of it.
    pub thread: ThreadId,
    /// What.
    pub event: Event,
}
