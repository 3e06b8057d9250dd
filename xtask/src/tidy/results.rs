//! Every recorded run is told of: what it measured, and what to mind when it is read.

use super::Finding;
use crate::sources::Source;

/// Where recorded runs lie, and which file tells of them.
const FOLDER: &str = "bench/results/";
const TABLE: &str = "README.md";

pub fn check(sources: &[Source]) -> Vec<Finding> {
    let runs = sources.iter().filter_map(|source| source.path.strip_prefix(FOLDER));
    let table = sources.iter().find(|source| source.path.strip_prefix(FOLDER) == Some(TABLE));
    let table = table.map_or("", |table| &table.text);
    let untold = runs.filter(|run| *run != TABLE && !table.contains(&format!("]({run})")));
    let tell = |run| {
        Finding::of(&format!("{FOLDER}{run}"), format!("no row of {FOLDER}{TABLE} tells of it"))
    };
    untold.map(tell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_row_is_found() {
        let source =
            |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
        let sources = [
            source("bench/results/README.md", "| [a.jsonl](a.jsonl) | what | mind |"),
            source("bench/results/a.jsonl", "{}"),
            source("bench/results/b.jsonl", "{}"),
            source("bench/other.jsonl", "{}"),
        ];
        let found: Vec<String> = check(&sources).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["bench/results/b.jsonl"]);
    }
}
