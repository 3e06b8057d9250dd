//! The modules of a crate: which file is which module, and what a path in it leads to.
//!
//! Files are found as the compiler finds them, from `src/lib.rs` along every `mod name;` that is not a test's.

use super::tokens::{Tokens, depth_of};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A crate: its folder, what code calls it, and its files.
pub struct Crate {
    /// The folder's name below `crates/`.
    pub folder: String,
    /// The name in code: `freehold_core`.
    pub name: String,
    /// The files, `src/lib.rs` first.
    pub files: Vec<File>,
    /// Module path to index in `files`.
    modules: BTreeMap<Vec<String>, usize>,
}

/// One file of a crate.
pub struct File {
    /// From the root of the project.
    pub path: String,
    /// Its module path, empty for the crate's root.
    pub module: Vec<String>,
    /// Its tokens and lines.
    pub tokens: Tokens,
    /// Names of types that it defines.
    pub types: BTreeSet<String>,
    /// Names that its `use` items bind, and to what.
    bound: BTreeMap<String, Vec<String>>,
    /// What it imports whole: `use path::*`.
    globs: Vec<Vec<String>>,
    /// Paths in it that are not a `pub use`, each beginning with what it begins with in the text.
    paths: Vec<Vec<String>>,
}

/// Re-exports of re-exports are followed so far.
const DEEPEST: usize = 16;

impl Crate {
    /// The crate in `crates/<folder>` below `root`; `None` when it has no `src/lib.rs`.
    pub fn read(root: &Path, folder: &str) -> Option<Crate> {
        let manifest =
            std::fs::read_to_string(root.join(format!("crates/{folder}/Cargo.toml"))).ok()?;
        let manifest = manifest.parse::<toml::Table>().ok()?;
        let name = manifest.get("package")?.get("name")?.as_str()?.replace('-', "_");
        let mut found =
            Crate { folder: folder.to_owned(), name, files: Vec::new(), modules: BTreeMap::new() };
        found.add(root, &[format!("crates/{folder}/src/lib.rs")], Vec::new());
        (!found.files.is_empty()).then_some(found)
    }

    /// Adds the first of these files that is there, and all that it declares.
    fn add(&mut self, root: &Path, candidates: &[String], module: Vec<String>) {
        let read =
            |path: &String| Some((path.clone(), std::fs::read_to_string(root.join(path)).ok()?));
        let Some((path, text)) = candidates.iter().find_map(read) else { return };
        let (file, declared) = File::of(path, module, &text);
        let folder = below(&file.path);
        let module = file.module.clone();
        self.modules.insert(module.clone(), self.files.len());
        self.files.push(file);
        for name in declared {
            let candidates = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
            self.add(root, &candidates, [module.clone(), vec![name]].concat());
        }
    }

    /// The file that holds an item, by its module path or the beginning of it.
    pub fn file_of(&self, path: &[String]) -> &File {
        let known = (0..=path.len()).rev().find_map(|len| self.modules.get(&path[..len]));
        &self.files[known.copied().unwrap_or(0)]
    }

    /// The file that defines what a path in `file` names; `None` when that is another crate's, or a module.
    ///
    /// Names that a `use` has bound are followed to their definition, so that a re-export leads to what it exports.
    pub fn resolve(&self, file: &File, path: &[String]) -> Option<&File> {
        self.resolve_within(file, path, DEEPEST)
    }

    fn resolve_within(&self, file: &File, path: &[String], depth: usize) -> Option<&File> {
        let depth = depth.checked_sub(1)?;
        let (mut module, mut rest) = (file.module.clone(), path);
        let first = rest.first()?.as_str();
        if first == "crate" {
            (module, rest) = (Vec::new(), &rest[1..]);
        } else if first == "self" {
            rest = &rest[1..];
        } else if first != "super" && !self.binds(file, first) {
            return None;
        }
        while rest.first().is_some_and(|first| first == "super") {
            module.pop()?;
            rest = &rest[1..];
        }
        while let Some(first) = rest.first() {
            let child = [module.clone(), vec![first.clone()]].concat();
            if !self.modules.contains_key(&child) {
                break;
            }
            (module, rest) = (child, &rest[1..]);
        }
        let here = &self.files[*self.modules.get(&module)?];
        let name = rest.first()?;
        if here.types.contains(name) {
            return Some(here);
        }
        match here
            .bound
            .get(name)
            .filter(|bound| bound.as_slice() != path || here.path != file.path)
        {
            Some(bound) => self.resolve_within(here, &[bound, &rest[1..]].concat(), depth),
            None => self.through_globs(here, name, depth).or(Some(here)),
        }
    }

    /// The file of a type that `file` imports with everything around it.
    fn through_globs(&self, file: &File, name: &str, depth: usize) -> Option<&File> {
        let named = |glob: &Vec<String>| {
            self.resolve_within(file, &[&glob[..], &[name.to_owned()]].concat(), depth)
        };
        file.globs.iter().filter_map(named).find(|found| found.types.contains(name))
    }

    /// Whether a path may begin with this name and stay in the crate.
    fn binds(&self, file: &File, name: &str) -> bool {
        let child = [file.module.clone(), vec![name.to_owned()]].concat();
        file.bound.contains_key(name)
            || file.types.contains(name)
            || self.modules.contains_key(&child)
    }

    /// The file that defines a type by the path that `file` has for it.
    pub fn type_at(&self, file: &File, path: &[String]) -> Option<&File> {
        match path {
            [name] if !self.binds(file, name) => self.through_globs(file, name, DEEPEST),
            _ => self.resolve(file, path),
        }
    }

    /// Other files of the crate that define what `file` names.
    pub fn uses<'a>(&'a self, file: &'a File) -> BTreeSet<&'a str> {
        let found = file.paths.iter().filter_map(|path| self.resolve(file, path));
        found.map(|found| found.path.as_str()).filter(|path| *path != file.path).collect()
    }
}

/// The folder in which the modules lie that a file declares.
fn below(path: &str) -> String {
    let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
    match file {
        "lib.rs" | "mod.rs" => folder.to_owned(),
        _ => format!("{folder}/{}", file.trim_end_matches(".rs")),
    }
}

impl File {
    /// A file, and the modules that it declares.
    fn of(path: String, module: Vec<String>, text: &str) -> (File, Vec<String>) {
        let tokens = Tokens::of(text);
        let mut file = File {
            path,
            module,
            types: BTreeSet::new(),
            bound: BTreeMap::new(),
            globs: Vec::new(),
            paths: Vec::new(),
            tokens: Tokens { texts: Vec::new(), ..tokens },
        };
        let declared = file.scan(&tokens.texts);
        file.tokens.texts = tokens.texts;
        (file, declared)
    }

    /// Notes types, imports and paths; the modules that the file declares.
    fn scan(&mut self, texts: &[String]) -> Vec<String> {
        let (mut declared, mut at, mut depth) = (Vec::new(), 0, 0);
        // Depths at which modules inside of the file are open.
        let mut inner: Vec<i32> = Vec::new();
        while at < texts.len() {
            let next = |ahead: usize| texts.get(at + ahead).map_or("", String::as_str);
            depth += depth_of(&texts[at]);
            inner.retain(|open| *open <= depth);
            match texts[at].as_str() {
                "mod" if next(2) == ";" => declared.push(next(1).to_owned()),
                "mod" if next(2) == "{" => inner.push(depth + 1),
                "struct" | "enum" | "union" | "trait" | "type"
                    if depth == inner.last().copied().unwrap_or(0) =>
                {
                    self.types.insert(next(1).to_owned());
                }
                "use" => {
                    let end = texts[at..]
                        .iter()
                        .position(|text| text == ";")
                        .map_or(texts.len(), |len| at + len);
                    self.import(&texts[at + 1..end], is_public(&texts[..at]), inner.len());
                    at = end;
                }
                first
                    if next(1) == "::" && (at == 0 || texts[at - 1] != "::") && is_name(first) =>
                {
                    let path = path_at(&texts[at..]);
                    at += path.len() * 2 - 2;
                    self.note(path, inner.len());
                }
                _ => {}
            }
            at += 1;
        }
        declared
    }

    /// Notes what a `use` binds; a public one is a re-export, which uses nothing.
    fn import(&mut self, tree: &[String], public: bool, inner: usize) {
        let mut leaves = Vec::new();
        unfold(tree, &[], &mut leaves);
        for (name, path) in leaves {
            let Some(path) = outside(path, inner) else { continue };
            match name.as_str() {
                "*" => {
                    if !public {
                        self.paths.push([&path[..], &["*".to_owned()]].concat());
                    }
                    self.globs.push(path);
                }
                "_" => self.paths.push(path),
                _ => {
                    if !public {
                        self.paths.push(path.clone());
                    }
                    self.bound.insert(name, path);
                }
            }
        }
    }

    fn note(&mut self, path: Vec<String>, inner: usize) {
        self.paths.extend(outside(path, inner));
    }
}

/// A path in a module inside of a file as seen from the file; `None` when it stays inside.
fn outside(mut path: Vec<String>, mut inner: usize) -> Option<Vec<String>> {
    while inner > 0 && path.first().is_some_and(|first| first == "super") {
        path.remove(0);
        inner -= 1;
        if inner == 0 && path.first().is_some_and(|first| first != "super") {
            path.insert(0, "self".to_owned());
        }
    }
    let absolute = path.first().is_some_and(|first| first == "crate");
    (inner == 0 || absolute).then_some(path)
}

/// Whether the item that begins behind these tokens is public, within the crate or without.
fn is_public(before: &[String]) -> bool {
    match before {
        [.., last] if last == "pub" => true,
        [.., word, open, _, close] => word == "pub" && open == "(" && close == ")",
        _ => false,
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The names of a path that begins here.
fn path_at(texts: &[String]) -> Vec<String> {
    let mut path = vec![texts[0].clone()];
    for pair in texts[1..].chunks(2) {
        match pair {
            [colons, name] if colons == "::" && is_name(name) => path.push(name.clone()),
            _ => break,
        }
    }
    path
}

/// The leaves of a `use` tree: the name that each binds, and its path.
fn unfold(tree: &[String], prefix: &[String], leaves: &mut Vec<(String, Vec<String>)>) {
    let Some(open) = tree.iter().position(|text| text == "{") else {
        return leaf(tree, prefix, leaves);
    };
    let names = tree[..open].iter().filter(|text| *text != "::").cloned();
    let prefix: Vec<String> = prefix.iter().cloned().chain(names).collect();
    let (mut depth, mut from) = (0, open + 1);
    for (at, text) in tree.iter().enumerate().skip(open) {
        depth += depth_of(text);
        if depth == 0 || depth == 1 && text == "," {
            if from < at {
                unfold(&tree[from..at], &prefix, leaves);
            }
            from = at + 1;
        }
    }
}

fn leaf(tree: &[String], prefix: &[String], leaves: &mut Vec<(String, Vec<String>)>) {
    let (tree, alias) = match tree {
        [path @ .., word, alias] if word == "as" => (path, Some(alias)),
        _ => (tree, None),
    };
    let names = tree.iter().filter(|text| *text != "::").cloned();
    let mut path: Vec<String> = prefix.iter().cloned().chain(names).collect();
    let glob = path.last().is_some_and(|last| last == "*");
    if glob || path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let Some(last) = path.last() else { return };
    let name = if glob { "*" } else { alias.unwrap_or(last) };
    leaves.push((name.to_owned(), path));
}
