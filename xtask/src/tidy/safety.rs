//! Unsafe code is an argument: a `SAFETY:` comment close above each block and impl, a `# Safety`
//! section on each unsafe function that others may call.
//!
//! Clippy knows the same rule but sees only code that is compiled; this reads all of it, also what
//! sits behind `cfg(loom)` or a feature.

use super::Finding;
use crate::sources::Source;

/// How many lines above an unsafe block its argument may end (attributes, a long expression).
const REACH: usize = 6;

pub fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().filter(|source| source.is_rust()).flat_map(check_file).collect()
}

fn check_file(source: &Source) -> Vec<Finding> {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if code.contains('"') {
            continue;
        }
        if (opens(code, "unsafe {") || opens(code, "unsafe impl")) && !argued(&lines, index) {
            findings.push(Finding::at(source, index + 1, "unsafe without a SAFETY argument above"));
        }
        let public = code.trim_start().starts_with("pub ");
        if public && opens(code, "unsafe fn") && !has_safety_section(&lines, index) {
            findings.push(Finding::at(source, index + 1, "unsafe fn without a `# Safety` section"));
        }
    }
    findings
}

fn opens(code: &str, what: &str) -> bool {
    code.contains(what)
}

/// A SAFETY comment within reach above, or on the line itself; a block inside a run of unsafe lines
/// may share the argument of the first.
fn argued(lines: &[&str], index: usize) -> bool {
    let from = index.saturating_sub(REACH);
    lines[from..=index].iter().any(|line| line.contains("SAFETY"))
        || continues_comment(lines, index)
}

/// Whether the comment that ends directly above (however long) holds the argument.
fn continues_comment(lines: &[&str], index: usize) -> bool {
    lines[..index]
        .iter()
        .rev()
        .skip_while(|line| line.trim_start().starts_with("#["))
        .take_while(|line| line.trim_start().starts_with("//"))
        .any(|line| line.contains("SAFETY"))
}

fn has_safety_section(lines: &[&str], index: usize) -> bool {
    lines[..index]
        .iter()
        .rev()
        .take_while(|line| {
            let line = line.trim_start();
            line.starts_with("///") || line.starts_with("#[") || line.starts_with(')')
        })
        .any(|line| line.contains("# Safety"))
}
