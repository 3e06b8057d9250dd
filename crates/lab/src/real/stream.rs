//! Writing streams of operations into the flat file, a block at a time.
//!
//! Blocks of one stream are linked by jumps and grow from 1 KiB to 128 KiB, so that a thousand
//! short threads cost little and long ones jump rarely.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use freehold_replayer::{Kind, Op, flat};

const FIRST_OPS: usize = 64;
const MOST_OPS: usize = 8192;

/// Where an operation lies: counted in operations from the start of the file.
pub(super) type At = u64;

/// The flat file while it is written.
pub(super) struct Store {
    pub(super) file: File,
    /// The first operation of the file that belongs to no block.
    unused: At,
}

impl Store {
    pub(super) fn new(file: File) -> Store {
        Store { file, unused: (flat::HEADER_BYTES / Op::BYTES) as At }
    }

    fn reserve(&mut self, ops: usize) -> At {
        let at = self.unused;
        self.unused += ops as At;
        at
    }

    /// Writes a table of words after all blocks; returns its byte offset.
    pub(super) fn append_words(&mut self, words: &[u64]) -> io::Result<u64> {
        let at = self.unused * Op::BYTES as u64;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, at)?;
        self.unused += bytes.len().div_ceil(Op::BYTES) as At;
        Ok(at)
    }

    /// Bytes of the file so far.
    pub(super) fn bytes(&self) -> u64 {
        self.unused * Op::BYTES as u64
    }
}

/// The stream of one thread.
pub(super) struct Stream {
    /// Its first operation.
    pub(super) start: At,
    block: Vec<Op>,
    block_at: At,
    capacity: usize,
}

impl Stream {
    pub(super) fn new(store: &mut Store) -> Stream {
        let start = store.reserve(FIRST_OPS);
        Stream { start, block: Vec::new(), block_at: start, capacity: FIRST_OPS }
    }

    /// Appends operations that must lie beside each other; returns where the first lies.
    pub(super) fn push(&mut self, store: &mut Store, ops: &[Op]) -> io::Result<At> {
        // One more: the jump that ends a block.
        if self.block.len() + ops.len() + 1 > self.capacity {
            self.begin_block(store)?;
        }
        let at = self.block_at + self.block.len() as At;
        self.block.extend_from_slice(ops);
        Ok(at)
    }

    /// Marks the operation at `at`, which is of this stream, as one that hands its slot to another
    /// thread. In memory where its block still is; two small file accesses where it has left.
    pub(super) fn mark_handoff(&mut self, store: &Store, at: At) -> io::Result<()> {
        if at >= self.block_at {
            // A block in memory holds every operation from its start on.
            let here = &mut self.block[(at - self.block_at) as usize];
            *here = here.handing_off();
            return Ok(());
        }
        let mut bytes = [0; Op::BYTES];
        store.file.read_exact_at(&mut bytes, at * Op::BYTES as u64)?;
        let marked = Op::from_bytes(bytes).handing_off();
        store.file.write_all_at(&marked.to_bytes(), at * Op::BYTES as u64)
    }

    /// Writes what is still in memory.
    pub(super) fn flush(&mut self, store: &Store) -> io::Result<()> {
        let bytes: Vec<u8> = self.block.iter().flat_map(|op| op.to_bytes()).collect();
        store.file.write_all_at(&bytes, self.block_at * Op::BYTES as u64)
    }

    fn begin_block(&mut self, store: &mut Store) -> io::Result<()> {
        let capacity = (self.capacity * 2).min(MOST_OPS);
        let next = store.reserve(capacity);
        self.block.push(Op::plain(Kind::Jump, next));
        self.flush(store)?;
        self.block.clear();
        self.block_at = next;
        self.capacity = capacity;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_stream_is_found_again_by_its_jumps() {
        let mut store = Store::new(tempfile::tempfile().unwrap());
        let mut stream = Stream::new(&mut store);
        let op = |n: u32| Op::plain(Kind::Malloc, n.into()).on(n, 0);
        let places: Vec<At> =
            (0..20_000).map(|n| stream.push(&mut store, &[op(n)]).unwrap()).collect();
        for n in (0..20_000).step_by(77) {
            stream.mark_handoff(&store, places[n]).unwrap();
        }
        stream.push(&mut store, &[Op::plain(Kind::End, 0)]).unwrap();
        stream.flush(&store).unwrap();
        let (mut at, mut n) = (stream.start, 0u32);
        loop {
            let mut bytes = [0; Op::BYTES];
            store.file.read_exact_at(&mut bytes, at * Op::BYTES as u64).unwrap();
            let found = Op::from_bytes(bytes);
            at = match found.kind() {
                Some(Kind::Jump) => found.size(),
                Some(Kind::End) => break,
                _ => {
                    let handed = n.is_multiple_of(77);
                    assert!(found == if handed { op(n).handing_off() } else { op(n) });
                    n += 1;
                    at + 1
                }
            };
        }
        assert_eq!(n, 20_000);
    }
}
