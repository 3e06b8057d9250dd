//! Events to bytes and back, one block at a time.
//!
//! A block is split into columns (ops, times, ids …), each compressed on its own: what is alike
//! stands together, and each column has its own statistics. Encoder and decoder keep the same small
//! state, which starts afresh with every block, so that each block can be read alone.
//!
//! Neighbours: `columns` stores and loads the columns, `requests` holds the shared table of recent
//! requests, `ids` predicts object ids, `stacks` names call stacks; `encode` and `decode` drive them.

pub(crate) mod columns;
mod decode;
mod encode;
mod ids;
mod requests;
mod stacks;
#[cfg(test)]
mod tests;

pub(crate) use decode::Decoder;
pub use decode::Timed;
pub(crate) use encode::Encoder;

/// Op bytes below this are allocations by a recent request, which the byte itself names.
const OP_RECENT: u8 = 192;
/// An allocation by a request that is new to the block.
const OP_ALLOC: u8 = 0xc0;
const OP_FREE: u8 = 0xc1;
const OP_FREE_REMOTE: u8 = 0xc2;
const OP_REALLOC: u8 = 0xc3;
const OP_REALLOC_REMOTE: u8 = 0xc4;
const OP_INHERIT: u8 = 0xc5;
const OP_UNKNOWN_FREE: u8 = 0xc6;
const OP_FAILED: u8 = 0xc7;
const OP_THREAD_START: u8 = 0xc8;
const OP_THREAD_END: u8 = 0xc9;
const OP_FORK: u8 = 0xca;
const OP_READ: u8 = 0xcb;
const OP_WRITE: u8 = 0xcc;
// Everything above is an event of a later version: its body, with its length before it, stands in
// the column of extensions.

/// In the column of slots: the request is new and stands in the column of requests.
const SLOT_NEW: u8 = 0xff;

/// Most raw bytes one event can take over all columns.
const MAX_EVENT: usize = 80;
