//! How full a memory is, and what that makes of it.
//!
//! All arithmetic is on integers. A load is a whole percentage, rounded down, as the chapter's
//! figures are; the average of loads and its thresholds are never rounded: instead of dividing, both
//! sides of a comparison are multiplied.

use core::fmt;

/// How full a memory is: whole percents, 0 to 100, rounded down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Load(u8);

impl Load {
    /// A full memory.
    pub const FULL: Load = Load(100);

    /// `used` of `capacity` bytes. More used than there is, and a memory without capacity, is full.
    pub const fn of(used: u64, capacity: u64) -> Load {
        if used >= capacity {
            return Load::FULL;
        }
        Load((used as u128 * 100 / capacity as u128) as u8)
    }

    /// In percent.
    pub const fn percent(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

/// The average of some loads, kept as their sum and number (equation 4.1: the mean of the memories'
/// loads, not the load of all memory).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Average {
    sum: u64,
    count: u64,
}

impl Average {
    /// The average of `loads`. Of none it is zero.
    pub fn of(loads: impl IntoIterator<Item = Load>) -> Average {
        loads.into_iter().fold(Average::default(), Average::and)
    }

    /// The average with one load more.
    pub fn and(self, load: Load) -> Average {
        Average { sum: self.sum + u64::from(load.percent()), count: self.count + 1 }
    }

    /// How `load` compares with `percent` per cent of this average.
    fn compare(self, load: Load, percent: u32) -> core::cmp::Ordering {
        let load = u64::from(load.percent()) * 100 * self.count.max(1);
        load.cmp(&(self.sum * u64::from(percent)))
    }
}

/// What a memory's load makes of it, the most welcome first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Category {
    /// Hardly used at all.
    Ideal,
    /// Well below the average.
    Light,
    /// Near the average.
    Normal,
    /// Well above the average.
    Heavy,
}

/// Where the categories end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    ideal_below: u32,
    light_to: u32,
    heavy_from: u32,
}

/// Thresholds that make no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnusableThresholds {
    /// `ideal_below` is above 100 %.
    IdealBound,
    /// `light_to` is not below 100 % of the average.
    LowerBound,
    /// `heavy_from` is not above 100 % of the average, or above 10,000 %.
    UpperBound,
}

impl fmt::Display for UnusableThresholds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IdealBound => "the bound of ideal must be a load, 0 to 100 percent",
            Self::LowerBound => "light must end below 100 percent of the average",
            Self::UpperBound => {
                "heavy must begin above 100 and at most at 10000 percent of the average"
            }
        })
    }
}

impl core::error::Error for UnusableThresholds {}

impl Thresholds {
    /// The chapter's: ideal below 10 %, light up to 0.7 and heavy from 1.3 of the average.
    pub const PAPER: Thresholds = Thresholds { ideal_below: 10, light_to: 70, heavy_from: 130 };

    /// Ideal below `ideal_below` percent; light up to `light_to` percent *of the average* (the
    /// chapter's L) and heavy from `heavy_from` percent of it (U).
    ///
    /// # Errors
    /// Unless `ideal_below <= 100` and `light_to < 100 < heavy_from <= 10000`.
    pub const fn new(
        ideal_below: u32,
        light_to: u32,
        heavy_from: u32,
    ) -> Result<Thresholds, UnusableThresholds> {
        if ideal_below > 100 {
            return Err(UnusableThresholds::IdealBound);
        }
        if light_to >= 100 {
            return Err(UnusableThresholds::LowerBound);
        }
        if heavy_from <= 100 || heavy_from > 10_000 {
            return Err(UnusableThresholds::UpperBound);
        }
        Ok(Thresholds { ideal_below, light_to, heavy_from })
    }

    /// The category of `load` beside memories of that average; the first that matches, in the order
    /// ideal, light, heavy, normal. Where all are empty none is heavy: an empty memory is ideal
    /// before it is compared. O(1).
    pub fn category(&self, load: Load, average: Average) -> Category {
        if load.percent() < self.ideal_below {
            Category::Ideal
        } else if average.compare(load, self.light_to).is_le() {
            Category::Light
        } else if average.compare(load, self.heavy_from).is_ge() {
            Category::Heavy
        } else {
            Category::Normal
        }
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds::PAPER
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    fn load(percent: u64) -> Load {
        Load::of(percent, 100)
    }

    #[test]
    fn a_load_is_rounded_down_and_never_above_100() {
        assert_eq!(Load::of(0, 1000), load(0));
        assert_eq!(Load::of(999, 1000), load(99));
        assert_eq!(Load::of(1000, 1000), Load::FULL);
        assert_eq!(Load::of(5, 0), Load::FULL, "no memory has no room");
        assert_eq!(Load::of(u64::MAX - 1, u64::MAX), load(99));
        assert_eq!(std::format!("{:?}", load(99)), "99 %");
    }

    /// "For example, Mem_u_avg is 50 ...": section 4.1.1.
    #[test]
    fn the_chapter_s_example_at_an_average_of_50() {
        let average = Average::of([load(20), load(80)]);
        let category = |percent| Thresholds::PAPER.category(load(percent), average);
        assert_eq!([category(0), category(9)], [Category::Ideal; 2]);
        assert_eq!([category(10), category(35)], [Category::Light; 2]);
        assert_eq!([category(36), category(64)], [Category::Normal; 2]);
        assert_eq!([category(65), category(100)], [Category::Heavy; 2]);
    }

    #[test]
    fn thresholds_are_not_rounded() {
        // 0.7 of 33 + 1/3 is 23 + 1/3; 1.3 of it is 43 + 1/3.
        let average = Average::of([load(30), load(30), load(40)]);
        let category = |percent| Thresholds::PAPER.category(load(percent), average);
        assert_eq!([category(23), category(24)], [Category::Light, Category::Normal]);
        assert_eq!([category(43), category(44)], [Category::Normal, Category::Heavy]);
    }

    #[test]
    fn more_load_is_never_more_welcome() {
        for sum in 0..=400_u64 {
            let average = Average { sum, count: 4 };
            let of = |percent| Thresholds::PAPER.category(load(percent), average);
            assert!((0..100).all(|percent| of(percent) <= of(percent + 1)), "sum {sum}");
        }
    }

    #[test]
    fn thresholds_out_of_order_are_refused() {
        assert_eq!(Thresholds::new(10, 70, 130), Ok(Thresholds::PAPER));
        assert_eq!(Thresholds::new(101, 70, 130), Err(UnusableThresholds::IdealBound));
        assert_eq!(Thresholds::new(10, 100, 130), Err(UnusableThresholds::LowerBound));
        assert_eq!(Thresholds::new(10, 70, 100), Err(UnusableThresholds::UpperBound));
        assert_eq!(Thresholds::new(10, 70, u32::MAX), Err(UnusableThresholds::UpperBound));
    }
}
