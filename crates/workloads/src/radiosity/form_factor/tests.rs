//! The published form factors, by both estimators, with the digits each reaches.

use super::*;

/// A list of its own.
fn sub_centres_of(quad: &Quad, n: usize) -> Vec<Sample> {
    let mut samples = Vec::new();
    sub_centres(quad, quad.normal(), quad.area(), n, &mut samples);
    samples
}
use crate::radiosity::scenes::unit_cube;

const PARALLEL: f64 = 0.199825;
const PERPENDICULAR: f64 = 0.200044;

/// The faces of the unit cube, looking inwards: floor, ceiling, then the four walls.
fn faces() -> [Quad; 6] {
    unit_cube()
}

fn by_discs(from: &Quad, to: &Quad, n: usize) -> f64 {
    let samples = |quad: &Quad| sub_centres_of(quad, n);
    exchange(&samples(from), &samples(to), &mut Vec::new()).area / from.area()
}

#[test]
fn the_reference_reaches_all_stated_digits() {
    let [floor, ceiling, wall, ..] = faces();
    let parallel = between_quads(&floor, &ceiling, 24);
    let perpendicular = between_quads(&floor, &wall, 24);
    assert!((parallel - PARALLEL).abs() < 5e-7, "{parallel}");
    assert!((perpendicular - PERPENDICULAR).abs() < 5e-7, "{perpendicular}");
}

#[test]
fn the_reference_closes_the_cube() {
    let faces = faces();
    let sum: f64 = faces[1..].iter().map(|face| between_quads(&faces[0], face, 24)).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
}

#[test]
fn discs_converge_to_the_published_factors() {
    let [floor, ceiling, wall, ..] = faces();
    for (n, parallel, perpendicular) in [(2, 0.02, 0.05), (8, 0.002, 0.03), (32, 0.0003, 0.01)] {
        let parallel_error = by_discs(&floor, &ceiling, n) / PARALLEL - 1.0;
        let perpendicular_error = by_discs(&floor, &wall, n) / PERPENDICULAR - 1.0;
        println!("n {n}: parallel {parallel_error:+.5}, perpendicular {perpendicular_error:+.5}");
        assert!(parallel_error.abs() < parallel, "n {n}: {parallel_error}");
        assert!(perpendicular_error.abs() < perpendicular, "n {n}: {perpendicular_error}");
    }
}

/// A square as `n` by `n` elements.
fn elements(quad: &Quad, n: usize) -> Vec<Quad> {
    let at = |index: usize| index as f64 / n as f64;
    let cell = |row: usize, column: usize| {
        let corner = |du: usize, dv: usize| quad.at(at(column + du), at(row + dv));
        Quad { corners: [corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)] }
    };
    (0..n * n).map(|index| cell(index / n, index % n)).collect()
}

/// What the solver makes of two squares that are cut into `n` by `n` elements.
fn by_links(from: &Quad, to: &Quad, n: usize) -> f64 {
    let samples = |quad: &Quad| sub_centres_of(quad, 2);
    let mut sum = 0.0;
    for a in elements(from, n) {
        for b in elements(to, n) {
            sum += if are_near(&a, &b) {
                exchange_near(&a, &b).area
            } else {
                exchange(&samples(&a), &samples(&b), &mut Vec::new()).area
            };
        }
    }
    sum / from.area()
}

#[test]
fn links_converge_to_the_published_factors() {
    let [floor, ceiling, wall, ..] = faces();
    for (n, parallel, perpendicular) in LINK_ERRORS {
        let parallel_error = by_links(&floor, &ceiling, n) / PARALLEL - 1.0;
        let perpendicular_error = by_links(&floor, &wall, n) / PERPENDICULAR - 1.0;
        println!("n {n}: parallel {parallel_error:+.6}, perpendicular {perpendicular_error:+.6}");
        assert!(parallel_error.abs() < parallel, "n {n}: {parallel_error}");
        assert!(perpendicular_error.abs() < perpendicular, "n {n}: {perpendicular_error}");
    }
}

/// Cells per side, and the relative errors that parallel and perpendicular squares stay below. (Of
/// the last row's 7e-4 the discs between elements apart cause nearly all.)
const LINK_ERRORS: [(usize, f64, f64); 3] = [(1, 1e-2, 5e-3), (4, 1e-3, 1e-3), (16, 1e-4, 1e-3)];

/// A square seen from a place whose horizon cuts it: only the part above counts.
#[test]
fn what_lies_below_the_horizon_is_cut_off() {
    let [floor, _, wall, ..] = faces();
    let sample = |normal| Sample { point: Vec3::new(0.5, 0.5, 0.4), normal, area: 1.0 };
    let tilted = sample(Vec3::new(-0.6, 0.0, 0.8));
    let n = 400;
    let mut by_parts = 0.0;
    for part in elements(&wall, n) {
        let centre = Sample { point: part.at(0.5, 0.5), normal: wall.normal(), area: 0.0 };
        by_parts += kernel(&Sample { area: 0.0, ..tilted }, &centre) * part.area();
    }
    let clipped = from_point_clipped(&tilted, &wall);
    assert!(clipped > 0.05 && (clipped / by_parts - 1.0).abs() < 1e-4, "{clipped} {by_parts}");
    // Everything that a wall-mounted place sees of the floor, and nothing of it from below.
    assert_eq!(from_point_clipped(&sample(Vec3::new(0.0, 0.0, 1.0)), &floor), 0.0);
}

#[test]
fn the_exchange_is_reciprocal_to_the_last_bit() {
    let corner = |x, y| Vec3::new(x, y, 0.0);
    let small =
        Quad { corners: [corner(0.2, 0.2), corner(0.5, 0.2), corner(0.5, 0.4), corner(0.2, 0.4)] };
    let [_, ceiling, wall, ..] = faces();
    for other in [ceiling, wall] {
        let samples = |quad: &Quad| sub_centres_of(quad, 1);
        let one = exchange(&samples(&small), &samples(&other), &mut Vec::new());
        let two = exchange(&samples(&other), &samples(&small), &mut Vec::new());
        assert!(one.area > 0.0);
        assert_eq!(one.area.to_bits(), two.area.to_bits());
    }
}

#[test]
fn what_is_behind_receives_nothing() {
    let [floor, ceiling, ..] = faces();
    let mut turned = ceiling;
    turned.corners.reverse();
    assert_eq!(by_discs(&floor, &turned, 4), 0.0);
    assert_eq!(from_point(Vec3::new(0.5, 0.5, 0.0), floor.normal(), &turned.corners), 0.0);
}
