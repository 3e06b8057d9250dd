//! Dependencies point downwards only: who may use whom, as a table.

use super::Finding;
use crate::sources::Source;

/// A crate's folder and the crates of ours it may depend on. What is not listed is forbidden.
/// ARCHITECTURE.md draws the same picture.
const MAY_USE: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("os", &["core"]),
    ("freehold", &["core", "os"]),
    ("capi", &["core", "os", "freehold"]),
    ("testkit", &["core", "os"]),
    ("trace", &[]),
    ("record", &[]),
    ("replayer", &[]),
    ("workloads", &[]),
    ("guest", &["core"]),
    ("stepper", &[]),
    ("hotplug", &["core"]),
    ("collect", &["record", "trace"]),
    ("sim", &["core"]),
    ("lab", &["core", "os", "trace", "collect", "replayer", "sim", "stepper", "workloads"]),
    ("cli", &["core", "trace", "collect", "hotplug", "lab", "workloads"]),
];

/// What only tests may use, whoever they are.
const TESTS_MAY_USE: &[&str] = &["testkit", "trace", "lab", "guest"];

/// Paths that core must never name: it is a state machine without a world (DESIGN, rule 1).
const ABSENT_FROM_CORE: &[&str] = &["std::", "libc::", "extern crate std", "thread_local!"];

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let manifests = sources.iter().filter(|source| {
        source.path.starts_with("crates/") && source.path.ends_with("/Cargo.toml")
    });
    let mut findings: Vec<Finding> = manifests.flat_map(check_manifest).collect();
    for source in sources.iter().filter(|source| is_shipped_core(source)) {
        findings.extend(check_core(source));
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
        if name == "core" && !tests && !used.is_empty() {
            findings.push(Finding::of(&source.path, "core has no dependencies"));
        }
    }
    findings
}

fn is_shipped_core(source: &Source) -> bool {
    source.path.starts_with("crates/core/src/")
        && source.is_rust()
        && !source.path.contains("tests")
}

fn check_core(source: &Source) -> Vec<Finding> {
    let shipped = source.lines().take_while(|(_, line)| !line.contains("#[cfg(test)]"));
    shipped
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .flat_map(|(number, line)| {
            let named = ABSENT_FROM_CORE.iter().filter(move |path| names(line, path));
            named.map(move |path| Finding::at(source, number, format!("core never names {path}")))
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
