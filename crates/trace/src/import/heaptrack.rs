//! heaptrack: a line begins with a letter, numbers are hexadecimal.
//!
//! Interpreted files (what `heaptrack` leaves): `a SIZE TRACE` numbers a kind of allocation, `+ N`
//! allocates one of kind N, `- N` frees one. Raw files (`heaptrack --raw`): `+ SIZE TRACE ADDRESS`
//! and `- ADDRESS`. Both: `c MS` is the time, `X` the command; the rest is about call stacks.

use super::Format;
use super::scribe::Scribe;
use crate::event::Request;
use crate::event::Tick;

/// Kinds are numbered from 0 without gaps, so this bounds nothing that a real file has.
const MAX_FILE_VERSION: u64 = 3;

#[derive(Default)]
pub(super) struct Reader {
    kinds: Vec<Kind>,
    /// Made-up addresses for objects of interpreted files.
    next_address: u64,
    command: Vec<String>,
}

struct Kind {
    size: u64,
    /// The addresses of its live objects, youngest last.
    live: Vec<u64>,
}

impl Format for Reader {
    fn line(&mut self, line: &str, scribe: &mut Scribe) -> Result<bool, String> {
        let Some((letter, rest)) = line.split_at_checked(1) else { return Ok(false) };
        let fields = || rest.split_ascii_whitespace();
        match letter {
            "+" => self.alloc(&numbers(fields())?, scribe),
            "-" => self.free(&numbers(fields())?, scribe),
            "a" => {
                let [size, _trace] = numbers(fields())?[..] else { return Err(fields_of("a")) };
                self.kinds.push(Kind { size, live: Vec::new() });
                Ok(false)
            }
            "c" => {
                let [ms] = numbers(fields())?[..] else { return Err(fields_of("c")) };
                scribe.set_time(Tick(ms));
                Ok(false)
            }
            "v" => version(&numbers(fields())?),
            "X" => {
                self.command = fields().map(str::to_owned).collect();
                Ok(false)
            }
            // Call stacks, strings, modules, memory of the system, comments.
            "#" | "s" | "i" | "t" | "R" | "I" | "A" | "S" | "m" | "x" | "e" => Ok(false),
            other => Err(format!("unknown kind of line {other:?}")),
        }
    }

    fn command(&self) -> Vec<String> {
        self.command.clone()
    }
}

impl Reader {
    fn alloc(&mut self, fields: &[u64], scribe: &mut Scribe) -> Result<bool, String> {
        scribe.begin_clock();
        match *fields {
            [kind] => {
                self.next_address += 16;
                let address = self.next_address;
                let kind = self.kind(kind)?;
                kind.live.push(address);
                scribe.alloc(address, request(kind.size));
            }
            [size, _trace, address] => scribe.alloc(address, request(size)),
            _ => return Err(fields_of("+")),
        }
        Ok(true)
    }

    fn free(&mut self, fields: &[u64], scribe: &mut Scribe) -> Result<bool, String> {
        scribe.begin_clock();
        let [number] = *fields else { return Err(fields_of("-")) };
        // A raw file has no kinds, and names an address.
        if self.kinds.is_empty() {
            scribe.free(number);
            return Ok(true);
        }
        let freed = self.kind(number)?.live.pop();
        scribe.free(freed.ok_or_else(|| format!("no object of kind {number:x} is live"))?);
        Ok(true)
    }

    fn kind(&mut self, number: u64) -> Result<&mut Kind, String> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        self.kinds
            .get_mut(index)
            .ok_or_else(|| format!("no allocation of kind {number:x} was told of"))
    }
}

fn version(fields: &[u64]) -> Result<bool, String> {
    match *fields {
        [_, file] if file > MAX_FILE_VERSION => {
            Err(format!("version {file} of heaptrack's format is newer than {MAX_FILE_VERSION}"))
        }
        [_] | [_, _] => Ok(false),
        _ => Err(fields_of("v")),
    }
}

fn fields_of(letter: &str) -> String {
    format!("`{letter}` with a wrong number of fields")
}

fn numbers<'a>(fields: impl Iterator<Item = &'a str>) -> Result<Vec<u64>, String> {
    let number = |field: &str| {
        u64::from_str_radix(field, 16).map_err(|_| format!("{} is no number", field.escape_debug()))
    };
    // No line with numbers has more than a few.
    fields.take(8).map(number).collect()
}

fn request(size: u64) -> Request {
    Request { size, ..Request::default() }
}
