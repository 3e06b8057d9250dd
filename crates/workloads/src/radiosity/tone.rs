//! Light to bytes: exposure, white balance and a curve under which nothing is clipped.
//!
//! Invariant: of a picture whose brightest channel is finite no byte stands for more light than it could show: lamps and windows keep
//! their colours, and what differs in the light differs in the picture.

use super::colour::Rgb;
use super::render::{Noise, Picture};

/// Where the lit surfaces (90 % of the pixels are darker) are put.
const BRIGHT: f64 = 0.68;
/// Up to here the curve is straight.
const KNEE: f64 = 0.55;
/// What the brightest channel of the picture comes to.
const TOP: f64 = 0.98;

/// The picture as 8-bit sRGB; a little noise hides the 8-bit steps.
pub fn mapped(picture: &Picture) -> Vec<u8> {
    let exposure = white_balance(&picture.pixels) * exposure(&picture.pixels);
    let exposed = || picture.pixels.iter().map(|&pixel| exposure * pixel);
    let most = exposed().map(Rgb::strongest).fold(0.0, f64::max);
    let mut bytes = Vec::with_capacity(picture.pixels.len() * 3);
    for (index, light) in exposed().enumerate() {
        let mut noise = Noise::at(index % picture.width, index / picture.width);
        let dither = noise.next() - 0.5;
        for channel in (light * share_shown(light.strongest(), most)).0 {
            let coded = gamma_coded(channel) * 255.0 + dither;
            bytes.push(coded.round().clamp(0.0, 255.0) as u8);
        }
    }
    bytes
}

/// What an eye does to the colour of a room's light: halfway to white.
fn white_balance(pixels: &[Rgb]) -> Rgb {
    let sum = pixels.iter().fold(Rgb::BLACK, |sum, &pixel| sum + pixel);
    let grey = sum.luminance();
    sum.map(|channel| if channel > 0.0 { (grey / channel).sqrt() } else { 1.0 })
}

fn exposure(pixels: &[Rgb]) -> f64 {
    let mut light: Vec<f64> =
        pixels.iter().map(|pixel| pixel.luminance()).filter(|&l| l > 0.0).collect();
    if light.is_empty() {
        return 1.0;
    }
    let rank = (light.len() - 1) * 9 / 10;
    let (_, bright, _) = light.select_nth_unstable_by(rank, f64::total_cmp);
    BRIGHT / *bright
}

/// How much of a pixel's light is shown, by its strongest channel; all channels alike, so that colours stay.
fn share_shown(strongest: f64, most: f64) -> f64 {
    if strongest <= KNEE || most <= TOP { 1.0 } else { shoulder(strongest, most) / strongest }
}

/// From the knee on with slope 1, to [`TOP`] at `most` (Reinhard et al. 2002, equation 4, above a knee).
fn shoulder(light: f64, most: f64) -> f64 {
    let span = TOP - KNEE;
    let (above, white) = ((light - KNEE) / span, (most - KNEE) / span);
    KNEE + span * above * (1.0 + above / (white * white)) / (1.0 + above)
}

/// The sRGB transfer curve.
fn gamma_coded(light: f64) -> f64 {
    if light <= 0.003_130_8 { 12.92 * light } else { 1.055 * light.powf(1.0 / 2.4) - 0.055 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brightest_lamp_is_not_clipped_and_keeps_its_colour() {
        let wall = Rgb([0.30, 0.28, 0.25]);
        let (sky, lamp) = (Rgb([5.5, 7.0, 9.0]), Rgb([9.0, 7.8, 6.0]));
        let mut pixels = vec![wall; 94];
        pixels.extend([sky, sky, sky, lamp, lamp, lamp]);
        let bytes = mapped(&Picture { width: 10, height: 10, pixels });
        assert!(bytes.iter().all(|&byte| byte < 255));
        let (sky, lamp) = (&bytes[94 * 3..95 * 3], &bytes[99 * 3..]);
        assert!(sky[2] > sky[0] + 20 && lamp[0] > lamp[2] + 20, "{sky:?} {lamp:?}");
    }

    #[test]
    fn more_light_is_never_darker() {
        let shown = |light: f64| light * share_shown(light, 20.0);
        let steps: Vec<f64> = (0..=2000).map(|step| shown(f64::from(step) / 100.0)).collect();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]));
        assert!((steps[2000] - TOP).abs() < 1e-12 && steps[40] == 0.4);
    }
}
