//! Bank sets: what interleaving ties together goes on and off together.
//!
//! Two-way interleaving spreads neighbouring lines over two banks, so neither can be switched off while
//! the other holds data. Table 4.1 of Panwar's thesis ties bank b to bank b + 32 within each node of
//! 64; here any power of two will do.

use super::request::SetId;

/// How the banks of a zone are tied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interleave {
    /// Every bank is its own set.
    #[default]
    None,
    /// Bank b is tied to bank b + 2^`stride_log2`, within windows of twice that.
    Pairs {
        /// log2 of the distance in banks, 0 to 12.
        stride_log2: u8,
    },
}

impl Interleave {
    /// Where nothing is tied: longer than any zone, so that one formula serves.
    const APART: u32 = 24;

    pub(super) const fn stride_log2(self) -> u32 {
        match self {
            Interleave::None => Self::APART,
            Interleave::Pairs { stride_log2 } => stride_log2 as u32,
        }
    }

    /// Banks of a set.
    pub const fn width(self) -> u32 {
        match self {
            Interleave::None => 1,
            Interleave::Pairs { .. } => 2,
        }
    }

    /// The set of a bank, both counted from the zone's first.
    pub const fn set_of(self, bank: u32) -> SetId {
        Self::set_at(self.stride_log2(), bank)
    }

    /// The same, where the stride is known.
    #[inline]
    pub(super) const fn set_at(log2: u32, bank: u32) -> SetId {
        SetId((bank >> (log2 + 1) << log2 | bank & ((1 << log2) - 1)) as u16)
    }

    /// The `nth` bank of a set, `nth` below [`width`](Self::width).
    pub const fn bank_of(self, set: SetId, nth: u32) -> u32 {
        let (log2, set) = (self.stride_log2(), set.0 as u32);
        (set >> log2 << (log2 + 1)) + (nth << log2) + (set & ((1 << log2) - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_4_1_ties_banks_32_apart_within_each_node() {
        let pairs = Interleave::Pairs { stride_log2: 5 };
        for (first, second) in
            [(0, 32), (15, 47), (16, 48), (31, 63), (64, 96), (80, 112), (95, 127)]
        {
            assert_eq!(pairs.set_of(first), pairs.set_of(second), "{first} and {second}");
        }
        assert_ne!(pairs.set_of(0), pairs.set_of(64));
    }

    #[test]
    fn sets_and_banks_undo_each_other() {
        for ways in [
            Interleave::None,
            Interleave::Pairs { stride_log2: 0 },
            Interleave::Pairs { stride_log2: 4 },
        ] {
            let mut seen = [false; 128];
            for set in 0..128 / ways.width() {
                for nth in 0..ways.width() {
                    let bank = ways.bank_of(SetId(set as u16), nth);
                    assert!(!seen[bank as usize], "{ways:?}: bank {bank} twice");
                    seen[bank as usize] = true;
                    assert_eq!(ways.set_of(bank), SetId(set as u16));
                }
            }
        }
    }
}
