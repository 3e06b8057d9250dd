//! Footprints as pictures: a square for every section of 128 MiB, in the order of addresses (figures 2.4 and 5.1).

use super::results::Footprint;
use crate::report::html::Escaped;
use crate::report::lines::open_svg;
use std::fmt::Write;

/// Sections in a row.
const ROW: usize = 32;
/// Pixels of a square with its gap.
const SQUARE: f64 = 24.0;

/// A map: black sections hold kernel pages and cannot be removed, the others are the darker the fuller.
pub fn map(footprint: &Footprint) -> String {
    let rows = footprint.used.len().div_ceil(ROW).max(1);
    let (width, height) = (ROW as f64 * SQUARE, rows as f64 * SQUARE);
    let pinned = footprint.unmovable.iter().filter(|&&frames| frames > 0).count();
    let title = format!("Sections under {}", footprint.policy);
    let description = format!("{pinned} of {} sections hold kernel pages.", footprint.used.len());
    let id: String = footprint.policy.split(|c: char| !c.is_alphanumeric()).collect();
    let mut svg = open_svg(width, height, &format!("map-{id}"), &title, &description);
    for (index, (&used, &unmovable)) in footprint.used.iter().zip(&footprint.unmovable).enumerate()
    {
        let (x, y) = ((index % ROW) as f64 * SQUARE, (index / ROW) as f64 * SQUARE);
        let class = match unmovable {
            0 => format!("h{}", fullness(used)),
            _ => "kernel".to_owned(),
        };
        let _ = write!(
            svg,
            "<rect class=\"{class}\" x=\"{x:.0}\" y=\"{y:.0}\" width=\"{0}\" height=\"{0}\"><title>{1}</title></rect>",
            SQUARE - 2.0,
            Escaped(&told(index, used, unmovable))
        );
    }
    svg.push_str("</svg>");
    svg
}

/// Shade 0 (nothing) to 6 (full), of 32,768 frames.
fn fullness(used: u32) -> u32 {
    if used == 0 { 0 } else { 1 + (used * 5).div_ceil(1 << 15).min(5) }
}

fn told(index: usize, used: u32, unmovable: u32) -> String {
    let percent = |frames: u32| f64::from(frames) * 100.0 / 32_768.0;
    format!(
        "section {index}: {:.1} % used, {:.2} % the kernel's",
        percent(used),
        percent(unmovable)
    )
}
