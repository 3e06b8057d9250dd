//! Integral image: at every pixel the sum of all above and to the left, itself included.
//!
//! A slave sums its tile as if it were alone; then what lies left of each tile is carried along the rows,
//! and what lies above along the columns, a task for each line of edges.

use super::{Farm, Picture};
use crate::access::{touch_item, touch_list};

const SIDE: usize = 8;

struct Task {
    pixels: Box<[u8]>,
}

/// The integral image, by tiles of 8 x 8: a phase within them, one along rows, one along columns.
pub fn sums(farm: &Farm, picture: &Picture) -> Vec<u64> {
    let (width, height) = (picture.width(), picture.height());
    let (columns, bands) = (width / SIDE, height / SIDE);
    let mut sums = vec![0_u64; width * height];
    // Sums within each tile.
    farm.phase(
        columns * bands,
        |task| {
            let pixels = picture.tile(task % columns * SIDE, task / columns * SIDE, SIDE, 0);
            touch_list(&pixels, true);
            Box::new(Task { pixels })
        },
        |_, task| tile_sums(&task.pixels),
        |task, tile: Box<[u16]>| {
            touch_list(&tile, false);
            for (i, &sum) in tile.iter().enumerate() {
                let (x, y) = (task % columns * SIDE + i % SIDE, task / columns * SIDE + i / SIDE);
                sums[y * width + x] = sum.into();
            }
        },
    );
    carry(farm, &mut sums, width, height);
    sums
}

/// Adds what lies left of each tile, row by row, and then what lies above, column by column.
fn carry(farm: &Farm, sums: &mut [u64], width: usize, height: usize) {
    let columns = width / SIDE;
    // The right edge of each tile of a row, carried along it: a line at a time.
    for (lines, line_len, line, at) in
        [(height, columns, 1, width), (width, height / SIDE, width, 1)]
    {
        let edges = |sums: &[u64], i: usize| -> Box<[u64]> {
            (0..line_len).map(|k| sums[i * at + (k * SIDE + SIDE - 1) * line]).collect()
        };
        let mut carried: Vec<Box<[u64]>> = Vec::new();
        farm.phase(
            lines,
            |i| {
                let edges = edges(sums, i);
                touch_list(&edges, true);
                edges
            },
            |_, edges| prefix(&edges),
            |_, before| carried.push(before),
        );
        for (i, before) in carried.into_iter().enumerate() {
            for (k, add) in before.iter().enumerate() {
                touch_item(&before, k, false);
                (0..SIDE).for_each(|j| sums[i * at + (k * SIDE + j) * line] += add);
            }
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
    touch_list(items, false);
    touch_list(&before, true);
    before
}

fn tile_sums(pixels: &[u8]) -> Box<[u16]> {
    let mut sums: Box<[u16]> = pixels.iter().map(|&pixel| pixel.into()).collect();
    for i in 0..SIDE * SIDE {
        let (x, y) = (i % SIDE, i / SIDE);
        let left = if x > 0 { sums[i - 1] } else { 0 };
        let above = if y > 0 { sums[i - SIDE] } else { 0 };
        let both = if x > 0 && y > 0 { sums[i - SIDE - 1] } else { 0 };
        sums[i] = sums[i] + left + above - both;
        touch_item(&sums, i, true);
        touch_item(pixels, i, false);
        touch_item(&sums, i.saturating_sub(SIDE), false);
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
