//! How much of the light that leaves one surface reaches another, without occlusion.
//!
//! The solver's estimators; each surface is a list of sub-centres:
//! - [`exchange`] for elements apart: the kernel between two sub-centres is that of a point and a
//!   disc (Wallace, Elmquist, Haines 1989), clipped at 0. It is symmetric. Its error with 2 x 2
//!   sub-centres on unit squares: +1.6 % parallel at distance 1, -4.4 % perpendicular with a common
//!   edge, where it falls like 1/n only.
//! - [`exchange_near`] for elements close by: from each sub-centre of the smaller end to the whole
//!   other end by Lambert's contour formula. Rows that tile a hemisphere then sum to 1.
//!
//! Either gives one number for both directions, so reciprocity `A_i F_ij = A_j F_ji` is exact.
//!
//! [`between_quads`] is the reference: the contour formula integrated by the tanh-sinh rule. All
//! stated digits: 0.199825 and 0.200044.

use super::geometry::{Quad, Vec3, vector_area};
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

/// Fills a list of the caller with the sub-centres of a quad, `n` by `n`.
pub fn sub_centres(quad: &Quad, normal: Vec3, area: f64, n: usize, samples: &mut Vec<Sample>) {
    let share = area / (n * n) as f64;
    let place = |index: usize| (index as f64 + 0.5) / n as f64;
    samples.clear();
    for row in 0..n {
        for column in 0..n {
            let point = quad.at(place(column), place(row));
            samples.push(Sample { point, normal, area: share });
        }
    }
}

/// Two by two samples at the nodes of Gauss's rule: their mean is right for cubic functions.
fn gauss_samples(quad: &Quad) -> [Sample; 4] {
    const NODE: f64 = 0.211_324_865_405_187_13; // (1 - 1 / sqrt 3) / 2
    let (normal, area) = (quad.normal(), quad.area() / 4.0);
    [(NODE, NODE), (1.0 - NODE, NODE), (NODE, 1.0 - NODE), (1.0 - NODE, 1.0 - NODE)]
        .map(|(u, v)| Sample { point: quad.at(u, v), normal, area })
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

/// Elements whose centres are closer than this many times the longer diagonal are near.
const NEAR: f64 = 2.0;
/// Ends whose areas differ by less than this factor are both sampled.
const ALIKE: f64 = 2.0;

/// Whether the disc kernel is too coarse between two quads.
pub fn are_near(a: &Quad, b: &Quad) -> bool {
    let squared = |way: Vec3| way.dot(way);
    let diagonal = |quad: &Quad| {
        let [a, b, c, d] = quad.corners;
        squared(c - a).max(squared(d - b))
    };
    let apart = squared(a.at(0.5, 0.5) - b.at(0.5, 0.5));
    apart < NEAR * NEAR * diagonal(a).max(diagonal(b))
}

/// The exchange of near quads: averages the contour formula over places of the smaller end; over
/// those of both where their sizes are alike.
pub fn exchange_near(a: &Quad, b: &Quad) -> Exchange {
    let (area_a, area_b) = (a.area(), b.area());
    if area_a * ALIKE <= area_b {
        from_places_of(a, b)
    } else if area_b * ALIKE <= area_a {
        from_places_of(b, a)
    } else {
        let (one, two) = (from_places_of(a, b), from_places_of(b, a));
        let error = one.area_error.max(two.area_error).max((one.area - two.area).abs() / 2.0);
        Exchange { area: (one.area + two.area) / 2.0, area_error: error }
    }
}

fn from_places_of(from: &Quad, to: &Quad) -> Exchange {
    let samples = gauss_samples(from);
    let (mut sum, mut least, mut most) = (0.0, f64::INFINITY, 0.0f64);
    for sample in &samples {
        let share = sample.area * from_point_clipped(sample, to);
        sum += share;
        least = least.min(share);
        most = most.max(share);
    }
    let count = samples.len() as f64;
    Exchange { area: sum, area_error: (most * count - sum).max(sum - least * count) }
}

/// [`from_point`] to the part of the quad that lies in front of the sample, and 0 when the sample
/// is behind the quad.
fn from_point_clipped(sample: &Sample, to: &Quad) -> f64 {
    let behind = (sample.point - to.corners[0]).dot(vector_area(&to.corners)) <= 0.0;
    if behind {
        return 0.0;
    }
    let height = to.corners.map(|corner| (corner - sample.point).dot(sample.normal));
    if height.iter().all(|&height| height >= 0.0) {
        return from_point(sample.point, sample.normal, &to.corners);
    }
    let (mut front, mut count) = ([Vec3::default(); 8], 0);
    let mut keep = |corner| {
        front[count] = corner;
        count += 1;
    };
    for index in 0..4 {
        let next = (index + 1) % 4;
        if height[index] >= 0.0 {
            keep(to.corners[index]);
        }
        if (height[index] >= 0.0) != (height[next] >= 0.0) {
            let share = height[index] / (height[index] - height[next]);
            keep(to.corners[index] + (to.corners[next] - to.corners[index]) * share);
        }
    }
    if count < 3 { 0.0 } else { from_point(sample.point, sample.normal, &front[..count]) }
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
