//! Cache hits of every load and store of the program, stacks included: what the paper's counters counted.
//!
//! Cavin and Alonso read the counters of the R10000 by `perfex`: loads and stores that graduated, misses of the
//! first level, misses of the second. Valgrind's cachegrind counts the same of a program of this machine, with
//! caches of the very shape that is asked for. Its instructions are x86-64's, where the paper's were MIPS's.
//!
//! Invariant: the same program gives the same counts, to a few in a million.

use super::caches::CacheUse;
use super::place::{PlaceError, Sample};
use freehold_sim::cache::{CacheSpec, ORIGIN_SECOND, R10000_FIRST};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// The first-level instruction cache of the R10000: 32 KB, two ways, lines of 64 bytes.
const INSTRUCTIONS: CacheSpec = CacheSpec { bytes: 32 << 10, line_bytes: 64, ways: 2 };

/// A program whose loads and stores are to be counted.
pub struct Counted<'a> {
    /// What it is.
    pub what: String,
    /// Words of its command.
    pub command: &'a [OsString],
}

/// Data references, and misses of both levels among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counts {
    references: u64,
    first_misses: u64,
    second_misses: u64,
}

/// Runs the program under cachegrind; `folder` holds its counts meanwhile.
///
/// # Errors
/// Valgrind is not there, the program fails under it, or the counts cannot be read.
pub fn count(counted: &Counted<'_>, folder: &Path) -> Result<CacheUse, PlaceError> {
    let failed = |what: String| PlaceError::Counted { what };
    let out = folder.join("cachegrind.out");
    let option = |name: &str, cache: CacheSpec| {
        format!("--{name}={},{},{}", cache.bytes, cache.ways, cache.line_bytes)
    };
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=cachegrind", "--cache-sim=yes"]);
    command.args([option("I1", INSTRUCTIONS), option("D1", R10000_FIRST)]);
    command.arg(option("LL", ORIGIN_SECOND));
    command.arg(format!("--cachegrind-out-file={}", out.display())).args(counted.command);
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let output = output
        .map_err(|error| failed(format!("valgrind cannot be run ({error}); is it installed?")))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.lines().last().unwrap_or_default();
        return Err(failed(format!("valgrind ended with {}: {last}", output.status)));
    }
    let text = std::fs::read_to_string(&out)
        .map_err(|error| failed(format!("what cachegrind counted cannot be read: {error}")))?;
    let counts = Counts::read(&text)
        .ok_or_else(|| failed("what cachegrind counted cannot be understood".to_owned()))?;
    Ok(counts.of(&counted.what))
}

impl Counts {
    /// From cachegrind's file: `events:` names the columns, `summary:` has their sums.
    fn read(text: &str) -> Option<Counts> {
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let names: Vec<&str> = line("events:")?.split_whitespace().collect();
        let sums: Vec<u64> = line("summary:")?
            .split_whitespace()
            .map(|sum| sum.parse().ok())
            .collect::<Option<_>>()?;
        let sum = |events: [&str; 2]| {
            let of = |event| sums.get(names.iter().position(|name| *name == event)?).copied();
            Some(of(events[0])? + of(events[1])?)
        };
        Some(Counts {
            references: sum(["Dr", "Dw"])?,
            first_misses: sum(["D1mr", "D1mw"])?,
            second_misses: sum(["DLmr", "DLmw"])?,
        })
    }

    fn of(self, what: &str) -> CacheUse {
        let Counts { references, first_misses, second_misses } = self;
        let hits = |misses: u64, of: u64| 1.0 - misses as f64 / of.max(1) as f64;
        CacheUse {
            what: what.to_owned(),
            words: references,
            first_hits: hits(first_misses, references),
            second_hits: hits(second_misses, first_misses),
            either_hits: hits(second_misses, references),
            tlb_per_1000: None,
        }
    }
}

/// About how many words of heap objects the whole run touches: what was told, times what one told piece stands
/// for.
pub fn heap_words(sample: &Sample, of_patches: u32, of_units: u32) -> u64 {
    sample.words * u64::from(of_patches) + sample.part_words * u64::from(of_units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_found_by_the_names_of_their_columns() {
        let text = "desc: D1 cache: 32768 B\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\n\
                    fn=main\n1 9 9 9 9 9 9 9 9 9\nsummary: 900 3 2 800 30 6 200 20 4\n";
        let found = Counts::read(text).unwrap().of("all");
        assert_eq!((found.words, found.first_hits, found.second_hits), (1000, 0.95, 0.8));
        assert_eq!((found.either_hits, found.tlb_per_1000), (0.99, None));
        assert!(!found.is_as_published() && !found.is_as_published_of_all());
        assert_eq!(Counts::read("events: Ir\nsummary: 5\n"), None);
    }

    #[test]
    fn a_sample_stands_for_the_run() {
        let sample = Sample { words: 10, part_words: 3, ..Sample::default() };
        assert_eq!(heap_words(&sample, 4, 100), 340);
    }
}
