//! What the command is made of besides our own code, and under which licences: two files that every package with it carries.
//!
//! Ours and not cargo-about's: that takes a template, a file of settings and one more tool to pin, and guesses the texts of crates without
//! any; each of ours comes with its own, and `text` refuses one that does not. `deny.toml` says which licences may be.

use super::{copy, put, root};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The command, and what it carries inside: their folders under `crates/`.
const SHIPPED: [&str; 4] = ["cli", "record", "replayer", "capi"];

/// The crates with their texts.
pub const CRATES: &str = "THIRD-PARTY";
/// The notices of Rust's standard library, and of its own dependencies.
pub const LIBRARY: &str = "RUST-LIBRARY.html";

/// Writes both files into a folder.
pub fn write(folder: &Path) -> Result<Vec<PathBuf>> {
    let [crates, library] = [CRATES, LIBRARY].map(|name| folder.join(name));
    put(&crates, &text()?)?;
    copy(&notices_of_the_standard_library()?, &library, 0o644)?;
    Ok(vec![crates, library])
}

/// As the compiler brings them.
fn notices_of_the_standard_library() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).current_dir(root()).output();
    let said = output.context("rustc cannot be started")?.stdout;
    let file =
        Path::new(String::from_utf8(said)?.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    if !file.exists() {
        bail!(
            "this rustc comes without {}, which packages must carry; rustup's compilers have it",
            file.display()
        );
    }
    Ok(file)
}

/// The crates that the command links, with version and licence, and the texts that they come with: each text once.
fn text() -> Result<String> {
    let found = metadata()?;
    let linked = linked(&found)?;
    let mut text = String::from("The freehold command contains these crates.\n");
    let mut first = BTreeMap::new();
    for package in found["packages"].as_array().into_iter().flatten() {
        let id = package["id"].as_str().unwrap_or_default();
        if package["source"].is_null() || !linked.contains(id) {
            continue;
        }
        let [name, version, licence] =
            ["name", "version", "license"].map(|key| package[key].as_str().unwrap_or("see below"));
        writeln!(text, "\n=== {name} {version}: {licence}")?;
        let own = own_texts(package["manifest_path"].as_str().unwrap_or_default());
        if own.is_empty() {
            bail!("{name} {version} comes without a licence's text; packages must carry one");
        }
        for (file, content) in own {
            match first.get(&content) {
                Some(place) => writeln!(text, "--- {file}: as {place}")?,
                None => writeln!(text, "--- {file}\n{content}")?,
            }
            first.entry(content).or_insert_with(|| format!("{file} of {name} {version}"));
        }
    }
    Ok(text)
}

fn metadata() -> Result<Value> {
    let arguments = ["metadata", "--format-version=1", "--locked", "--filter-platform"];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("x86_64-unknown-linux-gnu")
        .current_dir(root())
        .output()
        .context("cargo cannot be started")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Everything reached from what is shipped by dependencies that are not for tests alone.
fn linked(metadata: &Value) -> Result<BTreeSet<&str>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata has nodes")?;
    let id = |node: &Value| node["id"].as_str().unwrap_or_default().to_owned();
    let ours =
        |folder: &str| nodes.iter().find(|node| id(node).contains(&format!("crates/{folder}#")));
    let roots: Option<Vec<&Value>> = SHIPPED.iter().map(|folder| ours(folder)).collect();
    let mut waiting = roots.context("what is shipped are crates")?;
    let mut seen = BTreeSet::new();
    while let Some(node) = waiting.pop() {
        if !seen.insert(node["id"].as_str().unwrap_or_default()) {
            continue;
        }
        for dependency in node["deps"].as_array().into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            if kinds.map(|kind| &kind["kind"]).any(Value::is_null) {
                let wanted = &dependency["pkg"];
                waiting.extend(nodes.iter().find(|node| node["id"] == *wanted));
            }
        }
    }
    Ok(seen)
}

/// The licence files beside a crate's manifest, by name.
fn own_texts(manifest: &str) -> BTreeMap<String, String> {
    let folder = Path::new(manifest).parent().map(std::fs::read_dir);
    let files = folder.into_iter().flatten().flatten().flatten();
    let text = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let starts = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];
        let is_licence = starts.iter().any(|start| name.to_uppercase().starts_with(start));
        let content = is_licence.then(|| std::fs::read_to_string(entry.path()).ok()).flatten()?;
        Some((name, content.trim_matches('\n').to_owned()))
    };
    files.filter_map(text).collect()
}
