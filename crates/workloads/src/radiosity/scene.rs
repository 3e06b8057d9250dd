//! A scene: convex polygons, what they reflect and emit, and where the camera stands.
//!
//! Invariant: a [`Scene`] made by [`Scene::new`] can be solved: every polygon is finite, planar,
//! convex and has an area, every surface reflects less than it receives, and something shines.

use super::colour::Rgb;
use super::geometry::{PLANAR_TOLERANCE, Quad, Vec3, vector_area};
use thiserror::Error;

/// Most polygons of a scene: element keys have 30 bits for patches.
pub const MAX_POLYGONS: usize = 1 << 24;

/// What a surface does with light.
#[derive(Clone, Debug, PartialEq)]
pub struct Material {
    /// Its name.
    pub name: String,
    /// Reflected share of the received light, 0 to below 1 in each channel.
    pub reflectance: Rgb,
    /// Emitted power per area.
    pub emission: Rgb,
}

/// A flat piece of a surface, seen from its front counter-clockwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Polygon {
    /// Polygons of one name that touch are shaded as one smooth surface.
    pub surface: String,
    /// Index into the scene's materials.
    pub material: usize,
    /// Its corners.
    pub vertices: Vec<Vec3>,
}

/// Where the picture is taken from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Camera {
    /// The eye.
    pub eye: Vec3,
    /// A point in the middle of the picture.
    pub look_at: Vec3,
    /// What is up.
    pub up: Vec3,
    /// Vertical opening in degrees.
    pub opening_deg: f64,
    /// Width over height.
    pub aspect: f64,
}

/// Everything the solver and the camera need.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// What it is called.
    pub name: String,
    /// Whether no light can leave: then the rows of form factors must sum to one.
    pub closed: bool,
    /// The camera.
    pub camera: Camera,
    /// All materials.
    pub materials: Vec<Material>,
    /// All polygons.
    pub polygons: Vec<Polygon>,
}

/// Why a scene cannot be solved; each names the culprit and the way out.
#[derive(Debug, Error, PartialEq)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SceneError {
    #[error("the scene has no polygon; add at least one")]
    Empty,
    #[error("the scene has {0} polygons; at most {MAX_POLYGONS} can be solved")]
    TooMany(usize),
    #[error("no polygon emits light; give the material of at least one polygon an {0}")]
    Dark(&'static str),
    #[error("polygon {title}{reason}")]
    Polygon { index: usize, title: String, reason: PolygonError },
    #[error(
        "material `{material}`: the reflectance must lie between 0 and below 1 (a surface cannot \
         reflect more than it receives)"
    )]
    Reflectance { index: usize, material: String },
    #[error("material `{material}`: the emission must be finite and not negative")]
    Emission { index: usize, material: String },
    #[error("the camera cannot see: {0}")]
    Camera(&'static str),
}

/// What is wrong with a polygon; vertices count from 1.
#[derive(Debug, Error, PartialEq)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PolygonError {
    #[error(" has {0} vertices; it needs at least 3")]
    TooFewVertices(usize),
    #[error(", vertex {vertex}: a coordinate is not a finite number")]
    NotFinite { vertex: usize },
    #[error(
        " has no area (its vertices coincide or lie on one line), or too large a one; remove it, or \
         move its vertices"
    )]
    NoArea,
    #[error(
        " is not planar: vertex {vertex} lies {share_percent:.2} % of the polygon's size off its \
         plane (allowed: {:.1} %); split it into triangles",
        PLANAR_TOLERANCE * 100.0
    )]
    NotPlanar { vertex: usize, share_percent: f64 },
    #[error(" is not convex at vertex {vertex}, or crosses itself; split it into convex parts")]
    NotConvex { vertex: usize },
    #[error(": vertex {vertex} lies where the one before it does; leave it out")]
    Repeated { vertex: usize },
    #[error(" uses material `{0}`, which the scene does not define")]
    UnknownMaterial(String),
    #[error(
        " has no material; write `usemtl NAME` before it, with a NAME that a file named by `mtllib` \
         defines"
    )]
    NoMaterial,
}

impl PolygonError {
    /// The vertex that it names.
    pub fn vertex(&self) -> Option<usize> {
        match self {
            PolygonError::NotFinite { vertex }
            | PolygonError::NotPlanar { vertex, .. }
            | PolygonError::NotConvex { vertex }
            | PolygonError::Repeated { vertex } => Some(*vertex),
            _ => None,
        }
    }

    /// The same as an error of the scene in which the polygon is the `index`-th.
    pub(super) fn of(self, index: usize, surface: &str) -> SceneError {
        SceneError::Polygon { index, title: title(index, surface), reason: self }
    }
}

impl Scene {
    /// Checks a scene.
    ///
    /// # Errors
    /// The first thing that makes it impossible to solve or to look at.
    ///
    /// # Panics
    /// If a polygon's material is none of `materials`.
    pub fn new(
        name: &str,
        closed: bool,
        camera: Camera,
        materials: Vec<Material>,
        polygons: Vec<Polygon>,
    ) -> Result<Scene, SceneError> {
        check_camera(&camera)?;
        materials.iter().enumerate().try_for_each(check_material)?;
        if polygons.is_empty() {
            return Err(SceneError::Empty);
        }
        if polygons.len() > MAX_POLYGONS {
            return Err(SceneError::TooMany(polygons.len()));
        }
        for (index, polygon) in polygons.iter().enumerate() {
            check_polygon(&polygon.vertices)
                .map_err(|reason| reason.of(index, &polygon.surface))?;
        }
        if !polygons.iter().any(|polygon| materials[polygon.material].emission.sum() > 0.0) {
            return Err(SceneError::Dark("`emission`"));
        }
        Ok(Scene { name: name.to_owned(), closed, camera, materials, polygons })
    }

    /// The polygons as quadrilaterals: one of four corners is one; any other is cut into one per
    /// corner, between the corner, the middles of its sides and the centre.
    pub fn quads(&self) -> Vec<(&Polygon, Quad)> {
        let mut quads = Vec::with_capacity(self.polygons.len());
        for polygon in &self.polygons {
            match <[Vec3; 4]>::try_from(polygon.vertices.as_slice()) {
                Ok(corners) => quads.push((polygon, Quad { corners })),
                Err(_) => quads.extend(corner_quads(&polygon.vertices).map(|quad| (polygon, quad))),
            }
        }
        quads
    }
}

fn corner_quads(vertices: &[Vec3]) -> impl Iterator<Item = Quad> + '_ {
    let count = vertices.len();
    let sum = vertices.iter().fold(Vec3::default(), |sum, &vertex| sum + vertex);
    let centre = sum * (1.0 / count as f64);
    (0..count).map(move |index| {
        let (before, corner, after) =
            (vertices[(index + count - 1) % count], vertices[index], vertices[(index + 1) % count]);
        Quad { corners: [corner, corner.middle(after), centre, before.middle(corner)] }
    })
}

fn title(index: usize, surface: &str) -> String {
    let number = index + 1;
    if surface == format!("polygon {number}") {
        number.to_string()
    } else {
        format!("{number} (`{surface}`)")
    }
}

fn check_camera(camera: &Camera) -> Result<(), SceneError> {
    let ahead = camera.look_at - camera.eye;
    let vectors = [camera.eye, camera.look_at, camera.up];
    if !vectors.iter().all(|vector| vector.is_finite()) {
        return Err(SceneError::Camera("a coordinate is not a finite number"));
    }
    if ahead.cross(camera.up).length() <= 0.0 {
        return Err(SceneError::Camera("it looks at itself or along its own `up`"));
    }
    if !(camera.opening_deg > 0.0 && camera.opening_deg < 180.0) {
        return Err(SceneError::Camera("`opening_deg` must lie between 0 and 180 degrees"));
    }
    if !(camera.aspect >= 0.1 && camera.aspect <= 10.0) {
        return Err(SceneError::Camera("`aspect` (width over height) must lie in 0.1..=10"));
    }
    Ok(())
}

fn check_material((index, material): (usize, &Material)) -> Result<(), SceneError> {
    let name = || material.name.clone();
    if !material.reflectance.0.iter().all(|share| (0.0..1.0).contains(share)) {
        return Err(SceneError::Reflectance { index, material: name() });
    }
    if !material.emission.0.iter().all(|power| (0.0..f64::INFINITY).contains(power)) {
        return Err(SceneError::Emission { index, material: name() });
    }
    Ok(())
}

fn check_polygon(vertices: &[Vec3]) -> Result<(), PolygonError> {
    if vertices.len() < 3 {
        return Err(PolygonError::TooFewVertices(vertices.len()));
    }
    if let Some(vertex) = vertices.iter().position(|vertex| !vertex.is_finite()) {
        return Err(PolygonError::NotFinite { vertex: vertex + 1 });
    }
    let size = vertices.iter().map(|&vertex| (vertex - vertices[0]).length()).fold(0.0, f64::max);
    let area = vector_area(vertices);
    // Written so that an overflow to infinity or no-number is refused, too.
    let has_area = area.length() > 1e-9 * size * size && area.is_finite() && size > 0.0;
    if !has_area {
        return Err(PolygonError::NoArea);
    }
    let normal = area.unit();
    check_planar(vertices, normal, size)?;
    let before = |vertex: usize| vertices[(vertex + vertices.len() - 1) % vertices.len()];
    let is_repeated = |vertex: usize| (vertices[vertex] - before(vertex)).length() <= 1e-9 * size;
    if let Some(vertex) = (0..vertices.len()).find(|&vertex| is_repeated(vertex)) {
        return Err(PolygonError::Repeated { vertex: vertex + 1 });
    }
    check_convex(vertices, normal, size)
        .map_err(|vertex| PolygonError::NotConvex { vertex: vertex + 1 })
}

fn check_planar(vertices: &[Vec3], normal: Vec3, size: f64) -> Result<(), PolygonError> {
    let centre = vertices.iter().fold(Vec3::default(), |sum, &vertex| sum + vertex)
        * (1.0 / vertices.len() as f64);
    for (vertex, &corner) in vertices.iter().enumerate() {
        let off = ((corner - centre).dot(normal) / size).abs();
        if off > PLANAR_TOLERANCE {
            return Err(PolygonError::NotPlanar { vertex: vertex + 1, share_percent: off * 100.0 });
        }
    }
    Ok(())
}

/// Every corner turns left, and all of them together turn once; else the offending vertex.
fn check_convex(vertices: &[Vec3], normal: Vec3, size: f64) -> Result<(), usize> {
    let count = vertices.len();
    let mut turned = 0.0;
    for vertex in 0..count {
        let arriving = vertices[vertex] - vertices[(vertex + count - 1) % count];
        let leaving = vertices[(vertex + 1) % count] - vertices[vertex];
        let sine = arriving.cross(leaving).dot(normal);
        if sine < -1e-9 * size * size {
            return Err(vertex);
        }
        turned += sine.atan2(arriving.dot(leaving));
    }
    if turned > 1.5 * std::f64::consts::TAU { Err(0) } else { Ok(()) }
}
