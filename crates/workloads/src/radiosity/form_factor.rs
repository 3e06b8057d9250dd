//! How much of the light that leaves one surface reaches another, without occlusion.
//!
//! Two estimators:
//! - [`exchange`], the solver's: each surface is a list of sub-centres; the kernel between two
//!   sub-centres is that of a point and a disc (Wallace, Elmquist, Haines 1989), clipped at 0.
//!   It is symmetric, so reciprocity `A_i F_ij = A_j F_ji` holds to the last bit.
//!   Errors on unit squares with n x n sub-centres each (printed by the tests): n = 2 (the
//!   solver's): +1.6 % parallel at distance 1, -4.4 % perpendicular with a common edge; n = 32:
//!   3 digits (0.1999) and 2 digits (0.198): the kernel is singular on the common edge, so there
//!   the error falls like 1/n only. Refinement and [`super::closure`] do the rest.
//! - [`between_quads`], the reference: Lambert's contour formula from points to the polygon,
//!   integrated by the tanh-sinh rule. All stated digits: 0.199825 and 0.200044.

use super::geometry::{Quad, Vec3};
use std::f64::consts::PI;

/// One sub-centre of an element: a small disc.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Where it is.
    pub point: Vec3,
    /// Unit normal.
    pub normal: Vec3,
    /// Its share of the element's area.
    pub area: f64,
}

/// The sub-centres of a quad, `n` by `n`, as a list of its own (a temporary of the caller).
pub fn sub_centres(quad: &Quad, normal: Vec3, area: f64, n: usize) -> Vec<Sample> {
    let mut samples = Vec::with_capacity(n * n);
    let share = area / (n * n) as f64;
    for row in 0..n {
        for column in 0..n {
            let at = |index: usize| (index as f64 + 0.5) / n as f64;
            samples.push(Sample { point: quad.at(at(column), at(row)), normal, area: share });
        }
    }
    samples
}

/// Point-to-disc kernel between two sub-centres in units of 1 / area, made symmetric by taking
/// the larger of the two as the disc; 0 when either is behind the other.
pub fn kernel(a: &Sample, b: &Sample) -> f64 {
    let way = b.point - a.point;
    let squared = way.dot(way);
    let cosines = way.dot(a.normal).max(0.0) * (-way.dot(b.normal)).max(0.0);
    if cosines <= 0.0 {
        return 0.0;
    }
    cosines / (squared * (PI * squared + a.area.max(b.area)))
}

/// An estimate of `A_i F_ij` and of how wrong it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exchange {
    /// `A_i F_ij = A_j F_ji`, in squared units of length.
    pub area: f64,
    /// The larger distance of the average from the smallest and largest kernel, as an area.
    pub area_error: f64,
}

/// Averages the kernel over all pairs of sub-centres. `kernels`, a list of the caller, receives
/// each pair's share of the exchange (row by row), for weighing visibility. O(n^2 m^2).
pub fn exchange(a: &[Sample], b: &[Sample], kernels: &mut Vec<f64>) -> Exchange {
    let (mut sum, mut least, mut most) = (0.0, f64::INFINITY, 0.0f64);
    kernels.clear();
    for from in a {
        for to in b {
            let share = from.area * to.area * kernel(from, to);
            kernels.push(share);
            sum += share;
            least = least.min(share);
            most = most.max(share);
        }
    }
    let pairs = kernels.len().max(1) as f64;
    Exchange { area: sum, area_error: (most * pairs - sum).max(sum - least * pairs) }
}

/// Exact form factor from a small surface at `point` to a polygon wholly in front of it
/// (Lambert's contour formula).
pub fn from_point(point: Vec3, normal: Vec3, polygon: &[Vec3]) -> f64 {
    let mut sum = 0.0;
    for (index, &corner) in polygon.iter().enumerate() {
        let a = (corner - point).unit();
        let b = (polygon[(index + 1) % polygon.len()] - point).unit();
        let across = a.cross(b);
        let sine = across.length();
        if sine > 0.0 {
            sum += sine.atan2(a.dot(b)) * across.dot(normal) / sine;
        }
    }
    // A polygon that faces the point turns clockwise around it.
    (-sum / (2.0 * PI)).max(0.0)
}

/// Reference form factor from quad `from` to quad `to`, neither crossing the other's plane:
/// Lambert's formula under a `nodes`-point tanh-sinh rule in each direction, which forgives the
/// singularity of a common edge. 24 nodes give the six stated digits.
pub fn between_quads(from: &Quad, to: &Quad, nodes: usize) -> f64 {
    let rule = tanh_sinh(nodes);
    let normal = from.normal();
    let (mut sum, mut area) = (0.0, 0.0);
    for &(u, weight_u) in &rule {
        for &(v, weight_v) in &rule {
            let (du, dv) = from.tangents(u, v);
            let weight = weight_u * weight_v * du.cross(dv).length();
            sum += weight * from_point(from.at(u, v), normal, &to.corners);
            area += weight;
        }
    }
    sum / area
}

/// Nodes and weights of the tanh-sinh rule on 0..1.
fn tanh_sinh(nodes: usize) -> Vec<(f64, f64)> {
    let reach = 2.8;
    let step = 2.0 * reach / (nodes.max(2) - 1) as f64;
    let node = |index: usize| {
        let t = -reach + step * index as f64;
        let inner = PI / 2.0 * t.sinh();
        let weight = step * PI / 4.0 * t.cosh() / inner.cosh().powi(2);
        (0.5 * (1.0 + inner.tanh()), weight)
    };
    (0..nodes.max(2)).map(node).collect()
}

#[cfg(test)]
mod tests;
