//! A furnished room of exactly 534 polygons: the size of the scene behind Figure 1 of Cavin and
//! Alonso (534 initial surfaces, 20 iterations, 5,478 final meshes). Their room is not public;
//! this one is made up.

use super::furniture::{Faces, Furnisher, Place};
use crate::radiosity::colour::Rgb;
use crate::radiosity::geometry::Vec3;
use crate::radiosity::scene::{Camera, Material, Scene};

const WIDTH: f64 = 6.4;
const HEIGHT: f64 = 2.8;
const DEPTH: f64 = 5.0;

const DARK: [f64; 3] = [0.0; 3];
const MATERIALS: [(&str, [f64; 3], [f64; 3]); 15] = [
    ("wall", [0.78, 0.74, 0.66], DARK),
    ("ceiling", [0.82, 0.82, 0.80], DARK),
    ("parquet", [0.46, 0.29, 0.16], DARK),
    ("garden", [0.10, 0.10, 0.10], [0.5, 0.7, 0.35]),
    ("sky", [0.10, 0.10, 0.10], [6.0, 7.5, 10.0]),
    ("panel", [0.50, 0.50, 0.50], [24.0, 20.5, 15.5]),
    ("shade", [0.60, 0.50, 0.40], [7.0, 4.2, 1.9]),
    ("oak", [0.58, 0.41, 0.25], DARK),
    ("steel", [0.30, 0.31, 0.33], DARK),
    ("coral", [0.72, 0.23, 0.15], DARK),
    ("teal", [0.08, 0.40, 0.42], DARK),
    ("mustard", [0.72, 0.50, 0.10], DARK),
    ("ink", [0.10, 0.14, 0.34], DARK),
    ("linen", [0.70, 0.66, 0.58], DARK),
    ("accent", [0.20, 0.42, 0.47], DARK),
];

fn material(name: &str) -> usize {
    MATERIALS.iter().position(|(known, ..)| *known == name).expect("a material of this file")
}

/// The room.
///
/// # Panics
/// Never: it has no input.
pub fn room() -> Scene {
    let mut furnisher = Furnisher::default();
    shell(&mut furnisher); //          38
    dining(&mut furnisher); //         5 + 22 + 224
    bookcase(&mut furnisher); //       45 + 30 * 5
    pictures(&mut furnisher); //       15
    lamp(&mut furnisher); //           15
    sideboard(&mut furnisher); //      20
    let materials = MATERIALS
        .iter()
        .map(|&(name, reflectance, emission)| Material {
            name: name.to_owned(),
            reflectance: Rgb(reflectance),
            emission: Rgb(emission),
        })
        .collect();
    let camera = Camera {
        eye: Vec3::new(5.95, 1.72, 0.35),
        look_at: Vec3::new(2.45, 0.90, 3.1),
        up: Vec3::new(0.0, 1.0, 0.0),
        opening_deg: 58.0,
        aspect: 1.5,
    };
    Scene::new("room", true, camera, materials, furnisher.polygons).expect("a room is a scene")
}

/// Cuts a wall at the given shares of its width and height; `choose` names each cell's material.
fn grid(
    furnisher: &mut Furnisher,
    surface: &str,
    corners: [[f64; 3]; 4],
    cuts: (&[f64], &[f64]),
    choose: impl Fn(usize, usize) -> &'static str,
) {
    let quad = crate::radiosity::geometry::Quad { corners: corners.map(Vec3::from) };
    for (row, v) in cuts.1.windows(2).enumerate() {
        for (column, u) in cuts.0.windows(2).enumerate() {
            let cell = [
                quad.at(u[0], v[0]),
                quad.at(u[1], v[0]),
                quad.at(u[1], v[1]),
                quad.at(u[0], v[1]),
            ];
            let name = choose(row, column);
            furnisher.quad_of(&format!("{surface} {name}"), material(name), cell);
        }
    }
}

/// Floor, ceiling with a flush lamp, four walls, one with a window of four panes: 38 polygons.
fn shell(furnisher: &mut Furnisher) {
    let (w, h, d) = (WIDTH, HEIGHT, DEPTH);
    let whole: &[f64] = &[0.0, 1.0];
    let floor = [[0.0, 0.0, 0.0], [0.0, 0.0, d], [w, 0.0, d], [w, 0.0, 0.0]];
    grid(furnisher, "floor", floor, (whole, whole), |_, _| "parquet");
    let ceiling = [[0.0, h, 0.0], [w, h, 0.0], [w, h, d], [0.0, h, d]];
    let cuts = (&[0.0, 0.38, 0.48, 1.0][..], &[0.0, 0.44, 0.55, 1.0][..]);
    grid(furnisher, "ceiling", ceiling, cuts, |row, column| match (row, column) {
        (1, 1) => "panel",
        _ => "ceiling",
    });
    let west = [[0.0, 0.0, 0.0], [0.0, h, 0.0], [0.0, h, d], [0.0, 0.0, d]];
    let cuts =
        (&[0.0, 0.34, 0.50, 0.515, 0.84, 1.0][..], &[0.0, 0.16, 0.3525, 0.3675, 0.56, 1.0][..]);
    grid(furnisher, "west", west, cuts, |row, column| match (row, column) {
        (1 | 3, 1) => "garden",
        (1 | 3, 3) => "sky",
        _ => "wall",
    });
    let north = [[0.0, 0.0, d], [0.0, h, d], [w, h, d], [w, 0.0, d]];
    grid(furnisher, "north", north, (whole, whole), |_, _| "accent");
    let east = [[w, 0.0, d], [w, h, d], [w, h, 0.0], [w, 0.0, 0.0]];
    grid(furnisher, "east", east, (whole, whole), |_, _| "wall");
    let south = [[w, 0.0, 0.0], [w, h, 0.0], [0.0, h, 0.0], [0.0, 0.0, 0.0]];
    grid(furnisher, "south", south, (whole, whole), |_, _| "wall");
}

/// A rug, a table and eight chairs: 251 polygons.
fn dining(furnisher: &mut Furnisher) {
    let middle = Place { x: 2.75, y: 0.0, z: 2.45, turn: 0.0 };
    let (low, high) = (Vec3::new(-1.7, 0.0, -1.3), Vec3::new(1.7, 0.012, 1.3));
    furnisher.cuboid(material("linen"), middle, low, high, Faces::Standing);
    furnisher.table(material("oak"), middle, 2.2, 0.95);
    let cushions = ["coral", "teal", "mustard", "coral", "teal", "mustard", "coral", "teal"];
    let mut chairs = cushions.iter();
    let mut chair = |dx: f64, dz: f64, turn: f64| {
        let place = Place { x: middle.x + dx, y: 0.012, z: middle.z + dz, turn };
        if let Some(cushion) = chairs.next() {
            furnisher.chair(material("steel"), material(cushion), place);
        }
    };
    use std::f64::consts::{FRAC_PI_2, PI};
    for (index, dx) in [-0.7, 0.0, 0.7].into_iter().enumerate() {
        let askew = 0.12 * (index as f64 - 1.0);
        chair(dx, -0.68, askew);
        chair(dx, 0.68, PI - askew);
    }
    chair(-1.35, 0.05, FRAC_PI_2 + 0.1);
    chair(1.38, -0.05, -FRAC_PI_2 + 0.25);
}

/// A full bookcase on the north wall: 195 polygons.
fn bookcase(furnisher: &mut Furnisher) {
    let place = Place { x: 1.35, y: 0.0, z: DEPTH - 0.002, turn: std::f64::consts::PI };
    let covers = ["coral", "ink", "linen", "teal", "mustard", "ink", "wall"].map(material);
    furnisher.bookcase(material("oak"), &covers, 30, place);
}

/// Three pictures on the north wall: 15 polygons.
fn pictures(furnisher: &mut Furnisher) {
    let names = ["mustard", "linen", "coral"];
    for (index, name) in names.into_iter().enumerate() {
        let place = Place { x: 2.95 + 0.72 * index as f64, y: 1.35, z: DEPTH, turn: 0.0 };
        let (low, high) = (Vec3::new(-0.27, 0.0, -0.04), Vec3::new(0.27, 0.72, -0.001));
        let before = furnisher.polygons.len();
        furnisher.cuboid(material(name), place, low, high, Faces::All);
        // The back touches the wall: nobody sees it.
        furnisher.polygons.remove(before + 1);
    }
}

/// A floor lamp in the far corner: 15 polygons.
fn lamp(furnisher: &mut Furnisher) {
    let place = Place { x: 5.75, y: 0.0, z: 4.4, turn: 0.4 };
    let mut part = |name: &str, half: f64, from: f64, to: f64, faces| {
        let (low, high) = (Vec3::new(-half, from, -half), Vec3::new(half, to, half));
        furnisher.cuboid(material(name), place, low, high, faces);
    };
    part("steel", 0.16, 0.0, 0.03, Faces::Standing);
    part("steel", 0.015, 0.03, 1.35, Faces::Sides);
    part("shade", 0.17, 1.35, 1.70, Faces::All);
}

/// A sideboard with three vases below the pictures: 20 polygons.
fn sideboard(furnisher: &mut Furnisher) {
    let place = Place { x: 3.67, y: 0.0, z: DEPTH - 0.24, turn: 0.0 };
    let (low, high) = (Vec3::new(-1.0, 0.0, -0.22), Vec3::new(1.0, 0.78, 0.22));
    furnisher.cuboid(material("linen"), place, low, high, Faces::Standing);
    for (x, half, height, name) in
        [(-0.72, 0.07, 0.34, "teal"), (-0.48, 0.055, 0.22, "coral"), (0.7, 0.1, 0.16, "ink")]
    {
        let place = Place { x: place.x + x, y: 0.78, turn: 0.5 + x, ..place };
        let (low, high) = (Vec3::new(-half, 0.0, -half), Vec3::new(half, height, half));
        furnisher.cuboid(material(name), place, low, high, Faces::Standing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radiosity::geometry::vector_area;

    #[test]
    fn it_has_the_published_number_of_surfaces() {
        assert_eq!(room().polygons.len(), 534);
    }

    #[test]
    fn its_shell_looks_inwards() {
        let scene = room();
        let middle = Vec3::new(WIDTH / 2.0, HEIGHT / 2.0, DEPTH / 2.0);
        for polygon in &scene.polygons[..38] {
            let inwards = vector_area(&polygon.vertices).dot(middle - polygon.vertices[0]);
            assert!(inwards > 0.0, "{} looks away", polygon.surface);
        }
    }
}
