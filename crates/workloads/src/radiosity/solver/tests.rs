//! The physics of small solutions, and that threads do not change them.

use super::*;
use crate::radiosity::physics::furnace_distance;
use crate::radiosity::render::{Picture, Quality, render};
use crate::radiosity::{scenes, tone};

const COARSE: Settings = Settings {
    iterations: 4,
    epsilon: 2e-3,
    least_area: 2e-3,
    converged: 1e-6,
    closure: true,
    watch: Watch { every: 0, patches: 0, units: 0, stops: false },
    memory_limit: u64::MAX,
};

fn solved(scene: &Scene, settings: &Settings, threads: usize) -> Result<Solution, SolveError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pool.install(|| solve(scene, settings, &mut |_, _| {}, &AtomicBool::new(false)))
}

fn coarse_cornell(threads: usize) -> Solution {
    solved(&scenes::cornell(), &COARSE, threads).expect("no limit is set")
}

#[test]
fn the_furnace_glows_evenly() {
    for reflectance in [0.2, 0.8] {
        let distance = furnace_distance(reflectance, true);
        assert!(distance < 1e-6, "rho {reflectance}: {distance}");
    }
    // The mean row as estimated is 1 within a per cent, so B = e / (1 - rho) within one at rho = 0.5.
    let unscaled = furnace_distance(0.5, false);
    assert!(unscaled < 0.01, "{unscaled}");
}

#[test]
fn a_closed_box_absorbs_what_it_emits() {
    let settings = Settings { epsilon: 3e-4, least_area: 3e-4, ..COARSE };
    let scaled = solved(&scenes::cornell(), &settings, 2).expect("no limit is set").statistics;
    assert!(scaled.physics.passed(), "{scaled}");
    assert!((scaled.physics.absorbed / scaled.physics.emitted - 1.0).abs() < 1e-6, "{scaled}");
    let settings = Settings { closure: false, ..settings };
    let unscaled = solved(&scenes::cornell(), &settings, 2).expect("no limit is set").statistics;
    assert!(unscaled.physics.passed(), "{unscaled}");
    // What the rows make or lose is exactly what the balance misses: nothing else leaks.
    let missing = unscaled.physics.absorbed / unscaled.physics.emitted - 1.0;
    assert!((missing - unscaled.physics.unscaled_gain).abs() < 1e-6, "{unscaled}");
}

/// Reciprocity of the whole operator: light sent by x and received where y weighs it is light
/// sent by y and received where x weighs it, sum A y (G x) = sum A x (G y). (Not to the last bit:
/// the measured left wall is warped, so its children's areas do not quite add up to its own.)
#[test]
fn transport_is_reciprocal() {
    let hierarchy = coarse_cornell(1).hierarchy;
    let field = |element: &Element, salt: f64| {
        let place = element.quad().at(0.3, 0.6);
        1.0 + (place.x * 0.013 + salt).sin() * (place.y * 0.017 - salt).cos() + place.z / 600.0
    };
    let received = |sends: f64, weighs: f64| {
        push_pull(&hierarchy, |_, element, _| Rgb::grey(field(element, sends)));
        gather(&hierarchy);
        push_pull(&hierarchy, |_, element, gathered| gathered * field(element, weighs)).0[0]
    };
    let (there, back) = (received(1.0, 2.0), received(2.0, 1.0));
    assert!(there > 0.0 && (there / back - 1.0).abs() < 1e-8, "{there} against {back}");
}

#[test]
fn threads_do_not_change_the_answer() {
    let light = |solution: &Solution| {
        let mut list = Vec::new();
        solution.hierarchy.leaves(|_, leaf| list.push(leaf.light.radiosity.get()));
        list
    };
    let alone = coarse_cornell(1);
    for threads in [2, 5] {
        let together = coarse_cornell(threads);
        assert_eq!(alone.statistics.links, together.statistics.links);
        assert_eq!(alone.statistics.rays, together.statistics.rays);
        assert_eq!(light(&alone), light(&together), "{threads} threads"); // to the last bit
    }
}

#[test]
fn limits_end_with_an_error() {
    let settings = Settings { memory_limit: 100_000, ..COARSE };
    let error = solved(&scenes::cornell(), &settings, 2).err().expect("100 kB are too few");
    assert!(matches!(error, SolveError::Memory { limit_bytes: 100_000, .. }), "{error}");
    let stop = AtomicBool::new(true);
    let error = solve(&scenes::cornell(), &COARSE, &mut |_, _| {}, &stop).err();
    assert_eq!(error, Some(SolveError::Interrupted { iteration: 1 }));
}

/// A tiny Cornell box: the red wall is left, the green one right, each tinges what is near it,
/// the lamp has its colour, and the shadows are darker than the floor beside them.
#[test]
fn the_picture_shows_the_box() {
    let scene = scenes::cornell();
    let picture = render(&coarse_cornell(2), &scene.camera, 40, Quality::Final);
    assert_eq!((picture.width, picture.height), (40, 40));
    let bytes = tone::mapped(&picture);
    let mean = |columns: std::ops::Range<usize>, rows: std::ops::Range<usize>| {
        let count = (columns.len() * rows.len()) as f64;
        let mut sum = [0.0; 3];
        for (x, y) in rows.flat_map(|y| columns.clone().map(move |x| (x, y))) {
            for (channel, sum) in sum.iter_mut().enumerate() {
                *sum += f64::from(bytes[(y * 40 + x) * 3 + channel]) / count;
            }
        }
        sum
    };
    let (left, right) = (mean(1..4, 10..30), mean(36..39, 10..30));
    assert!(left[0] > 2.0 * left[1] && right[1] > 1.3 * right[0], "{left:?} {right:?}");
    let (near_red, near_green) = (mean(9..13, 8..14), mean(27..31, 8..14));
    let redness = |colour: [f64; 3]| colour[0] / colour[1];
    assert!(redness(near_red) > 1.03 * redness(near_green), "{near_red:?} {near_green:?}");
    let lamp = mean(18..22, 5..6);
    assert!(lamp[0] > 245.0 && lamp[1] < 240.0 && bytes.iter().all(|&byte| byte < 255), "{lamp:?}");
    let all = mean(0..40, 0..40);
    for (found, golden) in all.into_iter().zip(GOLDEN_MEAN) {
        assert!((found - golden).abs() < 1.0, "{all:?} against {GOLDEN_MEAN:?}");
    }
}

/// Final gathering sees the solution's own light: where the meshes' light is smooth, both shadings show the same.
#[test]
fn what_is_gathered_is_what_was_solved() {
    let (solution, camera) = (coarse_cornell(2), scenes::cornell().camera);
    let [gathered, smooth] =
        [Quality::Final, Quality::Smooth].map(|quality| render(&solution, &camera, 40, quality));
    let mean = |picture: &Picture, columns: std::ops::Range<usize>| {
        let pixels = columns.flat_map(|x| (10..30).map(move |y| y * 40 + x));
        pixels.fold(Rgb::BLACK, |sum, index| sum + picture.pixels[index])
    };
    for columns in [1..6, 8..32, 34..39] {
        let (found, expected) = (mean(&gathered, columns.clone()), mean(&smooth, columns));
        for (found, expected) in found.0.into_iter().zip(expected.0) {
            assert!((found / expected - 1.0).abs() < 0.05, "{found} of {expected}");
        }
    }
}

/// Mean of the 40 by 40 picture's bytes (red, green, blue), in the colours of the measured spectra.
const GOLDEN_MEAN: [f64; 3] = [146.6, 126.2, 80.8];
