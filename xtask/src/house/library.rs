//! The library as it ships, built with its table of lines: which files are in it, and how long its code is.

use super::crates::Crate;
use crate::bench::place::{self, must};
use addr2line::{Loader, demangle};
use anyhow::Context;
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The built library of a tree, and what its lines say.
pub struct Library {
    /// Where it is.
    pub path: PathBuf,
    /// The tree's root, without links.
    root: PathBuf,
    loader: Loader,
}

impl Library {
    /// Builds it like the one that ships, with a table of lines besides, which changes nothing else.
    pub fn build(root: &Path) -> anyhow::Result<Library> {
        let root =
            root.canonicalize().with_context(|| format!("{} is not there", root.display()))?;
        let target = place::open()?.target.join("house");
        let mut command = Command::new(env!("CARGO"));
        command
            .current_dir(&root)
            .args(["rustc", "--quiet", "-p", "freehold-capi", "--lib", "--profile", "preload"])
            .args(["--features", "preload", "--crate-type", "cdylib", "--target-dir"])
            .arg(&target)
            .env("CARGO_PROFILE_PRELOAD_DEBUG", "line-tables-only");
        must(&mut command, "libfreehold.so with its lines")?;
        let path = target.join("preload/libfreehold_capi.so");
        let loader =
            Loader::new(&path).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        Ok(Library { path, root, loader })
    }

    /// Bytes of its code: all sections whose names begin with `.text`.
    pub fn text_bytes(&self) -> anyhow::Result<u64> {
        let bytes = std::fs::read(&self.path)?;
        let file = object::File::parse(&*bytes)?;
        let code = file
            .sections()
            .filter(|section| section.name().is_ok_and(|name| name.starts_with(".text")));
        Ok(code.map(|section| section.size()).sum())
    }

    /// The files of ours of which a function or static is in it, inlined functions included.
    pub fn files(&self, crates: &[Crate]) -> anyhow::Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        let rows = self
            .loader
            .find_location_range(0, u64::MAX)
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        found.extend(rows.filter_map(|(_, _, row)| self.ours(row.file?)));
        let bytes = std::fs::read(&self.path)?;
        let file = object::File::parse(&*bytes)?;
        let data = file.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Data);
        for name in
            data.filter_map(|symbol| demangle(symbol.name().ok()?, addr2line::gimli::DW_LANG_Rust))
        {
            found.extend(home(crates, &name));
        }
        Ok(found)
    }

    /// The files of ours whose functions have code at an address, inlined ones included.
    pub fn files_at(&self, address: u64) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        let Ok(mut frames) = self.loader.find_frames(address) else { return found };
        while let Ok(Some(frame)) = frames.next() {
            found.extend(frame.location.and_then(|at| self.ours(at.file?)));
        }
        found
    }

    /// A file's path from the root of the project, if it is one of ours.
    fn ours(&self, file: &str) -> Option<String> {
        let file = Path::new(file).strip_prefix(&self.root).unwrap_or(Path::new(file));
        file.starts_with("crates").then(|| file.to_string_lossy().into_owned())
    }
}

/// The file of a static, by its name as `crate::module::NAME`.
fn home(crates: &[Crate], name: &str) -> Option<String> {
    let path: Vec<String> = name.split("::").map(str::to_owned).collect();
    let found = crates.iter().find(|one| Some(&one.name) == path.first())?;
    Some(found.file_of(&path[1..]).path.clone())
}
