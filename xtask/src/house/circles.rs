//! Import circles: files that use each other, directly or by way of others.

use super::crates::Crate;
use std::collections::{BTreeMap, BTreeSet};

/// The files of the largest circle among those below the folders, sorted; none when no two files use each other.
pub fn largest(found: &Crate, folders: &[String]) -> Vec<String> {
    let inside = |path: &str| folders.iter().any(|folder| path.starts_with(folder.as_str()));
    let files = found.files.iter().filter(|file| inside(&file.path));
    let uses = files.map(|file| {
        (file.path.as_str(), found.uses(file).into_iter().filter(|path| inside(path)).collect())
    });
    circle(&uses.collect())
}

/// The largest set of at least two that all reach each other; of several the first.
fn circle(uses: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        uses.keys().map(|from| (*from, reach(uses, from))).collect();
    let mut largest = Vec::new();
    for (from, to) in &reached {
        let back =
            to.iter().filter(|to| reached.get(*to).is_some_and(|reached| reached.contains(from)));
        let members: Vec<String> = back.map(|file| (*file).to_owned()).collect();
        if members.len() > largest.len().max(1) {
            largest = members;
        }
    }
    largest
}

/// All that is used from here, by however many steps.
fn reach<'a>(uses: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut todo: Vec<&str> = uses.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = todo.pop() {
        if reached.insert(file) {
            todo.extend(uses.get(file).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::circle;

    #[test]
    fn the_largest_circle_is_found() {
        let uses = [
            ("a", vec!["b"]),
            ("b", vec!["c"]),
            ("c", vec!["a", "d"]),
            ("d", vec!["e"]),
            ("e", vec!["d"]),
        ];
        let mut uses = uses.map(|(from, to)| (from, to.into_iter().collect())).into();
        assert_eq!(circle(&uses), ["a", "b", "c"]);
        uses.remove("a");
        assert_eq!(circle(&uses), ["d", "e"]);
        uses.remove("d");
        assert!(circle(&uses).is_empty(), "a file that leads nowhere is in no circle");
    }
}
