//! heaptrack: a line begins with a letter, numbers are hexadecimal.
//!
//! Interpreted files (what `heaptrack` leaves): `a SIZE TRACE` numbers a kind of allocation, `+ N`
//! allocates one of kind N, `- N` frees one. Raw files (`heaptrack --raw`): `+ SIZE TRACE ADDRESS`
//! and `- ADDRESS`. Both: `c MS` is the time, `X` the command.
//!
//! Call stacks of interpreted files: `s LENGTH TEXT` (before version 3: `s TEXT`) numbers a string, `i ADDRESS MODULE` and triples of function, file
//! and line, the innermost first, a place in the code, `t PLACE PARENT` a stack; all from 1, and 0 is none. That is how [`Stacks`] numbers
//! frames and stacks, too. Those of raw files have addresses only, and are passed over.

use super::Format;
use super::scribe::Scribe;
use crate::event::Request;
use crate::event::Tick;
use crate::stacks::{Call, Frame, FrameId, Module, StackId, Stacks};
use rustc_hash::FxHashMap;

/// Kinds are numbered from 0 without gaps, so this bounds nothing that a real file has.
const MAX_FILE_VERSION: u64 = 3;

#[derive(Default)]
pub(super) struct Reader {
    file_version: u64,
    strings: Vec<String>,
    /// By the number of the string with its path.
    modules: FxHashMap<usize, u32>,
    stacks: Stacks,
    kinds: Vec<Kind>,
    /// Made-up addresses for objects of interpreted files.
    next_address: u64,
    command: Vec<String>,
}

struct Kind {
    size: u64,
    stack: StackId,
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
                let [size, trace] = numbers(fields())?[..] else { return Err(fields_of("a")) };
                // A stack that is missing costs its kind the stack, not the size.
                let stack = u32::try_from(trace).map(StackId).unwrap_or_default();
                let stack = if self.stacks.node(stack).is_some() { stack } else { StackId::NONE };
                self.kinds.push(Kind { size, stack, live: Vec::new() });
                Ok(false)
            }
            "s" => {
                self.strings.push(string(rest, self.file_version)?.to_owned());
                Ok(false)
            }
            "i" => self.place(&numbers_of(fields())?),
            "t" => self.stack(&numbers(fields())?),
            "c" => {
                let [ms] = numbers(fields())?[..] else { return Err(fields_of("c")) };
                scribe.set_time(Tick(ms));
                Ok(false)
            }
            "v" => {
                self.file_version = version(&numbers(fields())?)?;
                Ok(false)
            }
            "X" => {
                self.command = fields().map(str::to_owned).collect();
                Ok(false)
            }
            // Modules of raw files, memory of the system, comments.
            "#" | "R" | "I" | "A" | "S" | "m" | "x" | "e" => Ok(false),
            other => Err(format!("unknown kind of line {other:?}")),
        }
    }

    fn command(&self) -> Vec<String> {
        self.command.clone()
    }

    fn stacks(self) -> Stacks {
        self.stacks
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
                scribe.set_stack(kind.stack);
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

    /// A place in the code.
    fn place(&mut self, fields: &[u64]) -> Result<bool, String> {
        let [address, module, ref calls @ ..] = *fields else { return Err(fields_of("i")) };
        let module = self.module(module as usize);
        let text = |number: u64| self.strings.get((number as usize).checked_sub(1)?).cloned();
        let call = |call: &[u64]| {
            let function = text(*call.first()?)?;
            let file = call.get(1).and_then(|number| text(*number));
            let line = call.get(2).and_then(|line| u32::try_from(*line).ok());
            Some(Call { function, line: line.filter(|_| file.is_some()), file })
        };
        let calls = calls.chunks(3).filter_map(call).collect();
        self.stacks.add_frame(Frame { module, offset: address, exact: false, calls });
        Ok(false)
    }

    fn module(&mut self, number: usize) -> Option<u32> {
        let path = self.strings.get(number.checked_sub(1)?)?;
        let stacks = &mut self.stacks;
        let add = || stacks.add_module(Module { path: path.clone(), build_id: String::new() });
        Some(*self.modules.entry(number).or_insert_with(add))
    }

    /// A stack: a place, and the stack of its caller.
    fn stack(&mut self, fields: &[u64]) -> Result<bool, String> {
        let [place, parent] = *fields else { return Err(fields_of("t")) };
        if self.stacks.frames().is_empty() {
            return Ok(false);
        }
        let known = place >= 1 && place <= self.stacks.frames().len() as u64;
        let sound = known && parent <= self.stacks.len() as u64;
        // Its number must be taken all the same.
        let (parent, place) = if sound { (parent as u32, place as u32) } else { (0, 0) };
        self.stacks.add(StackId(parent), FrameId(place));
        if sound { Ok(false) } else { Err("a stack of a place or caller that is not there".into()) }
    }

    fn kind(&mut self, number: u64) -> Result<&mut Kind, String> {
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        self.kinds
            .get_mut(index)
            .ok_or_else(|| format!("no allocation of kind {number:x} was told of"))
    }
}

/// The text of a string's line.
fn string(rest: &str, file_version: u64) -> Result<&str, String> {
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    if file_version < MAX_FILE_VERSION {
        return Ok(rest);
    }
    let (_length, text) = rest.split_once(' ').ok_or_else(|| fields_of("s"))?;
    Ok(text)
}

/// The version of the file.
fn version(fields: &[u64]) -> Result<u64, String> {
    match *fields {
        [_, file] if file > MAX_FILE_VERSION => {
            Err(format!("version {file} of heaptrack's format is newer than {MAX_FILE_VERSION}"))
        }
        [_, file] => Ok(file),
        [_] => Ok(0),
        _ => Err(fields_of("v")),
    }
}

fn fields_of(letter: &str) -> String {
    format!("`{letter}` with a wrong number of fields")
}

/// No line but that of a place has more than a few.
fn numbers<'a>(fields: impl Iterator<Item = &'a str>) -> Result<Vec<u64>, String> {
    numbers_of(fields.take(8))
}

fn numbers_of<'a>(fields: impl Iterator<Item = &'a str>) -> Result<Vec<u64>, String> {
    let number = |field: &str| {
        u64::from_str_radix(field, 16).map_err(|_| format!("{} is no number", field.escape_debug()))
    };
    fields.map(number).collect()
}

fn request(size: u64) -> Request {
    Request { size, ..Request::default() }
}
