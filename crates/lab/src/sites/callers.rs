//! Who called a site: caller by caller, the one through which most came.
//!
//! A site has many stacks, and no single one need say much: a caller through which a thousand small stacks go counts for more than the
//! caller of the largest one. So callers are chosen from the site outwards, each among the stacks that go through those before.
//! What was never freed may have come through others than what was held: every [`Measure`] has its own callers.
//!
//! Complexity: for each measure the frames of the stacks that are left, which soon are few.

use super::fold::{self, Around, Folding};
use super::text;
use super::tree::{Bytes, Measure};
use freehold_trace::{StackId, Stacks};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The callers of a site.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Callers {
    /// The next one first, by function and place.
    #[serde(rename = "callers")]
    pub names: Vec<String>,
    /// Those further out are unknown.
    pub cut: bool,
}

impl From<&Around> for Callers {
    fn from(around: &Around) -> Callers {
        let names = around.callers.iter().map(|f| text(&f.name, f.place.as_deref())).collect();
        Callers { names, cut: around.cut }
    }
}

/// What stands around a site.
pub(super) struct Surroundings {
    /// Of what it held at the peak; of all that it allocated, if it held nothing then.
    pub(super) most: Around,
    /// Of each measure by which others come first.
    pub(super) others: BTreeMap<Measure, Callers>,
}

/// What stands around a site with these stacks; none if it did nothing.
pub(super) fn surroundings(
    stacks: &Stacks,
    folding: &Folding,
    of_site: &[(StackId, Bytes)],
) -> Option<Surroundings> {
    let by = |measure: Measure| {
        let amounts = of_site.iter().map(|(stack, bytes)| (*stack, bytes[measure as usize]));
        most_travelled(stacks, folding, amounts)
    };
    // An object may have no bytes; its stack is one all the same.
    let first = || of_site.iter().map(|(stack, _)| *stack).min();
    let stack = by(Measure::Peak).or_else(|| by(Measure::Allocated)).or_else(first)?;
    let function = folding.function(folding.site(stack));
    let around = |stack| fold::around(stacks, stack, function);
    let most = around(stack);
    let known = Callers::from(&most);
    let other = |measure| {
        let callers =
            by(measure).filter(|other| *other != stack).map(|other| Callers::from(&around(other)));
        callers.filter(|callers| *callers != known).map(|callers| (measure, callers))
    };
    let others = Measure::ALL.into_iter().filter_map(other).collect();
    Some(Surroundings { most, others })
}

/// The stack whose callers are, from the site outwards, those through which most came; none if nothing came.
pub(super) fn most_travelled(
    stacks: &Stacks,
    folding: &Folding,
    amounts: impl Iterator<Item = (StackId, u64)>,
) -> Option<StackId> {
    let way = |(stack, amount)| Way { stack, amount, at: folding.outwards_of_site(stacks, stack) };
    let mut left: Vec<Way> = amounts.filter(|(_, amount)| *amount > 0).map(way).collect();
    while left.len() > 1 {
        let mut by_next: FxHashMap<Option<u32>, u64> = FxHashMap::default();
        for way in &left {
            *by_next.entry(way.next(stacks, folding)).or_default() += way.amount;
        }
        let (next, _) =
            by_next.into_iter().max_by_key(|&(next, amount)| (amount, Reverse(next)))?;
        if next.is_none() {
            break;
        }
        left.retain(|way| way.next(stacks, folding) == next);
        left.iter_mut().for_each(|way| way.at = stacks.node(way.at).unwrap_or_default().0);
    }
    left.into_iter().max_by_key(|way| (way.amount, Reverse(way.stack))).map(|way| way.stack)
}

/// A stack on the way outwards.
struct Way {
    stack: StackId,
    amount: u64,
    /// Where on it the next functions are.
    at: StackId,
}

impl Way {
    /// The next functions, by a number; none at its outer end.
    fn next(&self, stacks: &Stacks, folding: &Folding) -> Option<u32> {
        stacks.node(self.at).map(|(_, frame)| folding.functions_of(frame))
    }
}
