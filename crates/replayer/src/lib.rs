//! What the laboratory and the replayer program agree on: the flat file of a prepared process, and
//! the histogram in which latencies come back. Also how threads wait for their [`turn`], where loom
//! can check it.
//!
//! The library allocates nothing; the program beside it (`main.rs`) is the only
//! place where the tested malloc is called. Neighbours: `lab::real::prepare` writes the flat file,
//! `lab::real::answers` reads what the program prints.
//!
//! ```text
//! flat file:   header page | blocks of ops, linked by Jump | thread table | end order
//! a stream:    [op op op … Jump]──>[op op … Jump]──>[op … End]
//! ```

pub mod flat;
pub mod futex;
pub mod histogram;
pub mod op;
pub mod turn;

pub use flat::Header;
pub use histogram::Bucket;
pub use op::{Kind, Op};
