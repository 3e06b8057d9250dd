//! The map of a process as Linux tells it (`/proc/PID/smaps`), as rows, and as a fact of a spool.
//!
//! Files are summed by their path. What is no file keeps its addresses, because only the finisher knows what lay there.
//!
//! Invariant: a map is taken whole or not at all; a line that makes no sense ends it.

use crate::spool::facts::{FactReader, FactWriter};
use rustc_hash::FxHashMap;

/// Most rows of a map; of a program with more mappings, the smallest are summed into one.
const MOST_ROWS: usize = 4096;
/// Numbers of a row.
const NUMBERS: usize = 9;

/// A mapping, or all mappings of a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Addresses; 0 for a file.
    pub start: u64,
    /// The first address behind.
    pub end: u64,
    /// Bytes of addresses.
    pub mapped: u64,
    /// Bytes in memory.
    pub resident: u64,
    /// Of shared pages only a part.
    pub proportional: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Bytes in huge pages that the kernel made.
    pub huge: u64,
    /// Of those, bytes of nothing but zeroes: not the kernel's, but [`crate::zeroes`]' word.
    pub zero: u64,
    /// Bytes in huge pages that were asked for; they are resident, but not counted so by the kernel.
    pub pool: u64,
    /// As the kernel names it: a path, `[heap]`, `[stack]`, or nothing.
    pub name: String,
}

impl Row {
    /// Whether it shows a file of a disk, or memory that is treated as one.
    fn is_file(&self) -> bool {
        self.name.starts_with('/') || self.name.starts_with("anon_inode:")
    }

    fn add(&mut self, other: &Row) {
        self.mapped += other.mapped;
        self.resident += other.resident;
        self.proportional += other.proportional;
        self.swapped += other.swapped;
        self.huge += other.huge;
        self.zero += other.zero;
        self.pool += other.pool;
    }

    /// All bytes that are somewhere.
    fn held(&self) -> u64 {
        self.resident + self.swapped + self.pool
    }
}

/// The rows of `text` that hold memory.
pub fn parse(text: &str) -> Option<Vec<Row>> {
    let mut all: Vec<Row> = Vec::new();
    // A program's zeroed data follow its file without a name.
    let mut file = (0, String::new());
    for line in text.lines() {
        if let Some((name, value)) = line.split_once(':').filter(|(name, _)| is_field(name)) {
            field(all.last_mut()?, name, value)?;
            continue;
        }
        let mut row = head(line)?;
        // The kernel tells the map in pieces, and a mapping that grew in between again: the later word counts.
        while all.last().is_some_and(|last| last.end > row.start) {
            all.pop();
        }
        if row.is_file() {
            file = (row.end, row.name.clone());
        } else if row.name.is_empty() && row.start == file.0 && row.mapped <= MOST_ZEROED {
            row.name.clone_from(&file.1);
            file.0 = row.end;
        }
        all.push(row);
    }
    Some(sum(all))
}

/// Longest mapping without a name that is taken for zeroed data of the file before it.
const MOST_ZEROED: u64 = 16 << 20;

/// Fields begin with a capital letter, mappings with an address.
fn is_field(name: &str) -> bool {
    name.bytes().next().is_some_and(|first| first.is_ascii_uppercase())
}

/// `start-end perms offset device inode name`.
fn head(line: &str) -> Option<Row> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    let name = words.nth(4).unwrap_or_default().trim().to_owned();
    Some(Row { start, end, mapped: end.checked_sub(start)?, name, ..Row::default() })
}

/// `name: number kB`.
fn field(row: &mut Row, name: &str, value: &str) -> Option<()> {
    let to = match name {
        "Rss" => &mut row.resident,
        "Pss" => &mut row.proportional,
        "Swap" => &mut row.swapped,
        "AnonHugePages" => &mut row.huge,
        "Shared_Hugetlb" | "Private_Hugetlb" => &mut row.pool,
        _ => return Some(()),
    };
    let number: u64 = value.trim().split(' ').next()?.parse().ok()?;
    *to = to.saturating_add(number.saturating_mul(1024));
    Some(())
}

/// One row for each file, and no more than [`MOST_ROWS`].
fn sum(all: Vec<Row>) -> Vec<Row> {
    let mut files: FxHashMap<String, usize> = FxHashMap::default();
    let mut rows: Vec<Row> = Vec::new();
    for row in all.into_iter().filter(|row| row.held() > 0) {
        if !row.is_file() {
            rows.push(row);
            continue;
        }
        match files.get(&row.name) {
            Some(&at) => rows[at].add(&row),
            None => {
                files.insert(row.name.clone(), rows.len());
                rows.push(Row { start: 0, end: 0, ..row });
            }
        }
    }
    if rows.len() > MOST_ROWS {
        rows.sort_by_key(|row| std::cmp::Reverse(row.held()));
        let rest = rows.split_off(MOST_ROWS - 1);
        let mut others = Row { name: "[many]".into(), ..Row::default() };
        rest.iter().for_each(|row| others.add(row));
        rows.push(others);
    }
    rows
}

/// Adds the rows to a fact.
pub fn write(fact: FactWriter, rows: &[Row]) -> FactWriter {
    rows.iter().fold(fact.number(rows.len() as u64), |fact, row| {
        let numbers: [u64; NUMBERS] = [
            row.start,
            row.end,
            row.mapped,
            row.resident,
            row.proportional,
            row.swapped,
            row.huge,
            row.zero,
            row.pool,
        ];
        numbers.into_iter().fold(fact, FactWriter::number).text(&row.name)
    })
}

/// What [`write`] wrote.
pub fn read(fact: &mut FactReader<'_>) -> Option<Vec<Row>> {
    let count = usize::try_from(fact.number()?).ok().filter(|&count| count <= MOST_ROWS)?;
    let row = |_| {
        let mut numbers = [0; NUMBERS];
        for number in &mut numbers {
            *number = fact.number()?;
        }
        let [start, end, mapped, resident, proportional, swapped, huge, zero, pool] = numbers;
        let name = fact.text()?;
        Some(Row { start, end, mapped, resident, proportional, swapped, huge, zero, pool, name })
    };
    (0..count).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
563bd2611000-563bd2613000 r--p 00000000 fe:00 247278                     /usr/bin/a program
Size:                  8 kB
Rss:                   8 kB
Pss:                   4 kB
563bd2613000-563bd2619000 r-xp 00002000 fe:00 247278                     /usr/bin/a program
Rss:                  16 kB
Pss:                   8 kB
563bd2619000-563bd261a000 rw-p 00000000 00:00 0 
Rss:                   4 kB
Pss:                   4 kB
VmFlags: rd wr mr mw me ac 
563bd3000000-563bd3100000 rw-p 00000000 00:00 0                          [heap]
Rss:                 100 kB
Swap:                  8 kB
AnonHugePages:        64 kB
7f0000000000-7f0000200000 rw-p 00000000 00:00 0 
Rss:                   0 kB
Private_Hugetlb:    2048 kB
7f0000200000-7f0000400000 ---p 00000000 00:00 0 
Rss:                   0 kB
";

    #[test]
    fn files_are_summed_with_their_zeroed_data_and_the_rest_keeps_its_addresses() {
        let rows = parse(TEXT).unwrap();
        let told: Vec<(&str, u64, u64, u64)> = rows
            .iter()
            .map(|row| (&*row.name, row.start, row.resident >> 10, row.proportional >> 10))
            .collect();
        assert_eq!(
            told,
            [
                ("/usr/bin/a program", 0, 28, 16),
                ("[heap]", 0x563b_d300_0000, 100, 0),
                ("", 0x7f00_0000_0000, 0, 0)
            ]
        );
        assert_eq!((rows[1].swapped, rows[1].huge, rows[2].pool), (8 << 10, 64 << 10, 2 << 20));
        let fact = write(FactWriter::default(), &rows);
        assert_eq!(read(&mut FactReader(fact.bytes())).unwrap(), rows);
    }

    /// Seen in `/proc/PID/smaps` of a heap that grew while it was read.
    #[test]
    fn a_mapping_that_is_told_twice_counts_once() {
        let again =
            "563bd3000000-563bd3200000 rw-p 00000000 00:00 0 [heap]\nRss: 120 kB\n7f0000000000-";
        let rows = parse(&TEXT.replacen("7f0000000000-", again, 1)).unwrap();
        assert_eq!((rows.len(), rows[1].mapped, rows[1].resident), (3, 2 << 20, 120 << 10));
    }

    #[test]
    fn what_is_no_map_is_refused() {
        assert_eq!(parse("nonsense\n"), None);
        assert_eq!(parse("Rss: 4 kB\n"), None);
        assert_eq!(parse("1000-2000 rw-p 0 0 0\nRss: x kB\n"), None);
        assert_eq!(read(&mut FactReader(&u64::MAX.to_le_bytes())), None);
    }

    #[test]
    fn our_own_map_is_read() {
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let rows = parse(&text).unwrap();
        let sum: u64 = rows.iter().map(|row| row.resident).sum();
        assert!(sum > 1 << 20 && rows.iter().any(|row| row.name == "[stack]"), "{rows:?}");
    }
}
