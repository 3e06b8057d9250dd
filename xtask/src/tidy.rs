//! `cargo xtask tidy`: the rules of the house that the compiler does not check, one file each.

mod budgets;
mod circles;
mod layers;
mod links;
mod recipes;
mod results;
mod safety;
mod words;

use crate::sources::{self, Source};
use std::process::ExitCode;

/// What a rule found wrong.
pub struct Finding {
    /// The file, from the root of the project.
    path: String,
    /// The line, where there is one.
    line: Option<usize>,
    /// What is wrong, and what to do about it.
    message: String,
}

impl Finding {
    fn at(source: &Source, line: usize, message: impl Into<String>) -> Self {
        Self { path: source.path.clone(), line: Some(line), message: message.into() }
    }

    fn of(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into() }
    }
}

/// A rule: all sources in, findings out.
type Rule = fn(&[Source]) -> Vec<Finding>;

const RULES: &[(&str, Rule)] = &[
    ("layers point downwards", layers::check),
    ("imports make no circle", circles::check),
    ("unsafe code is argued", safety::check),
    ("links lead somewhere", links::check),
    ("recipes name what exists", recipes::check),
    ("files keep to their budget", budgets::check),
    ("words are the glossary's", words::check),
    ("recorded runs are told of", results::check),
];

/// Runs every rule and prints what they find.
pub fn run() -> anyhow::Result<ExitCode> {
    let sources = sources::all()?;
    let mut wrong = 0;
    for (name, rule) in RULES {
        let findings = rule(&sources);
        println!("{} {name}", if findings.is_empty() { "ok  " } else { "BAD " });
        for Finding { path, line, message } in &findings {
            let line = line.map_or_else(String::new, |line| format!(":{line}"));
            println!("     {path}{line}: {message}");
        }
        wrong += findings.len();
    }
    println!("{} files, {wrong} findings", sources.len());
    Ok(if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
