//! The file: pprof's `profile.proto`, not compressed (readers take both), written as it is made.
//!
//! Four values a sample, as in Go's heap profile: allocations and bytes ever, and those in use.
//! Addresses stay addresses: the mappings are in the file, and pprof resolves the names.

use super::table::{Site, Tables};
use crate::off_heap::{Table, Zeroed};
use core::ffi::CStr;
use freehold_core::stats::Out;

/// Files of code that can be told apart.
const MAPPINGS: usize = 1024;

/// A field's number and wire type (varint 0, length-delimited 2), as the specification of protocol
/// buffers has them.
const fn key(field: u64, wire: u64) -> u64 {
    field << 3 | wire
}

/// A message that is short enough to be made whole before it is written.
struct Message {
    bytes: [u8; 1024],
    len: usize,
}

impl Message {
    fn new() -> Message {
        Message { bytes: [0; 1024], len: 0 }
    }

    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len += 1;
        }
    }

    #[inline(never)]
    fn varint(&mut self, mut value: u64) -> &mut Self {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
        self
    }

    fn number(&mut self, field: u64, value: u64) -> &mut Self {
        self.varint(key(field, 0)).varint(value)
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

/// Writes the profile's fields.
struct Writer<'a> {
    out: &'a mut dyn Out,
    strings: u64,
}

impl Writer<'_> {
    #[inline(never)]
    fn number(&mut self, field: u64, value: u64) {
        let mut message = Message::new();
        message.number(field, value);
        self.out.put(message.as_bytes());
    }

    #[inline(never)]
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        let mut head = Message::new();
        head.varint(key(field, 2)).varint(bytes.len() as u64);
        self.out.put(head.as_bytes());
        self.out.put(bytes);
    }

    /// Adds a string to the table; its number.
    fn string(&mut self, text: &[u8]) -> u64 {
        self.bytes(6, text);
        self.strings += 1;
        self.strings - 1
    }

    fn value_type(&mut self, field: u64, kind: &[u8], unit: &[u8]) {
        let (kind, unit) = (self.string(kind), self.string(unit));
        let mut message = Message::new();
        message.number(1, kind).number(2, unit);
        self.bytes(field, message.as_bytes());
    }
}

/// A file of code in memory.
#[derive(Clone, Copy)]
struct Mapping {
    start: usize,
    limit: usize,
}

// SAFETY: numbers.
unsafe impl Zeroed for Mapping {}

/// An address that was written already; 0 for an empty place.
#[derive(Clone, Copy)]
struct Seen(usize);

// SAFETY: a number.
unsafe impl Zeroed for Seen {}

/// Writes what the tables hold; `rate` is the bytes between samples.
pub fn write(tables: &Tables, rate: u64, out: &mut dyn Out) {
    let mut writer = Writer { out, strings: 0 };
    writer.string(b"");
    for (kind, unit) in [
        (b"alloc_objects".as_slice(), b"count".as_slice()),
        (b"alloc_space", b"bytes"),
        (b"inuse_objects", b"count"),
        (b"inuse_space", b"bytes"),
    ] {
        writer.value_type(1, kind, unit);
    }
    writer.value_type(11, b"space", b"bytes");
    writer.number(12, rate);
    let frames = writer.string(b"freehold::.*|(__rust_)?(alloc|realloc|dealloc).*|malloc|calloc|realloc|aligned_alloc|posix_memalign|operator new.*");
    writer.number(7, frames);
    let default = writer.string(b"inuse_space");
    writer.number(14, default);
    writer.number(9, now_ns());
    if tables.lost != 0 {
        let comment = writer.string(b"samples were lost: the tables were full");
        writer.number(13, comment);
    }
    let Some(mut mappings) = Table::new(MAPPINGS) else { return };
    write_mappings(&mut writer, &mut mappings);
    tables.sites().for_each(|site| write_sample(&mut writer, site));
    write_locations(&mut writer, tables, &mappings);
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

fn write_sample(writer: &mut Writer<'_>, site: &Site) {
    let mut message = Message::new();
    for &frame in site.frames() {
        message.number(1, frame as u64);
    }
    let (allocated, in_use) = (site.allocated, site.in_use);
    for value in [allocated.0, allocated.1, in_use.0, in_use.1] {
        message.number(2, (value + 0.5) as u64);
    }
    writer.bytes(2, message.as_bytes());
}

/// Every address once; its own number.
fn write_locations(writer: &mut Writer<'_>, tables: &Tables, mappings: &[Mapping]) {
    let all = || tables.sites().flat_map(|site| site.frames().iter().copied());
    let places = (all().count() * 2).max(16).next_power_of_two();
    let Some(mut seen) = Table::<Seen>::new(places) else { return };
    for address in all().filter(|&address| address != 0) {
        let mut at = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let new = loop {
            let Some(place) = seen.get_mut(at & (places - 1)) else { break false };
            match place.0 {
                0 => {
                    place.0 = address;
                    break true;
                }
                other if other == address => break false,
                _ => at += 1,
            }
        };
        if new {
            let found = mappings.iter().position(|m| (m.start..m.limit).contains(&address));
            let mut message = Message::new();
            message.number(1, address as u64).number(3, address as u64);
            message.number(2, found.map_or(0, |number| number as u64 + 1));
            writer.bytes(4, message.as_bytes());
        }
    }
}

/// Writes the files of code in memory, and keeps where they are.
fn write_mappings(writer: &mut Writer<'_>, mappings: &mut [Mapping]) {
    let mut count = 0;
    each_line(c"/proc/self/maps", |line| {
        if let (Some(parsed), Some(place)) = (parse(line), mappings.get_mut(count)) {
            count += 1;
            *place = Mapping { start: parsed.start, limit: parsed.limit };
            write_mapping(writer, count as u64, &parsed);
        }
    });
}

/// Calls `visit` with every line of a file, up to one that is longer than 8 KiB.
fn each_line(path: &CStr, mut visit: impl FnMut(&[u8])) {
    // SAFETY: the name is a C string.
    let file = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return;
    }
    let mut buffer = [0u8; 8192];
    let mut len = 0;
    while let Some(free) = buffer.get_mut(len..).filter(|free| !free.is_empty()) {
        // SAFETY: reads into bytes of ours.
        let got = unsafe { libc::read(file, free.as_mut_ptr().cast(), free.len()) };
        let Some(got) = usize::try_from(got).ok().filter(|&got| got > 0) else { break };
        len += got;
        let read = buffer.get(..len).unwrap_or(&[]);
        let lines = read.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        for line in read.get(..lines).unwrap_or(&[]).split(|&byte| byte == b'\n') {
            visit(line);
        }
        // What follows the last line's end is the beginning of the next.
        for at in lines..len {
            let byte = buffer.get(at).copied().unwrap_or(0);
            if let Some(place) = buffer.get_mut(at - lines) {
                *place = byte;
            }
        }
        len -= lines;
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(file) };
}

struct Line<'a> {
    start: usize,
    limit: usize,
    offset: usize,
    name: &'a [u8],
}

/// A line of code from a file: `start-limit r-xp offset device inode name`.
fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let range = fields.next()?;
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let (start, limit) = (hex(range.get(..dash)?)?, hex(range.get(dash + 1..)?)?);
    let is_code = fields.next()?.get(2) == Some(&b'x');
    let offset = hex(fields.next()?)?;
    let name = fields.nth(2)?.trim_ascii_start();
    (is_code && name.starts_with(b"/")).then_some(Line { start, limit, offset, name })
}

fn hex(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0usize, |sum, &digit| {
        let value = (digit as char).to_digit(16)?;
        Some(sum.checked_mul(16)? + value as usize)
    })
}

fn write_mapping(writer: &mut Writer<'_>, id: u64, line: &Line<'_>) {
    let name = writer.string(line.name);
    let mut message = Message::new();
    message.number(1, id).number(2, line.start as u64).number(3, line.limit as u64);
    message.number(4, line.offset as u64).number(5, name);
    writer.bytes(3, message.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let line = b"7f00a000-7f00b000 r-xp 00001000 08:01 42                 /usr/lib/a b.so";
        let parsed = parse(line).expect("code from a file");
        assert_eq!((parsed.start, parsed.limit, parsed.offset), (0x7f00a000, 0x7f00b000, 0x1000));
        assert_eq!(parsed.name, b"/usr/lib/a b.so");
        assert!(parse(b"7f00a000-7f00b000 rw-p 00001000 08:01 42 /usr/lib/a.so").is_none());
        assert!(parse(b"7f00a000-7f00b000 r-xp 00000000 00:00 0").is_none());
        assert!(parse(b"").is_none());
    }

    #[test]
    fn varints_are_as_specified() {
        let mut message = Message::new();
        message.number(2, 300).number(1, 0);
        assert_eq!(message.as_bytes(), [0x10, 0xAC, 0x02, 0x08, 0x00]);
    }
}
