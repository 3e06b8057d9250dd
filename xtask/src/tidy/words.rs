//! Words are fixed by GLOSSARY.md; marks of unfinished work and paths of one machine stay out.

use super::Finding;
use crate::sources::Source;

/// Other allocators' words for what the glossary calls region, bank, slab or run.
const FOREIGN: &[&str] = &["chunk", "segment", "arena", "span"];

/// What introduces a name of our own.
const INTRODUCES: &[&str] =
    &["struct ", "enum ", "trait ", "fn ", "mod ", "type ", "const ", "static "];

/// Files that must speak of the forbidden: this one.
const EXEMPT: &str = "xtask/src/tidy/words.rs";

const UNFINISHED: &[&str] = &["todo!(", "unimplemented!(", "FIXME", "XXX", "#[ignore"];
const LOCAL: &[&str] = &["/root/", "/home/"];

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let ours = sources.iter().filter(|source| source.path != EXEMPT);
    ours.filter(|source| is_text_of_ours(source)).flat_map(check_file).collect()
}

/// Recorded results name the machine they were made on; everything else stays neutral.
fn is_text_of_ours(source: &Source) -> bool {
    let known = [".rs", ".md", ".toml", ".c", ".cc", ".h", ".sh"];
    (known.iter().any(|end| source.path.ends_with(end)) || source.path == ".ci/run")
        && !source.path.starts_with("bench/results/")
}

fn check_file(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in source.lines() {
        for mark in UNFINISHED.iter().filter(|mark| source.is_rust() && line.contains(**mark)) {
            findings.push(Finding::at(source, number, format!("unfinished: {mark}")));
        }
        for path in LOCAL.iter().filter(|path| names_path(line, path)) {
            findings.push(Finding::at(source, number, format!("a path of one machine: {path}")));
        }
        if let Some(word) = source.is_rust().then(|| foreign_name(line)).flatten() {
            let message = format!("a name of ours says `{word}`; GLOSSARY.md has our word for it");
            findings.push(Finding::at(source, number, message));
        }
    }
    findings
}

/// Whether an absolute path begins here, not the middle of a longer one.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || "\"'`(=:".contains(c))
    })
}

fn foreign_name(line: &str) -> Option<&'static str> {
    let code = line.split("//").next().unwrap_or_default();
    INTRODUCES.iter().find_map(|keyword| {
        let (before, after) = code.split_once(keyword)?;
        if before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '"') {
            return None;
        }
        let name = after.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.to_lowercase();
        FOREIGN
            .iter()
            .find(|word| name.split('_').any(|part| part.trim_end_matches('s') == **word))
            .copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_our_own_count() {
        assert_eq!(foreign_name("fn free_chunk(&self) {"), Some("chunk"));
        assert_eq!(foreign_name("    pub struct Spans;"), Some("span"));
        assert_eq!(foreign_name("for pair in bytes.chunks(2) {"), None);
        assert_eq!(foreign_name("fn spanning_tree() {"), None);
    }

    #[test]
    fn a_path_of_this_machine_is_one_that_begins_here() {
        assert!(names_path("open(\"/root/x\")", "/root/"));
        assert!(!names_path("crates/core/root/x", "/root/"));
    }
}
