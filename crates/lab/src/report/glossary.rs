//! The words of the report, explained where a reader needs them.

use super::html::Escaped;
use std::fmt::Write;

const WORDS: &[(&str, &str)] = &[
    (
        "alive, live bytes",
        "bytes the program has asked for and not yet freed, counted as asked: no allocator can use less if every byte is touched.",
    ),
    (
        "peak memory, measured",
        "the most resident memory of the replaying process, less what the replayer itself holds. Pages never touched do not count, so it can lie below what is alive.",
    ),
    (
        "peak memory, simulated",
        "the largest extent: from the first block to the end of the last used one. It knows no pages: a free hole in the middle counts in full.",
    ),
    (
        "time",
        "seconds from the first replayed call to the last, in the program's thread structure, without the program's own work. It ranks allocators; it does not predict the program's run time.",
    ),
    (
        "over live (#4) and on average (#1)",
        "two of the four measures of Johnstone and Wilson, “The memory fragmentation problem: solved?” (1998): most memory over most live bytes; and memory over live bytes, both averaged over all events. Less 1, so that 0 % is perfect.",
    ),
    (
        "internal fragmentation",
        "the share of used blocks that nobody asked for: headers and rounding. 1 - asked / gross, averaged over events.",
    ),
    (
        "external fragmentation",
        "1 - largest free block / all free bytes, of the free blocks below the heap's end, averaged over 32 to 64 evenly spaced walks. 0 % means that the free memory is in one piece.",
    ),
    (
        "step",
        "a block inspected, a word of a block or of an index touched, a split or a merge, as the policy's own code reports it. A machine-independent stand-in for time.",
    ),
    (
        "failed",
        "allocations for which no block was found in the simulated region. Their later frees are skipped; a failed realloc keeps the old block.",
    ),
    (
        "p50, p99.9",
        "half of all calls, 999 of 1000, were at least this fast. Reading the clock is part of each.",
    ),
];

/// Appends the list.
pub fn write(out: &mut String) {
    out.push_str("<h2 id=\"words\">Words</h2><figure><ol class=\"glossary\">");
    for (word, meaning) in WORDS {
        let _ = write!(out, "<li><b>{}</b>: {}</li>", Escaped(word), Escaped(meaning));
    }
    out.push_str("</ol></figure>");
}
