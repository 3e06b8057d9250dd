//! The page that is drawn every second: a summary of every heap, then the classes that hold most, with
//! what changed since the last look.

use super::Look;
use crate::ui;
use freehold_core::malloc::census::Census;
use freehold_core::stats::HeapReport;
use std::fmt::Write;
use std::time::Duration;

/// To the upper left corner, and what follows is empty.
const FRESH: &str = "\x1b[H\x1b[J";
/// Lines when the terminal does not say how many it has.
const DEFAULT_LINES: usize = 24;

/// The page as bytes for a terminal.
pub fn draw(look: &Look, before: Option<(Duration, &Look)>) -> Vec<u8> {
    let mut page = String::from(FRESH);
    let lines = terminal_lines().saturating_sub(2);
    for (number, heap) in look.heaps.iter().enumerate() {
        let earlier = before.and_then(|(passed, look)| Some((passed, look.heaps.get(number)?)));
        let earlier = earlier.filter(|(_, old)| old.name == heap.name);
        let left = lines.saturating_sub(page.lines().count());
        if left < 4 {
            let _ = writeln!(page, "… and {} heaps more", look.heaps.len() - number);
            break;
        }
        draw_heap(&mut page, look.pid, heap, earlier, left);
    }
    if let Some(counts) = &look.counts {
        let allocated: u64 = counts.allocated.iter().sum();
        let _ = writeln!(page, "{allocated} blocks handed out so far; peak {}", size(counts.peak));
    }
    page.into_bytes()
}

fn draw_heap(
    page: &mut String,
    pid: u32,
    heap: &HeapReport,
    before: Option<(Duration, &HeapReport)>,
    lines: usize,
) {
    let census = &heap.census;
    let name = String::from_utf8_lossy(heap.name.as_bytes());
    let rate = before.map_or(String::new(), |(passed, old)| {
        let change = census.in_use() as i64 - old.census.in_use() as i64;
        format!(" ({}/s)", signed_size((change as f64 / passed.as_secs_f64()) as i64))
    });
    let limit = match heap.limit {
        0 => String::new(),
        limit => format!(" of at most {}", size(limit)),
    };
    let _ = writeln!(
        page,
        "process {pid}, heap {name}: {} in {} blocks{limit}{rate}",
        size(census.in_use()),
        census.blocks(),
    );
    let _ = writeln!(
        page,
        "free: {} in {} threads' caches, {} in slabs ({} given back), {} in units",
        size(census.cached()),
        census.caches,
        size(census.free()),
        size(census.purged),
        size(census.dirty),
    );
    let _ = writeln!(
        page,
        "{:>9}{:>9}{:>12}{:>12}{:>12}{:>12}",
        "size", "slabs", "in use", "change", "cached", "in use, B"
    );
    let mut rows = rows(census, before.map(|(_, old)| &old.census));
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    for row in rows.iter().take(lines.saturating_sub(4)) {
        let _ = writeln!(
            page,
            "{:>9}{:>9}{:>12}{:>+12}{:>12}{:>12}",
            row.name, row.slabs, row.in_use, row.change, row.cached, row.bytes
        );
    }
}

struct Row {
    name: String,
    slabs: u64,
    in_use: u64,
    change: i64,
    cached: u64,
    bytes: u64,
}

fn rows(census: &Census, before: Option<&Census>) -> Vec<Row> {
    let change = |now: u64, then: Option<u64>| then.map_or(0, |then| now as i64 - then as i64);
    let old = |size| {
        before?.used_classes().find(|(other, _)| *other == size).map(|(_, class)| class.in_use())
    };
    let classes = census.used_classes().map(|(size, class)| Row {
        name: size.to_string(),
        slabs: class.slabs,
        in_use: class.in_use(),
        change: change(class.in_use(), before.map(|_| old(size).unwrap_or(0))),
        cached: class.cached,
        bytes: class.in_use() * size as u64,
    });
    let large = Row {
        name: "large".to_owned(),
        slabs: 0,
        in_use: census.large_blocks,
        change: change(census.large_blocks, before.map(|old| old.large_blocks)),
        cached: 0,
        bytes: census.large_bytes,
    };
    classes.chain([large]).collect()
}

fn terminal_lines() -> usize {
    ui::terminal_size().map_or(DEFAULT_LINES, |(_, lines)| lines)
}

fn size(bytes: u64) -> String {
    freehold_lab::human::bytes(bytes)
}

fn signed_size(bytes: i64) -> String {
    format!("{}{}", if bytes < 0 { '-' } else { '+' }, size(bytes.unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_core::malloc::census::ClassCensus;

    #[test]
    fn what_holds_most_comes_first_and_changes_are_shown() {
        let look = |blocks: u64| {
            let mut census = Census::default();
            census.classes[0] = ClassCensus { slabs: 1, blocks: 4096, free: 4096 - 10, cached: 0 };
            census.classes[7] =
                ClassCensus { slabs: 1, blocks: 512, free: 512 - blocks, cached: 0 };
            Look {
                pid: 1,
                heaps: vec![HeapReport { census, ..HeapReport::default() }],
                counts: None,
            }
        };
        let page = draw(&look(100), Some((Duration::from_secs(2), &look(60))));
        let page = String::from_utf8(page).expect("text");
        let rows: Vec<&str> = page.lines().skip(3).collect();
        assert!(rows[0].trim_start().starts_with("128") && rows[0].contains("+40"), "{page}");
        assert!(rows[1].trim_start().starts_with("16") && rows[1].contains("+0"), "{page}");
        assert!(page.contains("/s)"), "{page}");
    }
}
