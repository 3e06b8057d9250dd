//! Draws that are the same on every machine: integer arithmetic only.
//!
//! The generator is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", OOPSLA 2014): one word of state, so that every attempt of every study can have a
//! generator of its own. Logarithms and powers are fixed-point, computed bit by bit, because those
//! of the C library differ from one version to the next.

/// A generator of 64-bit numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Random {
    state: u64,
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes 64 bits so that every bit of the result depends on every bit of `x`. A bijection.
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Random {
    /// The generator of `seed`.
    pub const fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// A generator of its own for each `name`: what is drawn from one does not move another.
    pub const fn named(seed: u64, name: &[u64]) -> Random {
        let (mut state, mut i) = (mix(seed ^ GOLDEN), 0);
        while i < name.len() {
            state = mix(state ^ mix(name[i].wrapping_add(GOLDEN)));
            i += 1;
        }
        Random { state }
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// A number below `bound`, each as likely (to within 2^-64); 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// From `least` to `most`, both included, each as likely. `least <= most`.
    pub fn uniform(&mut self, least: u64, most: u64) -> u64 {
        match (most - least).checked_add(1) {
            Some(count) => least + self.below(count),
            None => self.bits(),
        }
    }

    /// From `least` to `most`, both included, each doubling as likely. `1 <= least <= most`.
    pub fn log_uniform(&mut self, least: u64, most: u64) -> u64 {
        let (low, high) = (log2(least.max(1)), log2(most.saturating_add(1)));
        exp2(low + self.below(high - low)).clamp(least, most)
    }

    /// A waiting time of that mean, exponentially distributed: the mean times -ln of a uniform draw,
    /// rounded down. At most some 44 times the mean.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        /// ln 2, 32 bits behind the point.
        const LN_2: u128 = 2_977_044_471;
        let bits = (64 << POINT) - log2(self.bits().max(1));
        ((u128::from(bits) * LN_2 * u128::from(mean)) >> (2 * POINT)) as u64
    }

    /// An index into `weights`, each as likely as its weight says; 0 where all weights are 0.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total = weights.iter().map(|&weight| u64::from(weight)).sum();
        let mut drawn = self.below(total);
        for (i, &weight) in weights.iter().enumerate() {
            match drawn.checked_sub(weight.into()) {
                Some(rest) => drawn = rest,
                None => return i,
            }
        }
        0
    }
}

/// Bits behind the point of a logarithm.
const POINT: u32 = 32;

/// log2 of `x`, 32 bits behind the point, rounded down. `x` is at least 1.
fn log2(x: u64) -> u64 {
    let whole = x.max(1).ilog2();
    let mut log = u64::from(whole);
    // x / 2^whole, in [1, 2), with 63 bits behind the point.
    let mut rest = u128::from(x.max(1) << (63 - whole));
    for _ in 0..POINT {
        rest = (rest * rest) >> 63;
        let bit = (rest >> 64) as u64;
        rest >>= bit;
        log = log << 1 | bit;
    }
    log
}

/// 2^(2^-1), 2^(2^-2), ..., 62 bits behind the point.
const ROOTS: [u64; POINT as usize] = {
    let mut roots = [0; POINT as usize];
    let (mut root, mut i) = (2_u128 << 62, 0);
    while i < roots.len() {
        root = (root << 62).isqrt();
        roots[i] = root as u64;
        i += 1;
    }
    roots
};

/// 2 to the power of `log` / 2^32, rounded down; `log` below 64 << 32.
fn exp2(log: u64) -> u64 {
    let mut power = 1_u128 << 62;
    for (i, &root) in ROOTS.iter().enumerate() {
        if log >> (POINT as usize - 1 - i) & 1 == 1 {
            power = (power * u128::from(root)) >> 62;
        }
    }
    (power << (log >> POINT) >> 62) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // The first three numbers of seed 1234567, from the authors' own program.
        let mut random = Random::new(1_234_567);
        let drawn = [random.bits(), random.bits(), random.bits()];
        let published =
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(drawn, published);
    }

    #[test]
    fn powers_undo_logarithms() {
        for x in [1, 2, 3, 511, 512, 4000, 1 << 20, (1 << 21) - 1, 1 << 40, u64::MAX >> 1] {
            let back = exp2(log2(x));
            assert!(back <= x && x - back <= x >> 28 | 1, "{x} became {back}");
        }
        assert_eq!([log2(1), log2(2), log2(1 << 63)], [0, 1 << 32, 63 << 32]);
        assert!(
            (log2(3) as f64 / f64::from(1 << 16) / f64::from(1 << 16) - 1.584_962_5).abs() < 1e-6
        );
    }

    #[test]
    fn each_doubling_is_as_likely() {
        let mut random = Random::new(7);
        let mut counts = [0_u32; 12];
        for _ in 0..120_000 {
            let drawn = random.log_uniform(512, (2 << 20) - 1);
            assert!((512..2 << 20).contains(&drawn));
            counts[(drawn.ilog2() - 9) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn ends_are_included_and_weights_are_kept() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| random.uniform(3, 5)).collect();
        assert!(
            [3, 4, 5].iter().all(|n| drawn.contains(n))
                && drawn.iter().all(|n| (3..=5).contains(n))
        );
        let few: Vec<u64> = (0..1000).map(|_| random.log_uniform(1, 2)).collect();
        assert!([1, 2].iter().all(|n| few.contains(n)) && few.iter().all(|n| (1..=2).contains(n)));
        let mut counts = [0; 3];
        (0..10_000).for_each(|_| counts[random.weighted(&[1, 0, 3])] += 1);
        assert!(counts[1] == 0 && (2300..2700).contains(&counts[0]), "{counts:?}");
        assert_eq!(random.uniform(9, 9), 9);
        assert_eq!(random.log_uniform(9, 9), 9);
        assert_eq!(random.weighted(&[0, 0]), 0);
    }

    #[test]
    fn waiting_times_are_exponential() {
        let mut random = Random::new(3);
        let drawn: Vec<u64> = (0..100_000).map(|_| random.exponential(1000)).collect();
        let mean = drawn.iter().sum::<u64>() / drawn.len() as u64;
        let longer = drawn.iter().filter(|&&cycles| cycles > 2000).count();
        assert!((990..1010).contains(&mean), "{mean}");
        assert!((13_200..13_900).contains(&longer), "e^-2 of them: {longer}");
        assert_eq!(random.exponential(0), 0);
    }

    #[test]
    fn generators_of_different_names_differ() {
        let first = |name: &[u64]| Random::named(1, name).bits();
        let all =
            [first(&[]), first(&[0]), first(&[1]), first(&[0, 0]), first(&[0, 1]), first(&[1, 0])];
        let mut unique = all.to_vec();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), all.len());
    }
}
