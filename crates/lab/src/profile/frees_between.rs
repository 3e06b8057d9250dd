//! Who frees whose objects: the thread matrix, as the pairs that occur.

use rustc_hash::FxHashMap;
use serde::Serialize;

/// Different pairs kept; further ones are left out of the matrix (thousands of threads would
/// otherwise cost their square).
const MOST: usize = 1 << 16;

/// One field of the thread matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct FreesBetween {
    /// The thread that made or last resized the objects.
    pub owner: u32,
    /// The thread that freed them.
    pub by: u32,
    /// Objects.
    pub frees: u64,
    /// Their bytes.
    pub bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Matrix {
    pairs: FxHashMap<(u32, u32), (u64, u64)>,
    /// The pair counted last, outside the map: frees come in runs.
    recent: Option<((u32, u32), (u64, u64))>,
}

impl Matrix {
    #[inline]
    pub(super) fn add(&mut self, owner: u32, by: u32, bytes: u64) {
        match &mut self.recent {
            Some((pair, sum)) if *pair == (owner, by) => {
                sum.0 += 1;
                sum.1 = sum.1.saturating_add(bytes);
            }
            _ => {
                self.settle();
                self.recent = Some(((owner, by), (1, bytes)));
            }
        }
    }

    fn settle(&mut self) {
        let Some((pair, (frees, bytes))) = self.recent.take() else { return };
        if self.pairs.len() < MOST || self.pairs.contains_key(&pair) {
            let sum = self.pairs.entry(pair).or_default();
            sum.0 += frees;
            sum.1 = sum.1.saturating_add(bytes);
        }
    }

    /// The pairs in order.
    pub(super) fn finish(mut self) -> Vec<FreesBetween> {
        self.settle();
        let pair = |((owner, by), (frees, bytes))| FreesBetween { owner, by, frees, bytes };
        let mut pairs: Vec<FreesBetween> = self.pairs.into_iter().map(pair).collect();
        pairs.sort_by_key(|pair| (pair.owner, pair.by));
        pairs
    }
}
