//! The scene's colours, computed again from the measured spectra.
//!
//! CIE 1931 colour matching by the fits of Wyman, Sloan and Shirley, "Simple analytic approximations to
//! the CIE XYZ color matching functions" (JCGT 2013), 400 to 700 nm; a flat spectrum becomes the white of
//! sRGB (D65) by scaling X, Y and Z; then the matrix of IEC 61966-2-1.

use super::MATERIALS;

const MEASURED: &str = include_str!("../../../../data/cornell_spectra.csv");
/// The lamp: nm and power.
const LAMP: [(f64, f64); 4] = [(400.0, 0.0), (500.0, 8.0), (600.0, 15.6), (700.0, 18.4)];
const WHITE: [f64; 3] = [0.95047, 1.0, 1.08883];
const TO_SRGB: [[f64; 3]; 3] =
    [[3.2406, -1.5372, -0.4986], [-0.9689, 1.8758, 0.0415], [0.0557, -0.2040, 1.0570]];

/// A lobe of a fit: its peak in nm and how it falls on both sides.
fn lobe(nm: f64, peak: f64, below: f64, above: f64) -> f64 {
    let fall = if nm < peak { below } else { above };
    (-0.5 * ((nm - peak) * fall).powi(2)).exp()
}

fn matching(nm: f64) -> [f64; 3] {
    [
        0.362 * lobe(nm, 442.0, 0.0624, 0.0374) + 1.056 * lobe(nm, 599.8, 0.0264, 0.0323)
            - 0.065 * lobe(nm, 501.1, 0.0490, 0.0382),
        0.821 * lobe(nm, 568.8, 0.0213, 0.0247) + 0.286 * lobe(nm, 530.9, 0.0613, 0.0322),
        1.217 * lobe(nm, 437.0, 0.0845, 0.0278) + 0.681 * lobe(nm, 459.0, 0.0385, 0.0725),
    ]
}

fn colour(spectrum: impl Iterator<Item = (f64, f64)>) -> [f64; 3] {
    let (mut sum, mut flat) = ([0.0; 3], [0.0; 3]);
    for (nm, value) in spectrum {
        for (channel, weight) in matching(nm).into_iter().enumerate() {
            sum[channel] += weight * value;
            flat[channel] += weight;
        }
    }
    let xyz: [f64; 3] = std::array::from_fn(|i| sum[i] / flat[i] * WHITE[i]);
    TO_SRGB.map(|row| row.iter().zip(xyz).map(|(factor, part)| factor * part).sum())
}

fn column(index: usize) -> impl Iterator<Item = (f64, f64)> {
    MEASURED.lines().filter(|line| !line.starts_with(['#', 'n'])).map(move |line| {
        let number = |at: usize| line.split(',').nth(at).and_then(|field| field.parse().ok());
        (number(0).expect("a wavelength"), number(index).expect("a reflectance"))
    })
}

fn lamp(nm: f64) -> f64 {
    let within = LAMP.windows(2).find(|pair| nm <= pair[1].0).expect("400 to 700 nm");
    let ((from, low), (to, high)) = (within[0], within[1]);
    low + (high - low) * (nm - from) / (to - from)
}

#[test]
fn the_colours_are_those_of_the_measured_spectra() {
    let near = |name: &str, stated: [f64; 3], computed: [f64; 3], digits: f64| {
        for (stated, computed) in stated.into_iter().zip(computed) {
            assert!((stated - computed).abs() <= digits, "{name}: {stated} for {computed}");
        }
    };
    assert_eq!(column(1).count(), 76);
    for (index, name) in [(1, "white"), (2, "green"), (3, "red")] {
        let stated = MATERIALS.iter().find(|material| material.0 == name).expect("a material").1;
        near(name, stated, colour(column(index)), 6e-4);
    }
    let stated = MATERIALS.iter().find(|material| material.0 == "light").expect("a lamp").2;
    near("light", stated, colour(column(1).map(|(nm, _)| (nm, lamp(nm)))), 6e-3);
}
