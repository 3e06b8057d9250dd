//! Do huge pages extend the reach of this machine's TLB?
//!
//! ```text
//!   buffer of n pages of 4 KiB, one line touched in each:
//!     strided   page after page, as a prefetcher likes it
//!     random    along one random cycle through all pages: each step waits for the one before
//! ```
//!
//! The same lines of the same buffer are touched with and without transparent huge pages, so caches see
//! the same and only translation differs. 64 bytes a page keep the lines of 16,384 pages (64 MiB) within
//! one megabyte of cache.
//!
//! Rounds of both kinds alternate and the quickest of each counts: other work can only slow one down.

mod memory;
mod page;

pub use memory::ProbeError;
pub use page::page;

use memory::Buffer;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes of a small page.
const PAGE: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Words of a page and of a line.
const PAGE_WORDS: usize = PAGE / 8;
const LINE_WORDS: usize = LINE / 8;
/// Shortest buffer, MiB.
const LEAST_MIB: u64 = 1;
/// Steps of one round, at least.
const STEPS: usize = 1 << 19;
/// Rounds of each kind.
const ROUNDS: usize = 7;
/// A buffer beyond the reach of small pages: from here on huge pages must show what they do.
const FAR_MIB: u64 = 64;
/// Huge pages help when they take at least this share off a random step beyond the reach.
const HELPS: f64 = 0.15;
/// Huge pages were given when they make up this share of the buffer.
const GIVEN: f64 = 0.9;

/// Nanoseconds of a step.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Steps {
    /// Page after page.
    pub strided_ns: f64,
    /// Along a random cycle.
    pub random_ns: f64,
}

/// One length of buffer.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Point {
    /// Bytes.
    pub bytes: u64,
    /// With pages of 4 KiB.
    pub small: Steps,
    /// With transparent huge pages, as far as they were given.
    pub huge: Steps,
    /// The share of the buffer that lay on huge pages.
    pub huge_share: f64,
}

/// What is to be thought of huge pages here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// They were given, and translation reaches further with them.
    Extend,
    /// They were given, and random steps cost the same: the host maps them piecewise, or the walks
    /// hit its caches.
    DoNotExtend,
    /// The kernel did not give them.
    NotGiven,
    /// No buffer was long enough to tell.
    TooSmall,
}

/// A whole measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// Version of the JSON.
    pub schema_version: u32,
    /// The processor's name, where the system tells.
    pub processor: Option<String>,
    /// Whether the processor says that a hypervisor runs it.
    pub is_virtual: bool,
    /// The kernel's setting, as it prints it.
    pub transparent_hugepage: Option<String>,
    /// By length of buffer.
    pub points: Vec<Point>,
    /// What follows.
    pub verdict: Verdict,
}

/// Measures buffers of 1 MiB up to `most_mib`, doubling. Takes some seconds.
///
/// # Errors
/// A buffer cannot be had, or `interrupted` became true.
pub fn measure(
    most_mib: u64,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Measured, ProbeError> {
    let lengths: Vec<u64> = std::iter::successors(Some(LEAST_MIB), |mib| mib.checked_mul(2))
        .take_while(|&mib| mib <= most_mib)
        .map(|mib| mib << 20)
        .collect();
    let mut points = Vec::new();
    for (done, &bytes) in lengths.iter().enumerate() {
        progress(done as u64, lengths.len() as u64);
        if interrupted.load(Ordering::Relaxed) {
            return Err(ProbeError::Interrupted);
        }
        points.push(point(bytes)?);
    }
    let verdict = verdict(&points);
    Ok(Measured {
        schema_version: 1,
        processor: cpuinfo("model name"),
        is_virtual: cpuinfo("flags").is_some_and(|flags| flags.contains("hypervisor")),
        transparent_hugepage: setting(),
        points,
        verdict,
    })
}

fn cpuinfo(key: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

fn setting() -> Option<String> {
    let text = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    Some(text.trim().to_owned())
}

fn point(bytes: u64) -> Result<Point, ProbeError> {
    let mut small = Buffer::new(bytes as usize, false)?;
    let mut huge = Buffer::new(bytes as usize, true)?;
    let huge_share = huge.huge_share();
    let [strided, random] = [Way::Strided, Way::Random].map(|way| {
        way.lay(small.words());
        way.lay(huge.words());
        let (mut least_small, mut least_huge) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..ROUNDS {
            least_small = least_small.min(walk(small.words()));
            least_huge = least_huge.min(walk(huge.words()));
        }
        (least_small, least_huge)
    });
    Ok(Point {
        bytes,
        small: Steps { strided_ns: strided.0, random_ns: random.0 },
        huge: Steps { strided_ns: strided.1, random_ns: random.1 },
        huge_share,
    })
}

/// In which order pages are touched.
#[derive(Clone, Copy)]
enum Way {
    Strided,
    Random,
}

impl Way {
    /// Writes into one line of every page where the next one is: one cycle through all of them.
    fn lay(self, words: &mut [u64]) {
        let pages = words.len() / PAGE_WORDS;
        let mut order: Vec<usize> = (0..pages).collect();
        if let Way::Random = self {
            shuffle(&mut order);
        }
        for (at, &page) in order.iter().enumerate() {
            let next = order[(at + 1) % pages];
            words[place(page)] = place(next) as u64;
        }
    }
}

/// The word of a page that is touched: lines differ, so that all sets of the caches are used.
fn place(page: usize) -> usize {
    page * PAGE_WORDS + page * 7 % (PAGE / LINE) * LINE_WORDS
}

/// Fisher and Yates, with a fixed seed.
fn shuffle(order: &mut [usize]) {
    let mut random = freehold_sim::random::Random::new(0x7ab1e);
    for at in (1..order.len()).rev() {
        order.swap(at, random.below(at as u64 + 1) as usize);
    }
}

/// Nanoseconds of a step along the cycle, after one round to warm up.
fn walk(words: &[u64]) -> f64 {
    let pages = words.len() / PAGE_WORDS;
    let steps = STEPS.next_multiple_of(pages.max(1));
    let mut at = std::hint::black_box(place(0));
    for _ in 0..pages {
        at = words[at] as usize;
    }
    let began = Instant::now();
    for _ in 0..steps {
        at = words[at] as usize;
    }
    let took = began.elapsed();
    std::hint::black_box(at);
    took.as_nanos() as f64 / steps as f64
}

fn verdict(points: &[Point]) -> Verdict {
    let far: Vec<&Point> = points.iter().filter(|point| point.bytes >= FAR_MIB << 20).collect();
    if far.is_empty() {
        return Verdict::TooSmall;
    }
    if far.iter().any(|point| point.huge_share < GIVEN) {
        return Verdict::NotGiven;
    }
    let gain = |point: &&Point| 1.0 - point.huge.random_ns / point.small.random_ns;
    let mut gains: Vec<f64> = far.iter().map(gain).collect();
    gains.sort_by(f64::total_cmp);
    if gains[gains.len() / 2] >= HELPS { Verdict::Extend } else { Verdict::DoNotExtend }
}

impl Measured {
    /// The verdict as sentences.
    pub fn sentences(&self) -> Vec<String> {
        let last = self.points.last();
        let costs = last.map_or(String::new(), |point| {
            format!(
                "A random step through {} costs {:.1} ns on 4 KiB pages and {:.1} ns on huge ones.",
                crate::human::bytes(point.bytes),
                point.small.random_ns,
                point.huge.random_ns
            )
        });
        let verdict = match self.verdict {
            Verdict::Extend => "Huge pages extend the reach of the TLB on this machine, now.",
            Verdict::DoNotExtend => {
                "Huge pages were given, but do not extend the reach of the TLB here: this machine \
                 cannot show what they gain elsewhere, and no gain is claimed from it."
            }
            Verdict::NotGiven => {
                "The kernel did not give huge pages, so nothing is said about them; see \
                 /sys/kernel/mm/transparent_hugepage/enabled."
            }
            Verdict::TooSmall => "No buffer was long enough to tell; measure up to 64 MiB or more.",
        };
        let host = match self.is_virtual {
            true => "This is a virtual machine: its host decides what backs a huge page.",
            false => "No hypervisor shows itself.",
        };
        vec![verdict.to_owned(), costs, host.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_go_through_every_page_once() {
        for way in [Way::Strided, Way::Random] {
            let mut words = vec![0; 64 * PAGE_WORDS];
            way.lay(&mut words);
            let (mut at, mut seen) = (place(0), Vec::new());
            for _ in 0..64 {
                seen.push(at / PAGE_WORDS);
                at = words[at] as usize;
            }
            assert_eq!(at, place(0));
            seen.sort_unstable();
            assert_eq!(seen, (0..64).collect::<Vec<_>>());
        }
    }

    fn at(mib: u64, small: f64, huge: f64, huge_share: f64) -> Point {
        let steps = |random_ns| Steps { strided_ns: 1.0, random_ns };
        Point { bytes: mib << 20, small: steps(small), huge: steps(huge), huge_share }
    }

    #[test]
    fn the_verdict_needs_pages_that_were_given_and_a_gain() {
        assert_eq!(verdict(&[at(1, 5.0, 2.0, 1.0)]), Verdict::TooSmall);
        assert_eq!(verdict(&[at(64, 20.0, 5.0, 0.2)]), Verdict::NotGiven);
        assert_eq!(verdict(&[at(64, 20.0, 19.0, 1.0)]), Verdict::DoNotExtend);
        let points = [at(64, 20.0, 19.0, 1.0), at(128, 20.0, 10.0, 1.0), at(256, 30.0, 9.0, 1.0)];
        assert_eq!(verdict(&points), Verdict::Extend);
    }

    #[test]
    fn a_small_measurement_works_here() {
        let measured = measure(2, &mut |_, _| {}, &AtomicBool::new(false)).unwrap();
        assert_eq!((measured.points.len(), measured.verdict), (2, Verdict::TooSmall));
        assert!(measured.points.iter().all(|point| point.small.random_ns > 0.0));
        assert!(page(&measured, "freehold probe tlb").contains("<svg"));
        let stopped = measure(2, &mut |_, _| {}, &AtomicBool::new(true));
        assert!(matches!(stopped, Err(ProbeError::Interrupted)));
    }
}
