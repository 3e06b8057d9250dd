//! The allocators of a run: what is preloaded, with which options, in which version.
//!
//! A named peer that cannot be found or built ends the run: no column is left out silently.

use super::peers;
use super::place::Place;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One column of the tables.
#[derive(Clone)]
pub struct Allocator {
    /// The column's name.
    pub name: String,
    /// What is preloaded; `None` is the C library's own malloc.
    pub library: Option<PathBuf>,
    /// Options of this column.
    pub env: Vec<(String, String)>,
    /// What it is, exactly.
    pub version: String,
}

/// The columns of a run without `--allocators`: glibc twice (the second is the A/A column that shows the noise).
pub const DEFAULT: &str = "glibc,glibc-again,jemalloc,jemalloc-lean,tcmalloc,mimalloc2,mimalloc3,mimalloc3-lean,snmalloc,rpmalloc,freehold";

/// All names that `--allocators` knows.
pub const KNOWN: &[&str] = &[
    "glibc",
    "glibc-again",
    "jemalloc",
    "jemalloc-lean",
    "tcmalloc",
    "mimalloc2",
    "mimalloc2-deb",
    "mimalloc3",
    "mimalloc3-lean",
    "snmalloc",
    "rpmalloc",
    "freehold",
    "freehold-keeps",
    "freehold-secure",
    "mimalloc2-secure",
    "snmalloc-checks",
    "hardened_malloc",
    "scudo",
];

/// Folders in which a distribution puts its libraries.
const FOLDERS: &[&str] =
    &["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64"];

const JEMALLOC_LEAN: &str = "background_thread:true,dirty_decay_ms:0,muzzy_decay_ms:0";

/// Resolves a list of names and `name=path` pairs; glibc is always there, because every ratio is to it.
pub fn resolve(list: &str, place: &Place) -> anyhow::Result<Vec<Allocator>> {
    let mut all = Vec::new();
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        all.push(match word.split_once('=') {
            Some((name, path)) => by_path(name, path)?,
            None => by_name(word, place)?,
        });
    }
    if !all.iter().any(|allocator| allocator.name == "glibc") {
        all.insert(0, by_name("glibc", place)?);
    }
    Ok(all)
}

fn by_path(name: &str, path: &str) -> anyhow::Result<Allocator> {
    let library = std::fs::canonicalize(path)
        .with_context(|| format!("the library of {name} cannot be opened: {path}"))?;
    // Its name only: where it lies on this machine is nobody's business.
    let version = library.file_name().unwrap_or_default().display().to_string();
    Ok(Allocator { name: name.to_owned(), library: Some(library), env: Vec::new(), version })
}

fn by_name(name: &str, place: &Place) -> anyhow::Result<Allocator> {
    let built = |built: peers::Built| (Some(built.library), built.version);
    let (library, version) = match name {
        "glibc" | "glibc-again" => (None, glibc_version()),
        "jemalloc" | "jemalloc-lean" => packaged("libjemalloc.so.2", "libjemalloc2")?,
        "tcmalloc" => packaged("libtcmalloc_minimal.so.4", "libtcmalloc-minimal4")?,
        "mimalloc2-deb" => packaged("libmimalloc.so.2", "libmimalloc2.0")?,
        "mimalloc2" => built(peers::mimalloc(place, "v2", false)?),
        "mimalloc2-secure" => built(peers::mimalloc(place, "v2", true)?),
        "mimalloc3" | "mimalloc3-lean" => built(peers::mimalloc(place, "v3", false)?),
        "snmalloc" => built(peers::snmalloc(place, false)?),
        "snmalloc-checks" => built(peers::snmalloc(place, true)?),
        "hardened_malloc" => built(peers::hardened_malloc(place)?),
        "scudo" => scudo()?,
        "rpmalloc" => built(peers::rpmalloc(place)?),
        "freehold" | "freehold-keeps" | "freehold-secure" => built(peers::freehold(place)?),
        _ => anyhow::bail!(
            "no allocator is called {name}; known: {}; any other as name=path",
            KNOWN.join(", ")
        ),
    };
    Ok(Allocator { name: name.to_owned(), library, env: options(name), version })
}

fn options(name: &str) -> Vec<(String, String)> {
    let pair = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
    match name {
        "jemalloc-lean" => pair("MALLOC_CONF", JEMALLOC_LEAN),
        "mimalloc3-lean" => pair("MIMALLOC_PURGE_DELAY", "0"),
        "freehold-keeps" => pair("FREEHOLD_PURGE", "off"),
        "freehold-secure" => pair("FREEHOLD_SECURE", "1"),
        _ => Vec::new(),
    }
}

/// A distribution's library and its package's version (or the name of the file itself).
fn packaged(file: &str, package: &str) -> anyhow::Result<(Option<PathBuf>, String)> {
    let found =
        FOLDERS.iter().map(|folder| Path::new(folder).join(file)).find(|path| path.exists());
    let found =
        found.with_context(|| format!("{file} is missing: install the package {package}"))?;
    let asked = Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output();
    let version = match asked {
        Ok(output) if output.status.success() => {
            format!("{} ({package})", String::from_utf8_lossy(&output.stdout))
        }
        _ => std::fs::canonicalize(&found)?.display().to_string(),
    };
    Ok((Some(found), version))
}

/// Scudo as clang's runtime has it, of the newest clang that is installed.
fn scudo() -> anyhow::Result<(Option<PathBuf>, String)> {
    const FILE: &str = "libclang_rt.scudo_standalone-x86_64.so";
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir("/usr/lib").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let release = name.to_str().and_then(|name| name.strip_prefix("llvm-")?.parse().ok());
        let Some(release) = release else { continue };
        let base = entry.path().join("lib/clang");
        for version in std::fs::read_dir(base).into_iter().flatten().flatten() {
            found.push((release, version.path().join("lib/linux").join(FILE)));
        }
    }
    found.retain(|(_, file)| file.is_file());
    let (release, file) = found
        .into_iter()
        .max()
        .context(format!("{FILE} is missing: install the package libclang-rt-14-dev"))?;
    Ok((Some(file), format!("clang {release}'s runtime")))
}

fn glibc_version() -> String {
    let asked = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    asked.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
