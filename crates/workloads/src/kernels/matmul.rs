//! Matrix multiplication: the picture's largest square times itself, block by block.

use super::{Farm, Picture};
use crate::access::{touch_each, touch_item};

/// Rows and columns of a block, unless another side is wanted.
pub const SIDE: usize = 6;

/// Two blocks to multiply.
struct Task {
    left: Box<[u16]>,
    right: Box<[u16]>,
}

/// The most rows and columns of the matrix.
const MOST: usize = 48;

/// Rows and columns of the matrix: a whole number of blocks.
fn size(picture: &Picture, side: usize) -> usize {
    picture.width().min(picture.height()).min(MOST) / side * side
}

/// The square of the matrix of the picture's upper left pixels, in blocks of `side` x `side`.
pub fn square(farm: &Farm, picture: &Picture, side: usize) -> Vec<u64> {
    let size = size(picture, side);
    let blocks = size / side;
    let block = |row: usize, column: usize| -> Box<[u16]> {
        let pixel = |i: usize| {
            let (x, y) = (column * side + i % side, row * side + i / side);
            picture.read(x as isize, y as isize).into()
        };
        let block: Box<[u16]> = (0..side * side).map(pixel).collect();
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
            |_, task| multiply(&task.left, &task.right, side),
            |task, part: Box<[u32]>| {
                touch_each(&part, false);
                for (i, &value) in part.iter().enumerate() {
                    let (x, y) = (task % blocks * side + i % side, task / blocks * side + i / side);
                    product[y * size + x] += u64::from(value);
                    changed(&product, y * size + x);
                }
            },
        );
    }
    product
}

fn multiply(left: &[u16], right: &[u16], side: usize) -> Box<[u32]> {
    let mut part = vec![0_u32; side * side].into_boxed_slice();
    touch_each(&part, true);
    for row in 0..side {
        for inner in 0..side {
            let value = u32::from(left[row * side + inner]);
            touch_item(left, row * side + inner, false);
            for column in 0..side {
                part[row * side + column] += value * u32::from(right[inner * side + column]);
                touch_item(right, inner * side + column, false);
                changed(&part, row * side + column);
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
pub fn plain(picture: &Picture, side: usize) -> Vec<u64> {
    let size = size(picture, side);
    let at = |row: usize, column: usize| u64::from(picture.at(column as isize, row as isize));
    let cell = |i: usize| (0..size).map(|k| at(i / size, k) * at(k, i % size)).sum();
    (0..size * size).map(cell).collect()
}
