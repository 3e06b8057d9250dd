//! The glossary's terms that a reader of the malloc must know.

use std::collections::BTreeSet;

/// Sections of the glossary, by what their headings begin with, that a malloc's reader does not need.
const LEFT_OUT: [&str; 2] = ["Traces", "The words of other allocators"];

/// The terms of the glossary that stand in these texts.
///
/// A term is what is bold, and longer than one letter, in the first column of a table. It stands in a text when its words
/// follow one another there, in prose or as parts of a name (`NodeHeap` and `node_heap` are both *node heap*), in the
/// singular or with an s.
pub fn known<'a>(glossary: &str, texts: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let spoken: Vec<String> = texts.map(words).collect();
    let stands = |term: &String| {
        let (one, more) =
            (format!(" {} ", words(term).trim()), format!(" {}s ", words(term).trim()));
        spoken.iter().any(|text| text.contains(&one) || text.contains(&more))
    };
    terms(glossary).into_iter().filter(stands).collect()
}

/// All terms of the glossary.
fn terms(glossary: &str) -> BTreeSet<String> {
    let (mut counts, mut found) = (true, BTreeSet::new());
    for line in glossary.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            counts = !LEFT_OUT.iter().any(|left_out| heading.starts_with(left_out));
        }
        let Some(cell) = line.strip_prefix("| ").and_then(|line| line.split('|').next()) else {
            continue;
        };
        let bold = cell.split("**").skip(1).step_by(2).filter(|term| counts && term.len() > 1);
        found.extend(bold.map(str::to_lowercase));
    }
    found
}

/// The words of a text in lower case between single blanks; names are cut at `_` and before capitals.
fn words(text: &str) -> String {
    let mut out = String::from(" ");
    let mut before = ' ';
    for c in text.chars() {
        let is_cut = !c.is_alphanumeric() || c.is_uppercase() && before.is_lowercase();
        if is_cut && !out.ends_with(' ') {
            out.push(' ');
        }
        if c.is_alphanumeric() {
            out.extend(c.to_lowercase());
        }
        before = c;
    }
    out.push(' ');
    out
}

#[cfg(test)]
mod tests {
    use super::known;

    #[test]
    fn terms_are_found_in_prose_and_in_names() {
        let glossary = "## Memory\n| **slab** | … |\n| **node heap**, **magazine** | a **bold** word |\n\
                        | **c** | … |\n## The words of other allocators\n| **span** | … |\n";
        let found = |text| known(glossary, [text].into_iter()).into_iter().collect::<Vec<_>>();
        assert_eq!(found("//! Slabs lie here.\nstruct NodeHeap;"), ["node heap", "slab"]);
        assert_eq!(
            found("let magazine_len = span + bold * c; node(heap)"),
            ["magazine", "node heap"]
        );
        assert!(found("fn slabby() {}").is_empty());
    }
}
