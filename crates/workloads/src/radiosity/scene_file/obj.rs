//! Scenes from OBJ files and their MTL files, which many programs write.
//!
//! ```text
//!   v, f          polygons, seen from the side on which their vertices turn counter-clockwise
//!   o, g          surfaces: polygons of one name that lie in one plane and touch are shaded smoothly
//!   usemtl        a material of the file that `mtllib` names
//!   Kd  0.7 0.6 0.5    reflectance, below 1        Ke  10 10 10    emission
//! ```
//!
//! Everything else (normals, textures, gloss) is read and not used. The file knows no camera: it stands before the scene, above
//! its middle, and sees into a closed one, for backs are passed.
//!
//! Every error names a file and the line to look at: of a material, the line of its MTL file; where no line is wrong (nothing
//! shines), the line to begin with ([`line_of`]).
//!
//! The parser is `tobj`. It does not tell where a mistake is: [`Counted`] counts the lines that it was given until then. It gets only
//! the lines and words that count ([`used`]): of the others some would be taken for faces, and some end in a panic.

use super::SceneFileError;
use crate::radiosity::colour::Rgb;
use crate::radiosity::geometry::{Vec3, vector_area};
use crate::radiosity::scene::{
    Camera, MAX_POLYGONS, Material, Polygon, PolygonError, Scene, SceneError,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, BufRead, Read};
use std::path::Path;
use tobj::{LoadError, LoadOptions};

const OPTIONS: LoadOptions = LoadOptions {
    single_index: false,
    triangulate: false,
    ignore_points: true,
    ignore_lines: true,
};

/// A text that tells how many of its lines were read.
struct Counted<'a> {
    rest: &'a [u8],
    lines: usize,
}

impl Read for Counted<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.rest.read(to)?;
        self.lines += to[..count].iter().filter(|&&byte| byte == b'\n').count();
        Ok(count)
    }
}

impl BufRead for Counted<'_> {
    /// A line at most, so that what is asked for ahead of need is not counted.
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let end = self.rest.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        Ok(&self.rest[..end.unwrap_or(self.rest.len())])
    }

    fn consume(&mut self, count: usize) {
        let (read, rest) = self.rest.split_at(count);
        self.rest = rest;
        self.lines += usize::from(read.ends_with(b"\n"));
    }
}

/// Where a material stands: its file, and the lines of its last `Kd` and `Ke`; its `newmtl` where it has none.
#[derive(Clone)]
struct Place {
    path: String,
    reflectance: usize,
    emission: usize,
}

/// The materials of an MTL file in its order, as `tobj` gives them.
///
/// # Errors
/// A colour that stands before the first of them: `tobj` would pass over it.
fn places(lines: &str, path: &str) -> Result<Vec<Place>, SceneFileError> {
    let mut places: Vec<Place> = Vec::new();
    for (line, text) in (1..).zip(lines.lines()) {
        match (text.split_whitespace().next(), places.last_mut()) {
            (Some("newmtl"), _) => {
                places.push(Place { path: path.to_owned(), reflectance: line, emission: line });
            }
            (Some("Kd"), Some(place)) => place.reflectance = line,
            (Some("Ke"), Some(place)) => place.emission = line,
            (Some(word @ ("Kd" | "Ke")), None) => {
                let (path, word) = (path.to_owned(), word.to_owned());
                return Err(SceneFileError::BeforeNewmtl { path, line, word });
            }
            _ => {}
        }
    }
    Ok(places)
}

/// The text with what counts in it, and other lines empty: of vertices three coordinates, of faces the vertices alone.
fn used(text: &str) -> String {
    let mut used = String::with_capacity(text.len());
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["v", ..] => used += &words[..words.len().min(4)].join(" "),
            ["f", _, _, _, ..] => {
                let vertices = words.iter().map(|word| word.split('/').next().unwrap_or(word));
                used += &vertices.collect::<Vec<_>>().join(" ");
            }
            // With fewer than three words `tobj` would panic, or pass over them: a word that is no number is an error.
            ["f", ..] => used += "f -",
            ["Kd" | "Ke", _, _, _, ..] => used += line.trim(),
            ["Kd" | "Ke", ..] => used += "Kd -",
            ["o" | "g" | "mtllib" | "usemtl" | "newmtl", ..] => used += line.trim(),
            _ => {}
        }
        used += "\n";
    }
    used
}

/// Checks the text of an OBJ file; `shown` names it in errors, `open` reads the files that it names.
pub(super) fn parse(
    text: &str,
    shown: &str,
    open: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Scene, SceneFileError> {
    let lines = used(text);
    let mut reader = Counted { rest: lines.as_bytes(), lines: 0 };
    // What went wrong in a material file: `tobj` would go on without it, or forget where it was.
    let failed = RefCell::new(None);
    // Of all material files, in the order in which `tobj` gives their materials.
    let found = RefCell::new(Vec::new());
    let loaded = tobj::load_obj_buf(&mut reader, &OPTIONS, |file| {
        let read = materials(file, shown, text, open);
        let read = read.map(|(places, read)| {
            found.borrow_mut().extend(places);
            read
        });
        read.map_err(|error| {
            failed.borrow_mut().get_or_insert(error);
            LoadError::OpenFileFailed
        })
    });
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    let (path, line) = (shown.to_owned(), reader.lines);
    match loaded {
        Ok((models, known)) => {
            let scene = scene(&models, &known.unwrap_or_default(), shown);
            scene.map_err(|reason| error_of(reason, text, shown, &found.into_inner()))
        }
        Err(reason) => Err(SceneFileError::Obj { path, line, reason, way_out: way_out(reason) }),
    }
}

fn way_out(reason: LoadError) -> &'static str {
    match reason {
        LoadError::FaceVertexOutOfBounds
        | LoadError::FaceTexCoordOutOfBounds
        | LoadError::FaceNormalOutOfBounds
        | LoadError::FaceColorOutOfBounds => {
            "a face of the object that ends here names what the file does not have: correct its numbers"
        }
        _ => "correct the line, or write the file anew with the program that made it",
    }
}

/// Materials as `tobj` reads them: in the file's order, and by name.
type Materials = (Vec<tobj::Material>, HashMap<String, usize>);

fn materials(
    file: &Path,
    shown: &str,
    text: &str,
    open: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<(Vec<Place>, Materials), SceneFileError> {
    let name = file.display().to_string();
    let text = open(file).map_err(|reason| {
        let line = 1 + text
            .lines()
            .position(|line| is_word(line, "mtllib") && line.contains(&name))
            .unwrap_or(0);
        SceneFileError::Materials { path: shown.to_owned(), line, file: name.clone(), reason }
    })?;
    let lines = used(&text);
    // Before `places`: what is no number is told with its line, wherever it stands.
    let mut reader = Counted { rest: lines.as_bytes(), lines: 0 };
    let read = tobj::load_mtl_buf(&mut reader).map_err(|reason| SceneFileError::Obj {
        path: name.clone(),
        line: reader.lines,
        reason,
        way_out: way_out(reason),
    })?;
    Ok((places(&lines, &name)?, read))
}

fn scene(
    models: &[tobj::Model],
    known: &[tobj::Material],
    shown: &str,
) -> Result<Scene, SceneError> {
    let materials: Vec<Material> = known
        .iter()
        .map(|one| Material {
            name: one.name.clone(),
            reflectance: Rgb(one.diffuse.unwrap_or_default()),
            emission: Rgb(one.emissive.unwrap_or_default()),
        })
        .collect();
    let mut polygons = Vec::new();
    for model in models {
        add_polygons(model, &mut polygons)?;
    }
    if polygons.is_empty() {
        return Err(SceneError::Empty);
    }
    let camera = camera_before(&polygons);
    match Scene::new(shown, false, camera, materials, polygons) {
        Err(SceneError::Dark(_)) => {
            Err(SceneError::Dark("emission (a line `Ke 10 10 10` in its MTL file)"))
        }
        scene => scene,
    }
}

fn add_polygons(model: &tobj::Model, polygons: &mut Vec<Polygon>) -> Result<(), SceneError> {
    let mesh = &model.mesh;
    let corner = |&index: &u32| {
        let at = 3 * index as usize;
        Vec3::new(mesh.positions[at], mesh.positions[at + 1], mesh.positions[at + 2])
    };
    // Without arities all faces are triangles.
    let faces = mesh.indices.len() / 3;
    let arities = if mesh.face_arities.is_empty() { &vec![3; faces] } else { &mesh.face_arities };
    let mut rest = mesh.indices.as_slice();
    for &arity in arities {
        let (face, others) = rest.split_at(arity as usize);
        rest = others;
        let vertices: Vec<Vec3> = face.iter().map(corner).collect();
        let material = mesh
            .material_id
            .ok_or_else(|| PolygonError::NoMaterial.of(polygons.len(), &model.name))?;
        polygons.push(Polygon { surface: surface(&model.name, &vertices), material, vertices });
    }
    Ok(())
}

/// The polygons of an object that lie in one plane are one surface.
fn surface(name: &str, vertices: &[Vec3]) -> String {
    let normal = vector_area(vertices).unit();
    let place = vertices.first().map_or(0.0, |&vertex| vertex.dot(normal));
    let [x, y, z] = normal.to_array();
    format!("{name} facing {x:.3} {y:.3} {z:.3} at {place:.3}")
}

/// A camera before the scene (on its side of larger z), a little above and aside, that sees all of it; y is up.
fn camera_before(polygons: &[Polygon]) -> Camera {
    let vertices = || polygons.iter().flat_map(|polygon| &polygon.vertices);
    let first = vertices().next().copied().unwrap_or_default();
    let low = vertices().fold(first, |low, &vertex| low.min(vertex));
    let high = vertices().fold(first, |high, &vertex| high.max(vertex));
    let (middle, radius) = (low.middle(high), (high - low).length().max(f64::MIN_POSITIVE) / 2.0);
    let opening_deg: f64 = 40.0;
    let away = radius / (opening_deg / 2.0).to_radians().sin();
    Camera {
        eye: middle + Vec3::new(0.25, 0.2, 1.0).unit() * away,
        look_at: middle,
        up: Vec3::new(0.0, 1.0, 0.0),
        opening_deg,
        aspect: 1.0,
    }
}

/// The error with the line of the culprit, which of a material is in its own file.
fn error_of(reason: SceneError, text: &str, shown: &str, places: &[Place]) -> SceneFileError {
    let line_of_material = |of: &SceneError| match of {
        SceneError::Reflectance { index, .. } => {
            places.get(*index).map(|place| (place.path.clone(), place.reflectance))
        }
        SceneError::Emission { index, .. } => {
            places.get(*index).map(|place| (place.path.clone(), place.emission))
        }
        _ => None,
    };
    let obj = shown.to_owned();
    match line_of_material(&reason) {
        Some((path, line)) => SceneFileError::Material { obj, path, line, reason },
        None => SceneFileError::Scene { path: obj, line: line_of(&reason, text), reason },
    }
}

fn is_word(line: &str, word: &str) -> bool {
    line.split_whitespace().next() == Some(word)
}

/// The line of the OBJ file that is the culprit. Polygons stand in the file's order. A camera that cannot see comes of the
/// vertex that is farthest away; a scene without light, of the materials that it names; one without a polygon ends too early.
fn line_of(error: &SceneError, text: &str) -> Option<usize> {
    let lines =
        |word: &'static str| (1..).zip(text.lines()).filter(move |(_, line)| is_word(line, word));
    let line: Option<(usize, &str)> = match error {
        SceneError::Polygon { index, .. } => lines("f").nth(*index),
        SceneError::TooMany(_) => lines("f").nth(MAX_POLYGONS),
        SceneError::Camera(_) => {
            lines("v").max_by(|(_, a), (_, b)| farthest(a).total_cmp(&farthest(b)))
        }
        SceneError::Dark(_) => lines("mtllib").next(),
        SceneError::Empty => (1..).zip(text.lines()).last(),
        SceneError::Reflectance { .. } | SceneError::Emission { .. } => None,
    };
    line.map(|(line, _)| line)
}

/// The largest coordinate of a vertex's line, whatever its sign.
fn farthest(line: &str) -> f64 {
    let coordinates = line.split_whitespace().skip(1).take(3);
    coordinates.filter_map(|word| word.parse::<f64>().ok()).map(f64::abs).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
