//! The rules on a small tree that is made up here.

use super::crates::Crate;
use super::figures::{self, Part, Scope};
use super::{circles, methods};
use std::collections::BTreeSet;
use std::path::Path;

/// Files of a crate `core`: `lists` and `slab` use each other, `lists` by a re-export; `tag` is used by all and uses nobody.
const TREE: [(&str, &str); 8] = [
    ("Cargo.toml", "[package]\nname = \"freehold-core\"\n"),
    ("src/lib.rs", "//! A crate.\npub mod malloc;\n"),
    (
        "src/malloc/mod.rs",
        "//! The malloc.\nmod lists;\nmod slab;\npub mod tag;\nmod walk;\npub use slab::Slab;\n#[cfg(test)]\nmod tests;\n",
    ),
    (
        "src/malloc/lists.rs",
        "//! Lists of `crate::malloc::walk`.\nuse super::{Slab, tag::{self, Tag as Mark}};\n\npub struct Lists<T>(T);\n\
         impl<T: Fn() -> Slab> Lists<T> {\n    pub fn first(&self) -> Mark { tag::none() }\n    fn last(&self) {}\n}\n",
    ),
    (
        "src/malloc/slab.rs",
        "//! Slabs.\npub struct Slab; // one\n\nimpl Slab {\n    /// What.\n    pub fn new() -> Slab {\n        \
         fn inner() {}\n        crate::malloc::lists::begin();\n        Slab\n    }\n}\nimpl Drop for Slab {\n    fn drop(&mut self) {}\n}\n\
         #[cfg(test)]\nmod tests {\n    use super::super::walk::Walk;\n}\n",
    ),
    ("src/malloc/tag.rs", "//! Tags.\npub struct Tag;\npub fn none() -> Tag { Tag }\n"),
    (
        "src/malloc/walk.rs",
        "//! Walks.\nuse super::lists::Lists;\nuse super::slab;\nimpl slab::Slab {\n    pub fn walk(&self, lists: &Lists<u8>) {}\n}\n",
    ),
    (
        "src/malloc/tests.rs",
        "//! Never declared but for tests.\nuse super::walk::Walk;\nuse super::lists::Lists;\n",
    ),
];

fn tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (path, text) in TREE {
        let path = folder.path().join("crates/core").join(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("a folder in it");
        std::fs::write(path, text).expect("a file in it");
    }
    folder
}

fn core(root: &Path) -> Crate {
    Crate::read(root, "core").expect("it has a lib.rs")
}

#[test]
fn a_crate_is_read_along_its_modules_without_tests() {
    let folder = tree();
    let core = core(folder.path());
    assert_eq!(core.name, "freehold_core");
    let names: Vec<&str> =
        core.files.iter().filter_map(|file| file.path.strip_prefix("crates/core/src/")).collect();
    assert_eq!(
        names,
        [
            "lib.rs",
            "malloc/mod.rs",
            "malloc/lists.rs",
            "malloc/slab.rs",
            "malloc/tag.rs",
            "malloc/walk.rs"
        ]
    );
    let path = |text: &str| text.split("::").map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(core.file_of(&path("malloc::tag::Tag")).path, "crates/core/src/malloc/tag.rs");
}

#[test]
fn paths_count_for_the_file_that_defines_what_they_name() {
    let folder = tree();
    let core = core(folder.path());
    let uses = |name: &str| {
        let file = core.files.iter().find(|file| file.path.ends_with(name)).expect("it is there");
        core.uses(file)
            .into_iter()
            .map(|path| path.rsplit('/').next().unwrap_or(path))
            .collect::<Vec<_>>()
    };
    assert_eq!(uses("lists.rs"), ["slab.rs", "tag.rs"], "by a re-export, and by a module's name");
    assert_eq!(uses("slab.rs"), ["lists.rs"]);
    assert_eq!(uses("walk.rs"), ["lists.rs", "slab.rs"]);
    assert!(uses("malloc/mod.rs").is_empty(), "a re-export uses nothing");
    assert!(uses("tag.rs").is_empty());
}

#[test]
fn the_largest_circle_leaves_out_who_only_uses() {
    let folder = tree();
    let core = core(folder.path());
    let largest = |malloc: &str| circles::largest(&core, &[malloc.to_owned()]);
    assert_eq!(
        largest("crates/core/src/"),
        ["crates/core/src/malloc/lists.rs", "crates/core/src/malloc/slab.rs"]
    );
    assert!(largest("crates/core/src/malloc/walk.rs").is_empty(), "one file is no circle");
}

#[test]
fn methods_count_for_their_type_wherever_they_stand() {
    let folder = tree();
    let counted = methods::count(&core(folder.path()), |_| true);
    let counted: Vec<_> = counted.into_iter().collect();
    assert_eq!(
        counted,
        [
            ("Lists (crates/core/src/malloc/lists.rs)".to_owned(), (2, 1)),
            ("Slab (crates/core/src/malloc/slab.rs)".to_owned(), (2, 2)),
        ]
    );
}

#[test]
fn parts_are_of_linked_files_only() {
    let folder = tree();
    let malloc = ["crates/core/src/malloc".to_owned()];
    let scope = Scope::of(folder.path(), &malloc).expect("it is there");
    let linked = ["slab", "tag"].map(|name| format!("crates/core/src/malloc/{name}.rs"));
    let parts = figures::parts(&scope, &BTreeSet::from(linked));
    let both = Part { files: 2, code: 13, comments: 3 };
    assert_eq!(
        parts.into_iter().collect::<Vec<_>>(),
        [("all".to_owned(), both), ("core".to_owned(), both), ("the malloc".to_owned(), both),]
    );
    assert!(
        Scope::of(folder.path(), &["crates/core/src/heap".to_owned()]).is_err(),
        "no such folder"
    );
}

/// A `mod` that the rules misread would hide a file from every figure.
#[test]
fn every_file_of_the_project_is_reached_but_tests() {
    let root = crate::sources::root();
    let found = Scope::of(&root, &[]).expect("the project is here");
    let reached: BTreeSet<&str> =
        found.crates.iter().flat_map(|one| &one.files).map(|file| file.path.as_str()).collect();
    let sources = crate::sources::all().expect("a git checkout");
    let ours = |path: &str| {
        found.crates.iter().any(|one| path.starts_with(&format!("crates/{}/src/", one.folder)))
    };
    let shipped = sources.iter().filter(|file| file.is_rust() && ours(&file.path));
    let hidden: Vec<&str> = shipped
        .map(|file| file.path.as_str())
        .filter(|path| !path.ends_with("tests.rs") && !reached.contains(path))
        .collect();
    assert!(hidden.is_empty(), "{hidden:?}");
    assert!(reached.len() > 100, "{}", reached.len());
}
