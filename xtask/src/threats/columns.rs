//! The mallocs that are compared. Unlike in the bench, one that is missing does not end the run: its column says so.

use crate::bench::allocators::{self, Allocator};
use crate::bench::place::Place;

/// The columns of a run without `--allocators`.
pub const DEFAULT: &str = "freehold,freehold-secure,glibc,mimalloc2,mimalloc2-secure,snmalloc-checks,jemalloc,hardened_malloc,scudo";

/// One column of the table.
pub struct Column {
    /// Its name.
    pub name: String,
    /// What is preloaded, or why it cannot be.
    pub allocator: Result<Allocator, String>,
}

/// Finds or builds each.
pub fn resolve(list: &str, place: &Place) -> Vec<Column> {
    let words = list.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| one(word, place)).collect()
}

fn one(word: &str, place: &Place) -> Column {
    let name = word.split_once('=').map_or(word, |(name, _)| name).to_owned();
    let found = allocators::resolve(word, place).map_err(|why| format!("{why:#}"));
    let allocator = found.and_then(|all| {
        let own = all.into_iter().find(|allocator| allocator.name == name);
        own.ok_or_else(|| "no such allocator".to_owned())
    });
    if let Err(why) = &allocator {
        eprintln!("{name} is missing: {why}");
    }
    Column { name, allocator }
}
