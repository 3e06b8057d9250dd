//! Points, quads and the map from a unit square onto a quad.
//!
//! Lengths carry the scene's own unit (millimetres in the Cornell box, metres in the room); no
//! result depends on it. A [`Quad`] is convex and planar within [`PLANAR_TOLERANCE`], which
//! [`crate::radiosity::scene`] checks once; this file assumes it.

use std::ops::{Add, Mul, Neg, Sub};

/// How far a vertex may lie from its polygon's plane, as a share of the polygon's size. The
/// published Cornell box needs 0.3 %: its left wall is 3.2 mm narrower at the foot of its far end.
pub const PLANAR_TOLERANCE: f64 = 0.005;

/// A point or a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Vec3 {
    /// First coordinate.
    pub x: f64,
    /// Second coordinate.
    pub y: f64,
    /// Third coordinate.
    pub z: f64,
}

impl Vec3 {
    /// A vector from its coordinates.
    pub const fn new(x: f64, y: f64, z: f64) -> Vec3 {
        Vec3 { x, y, z }
    }

    /// Inner product.
    pub fn dot(self, other: Vec3) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    /// Outer product.
    pub fn cross(self, other: Vec3) -> Vec3 {
        Vec3::new(
            self.y * other.z - self.z * other.y,
            self.z * other.x - self.x * other.z,
            self.x * other.y - self.y * other.x,
        )
    }

    /// Euclidean length.
    pub fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The direction of this vector; the null vector stays null.
    pub fn unit(self) -> Vec3 {
        let length = self.length();
        if length > 0.0 { self * (1.0 / length) } else { self }
    }

    /// Halfway between two points.
    pub fn middle(self, other: Vec3) -> Vec3 {
        (self + other) * 0.5
    }

    /// The smaller of each coordinate.
    pub fn min(self, other: Vec3) -> Vec3 {
        Vec3::new(self.x.min(other.x), self.y.min(other.y), self.z.min(other.z))
    }

    /// The larger of each coordinate.
    pub fn max(self, other: Vec3) -> Vec3 {
        Vec3::new(self.x.max(other.x), self.y.max(other.y), self.z.max(other.z))
    }

    /// Whether every coordinate is a finite number.
    pub fn is_finite(self) -> bool {
        self.x.is_finite() && self.y.is_finite() && self.z.is_finite()
    }

    /// The coordinates as an array.
    pub fn to_array(self) -> [f64; 3] {
        [self.x, self.y, self.z]
    }
}

impl From<[f64; 3]> for Vec3 {
    fn from([x, y, z]: [f64; 3]) -> Vec3 {
        Vec3 { x, y, z }
    }
}

impl Add for Vec3 {
    type Output = Vec3;
    fn add(self, other: Vec3) -> Vec3 {
        Vec3::new(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

impl Sub for Vec3 {
    type Output = Vec3;
    fn sub(self, other: Vec3) -> Vec3 {
        Vec3::new(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}

impl Mul<f64> for Vec3 {
    type Output = Vec3;
    fn mul(self, by: f64) -> Vec3 {
        Vec3::new(self.x * by, self.y * by, self.z * by)
    }
}

impl Neg for Vec3 {
    type Output = Vec3;
    fn neg(self) -> Vec3 {
        self * -1.0
    }
}

/// The vector area of a closed polygon: its direction is the normal, its length the area (Newell).
pub fn vector_area(vertices: &[Vec3]) -> Vec3 {
    let Some(&origin) = vertices.first() else { return Vec3::default() };
    let mut sum = Vec3::default();
    for pair in vertices.windows(2) {
        sum = sum + (pair[0] - origin).cross(pair[1] - origin);
    }
    sum * 0.5
}

/// A convex, planar quadrilateral; its corners turn counter-clockwise seen from its front.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quad {
    /// The corners in order.
    pub corners: [Vec3; 4],
}

impl Quad {
    /// The point with coordinates `u`, `v` in 0..=1: corner 0 is (0, 0), 1 is (1, 0), 2 is (1, 1).
    pub fn at(&self, u: f64, v: f64) -> Vec3 {
        let [a, b, c, d] = self.corners;
        a * ((1.0 - u) * (1.0 - v)) + b * (u * (1.0 - v)) + c * (u * v) + d * ((1.0 - u) * v)
    }

    /// Area in squared units of length.
    pub fn area(&self) -> f64 {
        vector_area(&self.corners).length()
    }

    /// The unit normal, pointing to the front.
    pub fn normal(&self) -> Vec3 {
        vector_area(&self.corners).unit()
    }

    /// How `at` moves with `u` and with `v` at a point.
    pub fn tangents(&self, u: f64, v: f64) -> (Vec3, Vec3) {
        let [a, b, c, d] = self.corners;
        ((b - a) * (1.0 - v) + (c - d) * v, (d - a) * (1.0 - u) + (c - b) * u)
    }

    /// The inverse of [`Quad::at`] for a point on the quad, by Newton's method (exact after one
    /// step on a parallelogram). The answer lies in 0..=1.
    pub fn coordinates(&self, point: Vec3) -> (f64, f64) {
        let (mut u, mut v) = (0.5, 0.5);
        for _ in 0..5 {
            let miss = point - self.at(u, v);
            let (du, dv) = self.tangents(u, v);
            let (uu, uv, vv) = (du.dot(du), du.dot(dv), dv.dot(dv));
            let determinant = uu * vv - uv * uv;
            if determinant <= 0.0 {
                break;
            }
            let (mu, mv) = (miss.dot(du), miss.dot(dv));
            u = (u + (mu * vv - mv * uv) / determinant).clamp(0.0, 1.0);
            v = (v + (mv * uu - mu * uv) / determinant).clamp(0.0, 1.0);
        }
        (u, v)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kite() -> Quad {
        let corner = |x, y| Vec3::new(x, y, 1.0);
        Quad { corners: [corner(0.0, 0.0), corner(3.0, 0.5), corner(2.5, 2.0), corner(0.0, 1.0)] }
    }

    #[test]
    fn coordinates_invert_at() {
        for (u, v) in [(0.0, 0.0), (0.25, 0.75), (0.9, 0.1), (1.0, 1.0)] {
            let (found_u, found_v) = kite().coordinates(kite().at(u, v));
            assert!((found_u - u).abs() < 1e-9 && (found_v - v).abs() < 1e-9, "{u} {v}");
        }
    }

    #[test]
    fn a_unit_square_has_area_one_and_looks_up() {
        let corner = |x, y| Vec3::new(x, y, 0.0);
        let square = Quad {
            corners: [corner(0.0, 0.0), corner(1.0, 0.0), corner(1.0, 1.0), corner(0.0, 1.0)],
        };
        assert_eq!(square.area(), 1.0);
        assert_eq!(square.normal(), Vec3::new(0.0, 0.0, 1.0));
    }
}
