//! Makes sure that the malloc under test is the one in use: the dynamic loader's own list of symbol bindings
//! (`LD_DEBUG=bindings`) of the warm-up run, over every process of the tree.

use super::allocators::Allocator;
use super::place::Place;
use anyhow::Context;
use std::path::{Path, PathBuf};

/// The symbols that must come from the allocator under test, wherever they are used.
const SYMBOLS: &[&str] = &["`malloc'", "`free'", "`calloc'", "`realloc'"];

/// An empty folder for the lists of one run; the prefix of their names.
pub fn prepare(place: &Place) -> anyhow::Result<PathBuf> {
    let folder = place.scratch.join("bindings");
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder.join("of"))
}

/// Whether every binding of malloc and its kin led to the allocator; the first that did not is the error.
pub fn verify(prefix: &Path, allocator: &Allocator) -> anyhow::Result<()> {
    let folder = prefix.parent().context("a prefix without a folder")?;
    let wanted = match &allocator.library {
        Some(library) => library.display().to_string(),
        None => "libc.so.6".to_owned(),
    };
    let mut bound = 0;
    for entry in std::fs::read_dir(folder)? {
        let text = std::fs::read(entry?.path())?;
        bound += count(&String::from_utf8_lossy(&text), &wanted)?;
    }
    anyhow::ensure!(
        bound > 0,
        "no process bound malloc: the program is static or has an allocator of its own"
    );
    Ok(())
}

fn count(list: &str, wanted: &str) -> anyhow::Result<usize> {
    let mut bound = 0;
    for line in list.lines().filter(|line| SYMBOLS.iter().any(|symbol| line.contains(symbol))) {
        let Some((_, target)) = line.split_once(" to ") else { continue };
        let target = target.split(" [").next().unwrap_or(target);
        anyhow::ensure!(
            target.ends_with(wanted),
            "the tested malloc is not the one in use: {}",
            line.trim()
        );
        bound += 1;
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::count;

    const LINE: &str =
        "  77:\tbinding file ./a [0] to /lib/libx.so.2 [0]: normal symbol `malloc' [GLIBC_2.2.5]";

    #[test]
    fn bindings_to_the_wanted_library_count() {
        assert_eq!(count(LINE, "/lib/libx.so.2").unwrap(), 1);
        assert_eq!(count("  77:\tbinding file a to b: normal symbol `puts'", "c").unwrap(), 0);
    }

    #[test]
    fn a_binding_elsewhere_is_named() {
        let error = count(LINE, "libc.so.6").unwrap_err().to_string();
        assert!(error.contains("/lib/libx.so.2"), "{error}");
    }
}
