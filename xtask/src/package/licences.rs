//! What the command, or the library, is made of besides our own code, and under which licences: a text for every package. (Other
//! tools for it want templates, and ask for one licence of several; packages only need what crates say, and their texts.)

use super::root;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::process::Command;

/// What a package contains.
#[derive(Clone, Copy)]
pub enum Product {
    /// The command, and with it the libraries that it preloads.
    Command,
    /// libfreehold.
    Library,
}

/// The crates that a product links, with version and licence, and the texts that they come with.
pub fn text(product: Product) -> Result<String> {
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
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let (name, start) = match product {
        Product::Command => ("The freehold command", "crates/cli#"),
        Product::Library => ("libfreehold", "crates/capi#"),
    };
    let linked = linked(&found, start)?;
    let mut text =
        format!("{name} contains these crates, and Rust's standard library (MIT OR Apache-2.0).\n");
    for package in found["packages"].as_array().into_iter().flatten() {
        let id = package["id"].as_str().unwrap_or_default();
        if package["source"].is_null() || !linked.contains(id) {
            continue;
        }
        let [name, version, licence] =
            ["name", "version", "license"].map(|key| package[key].as_str().unwrap_or("see below"));
        writeln!(text, "\n=== {name} {version}: {licence}")?;
        text += &own_texts(package["manifest_path"].as_str().unwrap_or_default());
    }
    Ok(text)
}

/// Everything reached from the crate whose number contains `start` by dependencies that are not for tests alone.
fn linked<'a>(metadata: &'a Value, start: &str) -> Result<BTreeSet<&'a str>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata has nodes")?;
    let id = |node: &Value| node["id"].as_str().unwrap_or_default().to_owned();
    let first = nodes.iter().find(|node| id(node).contains(start));
    let mut waiting = vec![first.context("the product is a crate")?];
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

/// The licence files beside a crate's manifest.
fn own_texts(manifest: &str) -> String {
    let folder = std::path::Path::new(manifest).parent().map(std::fs::read_dir);
    let files = folder.into_iter().flatten().flatten().flatten().map(|entry| entry.path());
    let is_licence = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|start| name.starts_with(start))
    };
    let mut files: Vec<_> = files.filter(is_licence).collect();
    files.sort();
    files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect()
}
