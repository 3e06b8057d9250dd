//! Scene files: TOML, read into a checked [`Scene`].
//!
//! ```toml
//! name = "a lamp over a floor"
//! closed = false                    # true: no light can leave, and the energy check demands it
//!
//! [camera]
//! eye = [0.5, 0.5, 3.0]
//! look_at = [0.5, 0.5, 0.0]
//! up = [0.0, 1.0, 0.0]              # optional
//! opening_deg = 40.0                # vertical; optional
//! aspect = 1.0                      # width over height; optional
//!
//! [material.paint]
//! reflectance = [0.7, 0.6, 0.5]     # 0 to below 1
//!
//! [material.lamp]
//! emission = [10.0, 10.0, 10.0]     # power per area; optional
//!
//! [[polygon]]                       # convex, planar, three or more vertices,
//! material = "paint"                # counter-clockwise seen from its front
//! surface = "floor"                 # optional: touching polygons of one surface shade smoothly
//! vertices = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
//!
//! [[polygon]]
//! material = "lamp"
//! vertices = [[0, 1, 1], [1, 1, 1], [1, 0, 1], [0, 0, 1]]
//! ```

use super::colour::Rgb;
use super::geometry::Vec3;
use super::scene::{Camera, Material, Polygon, Scene, SceneError, title};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use thiserror::Error;

/// Why a scene file could not be used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SceneFileError {
    #[error("cannot read the scene file {path}: {reason}")]
    Read { path: String, reason: std::io::Error },
    #[error("{path} is not a scene file: {reason}")]
    Syntax { path: String, reason: Box<toml::de::Error> },
    #[error("the scene {path} cannot be solved: {reason}")]
    Scene { path: String, reason: SceneError },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    #[serde(default)]
    closed: bool,
    camera: CameraEntry,
    #[serde(default)]
    material: BTreeMap<String, MaterialEntry>,
    #[serde(default)]
    polygon: Vec<PolygonEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CameraEntry {
    eye: [f64; 3],
    look_at: [f64; 3],
    #[serde(default = "upwards")]
    up: [f64; 3],
    #[serde(default = "usual_opening")]
    opening_deg: f64,
    #[serde(default = "square")]
    aspect: f64,
}

fn upwards() -> [f64; 3] {
    [0.0, 1.0, 0.0]
}

fn usual_opening() -> f64 {
    40.0
}

fn square() -> f64 {
    1.0
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MaterialEntry {
    #[serde(default)]
    reflectance: [f64; 3],
    #[serde(default)]
    emission: [f64; 3],
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolygonEntry {
    material: String,
    surface: Option<String>,
    vertices: Vec<[f64; 3]>,
}

/// Reads and checks a scene file.
///
/// # Errors
/// The file cannot be read, is no TOML of this form, or describes a scene that cannot be solved.
pub fn read(path: &Path) -> Result<Scene, SceneFileError> {
    let shown = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, &shown),
        Err(reason) => Err(SceneFileError::Read { path: shown, reason }),
    }
}

/// Checks the text of a scene file; `shown` names it in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str, shown: &str) -> Result<Scene, SceneFileError> {
    let file: File = toml::from_str(text).map_err(|reason| SceneFileError::Syntax {
        path: shown.to_owned(),
        reason: Box::new(reason),
    })?;
    scene(file, shown).map_err(|reason| SceneFileError::Scene { path: shown.to_owned(), reason })
}

fn scene(file: File, shown: &str) -> Result<Scene, SceneError> {
    let names: Vec<String> = file.material.keys().cloned().collect();
    let materials = file
        .material
        .into_iter()
        .map(|(name, entry)| Material {
            name,
            reflectance: Rgb(entry.reflectance),
            emission: Rgb(entry.emission),
        })
        .collect();
    let polygons = file
        .polygon
        .into_iter()
        .enumerate()
        .map(|(index, entry)| polygon(index, entry, &names))
        .collect::<Result<_, _>>()?;
    let camera = Camera {
        eye: file.camera.eye.into(),
        look_at: file.camera.look_at.into(),
        up: file.camera.up.into(),
        opening_deg: file.camera.opening_deg,
        aspect: file.camera.aspect,
    };
    Scene::new(file.name.as_deref().unwrap_or(shown), file.closed, camera, materials, polygons)
}

fn polygon(index: usize, entry: PolygonEntry, names: &[String]) -> Result<Polygon, SceneError> {
    let surface = entry.surface.unwrap_or_else(|| format!("polygon {}", index + 1));
    let vertices = entry.vertices.into_iter().map(Vec3::from).collect();
    let polygon = Polygon { surface, material: 0, vertices };
    match names.binary_search(&entry.material) {
        Ok(material) => Ok(Polygon { material, ..polygon }),
        Err(_) => Err(SceneError::UnknownMaterial {
            polygon: title(index, &polygon),
            material: entry.material,
        }),
    }
}

#[cfg(test)]
mod tests;
