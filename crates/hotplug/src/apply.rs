//! Carrying a plan out: set by set, with time-outs. A set that cannot go as a whole is put back as a whole.

use crate::blocks::FOLDER;
use crate::plan::Plan;
use crate::tree::Tree;
use serde::Serialize;
use std::path::Path;

/// Who writes a word into a file of the kernel's.
///
/// Offlining can take seconds, and for ever when a page never moves: a write that is not done in time must be broken off,
/// after which the kernel has undone it.
pub trait Writer {
    /// Writes.
    ///
    /// # Errors
    /// Why not, for people.
    fn write(&mut self, file: &Path, word: &str) -> Result<(), String>;
}

/// What became of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// It is offline.
    Offline,
    /// A block would not go: why, and which of the set could not be put back either.
    Refused {
        /// Which block.
        block: u64,
        /// Why.
        why: String,
        /// Blocks that are offline although their set is not.
        lost: Vec<u64>,
    },
    /// It was told to stop before.
    NotTried,
}

/// One set, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    /// Its blocks.
    pub blocks: Vec<u64>,
    /// See [`Outcome`].
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Takes the plan's sets offline, in its order, until `stop` says so. `tell` hears of each.
pub fn apply(
    tree: &Tree,
    plan: &Plan,
    writer: &mut impl Writer,
    stop: &dyn Fn() -> bool,
    mut tell: impl FnMut(&Done),
) -> Vec<Done> {
    let one = |set: &crate::plan::Set| {
        let outcome =
            if stop() { Outcome::NotTried } else { take_offline(tree, &set.blocks, writer) };
        let done = Done { blocks: set.blocks.clone(), outcome };
        tell(&done);
        done
    };
    plan.sets.iter().map(one).collect()
}

fn take_offline(tree: &Tree, blocks: &[u64], writer: &mut impl Writer) -> Outcome {
    for (at, &block) in blocks.iter().enumerate() {
        let zone = zone(tree, block);
        if let Err(why) = set_state(tree, block, "offline", writer) {
            let gone = blocks.iter().take(at).copied();
            let lost = gone.filter(|&other| put_online(tree, other, &zone, writer).is_err());
            return Outcome::Refused { block, why, lost: lost.collect() };
        }
    }
    Outcome::Offline
}

/// Puts blocks online again, each into the zone that it would have by itself, or into the movable one.
///
/// # Errors
/// Which would not, and why.
pub fn restore(
    tree: &Tree,
    blocks: &[u64],
    movable: bool,
    writer: &mut impl Writer,
) -> Vec<(u64, String)> {
    let zone = if movable { "Movable" } else { "" };
    let one = |&block: &u64| Some((block, put_online(tree, block, zone, writer).err()?));
    blocks.iter().filter_map(one).collect()
}

fn put_online(tree: &Tree, block: u64, zone: &str, writer: &mut impl Writer) -> Result<(), String> {
    let word = if zone == "Movable" { "online_movable" } else { "online" };
    set_state(tree, block, word, writer)
}

/// Writes a state, and looks whether it is so: some kernels say yes and do nothing.
fn set_state(tree: &Tree, block: u64, word: &str, writer: &mut impl Writer) -> Result<(), String> {
    let name = format!("{FOLDER}/memory{block}/state");
    writer.write(&tree.path(&name), word)?;
    let state = tree.text(&name).map_err(|error| error.to_string())?;
    let expected = if word == "offline" { "offline" } else { "online" };
    if state.starts_with(expected) { Ok(()) } else { Err(format!("it is {state} still")) }
}

fn zone(tree: &Tree, block: u64) -> String {
    tree.text(&format!("{FOLDER}/memory{block}/valid_zones")).unwrap_or_default()
}
