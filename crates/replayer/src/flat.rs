//! The head of the flat file: where the streams begin and how many things there are.
//!
//! Offsets of operations count in operations (16 bytes) from the start of the file; offset 0 is the
//! header itself and means "none". All numbers are little-endian 64-bit words.

/// `FHFLAT` and the version of this layout. Writer and reader are built together; the number only
/// catches a replayer of another build.
pub const MAGIC: u64 = u64::from_le_bytes(*b"FHFLAT02");

/// Bytes before the first operation.
pub const HEADER_BYTES: usize = 4096;

/// What the replayer must know before it starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Threads, the main one included; the thread table has as many first operations.
    pub threads: u64,
    /// Byte offset of the thread table (u64 each: the first operation of thread 0, 1, …).
    pub threads_at: u64,
    /// Threads whose end the trace has (never the main one).
    pub ended: u64,
    /// Byte offset of the end table (u64 each: threads in the order in which they ended).
    pub ended_at: u64,
    /// Slots of the table of objects.
    pub slots: u64,
    /// First operation of the stream of inherited objects, made before the clock starts; 0 = none.
    pub inherited_at: u64,
    /// Allocations, frees and reallocations in all streams, inherited objects apart.
    pub events: u64,
    /// Only samples at multiples of this position are taken; never 0.
    pub stride: u64,
    /// Events in a phase; never 0.
    pub phase: u64,
    /// Length of the recorded run, nanoseconds.
    pub elapsed_ns: u64,
    /// Bytes of the whole file.
    pub bytes: u64,
}

impl Header {
    const WORDS: usize = 12;

    /// As it lies in the file.
    pub fn to_bytes(&self) -> [u8; Self::WORDS * 8] {
        let words = [
            MAGIC,
            self.threads,
            self.threads_at,
            self.ended,
            self.ended_at,
            self.slots,
            self.inherited_at,
            self.events,
            self.stride,
            self.phase,
            self.elapsed_ns,
            self.bytes,
        ];
        let mut bytes = [0; Self::WORDS * 8];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From the start of a file; `None` where it is too short, of another layout, or does not hold
    /// together.
    pub fn from_bytes(bytes: &[u8]) -> Option<Header> {
        let mut words = bytes
            .get(..Self::WORDS * 8)?
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()));
        let mut next = || words.next().unwrap_or_default();
        if next() != MAGIC {
            return None;
        }
        let header = Header {
            threads: next(),
            threads_at: next(),
            ended: next(),
            ended_at: next(),
            slots: next(),
            inherited_at: next(),
            events: next(),
            stride: next(),
            phase: next(),
            elapsed_ns: next(),
            bytes: next(),
        };
        header.holds_together().then_some(header)
    }

    fn holds_together(&self) -> bool {
        let table_fits = |at: u64, count: u64| {
            at.is_multiple_of(8)
                && at >= HEADER_BYTES as u64
                && count
                    .checked_mul(8)
                    .and_then(|b| b.checked_add(at))
                    .is_some_and(|e| e <= self.bytes)
        };
        self.threads > 0
            && self.stride > 0
            && self.phase > 0
            && table_fits(self.threads_at, self.threads)
            && table_fits(self.ended_at, self.ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Header {
        Header {
            threads: 3,
            threads_at: 8192,
            ended: 1,
            ended_at: 8216,
            slots: 640,
            inherited_at: 300,
            events: 12,
            stride: 1,
            phase: 8,
            elapsed_ns: 5,
            bytes: 8224,
        }
    }

    #[test]
    fn survives_the_file() {
        assert_eq!(Header::from_bytes(&example().to_bytes()), Some(example()));
    }

    #[test]
    fn refuses_what_does_not_hold_together() {
        let refused = |change: fn(&mut Header)| {
            let mut header = example();
            change(&mut header);
            Header::from_bytes(&header.to_bytes()).is_none()
        };
        assert!(refused(|h| h.threads = 0));
        assert!(refused(|h| h.stride = 0));
        assert!(refused(|h| h.phase = 0));
        assert!(refused(|h| h.bytes = 8223));
        assert!(refused(|h| h.ended = u64::MAX));
        assert!(refused(|h| h.threads_at = 7));
        assert!(Header::from_bytes(&example().to_bytes()[..40]).is_none());
        assert!(Header::from_bytes(&[0; 4096]).is_none());
    }
}
