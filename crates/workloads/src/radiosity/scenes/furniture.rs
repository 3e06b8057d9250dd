//! Boxes and what can be made of them, standing in a room whose y axis points up (metres).

use crate::radiosity::geometry::Vec3;
use crate::radiosity::scene::Polygon;

/// Which of a box's faces exist: hidden ones cost meshes and show nothing.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Faces {
    /// All six.
    All,
    /// Without the bottom: it stands on something.
    Standing,
    /// Only the four sides: a leg.
    Sides,
}

/// A place on the floor and a direction to look in.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub x: f64,
    pub y: f64,
    pub z: f64,
    /// Turn about the y axis in radians.
    pub turn: f64,
}

/// Collects polygons.
#[derive(Default)]
pub(super) struct Furnisher {
    pub polygons: Vec<Polygon>,
    surfaces: usize,
}

impl Furnisher {
    /// Adds a quad as a surface of its own.
    pub fn quad(&mut self, material: usize, corners: [Vec3; 4]) {
        self.surfaces += 1;
        self.quad_of(&format!("surface {}", self.surfaces), material, corners);
    }

    /// Adds a quad to a surface.
    pub fn quad_of(&mut self, surface: &str, material: usize, corners: [Vec3; 4]) {
        let (surface, vertices) = (surface.to_owned(), corners.to_vec());
        self.polygons.push(Polygon { surface, material, vertices });
    }

    /// Adds a box between two corners that are given relative to a place.
    pub fn cuboid(&mut self, material: usize, place: Place, low: Vec3, high: Vec3, faces: Faces) {
        let (sine, cosine) = place.turn.sin_cos();
        let corner = |x: f64, y: f64, z: f64| {
            let (along, across) = (x * cosine + z * sine, z * cosine - x * sine);
            Vec3::new(place.x + along, place.y + y, place.z + across)
        };
        let [low_x, low_y, low_z] = low.to_array();
        let [high_x, high_y, high_z] = high.to_array();
        let level = |y: f64| {
            [
                corner(low_x, y, low_z),
                corner(low_x, y, high_z),
                corner(high_x, y, high_z),
                corner(high_x, y, low_z),
            ]
        };
        let (foot, head) = (level(low_y), level(high_y));
        for side in 0..4 {
            let next = (side + 1) % 4;
            self.quad(material, [foot[side], foot[next], head[next], head[side]]);
        }
        if faces != Faces::Sides {
            self.quad(material, head);
        }
        if faces == Faces::All {
            let [a, b, c, d] = foot;
            self.quad(material, [d, c, b, a]);
        }
    }

    /// Four legs below a rectangle of `width` by `depth`, `height` high: 16 polygons.
    fn legs(&mut self, material: usize, place: Place, width: f64, depth: f64, height: f64) {
        let thick = 0.045;
        for (sx, sz) in [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)] {
            let (x, z) = (sx * (width / 2.0 - thick), sz * (depth / 2.0 - thick));
            let half = thick / 2.0;
            let low = Vec3::new(x - half, 0.0, z - half);
            let high = Vec3::new(x + half, height, z + half);
            self.cuboid(material, place, low, high, Faces::Sides);
        }
    }

    /// A table: 22 polygons.
    pub fn table(&mut self, material: usize, place: Place, width: f64, depth: f64) {
        let low = Vec3::new(-width / 2.0, 0.70, -depth / 2.0);
        let high = Vec3::new(width / 2.0, 0.75, depth / 2.0);
        self.cuboid(material, place, low, high, Faces::All);
        self.legs(material, place, width, depth, 0.70);
    }

    /// A chair that looks along its place's z axis: 28 polygons.
    pub fn chair(&mut self, frame: usize, cushion: usize, place: Place) {
        let seat = (Vec3::new(-0.22, 0.43, -0.22), Vec3::new(0.22, 0.48, 0.22));
        let back = (Vec3::new(-0.21, 0.56, -0.22), Vec3::new(0.21, 0.92, -0.18));
        self.cuboid(cushion, place, seat.0, seat.1, Faces::All);
        self.cuboid(cushion, place, back.0, back.1, Faces::All);
        self.legs(frame, place, 0.44, 0.44, 0.43);
    }

    /// A bookcase with its back against z = 0 of its place, and its books: 45 polygons and 5 for
    /// each book. Books are as wide and high as their number makes them: no two shelves alike.
    pub fn bookcase(&mut self, wood: usize, covers: &[usize], books: usize, place: Place) {
        let (half, height, depth, thick) = (0.8, 2.0, 0.3, 0.03);
        let mut part = |low: [f64; 3], high: [f64; 3], faces| {
            self.cuboid(wood, place, low.into(), high.into(), faces);
        };
        part([-half, 0.0, 0.0], [thick - half, height, depth], Faces::Standing);
        part([half - thick, 0.0, 0.0], [half, height, depth], Faces::Standing);
        part([thick - half, 0.0, 0.0], [half - thick, height, 0.015], Faces::Standing);
        let shelf = |index: usize| 0.08 + 0.4725 * index as f64;
        for index in 0..5 {
            let y = shelf(index);
            part([thick - half, y, 0.015], [half - thick, y + thick, depth], Faces::All);
        }
        let per_shelf = books.div_ceil(4);
        for book in 0..books {
            let (row, column) = (book / per_shelf, book % per_shelf);
            let jitter = |salt: usize| ((book * 37 + salt * 53) % 19) as f64 / 19.0;
            let room = (2.0 * half - 2.0 * thick - 0.1) / per_shelf as f64;
            let (wide, high) = (room * (0.55 + 0.35 * jitter(1)), 0.24 + 0.14 * jitter(2));
            let x = thick - half + 0.05 + room * column as f64;
            let y = shelf(row) + thick;
            let low = Vec3::new(x, y, 0.02);
            let high = Vec3::new(x + wide, y + high, 0.19 + 0.06 * jitter(3));
            self.cuboid(covers[book % covers.len()], place, low, high, Faces::Standing);
        }
    }
}
