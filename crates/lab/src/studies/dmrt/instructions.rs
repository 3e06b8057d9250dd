//! Instructions of requests and frees, counted one by one: only when asked for, for they depend on who compiled.
//!
//! A request's are those of all the policies it asked, as its steps are. One attempt of each case, with the load
//! that is the middle one: every instruction is a trap. The choice of the memories is not counted; a counted call's
//! own few instructions are.
//!
//! Invariant: a counted policy does what it does uncounted. Where its steps would be told, instructions are.

use super::config::{Case, Plan};
use super::measure::Row;
use super::tables::{self, Banks, RunError};
use freehold_blocks::Region;
use freehold_blocks::align::Align;
use freehold_blocks::check::Broken;
use freehold_blocks::policy::{BlockInfo, Inspect, Policy, Totals};
use freehold_blocks::probe::{Probe, Step};
use freehold_stepper::Stepper;
use serde::Serialize;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

/// What an allocator's calls took.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Instructions {
    /// The case.
    pub case: u32,
    /// Requests of the attempt.
    pub requests: u32,
    /// The allocator.
    pub allocator: &'static str,
    /// Mean of a request or free.
    pub mean: f64,
    /// Its 99th percentile.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// Counts the first attempt of every case. `None` where instructions are not counted. `progress` hears how many
/// cases of how many are done.
///
/// # Errors
/// As [`tables::run`].
pub fn count(
    plan: &Plan,
    progress: &mut dyn FnMut(u64, u64),
    interrupted: &AtomicBool,
) -> Result<Option<Vec<Instructions>>, RunError> {
    let Some(stepper) = Stepper::new() else { return Ok(None) };
    let stepper = RefCell::new(stepper);
    let load = plan.loads[plan.loads.len() / 2];
    let (mut found, mut banks) = (Vec::new(), Banks::default());
    for (i, case) in plan.cases.iter().enumerate() {
        progress(i as u64, plan.cases.len() as u64);
        if interrupted.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        found.extend(of_case(plan, case, load, &mut banks, &stepper)?);
    }
    Ok(Some(found))
}

fn of_case(
    plan: &Plan,
    case: &Case,
    load: u32,
    banks: &mut Banks,
    stepper: &RefCell<Stepper>,
) -> Result<Vec<Instructions>, RunError> {
    let rows = tables::attempt(plan, case, load, 0, banks, Some(stepper))?;
    let counted = |row: Row| Instructions {
        case: case.number,
        requests: load,
        allocator: row.allocator,
        mean: row.steps_mean,
        p99: row.steps_p99,
        max: row.steps_max,
    };
    Ok(rows.into_iter().map(counted).collect())
}

/// A policy that tells instructions where others tell steps.
pub struct Counted<'a, P> {
    policy: P,
    stepper: &'a RefCell<Stepper>,
}

impl<'a, P> Counted<'a, P> {
    /// `policy`, its calls counted.
    pub fn of(policy: P, stepper: &'a RefCell<Stepper>) -> Self {
        Counted { policy, stepper }
    }

    fn counted<R>(&mut self, probe: &mut impl Probe, call: impl FnOnce(&mut P) -> R) -> R {
        let policy = &mut self.policy;
        let (given, instructions) = self.stepper.borrow_mut().count_in(|| call(policy));
        (0..instructions).for_each(|_| probe.step(Step::Inspect));
        given
    }
}

impl<P: Policy> Policy for Counted<'_, P> {
    /// None: who counts comes with [`Counted::of`].
    fn new(_: Region) -> Option<Self> {
        None
    }

    fn alloc<Q: Probe>(&mut self, size: u64, align: Align, probe: &mut Q) -> Option<NonNull<u8>> {
        self.counted(probe, |policy| policy.alloc(size, align, &mut ()))
    }

    unsafe fn free<Q: Probe>(&mut self, payload: NonNull<u8>, probe: &mut Q) {
        // SAFETY: the caller's promise is the one asked for here.
        self.counted(probe, |policy| unsafe { policy.free(payload, &mut ()) });
    }

    unsafe fn resize_in_place<Q: Probe>(
        &mut self,
        payload: NonNull<u8>,
        size: u64,
        probe: &mut Q,
    ) -> bool {
        // SAFETY: the caller's promise is the one asked for here.
        self.counted(probe, |policy| unsafe { policy.resize_in_place(payload, size, &mut ()) })
    }

    unsafe fn usable(&self, payload: NonNull<u8>) -> u64 {
        // SAFETY: the caller's promise is the one asked for here.
        unsafe { self.policy.usable(payload) }
    }
}

impl<P: Policy> Inspect for Counted<'_, P> {
    fn totals(&self) -> Totals {
        self.policy.totals()
    }

    fn largest_free(&self) -> u64 {
        self.policy.largest_free()
    }

    fn largest_free_inside(&self) -> Option<u64> {
        self.policy.largest_free_inside()
    }

    fn for_each_block(&self, visit: impl FnMut(BlockInfo)) {
        self.policy.for_each_block(visit);
    }

    fn check(&self) -> Result<(), Broken> {
        self.policy.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::dmrt::DEFAULT;
    use crate::studies::settings::Settings;

    #[test]
    fn counted_allocators_serve_what_they_serve_uncounted() {
        let mut settings = Settings::of_default(DEFAULT).unwrap();
        for change in
            ["requests=[60]", r#"allocators=["tlsf", "dmrt"]"#, "machine.capacity=4M", "attempts=1"]
        {
            settings.set(change).unwrap();
        }
        let plan = Plan::new(&settings).unwrap();
        let case = &plan.cases[0];
        let mut banks = Banks::default();
        let plain = tables::attempt(&plan, case, 60, 0, &mut banks, None).unwrap();
        let Some(stepper) = Stepper::new() else {
            return freehold_testkit::skip("instructions are counted on x86-64 Linux only");
        };
        let stepper = RefCell::new(stepper);
        let counted = tables::attempt(&plan, case, 60, 0, &mut banks, Some(&stepper)).unwrap();
        for (plain, counted) in plain.iter().zip(&counted) {
            assert_eq!(plain.satisfied, counted.satisfied);
            assert_eq!((plain.external, plain.jw3), (counted.external, counted.jw3));
            assert!(counted.steps_mean > plain.steps_mean, "more instructions than steps");
        }
        let again = tables::attempt(&plan, case, 60, 0, &mut banks, Some(&stepper)).unwrap();
        assert_eq!(counted, again, "the same every time");
    }
}
