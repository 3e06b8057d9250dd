//! A picture of the solution: rays from the camera, smooth light, soft shadows, PNG.
//!
//! With [`Quality::Final`] the solution is only what the last reflection sees (two-pass rendering, final gathering: Reichert
//! 1992): in every pixel the emitters are sampled, and all else in rays that leave the surface by the cosine law. Shadows
//! are as sharp as their lamps make them, and where two things touch it is dark, however coarse the meshes there are.
//! [`Quality::Smooth`] shows the vertices' light alone, [`Quality::Flat`] the meshes as solved.
//!
//! Neighbours: [`super::tone`] makes bytes of the light.

use super::colour::Rgb;
use super::form_factor::{Sample, kernel};
use super::geometry::Vec3;
use super::hierarchy::Patch;
use super::scene::Camera;
use super::shading::{interpolate, locate, shade_vertices};
use super::solver::Solution;
use super::tone;
use super::visibility::{LastOccluder, Ray};
use rayon::prelude::*;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Rays per pixel and direction.
const SUB_PIXELS: usize = 4;
/// Shadow rays per pixel are about this many, spread over the emitters by their power.
const SHADOW_RAYS: usize = 256;
/// Rays that gather reflected light, for each ray of the camera.
const GATHER_RAYS: usize = 12;

/// How a surface point's light is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Quality {
    /// One colour per mesh.
    Flat,
    /// Interpolated between vertices.
    Smooth,
    /// Emitters and reflected light sampled in every pixel.
    Final,
}

/// Linear light, row by row from the top.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Pixels per row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Radiance of each pixel (relative).
    pub pixels: Vec<Rgb>,
}

/// Why no picture was written.
#[derive(Debug, Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum PictureError {
    #[error("cannot write the picture {path}: {reason}; check that its folder exists and has room")]
    Write { path: String, reason: std::io::Error },
    #[error("cannot encode the picture {path}: {reason}")]
    Encode { path: String, reason: png::EncodingError },
}

/// Takes a picture `height` pixels high on the current rayon pool.
pub fn render(solution: &Solution, camera: &Camera, height: usize, quality: Quality) -> Picture {
    shade_vertices(&solution.hierarchy);
    let width = ((height as f64 * camera.aspect).round() as usize).max(1);
    let view = View::new(camera, width, height);
    let painter = Painter { solution, emitters: emitters(solution), quality };
    let pixels = (0..width * height)
        .into_par_iter()
        .map(|index| painter.pixel(&view, index % width, index / width))
        .collect();
    Picture { width, height, pixels }
}

/// A lamp, and how many shadow rays each camera ray sends there.
struct Emitter<'a> {
    patch: &'a Patch,
    shots: usize,
}

fn emitters(solution: &Solution) -> Vec<Emitter<'_>> {
    let power = |patch: &Patch| patch.emission.sum() * patch.root.area;
    let patches = || solution.hierarchy.patches.iter().map(|patch| &**patch);
    let all: f64 = patches().map(power).sum();
    let per_ray = SHADOW_RAYS as f64 / (SUB_PIXELS * SUB_PIXELS) as f64;
    patches()
        .filter(|patch| power(patch) > 0.0)
        .map(|patch| Emitter { patch, shots: (per_ray * power(patch) / all).ceil() as usize })
        .collect()
}

struct View {
    eye: Vec3,
    corner: Vec3,
    right: Vec3,
    down: Vec3,
}

impl View {
    fn new(camera: &Camera, width: usize, height: usize) -> View {
        let ahead = (camera.look_at - camera.eye).unit();
        let right = ahead.cross(camera.up).unit();
        let up = right.cross(ahead);
        let half = (camera.opening_deg.to_radians() / 2.0).tan();
        let half_width = half * width as f64 / height as f64;
        View {
            eye: camera.eye,
            corner: ahead - right * half_width + up * half,
            right: right * (2.0 * half_width / width as f64),
            down: up * (-2.0 * half / height as f64),
        }
    }

    fn ray(&self, x: f64, y: f64) -> Ray {
        Ray { from: self.eye, way: self.corner + self.right * x + self.down * y }
    }
}

struct Painter<'a> {
    solution: &'a Solution,
    emitters: Vec<Emitter<'a>>,
    quality: Quality,
}

impl Painter<'_> {
    fn pixel(&self, view: &View, x: usize, y: usize) -> Rgb {
        let mut noise = Noise::at(x, y);
        let mut last = LastOccluder::default();
        let turn = [noise.next(), noise.next()];
        let mut sum = Rgb::BLACK;
        for stratum in 0..SUB_PIXELS * SUB_PIXELS {
            let cell = (stratum % SUB_PIXELS, stratum / SUB_PIXELS);
            let place = |cell: usize, jitter: f64| (cell as f64 + jitter) / SUB_PIXELS as f64;
            let dx = place(cell.0, noise.next());
            let dy = place(cell.1, noise.next());
            let ray = view.ray(x as f64 + dx, y as f64 + dy);
            sum += self.radiance(&ray, stratum, turn, &mut noise, &mut last);
        }
        sum * (1.0 / (SUB_PIXELS * SUB_PIXELS) as f64)
    }

    fn radiance(
        &self,
        ray: &Ray,
        stratum: usize,
        turn: [f64; 2],
        noise: &mut Noise,
        last: &mut LastOccluder,
    ) -> Rgb {
        let Some(hit) = self.solution.occluders.first_front(ray) else { return Rgb::BLACK };
        let patch = self.solution.hierarchy.patch(hit.patch);
        if patch.emission.sum() > 0.0 {
            return patch.emission;
        }
        let point = ray.from + ray.way * hit.at;
        let (leaf, u, v) = locate(patch, point);
        let light = match self.quality {
            Quality::Flat => leaf.light.incident.get(),
            Quality::Smooth => interpolate(leaf, u, v),
            Quality::Final => {
                let receiver = Sample { point, normal: leaf.normal, area: 0.0 };
                self.reflected(&receiver, stratum, turn)
                    + self.direct(&receiver, patch, stratum, noise, last)
            }
        };
        patch.reflectance * light
    }

    /// Light that was reflected at least once: the mean over rays by the cosine law, of what the surfaces that they
    /// meet reflect. The rays of one pixel are one sequence of low discrepancy (Roberts 2018), turned by `turn`.
    fn reflected(&self, receiver: &Sample, stratum: usize, turn: [f64; 2]) -> Rgb {
        let mut sum = Rgb::BLACK;
        for shot in 0..GATHER_RAYS {
            let at = (stratum * GATHER_RAYS + shot) as f64;
            let place =
                [turn[0] + at * 0.754_877_666_246_693, turn[1] + at * 0.569_840_290_998_053];
            let ray = Ray { from: receiver.point, way: cosine_way(receiver.normal, place) };
            let Some(hit) = self.solution.occluders.first_front(&ray) else { continue };
            let patch = self.solution.hierarchy.patch(hit.patch);
            let (leaf, u, v) = locate(patch, ray.from + ray.way * hit.at);
            sum += patch.reflectance * interpolate(leaf, u, v);
        }
        sum * (1.0 / GATHER_RAYS as f64)
    }

    /// Light that comes straight from the emitters; `stratum` is the camera ray's number, which
    /// also chooses the part of each emitter that is looked at.
    fn direct(
        &self,
        receiver: &Sample,
        patch: &Patch,
        stratum: usize,
        noise: &mut Noise,
        last: &mut LastOccluder,
    ) -> Rgb {
        let mut sum = Rgb::BLACK;
        for &Emitter { patch: emitter, shots } in &self.emitters {
            let turn = noise.pick(SUB_PIXELS * SUB_PIXELS);
            let mut brought = 0.0;
            for shot in 0..shots {
                // Camera rays and shots together visit every cell of the emitter evenly.
                let cell = (stratum * 7 + shot * 5 + turn * usize::from(shots > 1))
                    % (SUB_PIXELS * SUB_PIXELS);
                let place = |cell: usize, jitter: f64| (cell as f64 + jitter) / SUB_PIXELS as f64;
                let u = place(cell % SUB_PIXELS, noise.next());
                let v = place(cell / SUB_PIXELS, noise.next());
                let (du, dv) = emitter.quad.tangents(u, v);
                let spot = Sample {
                    point: emitter.quad.at(u, v),
                    normal: emitter.root.normal,
                    area: du.cross(dv).length() / (SUB_PIXELS * SUB_PIXELS) as f64,
                };
                let share = kernel(receiver, &spot);
                let shadow = Ray { from: receiver.point, way: spot.point - receiver.point };
                let ends = [patch.id, emitter.id];
                if share > 0.0 && !self.solution.occluders.is_blocked(&shadow, ends, last) {
                    brought += share * spot.area;
                }
            }
            let cells = (SUB_PIXELS * SUB_PIXELS) as f64;
            sum += emitter.emission * (brought * cells / shots as f64);
        }
        sum
    }
}

/// The direction on the side of `normal` that belongs to a place of the unit square (whose borders are joined): as
/// many per solid angle as the cosine to the normal is large.
fn cosine_way(normal: Vec3, place: [f64; 2]) -> Vec3 {
    let aside =
        if normal.x.abs() < 0.6 { Vec3::new(1.0, 0.0, 0.0) } else { Vec3::new(0.0, 1.0, 0.0) };
    let across = normal.cross(aside).unit();
    let along = normal.cross(across);
    let [squared, turn] = place.map(f64::fract);
    let (sine, cosine) = (turn * std::f64::consts::TAU).sin_cos();
    let radius = squared.sqrt();
    across * (radius * cosine) + along * (radius * sine) + normal * (1.0 - squared).sqrt()
}

/// A short stream of numbers in 0..1 that a pixel's place decides (SplitMix64).
pub(super) struct Noise(u64);

impl Noise {
    pub fn at(x: usize, y: usize) -> Noise {
        Noise((y as u64) << 32 | x as u64)
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn next(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn pick(&mut self, below: usize) -> usize {
        (self.bits() % below as u64) as usize
    }
}

impl Picture {
    /// Writes a PNG under a temporary name beside `path`, and renames it when it is whole.
    ///
    /// # Errors
    /// The file cannot be written; nothing is left behind then.
    pub fn write_png(&self, path: &Path) -> Result<(), PictureError> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let written = self.encode(&part, path).and_then(|()| {
            std::fs::rename(&part, path).map_err(|reason| write_error(path, reason))
        });
        if written.is_err() {
            let _ = std::fs::remove_file(&part); // it may not exist; the first error counts
        }
        written
    }

    fn encode(&self, part: &PathBuf, path: &Path) -> Result<(), PictureError> {
        let encode_error =
            |reason| PictureError::Encode { path: path.display().to_string(), reason };
        let file = std::fs::File::create(part).map_err(|reason| write_error(path, reason))?;
        let mut file = BufWriter::new(file);
        let mut encoder = png::Encoder::new(&mut file, self.width as u32, self.height as u32);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_source_srgb(png::SrgbRenderingIntent::Perceptual);
        let mut writer = encoder.write_header().map_err(encode_error)?;
        writer.write_image_data(&tone::mapped(self)).map_err(encode_error)?;
        writer.finish().map_err(encode_error)?;
        file.flush().map_err(|reason| write_error(path, reason))
    }
}

fn write_error(path: &Path, reason: std::io::Error) -> PictureError {
    PictureError::Write { path: path.display().to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_follow_the_cosine_law() {
        let normal = Vec3::new(0.36, 0.48, 0.8);
        let count = 10_000;
        let ways = (0..count).map(|at| {
            let at = f64::from(at);
            cosine_way(normal, [at * 0.754_877_666_246_693, at * 0.569_840_290_998_053])
        });
        let (mut sum, mut squares) = (Vec3::default(), 0.0);
        for way in ways {
            assert!((way.length() - 1.0).abs() < 1e-12 && way.dot(normal) >= 0.0);
            sum = sum + way;
            squares += way.dot(normal).powi(2);
        }
        // Of the density cos / pi on the hemisphere the mean is 2/3 of the normal, that of squared cosines 1/2.
        let mean = sum * (1.0 / f64::from(count));
        assert!((mean - normal * (2.0 / 3.0)).length() < 1e-3, "{mean:?}");
        assert!((squares / f64::from(count) - 0.5).abs() < 1e-3);
    }
}
