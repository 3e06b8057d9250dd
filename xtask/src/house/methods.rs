//! The methods of types: functions in their inherent impls, wherever those stand.

use super::crates::{Crate, File};
use super::tokens::depth_of;
use std::collections::BTreeMap;

/// How many methods each type has, and in how many files, by crate, file and name of its definition.
pub fn count(found: &Crate, is_counted: impl Fn(&str) -> bool) -> BTreeMap<String, (usize, usize)> {
    let mut types: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for file in found.files.iter().filter(|file| is_counted(&file.path)) {
        let mut here = BTreeMap::new();
        for (path, methods) in impls(file) {
            let home = found.type_at(file, &path).unwrap_or(file);
            let name = path.last().map_or("", String::as_str);
            *here.entry(format!("{name} ({})", home.path)).or_insert(0) += methods;
        }
        for (name, methods) in here {
            let all = types.entry(name).or_default();
            *all = (all.0 + methods, all.1 + 1);
        }
    }
    types
}

/// The inherent impls of a file: the type's path and the number of functions.
fn impls(file: &File) -> Vec<(Vec<String>, usize)> {
    let texts = &file.tokens.texts;
    let begins = |at: &usize| {
        let before = at.checked_sub(1).map_or(";", |before| texts[before].as_str());
        texts[*at] == "impl" && matches!(before, ";" | "}" | "]" | "{" | "unsafe")
    };
    (0..texts.len()).filter(begins).filter_map(|at| inherent(&texts[at + 1..])).collect()
}

/// The type and the number of functions of an impl whose tokens follow, unless it is of a trait.
fn inherent(texts: &[String]) -> Option<(Vec<String>, usize)> {
    let (mut angles, mut path, mut body) = (0, Vec::new(), None);
    for (at, text) in texts.iter().enumerate() {
        let arrow = at > 0 && matches!(texts[at - 1].as_str(), "-" | "=");
        match text.as_str() {
            "<" => angles += 1,
            ">" if !arrow => angles -= 1,
            "for" if angles == 0 && texts.get(at + 1).is_none_or(|next| next != "<") => {
                return None;
            }
            "where" | "{" if angles == 0 => {
                body = texts[at..].iter().position(|text| text == "{").map(|open| at + open);
                break;
            }
            word if angles == 0 && word.starts_with(char::is_alphabetic) => path.push(text.clone()),
            _ => {}
        }
    }
    (!path.is_empty()).then_some((path, functions(&texts[body?..])))
}

/// The functions right inside of the braces that open here.
fn functions(texts: &[String]) -> usize {
    let (mut depth, mut functions) = (0, 0);
    for text in texts {
        depth += depth_of(text);
        functions += usize::from(depth == 1 && text == "fn");
        if depth == 0 {
            break;
        }
    }
    functions
}
