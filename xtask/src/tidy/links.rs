//! Links in prose lead to files that exist, and to headings that those files have.

use super::Finding;
use crate::sources::{Source, root};
use std::path::{Path, PathBuf};

pub fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().filter(|source| source.is_markdown()).flat_map(check_file).collect()
}

fn check_file(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (number, line) in source.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for target in targets(line) {
            if let Err(why) = follow(&source.path, target) {
                findings.push(Finding::at(source, number, format!("{target}: {why}")));
            }
        }
    }
    findings
}

/// What stands between `](` and `)` on the line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

fn follow(from: &str, target: &str) -> Result<(), &'static str> {
    if target.starts_with("http://") || target.starts_with("https://") {
        return Ok(());
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { PathBuf::from(from) } else { beside(from, file) };
    let path = root().join(path);
    if !path.exists() {
        return Err("no such file");
    }
    if heading.is_empty() {
        return Ok(());
    }
    let text = std::fs::read_to_string(path).map_err(|_| "not a text with headings")?;
    let found = text.lines().filter(|line| line.starts_with('#')).any(|line| slug(line) == heading);
    if found { Ok(()) } else { Err("no such heading") }
}

fn beside(from: &str, file: &str) -> PathBuf {
    Path::new(from).parent().map_or_else(PathBuf::new, Path::to_path_buf).join(file)
}

/// The anchor that a forge gives a heading.
fn slug(heading: &str) -> String {
    let words = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found() {
        assert_eq!(follow("README.md", "no-such-file.md"), Err("no such file"));
        assert_eq!(follow("README.md", "Cargo.toml#no-such-heading"), Err("no such heading"));
        assert_eq!(follow("xtask/src/main.rs", "../Cargo.toml"), Ok(()));
    }

    #[test]
    fn headings_become_anchors() {
        assert_eq!(slug("## The life of one `malloc`"), "the-life-of-one-malloc");
    }
}
