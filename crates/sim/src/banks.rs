//! Machines with memory banks that can be switched off, and programs that use their page frames.
//!
//! ```text
//!   machine    nodes, zones, banks, sets             workload   processes, caches, storms: a stream of calls
//!   pages      who owns which frame: a reverse map    exchange   a stream of another make
//!   trace      recorded streams: kernel events, converted
//!   run        the stream on a policy of core, with the migration task; samples over time
//!   sections   what is in every 128 MiB               energy     banks' states, copies, transitions
//! ```
//!
//! Invariant: a stream does not depend on the policy it runs on (but where memory is exhausted), so that policies
//! are compared on the same calls; and what comes out is a function of machine, stream, policy and seed.

mod energy;
mod exchange;
mod machine;
mod pages;
mod run;
mod sections;
mod trace;
mod workload;

pub use energy::{Bill, DimmPower, Meter, StatePower};
pub use exchange::Exchange;
pub use machine::{BankMachine, BankMachineError, Metadata, Shape};
pub use run::{Halt, Run, RunSettings, Sample, Totals, Triggers, run};
pub use sections::{SECTION_FRAMES, Section, SectionCount, count};
pub use trace::{PageTrace, TraceError, TraceWriter, convert};
pub use workload::{
    Boot, Builds, Caches, Footprint, Processes, Sink, Slabs, Storms, Trigger, Workload,
};
