//! The loop: refine, gather, push, pull; then closure, and sweeps until the light stands still.
//!
//! Refinement starts coarse and gets finer from iteration to iteration ("multigridding", Hanrahan
//! et al. 1991, section 4.4): early iterations see little light and would refine in vain.
//! Gathering is Jacobi's: every element reads what all others sent in the previous sweep.

use super::closure;
use super::colour::Rgb;
use super::hierarchy::{Element, Hierarchy, Light, Patch, fold};
use super::physics;
use super::refine::{Refiner, Rules, Tally};
use super::scene::Scene;
use super::statistics::{Phase, Statistics};
use super::visibility::Occluders;
use crate::access::{self, Share};
use rayon::prelude::*;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use thiserror::Error;

/// The first threshold is this many times the last one.
const COARSE_START: f64 = 64.0;
/// The share of the iterations in which the threshold falls.
const FALLING_SHARE: f64 = 0.8;
/// The final sweeps end when the total power moves by less than this share, or after so many.
const STILL: f64 = 1e-9;
const MOST_SWEEPS: u32 = 400;

/// How finely and how long to solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Most iterations of refine, gather, push, pull; at least 1.
    pub iterations: u32,
    /// The share of the emitted power that one link may misplace, in (0, 1].
    pub epsilon: f64,
    /// Elements below this share of the scene's area are not split, in [0, 1].
    pub least_area: f64,
    /// Iterations end early when nothing is refined and the power moves by less than this share.
    pub converged: f64,
    /// Whether rows of form factors are scaled to sum to one (closed scenes only).
    pub closure: bool,
    /// What a recorder hears of the memory accesses.
    pub watch: Watch,
    /// Bytes that links, and then the whole solution, may occupy.
    pub memory_limit: u64,
}

/// What a recorder hears of the memory accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Every so many-th iteration; 0: none.
    pub every: u32,
    /// Of those the work on one patch in so many; 0 and 1: on all.
    pub patches: u32,
    /// Of all other iterations one unit of work in so many; 0: none.
    pub units: u32,
    /// Whether to stop after the last of those: the light is not settled then, and not judged.
    pub stops: bool,
}

impl Watch {
    /// What is told of this iteration.
    fn share(&self, iteration: u32) -> Option<Share> {
        if self.every > 0 && iteration.is_multiple_of(self.every) {
            return Some(Share::Groups(self.patches.max(1)));
        }
        (self.units > 0).then_some(Share::Units(self.units))
    }
}

/// Why there is no solution.
#[derive(Debug, Error, PartialEq, Eq)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum SolveError {
    #[error(
        "the solution reached its memory limit of {limit_bytes} bytes in iteration {iteration}; \
         raise the limit, or refine less (a larger epsilon or least area)"
    )]
    Memory { limit_bytes: u64, iteration: u32 },
    #[error("interrupted in iteration {iteration}")]
    Interrupted { iteration: u32 },
}

/// A scene's light.
pub struct Solution {
    /// Patches, elements and their light.
    pub hierarchy: Hierarchy,
    /// The scene's surfaces, for whoever traces rays.
    pub occluders: Occluders,
    /// What it took.
    pub statistics: Statistics,
}

/// Solves a scene on the current rayon pool. `progress` hears of every iteration; `stop` ends the
/// work at the next one.
///
/// # Errors
/// The memory limit was reached, or `stop` was set.
pub fn solve(
    scene: &Scene,
    settings: &Settings,
    progress: &mut dyn FnMut(u64, u64),
    stop: &AtomicBool,
) -> Result<Solution, SolveError> {
    let mut statistics = Statistics::new(scene, rayon::current_num_threads());
    let quads: Vec<_> = scene.quads().into_iter().map(|(_, quad)| quad).collect();
    let occluders = statistics.time(Phase::Sort, || Occluders::new(&quads));
    let hierarchy = Hierarchy::new(scene);
    let mut solver = Solver { hierarchy, occluders, settings, statistics, tally: Tally::default() };
    solver.iterate(progress, stop)?;
    if settings.watch.stops {
        return Ok(solver.break_off());
    }
    solver.close_and_settle(scene.closed);
    Ok(solver.finish(scene))
}

struct Solver<'a> {
    hierarchy: Hierarchy,
    occluders: Occluders,
    settings: &'a Settings,
    statistics: Statistics,
    tally: Tally,
}

impl Solver<'_> {
    fn iterate(
        &mut self,
        progress: &mut dyn FnMut(u64, u64),
        stop: &AtomicBool,
    ) -> Result<(), SolveError> {
        let rules = self.rules();
        let last_threshold = rules.threshold;
        let mut power = 0.0;
        for iteration in 1..=self.settings.iterations {
            progress(u64::from(iteration - 1), u64::from(self.settings.iterations));
            self.end_watch();
            self.begin_watch(iteration);
            let coarser = self.coarser(iteration);
            let rules = Rules { threshold: last_threshold * coarser, ..rules };
            let refined = self.refine(iteration, rules);
            self.check_limits(iteration, stop)?;
            let (previous, now) = (power, self.sweep());
            power = now;
            self.statistics.iterations = iteration;
            self.statistics.meshes_by_iteration.push(self.hierarchy.meshes());
            let is_still = (now - previous).abs() <= self.settings.converged * now;
            if coarser == 1.0 && refined == 0 && is_still {
                break;
            }
        }
        self.end_watch();
        Ok(())
    }

    fn begin_watch(&self, iteration: u32) {
        let Some(share) = self.settings.watch.share(iteration) else { return };
        access::watch(share);
        if let (Share::Units(_), Some(patch)) = (share, self.hierarchy.patches.first()) {
            access::mark(&*patch.root, access::PARTS);
        }
    }

    fn end_watch(&self) {
        if access::is_watched()
            && let Some(patch) = self.hierarchy.patches.first()
        {
            access::end_watch(&*patch.root);
        }
    }

    fn rules(&self) -> Rules {
        let patches = &self.hierarchy.patches;
        let area: f64 = patches.iter().map(|patch| patch.root.area).sum();
        let emitted = |patch: &Patch| patch.emission.strongest() * patch.root.area;
        let power: f64 = patches.iter().map(|patch| emitted(patch)).sum();
        Rules {
            threshold: self.settings.epsilon * power,
            least_area: self.settings.least_area * area,
            link_bytes: self.settings.memory_limit,
        }
    }

    /// By how much the threshold of this iteration exceeds the last one.
    fn coarser(&self, iteration: u32) -> f64 {
        let falling = (f64::from(self.settings.iterations) * FALLING_SHARE).floor().max(1.0);
        let done = (f64::from(iteration - 1) / falling).min(1.0);
        COARSE_START.powf(1.0 - done)
    }

    fn refine(&mut self, iteration: u32, rules: Rules) -> u64 {
        let Solver { hierarchy, occluders, statistics, tally, .. } = self;
        let refiner = Refiner { occluders, rules, tally };
        if iteration == 1 {
            statistics.time(Phase::Link, || refiner.link_all(hierarchy));
        }
        statistics.time(Phase::Refine, || refiner.refine(hierarchy))
    }

    fn check_limits(&self, iteration: u32, stop: &AtomicBool) -> Result<(), SolveError> {
        if stop.load(Relaxed) {
            return Err(SolveError::Interrupted { iteration });
        }
        let limit_bytes = self.settings.memory_limit;
        let is_full = self.tally.is_full.load(Relaxed)
            || limit_bytes < u64::MAX && self.hierarchy.census().useful_bytes > limit_bytes;
        if is_full { Err(SolveError::Memory { limit_bytes, iteration }) } else { Ok(()) }
    }

    /// One gather, push and pull; returns the power that leaves all surfaces.
    fn sweep(&mut self) -> f64 {
        let Solver { hierarchy, statistics, .. } = self;
        statistics.sweeps += 1;
        statistics.time(Phase::Gather, || gather(hierarchy));
        statistics.time(Phase::PushPull, || push_pull(hierarchy, reflect)).sum()
    }

    fn close_and_settle(&mut self, is_closed: bool) {
        let Solver { hierarchy, statistics, settings, .. } = self;
        let scales = is_closed && settings.closure;
        statistics.closure = statistics.time(Phase::Closure, || closure::close(hierarchy, scales));
        let mut power = 0.0;
        for _ in 0..MOST_SWEEPS {
            let now = self.sweep();
            if (now - power).abs() <= STILL * now {
                break;
            }
            power = now;
        }
    }

    /// What there is, without a word on its physics.
    fn break_off(mut self) -> Solution {
        self.statistics.count(&self.hierarchy, &self.tally);
        let Solver { hierarchy, occluders, statistics, .. } = self;
        Solution { hierarchy, occluders, statistics }
    }

    fn finish(mut self, scene: &Scene) -> Solution {
        self.statistics.count(&self.hierarchy, &self.tally);
        self.statistics.physics = physics::check(scene, &self.hierarchy, self.statistics.closure);
        let Solver { hierarchy, occluders, statistics, .. } = self;
        Solution { hierarchy, occluders, statistics }
    }
}

/// What every element's own links bring.
pub fn gather(hierarchy: &Hierarchy) {
    hierarchy.for_each(|element| element.gather());
}

/// Pushes gathered light down to the leaves, lets `leaf` make of it what it sends, and pulls that
/// up as averages. Returns the total that is sent (light times area), in the scene's order.
pub fn push_pull(hierarchy: &Hierarchy, leaf: impl Fn(&Patch, &Element, Rgb) -> Rgb + Sync) -> Rgb {
    type Sent = (f64, Rgb);
    let down = |element: &Element, above: Rgb| {
        element.touch_light(offset_of!(Light, gathered), false);
        above + element.light.gathered.get()
    };
    let up = |element: &Element, sent: [Sent; 4]| {
        let area: f64 = sent.iter().map(|(area, _)| area).sum();
        let total = sent.iter().fold(Rgb::BLACK, |total, (_, sent)| total + *sent);
        element.touch_light(offset_of!(Light, outgoing), true);
        element.light.outgoing.set(total * (1.0 / area));
        (area, total)
    };
    hierarchy.begin_phase();
    let sent: Vec<Sent> = hierarchy
        .patches
        .par_iter()
        .map(|patch| {
            let at_leaf = |element: &Element, gathered: Rgb| {
                let outgoing = leaf(patch, element, gathered);
                for offset in [
                    offset_of!(Light, incident),
                    offset_of!(Light, radiosity),
                    offset_of!(Light, outgoing),
                ] {
                    element.touch_light(offset, true);
                }
                element.light.outgoing.set(outgoing);
                (element.area, outgoing * element.area)
            };
            fold(&patch.root, Rgb::BLACK, &down, &at_leaf, &up)
        })
        .collect();
    sent.into_iter().fold(Rgb::BLACK, |total, (_, sent)| total + sent)
}

/// The radiosity equation at a leaf: B = E + rho H.
fn reflect(patch: &Patch, element: &Element, gathered: Rgb) -> Rgb {
    let light = &element.light;
    let correction = light.correction.get();
    let incident = gathered * correction;
    let radiosity = patch.emission + patch.reflectance * incident;
    light.incident.set(incident);
    light.radiosity.set(radiosity);
    radiosity * correction
}

#[cfg(test)]
mod tests;
