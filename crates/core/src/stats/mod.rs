//! Statistics as people and machines read them: one report, four formats.
//!
//! ```text
//! text        for a terminal: malloc_stats, freehold top, the end of freehold run
//! json        schema 1, for programs
//! metrics     OpenMetrics 1.0, for monitoring
//! xml         malloc_info, of glibc's shape
//! page        where another process finds what to report
//! profile     the sampled profile: where it is found, and as a file for pprof
//! ```
//!
//! Pure functions from a [`Report`] to bytes: no allocation, no formatting machinery, no clock. The
//! malloc writes by them from inside a process, the command line from outside, with equal bytes.

mod json;
mod metrics;
pub mod page;
mod plain;
pub mod profile;
mod text;
mod xml;

use crate::malloc::census::Census;
use crate::size_class::CLASSES;

/// Where a report is written to.
pub trait Out {
    /// Takes some bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl<F: FnMut(&[u8])> Out for F {
    fn put(&mut self, bytes: &[u8]) {
        self(bytes);
    }
}

/// How a report is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// What `malloc_info` writes.
    Xml,
}

/// Longest name of a heap, in bytes.
pub const NAME_MAX: usize = 31;

/// A heap's name: bytes that every format can hold without quoting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Name {
    len: u8,
    bytes: [u8; NAME_MAX],
}

impl Name {
    /// The name, cut to [`NAME_MAX`]; what is no letter, digit, `-`, `_`, `.`, `:` or space becomes
    /// `_`.
    pub const fn new(text: &[u8]) -> Name {
        let mut name = Name { len: 0, bytes: [0; NAME_MAX] };
        while (name.len as usize) < NAME_MAX && (name.len as usize) < text.len() {
            let byte = text[name.len as usize];
            let plain =
                byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b' ');
            name.bytes[name.len as usize] = if plain { byte } else { b'_' };
            name.len += 1;
        }
        name
    }

    /// The name's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len as usize).unwrap_or(&self.bytes)
    }
}

/// One heap of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapReport {
    /// What its maker calls it; `main` is the process's own.
    pub name: Name,
    /// The most it may hold, in bytes; 0 is no limit.
    pub limit: u64,
    /// What it holds.
    pub census: Census,
}

/// Exact counts, kept only on request (`FREEHOLD_STATS=1`). Sizes are those of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// Blocks handed out, by class; the last are those above all classes.
    pub allocated: [u64; CLASSES + 1],
    /// Blocks taken back, likewise.
    pub freed: [u64; CLASSES + 1],
    /// Calls that resized a block, each also counted as above when the block moved.
    pub resized: u64,
    /// Bytes handed out since the start.
    pub bytes: u64,
    /// Bytes that the program has.
    pub live: u64,
    /// The most it ever had.
    pub peak: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts {
            allocated: [0; CLASSES + 1],
            freed: [0; CLASSES + 1],
            resized: 0,
            bytes: 0,
            live: 0,
            peak: 0,
        }
    }
}

/// Blocks of all classes. Never inlined: it is long where the compiler adds several numbers at once.
#[inline(never)]
fn sum(blocks: &[u64; CLASSES + 1]) -> u64 {
    blocks.iter().sum()
}

/// Statistics of a process.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The process.
    pub pid: u32,
    /// Its heaps, the main one first.
    pub heaps: &'a [HeapReport],
    /// Exact counts of the main heap, if they are kept.
    pub counts: Option<&'a Counts>,
}

impl Report<'_> {
    /// Writes the report.
    pub fn write(&self, format: Format, out: &mut dyn Out) {
        match format {
            Format::Text => text::write(self, out),
            Format::Json => json::write(self, out),
            Format::OpenMetrics => metrics::write(self, out),
            Format::Xml => xml::write(self, out),
        }
    }
}

/// A gauge that every format shows of every heap: its name, what it says, and its value.
struct Gauge {
    name: &'static [u8],
    help: &'static [u8],
    of: fn(&HeapReport) -> u64,
}

/// In bytes, all of them.
const GAUGES: [Gauge; 9] = [
    Gauge { name: b"in_use", help: b"Blocks that the program has.", of: |h| h.census.in_use() },
    Gauge { name: b"cached", help: b"Free blocks in threads' caches.", of: |h| h.census.cached() },
    Gauge { name: b"free", help: b"Free blocks of slabs.", of: |h| h.census.free() },
    Gauge { name: b"purged", help: b"Slabs' pages given back.", of: |h| h.census.purged },
    Gauge { name: b"large", help: b"Blocks above 64 KiB.", of: |h| h.census.large_bytes },
    Gauge { name: b"held", help: b"Slabs, large blocks and caches.", of: |h| h.census.held },
    Gauge { name: b"dirty", help: b"Free units, maybe resident.", of: |h| h.census.dirty },
    Gauge { name: b"committed", help: b"Address space in use.", of: |h| h.census.committed },
    Gauge { name: b"limit", help: b"The most it may hold; 0 is no limit.", of: |h| h.limit },
];

/// The decimal digits of a number, in a buffer of its own.
struct Decimal {
    digits: [u8; 20],
    first: usize,
}

impl Decimal {
    fn new(mut value: u64) -> Decimal {
        let mut digits = [b'0'; 20];
        let mut first = digits.len();
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (value % 10) as u8;
            first -= 1;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        Decimal { digits, first }
    }

    fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.first..).unwrap_or(&self.digits)
    }
}

/// Writes strings and numbers one after the other. Never inlined: a report is a thousand calls of few kinds.
struct Pen<'a>(&'a mut dyn Out);

impl Pen<'_> {
    #[inline(never)]
    fn text(&mut self, text: &[u8]) -> &mut Self {
        self.0.put(text);
        self
    }

    #[inline(never)]
    fn number(&mut self, value: u64) -> &mut Self {
        self.0.put(Decimal::new(value).as_bytes());
        self
    }

    /// At the right edge of `width` columns.
    fn column(&mut self, value: u64, width: usize) -> &mut Self {
        let decimal = Decimal::new(value);
        self.pad(width, decimal.as_bytes())
    }

    #[inline(never)]
    fn pad(&mut self, width: usize, text: &[u8]) -> &mut Self {
        const BLANKS: [u8; 32] = [b' '; 32];
        let missing = width.saturating_sub(text.len());
        self.0.put(BLANKS.get(..missing).unwrap_or(&BLANKS));
        self.0.put(text);
        self
    }

    /// As people read sizes: `12.3 MiB`.
    #[inline(never)]
    fn size(&mut self, bytes: u64) -> &mut Self {
        const UNITS: [&[u8]; 4] = [b" KiB", b" MiB", b" GiB", b" TiB"];
        if bytes < 1024 {
            return self.number(bytes).text(b" B");
        }
        let power = (bytes.ilog2() / 10 - 1).min(UNITS.len() as u32 - 1);
        let scaled = ((bytes as u128 * 10) >> ((power + 1) * 10)) as u64;
        self.number(scaled / 10).text(b".").number(scaled % 10);
        self.text(UNITS.get(power as usize).copied().unwrap_or(b" B"))
    }
}

#[cfg(test)]
mod tests;
