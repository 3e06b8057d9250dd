//! Page traces of version 2: objects have no names, because the calls say which they are. Packed, a tenth of version 1.
//!
//! ```text
//!   # freehold page trace 2
//!   +3           three seconds pass
//!   m 0 1        allocate: kind, order, node. The object's number is the one freed last and not used since, else the next new one
//!   f -5         free the object allocated five allocations before the one that was freed last (the first: than the first of all)
//! ```

use super::{Event, PageTrace, TraceError, fields_of};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The first line.
pub const MAGIC: &str = "# freehold page trace 2";

/// The rule by which objects have numbers.
#[derive(Default)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
}

impl Numbers {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

/// What is known between two lines.
#[derive(Default)]
struct Reader {
    now: u32,
    numbers: Numbers,
    /// Each allocation's object, until it is freed.
    made: Vec<Option<u32>>,
    /// Which allocation was freed last.
    last: i64,
}

impl Reader {
    /// The line's event; none where time passes.
    fn event(&mut self, line: &str) -> Option<Option<(u32, Event)>> {
        if let Some(seconds) = line.strip_prefix('+') {
            self.now = self.now.checked_add(seconds.parse().ok()?)?;
            return Some(None);
        }
        let event = match line.strip_prefix("f ") {
            Some(further) => {
                self.last = self.last.checked_add(further.parse().ok()?)?;
                let object = self.made.get_mut(usize::try_from(self.last).ok()?)?.take()?;
                self.numbers.free.push(object);
                Event::Free(object)
            }
            None => {
                let [kind, order, node] = *line.split(' ').collect::<Vec<_>>() else { return None };
                let (wanted, node) = fields_of(order, kind, node)?;
                let object = self.numbers.take();
                self.made.push(Some(object));
                Event::Alloc(object, wanted, node)
            }
        };
        Some(Some((self.now, event)))
    }
}

/// The events of all lines but the first; each line comes with its number, from 0.
pub fn read(
    lines: impl Iterator<Item = (usize, io::Result<String>)>,
) -> Result<PageTrace, TraceError> {
    let (mut trace, mut reader) = (PageTrace::default(), Reader::default());
    for (index, line) in lines {
        let line = line?;
        if line.starts_with('#') || line.trim().is_empty() {
            continue;
        }
        let event = reader.event(line.trim_end());
        let fault = || TraceError::Line(index + 1, "not an event of a page trace", line.clone());
        trace.events.extend(event.ok_or_else(fault)?);
    }
    if trace.events.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
}

/// Writes a trace. Objects get the numbers of the rule; frees of what was never allocated are left out.
pub fn write(to: &mut dyn Write, trace: &PageTrace) -> io::Result<()> {
    writeln!(to, "{MAGIC}")?;
    let (mut now, mut made, mut last) = (0, 0_i64, 0_i64);
    let mut live: BTreeMap<u32, i64> = BTreeMap::new();
    for &(at, event) in &trace.events {
        if at > now {
            writeln!(to, "+{}", at - now)?;
            now = at;
        }
        match event {
            Event::Alloc(object, wanted, node) => {
                live.insert(object, made);
                made += 1;
                writeln!(to, "{} {} {node}", super::letter(wanted.kind), wanted.order)?;
            }
            Event::Free(object) => {
                let Some(which) = live.remove(&object) else { continue };
                writeln!(to, "f {}", which - last)?;
                last = which;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str =
        "# freehold page trace 1\n2 a 0 3 u 1\n2 a 1 0 m 0\n5 f 0\n5 a 0 0 r 0\n9 f 1\n9 f 0\n";
    const TWO: &str = "# freehold page trace 2\n+2\nu 3 1\nm 0 0\n+3\nf 0\nr 0 0\n+4\nf 1\nf 1\n";

    #[test]
    fn both_versions_are_the_same_events() {
        let one = PageTrace::read(ONE.as_bytes()).unwrap();
        let mut text = Vec::new();
        write(&mut text, &one).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), TWO);
        assert_eq!(PageTrace::read(TWO.as_bytes()).unwrap(), one);
    }

    #[test]
    fn what_frees_nothing_is_told_with_its_line() {
        let error = |text: &str| PageTrace::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error("# freehold page trace 2\nm 0 0\nf 1\n").starts_with("line 3"));
        assert!(error("# freehold page trace 2\nm 0 0\nf 0\nf 0\n").starts_with("line 4"));
        assert!(error("# freehold page trace 2\nm 11 0\n").starts_with("line 2"));
        assert!(error("# freehold page trace 2\n+4294967295\n+1\nm 0 0\n").starts_with("line 3"));
    }
}
