//! Three-channel light and the cells through which threads hand it to each other.
//!
//! A cell is read and written with relaxed ordering: the solver's phases never read in a phase
//! what the same phase writes, and the end of a parallel loop orders one phase before the next.

use std::ops::{Add, AddAssign, Mul, Sub};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Light or reflectance in red, green and blue (linear, not gamma-coded).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rgb(pub [f64; 3]);

impl Rgb {
    /// No light.
    pub const BLACK: Rgb = Rgb([0.0; 3]);

    /// The same amount in each channel.
    pub const fn grey(amount: f64) -> Rgb {
        Rgb([amount; 3])
    }

    /// The strongest channel.
    pub fn strongest(self) -> f64 {
        self.0[0].max(self.0[1]).max(self.0[2])
    }

    /// The sum of the channels.
    pub fn sum(self) -> f64 {
        self.0[0] + self.0[1] + self.0[2]
    }

    /// Relative luminance (ITU-R BT.709 primaries).
    pub fn luminance(self) -> f64 {
        0.2126 * self.0[0] + 0.7152 * self.0[1] + 0.0722 * self.0[2]
    }

    /// Applies a function to each channel.
    pub fn map(self, f: impl Fn(f64) -> f64) -> Rgb {
        Rgb(self.0.map(f))
    }

    fn zip(self, other: Rgb, f: impl Fn(f64, f64) -> f64) -> Rgb {
        Rgb(std::array::from_fn(|channel| f(self.0[channel], other.0[channel])))
    }

    /// The larger of each channel.
    pub fn max(self, other: Rgb) -> Rgb {
        self.zip(other, f64::max)
    }
}

impl Add for Rgb {
    type Output = Rgb;
    fn add(self, other: Rgb) -> Rgb {
        self.zip(other, |a, b| a + b)
    }
}

impl AddAssign for Rgb {
    fn add_assign(&mut self, other: Rgb) {
        *self = *self + other;
    }
}

impl Sub for Rgb {
    type Output = Rgb;
    fn sub(self, other: Rgb) -> Rgb {
        self.zip(other, |a, b| a - b)
    }
}

impl Mul<f64> for Rgb {
    type Output = Rgb;
    fn mul(self, by: f64) -> Rgb {
        self.map(|channel| channel * by)
    }
}

impl Mul for Rgb {
    type Output = Rgb;
    fn mul(self, other: Rgb) -> Rgb {
        self.zip(other, |a, b| a * b)
    }
}

/// A number that threads may share.
#[derive(Debug, Default)]
pub struct Cell(AtomicU64);

impl Cell {
    /// A cell that holds `value`.
    pub fn new(value: f64) -> Cell {
        Cell(AtomicU64::new(value.to_bits()))
    }

    /// What it holds.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }

    /// Replaces what it holds.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }
}

/// Light that threads may share; the channels are separate words, so a reader of the same phase
/// could see a mixture: the phases exclude that.
#[derive(Debug, Default)]
pub struct RgbCell([Cell; 3]);

impl RgbCell {
    /// What it holds.
    pub fn get(&self) -> Rgb {
        Rgb(std::array::from_fn(|channel| self.0[channel].get()))
    }

    /// Replaces what it holds.
    pub fn set(&self, value: Rgb) {
        for (cell, channel) in self.0.iter().zip(value.0) {
            cell.set(channel);
        }
    }
}
