//! What the paper says of the program's memory and of its allocators, and what came of it here.

use super::{PAPER_ALLOCATED, PAPER_IN_USE, PAPER_USEFUL, Results, Summary};
use crate::shared_heap::SCHEMES;
use crate::studies::claims::{Claim, near};
use crate::studies::class::{Basis, Class};

/// Fewer processors than this cannot tell two running threads from four.
const ENOUGH: usize = 4;
/// A program whose speed-up is this share of the loop's scales.
const SCALES: f64 = 0.9;

/// Every claim that the paper makes in numbers or in words that can be tested.
pub fn claims(results: &Results) -> Vec<Claim> {
    let mut claims = profile(results);
    claims.extend(in_use(results));
    claims.extend([one_lock(results), glibc(results), last_design(results)].into_iter().flatten());
    claims
}

fn profile(results: &Results) -> Vec<Claim> {
    let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let exactly = |published: f64, ours: f64| near(Basis::Predicted, published, (ours, ours));
    let (useful, ours) = (PAPER_USEFUL, results.profile.peak_live);
    let times = |allocated: u64, useful: u64| allocated as f64 / useful.max(1) as f64;
    let published = times(PAPER_ALLOCATED, useful);
    let our_times = times(results.profile.allocated, ours);
    vec![
        Claim {
            what: "Bytes alive at most".to_owned(),
            published: mb(useful),
            ours: mb(ours),
            class: exactly(useful as f64, ours as f64),
            why: "The room has the paper's number of surfaces and, by its threshold, of meshes; what an object takes follows.",
        },
        Claim {
            what: "Bytes allocated for each byte alive".to_owned(),
            published: format!("{published:.0}"),
            ours: format!("{our_times:.1}"),
            class: exactly(published, our_times),
            why: "Elements keep their lists of sub-centres; made anew for each candidate link they would give 42. Which \
                  lists the paper's program made anew it does not say.",
        },
    ]
}

/// Of glibc, the one of the paper's three allocators that can be had (in its version of today).
fn in_use(results: &Results) -> Option<Claim> {
    let glibc = find(results, "glibc", 1)?;
    let ours = results.profile.peak_live as f64 / glibc.peak_resident.max(1) as f64;
    Some(Claim {
        what: "Share of the memory in use, glibc".to_owned(),
        published: format!("{:.0} %", PAPER_IN_USE * 100.0),
        ours: format!("{:.0} %", ours * 100.0),
        class: near(Basis::Predicted, PAPER_IN_USE, (ours, ours)),
        why: "Of the resident memory of the whole process, with its code and stacks; the paper's simulator saw the heap alone.",
    })
}

fn one_lock(results: &Results) -> Option<Claim> {
    let most = with_most_threads(results, SCHEMES[0].name)?;
    Some(scaling(
        results,
        "One lock: one or two threads run, the others wait".to_owned(),
        "at most 2",
        Some(format!("{:.2} with {} threads", most.speed_up, most.threads)),
        most.speed_up <= 2.0,
        "Two threads cannot show whether four would run.",
    ))
}

fn glibc(results: &Results) -> Option<Claim> {
    let most = with_most_threads(results, "glibc")?;
    let ours = of_the_loop(most);
    Some(Claim {
        what: "glibc scales to four or eight threads".to_owned(),
        published: "4 to 8".to_owned(),
        ours: ours.unwrap_or_else(refused),
        class: Class::Undecidable,
        why: "It was glibc's malloc of 2000, and takes more than eight processors to see.",
    })
}

fn last_design(results: &Results) -> Option<Claim> {
    let most = with_most_threads(results, SCHEMES[3].name)?;
    Some(scaling(
        results,
        "The paper's last design scales".to_owned(),
        "with the processors",
        of_the_loop(most),
        most.against_loop.low >= SCALES,
        "A heap for each thread with frees by inbox stands for it: the design is described in one sentence.",
    ))
}

/// A speed-up as a share of the loop's, where the loop's can be.
fn of_the_loop(most: &Summary) -> Option<String> {
    let share = most.against_loop.median;
    let said = || format!("{share:.2} of the loop's with {} threads", most.threads);
    share.is_finite().then(said)
}

fn refused() -> String {
    "refused: the loop gained more than there are processors".to_owned()
}

/// A claim on many threads: undecidable where there are few processors, or the loop's gain was refused.
fn scaling(
    results: &Results,
    what: String,
    published: &str,
    ours: Option<String>,
    holds: bool,
    why: &'static str,
) -> Claim {
    let class = match (results.processors < ENOUGH || ours.is_none(), holds) {
        (true, _) => Class::Undecidable,
        (false, true) => Class::Holds,
        (false, false) => Class::Fails,
    };
    let (published, ours) = (published.to_owned(), ours.unwrap_or_else(refused));
    Claim { what, published, ours, class, why }
}

fn find<'a>(results: &'a Results, allocator: &str, threads: u32) -> Option<&'a Summary> {
    results.allocators.iter().find(|row| row.allocator == allocator && row.threads == threads)
}

fn with_most_threads<'a>(results: &'a Results, allocator: &str) -> Option<&'a Summary> {
    let of = results.allocators.iter().filter(|row| row.allocator == allocator);
    of.max_by_key(|row| row.threads)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::radiosity::{Median, Profiled, SCHEMA_VERSION};

    fn row(allocator: &str, threads: u32, speed_up: f64) -> Summary {
        let against_loop = Median { median: speed_up, low: speed_up - 0.02, high: speed_up };
        Summary {
            allocator: allocator.to_owned(),
            threads,
            seconds: 1.0,
            speed_up: speed_up * f64::from(threads),
            loop_speed_up: f64::from(threads),
            against_loop,
            refused: 0,
            peak_resident: 11_000_000,
            useful_bytes: 9_000_000,
            more_work: 1.0,
            heap_bytes: 0,
            external: None,
        }
    }

    fn results(processors: usize) -> Results {
        let threads = processors as u32;
        Results {
            schema_version: SCHEMA_VERSION,
            processors,
            profile: Profiled {
                allocated: 60_000_000,
                peak_live: 10_100_000,
                ..Profiled::default()
            },
            allocators: vec![
                row("glibc", 1, 1.0),
                row("glibc", threads, 0.8),
                row(SCHEMES[0].name, threads, 0.2),
                row(SCHEMES[3].name, threads, 0.95),
            ],
            locks: Vec::new(),
            scaled: Vec::new(),
            policies: Vec::new(),
        }
    }

    #[test]
    fn two_processors_decide_nothing_about_scaling() {
        use Class::{Fails, Holds, Undecidable};
        let classes = |processors| {
            claims(&results(processors)).iter().map(|claim| claim.class).collect::<Vec<_>>()
        };
        assert_eq!(classes(2), [Holds, Fails, Holds, Undecidable, Undecidable, Undecidable]);
        assert_eq!(classes(8), [Holds, Fails, Holds, Holds, Undecidable, Holds]);
    }
}
