//! The file: pprof's `profile.proto`, not compressed (readers take both), written as it is made.
//!
//! Four values a sample, as in Go's heap profile: allocations and bytes ever, and those in use.
//! Addresses stay addresses: the mappings are in the file, and pprof resolves the names.

use super::build_id::Digits;
use super::{AGES, Amount, Site};
use crate::stats::Out;

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

    /// A message within this one.
    fn message(&mut self, field: u64, inner: &Message) {
        self.varint(key(field, 2)).varint(inner.len as u64);
        inner.as_bytes().iter().for_each(|&byte| self.byte(byte));
    }

    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

/// What the file says beside samples.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Bytes between samples, on average.
    pub rate: u64,
    /// Nanoseconds since 1970.
    pub date_ns: u64,
    /// Samples for which there was no place.
    pub lost: u64,
}

/// Writes the profile's fields: begun, then the [mappings](Self::mapping), then the [samples](Self::samples).
pub struct Writer<'a> {
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

/// The addresses of a file of code in memory.
#[derive(Clone, Copy, Default, Debug)]
pub struct Range {
    start: usize,
    limit: usize,
}

/// The files of code in memory that were written so far.
#[derive(Debug)]
pub struct Mappings<'a> {
    ranges: &'a mut [Range],
    count: usize,
    /// Where the last file of which we saw the beginning has it, before its code; and its number.
    begin: (usize, usize),
}

impl<'a> Mappings<'a> {
    /// None yet; there is room for so many as there are ranges.
    pub fn new(ranges: &'a mut [Range]) -> Mappings<'a> {
        Mappings { ranges, count: 0, begin: (0, 0) }
    }

    fn number_of(&self, address: usize) -> u64 {
        let known = self.ranges.iter().take(self.count);
        let found = known.map(|range| range.start..range.limit).position(|r| r.contains(&address));
        found.map_or(0, |at| at as u64 + 1)
    }
}

impl<'a> Writer<'a> {
    /// Begins a file.
    pub fn begin(out: &'a mut dyn Out, facts: Facts) -> Writer<'a> {
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
        writer.number(12, facts.rate);
        let frames = writer.string(b"freehold::.*|(__rust_)?(alloc|realloc|dealloc).*|malloc|calloc|realloc|aligned_alloc|posix_memalign|operator new.*");
        writer.number(7, frames);
        let default = writer.string(b"inuse_space");
        writer.number(14, default);
        writer.number(9, facts.date_ns);
        if facts.lost != 0 {
            let comment = writer.string(b"samples were lost: the tables were full");
            writer.number(13, comment);
        }
        writer
    }

    /// Writes the file of code that a line of `/proc/PID/maps` tells of. `build_id` is asked where its file begins.
    pub fn mapping(
        &mut self,
        line: &[u8],
        known: &mut Mappings<'_>,
        build_id: impl FnOnce(usize) -> Option<Digits>,
    ) {
        let Some(parsed) = parse(line) else { return };
        if parsed.offset == 0 {
            known.begin = (parsed.start, parsed.inode);
        }
        if let (true, Some(place)) = (parsed.is_code, known.ranges.get_mut(known.count)) {
            known.count += 1;
            *place = Range { start: parsed.start, limit: parsed.limit };
            let (start, inode) = known.begin;
            let build_id = (inode == parsed.inode).then(|| build_id(start)).flatten();
            write_mapping(self, known.count as u64, &parsed, build_id);
        }
    }

    /// Writes what the sites allocated, and every address of theirs once. `seen` is zero, and has more than as many
    /// places as the sites have frames: a power of two.
    pub fn samples<'s>(
        &mut self,
        sites: impl Iterator<Item = &'s Site> + Clone,
        known: &Mappings<'_>,
        seen: &mut [usize],
    ) {
        let labels = Labels::new(self);
        sites.clone().for_each(|site| write_samples(self, &labels, site));
        write_locations(self, sites, known, seen);
    }
}

/// The numbers of the strings that labels are made of.
struct Labels {
    lifetime: u64,
    age: u64,
    texts: [u64; AGES.len()],
}

impl Labels {
    fn new(writer: &mut Writer<'_>) -> Labels {
        Labels {
            lifetime: writer.string(b"lifetime"),
            age: writer.string(b"age"),
            texts: AGES.map(|(name, _)| writer.string(name)),
        }
    }
}

/// A sample for each age that blocks of the site reached, or have reached so far.
fn write_samples(writer: &mut Writer<'_>, labels: &Labels, site: &Site) {
    for (freed, text) in site.freed.iter().zip(labels.texts) {
        write_sample(writer, site, freed, Amount::default(), Some((labels.lifetime, text)));
    }
    for (in_use, text) in site.in_use.iter().zip(labels.texts) {
        write_sample(writer, site, in_use, *in_use, Some((labels.age, text)));
    }
    write_sample(writer, site, &site.forgotten, Amount::default(), None);
}

fn write_sample(
    writer: &mut Writer<'_>,
    site: &Site,
    allocated: &Amount,
    in_use: Amount,
    label: Option<(u64, u64)>,
) {
    if allocated.blocks == 0.0 {
        return;
    }
    let mut message = Message::new();
    for &frame in site.frames() {
        message.number(1, frame as u64);
    }
    for value in [allocated.blocks, allocated.bytes, in_use.blocks, in_use.bytes] {
        message.number(2, (value + 0.5) as u64);
    }
    if let Some((key, text)) = label {
        let mut label = Message::new();
        label.number(1, key).number(2, text);
        message.message(3, &label);
    }
    writer.bytes(2, message.as_bytes());
}

/// Every address once; its own number.
fn write_locations<'s>(
    writer: &mut Writer<'_>,
    sites: impl Iterator<Item = &'s Site>,
    known: &Mappings<'_>,
    seen: &mut [usize],
) {
    let last = seen.len().wrapping_sub(1);
    let all = sites.flat_map(|site| site.frames().iter().copied());
    for address in all.filter(|&address| address != 0) {
        let mut at = address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
        let new = loop {
            let Some(place) = seen.get_mut(at & last) else { break false };
            match *place {
                0 => {
                    *place = address;
                    break true;
                }
                other if other == address => break false,
                _ => at += 1,
            }
        };
        if new {
            let mut message = Message::new();
            message.number(1, address as u64).number(3, address as u64);
            message.number(2, known.number_of(address));
            writer.bytes(4, message.as_bytes());
        }
    }
}

/// A line of `/proc/PID/maps` about a file.
struct Line<'a> {
    start: usize,
    limit: usize,
    offset: usize,
    is_code: bool,
    inode: usize,
    name: &'a [u8],
}

/// A line about a file: `start-limit r-xp offset device inode name`.
fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let range = fields.next()?;
    let dash = range.iter().position(|&byte| byte == b'-')?;
    let (start, limit) = (hex(range.get(..dash)?)?, hex(range.get(dash + 1..)?)?);
    let is_code = fields.next()?.get(2) == Some(&b'x');
    let offset = hex(fields.next()?)?;
    let inode = core::str::from_utf8(fields.nth(1)?).ok()?.parse().ok()?;
    let name = fields.next()?.trim_ascii_start();
    name.starts_with(b"/").then_some(Line { start, limit, offset, is_code, inode, name })
}

fn hex(digits: &[u8]) -> Option<usize> {
    digits.iter().try_fold(0usize, |sum, &digit| {
        let value = (digit as char).to_digit(16)?;
        Some(sum.checked_mul(16)? + value as usize)
    })
}

fn write_mapping(writer: &mut Writer<'_>, id: u64, line: &Line<'_>, build_id: Option<Digits>) {
    let name = writer.string(line.name);
    let build_id = build_id.map(|digits| writer.string(digits.as_bytes()));
    let mut message = Message::new();
    message.number(1, id).number(2, line.start as u64).number(3, line.limit as u64);
    message.number(4, line.offset as u64).number(5, name);
    if let Some(build_id) = build_id {
        message.number(6, build_id);
    }
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
        assert!(parsed.is_code);
        assert_eq!(parsed.inode, 42);
        let data = parse(b"7f00a000-7f00b000 rw-p 00001000 08:01 42 /usr/lib/a.so");
        assert!(!data.expect("a file").is_code);
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
