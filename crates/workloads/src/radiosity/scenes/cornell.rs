//! The Cornell box, from its published measurements.
//!
//! `data/cornell_box.csv` holds the quads as measured (Cornell University Program of Computer
//! Graphics, "Cornell Box Data", millimetres). The same page gives reflectances and the lamp's
//! emission as spectra; the colours below are what these are in linear sRGB, with a flat spectrum as
//! white, and a test computes them again (`cornell/spectra.rs`). Two mends make it a closed
//! scene: the lamp's outline is cut out of the ceiling, in whose plane it lies, and a black wall
//! that the camera sees through closes the front.

use crate::radiosity::colour::Rgb;
use crate::radiosity::geometry::Vec3;
use crate::radiosity::scene::{Camera, Material, Polygon, Scene};

const MEASURED: &str = include_str!("../../../data/cornell_box.csv");
const MATERIALS: [(&str, [f64; 3], [f64; 3]); 5] = [
    ("white", [0.738, 0.736, 0.737], [0.0; 3]),
    ("red", [0.524, 0.057, 0.049], [0.0; 3]),
    ("green", [0.070, 0.388, 0.088], [0.0; 3]),
    ("light", [0.78, 0.78, 0.78], [18.45, 11.51, 3.155]),
    ("black", [0.0; 3], [0.0; 3]),
];

/// The Cornell box.
///
/// # Panics
/// Never: the data are part of the program and the tests read them.
pub fn cornell() -> Scene {
    let materials: Vec<Material> = MATERIALS
        .iter()
        .map(|&(name, reflectance, emission)| Material {
            name: name.to_owned(),
            reflectance: Rgb(reflectance),
            emission: Rgb(emission),
        })
        .collect();
    let measured: Vec<Polygon> =
        MEASURED.lines().filter(|line| !line.starts_with(['#', 'n'])).map(measured_quad).collect();
    let named = |name: &str| measured.iter().find(|polygon| polygon.surface == name);
    let mut polygons = vec![front()];
    for polygon in &measured {
        match (polygon.surface.as_str(), named("light")) {
            ("ceiling", Some(lamp)) => polygons.extend(around(polygon, lamp)),
            _ => polygons.push(polygon.clone()),
        }
    }
    let camera = Camera {
        eye: Vec3::new(278.0, 273.0, -800.0),
        look_at: Vec3::new(278.0, 273.0, 0.0),
        up: Vec3::new(0.0, 1.0, 0.0),
        opening_deg: 39.3077, // 25 mm of film at 35 mm
        aspect: 1.0,
    };
    Scene::new("Cornell box", true, camera, materials, polygons).expect("the data are a scene")
}

fn material(name: &str) -> usize {
    MATERIALS.iter().position(|(known, ..)| *known == name).expect("the data name known materials")
}

fn measured_quad(line: &str) -> Polygon {
    let mut fields = line.split(',');
    let mut next = || fields.next().expect("a quad has a name, a material and 12 numbers");
    let (surface, material) = (next().to_owned(), material(next()));
    let mut number = || next().parse().expect("coordinates are numbers");
    let vertices = (0..4).map(|_| Vec3::new(number(), number(), number())).collect();
    Polygon { surface, material, vertices }
}

/// The open front, black, looking inwards.
fn front() -> Polygon {
    let corner = |x, y| Vec3::new(x, y, 0.0);
    let vertices =
        vec![corner(0.0, 0.0), corner(552.8, 0.0), corner(556.0, 548.8), corner(0.0, 548.8)];
    Polygon { surface: "front".to_owned(), material: material("black"), vertices }
}

/// The ceiling without the lamp, as eight quads that share their edges.
fn around(ceiling: &Polygon, lamp: &Polygon) -> Vec<Polygon> {
    let (outer, inner) = (extent(ceiling), extent(lamp));
    let x = [outer.0.x, inner.0.x, inner.1.x, outer.1.x];
    let z = [outer.0.z, inner.0.z, inner.1.z, outer.1.z];
    let y = outer.0.y;
    let mut quads = Vec::new();
    for row in 0..3 {
        for column in 0..3 {
            if (row, column) != (1, 1) {
                let corner = |dx: usize, dz: usize| Vec3::new(x[column + dx], y, z[row + dz]);
                let vertices = vec![corner(0, 0), corner(1, 0), corner(1, 1), corner(0, 1)];
                quads.push(Polygon { vertices, ..ceiling.clone() });
            }
        }
    }
    quads
}

fn extent(polygon: &Polygon) -> (Vec3, Vec3) {
    let first = polygon.vertices[0];
    polygon.vertices.iter().fold((first, first), |(low, high), &v| (low.min(v), high.max(v)))
}

#[cfg(test)]
mod spectra;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::radiosity::geometry::vector_area;

    #[test]
    fn every_surface_looks_into_the_box() {
        let scene = cornell();
        assert_eq!(scene.polygons.len(), 16 + 7 + 1);
        let middle = Vec3::new(278.0, 274.0, 280.0);
        let shell = ["floor", "light", "ceiling", "back", "right", "left", "front"];
        for polygon in scene.polygons.iter().filter(|p| shell.contains(&p.surface.as_str())) {
            let inwards = vector_area(&polygon.vertices).dot(middle - polygon.vertices[0]);
            assert!(inwards > 0.0, "{} looks away", polygon.surface);
        }
    }

    #[test]
    fn the_lamp_fills_the_hole_in_the_ceiling() {
        let scene = cornell();
        let area = |name: &str| -> f64 {
            let named = scene.polygons.iter().filter(|polygon| polygon.surface == name);
            named.map(|polygon| vector_area(&polygon.vertices).length()).sum()
        };
        assert!((area("ceiling") + area("light") - 556.0 * 559.2).abs() < 1e-6);
    }
}
