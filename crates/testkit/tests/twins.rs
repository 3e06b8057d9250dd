//! The trees choose the very blocks that the lists of the textbooks choose, call by call.

use freehold_core::blocks::{
    BestFit, BestFitList, FirstFit, FirstFitList, NextFit, NextFitList, WorstFit, WorstFitList,
};
use freehold_core::policy::Policy;
use freehold_testkit::{hunt, run_program};

fn assert_twins<Tree: Policy, List: Policy>() {
    let found = hunt(96, |program| {
        let tree = run_program::<Tree>(program, usize::MAX)?;
        let list = run_program::<List>(program, usize::MAX)?;
        match tree.iter().zip(&list).position(|(tree, list)| tree != list) {
            None => Ok(()),
            Some(i) => Err(format!(
                "call {i}, {:?}: the tree chose {:?}, the list {:?}",
                program.ops[i], tree[i], list[i]
            )),
        }
    });
    if let Err(failure) = found {
        panic!("{failure:?}");
    }
}

#[test]
fn first_fit() {
    assert_twins::<FirstFit, FirstFitList>();
}

#[test]
fn next_fit() {
    assert_twins::<NextFit, NextFitList>();
}

#[test]
fn best_fit() {
    assert_twins::<BestFit, BestFitList>();
}

#[test]
fn worst_fit() {
    assert_twins::<WorstFit, WorstFitList>();
}
