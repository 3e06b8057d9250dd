//! A guest: a stock Debian kernel under QEMU, on a machine with as many memories as are wanted.
//!
//! ```text
//! machine    nodes, processors, distances, memory-only nodes, memory to be plugged: QEMU's arguments
//! kernel     Debian's cloud kernel, downloaded and unpacked, never installed
//! libraries  what a program is linked with
//! initramfs  the archive that the guest boots from: a shell, modules, the given files
//! run        boots it, runs one command, brings back output, files and exit code
//! ```
//!
//! Software emulation is enough: a boot takes about five seconds. What is timed in a guest says nothing; where
//! pages lie is the real kernel's word.
//!
//! Nothing here is used by what ships.

mod initramfs;
mod kernel;
mod libraries;
mod machine;
mod run;

pub use kernel::Kernel;
pub use machine::{Bytes, Dimm, Machine, Node};
pub use run::{Finished, Job, missing_tool};
