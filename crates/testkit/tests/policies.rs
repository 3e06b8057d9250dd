//! Every registered policy under the oracle. A new line in the registry is tested without an edit.

use freehold_blocks::policy::{POLICIES, Policy, Visitor, dispatch};
use freehold_testkit::{Failure, Program, ShadowHeap, SimRegion, hunt, run_program};

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

/// Whether it knows its longest holes, without a walk over all blocks.
struct Knows;

impl Visitor for Knows {
    type Out = bool;

    fn visit<P: Policy>(self) -> bool {
        let heap = ShadowHeap::<P>::new(SimRegion::shifted(1 << 16, 0)).expect("long enough");
        heap.policy().largest_free_inside().is_some()
    }
}

#[test]
fn policies_know_their_longest_holes() {
    let knows = |name: &&str| dispatch(name, Knows).expect("registered");
    let names = POLICIES.iter().map(|policy| policy.name);
    let walked: Vec<&str> = names.filter(|name| !knows(name)).collect();
    let lists = ["first", "next", "best", "worst"].map(|fit| format!("{fit}-fit-list"));
    assert!(
        walked.iter().all(|name| *name == "buddy" || lists.contains(&(*name).to_owned())),
        "{walked:?}"
    );
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
