//! Scene files, read into a checked [`Scene`]: TOML, or OBJ by its ending ([`obj`]). What is wrong is told with its line.
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

mod obj;

use super::colour::Rgb;
use super::geometry::Vec3;
use super::scene::{Camera, Material, Polygon, PolygonError, Scene, SceneError};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use thiserror::Error;
use toml::Spanned;

/// Why a scene file could not be used.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SceneFileError {
    #[error("cannot read the scene file {path}: {reason}")]
    Read { path: String, reason: std::io::Error },
    #[error("{path} is not a scene file: {reason}")]
    Syntax { path: String, reason: Box<toml::de::Error> },
    #[error("{path}, line {line}, is not as in an OBJ file: {reason}; {way_out}")]
    Obj { path: String, line: usize, reason: tobj::LoadError, way_out: &'static str },
    #[error(
        "{path}, line {line}: the material file {file} cannot be read: {reason}; put it beside the OBJ file"
    )]
    Materials { path: String, line: usize, file: String, reason: std::io::Error },
    #[error(
        "{path}, line {line}: `{word}` belongs to no material; write `newmtl NAME` before it, or remove the line"
    )]
    BeforeNewmtl { path: String, line: usize, word: String },
    #[error("the scene {obj} cannot be solved: {path}, line {line}: {reason}")]
    Material { obj: String, path: String, line: usize, reason: SceneError },
    #[error("the scene {path} cannot be solved{}: {reason}", at_line(*line))]
    Scene { path: String, line: Option<usize>, reason: SceneError },
}

fn at_line(line: Option<usize>) -> String {
    line.map(|line| format!(", line {line}")).unwrap_or_default()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    #[serde(default)]
    closed: bool,
    camera: Spanned<CameraEntry>,
    #[serde(default)]
    material: BTreeMap<String, Spanned<MaterialEntry>>,
    #[serde(default)]
    polygon: Vec<Spanned<PolygonEntry>>,
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
    material: Spanned<String>,
    surface: Option<String>,
    vertices: Vec<Spanned<[f64; 3]>>,
}

/// Reads and checks a scene file.
///
/// # Errors
/// The file cannot be read, is neither TOML of this form nor OBJ, or describes a scene that cannot be solved.
pub fn read(path: &Path) -> Result<Scene, SceneFileError> {
    let shown = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(reason) => return Err(SceneFileError::Read { path: shown, reason }),
    };
    if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("obj")) {
        let folder = path.parent().unwrap_or(Path::new(""));
        return obj::parse(&text, &shown, &|file| std::fs::read_to_string(folder.join(file)));
    }
    parse(&text, &shown)
}

/// Checks the text of a TOML scene file; `shown` names it in errors.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &str, shown: &str) -> Result<Scene, SceneFileError> {
    let file: File = toml::from_str(text).map_err(|reason| SceneFileError::Syntax {
        path: shown.to_owned(),
        reason: Box::new(reason),
    })?;
    scene(&file, shown).map_err(|reason| SceneFileError::Scene {
        path: shown.to_owned(),
        line: file.place(&reason).map(|at| text[..at].matches('\n').count() + 1),
        reason,
    })
}

impl File {
    /// Where in the text the culprit of an error begins.
    fn place(&self, error: &SceneError) -> Option<usize> {
        let span = match error {
            SceneError::Camera(_) => self.camera.span(),
            SceneError::Reflectance { material, .. } | SceneError::Emission { material, .. } => {
                self.material.get(material)?.span()
            }
            SceneError::Polygon { index, reason, .. } => {
                let polygon = self.polygon.get(*index)?;
                let entry = polygon.get_ref();
                match (reason, reason.vertex()) {
                    (PolygonError::UnknownMaterial(_), _) => entry.material.span(),
                    (_, Some(vertex)) => entry.vertices.get(vertex - 1)?.span(),
                    _ => polygon.span(),
                }
            }
            SceneError::Empty | SceneError::TooMany(_) | SceneError::Dark(_) => return None,
        };
        Some(span.start)
    }
}

fn scene(file: &File, shown: &str) -> Result<Scene, SceneError> {
    let names: Vec<&String> = file.material.keys().collect();
    let materials = file.material.iter().map(|(name, entry)| Material {
        name: name.clone(),
        reflectance: Rgb(entry.get_ref().reflectance),
        emission: Rgb(entry.get_ref().emission),
    });
    let materials = materials.collect();
    let polygons = file.polygon.iter().enumerate();
    let polygons = polygons
        .map(|(index, entry)| polygon(index, entry.get_ref(), &names))
        .collect::<Result<_, _>>()?;
    let entry = file.camera.get_ref();
    let camera = Camera {
        eye: entry.eye.into(),
        look_at: entry.look_at.into(),
        up: entry.up.into(),
        opening_deg: entry.opening_deg,
        aspect: entry.aspect,
    };
    Scene::new(file.name.as_deref().unwrap_or(shown), file.closed, camera, materials, polygons)
}

fn polygon(index: usize, entry: &PolygonEntry, names: &[&String]) -> Result<Polygon, SceneError> {
    let surface = entry.surface.clone().unwrap_or_else(|| format!("polygon {}", index + 1));
    let vertices = entry.vertices.iter().map(|vertex| Vec3::from(*vertex.get_ref())).collect();
    let wanted = entry.material.get_ref();
    match names.binary_search(&wanted) {
        Ok(material) => Ok(Polygon { surface, material, vertices }),
        Err(_) => Err(PolygonError::UnknownMaterial(wanted.clone()).of(index, &surface)),
    }
}

#[cfg(test)]
mod tests;
