//! The trees choose the very blocks that the lists of the textbooks choose, call by call; and the
//! published DmRT those that good fit chooses, as long as nothing is as large as 2 MiB.

use freehold_blocks::policy::Policy;
use freehold_blocks::{
    BestFit, BestFitList, DmrtPaper, FirstFit, FirstFitList, GoodFit, NextFit, NextFitList,
    WorstFit, WorstFitList,
};
use freehold_testkit::{hunt, run_program};

fn assert_twins<Tree: Policy, List: Policy>() {
    let found = hunt(96, |program| {
        let tree = run_program::<Tree>(program, usize::MAX)?;
        let list = run_program::<List>(program, usize::MAX)?;
        match tree.iter().zip(&list).position(|(tree, list)| tree != list) {
            None => Ok(()),
            Some(i) => Err(format!(
                "call {i}, {:?}: the one chose {:?}, the other {:?}",
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

#[test]
fn dmrt_below_2_mib_is_good_fit() {
    assert_twins::<DmrtPaper, GoodFit>();
}
