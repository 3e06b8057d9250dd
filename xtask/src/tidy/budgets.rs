//! A file holds one concept and says which: it opens with `//!`, and past 600 lines its header says
//! why (with the words "lines because").

use super::Finding;
use crate::sources::Source;

const LINES: usize = 600;
const EXCUSE: &str = "lines because";

pub fn check(sources: &[Source]) -> Vec<Finding> {
    sources.iter().filter(|source| source.is_rust()).filter_map(check_file).collect()
}

fn check_file(source: &Source) -> Option<Finding> {
    let header: Vec<&str> =
        source.text.lines().take_while(|line| line.starts_with("//!")).collect();
    if header.is_empty() {
        return Some(Finding::of(&source.path, "does not open with `//!`: what does it own?"));
    }
    let lines = source.text.lines().count();
    let argued = header.join(" ").contains(EXCUSE);
    (lines > LINES && !argued).then(|| {
        let message =
            format!("{lines} lines; past {LINES} the header argues why (\"… {EXCUSE} …\")");
        Finding::of(&source.path, message)
    })
}
