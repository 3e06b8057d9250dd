//! FAST corners: nine of the sixteen pixels around, in a row, all brighter or all darker by a threshold.
//!
//! Rosten and Drummond, "Machine learning for high-speed corner detection", ECCV 2006: the segment test
//! with its shortcut by the four pixels of the compass, without the learned tree.

use super::{Farm, Picture};
use crate::access::{touch, touch_item};

const SIDE: usize = 8;
const RIM: usize = 3;
const FULL: usize = SIDE + 2 * RIM;
const THRESHOLD: i16 = 30;
const NEEDED: usize = 9;

/// The circle of radius 3, clockwise from the top.
const CIRCLE: [(isize, isize); 16] = [
    (0, -3),
    (1, -3),
    (2, -2),
    (3, -1),
    (3, 0),
    (3, 1),
    (2, 2),
    (1, 3),
    (0, 3),
    (-1, 3),
    (-2, 2),
    (-3, 1),
    (-3, 0),
    (-3, -1),
    (-2, -2),
    (-1, -3),
];

struct Task {
    pixels: Box<[u8]>,
}

/// A corner of a tile; the slave's list of them grows one by one.
struct Corner {
    x: u8,
    y: u8,
    next: Option<Box<Corner>>,
}

impl Corner {
    fn touch(&self, write: bool) {
        touch(std::ptr::from_ref(self) as usize, 0, size_of::<Corner>(), write);
    }
}

/// Every corner as its pixel's number, in rising order.
pub fn corners(farm: &Farm, picture: &Picture) -> Vec<u32> {
    let (width, columns) = (picture.width(), picture.width() / SIDE);
    let mut found = Vec::new();
    let tasks = columns * (picture.height() / SIDE);
    let corner = |task: usize| (task % columns * SIDE, task / columns * SIDE);
    farm.phase(
        tasks,
        |task| {
            let (x, y) = corner(task);
            Box::new(Task { pixels: picture.tile(x, y, SIDE, RIM) })
        },
        |_, task| corners_of_tile(&task.pixels),
        |task, mut list: Option<Box<Corner>>| {
            let (x, y) = corner(task);
            while let Some(corner) = list {
                corner.touch(false);
                found
                    .push(((y + usize::from(corner.y)) * width + x + usize::from(corner.x)) as u32);
                list = corner.next;
            }
        },
    );
    found.sort_unstable();
    found
}

fn corners_of_tile(pixels: &[u8]) -> Option<Box<Corner>> {
    let mut list = None;
    for i in 0..SIDE * SIDE {
        let (x, y) = (i % SIDE, i / SIDE);
        let centre = (y + RIM) * FULL + x + RIM;
        let pixel = |(dx, dy): (isize, isize)| {
            let place = centre.wrapping_add_signed(dy * FULL as isize + dx);
            touch_item(pixels, place, false);
            pixels[place]
        };
        touch_item(pixels, centre, false);
        if is_corner(pixels[centre], pixel) {
            let corner = Box::new(Corner { x: x as u8, y: y as u8, next: list });
            corner.touch(true);
            list = Some(corner);
        }
    }
    list
}

/// The test: two of the four compass pixels in a row must differ, or nine in a row cannot.
fn is_corner(centre: u8, pixel: impl Fn((isize, isize)) -> u8) -> bool {
    let differs = |i: usize| {
        let by = i16::from(pixel(CIRCLE[i])) - i16::from(centre);
        if by > THRESHOLD {
            1
        } else if by < -THRESHOLD {
            -1
        } else {
            0_i16
        }
    };
    let compass = [0, 4, 8, 12].map(differs);
    let near = (0..4).any(|i| compass[i] != 0 && compass[i] == compass[(i + 1) % 4]);
    if !near {
        return false;
    }
    let ring: [i16; 16] =
        std::array::from_fn(|i| if i % 4 == 0 { compass[i / 4] } else { differs(i) });
    let row = |start: usize| (0..NEEDED).all(|i| ring[(start + i) % 16] == ring[start]);
    (0..16).any(|start| ring[start] != 0 && row(start))
}

/// The same without tiles and without the shortcut.
pub fn plain(picture: &Picture) -> Vec<u32> {
    let is = |number: &u32| {
        let (x, y) = (*number as usize % picture.width(), *number as usize / picture.width());
        let centre = i16::from(picture.at(x as isize, y as isize));
        let ring =
            CIRCLE.map(|(dx, dy)| i16::from(picture.at(x as isize + dx, y as isize + dy)) - centre);
        let row = |test: &dyn Fn(i16) -> bool| {
            (0..16).any(|start| (0..NEEDED).all(|i| test(ring[(start + i) % 16])))
        };
        row(&|by| by > THRESHOLD) || row(&|by| by < -THRESHOLD)
    };
    (0..(picture.width() * picture.height()) as u32).filter(is).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_has_corners_and_an_even_wall_has_none() {
        let dark = |x: isize, y: isize| if x >= 0 && y >= 0 { 0 } else { 200 };
        assert!(is_corner(dark(0, 0), |(x, y)| dark(x, y)));
        assert!(!is_corner(dark(5, 0), |(x, y)| dark(x + 5, y)), "an edge");
        assert!(!is_corner(9, |_| 9));
        let picture = Picture::generated(64, 64);
        let found = corners(&Farm::new(1), &picture).len();
        assert!((16..400).contains(&found), "{found}");
    }
}
