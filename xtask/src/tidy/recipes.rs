//! Commands and paths in the documents a newcomer follows: the files, tests and chores that they name exist.
//!
//! ```text
//! `crates/core/src/frames/`                  is there
//! cargo test -p freehold-lab --test models   crates/lab has tests/models.rs, or a folder of that name with a main.rs
//! cargo run -p X --example Y                 X has examples/Y.rs
//! cargo xtask bench-recorder                 xtask has src/bench/recorder.rs
//! ```

use super::Finding;
use crate::sources::{Source, root};
use std::path::Path;

/// The documents that tell what to type and where to write.
const DOCUMENTS: [&str; 3] = ["CONTRIBUTING.md", "README.md", "ARCHITECTURE.md"];
/// How paths from the root of the project begin.
const FOLDERS: [&str; 7] = ["crates/", "xtask/", "studies/", "fuzz/", "bench/", "docs/", ".ci/"];

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let documents = sources.iter().filter(|source| DOCUMENTS.contains(&source.path.as_str()));
    documents.flat_map(check_file).collect()
}

fn check_file(source: &Source) -> Vec<Finding> {
    let found = source.lines().flat_map(|(number, line)| {
        missing(line).into_iter().map(move |message| Finding::at(source, number, message))
    });
    found.collect()
}

/// What a line names that is not there.
fn missing(line: &str) -> Vec<String> {
    let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || "`();,".contains(c)).collect();
    let package = after(&words, "-p").and_then(folder_of);
    let mut wanted: Vec<String> = words.iter().copied().filter_map(path_in).collect();
    if let Some(folder) = &package {
        wanted.extend(after(&words, "--test").map(|test| format!("{folder}/tests/{test}")));
        wanted.extend(after(&words, "--example").map(|name| format!("{folder}/examples/{name}")));
    }
    wanted.extend(chore(&words));
    wanted.retain(|path| !exists(path));
    wanted.into_iter().map(|path| format!("`{path}` is named here and does not exist")).collect()
}

/// The word after another one.
fn after<'a>(words: &[&'a str], word: &str) -> Option<&'a str> {
    let at = words.iter().position(|found| *found == word)?;
    words.get(at + 1).copied()
}

/// Where a package of ours lives.
fn folder_of(package: &str) -> Option<String> {
    match package {
        "xtask" => Some("xtask".to_owned()),
        "freehold" => Some("crates/freehold".to_owned()),
        _ => package.strip_prefix("freehold-").map(|name| format!("crates/{name}")),
    }
}

/// A word that is a path of ours, without the line's punctuation. A word with wildcards or of another tree is none.
fn path_in(word: &str) -> Option<String> {
    let path = word.trim_end_matches(['.', ':', '/']);
    let is_ours = FOLDERS.iter().any(|folder| word.starts_with(folder));
    let is_plain = path.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
    (is_ours && is_plain).then(|| path.to_owned())
}

/// The file of the chore that a line calls.
fn chore(words: &[&str]) -> Option<String> {
    let name = words.windows(3).find(|three| three[0] == "cargo" && three[1] == "xtask")?[2];
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    (is_name && !name.starts_with('-')).then(|| format!("xtask/src/{}", name.replace('-', "/")))
}

/// Whether a path is there: as it is, as Rust, or as a folder of a program.
fn exists(path: &str) -> bool {
    let at = |path: &str| root().join(Path::new(path)).exists();
    at(path) || at(&format!("{path}.rs"))
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn what_a_recipe_names_exists() {
        for good in [
            "add one file in `crates/blocks/src/` and a line in `crates/blocks/src/policy.rs`.",
            "cargo test -p freehold-lab --test models",
            "`cargo run -p freehold-blocks --example add_a_policy`",
            "cargo xtask bench-recorder and cargo test -p xtask --test tails",
        ] {
            assert_eq!(missing(good), Vec::<String>::new(), "{good}");
        }
        for bad in [
            "see `crates/core/src/heap/outbox.rs`",
            "cargo test -p freehold-lab --test no_such_test",
            "cargo run -p freehold-core --example none",
            "cargo xtask no-such-chore",
        ] {
            assert_eq!(missing(bad).len(), 1, "{bad}");
        }
    }
}
