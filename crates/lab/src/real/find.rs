//! Which allocators this machine has.
//!
//! glibc's is always there. Others are found by their soname in the folders the loader searches;
//! any other library is named by its path. Nothing is loaded here: whether a library really takes
//! malloc over is asked of the replayer (`launch::describe`).

use std::collections::HashSet;
use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::{RealError, Trouble};

/// An allocator to replay on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocator {
    /// The name, as `--on` takes it.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
}

/// Where an allocator comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The C library's own: nothing is preloaded.
    Libc,
    /// Whatever malloc this process's environment gives its children (`LD_PRELOAD` is left alone).
    Environment,
    /// This library is preloaded.
    Library(PathBuf),
}

/// An allocator known by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Library {
    /// The name, as `--on` takes it.
    pub name: &'static str,
    /// Names of its library file, the best first.
    pub files: &'static [&'static str],
    /// How to get it.
    pub help: &'static str,
}

const KNOWN: &[Library] = &[
    Library {
        name: "jemalloc",
        files: &["libjemalloc.so.2", "libjemalloc.so"],
        help: "Debian: apt install libjemalloc2",
    },
    Library {
        name: "mimalloc",
        files: &["libmimalloc.so.3", "libmimalloc.so.2", "libmimalloc.so.2.0", "libmimalloc.so"],
        help: "Debian: apt install libmimalloc2.0",
    },
    Library {
        name: "tcmalloc",
        // The minimal one is the same allocator without the profilers, and the one that is packaged.
        files: &[
            "libtcmalloc.so.4",
            "libtcmalloc.so",
            "libtcmalloc_minimal.so.4",
            "libtcmalloc_minimal.so",
        ],
        help: "Debian: apt install libtcmalloc-minimal4",
    },
    Library {
        name: "tcmalloc-minimal",
        files: &["libtcmalloc_minimal.so.4", "libtcmalloc_minimal.so"],
        help: "Debian: apt install libtcmalloc-minimal4",
    },
    Library {
        name: "snmalloc",
        files: &["libsnmallocshim.so", "libsnmallocshim-checks-memcpy-only.so"],
        help: "build microsoft/snmalloc and put libsnmallocshim.so into a library folder",
    },
    Library {
        name: "rpmalloc",
        files: &["librpmallocwrap.so", "librpmalloc.so"],
        help: "build mjansson/rpmalloc and put librpmallocwrap.so into a library folder",
    },
    Library {
        name: "hoard",
        files: &["libhoard.so"],
        help: "build emeryberger/Hoard and put libhoard.so into a library folder",
    },
    Library {
        name: "scudo",
        files: &["libscudo.so", "libclang_rt.scudo_standalone-x86_64.so"],
        help: "Debian: apt install libclang-rt-dev, then name the library by its path",
    },
    Library {
        name: "mesh",
        files: &["libmesh.so", "libmesh64.so"],
        help: "build plasma-umass/Mesh and put libmesh.so into a library folder",
    },
];

/// For the help of commands: how to have more allocators to compare.
pub const INSTALL_HELP: &str = "\
Allocators are found by themselves: glibc always; jemalloc, mimalloc, tcmalloc, tcmalloc-minimal, \
snmalloc, rpmalloc, hoard, scudo and mesh where their library lies in a folder of the loader or of \
LD_LIBRARY_PATH. Any other is named by its path: --on ./libfoo.so. `system` is whatever LD_PRELOAD \
already gives.
More on Debian and Ubuntu:
  apt install libjemalloc2 libmimalloc2.0 libtcmalloc-minimal4 libgoogle-perftools4";

/// Every name that [`find`] knows, installed or not, beside those the caller adds.
pub fn known_names() -> impl Iterator<Item = &'static str> {
    ["glibc", "system"].into_iter().chain(KNOWN.iter().map(|library| library.name))
}

/// All allocators of this machine: glibc, `extra` (name and path, where the file exists), and each
/// known library that is installed. A library that has two names is listed once.
pub fn installed(extra: &[(&str, &Path)]) -> Vec<Allocator> {
    let folders = folders();
    let mut seen = HashSet::new();
    let added = extra.iter().map(|&(name, path)| (name, path.to_owned()));
    let known = KNOWN.iter().filter_map(|one| Some((one.name, one.find_in(&folders)?)));
    let libraries = added.chain(known).filter_map(|(name, path)| {
        let real = path.canonicalize().ok()?;
        seen.insert(real).then(|| Allocator::library(name, path))
    });
    std::iter::once(Allocator::glibc()).chain(libraries).collect()
}

/// The allocator of a name or path: `glibc`, `system`, a name in `extra`, a known name, or a path
/// (anything with a slash or ending in `.so`).
///
/// # Errors
/// The name is unknown, or its library is not on this machine.
pub fn find(name: &str, extra: &[(&str, &Path)]) -> Result<Allocator, RealError> {
    match name {
        "glibc" => return Ok(Allocator::glibc()),
        "system" => {
            return Ok(Allocator { name: name.to_owned(), source: Source::Environment });
        }
        _ => {}
    }
    if let Some((_, path)) = extra.iter().find(|(own, _)| *own == name) {
        return Ok(Allocator::library(name, path.to_path_buf()));
    }
    if let Some(known) = KNOWN.iter().find(|known| known.name == name) {
        let not_installed = || Trouble::NotInstalled { help: known.help.to_owned() }.of(name);
        let path = known.find_in(&folders()).ok_or_else(not_installed)?;
        return Ok(Allocator::library(name, path));
    }
    if !name.contains('/') && !name.ends_with(".so") {
        let known = known_names().collect::<Vec<_>>().join(", ");
        return Err(Trouble::UnknownName { known }.of(name));
    }
    let refused = |reason: String| Trouble::NotPreloaded { reason }.of(name);
    let path = Path::new(name).canonicalize().map_err(|error| refused(error.to_string()))?;
    // The loader knows no way to quote these.
    if path.as_os_str().as_bytes().iter().any(|byte| b": \t\n".contains(byte)) {
        let reason = "LD_PRELOAD cannot hold a path with spaces or colons; name a copy elsewhere";
        return Err(refused(reason.to_owned()));
    }
    Ok(Allocator::library(name, path))
}

impl Allocator {
    /// Makes a program that is about to start use it.
    pub fn preload(&self, command: &mut Command) {
        match &self.source {
            Source::Libc => command.env_remove("LD_PRELOAD"),
            Source::Environment => command,
            Source::Library(library) => command.env("LD_PRELOAD", library),
        };
    }

    /// The C library's own.
    pub fn glibc() -> Allocator {
        Allocator { name: "glibc".to_owned(), source: Source::Libc }
    }

    /// A library, under a name of the caller's choice.
    pub fn library(name: &str, path: PathBuf) -> Allocator {
        Allocator { name: name.to_owned(), source: Source::Library(path) }
    }
}

impl Library {
    fn find_in(&self, folders: &[PathBuf]) -> Option<PathBuf> {
        let candidates =
            self.files.iter().flat_map(|file| folders.iter().map(move |f| f.join(file)));
        candidates.into_iter().find(|path| path.is_file())
    }
}

/// Where the loader looks: `LD_LIBRARY_PATH`, the folders `ldconfig` is told of, the usual ones and
/// their multiarch folders.
fn folders() -> Vec<PathBuf> {
    let named = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = env::split_paths(&named).collect();
    folders.extend(configured());
    let multiarch = format!("{}-linux-gnu", env::consts::ARCH);
    for usual in ["/usr/local/lib", "/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib64"]
    {
        folders.push(Path::new(usual).join(&multiarch));
        folders.push(PathBuf::from(usual));
    }
    folders.retain(|folder| folder.is_absolute());
    folders
}

/// The folders in the loader's own configuration; none where there is no such configuration.
fn configured() -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir("/etc/ld.so.conf.d") else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    files.sort();
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    texts
        .flat_map(|text| text.lines().map(|line| PathBuf::from(line.trim())).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_is_always_there_and_first() {
        assert_eq!(installed(&[]).first(), Some(&Allocator::glibc()));
        assert_eq!(find("glibc", &[]).ok(), Some(Allocator::glibc()));
    }

    #[test]
    fn a_name_of_the_caller_wins_and_a_missing_file_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("libfreehold.so");
        assert_eq!(installed(&[("freehold", &library)]), installed(&[]));
        fs::write(&library, "").unwrap();
        let expected = Allocator::library("freehold", library.clone());
        assert!(installed(&[("freehold", &library)]).contains(&expected));
        assert_eq!(find("freehold", &[("freehold", &library)]).ok(), Some(expected));
    }

    #[test]
    fn one_library_is_listed_once() {
        let folder = tempfile::tempdir().unwrap();
        let (library, link) = (folder.path().join("a.so"), folder.path().join("b.so"));
        fs::write(&library, "").unwrap();
        std::os::unix::fs::symlink(&library, &link).unwrap();
        let found = installed(&[("a", &library), ("b", &link)]);
        assert_eq!(found.iter().filter(|one| ["a", "b"].contains(&&*one.name)).count(), 1);
    }

    #[test]
    fn unknown_names_and_missing_paths_say_what_to_do() {
        let unknown = find("jmalloc", &[]).unwrap_err().to_string();
        assert!(unknown.contains("jmalloc") && unknown.contains("jemalloc"), "{unknown}");
        let missing = find("./no-such-library.so", &[]).unwrap_err().to_string();
        assert!(missing.starts_with("./no-such-library.so: cannot be preloaded: "), "{missing}");
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("two words.so");
        fs::write(&library, "").unwrap();
        let split = find(library.to_str().unwrap(), &[]).unwrap_err().to_string();
        assert!(split.contains("spaces") && split.contains("a copy"), "{split}");
    }

    #[test]
    fn the_help_names_every_known_allocator() {
        for name in known_names() {
            assert!(INSTALL_HELP.contains(name), "{name} is not in the help");
        }
    }
}
