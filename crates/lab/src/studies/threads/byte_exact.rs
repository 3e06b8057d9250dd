//! Figure 14 at the grain of the paper: lists of free blocks (its chunks) that are cut to the byte.
//!
//! Our heaps round lengths to 16 bytes, of which there are 65 up to 1 KiB, so that a freed block soon fits again.
//! The paper's lists have no such grain, and what is cut off stays, be it one byte. So its chunks are counted here in
//! its own experiment (pairs of an allocation and a free, so many threads in turn, no coalescing) on lists of
//! lengths, without memory. The heap grows by what is asked for when no chunk is long enough.
//!
//! What a call costs is counted on the same lists: the chunks that a walk looks at. Best and worst fit look at all of
//! them, first fit at those up to the one it takes [O: the paper prints no code].
//!
//! Invariant: a count is a function of seed, sizes, threads and grain. [O] The order of first fit's list: a freed
//! chunk goes to the end, and what is left of a cut one stays in its place.

use super::heaps::Fit;
use super::plan::ITERATION;
use super::published;
use crate::studies::class::{Basis, Class, Ours};
use crate::studies::statistics::Summary;
use freehold_sim::random::Random;
use serde::Serialize;
use std::collections::BTreeMap;

/// Near enough to the printed number of chunks.
const NEAR: f64 = 0.10;

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub struct Counting {
    /// Of the first of the seeds.
    pub seed: u64,
    /// How many seeds.
    pub seeds: u64,
    /// Sizes, from and to, uniform.
    pub sizes: (u64, u64),
    /// Threads that allocate before any of them frees.
    pub threads: usize,
}

/// A number of figure 14, and ours.
#[derive(Clone, Debug, Serialize)]
pub struct FreeBlocks {
    /// The fit.
    pub fit: &'static str,
    /// Iterations of a thousand pairs.
    pub iterations: u64,
    /// As printed.
    pub published: f64,
    /// Free chunks of lists that are cut to the byte.
    pub to_the_byte: Summary,
    /// The same with one thread.
    pub alone: Summary,
    /// The first over the second, seed by seed.
    pub over_alone: Summary,
    /// The first of every seed.
    #[serde(skip)]
    pub counts: Vec<f64>,
    /// The same lists with lengths in multiples of 16 bytes.
    pub to_sixteen: Summary,
    /// Whether the first is within 10 % of what is printed.
    pub class: Class,
}

/// The paper's times over the iterations, beside the chunks that its lists are walked over. Time is taken as a cost of each
/// call and one of each chunk looked at: both are fitted to the fewest and the most iterations, and what lies between is predicted.
#[derive(Clone, Debug, Serialize)]
pub struct Walked {
    /// The fit.
    pub fit: &'static str,
    /// Iterations of a thousand pairs.
    pub iterations: u64,
    /// Nanoseconds, as printed: the mean of three runs.
    pub published_ns: f64,
    /// Chunks looked at.
    pub steps: Summary,
    /// Nanoseconds by the two costs, by seeds.
    pub by_steps_ns: Summary,
    /// Nanoseconds of a call, and of a chunk looked at: means over the seeds.
    pub costs_ns: (f64, f64),
    /// Whether the time by steps is within 10 % of the printed one.
    pub class: Class,
}

/// The iterations whose times are printed.
const TIMED: [u64; 6] = [10, 20, 30, 40, 50, 100];

/// The paper's times over the iterations under every fit.
pub fn walked(counting: &Counting) -> Vec<Walked> {
    Fit::ALL.into_iter().flat_map(|fit| walked_by(counting, fit)).collect()
}

fn walked_by(counting: &Counting, fit: Fit) -> Vec<Walked> {
    let published: Vec<f64> = TIMED
        .into_iter()
        .filter_map(|iterations| Some(published::by_iterations(fit, iterations)?.mean))
        .collect();
    let seeds: Vec<Vec<u64>> = (0..counting.seeds).map(|seed| counting.steps(fit, seed)).collect();
    let last = TIMED.len() - 1;
    if published.len() <= last {
        return Vec::new();
    }
    let calls = |nth: usize| (TIMED[nth] * ITERATION) as f64;
    // Two equations: calls x a + steps x b = time, of the first point and the last.
    let costs: Vec<(f64, f64)> = seeds
        .iter()
        .map(|steps| {
            let (few, many) = (steps[0] as f64 / calls(0), steps[last] as f64 / calls(last));
            let (short, long) = (published[0] / calls(0), published[last] / calls(last));
            let of_step = (long - short) / (many - few);
            (short - few * of_step, of_step)
        })
        .collect();
    let mean =
        |get: fn(&(f64, f64)) -> f64| costs.iter().map(get).sum::<f64>() / costs.len() as f64;
    let point = |nth: usize| {
        let steps: Vec<f64> = seeds.iter().map(|steps| steps[nth] as f64).collect();
        let times: Vec<f64> =
            costs.iter().zip(&steps).map(|((a, b), steps)| a * calls(nth) + b * steps).collect();
        let by_steps_ns = Summary::of(&times);
        let limits = (published[nth] * (1.0 - NEAR), published[nth] * (1.0 + NEAR));
        let basis = if nth == 0 || nth == last { Basis::Fitted } else { Basis::Predicted };
        Walked {
            fit: fit.name(),
            iterations: TIMED[nth],
            published_ns: published[nth],
            steps: Summary::of(&steps),
            by_steps_ns,
            costs_ns: (mean(|costs| costs.0), mean(|costs| costs.1)),
            class: Class::of(basis, by_steps_ns.into(), limits),
        }
    };
    (0..TIMED.len()).map(point).collect()
}

/// Every number of figure 14.
pub fn figure_14(counting: &Counting) -> Vec<FreeBlocks> {
    let mut all = Vec::new();
    for fit in Fit::ALL {
        for iterations in [10, 50, 100] {
            let Some(published) = published::blocks(fit, iterations) else { continue };
            let of =
                |counting: &Counting, grain| counting.counts(fit, iterations * ITERATION, grain);
            let counts = of(counting, 1);
            let one = of(&Counting { threads: 1, ..*counting }, 1);
            let quotients: Vec<f64> =
                counts.iter().zip(&one).map(|(many, one)| many / one).collect();
            let to_the_byte = Summary::of(&counts);
            let limits = (published * (1.0 - NEAR), published * (1.0 + NEAR));
            all.push(FreeBlocks {
                fit: fit.name(),
                iterations,
                published,
                to_the_byte,
                alone: Summary::of(&one),
                over_alone: Summary::of(&quotients),
                to_sixteen: Summary::of(&of(counting, 16)),
                class: Class::of(Basis::Predicted, to_the_byte.into(), limits),
                counts,
            });
        }
    }
    all
}

/// Of the paper's conclusion that fragmentation is the same despite the fit and the threads: whether chunks are within
/// 10 % of those of one thread, fit by fit, and of those of every other fit after as many iterations.
pub fn alike(all: &[FreeBlocks]) -> Class {
    let same = |quotients: Summary| {
        Class::of(Basis::Predicted, Ours::from(quotients), (1.0 - NEAR, 1.0 + NEAR))
    };
    let threads = all.iter().map(|one| same(one.over_alone));
    Class::of_all(threads.chain(between(all).map(|(_, quotients)| same(quotients))))
}

/// Worst over best fit after each number of iterations, seed by seed; the same of first fit.
pub fn between(all: &[FreeBlocks]) -> impl Iterator<Item = (&FreeBlocks, Summary)> {
    let best = |iterations| {
        all.iter().find(move |one| one.fit == Fit::Best.name() && one.iterations == iterations)
    };
    let others = all.iter().filter(|one| one.fit != Fit::Best.name());
    others.filter_map(move |one| {
        let best = best(one.iterations)?;
        let quotients: Vec<f64> =
            one.counts.iter().zip(&best.counts).map(|(one, best)| one / best).collect();
        Some((one, Summary::of(&quotients)))
    })
}

impl Counting {
    /// As the study's settings have it.
    pub fn of(settings: &serde_json::Value) -> Counting {
        let size = |key: &str| settings["sizes"][key].as_u64().unwrap_or(1).max(1);
        Counting {
            seed: settings["seed"].as_u64().unwrap_or(1),
            seeds: settings["runs"].as_u64().unwrap_or(1).clamp(1, 10),
            sizes: (size("from"), size("to").max(size("from"))),
            threads: settings["iterations"]["threads"].as_u64().unwrap_or(1).max(1) as usize,
        }
    }

    fn counts(&self, fit: Fit, pairs: u64, grain: u64) -> Vec<f64> {
        let of = |seed| self.count(fit, pairs, grain, self.seed + seed) as f64;
        (0..self.seeds).map(of).collect()
    }

    /// Chunks that lists cut to the byte are walked over until each number of [`TIMED`] iterations.
    fn steps(&self, fit: Fit, seed: u64) -> Vec<u64> {
        let mut all = Vec::new();
        let pairs = TIMED[TIMED.len() - 1] * ITERATION;
        self.run(fit, pairs, 1, self.seed + seed, &mut |done, steps| {
            if TIMED.iter().any(|iterations| iterations * ITERATION == done) {
                all.push(steps);
            }
        });
        all
    }

    /// Free chunks after so many pairs.
    fn count(&self, fit: Fit, pairs: u64, grain: u64, seed: u64) -> usize {
        self.run(fit, pairs, grain, seed, &mut |_, _| {})
    }

    /// The same; `after` gets the pairs done and the chunks looked at so far.
    fn run(
        &self,
        fit: Fit,
        pairs: u64,
        grain: u64,
        seed: u64,
        after: &mut dyn FnMut(u64, u64),
    ) -> usize {
        let mut random = Random::named(seed, &[0xb17e]);
        let mut list = Chosen::new(fit);
        let mut held = Vec::new();
        let mut steps = 0;
        for done in 1..=pairs {
            let size = random.uniform(self.sizes.0, self.sizes.1).next_multiple_of(grain);
            steps += list.walk(size);
            if let Some(rest) = list.take(size) {
                list.keep(rest);
            }
            held.push(size);
            if held.len() == self.threads {
                held.drain(..).for_each(|size| list.add(size));
            }
            after(done, steps);
        }
        list.blocks() + held.len()
    }
}

/// A list of chunks under one fit.
enum Chosen {
    /// By length, with how many there are; the longest if `worst`.
    ByLength { blocks: BTreeMap<u64, usize>, count: usize, worst: bool },
    /// In the order of the list: lengths at the leaves of a tree of maxima, 0 for none; how many chunks lie below each node.
    InOrder {
        maxima: Vec<u64>,
        below: Vec<u64>,
        leaves: usize,
        used: usize,
        cut: usize,
        count: usize,
    },
}

impl Chosen {
    fn new(fit: Fit) -> Chosen {
        let by_length = |worst| Chosen::ByLength { blocks: BTreeMap::new(), count: 0, worst };
        match fit {
            Fit::Best => by_length(false),
            Fit::Worst => by_length(true),
            Fit::First => {
                let (maxima, below) = (vec![0; 2], vec![0; 2]);
                Chosen::InOrder { maxima, below, leaves: 1, used: 0, cut: 0, count: 0 }
            }
        }
    }

    /// Chunks that a walk of the list looks at to choose for `size`: all, or under first fit those up to the first that is
    /// long enough.
    fn walk(&self, size: u64) -> u64 {
        let Chosen::InOrder { maxima, below, leaves, .. } = self else {
            return self.blocks() as u64;
        };
        if maxima[1] < size {
            return below[1];
        }
        let (mut at, mut before) = (1, 0);
        while at < *leaves {
            let passes = maxima[2 * at] < size;
            before += if passes { below[2 * at] } else { 0 };
            at = 2 * at + usize::from(passes);
        }
        before + 1
    }

    fn blocks(&self) -> usize {
        match self {
            Chosen::ByLength { count, .. } | Chosen::InOrder { count, .. } => *count,
        }
    }

    /// Takes the chunk that the fit chooses for `size`: what is left of it, 0 for nothing. `None`: there is none.
    fn take(&mut self, size: u64) -> Option<u64> {
        match self {
            Chosen::ByLength { blocks, count, worst } => {
                let longest = blocks.last_key_value().map(|(&length, _)| length);
                let found = match worst {
                    true => longest.filter(|&length| length >= size),
                    false => blocks.range(size..).next().map(|(&length, _)| length),
                }?;
                *count -= 1;
                let left = blocks.get_mut(&found)?;
                *left -= 1;
                if *left == 0 {
                    blocks.remove(&found);
                }
                Some(found - size)
            }
            Chosen::InOrder { maxima, leaves, cut, count, .. } => {
                if maxima[1] < size {
                    return None;
                }
                let mut at = 1;
                while at < *leaves {
                    at = 2 * at + usize::from(maxima[2 * at] < size);
                }
                *cut = at - *leaves;
                *count -= 1;
                let rest = maxima[at] - size;
                self.set(at, 0);
                Some(rest)
            }
        }
    }

    /// What is left of the chunk just taken stays where that was.
    fn keep(&mut self, rest: u64) {
        if rest == 0 {
            return;
        }
        match self {
            Chosen::ByLength { .. } => self.add(rest),
            Chosen::InOrder { leaves, cut, count, .. } => {
                *count += 1;
                let at = *leaves + *cut;
                self.set(at, rest);
            }
        }
    }

    /// A freed chunk, at the end of a list in order.
    fn add(&mut self, length: u64) {
        match self {
            Chosen::ByLength { blocks, count, .. } => {
                *blocks.entry(length).or_insert(0) += 1;
                *count += 1;
            }
            Chosen::InOrder { leaves, used, count, .. } => {
                *count += 1;
                let at = *used;
                *used += 1;
                if at == *leaves {
                    self.double();
                }
                let Chosen::InOrder { leaves, .. } = self else { return };
                let at = *leaves + at;
                self.set(at, length);
            }
        }
    }

    /// Changes a leaf and the maxima above it.
    fn set(&mut self, leaf: usize, length: u64) {
        let Chosen::InOrder { maxima, below, .. } = self else { return };
        maxima[leaf] = length;
        below[leaf] = u64::from(length > 0);
        let mut at = leaf / 2;
        while at > 0 {
            maxima[at] = maxima[2 * at].max(maxima[2 * at + 1]);
            below[at] = below[2 * at] + below[2 * at + 1];
            at /= 2;
        }
    }

    /// Twice the leaves, the old ones first.
    fn double(&mut self) {
        let Chosen::InOrder { maxima, below, leaves, .. } = self else { return };
        let old: Vec<u64> = maxima[*leaves..].to_vec();
        *leaves *= 2;
        *maxima = vec![0; 2 * *leaves];
        *below = vec![0; 2 * *leaves];
        for (nth, &length) in old.iter().enumerate() {
            maxima[*leaves + nth] = length;
            below[*leaves + nth] = u64::from(length > 0);
        }
        for at in (1..*leaves).rev() {
            maxima[at] = maxima[2 * at].max(maxima[2 * at + 1]);
            below[at] = below[2 * at] + below[2 * at + 1];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTING: Counting = Counting { seed: 1, seeds: 3, sizes: (1, 1024), threads: 1 };

    /// The list walked as the paper's program walks it: its chunks, and those looked at.
    fn by_walking(fit: Fit, pairs: u64, seed: u64) -> (usize, u64) {
        let mut random = Random::named(seed, &[0xb17e]);
        let mut list: Vec<u64> = Vec::new();
        let mut looked_at = 0;
        for _ in 0..pairs {
            let size = random.uniform(1, 1024);
            let first = list.iter().position(|length| *length >= size).map(|at| at + 1);
            looked_at += first.filter(|_| fit == Fit::First).unwrap_or(list.len()) as u64;
            let fits = list.iter().enumerate().filter(|(_, length)| **length >= size);
            let found = match fit {
                Fit::First => fits.map(|(at, _)| at).next(),
                Fit::Best => fits.min_by_key(|(_, length)| **length).map(|(at, _)| at),
                Fit::Worst => fits.max_by_key(|(_, length)| **length).map(|(at, _)| at),
            };
            if let Some(at) = found {
                list[at] -= size;
            }
            list.retain(|&length| length > 0);
            list.push(size);
        }
        (list.len(), looked_at)
    }

    #[test]
    fn every_fit_chooses_what_a_walk_of_the_list_chooses() {
        for fit in Fit::ALL {
            for seed in 1..4 {
                let mut looked_at = 0;
                let ours = COUNTING.run(fit, 1500, 1, seed, &mut |_, steps| looked_at = steps);
                assert_eq!((ours, looked_at), by_walking(fit, 1500, seed), "{fit:?} {seed}");
            }
        }
    }

    /// Two costs are fitted at the ends; what lies between follows from how lists grow, and not from the number of calls.
    #[test]
    fn published_times_grow_as_the_lists_do() {
        let all = walked(&Counting { threads: 4, ..COUNTING });
        assert_eq!(all.len(), 3 * TIMED.len());
        for of in all.chunks(TIMED.len()) {
            let (first, last) = (&of[0], &of[TIMED.len() - 1]);
            assert_eq!([first.class, last.class], [Class::Fitted; 2], "{of:?}");
            assert!((first.by_steps_ns.mean / first.published_ns - 1.0).abs() < 1e-9, "{first:?}");
            assert!((last.by_steps_ns.mean / last.published_ns - 1.0).abs() < 1e-9, "{last:?}");
            let grows = last.steps.mean / first.steps.mean;
            let between = &of[1..TIMED.len() - 1];
            assert!(between.iter().all(|one| one.class == Class::Holds), "{between:?}");
            assert!(grows > 20.0, "more than the tenfold calls: {of:?}");
        }
    }

    /// Published after ten iterations: 7633 chunks under best fit. To the byte ours is near; in granules of
    /// 16 bytes a freed chunk soon fits again.
    #[test]
    fn best_fit_to_the_byte_leaves_what_is_printed_and_granules_do_not() {
        let all = figure_14(&COUNTING);
        let best = all.iter().find(|one| one.fit == "best fit" && one.iterations == 10).unwrap();
        assert!((best.to_the_byte.mean / best.published - 1.0).abs() < 0.03, "{best:?}");
        assert!(best.to_sixteen.mean < 0.1 * best.published, "{best:?}");
        assert_eq!(all.len(), 9);
        assert!(all.iter().all(|one| one.over_alone.mean == 1.0), "one thread");
        assert_eq!(between(&all).count(), 6);
        assert_eq!(alike(&figure_14(&Counting { seeds: 1, ..COUNTING })), Class::Undecidable);
    }
}
