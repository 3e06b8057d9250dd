//! Threads that allocate, check, exchange and free blocks at random, and come and go; every block
//! carries its own pattern, so that two owners of one byte are noticed. Afterwards the heap's
//! structures are walked. A failure prints its seed.

use freehold::process;
use std::sync::Mutex;
use std::thread;

/// A block and what it must contain.
struct Held {
    at: usize,
    len: usize,
    pattern: u64,
}

/// xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators" (2016).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    /// Mostly small, now and then medium, large or huge.
    fn size(&mut self) -> usize {
        match self.below(1000) {
            0..700 => self.below(256),
            700..950 => self.below(4096),
            950..995 => self.below(64 * 1024),
            995..999 => self.below(1 << 20),
            _ => self.below(6 << 20),
        }
    }
}

impl Held {
    fn word(&self, at: usize) -> u64 {
        self.pattern ^ (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// The words that are written and checked: all of a small block, samples of a large one.
    fn words(&self) -> impl Iterator<Item = usize> {
        let words = self.len / 8;
        (0..words).step_by((words / 64).max(1)).chain(words.checked_sub(1))
    }

    fn fill(&self) {
        for at in self.words() {
            // SAFETY: the block is ours and has `len` bytes.
            unsafe { (self.at as *mut u64).add(at).write_unaligned(self.word(at)) };
        }
    }

    fn check(&self, seed: u64, len: usize) {
        for at in self.words().filter(|at| (at + 1) * 8 <= len) {
            // SAFETY: as in `fill`.
            let found = unsafe { (self.at as *const u64).add(at).read_unaligned() };
            assert_eq!(found, self.word(at), "seed {seed}: word {at} of {} bytes", self.len);
        }
    }
}

fn allocate(random: &mut Random) -> Held {
    let len = random.size();
    let (block, align) = match random.below(16) {
        0 => {
            let align = 1 << random.below(14);
            (process::allocate_aligned(len, align), align)
        }
        1 => {
            let block = process::allocate_zeroed(1, len);
            // SAFETY: the block is ours and has `len` bytes.
            let bytes = unsafe { std::slice::from_raw_parts(block, len) };
            assert!(bytes.iter().all(|&byte| byte == 0), "calloc({len}) is not zero");
            (block, 16)
        }
        _ => (process::allocate(len), 16),
    };
    assert!(!block.is_null() && block.addr().is_multiple_of(align), "{len} at {align}");
    assert!(process::usable_size(block) >= len);
    let held = Held { at: block.addr(), len, pattern: random.next() };
    held.fill();
    held
}

fn free(held: Held, seed: u64) {
    held.check(seed, held.len);
    // SAFETY: the block is ours, and forgotten here.
    unsafe { process::free(held.at as *mut u8) };
}

fn resize(held: Held, random: &mut Random, seed: u64) -> Held {
    let len = random.size().max(1);
    // SAFETY: the block is ours; the old address is forgotten here.
    let at = unsafe { process::reallocate(held.at as *mut u8, len) }.addr();
    assert_ne!(at, 0);
    let moved = Held { at, ..held };
    moved.check(seed, len.min(moved.len));
    let held = Held { at, len, pattern: random.next() };
    held.fill();
    held
}

fn live(seed: u64, operations: usize, exchange: &Mutex<Vec<Held>>) {
    let mut random = Random(seed);
    let mut mine: Vec<Held> = Vec::new();
    for _ in 0..operations {
        match random.below(100) {
            0..45 => mine.push(allocate(&mut random)),
            45..80 if !mine.is_empty() => {
                let at = random.below(mine.len());
                free(mine.swap_remove(at), seed);
            }
            80..90 if !mine.is_empty() => {
                let at = random.below(mine.len());
                let held = mine.swap_remove(at);
                mine.push(resize(held, &mut random, seed));
            }
            90..95 if !mine.is_empty() => exchange.lock().unwrap().push(mine.swap_remove(0)),
            _ => {
                let got = exchange.lock().unwrap().pop();
                got.into_iter().for_each(|held| free(held, seed));
            }
        }
    }
    // Half is left to whoever comes later.
    let mut exchange = exchange.lock().unwrap();
    for (at, held) in mine.into_iter().enumerate() {
        if at % 2 == 0 { free(held, seed) } else { exchange.push(held) }
    }
}

#[test]
fn threads_never_share_a_byte() {
    let exchange = Mutex::new(Vec::new());
    for round in 0..6u64 {
        // Few threads have slabs of their own, many share some.
        let threads = [4, 10][round as usize % 2];
        thread::scope(|scope| {
            for number in 0..threads {
                let seed = 0x5EED ^ (round * 16 + number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let exchange = &exchange;
                scope.spawn(move || live(seed, 8_000, exchange));
            }
            scope.spawn(|| (0..20).map(|_| process::trim()).sum::<usize>());
        });
    }
    exchange.into_inner().unwrap().into_iter().for_each(|held| free(held, 0));
    process::trim();
    assert_eq!(process::check(), Ok(()));
}
