//! Quadtrees: each tile is cut in four until a part is even. Tasks of uneven length, trees of small nodes.

use super::{Farm, Picture};
use crate::access::{touch, touch_item};

const SIDE: usize = 8;
/// Brightest less darkest of an even part.
const EVEN: u8 = 24;

struct Task {
    pixels: Box<[u8]>,
}

/// A part of a tile: even, or four parts.
enum Node {
    Leaf(u8),
    Four([Box<Node>; 4]),
}

/// For each tile, how many leaves it has and what they sum to: 1000 x sum + leaves.
pub fn leaves(farm: &Farm, picture: &Picture) -> Vec<u64> {
    let columns = picture.width() / SIDE;
    let mut found = Vec::new();
    farm.phase(
        columns * (picture.height() / SIDE),
        |task| {
            let pixels = picture.tile(task % columns * SIDE, task / columns * SIDE, SIDE, 0);
            Box::new(Task { pixels })
        },
        |_, task| tree(&task.pixels, 0, SIDE),
        |_, tree| found.push(count(&tree)),
    );
    found
}

/// The tree of the part of `side` pixels whose first is `at`.
fn tree(pixels: &[u8], at: usize, side: usize) -> Box<Node> {
    let rows = (0..side).map(|row| &pixels[at + row * SIDE..at + row * SIDE + side]);
    let part = (0..side * side).map(|i| at + i / side * SIDE + i % side);
    part.for_each(|i| touch_item(pixels, i, false));
    let (least, most) = rows.flatten().fold((u8::MAX, 0), |(a, b), &p| (p.min(a), p.max(b)));
    if most - least <= EVEN || side == 1 {
        return made(Node::Leaf(least));
    }
    let half = side / 2;
    let corner = [0, half, half * SIDE, half * SIDE + half];
    made(Node::Four(corner.map(|corner| tree(pixels, at + corner, half))))
}

fn made(node: Node) -> Box<Node> {
    let node = Box::new(node);
    node.touch(true);
    node
}

impl Node {
    /// Its words: a leaf has one that counts.
    fn touch(&self, write: bool) {
        let len = if let Node::Four(_) = self { size_of::<Node>() } else { 8 };
        touch(std::ptr::from_ref(self) as usize, 0, len, write);
    }
}

fn count(node: &Node) -> u64 {
    node.touch(false);
    match node {
        Node::Leaf(grey) => 1000 * u64::from(*grey) + 1,
        Node::Four(parts) => parts.iter().map(|part| count(part)).sum(),
    }
}

/// The same without trees.
pub fn plain(picture: &Picture) -> Vec<u64> {
    let columns = picture.width() / SIDE;
    let tiles = columns * (picture.height() / SIDE);
    (0..tiles)
        .map(|tile| part(picture, tile % columns * SIDE, tile / columns * SIDE, SIDE))
        .collect()
}

fn part(picture: &Picture, x: usize, y: usize, side: usize) -> u64 {
    let all =
        || (0..side * side).map(|i| picture.at((x + i % side) as isize, (y + i / side) as isize));
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    if most - least <= EVEN || side == 1 {
        return 1000 * u64::from(least) + 1;
    }
    let half = side / 2;
    let corners = [(x, y), (x + half, y), (x, y + half), (x + half, y + half)];
    corners.into_iter().map(|(x, y)| part(picture, x, y, half)).sum()
}
