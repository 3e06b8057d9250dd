//! Whose memory is it? Gives the rows of a process's map to malloc, to runtimes, to stacks, to files.
//!
//! ```text
//!   a row without a file:  │ piece of mmap │      rest      │ piece │     each part has one owner, and of the row's
//!                            by its stack    blocks? stack?            resident bytes as many as it has addresses
//! ```
//!
//! The kernel tells resident bytes by the row only, and joins neighbours that are alike into one row. Most rows have one
//! owner; those with several are divided by addresses.
//!
//! Invariant: what the parts of a sample add up to is what the kernel said.

use super::space::{Piece, Space};
use crate::smaps::Row;
use freehold_trace::resident::MOST_PARTS;
use freehold_trace::{Frame, MapFlags, Part, ProcessInfo, StackId, Stacks, What};
use std::collections::BTreeMap;

/// A part of a row with one owner.
struct Stretch {
    start: u64,
    end: u64,
    row: usize,
    piece: Option<Piece>,
    /// Bytes and blocks of malloc that live there.
    live: u64,
}

/// The parts of a map. Memory that was mapped by a call keeps its stack instead of a name, until stacks have names:
/// [`name`]. `live` hands each block that lives to its argument, by address and size.
pub fn parts(
    rows: &[Row],
    space: &Space,
    live: impl FnOnce(&mut dyn FnMut(u64, u64)),
) -> Vec<Part> {
    let mut stretches = stretches(rows, space);
    live(&mut |address, size| {
        let at = stretches.partition_point(|stretch| stretch.end <= address);
        if let Some(stretch) = stretches.get_mut(at).filter(|stretch| stretch.start <= address) {
            stretch.live += size;
        }
    });
    let mut sums = Sums::default();
    for (at, row) in rows.iter().enumerate() {
        if row.pool > 0 {
            let pool = Row { resident: row.pool, proportional: row.pool, ..row.clone() };
            sums.add(&pool, What::Huge, "", StackId::NONE, 0, (1, 1));
        }
        if row.start == 0 {
            let (what, name) = file(&row.name);
            sums.add(row, what, name, StackId::NONE, 0, (1, 1));
            continue;
        }
        let from = stretches.partition_point(|stretch| stretch.row < at);
        let own = stretches[from..].iter().take_while(|stretch| stretch.row == at);
        for stretch in own {
            let (what, stack) = owner(stretch, row, space);
            let share = (stretch.end - stretch.start, row.end - row.start);
            sums.add(row, what, "", stack, stretch.live, share);
        }
    }
    sums.most()
}

/// The rows without a file, cut where pieces begin and end, by address.
fn stretches(rows: &[Row], space: &Space) -> Vec<Stretch> {
    let mut all = Vec::new();
    for (row, found) in rows.iter().enumerate().filter(|(_, row)| row.start != 0) {
        let mut at = found.start;
        let mut put = |start, end, piece| {
            if start < end {
                all.push(Stretch { start, end, row, piece, live: 0 });
            }
        };
        for (start, piece) in space.pieces(found.start, found.end) {
            put(at, start, None);
            put(start, piece.end, Some(piece));
            at = piece.end;
        }
        put(at, found.end, None);
    }
    all
}

fn owner(stretch: &Stretch, row: &Row, space: &Space) -> (What, StackId) {
    let Stretch { start, end, piece, live, .. } = *stretch;
    let flags = piece.map_or(MapFlags::default(), |piece| piece.flags);
    let what = match &*row.name {
        _ if flags.has(MapFlags::RECORDER) => What::Recorder,
        "[stack]" => What::Stack,
        "[heap]" if piece.is_none() => What::Malloc,
        _ if live > 0 => What::Malloc,
        _ if flags.has(MapFlags::STACK) || space.holds_stack(start, end) => What::Stack,
        _ if space.was_touched(start, end) => What::Malloc,
        _ if flags.has(MapFlags::SHARED) => What::Shared,
        _ if piece.is_some() => What::Mapped,
        _ => What::Other,
    };
    (what, piece.filter(|_| what == What::Mapped).map_or(StackId::NONE, |piece| piece.stack))
}

/// What a file is, and what it is called.
fn file(path: &str) -> (What, &str) {
    const SHARED: [&str; 4] = ["/memfd:", "/dev/shm/", "/dev/zero", "/SYSV"];
    if path.starts_with("/memfd:freehold-") || path.contains("freehold_record") {
        (What::Recorder, "")
    } else if SHARED.iter().any(|start| path.starts_with(start)) {
        (What::Shared, path)
    } else {
        (What::File, path.strip_suffix(" (deleted)").unwrap_or(path))
    }
}

/// Parts by kind, name and stack.
#[derive(Default)]
struct Sums(BTreeMap<(What, String, StackId), Part>);

impl Sums {
    /// Adds the share of a row: so many addresses of so many.
    fn add(
        &mut self,
        row: &Row,
        what: What,
        name: &str,
        stack: StackId,
        live: u64,
        (of, all): (u64, u64),
    ) {
        let share =
            |bytes: u64| (u128::from(bytes) * u128::from(of) / u128::from(all.max(1))) as u64;
        let part = self.part(what, name, stack);
        part.mapped += share(row.mapped);
        part.resident += share(row.resident);
        part.proportional += share(row.proportional);
        part.swapped += share(row.swapped);
        part.huge += share(row.huge);
        part.zero += share(row.zero);
        part.live += live;
    }

    fn part(&mut self, what: What, name: &str, stack: StackId) -> &mut Part {
        self.0.entry((what, name.to_owned(), stack)).or_insert_with(|| Part {
            what,
            name: name.to_owned(),
            stack,
            ..Part::default()
        })
    }

    /// The greatest, and one of each kind for the rest.
    fn most(self) -> Vec<Part> {
        const KINDS: usize = 9;
        let mut parts: Vec<Part> = self.0.into_values().filter(|part| held(part) > 0).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(held(part)));
        let rest = parts.split_off(parts.len().min(MOST_PARTS - KINDS));
        let mut sums = Sums::default();
        rest.iter().for_each(|part| add(sums.part(part.what, "", StackId::NONE), part));
        parts.extend(sums.0.into_values());
        parts
    }
}

fn held(part: &Part) -> u64 {
    part.resident + part.swapped
}

fn add(to: &mut Part, from: &Part) {
    to.mapped += from.mapped;
    to.resident += from.resident;
    to.proportional += from.proportional;
    to.swapped += from.swapped;
    to.huge += from.huge;
    to.zero += from.zero;
    to.live += from.live;
}

/// Names what calls mapped, by the modules of their stacks; without stacks, by the program. What the program mapped itself stays apart by
/// stack; a runtime's heap is one.
pub fn name(parts: Vec<Part>, stacks: &Stacks, process: &ProcessInfo) -> Vec<Part> {
    let mut named: Vec<Part> = Vec::new();
    for part in parts {
        let (what, name) = match part.what {
            What::Mapped => mapped_by(part.stack, stacks, process),
            what => (what, part.name.clone()),
        };
        let stack = if what == What::Mapped { part.stack } else { StackId::NONE };
        let is_same =
            |known: &&mut Part| (known.what, &known.name, known.stack) == (what, &name, stack);
        match named.iter_mut().find(is_same) {
            Some(known) => add(known, &part),
            None => named.push(Part { what, name, stack, ..part }),
        }
    }
    named.sort_by_key(|part| std::cmp::Reverse(held(part)));
    named
}

/// Modules that map memory for others.
const BETWEEN: [&str; 5] = ["libc.so", "ld-linux", "libpthread", "libstdc++", "libfreehold_record"];
/// Allocators that map what they give out by the C library's symbols.
const ALLOCATORS: [&str; 6] =
    ["libjemalloc", "libmimalloc", "libtcmalloc", "libfreehold", "libsnmalloc", "libhoard"];
/// How the files of runtimes begin that have heaps of their own, and what those are called.
const RUNTIMES: [(&str, &str); 17] = [
    ("node", "V8"),
    ("libnode", "V8"),
    ("libv8", "V8"),
    ("chrom", "V8"),
    ("electron", "V8"),
    ("d8", "V8"),
    ("java", "Java"),
    ("libjvm", "Java"),
    ("php", "PHP"),
    ("libphp", "PHP"),
    ("python", "Python"),
    ("libpython", "Python"),
    ("ruby", "Ruby"),
    ("libruby", "Ruby"),
    ("libmozjs", "SpiderMonkey"),
    ("beam.smp", "Erlang"),
    ("libcoreclr", ".NET"),
];

fn mapped_by(stack: StackId, stacks: &Stacks, process: &ProcessInfo) -> (What, String) {
    let module = |frame: &Frame| stacks.modules().get(frame.module? as usize);
    let mut modules = stacks.walk(stack).filter_map(|frame| module(stacks.frame(frame)?));
    let between = |path: &str| BETWEEN.iter().any(|name| file_name(path).starts_with(name));
    let path = match modules.find(|module| !between(&module.path)) {
        Some(module) => &module.path,
        None => process.command.first().map_or("", String::as_str),
    };
    let is = |start: &str| file_name(path).starts_with(start);
    if ALLOCATORS.iter().any(|start| is(start)) {
        return (What::Malloc, String::new());
    }
    match RUNTIMES.iter().find(|(start, _)| is(start)) {
        Some((_, runtime)) => (What::Runtime, (*runtime).to_owned()),
        None => (What::Mapped, path.to_owned()),
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_record::packed::{MAP_RECORDER, MAP_RESERVED};
    use freehold_trace::Module;

    const MIB: u64 = 1 << 20;

    fn row(name: &str, start: u64, megabytes: u64, resident: u64) -> Row {
        let end = if start == 0 { 0 } else { start + megabytes * MIB };
        let mapped = megabytes * MIB;
        let resident = resident * MIB;
        Row { start, end, mapped, resident, name: name.into(), ..Row::default() }
    }

    #[test]
    fn a_row_is_divided_by_what_lies_in_it() {
        let mut space = Space::default();
        let mut map = |at, bytes, flags, stack| {
            space.told(at, bytes, flags, StackId(stack), &mut |_, _| {});
        };
        map(0x1000_0000, 4 * MIB, 0, 7);
        map(0x1040_0000, 2 * MIB, MAP_RECORDER, 0);
        map(0x2000_0000, 64 * MIB, MAP_RESERVED, 8);
        space.thread_begins(1, 0x3000_0000 + 5);
        space.touch(0x4000_0010);
        let rows = [
            row("/usr/bin/app", 0, 2, 2),
            row("/memfd:freehold-rings (deleted)", 0, 4, 1),
            row("/memfd:pool (deleted)", 0, 4, 4),
            row("[heap]", 0x800_0000, 10, 9),
            row("", 0x1000_0000, 8, 8),
            row("", 0x2000_0000, 64, 32),
            row("", 0x3000_0000, 1, 1),
            row("", 0x4000_0000, 3, 3),
            row("", 0x5000_0000, 5, 5),
        ];
        let live = |each: &mut dyn FnMut(u64, u64)| {
            each(0x800_0100, 5 * MIB);
            each(0x1060_0100, MIB);
            each(0x9999_0000, 1);
        };
        let parts = parts(&rows, &space, live);
        let told: Vec<(What, &str, u32, u64, u64)> = parts
            .iter()
            .map(|p| (p.what, &*p.name, p.stack.0, p.resident / MIB, p.live / MIB))
            .collect();
        assert_eq!(
            told,
            [
                (What::Mapped, "", 8, 32, 0),
                (What::Malloc, "", 0, 9 + 2 + 3, 6),
                (What::Other, "", 0, 5, 0),
                (What::Mapped, "", 7, 4, 0),
                (What::Shared, "/memfd:pool (deleted)", 0, 4, 0),
                (What::Recorder, "", 0, 2 + 1, 0),
                (What::File, "/usr/bin/app", 0, 2, 0),
                (What::Stack, "", 0, 1, 0),
            ]
        );
        let sum: u64 = parts.iter().map(|part| part.resident).sum();
        assert_eq!(sum, rows.iter().map(|row| row.resident).sum::<u64>());
    }

    #[test]
    fn what_was_mapped_is_named_by_the_first_module_that_did_it_for_itself() {
        let mut stacks = Stacks::default();
        let mut stack_of = |paths: &[&str]| {
            paths.iter().fold(StackId::NONE, |parent, path| {
                let module = Module { path: (*path).to_owned(), build_id: String::new() };
                let module = Some(stacks.add_module(module));
                let frame = stacks.add_frame(Frame { module, ..Frame::default() });
                stacks.add(parent, frame)
            })
        };
        let node = stack_of(&["/usr/bin/node", "/lib/libc.so.6"]);
        let plugin = stack_of(&["/usr/bin/node", "/opt/libplug.so"]);
        let jemalloc = stack_of(&["/usr/bin/app", "/usr/lib/libjemalloc.so.2"]);
        let php = ProcessInfo { command: vec!["/usr/bin/php8.2".into()], ..ProcessInfo::default() };
        let named = |stack| mapped_by(stack, &stacks, &php);
        assert_eq!(named(node), (What::Runtime, "V8".into()));
        assert_eq!(named(plugin), (What::Mapped, "/opt/libplug.so".into()));
        assert_eq!(named(jemalloc), (What::Malloc, String::new()));
        assert_eq!(named(StackId::NONE), (What::Runtime, "PHP".into()), "without stacks");
        let part =
            |stack, resident| Part { what: What::Mapped, stack, resident, ..Part::default() };
        let parts = name(vec![part(node, 3), part(plugin, 2), part(node, 1)], &stacks, &php);
        assert_eq!(parts.iter().map(|part| part.resident).collect::<Vec<_>>(), [4, 2]);
    }

    #[test]
    fn what_is_kept_of_a_map_is_bounded() {
        let files: Vec<Row> = (0..1000).map(|i| row(&format!("/f{i}"), 0, 1, 1)).collect();
        let parts = parts(&files, &Space::default(), |_| {});
        assert!(parts.len() <= MOST_PARTS, "{}", parts.len());
        assert_eq!(parts.iter().map(|part| part.resident).sum::<u64>(), 1000 * MIB);
    }
}
