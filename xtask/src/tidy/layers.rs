//! Dependencies point downwards only: who may use whom, as a table.

use super::Finding;
use crate::sources::Source;

/// A crate's folder and the crates of ours it may depend on. What is not listed is forbidden.
/// ARCHITECTURE.md draws the same picture.
const MAY_USE: &[(&str, &[&str])] = &[
    ("blocks", &[]),
    ("core", &["blocks"]),
    ("os", &["core"]),
    ("freehold", &["blocks", "core", "os"]),
    ("capi", &["core", "os", "freehold"]),
    ("testkit", &["blocks", "core", "os"]),
    ("trace", &[]),
    ("record", &[]),
    ("replayer", &[]),
    ("workloads", &[]),
    ("guest", &["core"]),
    ("stepper", &[]),
    ("hotplug", &["core"]),
    ("collect", &["record", "trace"]),
    ("sim", &["blocks", "core"]),
    (
        "lab",
        &["blocks", "core", "os", "trace", "collect", "replayer", "sim", "stepper", "workloads"],
    ),
    ("cli", &["blocks", "core", "trace", "collect", "hotplug", "lab", "workloads"]),
];

/// What only tests may use, whoever they are.
const TESTS_MAY_USE: &[&str] = &["testkit", "trace", "lab", "guest", "stepper"];

/// Crates without a world: they never name these paths, and depend on nothing but crates of ours.
const WITHOUT_A_WORLD: [&str; 2] = ["blocks", "core"];
const THE_WORLD: &[&str] = &["std::", "libc::", "extern crate std", "thread_local!"];

/// Where core may use the policies for blocks: what reports steps and broken invariants. The malloc uses nothing of them.
const CORE_USES_BLOCKS_IN: &[&str] = &["lib.rs", "frames/", "place/mesh/"];

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let manifests = sources.iter().filter(|source| {
        source.path.starts_with("crates/") && source.path.ends_with("/Cargo.toml")
    });
    let mut findings: Vec<Finding> = manifests.flat_map(check_manifest).collect();
    for source in sources.iter().filter(|source| source.is_rust()) {
        for name in WITHOUT_A_WORLD {
            if let Some(file) = shipped(source, name) {
                findings.extend(absent(source, name, THE_WORLD));
                let free =
                    name != "core" || CORE_USES_BLOCKS_IN.iter().any(|part| file.starts_with(part));
                findings.extend(absent(
                    source,
                    name,
                    if free { &[] } else { &["freehold_blocks"] },
                ));
            }
        }
    }
    findings
}

fn check_manifest(source: &Source) -> Vec<Finding> {
    let name = source.path.trim_start_matches("crates/").trim_end_matches("/Cargo.toml");
    let Some((_, allowed)) = MAY_USE.iter().find(|(folder, _)| *folder == name) else {
        return vec![Finding::of(&source.path, "a crate without a line in tidy's table of layers")];
    };
    let Ok(manifest) = source.text.parse::<toml::Table>() else {
        return vec![Finding::of(&source.path, "not TOML")];
    };
    let mut findings = Vec::new();
    for (table, tests) in
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
    {
        let Some(used) = manifest.get(table).and_then(toml::Value::as_table) else { continue };
        for ours in used.keys().filter_map(|key| key.strip_prefix("freehold-")) {
            let may = allowed.contains(&ours) || tests && TESTS_MAY_USE.contains(&ours);
            if !may {
                findings.push(Finding::of(
                    &source.path,
                    format!("{name} may not use {ours} ({table})"),
                ));
            }
        }
        let others = used.keys().any(|key| !key.starts_with("freehold-"));
        if WITHOUT_A_WORLD.contains(&name) && !tests && others {
            findings.push(Finding::of(&source.path, format!("{name} depends on others' crates")));
        }
    }
    findings
}

/// The file's path below the crate's sources, if it ships.
fn shipped<'a>(source: &'a Source, name: &str) -> Option<&'a str> {
    let file = source.path.strip_prefix("crates/")?.strip_prefix(name)?.strip_prefix("/src/")?;
    (!file.contains("tests")).then_some(file)
}

/// Lines of the crate that name one of these paths, tests and comments left out.
fn absent(source: &Source, name: &str, paths: &[&str]) -> Vec<Finding> {
    let shipped = source.lines().take_while(|(_, line)| !line.contains("#[cfg(test)]"));
    shipped
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .flat_map(|(number, line)| {
            let named = paths.iter().filter(move |path| names(line, path));
            named.map(move |path| {
                Finding::at(source, number, format!("{name} never names {path} here"))
            })
        })
        .collect()
}

/// Whether the line names the path, not merely a longer word that ends like it.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: path.to_owned(), text: text.to_owned() };
        check(&[source]).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn the_malloc_uses_nothing_of_blocks() {
        let uses = "use freehold_blocks::probe::Probe;\n";
        let wrong = ["core never names freehold_blocks here"];
        assert_eq!(found("crates/core/src/malloc/cache.rs", uses), wrong);
        assert_eq!(found("crates/core/src/place/load.rs", uses), wrong);
        assert!(found("crates/core/src/frames/lists.rs", uses).is_empty());
        assert!(
            found("crates/core/src/malloc/mod.rs", "//! `freehold_blocks` has others.\n")
                .is_empty()
        );
        assert_eq!(
            found("crates/blocks/src/tree.rs", "use std::vec;\n"),
            ["blocks never names std:: here"]
        );
    }

    #[test]
    fn blocks_depend_on_nobody() {
        let manifest = |used: &str| {
            found("crates/blocks/Cargo.toml", &format!("[dependencies]\n{used} = \"1\"\n"))
        };
        assert_eq!(manifest("freehold-core"), ["blocks may not use core (dependencies)"]);
        assert_eq!(manifest("libc"), ["blocks depends on others' crates"]);
        assert!(found("crates/blocks/Cargo.toml", "[dependencies]\n").is_empty());
    }
}
