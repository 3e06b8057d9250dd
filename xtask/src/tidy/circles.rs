//! No circle of imports among the files of the malloc, of its library, and of what it shows to C.

use super::Finding;
use crate::house::circle_in;
use crate::sources::{self, Source};

/// A crate's folder, and the folder in it without circles.
const WITHOUT: &[(&str, &str)] = &[
    ("core", "crates/core/src/malloc/"),
    ("freehold", "crates/freehold/src/"),
    ("capi", "crates/capi/src/"),
];

pub fn check(_: &[Source]) -> Vec<Finding> {
    let root = sources::root();
    let circles = WITHOUT.iter().map(|(name, folder)| (folder, circle_in(&root, name, folder)));
    circles
        .filter(|(_, circle)| !circle.is_empty())
        .map(|(folder, circle)| {
            let files = circle.join(", ");
            Finding::of(folder, format!("these use each other in a circle: {files}"))
        })
        .collect()
}
