//! The generated picture: shades, squares and discs, so that there are corners, edges and even parts.

use crate::access::{touch_each, touch_item};

/// Rows of grey pixels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Picture {
    /// The picture of that size. The same on every machine: whole numbers only.
    pub fn generated(width: usize, height: usize) -> Picture {
        let pixel = |i: usize| shade((i % width) as i64, (i / width) as i64);
        Picture { width, height, pixels: (0..width * height).map(pixel).collect() }
    }

    /// Columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// A pixel; outside, that of the nearest edge.
    pub fn at(&self, x: isize, y: isize) -> u8 {
        let x = x.clamp(0, self.width as isize - 1) as usize;
        let y = y.clamp(0, self.height as isize - 1) as usize;
        self.pixels[y * self.width + x]
    }

    /// As [`at`](Self::at), and a recorder hears of it.
    pub fn read(&self, x: isize, y: isize) -> u8 {
        let x = x.clamp(0, self.width as isize - 1) as usize;
        let y = y.clamp(0, self.height as isize - 1) as usize;
        touch_item(&self.pixels, y * self.width + x, false);
        self.pixels[y * self.width + x]
    }

    /// A copy of the pixels around a tile: `side` wide and high from (`x`, `y`), and `rim` on each side. A
    /// recorder hears of every pixel.
    pub fn tile(&self, x: usize, y: usize, side: usize, rim: usize) -> Box<[u8]> {
        let full = side + 2 * rim;
        let pixel = |i: usize| {
            let (dx, dy) = (i % full, i / full);
            self.read((x + dx) as isize - rim as isize, (y + dy) as isize - rim as isize)
        };
        let tile: Box<[u8]> = (0..full * full).map(pixel).collect();
        touch_each(&tile, true);
        tile
    }
}

/// A slope of grey, a row of dark squares, bright discs between them, and a little grain.
fn shade(x: i64, y: i64) -> u8 {
    let slope = 70 + (x + 2 * y) % 256 / 4;
    let (u, v) = (x % 32 - 16, y % 32 - 16);
    let grey = if (-12..-3).contains(&u) && (-12..-3).contains(&v) {
        20
    } else if (u - 8) * (u - 8) + (v - 8) * (v - 8) <= 25 {
        230
    } else {
        slope
    };
    let grain = (x * 7919 + y * 104_729) % 5;
    (grey + grain).clamp(0, 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_has_its_rim_and_the_edge_repeats() {
        let picture = Picture::generated(16, 16);
        let tile = picture.tile(0, 0, 8, 1);
        assert_eq!(tile.len(), 100);
        assert_eq!(
            (tile[0], tile[11], tile[12]),
            (picture.at(0, 0), picture.at(0, 0), picture.at(1, 0))
        );
        assert_eq!(picture.at(-5, 99), picture.at(0, 15));
    }
}
