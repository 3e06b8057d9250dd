//! Caches as sets of lines: the one mechanism behind data caches and TLBs.
//!
//! ```text
//!   number of a line (address / line length) ── mod sets ──► set of `ways` places ── is it there?
//! ```
//!
//! Invariant: a line lies in its own set only, at most once; whatever replaces what is decided by the
//! order of the accesses and a seed, never by a clock.

use crate::random::Random;

/// What leaves a full set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replacement {
    /// The line not used for longest.
    Lru,
    /// Any, by the generator of this seed.
    Random(u64),
}

/// The shape of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Lines it holds in all; a multiple of `ways`, at least that.
    pub lines: u32,
    /// Lines in a set.
    pub ways: u32,
    /// What leaves a full set.
    pub replacement: Replacement,
}

/// A cache of numbered lines.
#[derive(Clone, Debug)]
pub struct Lines {
    sets: Sets,
    ways: usize,
    /// The sets after each other; within a set under LRU, the line used last stands first. Under random
    /// replacement lines in use drift to the front, where they are found soon.
    tags: Vec<u64>,
    random: Option<Random>,
    /// Places that hold no line; while there are any, a line displaces none.
    empty: usize,
    /// Who is surely not there, where asking all ways takes long.
    absence: Option<Absence>,
}

/// How many lines of each hash a cache holds: of a line whose hash has none there is no need to ask.
#[derive(Clone, Debug)]
struct Absence {
    counts: Box<[u8; Absence::HASHES]>,
}

impl Absence {
    const HASHES: usize = 1 << 12;
    /// From here on a look at the counts is cheaper than one at all ways; and no hash is counted beyond
    /// what a byte holds.
    const WAYS: std::ops::RangeInclusive<u32> = 16..=255;

    /// For a cache of one set.
    fn of(ways: u32, sets: u32) -> Option<Absence> {
        let is_worth_it = sets == 1 && Absence::WAYS.contains(&ways);
        is_worth_it.then(|| Absence { counts: Box::new([0; Absence::HASHES]) })
    }

    fn hash(line: u64) -> usize {
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Absence::HASHES.ilog2())) as usize
    }

    fn is_absent(&self, line: u64) -> bool {
        self.counts[Absence::hash(line)] == 0
    }

    /// A line takes the place of another, or of none.
    fn replace(&mut self, old: u64, new: u64) {
        self.counts[Absence::hash(new)] += 1;
        if old != EMPTY {
            self.counts[Absence::hash(old)] -= 1;
        }
    }
}

/// How many sets there are: a division is slower than the rest of a look-up.
#[derive(Clone, Copy, Debug)]
enum Sets {
    /// A power of two, as the bits that choose a set.
    Mask(u64),
    Count(u64),
}

impl Sets {
    fn of(self, line: u64) -> usize {
        match self {
            Sets::Mask(mask) => (line & mask) as usize,
            Sets::Count(count) => (line % count) as usize,
        }
    }
}

/// Bytes of a word: what is touched at once.
pub const WORD: u64 = 8;
/// No line has this number.
const EMPTY: u64 = u64::MAX;

impl Lines {
    /// An empty cache. A shape without ways, or with fewer lines than ways, has one set.
    pub fn new(shape: Shape) -> Lines {
        let ways = shape.ways.max(1);
        let sets = (shape.lines / ways).max(1);
        let random = match shape.replacement {
            Replacement::Lru => None,
            Replacement::Random(seed) => Some(Random::new(seed)),
        };
        let tags = vec![EMPTY; (sets * ways) as usize];
        let (empty, absence) = (tags.len(), Absence::of(ways, sets));
        let sets = match u64::from(sets) {
            count if count.is_power_of_two() => Sets::Mask(count - 1),
            count => Sets::Count(count),
        };
        Lines { sets, ways: ways as usize, tags, random, empty, absence }
    }

    /// Uses a line; whether it was there. It is there afterwards. O(ways).
    #[inline]
    pub fn touch(&mut self, line: u64) -> bool {
        let start = self.sets.of(line) * self.ways;
        let set = &mut self.tags[start..start + self.ways];
        match (set, &mut self.random) {
            ([first, second], None) => touch_pair(first, second, line),
            (set, random) => {
                let found = match &self.absence {
                    Some(absence) if absence.is_absent(line) => None,
                    _ => set.iter().position(|&tag| tag == line),
                };
                match (random, found) {
                    (None, Some(at)) => set[..=at].rotate_right(1),
                    (Some(_), Some(at)) => set.swap(at, at / 2),
                    (random, None) => {
                        let old = displace(set, random, &mut self.empty, line);
                        self.absence.iter_mut().for_each(|absence| absence.replace(old, line));
                    }
                }
                found.is_some()
            }
        }
    }
}

/// Two ways, the one used last in front: what both data caches of this crate are.
#[inline]
fn touch_pair(first: &mut u64, second: &mut u64, line: u64) -> bool {
    if *first == line {
        return true;
    }
    let found = *second == line;
    *second = std::mem::replace(first, line);
    found
}

/// Puts a line that is not there into a set; returns what it displaced, maybe nothing.
fn displace(set: &mut [u64], random: &mut Option<Random>, empty: &mut usize, line: u64) -> u64 {
    let Some(random) = random else {
        set.rotate_right(1);
        return std::mem::replace(&mut set[0], line);
    };
    // Asked only until the cache is full, which a TLB soon is.
    let free = (*empty > 0).then(|| set.iter().position(|&tag| tag == EMPTY)).flatten();
    *empty -= usize::from(free.is_some());
    let at = free.unwrap_or_else(|| random.below(set.len() as u64) as usize);
    std::mem::replace(&mut set[at], line)
}

/// A data cache: lines of a power of two of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheSpec {
    /// Bytes in all.
    pub bytes: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Lines in a set.
    pub ways: u32,
}

/// First level of the R10000: 32 KB, two ways, lines of 32 bytes.
pub const R10000_FIRST: CacheSpec = CacheSpec { bytes: 32 << 10, line_bytes: 32, ways: 2 };
/// Second level of the Origin2000's nodes: 4 MB, two ways, lines of 128 bytes.
pub const ORIGIN_SECOND: CacheSpec = CacheSpec { bytes: 4 << 20, line_bytes: 128, ways: 2 };

/// Hits of a level, out of the accesses that reached it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hits {
    /// Accesses that reached the level.
    pub accesses: u64,
    /// Those it held.
    pub hits: u64,
}

impl Hits {
    /// Notes one access; whether it hit.
    fn note(&mut self, hit: bool) -> bool {
        self.accesses += 1;
        self.hits += u64::from(hit);
        hit
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: Hits) {
        self.accesses += other.accesses;
        self.hits += other.hits;
    }

    /// Accesses it did not hold.
    pub fn misses(&self) -> u64 {
        self.accesses - self.hits
    }
}

/// Two levels of one processor, indexed by virtual addresses, filled by reads and writes alike.
#[derive(Clone, Debug)]
pub struct Caches {
    levels: [(u32, Lines); 2],
    /// Of the first and the second level.
    pub hits: [Hits; 2],
}

impl Caches {
    /// Empty caches with LRU sets.
    pub fn new(first: CacheSpec, second: CacheSpec) -> Caches {
        let level = |spec: CacheSpec| {
            let shape = Shape {
                lines: spec.bytes / spec.line_bytes,
                ways: spec.ways,
                replacement: Replacement::Lru,
            };
            (spec.line_bytes.ilog2(), Lines::new(shape))
        };
        Caches { levels: [level(first), level(second)], hits: [Hits::default(); 2] }
    }

    /// So many words from `address` on are read or written, one after another. Returns how many of them
    /// the second level had to bring, and how many the memory: the first of a line at most, for the others
    /// find it in the first level.
    pub fn touch(&mut self, address: u64, words: u32) -> [u64; 2] {
        let [first, second] = &mut self.levels;
        let [first_hits, second_hits] = &mut self.hits;
        let last = address + WORD * (u64::from(words).max(1) - 1);
        let mut brought = [0; 2];
        let lines = address >> first.0..=last >> first.0;
        let again = u64::from(words).max(1) - (lines.end() - lines.start() + 1);
        first_hits.accesses += again;
        first_hits.hits += again;
        for line in lines {
            if !first_hits.note(first.1.touch(line)) {
                let known = second_hits.note(second.1.touch(line << first.0 >> second.0));
                brought[usize::from(!known)] += 1;
            }
        }
        brought
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(lines: u32, ways: u32, replacement: Replacement) -> Lines {
        Lines::new(Shape { lines, ways, replacement })
    }

    #[test]
    fn the_line_not_used_for_longest_leaves() {
        let mut set = lines(2, 2, Replacement::Lru);
        let hits: Vec<bool> = [1, 2, 1, 3, 1, 2].into_iter().map(|line| set.touch(line)).collect();
        assert_eq!(hits, [false, false, true, false, true, false]);
    }

    #[test]
    fn lines_of_one_set_displace_each_other_only() {
        let mut cache = lines(4, 2, Replacement::Lru); // sets: even, odd
        for line in [0, 1, 2, 4] {
            cache.touch(line);
        }
        assert!(cache.touch(1) && cache.touch(4) && cache.touch(2) && !cache.touch(0));
    }

    #[test]
    fn random_replacement_keeps_what_fits_and_depends_on_the_seed_alone() {
        let misses = |seed: u64, pages: u64| {
            let mut cache = lines(64, 64, Replacement::Random(seed));
            (0..100 * pages).filter(|access| !cache.touch(access % pages)).count() as u64
        };
        assert_eq!(misses(1, 64), 64);
        assert_eq!(misses(1, 80), misses(1, 80));
        // LRU would miss always on a loop over 80 lines; random replacement keeps most of them.
        let random = misses(1, 80);
        assert!(random < 8_000 / 2 && random > 8_000 / 5, "{random}");
    }

    /// Every shortcut of `touch` against the plain rule, written out once more.
    #[test]
    fn shortcuts_change_nothing() {
        struct Plain {
            sets: u64,
            tags: Vec<Vec<u64>>,
            random: Option<Random>,
        }
        impl Plain {
            fn touch(&mut self, line: u64) -> bool {
                let set = &mut self.tags[(line % self.sets) as usize];
                let found = set.iter().position(|&tag| tag == line);
                match (&mut self.random, found) {
                    (None, found) => {
                        set.remove(found.unwrap_or(set.len() - 1));
                        set.insert(0, line);
                    }
                    (Some(_), Some(at)) => set.swap(at, at / 2),
                    (Some(random), None) => {
                        let free = set.iter().position(|&tag| tag == EMPTY);
                        let ways = set.len() as u64;
                        set[free.unwrap_or_else(|| random.below(ways) as usize)] = line;
                    }
                }
                found.is_some()
            }
        }
        let shapes = [(2, 2), (64, 2), (64, 64), (16, 16), (12, 4), (72, 72), (300, 300)];
        for (held, ways) in shapes {
            for seed in [None, Some(7)] {
                let replacement = seed.map_or(Replacement::Lru, Replacement::Random);
                let mut cache = lines(held, ways, replacement);
                let tags = vec![vec![EMPTY; ways as usize]; (held / ways) as usize];
                let random = seed.map(Random::new);
                let mut plain = Plain { sets: u64::from(held / ways), tags, random };
                let mut next = Random::new(u64::from(held));
                for step in 0..20_000 {
                    // Near ones often, and far ones that share a hash with others.
                    let line = next.below(u64::from(held) * 2) << (4 * next.below(4));
                    assert_eq!(cache.touch(line), plain.touch(line), "{held} {ways} step {step}");
                }
            }
        }
    }

    #[test]
    fn a_loop_over_a_line_misses_once() {
        let mut caches = Caches::new(R10000_FIRST, ORIGIN_SECOND);
        let brought = [0, 8, 24, 32, 64].map(|address| caches.touch(address, 1));
        assert_eq!(brought, [[0, 1], [0, 0], [0, 0], [1, 0], [1, 0]]);
        assert_eq!((caches.hits[0].misses(), caches.hits[1].misses()), (3, 1));
        // 64 KB do not fit into 32, and into 4 MB they do.
        for line in (0..2048).chain(0..2048) {
            caches.touch((1 << 24) | (line * 32), 1);
        }
        assert_eq!(caches.hits[1].misses(), 1 + 512);
    }

    #[test]
    fn a_run_of_words_is_its_words_one_by_one() {
        let new = || Caches::new(R10000_FIRST, ORIGIN_SECOND);
        let (mut runs, mut words) = (new(), new());
        for step in 0..5_000u64 {
            let (address, count) = ((step * 0x9e37_79b9 % (9 << 20)) & !7, (step % 70) as u32 + 1);
            let together = runs.touch(address, count);
            let mut apart = [0; 2];
            for word in 0..count {
                let brought = words.touch(address + 8 * u64::from(word), 1);
                apart.iter_mut().zip(brought).for_each(|(sum, brought)| *sum += brought);
            }
            assert_eq!(together, apart);
        }
        assert_eq!(runs.hits, words.hits);
    }
}
