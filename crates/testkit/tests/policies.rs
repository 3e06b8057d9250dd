//! Every registered policy under the oracle. A new line in the registry is tested without an edit.

use freehold_blocks::policy::{POLICIES, Policy, Visitor, dispatch};
use freehold_testkit::{Failure, Program, hunt, run_program};

/// Runs one hunt on whatever policy it visits.
struct Hunt;

impl Visitor for Hunt {
    type Out = Result<(), Failure>;

    fn visit<P: Policy>(self) -> Self::Out {
        hunt(48, |program: &Program| run_program::<P>(program, 1).map(drop))
    }
}

#[test]
fn every_policy_keeps_its_promises() {
    std::thread::scope(|scope| {
        for policy in POLICIES {
            scope.spawn(move || {
                let found = dispatch(policy.name, Hunt).expect("registered");
                if let Err(failure) = found {
                    panic!("{}: {failure:?}", policy.name);
                }
            });
        }
    });
}

#[test]
fn names_are_unique_and_unknown_ones_are_refused() {
    let mut names: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), POLICIES.len());
    assert!(POLICIES.iter().all(|policy| !policy.about.is_empty()));
    assert!(dispatch("no-such-fit", Hunt).is_none());
}
