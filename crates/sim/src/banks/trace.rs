//! Page traces: recorded calls, as text that names objects and never frames.
//!
//! ```text
//!   # freehold page trace 1
//!   # machine 8388608 frames, 2 nodes         (what wrote it; readers skip comments)
//!   0 a 1 0 m 0        second, allocate, object, order, kind (u r m c), node (0 to 15)
//!   3 f 1              second, free, object
//! ```
//!
//! Recordings that are part of the project are in a second version, [`unnamed`], which packs into a tenth of the bytes.
//!
//! [`convert`] makes one of Linux's own events `kmem:mm_page_alloc` and `kmem:mm_page_free` as `perf script` or
//! `trace-cmd report` print them. (`trace-cmd`'s binary file is read by `trace-cmd report`, which the
//! command runs; no small, well-kept library reads it.) [`TraceWriter`] writes down what any workload does.
//!
//! A recording is played on machines of other nodes than its own: node numbers are taken modulo the machine's; and where
//! all is on one node but the machine has several, blocks lie on them in turns. Kernel events name no node: each task
//! of them has one, in turns.

mod unnamed;

use super::workload::{Sink, Trigger};
use freehold_core::frames::{Kind, Lifetime, Order, Request};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

/// The first line of every page trace.
const MAGIC: &str = "# freehold page trace 1";

/// Nodes that a recording names at most.
const MOST_NODES: u8 = 16;

/// Blocks of a recording of one node that lie on one node of a machine with several, before it is the next one's turn.
const TURN: u64 = 1_024;

/// A trace that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// A line says something else than the format.
    #[error("line {0}: {1}: {2:?}")]
    Line(usize, &'static str, String),
    /// Nothing in it.
    #[error(
        "no event kmem:mm_page_alloc or kmem:mm_page_free is in it: record with `perf record -a -e kmem:mm_page_alloc,kmem:mm_page_free`, then `perf script`"
    )]
    Empty,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Alloc(u32, Request, u8),
    Free(u32),
}

/// A trace in memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageTrace {
    events: Vec<(u32, Event)>,
    /// Frees of pages that were allocated before the recording began: left out.
    pub unknown_frees: u64,
    /// Allocations of a frame that was not seen freed: its old object ends there.
    pub lost_frees: u64,
}

impl PageTrace {
    /// Reads the format above, or kernel events: whichever it is.
    ///
    /// # Errors
    /// When it is neither, or damaged.
    pub fn read(from: impl BufRead) -> Result<PageTrace, TraceError> {
        let mut lines = from.lines().enumerate();
        let Some((_, first)) = lines.next() else { return Err(TraceError::Empty) };
        let first = first?;
        if first.trim_end() == unnamed::MAGIC {
            return unnamed::read(lines);
        }
        if first.trim_end() != MAGIC {
            let first = std::iter::once(Ok(first));
            return convert(first.chain(lines.map(|(_, line)| line)));
        }
        let mut trace = PageTrace::default();
        for (index, line) in lines {
            let line = line?;
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let fault = |why| TraceError::Line(index + 1, why, line.clone());
            let event = parse(&line).ok_or_else(|| fault("not an event of a page trace"))?;
            if trace.events.last().is_some_and(|last| last.0 > event.0) {
                return Err(fault("time goes backwards"));
            }
            trace.events.push(event);
        }
        if trace.events.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
    }

    /// What `play` makes of calls, as a trace: every block an object.
    ///
    /// # Errors
    /// When `play` makes no call.
    pub fn of(play: impl FnOnce(&mut dyn Sink)) -> Result<PageTrace, TraceError> {
        let mut text = Vec::new();
        play(&mut TraceWriter::new(&mut text));
        PageTrace::read(text.as_slice())
    }

    /// Events in all.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Seconds from the first event to the last.
    pub fn seconds(&self) -> u32 {
        let (first, last) = (self.events.first(), self.events.last());
        first.zip(last).map_or(0, |(first, last)| last.0 - first.0 + 1)
    }

    /// The most frames that it holds at a time.
    pub fn peak(&self) -> u64 {
        let len = |order: Order| u64::from(order.frames());
        let (mut held, mut frames, mut peak) = (BTreeMap::new(), 0, 0);
        for (_, event) in &self.events {
            match event {
                Event::Alloc(object, wanted, _) => {
                    let old = held.insert(object, wanted.order);
                    frames += len(wanted.order) - old.map_or(0, len);
                }
                Event::Free(object) => {
                    frames -= held.remove(object).map_or(0, len);
                }
            }
            peak = frames.max(peak);
        }
        peak
    }

    /// Nodes that it names.
    fn nodes(&self) -> u8 {
        let nodes = self.events.iter().map(|(_, event)| match event {
            Event::Alloc(_, _, node) => node + 1,
            Event::Free(_) => 0,
        });
        nodes.max().unwrap_or(0)
    }

    /// Makes all its calls on a machine of that many nodes.
    pub fn play(&self, nodes: u8, sink: &mut dyn Sink) {
        let (in_turns, mut nth) = (self.nodes() == 1, 0_u64);
        let mut node_of = |node: u8| {
            nth += 1;
            let node = if in_turns { nth / TURN } else { node.into() };
            (node % u64::from(nodes.max(1))) as u8
        };
        let mut now = self.events.first().map_or(0, |event| event.0);
        for &(at, event) in &self.events {
            while now < at {
                now += 1;
                if !sink.second() {
                    return;
                }
            }
            match event {
                Event::Alloc(object, wanted, node) => sink.grow(object, wanted, node_of(node), 1),
                Event::Free(object) => sink.end(object),
            }
        }
        sink.second();
    }

    /// Writes the second version of the format, in which objects have no names.
    ///
    /// # Errors
    /// Whatever `to` refuses.
    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        unnamed::write(to, self)
    }
}

fn write_event(to: &mut dyn Write, at: u32, event: Event) -> io::Result<()> {
    match event {
        Event::Alloc(object, Request { order, kind, .. }, node) => {
            writeln!(to, "{at} a {object} {order} {} {node}", letter(kind))
        }
        Event::Free(object) => writeln!(to, "{at} f {object}"),
    }
}

const fn letter(kind: Kind) -> char {
    match kind {
        Kind::Unmovable => 'u',
        Kind::Reclaimable => 'r',
        Kind::Movable => 'm',
        Kind::Cma => 'c',
    }
}

fn parse(line: &str) -> Option<(u32, Event)> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    match fields[..] {
        [at, "a", object, order, kind, node] => {
            let (wanted, node) = fields_of(order, kind, node)?;
            Some((at.parse().ok()?, Event::Alloc(object.parse().ok()?, wanted, node)))
        }
        [at, "f", object] => Some((at.parse().ok()?, Event::Free(object.parse().ok()?))),
        _ => None,
    }
}

/// What is allocated, and where.
fn fields_of(order: &str, kind: &str, node: &str) -> Option<(Request, u8)> {
    let kind = Kind::ALL.into_iter().find(|&known| kind == letter(known).to_string())?;
    let order = Order::new(order.parse().ok()?)?;
    let node = node.parse().ok().filter(|&node| node < MOST_NODES)?;
    Some((Request { order, kind, lifetime: Lifetime::Long }, node))
}

/// Kernel events as text, to a page trace: frames become objects, numbered from 0 and used again.
///
/// What it understands of a line: the task's number (`cc1-4711 [002]` or `cc1 4711 [002]`), the time (`1234.567890:`), `mm_page_alloc:` or `mm_page_free:`, `pfn=` (hexadecimal
/// with `0x`, else decimal), `order=`, `migratetype=`. Other lines are skipped. Lost events show as
/// [`PageTrace::lost_frees`].
///
/// # Errors
/// When it cannot be read, an event lacks a field, or there is none.
pub fn convert(lines: impl Iterator<Item = io::Result<String>>) -> Result<PageTrace, TraceError> {
    let mut trace = PageTrace::default();
    let mut live: BTreeMap<u64, u32> = BTreeMap::new();
    let (mut free_ids, mut next_id, mut zero) = (Vec::new(), 0, None);
    let mut nodes: BTreeMap<String, u8> = BTreeMap::new();
    for (index, line) in lines.enumerate() {
        let line = line?;
        let alloc = line.contains("mm_page_alloc:");
        if !alloc && !line.contains("mm_page_free:") {
            continue;
        }
        let fault = |why| TraceError::Line(index + 1, why, line.clone());
        let second = second_of(&line).ok_or_else(|| fault("no time such as 1234.567890:"))?;
        let at = second.saturating_sub(*zero.get_or_insert(second)) as u32;
        let at = at.max(trace.events.last().map_or(0, |last| last.0));
        let frame = number(&line, "pfn=").ok_or_else(|| fault("no pfn="))?;
        let ended = live.remove(&frame);
        if let Some(object) = ended {
            trace.events.push((at, Event::Free(object)));
            free_ids.push(object);
            trace.lost_frees += u64::from(alloc);
        }
        if !alloc {
            trace.unknown_frees += u64::from(ended.is_none());
            continue;
        }
        let order = number(&line, "order=").and_then(|log2| Order::new(log2.try_into().ok()?));
        let order = order.ok_or_else(|| fault("no order= of 0 to 10"))?;
        let kind = match number(&line, "migratetype=") {
            Some(0) => Kind::Unmovable,
            Some(2) => Kind::Reclaimable,
            Some(1) => Kind::Movable,
            // Beyond the three: per-processor lists, CMA. Movable, all of them that programs see.
            Some(_) => Kind::Cma,
            None => return Err(fault("no migratetype=")),
        };
        let object = free_ids.pop().unwrap_or_else(|| {
            next_id += 1;
            next_id - 1
        });
        live.insert(frame, object);
        let wanted = Request { order, kind, lifetime: Lifetime::Long };
        let next = (nodes.len() % usize::from(MOST_NODES)) as u8;
        let node = *nodes.entry(task_of(&line).to_owned()).or_insert(next);
        trace.events.push((at, Event::Alloc(object, wanted, node)));
    }
    if trace.events.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
}

/// The number of the task, in front of the processor's in brackets; empty where there is none.
fn task_of(line: &str) -> &str {
    let before = line.split_once(" [").map_or("", |(before, _)| before);
    let task = before.split_ascii_whitespace().next_back().unwrap_or("");
    task.rsplit('-').next().unwrap_or("")
}

/// The whole seconds of the first field that is a time.
fn second_of(line: &str) -> Option<u64> {
    let times = line.split_ascii_whitespace().filter_map(|field| field.strip_suffix(':'));
    times.filter_map(|time| time.split_once('.')?.0.parse().ok()).next()
}

fn number(line: &str, key: &str) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let value = fields.find_map(|field| field.strip_prefix(key))?;
    match value.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => value.parse().ok(),
    }
}

/// Writes a workload's calls as a page trace, block by block.
pub struct TraceWriter<'a> {
    to: &'a mut dyn Write,
    objects: Vec<Vec<u32>>,
    free_ids: Vec<u32>,
    next_id: u32,
    now_s: u32,
    /// The first fault.
    pub result: io::Result<()>,
}

impl<'a> TraceWriter<'a> {
    /// Begins a trace.
    pub fn new(to: &'a mut dyn Write) -> TraceWriter<'a> {
        let result = writeln!(to, "{MAGIC}");
        TraceWriter { to, objects: Vec::new(), free_ids: Vec::new(), next_id: 0, now_s: 0, result }
    }

    fn write(&mut self, event: Event) {
        if self.result.is_ok() {
            self.result = write_event(self.to, self.now_s, event);
        }
    }

    fn free(&mut self, block: u32) {
        self.free_ids.push(block);
        self.write(Event::Free(block));
    }
}

impl Sink for TraceWriter<'_> {
    fn grow(&mut self, object: u32, wanted: Request, node: u8, blocks: u32) {
        let object = object as usize;
        if object >= self.objects.len() {
            self.objects.resize_with(object + 1, Vec::new);
        }
        for _ in 0..blocks {
            let block = self.free_ids.pop().unwrap_or_else(|| {
                self.next_id += 1;
                self.next_id - 1
            });
            self.objects[object].push(block);
            self.write(Event::Alloc(block, wanted, node));
        }
    }

    fn shrink(&mut self, object: u32, from: u32, blocks: u32) {
        for nth in 0..blocks as usize {
            let Some(of) = self.objects.get_mut(object as usize).filter(|of| !of.is_empty()) else {
                return;
            };
            let at = (from as usize + nth) % of.len();
            let block = of.swap_remove(at);
            self.free(block);
        }
    }

    fn end(&mut self, object: u32) {
        let blocks = self.objects.get_mut(object as usize).map(std::mem::take).unwrap_or_default();
        blocks.into_iter().for_each(|block| self.free(block));
    }

    fn occasion(&mut self, _: Trigger) {}

    fn second(&mut self) -> bool {
        self.now_s += 1;
        self.result.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "\
  cc1  4711 [002]  7041.250001:  kmem:mm_page_alloc: page=0xffffea0004 pfn=0x1234 order=0 migratetype=1 gfp_flags=GFP_USER
  cc1  4711 [002]  7041.250009:  kmem:mm_page_alloc: page=0xffffea0008 pfn=500000 order=3 migratetype=0 gfp_flags=GFP_KERNEL
 swapper 0 [001]  7043.000000:  sched:sched_switch: nothing to see
  cc1  4711 [002]  7043.100000:  kmem:mm_page_free: page=0xffffea0004 pfn=0x1234 order=0
  cc1  4711 [002]  7043.200000:  kmem:mm_page_free: page=0xffffea0004 pfn=0x99 order=0
  sh-4712 [002]  7044.000000:  kmem:mm_page_alloc: page=0xffffea0004 pfn=0x77 order=0 migratetype=2 gfp_flags=0
  sh-4712 [002]  7044.100000:  kmem:mm_page_alloc: page=0xffffea0004 pfn=0x77 order=0 migratetype=1 gfp_flags=0
";

    #[test]
    fn kernel_events_become_objects() {
        let trace = PageTrace::read(KERNEL.as_bytes()).unwrap();
        let mut text = Vec::new();
        trace.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let expected = "# freehold page trace 2\nm 0 0\nu 3 0\n+2\nf 0\n+1\nr 0 1\nf 2\nm 0 1\n";
        assert_eq!(text, expected);
        assert_eq!((trace.unknown_frees, trace.lost_frees, trace.seconds()), (1, 1, 4));
        assert_eq!(trace.peak(), 9);
        let again = PageTrace::read(text.as_bytes()).unwrap();
        assert_eq!(again.events, trace.events);
    }

    /// Notes on which nodes blocks lie.
    struct Nodes(Vec<u8>);

    impl Sink for Nodes {
        fn grow(&mut self, _: u32, _: Request, node: u8, _: u32) {
            self.0.push(node);
        }
        fn shrink(&mut self, _: u32, _: u32, _: u32) {}
        fn end(&mut self, _: u32) {}
        fn occasion(&mut self, _: Trigger) {}
        fn second(&mut self) -> bool {
            true
        }
    }

    #[test]
    fn a_recording_is_spread_over_the_nodes_of_another_machine() {
        let nodes = |named: [u8; 2], machine: u8| {
            let line = |nth: usize| format!("0 a {nth} 0 m {}\n", named[nth % 2]);
            let text: String = (0..4_096).map(line).collect();
            let trace = PageTrace::read(format!("{MAGIC}\n{text}").as_bytes()).unwrap();
            let mut nodes = Nodes(Vec::new());
            trace.play(machine, &mut nodes);
            [0, 1, 2].map(|node| nodes.0.iter().filter(|&&on| on == node).count())
        };
        assert_eq!(nodes([0, 0], 1), [4_096, 0, 0]);
        assert_eq!(nodes([0, 0], 2), [2_048, 2_048, 0], "in turns");
        assert_eq!(nodes([1, 5], 3), [0, 2_048, 2_048]);
        assert_eq!(nodes([1, 5], 1), [4_096, 0, 0]);
    }

    #[test]
    fn what_is_no_trace_says_so_with_its_line() {
        let error = |text: &str| PageTrace::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error("").contains("perf record"));
        assert!(error("hello\nworld\n").contains("perf record"));
        assert!(error("# freehold page trace 1\n0 a 1 11 m 0\n").starts_with("line 2"));
        assert!(error("# freehold page trace 1\n5 f 1\n4 f 2\n").contains("backwards"));
        assert!(error("x 1.5: kmem:mm_page_alloc: order=0 migratetype=1\n").contains("no pfn="));
    }
}
