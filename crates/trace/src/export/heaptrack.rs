//! heaptrack's own file (version 3, interpreted), for its viewer and `heaptrack_print`: zstd-compressed text.
//!
//! ```text
//!   s LENGTH TEXT              a string          everything is numbered from 1 as it comes, 0 is none,
//!   i PLACE MODULE F FILE LINE … a frame         and what a line names stands before it
//!   t FRAME CALLER             a stack
//!   a SIZE STACK               a kind of allocation (from 0);  + KIND, - KIND: one comes, one goes
//!   c MS                       the time
//! ```
//!
//! A resized object goes and comes. Invariant: memory grows with live objects, with the stacks that differ and with the kinds.

use super::{Control, ExportError};
use crate::event::{Event, ObjectId, ProcessId};
use crate::header::{Header, ProcessInfo};
use crate::records::Records;
use crate::stacks::{FrameId, StackId, Stacks};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// What the format's numbers of versions are: heaptrack's own, and the file's.
const VERSIONS: &str = "10400 3";
/// zstd's own default.
const LEVEL: i32 = 3;

/// Writes the file. Returns the number of events.
///
/// # Errors
/// When reading or writing fails, or the caller stops it.
pub fn heaptrack(
    header: &Header,
    processes: &[ProcessInfo],
    stacks: &Stacks,
    records: &mut Records,
    expected: u64,
    out: &mut dyn Write,
    control: &mut Control<'_>,
) -> Result<u64, ExportError> {
    let mut out = zstd::stream::write::Encoder::new(out, LEVEL)?;
    let command = processes.first().map_or(String::new(), |process| process.command.join(" "));
    writeln!(out, "v {VERSIONS}\nX {}\nI 1000 0", command.replace(char::is_control, " "))?;
    let mut file = File::new(out, stacks);
    let (mut seen, mut last_ms) = (0, 0);
    while let Some(run) = records.next_run()? {
        for (index, timed) in run.events.iter().enumerate() {
            let ms = (header.seconds(timed.tick) * 1000.0) as u64;
            if ms > last_ms {
                writeln!(file.out, "c {ms:x}")?;
                last_ms = ms;
            }
            let stack = run.stacks.get(index).copied().unwrap_or_default();
            file.see(run.process, &timed.event, stack)?;
            seen += 1;
            if !control.goes_on(seen, expected) {
                return Err(ExportError::Interrupted);
            }
        }
    }
    file.out.finish()?.flush()?;
    Ok(seen)
}

/// The file while it is written.
struct File<'a, W: Write> {
    out: W,
    stacks: &'a Stacks,
    strings: FxHashMap<String, u64>,
    /// The numbers in the file of the trace's frames and stacks, 0 before they were written.
    frames: Vec<u64>,
    traces: Vec<u64>,
    frames_len: u64,
    traces_len: u64,
    /// By size and stack.
    kinds: FxHashMap<(u64, StackId), u64>,
    live: FxHashMap<(ProcessId, ObjectId), (u64, StackId)>,
}

impl<'a, W: Write> File<'a, W> {
    fn new(out: W, stacks: &'a Stacks) -> Self {
        File {
            out,
            stacks,
            strings: FxHashMap::default(),
            frames: vec![0; stacks.frames().len() + 1],
            traces: vec![0; stacks.len() + 1],
            frames_len: 0,
            traces_len: 0,
            kinds: FxHashMap::default(),
            live: FxHashMap::default(),
        }
    }

    fn see(&mut self, process: ProcessId, event: &Event, stack: StackId) -> io::Result<()> {
        match *event {
            Event::Alloc { object, request } | Event::Inherit { object, request } => {
                self.come((process, object), request.size, stack)
            }
            Event::Free { object, .. } => self.go((process, object)).map(|_| ()),
            Event::Realloc { object, request, .. } => {
                let before = self.go((process, object))?;
                // One that came without a stack stays where it was.
                let stack = if stack == StackId::NONE { before.unwrap_or_default() } else { stack };
                self.come((process, object), request.size, stack)
            }
            _ => Ok(()),
        }
    }

    fn come(&mut self, object: (ProcessId, ObjectId), size: u64, stack: StackId) -> io::Result<()> {
        let kind = self.kind(size, stack)?;
        writeln!(self.out, "+ {kind:x}")?;
        self.live.insert(object, (kind, stack));
        Ok(())
    }

    /// The stack of what goes.
    fn go(&mut self, object: (ProcessId, ObjectId)) -> io::Result<Option<StackId>> {
        let Some((kind, stack)) = self.live.remove(&object) else { return Ok(None) };
        writeln!(self.out, "- {kind:x}")?;
        Ok(Some(stack))
    }

    fn kind(&mut self, size: u64, stack: StackId) -> io::Result<u64> {
        if let Some(&kind) = self.kinds.get(&(size, stack)) {
            return Ok(kind);
        }
        let trace = self.trace(stack)?;
        writeln!(self.out, "a {size:x} {trace:x}")?;
        let kind = self.kinds.len() as u64;
        self.kinds.insert((size, stack), kind);
        Ok(kind)
    }

    /// A stack, its callers before it.
    fn trace(&mut self, stack: StackId) -> io::Result<u64> {
        let mut missing = Vec::new();
        let mut at = stack;
        while let Some((parent, frame)) = self.stacks.node(at) {
            if self.traces[at.0 as usize] != 0 {
                break;
            }
            missing.push((at, frame));
            at = parent;
        }
        let mut caller = self.traces.get(at.0 as usize).copied().unwrap_or(0);
        for (node, frame) in missing.into_iter().rev() {
            let frame = self.frame(frame)?;
            writeln!(self.out, "t {frame:x} {caller:x}")?;
            self.traces_len += 1;
            caller = self.traces_len;
            self.traces[node.0 as usize] = caller;
        }
        Ok(caller)
    }

    fn frame(&mut self, id: FrameId) -> io::Result<u64> {
        let at = id.0 as usize;
        if let Some(&known) = self.frames.get(at).filter(|known| **known != 0) {
            return Ok(known);
        }
        // Addresses tell frames apart, and are never 0.
        let mut line = format!("i {:x}", at + 1);
        match self.stacks.frame(id) {
            Some(frame) => {
                let module = frame.module.and_then(|at| self.stacks.modules().get(at as usize));
                line += &format!(" {:x}", self.string(module.map_or("", |module| &module.path))?);
                if frame.calls.is_empty() {
                    let name = format!("{:#x}", frame.offset);
                    line += &format!(" {:x} 0 0", self.string(&name)?);
                }
                for call in &frame.calls {
                    let function = self.string(&call.function)?;
                    let file = self.string(call.file.as_deref().unwrap_or_default())?;
                    line += &format!(" {function:x} {file:x} {:x}", call.line.unwrap_or(0));
                }
            }
            None => line += &format!(" 0 {:x} 0 0", self.string("(unknown)")?),
        }
        writeln!(self.out, "{line}")?;
        self.frames_len += 1;
        if let Some(number) = self.frames.get_mut(at) {
            *number = self.frames_len;
        }
        Ok(self.frames_len)
    }

    /// A string's number; 0 of an empty one.
    fn string(&mut self, text: &str) -> io::Result<u64> {
        if text.is_empty() {
            return Ok(0);
        }
        if let Some(&number) = self.strings.get(text) {
            return Ok(number);
        }
        let clean = text.replace(char::is_control, " ");
        writeln!(self.out, "s {:x} {clean}", clean.len())?;
        let number = self.strings.len() as u64 + 1;
        self.strings.insert(text.to_owned(), number);
        Ok(number)
    }
}
