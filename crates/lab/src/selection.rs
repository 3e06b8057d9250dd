//! What `--on` means: which policies and which allocators.

use crate::malloc;
use crate::models::{self, MODELS};
use crate::real::{self, Allocator, RealError};
use freehold_blocks::policy::POLICIES;
use std::path::Path;

/// Words that stand for several.
const GROUPS: [&str; 4] = ["policies", "models", "allocators", "all"];
/// Words that stand for no policy and no allocator of the machine.
const OTHERS: [&str; 1] = [malloc::NAME];

/// How many near names an error offers.
const OFFERED: usize = 3;

/// What to replay on, without repetition, in the order asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// Names in the registry of policies and models.
    pub policies: Vec<&'static str>,
    /// Found on this machine.
    pub allocators: Vec<Allocator>,
    /// Freehold's malloc on a simulated machine.
    pub malloc: bool,
}

/// A name that means nothing here.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// Neither policy nor allocator nor path.
    #[error(
        "nothing is called {name:?}: {offer}`freehold policies` lists the policies, `freehold replay --help` tells of allocators"
    )]
    Unknown {
        /// The name.
        name: String,
        /// The nearest names, as a clause.
        offer: String,
    },
    /// An allocator that this machine does not have, or a path that leads nowhere.
    #[error(transparent)]
    Allocator(#[from] RealError),
    /// An empty list.
    #[error("nothing to replay on: --on wants names, separated by commas")]
    Empty,
}

impl Selection {
    /// Reads a list such as `best-fit,jemalloc,./libfoo.so` or `policies,glibc`. The groups leave
    /// out the `-list` variants of policies: they choose the same blocks, only slower; and `all`
    /// leaves out the models of allocators, which it has for real. `own` are allocators that the
    /// caller brings along, by name.
    ///
    /// # Errors
    /// When a name is unknown or an allocator is not on this machine.
    pub fn parse(list: &str, own: &[(&str, &Path)]) -> Result<Self, SelectionError> {
        let mut selection = Self::default();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            selection.add(name, own)?;
        }
        match selection == Self::default() {
            true => Err(SelectionError::Empty),
            false => Ok(selection),
        }
    }

    fn add(&mut self, name: &str, own: &[(&str, &Path)]) -> Result<(), SelectionError> {
        if matches!(name, "policies" | "all") {
            let chosen = POLICIES.iter().map(|policy| policy.name);
            chosen.filter(|name| !name.ends_with("-list")).for_each(|name| self.add_policy(name));
        }
        if name == "models" {
            MODELS.iter().for_each(|model| self.add_policy(model.name));
        }
        if matches!(name, "allocators" | "all") {
            real::installed(own).into_iter().for_each(|allocator| self.add_allocator(allocator));
        }
        self.malloc |= matches!(name, malloc::NAME | "all");
        if GROUPS.contains(&name) || name == malloc::NAME {
            return Ok(());
        }
        if let Some(policy) = models::all().find(|policy| policy.name == name) {
            self.add_policy(policy.name);
            return Ok(());
        }
        let is_path = name.contains('/') || name.ends_with(".so");
        let is_known =
            own.iter().any(|own| own.0 == name) || real::known_names().any(|known| known == name);
        if !is_path && !is_known {
            return Err(unknown(name, own));
        }
        self.add_allocator(real::find(name, own)?);
        Ok(())
    }

    fn add_policy(&mut self, name: &'static str) {
        if !self.policies.contains(&name) {
            self.policies.push(name);
        }
    }

    fn add_allocator(&mut self, allocator: Allocator) {
        if !self.allocators.contains(&allocator) {
            self.allocators.push(allocator);
        }
    }
}

fn unknown(name: &str, own: &[(&str, &Path)]) -> SelectionError {
    let known: Vec<&'static str> = models::all()
        .map(|policy| policy.name)
        .chain(real::known_names())
        .chain(GROUPS)
        .chain(OTHERS)
        .collect();
    let all = known.iter().copied().map(|name: &str| name).chain(own.iter().map(|own| own.0));
    let near = nearest(name, all);
    let offer = match near.as_slice() {
        [] => String::new(),
        [one] => format!("did you mean {one}? "),
        [most @ .., last] => format!("did you mean {} or {last}? ", most.join(", ")),
    };
    SelectionError::Unknown { name: name.to_owned(), offer }
}

/// Up to [`OFFERED`] names that are near enough to be meant, the nearest first.
fn nearest<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut near: Vec<(f64, &str)> = all
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .filter(|one| one.0 > 0.8)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.dedup_by_key(|one| one.1);
    near.into_iter().take(OFFERED).map(|one| one.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_leave_out_the_lists_and_nothing_is_taken_twice() {
        let selection = Selection::parse("best-fit, policies,best-fit-list", &[]).unwrap();
        assert_eq!(selection.policies[0], "best-fit");
        let lists = selection.policies.iter().filter(|name| name.ends_with("-list"));
        assert_eq!(lists.collect::<Vec<_>>(), [&"best-fit-list"], "the one that was named");
        let mut unique = selection.policies.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), selection.policies.len());
        assert!(selection.allocators.is_empty());
    }

    #[test]
    fn models_are_policies_of_their_own_group() {
        let selection = Selection::parse("models,best-fit,tlsf", &[]).unwrap();
        assert_eq!(
            selection.policies,
            ["dlmalloc", "tcmalloc", "tlsf", "tlsf-2.4.6", "tlsf-3.1", "best-fit"]
        );
        let all = Selection::parse("policies", &[]).unwrap().policies;
        assert!(all.contains(&"dmrt") && !all.contains(&"tlsf"));
    }

    #[test]
    fn glibc_is_always_there() {
        let names = |list| -> Vec<String> {
            let found: Vec<Allocator> = Selection::parse(list, &[]).unwrap().allocators;
            found.into_iter().map(|allocator| allocator.name).collect()
        };
        assert_eq!(names("glibc,good-fit,glibc"), ["glibc"]);
        assert!(names("all").contains(&"glibc".to_owned()));
    }

    #[test]
    fn the_malloc_is_a_name_of_its_own() {
        let selection = |list| Selection::parse(list, &[]).unwrap();
        let alone = selection("malloc");
        assert!(alone.malloc && alone.policies.is_empty() && alone.allocators.is_empty());
        assert!(selection("all").malloc && !selection("policies,glibc").malloc);
    }

    #[test]
    fn a_slip_of_the_pen_is_offered_the_nearest_names() {
        let said = |list| Selection::parse(list, &[]).unwrap_err().to_string();
        assert!(said("frist-fit").contains("did you mean first-fit"), "{}", said("frist-fit"));
        assert!(said("jemaloc").contains("did you mean jemalloc"), "{}", said("jemaloc"));
        assert!(said("zzz").starts_with("nothing is called \"zzz\": `freehold"), "{}", said("zzz"));
        assert!(said(" , ").starts_with("nothing to replay on"));
        assert!(said("./missing.so").contains("missing.so"));
    }
}
