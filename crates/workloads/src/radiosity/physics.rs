//! Is the answer light? Checks that every solution has to pass.
//!
//! - *Energy*: in a closed scene what is emitted is absorbed, sum A E = sum A (1 - rho) H.
//! - *Rows*: estimated rows of a closed scene's patches sum to 1 in the median, and in no scene to
//!   more. This judges the estimator before [`super::closure`] mends it.
//! - *Bounds*: radiosity is finite and not negative (no emitter-based upper bound is needed
//!   beyond max E / (1 - max rho), the furnace of the brightest surface).

use super::closure::Closure;
use super::colour::Rgb;
use super::form_factor::between_quads;
use super::hierarchy::Hierarchy;
use super::scene::Scene;
use super::scenes::{furnace, unit_cube};
use super::solver::{Settings, Watch, solve};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// Energy may miss by this share of what is emitted, after closure.
pub const ENERGY_TOLERANCE: f64 = 1e-4;
/// The patches' median row of a closed scene may miss 1 by this much, before closure.
pub const ROW_TOLERANCE: f64 = 0.01;
/// Light made or lost by the rows as estimated, as a share of what is emitted.
pub const UNSCALED_TOLERANCE: f64 = 0.03;
/// Patches' rows of any scene may exceed 1 by this much in the mean, before closure.
pub const ROW_EXCESS: f64 = 0.02;

/// One check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// What was checked.
    pub name: &'static str,
    /// What was found: a distance from the ideal.
    pub found: f64,
    /// What is tolerated.
    pub tolerated: f64,
}

impl Check {
    /// Whether the distance is tolerable (no number is not).
    pub fn passed(&self) -> bool {
        self.found <= self.tolerated
    }
}

/// The energy of a solution, and the verdicts.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Physics {
    /// Sum of A E over all leaves and channels.
    pub emitted: f64,
    /// Sum of A (1 - rho) H.
    pub absorbed: f64,
    /// What the rows as estimated would have made (or, negative, lost), as a share of `emitted`.
    pub unscaled_gain: f64,
    /// The verdicts.
    pub checks: Vec<Check>,
}

impl Physics {
    /// Whether all checks passed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(Check::passed)
    }
}

/// Checks a solution.
pub fn check(scene: &Scene, hierarchy: &Hierarchy, closure: Closure) -> Physics {
    let (mut emitted, mut absorbed, mut gain) = (0.0, 0.0, 0.0);
    let (mut least, mut most) = (f64::INFINITY, 0.0f64);
    let mut is_finite = true;
    let (mut brightest, mut whitest) = (0.0f64, 0.0f64);
    hierarchy.leaves(|patch, element| {
        let (incident, radiosity) = (element.light.incident.get(), element.light.radiosity.get());
        let kept = Rgb::grey(1.0) - patch.reflectance;
        emitted += (patch.emission * element.area).sum();
        absorbed += (kept * incident * element.area).sum();
        gain += radiosity.sum() * (element.light.row.get() - 1.0) * element.area;
        is_finite &= radiosity.sum().is_finite();
        least = radiosity.0.into_iter().fold(least, f64::min);
        most = most.max(radiosity.strongest());
        brightest = brightest.max(patch.emission.strongest());
        whitest = whitest.max(patch.reflectance.strongest());
    });
    let furnace = brightest / (1.0 - whitest);
    let mut checks = vec![
        Check { name: "radiosity is finite", found: f64::from(!is_finite), tolerated: 0.0 },
        Check { name: "radiosity is not negative", found: (-least).max(0.0), tolerated: 0.0 },
        Check {
            name: "radiosity stays below the brightest furnace",
            found: most / furnace,
            tolerated: 1.0 + ENERGY_TOLERANCE,
        },
        Check {
            name: "rows of form factors do not exceed 1",
            found: closure.patch_excess,
            tolerated: ROW_EXCESS,
        },
    ];
    if scene.closed {
        let found = (closure.patch_median - 1.0).abs();
        checks.push(Check {
            name: "median row of form factors is 1",
            found,
            tolerated: ROW_TOLERANCE,
        });
        checks.push(Check {
            name: "rows as estimated make and lose no light",
            found: (gain / emitted).abs(),
            tolerated: UNSCALED_TOLERANCE,
        });
        let tolerated = if closure.scaled { ENERGY_TOLERANCE } else { UNSCALED_TOLERANCE };
        let found = (absorbed / emitted - 1.0).abs();
        checks.push(Check { name: "what is emitted is absorbed", found, tolerated });
    }
    Physics { emitted, absorbed, unscaled_gain: gain / emitted, checks }
}

/// Form factors of the unit cube and the furnace against their exact values: the program's own
/// checks, for machines on which the tests do not run.
pub fn analytic_checks() -> Vec<Check> {
    let [floor, ceiling, wall, ..] = unit_cube();
    let off = |from, to, exact: f64| (between_quads(from, to, 24) - exact).abs();
    let (parallel, perpendicular) = (off(&floor, &ceiling, 0.199825), off(&floor, &wall, 0.200044));
    vec![
        Check { name: "form factor of parallel squares", found: parallel, tolerated: 5e-7 },
        Check {
            name: "form factor of squares with an edge",
            found: perpendicular,
            tolerated: 5e-7,
        },
        Check { name: "furnace", found: furnace_distance(0.5, true), tolerated: 1e-6 },
        Check {
            name: "furnace without closure",
            found: furnace_distance(0.5, false),
            tolerated: 0.01,
        },
    ]
}

/// The largest relative distance of the furnace's meshes from B = e / (1 - rho), with closure;
/// the distance of their mean without it.
pub fn furnace_distance(reflectance: f64, closure: bool) -> f64 {
    let settings = Settings {
        iterations: 8,
        epsilon: 5e-4,
        least_area: 1e-3,
        converged: 1e-6,
        closure,
        watch: Watch::default(),
        memory_limit: u64::MAX,
    };
    let never = AtomicBool::new(false);
    let Ok(solution) = solve(&furnace(reflectance, 1.0), &settings, &mut |_, _| {}, &never) else {
        return f64::NAN; // fails every comparison
    };
    let exact = 1.0 / (1.0 - reflectance);
    let (mut farthest, mut sum, mut area) = (0.0f64, 0.0, 0.0);
    solution.hierarchy.leaves(|_, element| {
        let distance = element.light.radiosity.get().0[0] / exact - 1.0;
        farthest = farthest.max(distance.abs());
        sum += distance * element.area;
        area += element.area;
    });
    if closure { farthest } else { (sum / area).abs() }
}
