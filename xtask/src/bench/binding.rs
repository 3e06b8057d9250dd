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

/// One entry of the loader's list.
#[derive(PartialEq)]
struct Binding<'a> {
    from: &'a str,
    to: &'a str,
    symbol: &'a str,
}

fn parse(entry: &str) -> Option<Binding<'_>> {
    let (from, rest) = entry.split_once(" [0] to ")?;
    let (to, rest) = rest.split_once(" [0]: ")?;
    let symbol = SYMBOLS.iter().find(|symbol| rest.contains(**symbol))?;
    Some(Binding { from, to, symbol })
}

fn count(list: &str, wanted: &str) -> anyhow::Result<usize> {
    // Not by lines: the loader writes an entry in two pieces, and another thread's may come between them.
    let bindings: Vec<_> = list.split("binding file ").skip(1).filter_map(parse).collect();
    for binding in &bindings {
        anyhow::ensure!(
            leads_to(binding, wanted, &bindings),
            "the tested malloc is not the one in use: {} in {} is that of {}",
            binding.symbol,
            binding.from,
            binding.to
        );
    }
    Ok(bindings.len())
}

/// A program at a fixed address may have to stand in for a function whose address it takes: then the others bind to
/// the program, and the program to the function.
fn leads_to(binding: &Binding<'_>, wanted: &str, all: &[Binding<'_>]) -> bool {
    let onward = |next: &&Binding<'_>| next.from == binding.to && next.symbol == binding.symbol;
    binding.to.ends_with(wanted)
        || all.iter().filter(onward).any(|next| next.from != next.to && next.to.ends_with(wanted))
}

#[cfg(test)]
mod tests {
    use super::count;

    const LINE: &str =
        "  77:\tbinding file ./a [0] to /lib/libx.so.2 [0]: normal symbol `malloc' [GLIBC_2.2.5]";

    #[test]
    fn bindings_to_the_wanted_library_count() {
        assert_eq!(count(LINE, "/lib/libx.so.2").unwrap(), 1);
        assert_eq!(count(&LINE.replace("malloc", "puts"), "c").unwrap(), 0);
    }

    #[test]
    fn entries_of_two_threads_may_share_a_line() {
        let other = " 77:\tbinding file ./a [0] to /lib/libc.so.6 [0]: normal symbol `exit'";
        let list = format!("{other}{LINE} [GLIBC_2.2.5]\n");
        assert_eq!(count(&list, "/lib/libx.so.2").unwrap(), 1);
    }

    #[test]
    fn a_program_may_stand_in_for_the_function() {
        let through =
            format!("{LINE}\n 77:\tbinding file /lib/l.so [0] to ./a [0]: normal symbol `malloc'");
        assert_eq!(count(&through, "/lib/libx.so.2").unwrap(), 2);
        assert!(count(&through, "libc.so.6").is_err());
    }

    #[test]
    fn a_binding_elsewhere_is_named() {
        let error = count(LINE, "libc.so.6").unwrap_err().to_string();
        assert!(error.contains("/lib/libx.so.2"), "{error}");
    }
}
