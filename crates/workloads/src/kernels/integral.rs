//! Integral image: at every pixel the sum of all above and to the left, itself included.
//!
//! A slave sums its tile as if it were alone; then what lies left of each tile is carried along the rows,
//! and what lies above along the columns, a task for each line of edges.

use super::{Farm, Picture};
use crate::access::{touch_each, touch_item};
use std::cell::RefCell;

/// Rows and columns of a tile, unless another side is wanted.
pub const SIDE: usize = 8;

struct Task {
    pixels: Box<[u8]>,
}

/// The integral image, by tiles of `side` x `side`: a phase within them, one along rows, one along columns.
pub fn sums(farm: &Farm, picture: &Picture, side: usize) -> Vec<u64> {
    let (width, height) = (picture.width(), picture.height());
    let (columns, bands) = (width / side, height / side);
    let mut sums = vec![0_u64; width * height];
    // Sums within each tile.
    farm.phase(
        columns * bands,
        |task| {
            let pixels = picture.tile(task % columns * side, task / columns * side, side, 0);
            Box::new(Task { pixels })
        },
        |_, task| tile_sums(&task.pixels, side),
        |task, tile: Box<[u16]>| {
            touch_each(&tile, false);
            for (i, &sum) in tile.iter().enumerate() {
                let (x, y) = (task % columns * side + i % side, task / columns * side + i / side);
                sums[y * width + x] = sum.into();
                touch_item(&sums, y * width + x, true);
            }
        },
    );
    carry(farm, &mut sums, (width, height), side);
    sums
}

/// Adds what lies left of each tile, row by row, and then what lies above, column by column. Each line is
/// ended before the master takes up the next result, so that no more is alive than tasks are under way.
fn carry(farm: &Farm, sums: &mut [u64], (width, height): (usize, usize), side: usize) {
    let sums = RefCell::new(sums);
    // The right edge of each tile of a row, carried along it: a line at a time.
    for (lines, tiles, step, line) in
        [(height, width / side, 1, width), (width, height / side, width, 1)]
    {
        farm.phase(
            lines,
            |i| edges(&sums.borrow(), (i * line, step), tiles, side),
            |_, edges| prefix(&edges),
            |i, before| add(&mut sums.borrow_mut(), (i * line, step), &before, side),
        );
    }
}

/// The last item of each tile of the line that begins at `first` and goes on by `step`.
fn edges(sums: &[u64], (first, step): (usize, usize), tiles: usize, side: usize) -> Box<[u64]> {
    let edge = |k: usize| {
        let at = first + (k * side + side - 1) * step;
        touch_item(sums, at, false);
        sums[at]
    };
    let edges: Box<[u64]> = (0..tiles).map(edge).collect();
    touch_each(&edges, true);
    edges
}

/// Adds to every item of a line what lies before its tile.
fn add(sums: &mut [u64], (first, step): (usize, usize), before: &[u64], side: usize) {
    for (k, add) in before.iter().enumerate() {
        touch_item(before, k, false);
        for j in 0..side {
            let at = first + (k * side + j) * step;
            sums[at] += add;
            touch_item(sums, at, false);
            touch_item(sums, at, true);
        }
    }
}

/// Before each item, the sum of all earlier ones.
fn prefix(items: &[u64]) -> Box<[u64]> {
    let mut sum = 0;
    let before: Box<[u64]> = items
        .iter()
        .map(|item| {
            sum += item;
            sum - item
        })
        .collect();
    touch_each(items, false);
    touch_each(&before, true);
    before
}

fn tile_sums(pixels: &[u8], side: usize) -> Box<[u16]> {
    let mut sums: Box<[u16]> = pixels.iter().map(|&pixel| pixel.into()).collect();
    touch_each(pixels, false);
    touch_each(&sums, true);
    for i in 0..side * side {
        let (x, y) = (i % side, i / side);
        let read = |there: bool, back: usize| {
            if !there {
                return 0;
            }
            touch_item(&sums, i - back, false);
            sums[i - back]
        };
        let (left, above) = (read(x > 0, 1), read(y > 0, side));
        let both = read(x > 0 && y > 0, side + 1);
        sums[i] = read(true, 0) + left + above - both;
        touch_item(&sums, i, true);
    }
    sums
}

/// The same by its definition, row by row.
pub fn plain(picture: &Picture) -> Vec<u64> {
    let width = picture.width();
    let mut sums = vec![0; width * picture.height()];
    for y in 0..picture.height() {
        let mut row = 0;
        for x in 0..width {
            row += u64::from(picture.at(x as isize, y as isize));
            sums[y * width + x] = row + if y > 0 { sums[(y - 1) * width + x] } else { 0 };
        }
    }
    sums
}
