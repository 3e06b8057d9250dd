//! Matrix multiplication: the picture's largest square times itself, block by block.

use super::{Farm, Picture};
use crate::access::{touch_each, touch_item};

/// Rows and columns of a block.
const SIDE: usize = 6;

/// Two blocks to multiply.
struct Task {
    left: Box<[u16]>,
    right: Box<[u16]>,
}

/// Rows and columns of the matrix: a whole number of blocks, at most 48.
fn size(picture: &Picture) -> usize {
    (picture.width().min(picture.height()) / SIDE * SIDE).min(8 * SIDE)
}

/// The square of the matrix of the picture's upper left pixels.
pub fn square(farm: &Farm, picture: &Picture) -> Vec<u64> {
    let size = size(picture);
    let blocks = size / SIDE;
    let block = |row: usize, column: usize| -> Box<[u16]> {
        let pixel = |i: usize| {
            let (x, y) = (column * SIDE + i % SIDE, row * SIDE + i / SIDE);
            picture.read(x as isize, y as isize).into()
        };
        let block: Box<[u16]> = (0..SIDE * SIDE).map(pixel).collect();
        touch_each(&block, true);
        block
    };
    let mut product = vec![0_u64; size * size];
    // One task for each pair of blocks that meet; a phase for each step along the inner dimension.
    for inner in 0..blocks {
        farm.phase(
            blocks * blocks,
            |task| {
                let (left, right) = (block(task / blocks, inner), block(inner, task % blocks));
                Box::new(Task { left, right })
            },
            |_, task| multiply(&task.left, &task.right),
            |task, part: Box<[u32]>| {
                touch_each(&part, false);
                for (i, &value) in part.iter().enumerate() {
                    let (x, y) = (task % blocks * SIDE + i % SIDE, task / blocks * SIDE + i / SIDE);
                    product[y * size + x] += u64::from(value);
                    changed(&product, y * size + x);
                }
            },
        );
    }
    product
}

fn multiply(left: &[u16], right: &[u16]) -> Box<[u32]> {
    let mut part = vec![0_u32; SIDE * SIDE].into_boxed_slice();
    touch_each(&part, true);
    for row in 0..SIDE {
        for inner in 0..SIDE {
            let value = u32::from(left[row * SIDE + inner]);
            touch_item(left, row * SIDE + inner, false);
            for column in 0..SIDE {
                part[row * SIDE + column] += value * u32::from(right[inner * SIDE + column]);
                touch_item(right, inner * SIDE + column, false);
                changed(&part, row * SIDE + column);
            }
        }
    }
    part
}

/// An item was read and written.
fn changed<T>(list: &[T], index: usize) {
    touch_item(list, index, false);
    touch_item(list, index, true);
}

/// The same by its definition.
pub fn plain(picture: &Picture) -> Vec<u64> {
    let size = size(picture);
    let at = |row: usize, column: usize| u64::from(picture.at(column as isize, row as isize));
    let cell = |i: usize| (0..size).map(|k| at(i / size, k) * at(k, i % size)).sum();
    (0..size * size).map(cell).collect()
}
