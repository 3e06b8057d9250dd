//! All figures together: measured once, listed with their goals.

use super::crates::Crate;
use super::library::Library;
use super::{circles, cold_way, methods, terms};
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The crates that libfreehold.so is made of, by their folders; one that is not there is left out.
const LINKED: [&str; 5] = ["blocks", "capi", "core", "freehold", "os"];
/// Types named in the JSON.
const NAMED: usize = 5;

const CORE_LINES: u64 = 3_700;
const CIRCLE: u64 = 0;
const COLD_FILES: u64 = 12;
const TERMS: u64 = 40;
const TEXT_BYTES: u64 = 260_000;

/// What of the tree is measured.
pub struct Scope {
    /// The crates.
    pub crates: Vec<Crate>,
    /// Folders (which end with `/`) and files of the malloc.
    pub malloc: Vec<String>,
}

impl Scope {
    /// The crates below `root`.
    ///
    /// # Errors
    /// When a path of the malloc is not there.
    pub fn of(root: &Path, malloc: &[String]) -> anyhow::Result<Scope> {
        let is_there = |path: &String| {
            let full = root.join(path);
            anyhow::ensure!(
                full.exists(),
                "{} is not there: name the malloc's paths by --malloc",
                full.display()
            );
            Ok(if full.is_dir() {
                format!("{}/", path.trim_end_matches('/'))
            } else {
                path.clone()
            })
        };
        let crates = LINKED.iter().filter_map(|folder| Crate::read(root, folder)).collect();
        Ok(Scope { crates, malloc: malloc.iter().map(is_there).collect::<anyhow::Result<_>>()? })
    }

    /// The crate in `crates/<folder>`.
    pub fn find(&self, folder: &str) -> anyhow::Result<&Crate> {
        let found = self.crates.iter().find(|one| one.folder == folder);
        found.with_context(|| format!("crates/{folder} is not there"))
    }

    fn is_malloc(&self, path: &str) -> bool {
        self.malloc.iter().any(|malloc| path.starts_with(malloc.as_str()))
    }
}

/// Files and lines of a part of the library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Files.
    pub files: u64,
    /// Lines of code.
    pub code: u64,
    /// Lines of comments.
    pub comments: u64,
}

impl Part {
    fn add(&mut self, other: Part) {
        self.files += other.files;
        self.code += other.code;
        self.comments += other.comments;
    }
}

/// A figure, for the table and the JSON.
pub struct Row {
    /// Its name in the JSON.
    pub key: &'static str,
    /// What the table calls it.
    pub title: String,
    /// `None`: cannot be measured here.
    pub value: Option<u64>,
    /// The most that it should be.
    pub goal: Option<u64>,
}

/// What was measured.
pub struct Figures {
    /// By crate, and of the malloc.
    pub parts: BTreeMap<String, Part>,
    /// Methods and files of the types with most methods.
    pub types: Vec<(String, (usize, usize))>,
    /// Files in the malloc's largest circle.
    pub malloc_circle: Vec<String>,
    /// Files in the largest circle of `crates/freehold`.
    pub freehold_circle: Vec<String>,
    /// Files on the cold way, and its instructions.
    pub cold: Option<(BTreeSet<String>, u64)>,
    /// Terms of the malloc.
    pub terms: BTreeSet<String>,
    /// Bytes of code.
    pub text: u64,
}

/// The name of the malloc among the parts.
const MALLOC: &str = "the malloc";
/// The name of everything among the parts.
const ALL: &str = "all";

/// Measures the tree, which takes a build.
///
/// # Errors
/// Those of the build, of reading, and of loading the library.
pub fn measure(root: &Path, scope: &Scope) -> anyhow::Result<Figures> {
    let library = Library::build(root)?;
    let linked = library.files(&scope.crates)?;
    let core = scope.find("core")?;
    let freehold = scope.find("freehold")?;
    Ok(Figures {
        parts: parts(scope, &linked),
        types: types(scope, &linked),
        malloc_circle: circles::largest(core, &scope.malloc),
        freehold_circle: circles::largest(freehold, &["crates/freehold/src/".to_owned()]),
        cold: cold_way::walk(&library)?,
        terms: terms(root, scope)?,
        text: library.text_bytes()?,
    })
}

/// Files and lines of each crate, of the malloc and of all, as far as they are linked.
pub fn parts(scope: &Scope, linked: &BTreeSet<String>) -> BTreeMap<String, Part> {
    let mut parts: BTreeMap<String, Part> = BTreeMap::new();
    for one in &scope.crates {
        for file in one.files.iter().filter(|file| linked.contains(&file.path)) {
            let [code, comments] =
                [file.tokens.code, file.tokens.comments].map(|lines| lines as u64);
            let part = Part { files: 1, code, comments };
            let malloc = scope.is_malloc(&file.path).then_some(MALLOC);
            for name in [ALL, &one.folder].into_iter().chain(malloc) {
                parts.entry(name.to_owned()).or_default().add(part);
            }
        }
    }
    parts
}

/// The types with most methods in linked files.
pub fn types(scope: &Scope, linked: &BTreeSet<String>) -> Vec<(String, (usize, usize))> {
    let count = |one| methods::count(one, |path| linked.contains(path));
    let mut types: Vec<_> = scope.crates.iter().flat_map(count).collect();
    types.sort_by_key(|(_, (methods, _))| std::cmp::Reverse(*methods));
    types.truncate(NAMED);
    types
}

/// The terms that stand in the malloc's files.
fn terms(root: &Path, scope: &Scope) -> anyhow::Result<BTreeSet<String>> {
    let glossary =
        std::fs::read_to_string(root.join("GLOSSARY.md")).context("GLOSSARY.md cannot be read")?;
    let files = scope.crates.iter().flat_map(|one| &one.files);
    let texts: Result<Vec<String>, _> = files
        .filter(|file| scope.is_malloc(&file.path))
        .map(|file| std::fs::read_to_string(root.join(&file.path)))
        .collect();
    Ok(terms::known(&glossary, texts?.iter().map(String::as_str)))
}

impl Figures {
    /// The rows of the table.
    pub fn rows(&self) -> Vec<Row> {
        let part = |name: &str| self.parts.get(name).copied().unwrap_or_default();
        let (all, core, malloc) = (part(ALL), part("core"), part(MALLOC));
        let lines = all.code + all.comments;
        let (largest, methods) = self
            .types
            .first()
            .map_or(("none", 0), |(name, (methods, _))| (name.as_str(), *methods));
        let row = |key, title: &str, value: u64, goal| Row {
            key,
            title: title.to_owned(),
            value: Some(value),
            goal,
        };
        vec![
            row("code_lines", "code lines", all.code, None),
            row("core_code_lines", "code lines of core's part", core.code, Some(CORE_LINES)),
            row("malloc_code_lines", "code lines of the malloc", malloc.code, None),
            row(
                "comment_percent",
                "comment lines, percent",
                (all.comments * 100).checked_div(lines).unwrap_or(0),
                None,
            ),
            row("files", "files", all.files, None),
            row("malloc_files", "files of the malloc", malloc.files, None),
            row("methods", &format!("methods of {largest}"), methods as u64, None),
            row(
                "malloc_circle",
                "files in a circle, malloc",
                self.malloc_circle.len() as u64,
                Some(CIRCLE),
            ),
            row(
                "freehold_circle",
                "files in a circle, crates/freehold",
                self.freehold_circle.len() as u64,
                Some(CIRCLE),
            ),
            Row {
                key: "cold_files",
                title: "files on the cold way of a malloc".to_owned(),
                value: self.cold.as_ref().map(|(files, _)| files.len() as u64),
                goal: Some(COLD_FILES),
            },
            row("terms", "terms of the malloc", self.terms.len() as u64, Some(TERMS)),
            row("text_bytes", "bytes of code", self.text, Some(TEXT_BYTES)),
        ]
    }
}
