//! What is left of panics in libfreehold.so as it ships, read from its own symbols and code.
//!
//! ```text
//! never     formatting, unwinding, `unwrap` and `expect`, overflow, division: nothing of that is linked
//! only      an index outside of its row: a broken invariant of ours, told in one place for nearly all rows (`core::row`).
//!           It ends in our handler: a fixed line, and abort
//! nowhere   in the functions that programs call all the time
//! ```
//!
//! Misuse by a program never gets that far (`bad_input.rs`, and the fuzz target `malloc`, which runs with the same
//! checks): it is answered by `Misuse`. The number of places is bounded here so that it can only fall.

#[allow(dead_code, reason = "nothing is compiled here")]
mod support;

use support::library;

/// The two ways a bad index is told, assertions at the creation of a real-time heap, and what all of them call.
const ALLOWED: &[&str] =
    &["panic_bounds_check", "slice_index_fail", "9panicking5panic", "panic_fmt"];
/// Parts of names that say that something may panic, unwind or format. (Names are mangled: lengths come first.)
const TELLTALE: &[&str] = &[
    "9panicking",
    "_fail",
    "panic_const",
    "unwrap_failed",
    "expect_failed",
    "4core3fmt",
    "_Unwind",
    "rust_eh_personality",
];
/// Straight lines, every one.
const HOT: &[&str] = &[
    "malloc",
    "free",
    "calloc",
    "realloc",
    "cfree",
    "free_sized",
    "free_aligned_sized",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "malloc_usable_size",
    "_Znwm",
    "_Znam",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
];
/// The one place that tells of an index outside of a `Row`.
const BROKEN: &str = "3row6broken";
/// Other places that may tell of a bad index. Lower it when there are fewer.
const MOST_PLACES: usize = 16;

/// A function of the library.
struct Function<'a> {
    name: &'a str,
    at: u64,
    code: &'a [u8],
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut wide = [0; 8];
    wide[..N].copy_from_slice(&bytes[at..at + N]);
    u64::from_le_bytes(wide)
}

/// A section header of a 64-bit ELF file: type, address, offset, length, link.
struct Section {
    kind: u64,
    at: u64,
    offset: usize,
    len: usize,
    link: usize,
}

fn sections(elf: &[u8]) -> Vec<Section> {
    let (start, len, count) =
        (number::<8>(elf, 0x28) as usize, number::<2>(elf, 0x3A) as usize, number::<2>(elf, 0x3C));
    let headers = (0..count as usize).map(|index| &elf[start + index * len..]);
    headers
        .map(|header| Section {
            kind: number::<4>(header, 4),
            at: number::<8>(header, 0x10),
            offset: number::<8>(header, 0x18) as usize,
            len: number::<8>(header, 0x20) as usize,
            link: number::<4>(header, 0x28) as usize,
        })
        .collect()
}

/// Every function in the symbol table, with its code.
fn functions(elf: &[u8]) -> Vec<Function<'_>> {
    const SYMBOLS: u64 = 2;
    const SYMBOL_LEN: usize = 24;
    const FUNCTION: u64 = 2;
    let sections = sections(elf);
    let table = sections.iter().find(|section| section.kind == SYMBOLS).expect("symbols are kept");
    let names = sections[table.link].offset;
    let symbols = elf[table.offset..table.offset + table.len].chunks_exact(SYMBOL_LEN);
    let functions = symbols.filter(|symbol| number::<1>(symbol, 4) & 15 == FUNCTION);
    functions
        .filter_map(|symbol| {
            let home = sections.get(number::<2>(symbol, 6) as usize)?;
            let (at, len) = (number::<8>(symbol, 8), number::<8>(symbol, 16) as usize);
            let name = &elf[names + number::<4>(symbol, 0) as usize..];
            let name = std::str::from_utf8(name.split(|byte| *byte == 0).next()?).ok()?;
            let start = home.offset + (at - home.at) as usize;
            Some(Function { name, at, code: elf.get(start..start + len)? })
        })
        .filter(|function| !function.code.is_empty())
        .collect()
}

/// How often the function calls or jumps to one of `targets`.
fn calls(function: &Function<'_>, targets: &[u64]) -> usize {
    const CALL: u8 = 0xE8;
    const JUMP: u8 = 0xE9;
    let places = function.code.windows(5).enumerate();
    let relative = places.filter(|(_, bytes)| matches!(bytes[0], CALL | JUMP));
    relative
        .filter(|(index, bytes)| {
            let distance = i32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
            let from = function.at + *index as u64 + 5;
            targets.contains(&from.wrapping_add_signed(i64::from(distance)))
        })
        .count()
}

#[test]
fn nothing_panics_but_a_broken_invariant() {
    let elf = std::fs::read(library()).expect("built");
    let functions = functions(&elf);
    assert!(functions.len() > 100, "no symbols to look at: {}", functions.len());
    let told: Vec<_> =
        functions.iter().filter(|f| TELLTALE.iter().any(|part| f.name.contains(part))).collect();
    let allowed = |name: &str| ALLOWED.iter().any(|part| name.contains(part));
    let others: Vec<_> = told.iter().map(|f| f.name).filter(|name| !allowed(name)).collect();
    assert!(others.is_empty(), "linked, though nothing may need it: {others:?}");

    let targets: Vec<u64> = told.iter().map(|function| function.at).collect();
    let callers = functions.iter().filter(|f| !targets.contains(&f.at));
    let callers: Vec<_> =
        callers.map(|f| (f.name, calls(f, &targets))).filter(|c| c.1 > 0).collect();
    let broken: Vec<_> = functions.iter().filter(|f| f.name.contains(BROKEN)).collect();
    assert_eq!(broken.len(), 1, "what tells of an index outside of a row");
    let ends: Vec<u64> = targets.iter().copied().chain([broken[0].at]).collect();
    let hot = functions.iter().filter(|f| HOT.contains(&f.name) && calls(f, &ends) > 0);
    let hot: Vec<_> = hot.map(|f| f.name).collect();
    assert!(hot.is_empty(), "hot functions that may panic: {hot:?}");
    let places: usize = callers.iter().map(|(_, count)| count).sum();
    assert!(places <= MOST_PLACES, "{places} places: {callers:?}");
    let missing: Vec<_> =
        HOT.iter().filter(|hot| !functions.iter().any(|f| f.name == **hot)).collect();
    assert!(missing.is_empty(), "not exported: {missing:?}");
}
