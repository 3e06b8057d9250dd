//! Every model under the oracle that the core's policies stand under.

use freehold_blocks::policy::{POLICIES, Policy, Visitor};
use freehold_lab::models::{self, MODELS};
use freehold_testkit::{Failure, Program, hunt, run_program};

struct Hunt;

impl Visitor for Hunt {
    type Out = Result<(), Failure>;

    fn visit<P: Policy>(self) -> Self::Out {
        hunt(48, |program: &Program| run_program::<P>(program, 1).map(drop))
    }
}

#[test]
fn every_model_keeps_the_promises_of_a_policy() {
    for model in MODELS {
        let found = models::dispatch(model.name, Hunt).expect("registered");
        if let Err(failure) = found {
            panic!("{}: {failure:?}", model.name);
        }
    }
}

#[test]
fn the_registry_is_the_core_s_with_the_models_added() {
    let names: Vec<_> = models::all().map(|policy| policy.name).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "no model has a policy's name");
    assert_eq!(names.len(), POLICIES.len() + MODELS.len());
    assert!(models::dispatch("best-fit", Hunt).is_some());
    assert!(models::dispatch("no-such-fit", Hunt).is_none());
}
