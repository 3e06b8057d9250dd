//! Rows that sum to one.
//!
//! In a closed scene all light that leaves an element arrives somewhere: each row of form factors
//! sums to 1. Estimated rows miss that by some per cent, and the error is light made or lost. As
//! van Leersum ("A method for determining a consistent set of radiation view factors", 1989) we
//! scale the symmetric exchange from both sides, `X'_ij = d_i X_ij d_j`, which keeps reciprocity:
//! the fixed point of `d_i <- sqrt(d_i / (G d)_i)`, found with the solver's own gather and push.
//!
//! A leaf that sees next to nothing (the floor beneath a box) cannot be scaled: it is taken out
//! of the exchange (`d = 0`) and reported as buried.

use super::colour::Rgb;
use super::hierarchy::{Element, Hierarchy, Patch};
use super::solver::{gather, push_pull};
use serde::Serialize;

/// A leaf that sees less than this share of its half space is buried.
pub const BURIED: f64 = 0.2;
/// A leaf is scaled at most by this factor, and at least by its inverse.
const MOST: f64 = 10.0;
const ROUNDS: u32 = 40;
const CLOSE_ENOUGH: f64 = 1e-10;

/// How well the estimated rows sum to one, and what scaling them left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Closure {
    /// Median row sum of the patches as estimated, by area: what leaves a patch over all its levels,
    /// over its area. (The mean would count floors beneath boxes, whose rows are rightly below 1.
    /// Leaves' rows scatter by tens of per cent around their patch's where a dim neighbour is linked
    /// coarsely: refinement is bought where light is.)
    pub patch_median: f64,
    /// Mean excess of the patches' rows over 1, by area: light made from nothing.
    pub patch_excess: f64,
    /// Smallest row sum of those.
    pub row_least: f64,
    /// Largest row sum.
    pub row_most: f64,
    /// Root mean square distance of those rows from 1, by area.
    pub row_deviation: f64,
    /// Area of buried leaves, as a share of all.
    pub buried_share: f64,
    /// Whether rows were scaled.
    pub scaled: bool,
    /// Mean distance of the scaled rows from 1, by area.
    pub residual: f64,
}

/// Measures the rows and, if `scales`, scales them; leaves' `correction` holds the factors.
/// The hierarchy's outgoing light is as before, but scaled.
pub fn close(hierarchy: &Hierarchy, scales: bool) -> Closure {
    push_pull(hierarchy, |_, _, _| Rgb::grey(1.0));
    gather(hierarchy);
    push_pull(hierarchy, |_, element, gathered| {
        element.light.row.set(gathered.0[0]);
        Rgb::grey(1.0)
    });
    let mut closure = measure(hierarchy);
    if scales {
        closure.scaled = true;
        closure.residual = scale(hierarchy);
    }
    push_pull(hierarchy, |_, element, _| {
        element.light.radiosity.get() * element.light.correction.get()
    });
    closure
}

fn measure(hierarchy: &Hierarchy) -> Closure {
    let mut closure = Closure { row_least: f64::INFINITY, ..Closure::default() };
    let (mut area, mut buried) = (0.0, 0.0);
    let mut rows: Vec<(f64, f64)> = vec![(0.0, 0.0); hierarchy.patches.len()];
    hierarchy.leaves(|patch, element| {
        let row = element.light.row.get();
        let (sum, patch_area) = &mut rows[patch.id.0 as usize];
        *sum += row * element.area;
        *patch_area += element.area;
        if row < BURIED {
            buried += element.area;
            return;
        }
        area += element.area;
        closure.row_deviation += (row - 1.0).powi(2) * element.area;
        closure.row_least = closure.row_least.min(row);
        closure.row_most = closure.row_most.max(row);
    });
    let share = 1.0 / f64::max(area, f64::MIN_POSITIVE);
    rows.iter_mut().for_each(|(sum, area)| *sum /= *area);
    closure.patch_excess =
        rows.iter().map(|(row, area)| (row - 1.0).max(0.0) * area).sum::<f64>() / (area + buried);
    closure.patch_median = median(rows, area + buried);
    closure.row_deviation = (closure.row_deviation * share).sqrt();
    closure.row_least = closure.row_least.min(closure.row_most);
    closure.buried_share = buried / (area + buried);
    closure
}

/// The row below which half of the `area` lies; 0 if there is none.
fn median(mut rows: Vec<(f64, f64)>, area: f64) -> f64 {
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut below = 0.0;
    let found = rows.iter().find(|(_, share)| {
        below += share;
        below >= area / 2.0
    });
    found.map_or(0.0, |(row, _)| *row)
}

/// Iterates to the fixed point; returns the mean distance of the rows from 1.
fn scale(hierarchy: &Hierarchy) -> f64 {
    let start = |_: &Patch, element: &Element, _: Rgb| {
        let is_buried = element.light.row.get() < BURIED;
        element.light.correction.set(if is_buried { 0.0 } else { 1.0 });
        Rgb::grey(element.light.correction.get())
    };
    push_pull(hierarchy, start);
    let mut distance = f64::INFINITY;
    for _ in 0..ROUNDS {
        gather(hierarchy);
        push_pull(hierarchy, |_, element, gathered| {
            let (correction, row) = (element.light.correction.get(), gathered.0[0]);
            element.light.incident.set(Rgb::grey((correction * row - 1.0).abs()));
            if correction > 0.0 {
                let next = (correction / row.max(f64::MIN_POSITIVE)).sqrt();
                element.light.correction.set(next.clamp(1.0 / MOST, MOST));
            }
            Rgb::grey(element.light.correction.get())
        });
        distance = mean_distance(hierarchy);
        if distance <= CLOSE_ENOUGH {
            break;
        }
    }
    distance
}

fn mean_distance(hierarchy: &Hierarchy) -> f64 {
    let (mut sum, mut area) = (0.0, 0.0);
    hierarchy.leaves(|_, element| {
        if element.light.correction.get() > 0.0 {
            sum += element.light.incident.get().0[0] * element.area;
            area += element.area;
        }
    });
    sum / f64::max(area, f64::MIN_POSITIVE)
}
