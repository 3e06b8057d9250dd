//! Names of functions as compilers demangle them: what of a name is the function, and how it is printed.
//!
//! ```text
//!   void std::vector<Item, std::allocator<Item> >::emplace_back<Item>(Item&&)
//!   ^^^^ ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ ^^^^^^^^^
//!   returns                qualified name                         arguments
//! ```

use std::borrow::Cow;
use std::ops::Range;

/// Longest qualified name whose template arguments are printed; those of `std::` never are.
const MOST_PRINTED: usize = 32;
/// What C++ puts into names of things that have none.
const ANONYMOUS: &str = "(anonymous namespace)";

/// Where the qualified name is.
fn qualified_range(name: &str) -> Range<usize> {
    let bytes = name.as_bytes();
    let (mut depth, mut start, mut at) = (0usize, 0, 0);
    while let Some(&byte) = bytes.get(at) {
        let rest = &name[at..];
        match byte {
            _ if depth == 0 && rest.starts_with(ANONYMOUS) => at += ANONYMOUS.len() - 1,
            _ if depth == 0 && is_operator(name, at) => {
                let symbol = rest[8..].find(|c: char| c == '(' || c.is_alphanumeric());
                let ends = match rest[8..].starts_with("()") {
                    true => 10,
                    false => 8 + symbol.unwrap_or(rest.len() - 8),
                };
                // `operator new(…)`, `operator bool()`: up to the arguments.
                let more = rest[ends..].find('(').unwrap_or(rest.len() - ends);
                return start..at + ends + more;
            }
            b'(' if depth == 0 && at > start => return start..at,
            b' ' if depth == 0 => start = at + 1,
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    // A space behind the name and no arguments: not a demangled function.
    if start >= name.len() { 0..name.len() } else { start..name.len() }
}

/// Whether the word `operator` begins there.
fn is_operator(name: &str, at: usize) -> bool {
    let before = name[..at].chars().next_back();
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    name[at..].starts_with("operator")
        && !before.is_some_and(is_part)
        && !name[at + 8..].chars().next().is_none_or(is_part)
}

/// The qualified name: without what it returns and its arguments.
pub(super) fn qualified(name: &str) -> &str {
    match name.is_ascii() && (name.contains('(') || name.contains("::")) {
        true => &name[qualified_range(name)],
        false => name,
    }
}

/// As it is printed: the qualified name, template arguments as … where it is long.
#[must_use]
pub fn short(name: &str) -> Cow<'_, str> {
    let name = qualified(name);
    let is_short = name.chars().count() <= MOST_PRINTED && !name.starts_with("std::");
    if is_short || name.contains("operator") {
        return Cow::Borrowed(name);
    }
    let (mut out, mut depth, mut last) = (String::new(), 0usize, ' ');
    for c in name.chars() {
        // `<T as Trait>::f` of Rust begins with what others have as arguments: it stays.
        let opens = c == '<' && (depth > 0 || !out.is_empty());
        depth += usize::from(opens);
        if opens && depth == 1 {
            out += "<…>";
        }
        if depth == 0 {
            out.push(c);
        }
        if c == '>' && last != '-' {
            depth = depth.saturating_sub(1);
        }
        last = c;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_stands_between_result_and_arguments() {
        for (name, expected) in [
            ("main", "main"),
            ("grow(int, char const*)", "grow"),
            ("void std::vector<A, B<A> >::push_back(A&&)", "std::vector<A, B<A> >::push_back"),
            ("std::vector<int>& user::make<int>(int)", "user::make<int>"),
            ("operator new(unsigned long)", "operator new"),
            ("A::operator()(int) const", "A::operator()"),
            ("bool ns::operator< <int>(ns::A const&)", "ns::operator< <int>"),
            ("(anonymous namespace)::Pool::take(long)", "(anonymous namespace)::Pool::take"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
            (
                "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
                "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            ),
            (
                "core::ops::function::FnOnce<fn(&u8) -> bool>::call",
                "core::ops::function::FnOnce<fn(&u8) -> bool>::call",
            ),
            ("made here", "made here"),
            ("operators(int)", "operators"),
        ] {
            assert_eq!(qualified(name), expected);
        }
    }

    #[test]
    fn long_templates_are_shortened() {
        let name = "void std::vector<std::basic_string<char>, std::allocator<int> >::_M_realloc_insert<int>(int*)";
        assert_eq!(short(name), "std::vector<…>::_M_realloc_insert<…>");
        assert_eq!(short("Ring<int>::push(int)"), "Ring<int>::push");
        assert_eq!(short("std::make_unique<A, >(A&&)"), "std::make_unique<…>");
    }
}
