//! The scenes that come with the program.

mod cornell;
mod furniture;
mod room;

use super::colour::Rgb;
use super::geometry::{Quad, Vec3};
use super::scene::{Camera, Material, Polygon, Scene};

pub use cornell::cornell;
pub use room::room;

/// The faces of the unit cube, looking inwards: floor, ceiling, then the walls x = 0, x = 1,
/// y = 0 and y = 1.
pub fn unit_cube() -> [Quad; 6] {
    let corner = |index: usize| {
        let bit = |shift: usize| f64::from((index >> shift & 1) as u8);
        Vec3::new(bit(0), bit(1), bit(2))
    };
    // Bit 0 of a corner's number is x, bit 1 is y, bit 2 is z.
    let face = |corners: [usize; 4]| Quad { corners: corners.map(corner) };
    [
        face([0, 1, 3, 2]),
        face([4, 6, 7, 5]),
        face([0, 2, 6, 4]),
        face([1, 5, 7, 3]),
        face([0, 4, 5, 1]),
        face([2, 3, 7, 6]),
    ]
}

/// The furnace: a closed cube whose every face reflects `reflectance` and emits `emission`. Its
/// exact solution is B = emission / (1 - reflectance) everywhere.
///
/// # Panics
/// If the reflectance is not in 0..1 or the emission is not positive and finite.
pub fn furnace(reflectance: f64, emission: f64) -> Scene {
    let material = Material {
        name: "glow".to_owned(),
        reflectance: Rgb::grey(reflectance),
        emission: Rgb::grey(emission),
    };
    let polygons = unit_cube()
        .into_iter()
        .enumerate()
        .map(|(index, quad)| Polygon {
            surface: format!("face {index}"),
            material: 0,
            vertices: quad.corners.to_vec(),
        })
        .collect();
    let camera = Camera {
        eye: Vec3::new(0.5, 0.5, 0.5),
        look_at: Vec3::new(1.0, 0.5, 0.5),
        up: Vec3::new(0.0, 0.0, 1.0),
        opening_deg: 60.0,
        aspect: 1.0,
    };
    Scene::new("furnace", true, camera, vec![material], polygons).expect("a furnace is a scene")
}
