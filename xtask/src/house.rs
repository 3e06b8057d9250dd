//! `cargo xtask house`: figures for how much a reader of the malloc must hold, each by a rule without judgement.
//!
//! ```text
//! tokens     a file's tokens without comments and tests, its lines sorted
//! crates     the modules of a crate, and what a path in it leads to
//! circles    files that use each other
//! methods    functions in the inherent impls of a type
//! terms      words of the glossary that stand in the malloc
//! library    the library as it ships: the files in it, the length of its code
//! cold_way   the files on the way of a malloc that cuts a new slab
//! figures    all of these together, with their goals
//! ```
//!
//! Invariant: a figure is a function of the tree and of the compiler; two runs print the same.

mod circles;
mod cold_way;
mod crates;
mod figures;
mod library;
mod methods;
mod terms;
#[cfg(test)]
mod tests;
mod tokens;

use crate::bench::facts;
use crate::bench::table::Table;
use anyhow::Context;
use clap::Args;
use crates::Crate;
use figures::{Figures, Scope};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What to measure.
#[derive(Args)]
#[command(after_help = "The rules:
  linked files   a file counts if a function or static of it is in libfreehold.so, inlined functions included: by the
                 table of lines and the symbols of the library as it ships, built with `line-tables-only`, which does
                 not change its code. Files of constants, types and traits alone are not in it.
  code lines     lines of linked files that hold code; comments, blanks and items under #[cfg(test)] are none.
  comment lines  lines of linked files that hold a comment and no code, tests left out; in percent of these and code.
  methods        functions in inherent impls of one type, over all linked files; functions that macros make are not seen.
  circle         files of the largest set in which each reaches each by its paths; 0 when no two files do. A path
                 (crate::, super::, self::, a module, an imported name) counts for the file that defines what it names:
                 re-exports are followed, and neither `mod` nor `pub use` is a use. Calls of methods are no paths.
  cold way       files of ours whose code (inlined code included) the second malloc of a process runs through, which finds
                 no slab of its class and cuts one; counted an instruction at a time (x86-64 only), the purger off.
  terms          bold words of more than one letter in first columns of GLOSSARY.md, without its sections on traces and on
                 other allocators, that stand in files of the malloc, in prose or in names; files of tests left out.
  code           bytes of all sections of the library whose names begin with .text.

Examples:
  cargo xtask house
  cargo xtask house --against bench/results/house-before.json
  cargo xtask house --json > now.json
  cargo xtask house --tree ../then --malloc crates/core/src/heap,crates/core/src/frames/runs.rs")]
pub struct Options {
    /// Print everything as JSON, with the names behind the figures.
    #[arg(long)]
    json: bool,
    /// Show the figures of an earlier `--json` beside.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    against: Option<PathBuf>,
    /// Folders and files of the malloc, separated by commas.
    #[arg(
        long,
        value_name = "PATHS",
        value_delimiter = ',',
        default_value = "crates/core/src/malloc"
    )]
    malloc: Vec<String>,
    /// Measure another checkout of the project.
    #[arg(long, value_name = "FOLDER")]
    tree: Option<PathBuf>,
}

/// Measures and prints.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let before = options.against.as_deref().map(read).transpose()?;
    let root = options.tree.clone().unwrap_or_else(crate::sources::root);
    let scope = Scope::of(&root, &options.malloc)?;
    eprintln!("building libfreehold.so with its table of lines");
    let figures = figures::measure(&root, &scope)?;
    if options.json {
        println!("{:#}", document(&root, &scope, &figures));
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", table(&figures, before.as_ref()).render());
    print!("{}", parts(&figures).render());
    println!("\nThe names behind the figures: --json. The rules: --help.");
    Ok(ExitCode::SUCCESS)
}

/// The files of the largest circle of imports below `folder` in the crate that lies in `name`; none if there is none.
pub fn circle_in(root: &Path, name: &str, folder: &str) -> Vec<String> {
    Crate::read(root, name)
        .map_or_else(Vec::new, |found| circles::largest(&found, &[folder.to_owned()]))
}

/// What an earlier run printed as JSON.
fn read(path: &Path) -> anyhow::Result<Value> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    let before: Value = serde_json::from_str(&text).with_context(|| {
        format!("{} is not what `cargo xtask house --json` prints", path.display())
    })?;
    let is_ours = before["figures"].is_object();
    anyhow::ensure!(
        is_ours,
        "{} has no figures: make it by `cargo xtask house --json`",
        path.display()
    );
    Ok(before)
}

fn document(root: &Path, scope: &Scope, figures: &Figures) -> Value {
    let values: serde_json::Map<String, Value> =
        figures.rows().into_iter().map(|row| (row.key.to_owned(), json!(row.value))).collect();
    let parts: serde_json::Map<String, Value> = figures
        .parts
        .iter()
        .map(|(name, part)| {
            (
                name.clone(),
                json!({"files": part.files, "code": part.code, "comments": part.comments}),
            )
        })
        .collect();
    json!({
        "kind": "house",
        "commit": commit(root),
        "date": facts::date(),
        "malloc": scope.malloc,
        "figures": values,
        "parts": parts,
        "largest_types": figures.types.iter().map(|(name, (methods, files))| {
            json!({"type": name, "methods": methods, "files": files})
        }).collect::<Vec<_>>(),
        "circle_of_the_malloc": figures.malloc_circle,
        "circle_of_freehold": figures.freehold_circle,
        "cold_way": figures.cold.as_ref().map(|(files, _)| files),
        "cold_instructions": figures.cold.as_ref().map(|(_, instructions)| instructions),
        "terms": figures.terms,
    })
}

/// The commit of a checkout, with a `+` when its crates differ from it.
fn commit(root: &Path) -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").current_dir(root).args(args).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let head = git(&["rev-parse", "--short=10", "HEAD"]).unwrap_or_else(|| "unknown".to_owned());
    let changed =
        git(&["status", "--porcelain", "--", "crates"]).is_some_and(|list| !list.is_empty());
    if changed { head + "+" } else { head }
}

fn table(figures: &Figures, before: Option<&Value>) -> Table {
    let number = |value: Option<u64>| value.map_or("unknown".to_owned(), |value| value.to_string());
    let mut head = vec!["figure".to_owned()];
    head.extend(
        before.map(|before| {
            format!("at {}", before["commit"].as_str().unwrap_or("an unknown commit"))
        }),
    );
    head.extend(["now", "goal", "reached"].map(str::to_owned));
    let mut table = Table::new("How much there is to hold", head);
    for row in figures.rows() {
        let mut cells = vec![row.title];
        cells.extend(before.map(|before| number(before["figures"][row.key].as_u64())));
        let reached = row
            .goal
            .zip(row.value)
            .map_or("", |(goal, value)| if value <= goal { "yes" } else { "no" });
        let goal = row.goal.map_or(String::new(), |goal| format!("at most {goal}"));
        cells.extend([number(row.value), goal, reached.to_owned()]);
        table.push(cells);
    }
    table
}

fn parts(figures: &Figures) -> Table {
    let mut table =
        Table::new("In libfreehold.so", ["part", "files", "code", "comments"].map(str::to_owned));
    for (name, part) in &figures.parts {
        let numbers = [part.files, part.code, part.comments].map(|number| number.to_string());
        table.push([name.clone()].into_iter().chain(numbers));
    }
    table
}
