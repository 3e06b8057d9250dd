//! Programs that look for the worst call: each drives a heap into states where calls take long.

use super::subject::Player;

/// A program and what it is called.
pub struct Adversary {
    /// Its column in the raw file.
    pub name: &'static str,
    /// Bytes of the heap.
    pub len: usize,
    /// One call in so many is counted; the others only lead there.
    pub stride: usize,
    /// What it does, in about so many calls.
    pub run: fn(&mut Player<'_>, usize),
}

const MIB: usize = 1 << 20;

/// Every program but the recorded one.
pub const ADVERSARIES: &[Adversary] = &[
    Adversary { name: "random, near full", len: MIB, stride: 16, run: random },
    Adversary { name: "random, near full, 64 MiB", len: 64 * MIB, stride: 16, run: random_large },
    Adversary { name: "class edges", len: MIB, stride: 16, run: edges },
    Adversary { name: "double merge", len: MIB, stride: 2, run: double_merge },
    Adversary { name: "double merge, 64 MiB", len: 64 * MIB, stride: 2, run: double_merge },
    Adversary { name: "comb", len: MIB, stride: 24, run: comb },
    Adversary { name: "exhaustion", len: MIB / 2, stride: 8, run: exhaustion },
    Adversary { name: "last of its class", len: MIB, stride: 3, run: last_of_its_class },
    Adversary { name: "one left, 64 MiB", len: 64 * MIB, stride: 3, run: one_left },
    Adversary { name: "Robson", len: 4 * MIB, stride: 24, run: robson },
    Adversary { name: "best fit's slivers", len: MIB, stride: 8, run: slivers },
];

/// Numbers that look random and are the same on every run (SplitMix64: Steele, Lea, Flood, 2014).
pub struct Random(pub u64);

impl Random {
    /// One below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % end as u64) as usize
    }

    /// Of all doublings below 2^`log2` as many.
    fn log_uniform(&mut self, log2: usize) -> usize {
        let power = 1 << self.below(log2);
        power + self.below(power)
    }
}

/// Blocks in use and how many bytes were asked for.
type Held = Vec<(usize, usize)>;

fn keep(player: &mut Player<'_>, held: &mut Held, size: usize) -> bool {
    let block = player.malloc(size);
    held.extend(block.map(|block| (block, size)));
    block.is_some()
}

fn drop_one(player: &mut Player<'_>, held: &mut Held, at: usize) {
    if !held.is_empty() {
        let (block, size) = held.swap_remove(at % held.len());
        player.free(block, size);
    }
}

fn drop_all(player: &mut Player<'_>, held: &mut Held) {
    for (block, size) in held.drain(..) {
        player.free(block, size);
    }
}

/// More than fits lives for long; what has no room makes room.
fn churn(player: &mut Player<'_>, calls: usize, mut size: impl FnMut(&mut Random) -> usize) {
    let (mut random, mut held) = (Random(1), Held::new());
    let (mut live, most) = (0, player.len * 9 / 10); // who has no limit stays within ours
    for _ in 0..calls {
        let size = size(&mut random);
        if live + size < most && random.below(100) < 70 && keep(player, &mut held, size) {
            live += size;
        } else {
            for _ in 0..=random.below(3) {
                let at = random.below(held.len().max(1));
                live -= held.get(at).map_or(0, |&(_, size)| size);
                drop_one(player, &mut held, at);
            }
        }
    }
    drop_all(player, &mut held);
}

fn random(player: &mut Player<'_>, calls: usize) {
    churn(player, calls, |random| random.log_uniform(15));
}

fn random_large(player: &mut Player<'_>, calls: usize) {
    churn(player, calls, |random| {
        let log2 = if random.below(8) == 0 { 22 } else { 16 };
        random.log_uniform(log2)
    });
}

/// Sizes one below, at and one above where lists begin: 32 to a doubling, header or not.
fn edges(player: &mut Player<'_>, calls: usize) {
    churn(player, calls, |random| {
        let power = 64 << random.below(9);
        let edge = power + power / 32 * random.below(33);
        (edge + random.below(3)).saturating_sub(1 + 8 * random.below(3)).max(1)
    });
}

/// Three neighbours of lengths that nothing else has; the outer two freed, then the middle one, which
/// merges with both: two lists become empty, and maybe the words of their bits.
fn double_merge(player: &mut Player<'_>, calls: usize) {
    let mut random = Random(3);
    for round in 0..calls / 8 {
        let mut held = Held::new();
        let log2 = if player.len > MIB { 21 } else { 16 };
        let sizes = [random.log_uniform(log2), 24, random.log_uniform(log2)];
        let walls = [16, 40 + round % 7 * 16, 16];
        for (size, wall) in sizes.into_iter().zip(walls) {
            keep(player, &mut held, size);
            if round % 2 == 1 {
                keep(player, &mut held, wall); // now and then something stands between
            }
        }
        // Outer ones first, then inwards.
        while held.len() > 2 {
            let (block, size) = held.remove(0);
            player.free(block, size);
            let last = held.len() - 1;
            let (block, size) = held.remove(last);
            player.free(block, size);
        }
        drop_all(player, &mut held);
    }
}

/// Teeth of one size; every other one pulled, then all of them, from either side.
fn comb(player: &mut Player<'_>, calls: usize) {
    for size in [1, 24, 40, 100, 500, 1000, 1032, 4000, 20_000] {
        let mut held = Held::new();
        while held.len() * size < player.len * 9 / 10 && held.len() < calls / 32 {
            if !keep(player, &mut held, size) {
                break;
            }
        }
        let mut odd = Held::new();
        let mut even = Held::new();
        for (i, one) in held.into_iter().enumerate() {
            if i % 2 == 0 { &mut even } else { &mut odd }.push(one);
        }
        drop_all(player, &mut even);
        for _ in 0..20 {
            keep(player, &mut odd, size * 2); // fits into no gap
            keep(player, &mut odd, size / 2 + 1);
        }
        odd.reverse();
        drop_all(player, &mut odd);
    }
}

/// Fills to the last byte, large blocks first; everything that fails is a call, too.
fn exhaustion(player: &mut Player<'_>, calls: usize) {
    let mut held = Held::new();
    let mut size = player.len / 2;
    let mut live = 0;
    while size > 0 && held.len() < calls {
        if live + size > player.len || !keep(player, &mut held, size) {
            size -= (size / 16).max(1);
        } else {
            live += size;
        }
    }
    for wrong in [usize::MAX, usize::MAX - 8, usize::MAX / 2, 1 << 40, 0] {
        if let Some(block) = player.malloc(wrong) {
            player.free(block, wrong);
        }
    }
    drop_all(player, &mut held);
}

/// Everything used but one block, which just may be long enough for what is asked: what a request rounded up
/// does not see, and the last block of all lists.
fn last_of_its_class(player: &mut Player<'_>, calls: usize) {
    let mut random = Random(5);
    for _ in 0..calls.div_ceil(60) {
        let mut held = Held::new();
        let size = 1024 + random.below(30_000);
        keep(player, &mut held, size);
        // Fills up, large blocks first; what is left in the end is shorter than anything asked for.
        let (mut rest, mut live) = (player.len, size);
        for _ in 0..200 {
            if rest < 512 {
                break;
            }
            if live + rest <= player.len && keep(player, &mut held, rest) {
                live += rest;
            } else {
                rest -= rest / 4;
            }
        }
        for less in [0, 1, 7, 8, 9, 15, 16, 17, 24, 31, 33, 64, 100, 500] {
            let (block, size) = held[0];
            player.free(block, size);
            // Whatever happens, something is there again, where the block was or elsewhere.
            let wanted = size.saturating_sub(less).max(1);
            match player.malloc(wanted) {
                Some(block) => held[0] = (block, wanted),
                None => match player.malloc(1) {
                    Some(block) => held[0] = (block, 1),
                    None => {
                        held.swap_remove(0);
                        break;
                    }
                },
            }
        }
        drop_all(player, &mut held);
    }
}

/// Blocks of megabytes: the highest list, its head too short, and one behind it.
fn one_left(player: &mut Player<'_>, calls: usize) {
    let mut random = Random(7);
    for _ in 0..calls.div_ceil(30) {
        let mut held = Held::new();
        let base = (2 << 20) + random.below(6 << 20);
        for _ in 0..8 {
            let size = base + random.below(base / 40);
            keep(player, &mut held, size);
            keep(player, &mut held, 24);
        }
        for _ in 0..12 {
            let at = random.below(held.len());
            drop_one(player, &mut held, at);
            keep(player, &mut held, base + random.below(base / 30));
            let huge = held.iter().map(|held| held.1).sum::<usize>() + base < player.len;
            if huge {
                keep(player, &mut held, base);
            }
        }
        drop_all(player, &mut held);
    }
}

/// Robson's adversary: blocks of 2^k until all is used; of them those stay that lie where a block of 2^(k+1)
/// would have to begin or end. Then the same with 2^(k+1).
fn robson(player: &mut Player<'_>, calls: usize) {
    let unit = 32;
    let most = (calls * unit / 8).min(player.len / 8);
    let mut held = Held::new();
    let mut offset = 0;
    for order in 0..12 {
        let size = unit << order;
        let live = held.iter().map(|held| held.1).sum::<usize>();
        for _ in 0..(most - live) / size {
            if !keep(player, &mut held, size - 8) {
                break;
            }
        }
        offset = better_offset(&held, offset, size);
        let (stay, go) =
            held.into_iter().partition(|&(at, _)| (at + size - offset) % (2 * size) < size);
        held = stay;
        drop_all(player, &mut { go });
    }
    drop_all(player, &mut held);
}

/// Of two offsets that of which more bytes would stay.
fn better_offset(held: &Held, offset: usize, size: usize) -> usize {
    let stays = |offset: usize| {
        let near = held.iter().filter(|&&(at, _)| (at + size - offset) % (2 * size) < size);
        near.map(|held| held.1).sum::<usize>()
    };
    if stays(offset) >= stays(offset + size) { offset } else { offset + size }
}

/// What hurts best fit: every request takes most of a hole and leaves a sliver; many lengths, none of use.
fn slivers(player: &mut Player<'_>, calls: usize) {
    let (mut random, mut held) = (Random(9), Held::new());
    let mut size = 4_000;
    for round in 0..calls / 3 {
        if held.iter().map(|held| held.1).sum::<usize>() + 3 * size > player.len {
            let at = random.below(held.len().max(1));
            drop_one(player, &mut held, at);
            continue;
        }
        keep(player, &mut held, size);
        keep(player, &mut held, 16);
        let hole = held.len().saturating_sub(2);
        drop_one(player, &mut held, hole);
        size = if round % 64 == 63 { 4_000 } else { size - 16 - random.below(32) };
        keep(player, &mut held, size);
    }
    drop_all(player, &mut held);
}
