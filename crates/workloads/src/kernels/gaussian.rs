//! Gaussian blur: the binomial filter 1 4 6 4 1 along rows, then along columns.

use super::{Farm, Picture};
use crate::access::{touch_each, touch_item};

const SIDE: usize = 8;
const RIM: usize = 2;
const FULL: usize = SIDE + 2 * RIM;
const WEIGHTS: [u32; 5] = [1, 4, 6, 4, 1];

/// What the master gives: where the tile lies, and its pixels with a rim.
struct Task {
    pixels: Box<[u8]>,
}

/// The blurred picture, by tiles of 8 x 8.
pub fn blur(farm: &Farm, picture: &Picture) -> Vec<u8> {
    let (width, columns) = (picture.width(), picture.width() / SIDE);
    let mut blurred = vec![0; width * picture.height()];
    let tasks = columns * (picture.height() / SIDE);
    let corner = |task: usize| (task % columns * SIDE, task / columns * SIDE);
    farm.phase(
        tasks,
        |task| {
            let (x, y) = corner(task);
            Box::new(Task { pixels: picture.tile(x, y, SIDE, RIM) })
        },
        |_, task| blur_tile(&task.pixels),
        |task, tile: Box<[u8]>| {
            let (x, y) = corner(task);
            touch_each(&tile, false);
            for (row, pixels) in tile.chunks(SIDE).enumerate() {
                let at = (y + row) * width + x;
                blurred[at..at + SIDE].copy_from_slice(pixels);
                (at..at + SIDE).for_each(|i| touch_item(&blurred, i, true));
            }
        },
    );
    blurred
}

fn blur_tile(pixels: &[u8]) -> Box<[u8]> {
    // Rows first: a temporary line for each row, as long as the tile is wide.
    let rows: Vec<Box<[u16]>> = (0..FULL)
        .map(|y| {
            let pixel = |x: usize| weighted(|i| read(pixels, y * FULL + x + i).into()) as u16;
            let line: Box<[u16]> = (0..SIDE).map(pixel).collect();
            touch_each(&line, true);
            line
        })
        .collect();
    let pixel = |i: usize| (weighted(|k| read(&rows[i / SIDE + k], i % SIDE).into()) / 256) as u8;
    let blurred: Box<[u8]> = (0..SIDE * SIDE).map(pixel).collect();
    touch_each(&blurred, true);
    blurred
}

fn read<T: Copy>(list: &[T], index: usize) -> T {
    touch_item(list, index, false);
    list[index]
}

fn weighted(value: impl Fn(usize) -> u32) -> u32 {
    WEIGHTS.iter().enumerate().map(|(i, weight)| weight * value(i)).sum()
}

/// The same, pixel by pixel.
pub fn plain(picture: &Picture) -> Vec<u8> {
    let pixel = |i: usize| {
        let (x, y) = ((i % picture.width()) as isize, (i / picture.width()) as isize);
        let row =
            |k: usize| weighted(|j| picture.at(x + j as isize - 2, y + k as isize - 2).into());
        (weighted(row) / 256) as u8
    };
    (0..picture.width() * picture.height()).map(pixel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_picture_stays_as_it_is() {
        let tile = [77_u8; FULL * FULL];
        assert_eq!(*blur_tile(&tile), [77; SIDE * SIDE]);
    }
}
