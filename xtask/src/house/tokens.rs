//! The tokens of a Rust file, with its lines sorted into code, comments, blanks and tests.
//!
//! A lexer, not a parser: it knows comments, strings, characters and lifetimes, so that what stands in them is never taken
//! for code, and it cuts out every item under `#[cfg(test)]`.

use std::collections::BTreeSet;
use std::ops::Range;

/// The tokens of a file, without comments and tests, and how many lines it has of each kind.
pub struct Tokens {
    /// Identifiers as they stand, punctuation by single characters but `::`, every literal and lifetime as an empty text.
    pub texts: Vec<String>,
    /// Lines that hold code which is not a test.
    pub code: usize,
    /// Lines that hold a comment and no code, outside of tests.
    pub comments: usize,
}

/// A token and the lines that it stands on, counted from 0.
struct Token {
    text: String,
    lines: Range<usize>,
}

impl Tokens {
    /// Of the text of a file.
    pub fn of(text: &str) -> Tokens {
        let mut lexer =
            Lexer { rest: text, line: 0, tokens: Vec::new(), comments: BTreeSet::new() };
        while lexer.step() {}
        let Lexer { tokens, comments, .. } = lexer;
        let cuts = tests(&tokens);
        let cut = |at: usize| cuts.iter().any(|cut| cut.contains(&at));
        let lines_of =
            |range: &Range<usize>| tokens[range.start].lines.start..tokens[range.end - 1].lines.end;
        let in_tests: BTreeSet<usize> = cuts.iter().flat_map(lines_of).collect();
        let kept =
            tokens.into_iter().enumerate().filter(|(at, _)| !cut(*at)).map(|(_, token)| token);
        let (mut texts, mut code) = (Vec::new(), BTreeSet::new());
        for token in kept {
            code.extend(token.lines);
            texts.push(token.text);
        }
        let is_comment = |line: &&usize| !code.contains(line) && !in_tests.contains(line);
        Tokens { comments: comments.iter().filter(is_comment).count(), texts, code: code.len() }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token>,
    /// Lines on which a comment stands.
    comments: BTreeSet<usize>,
}

impl Lexer<'_> {
    /// Takes the next token, comment or white space; `false` at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        if first.is_whitespace() {
            self.pass(first.len_utf8());
        } else if self.rest.starts_with("//") {
            let lines = self.pass(self.rest.find('\n').unwrap_or(self.rest.len()));
            self.comments.extend(lines);
        } else if self.rest.starts_with("/*") {
            let lines = self.pass(block_comment(self.rest));
            self.comments.extend(lines);
        } else if let Some(len) = literal(self.rest) {
            self.token(len, false);
        } else if self.rest.starts_with("::") {
            self.token(2, true);
        } else {
            let word = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
            self.token(word.max(first.len_utf8() * usize::from(word == 0)), true);
        }
        true
    }

    /// Goes on by `len` bytes; the lines that they stand on.
    fn pass(&mut self, len: usize) -> Range<usize> {
        let first = self.line;
        self.line += self.rest[..len].matches('\n').count();
        self.rest = &self.rest[len..];
        first..self.line + 1
    }

    fn token(&mut self, len: usize, named: bool) {
        let text = if named { self.rest[..len].to_owned() } else { String::new() };
        let lines = self.pass(len);
        self.tokens.push(Token { text, lines });
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a comment that may hold others.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        match rest {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a string, character, lifetime or raw string, if one begins here.
fn literal(text: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        let rest = text.strip_prefix(prefix);
        rest.is_some_and(|rest| {
            rest.starts_with(['"', '\'']) || prefix.contains('r') && raw(rest).is_some()
        })
    })?;
    let rest = &text[prefix.len()..];
    let len = match raw(rest) {
        Some(hashes) if prefix.contains('r') => {
            let end = format!("\"{}", "#".repeat(hashes));
            rest[hashes + 1..].find(&end).map(|at| hashes + 1 + at + end.len())
        }
        _ if rest.starts_with('"') => quoted(rest, '"'),
        _ => character(rest),
    };
    Some(prefix.len() + len.unwrap_or(rest.len()))
}

/// How many `#` stand before the quote of a raw string.
fn raw(text: &str) -> Option<usize> {
    let hashes = text.len() - text.trim_start_matches('#').len();
    text[hashes..].starts_with('"').then_some(hashes)
}

/// The length of what stands between two quotes, quotes included; a `\` takes the next character with it.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return Some(at + 1);
        }
        escaped = c == '\\' && !escaped;
    }
    None
}

/// The length of a character, or of a lifetime, which has no second quote.
fn character(text: &str) -> Option<usize> {
    let mut inside = text.chars().skip(1);
    let (first, second) = (inside.next()?, inside.next());
    if first == '\\' || second == Some('\'') {
        return quoted(text, '\'');
    }
    Some(1 + text[1..].find(|c| !is_word(c)).unwrap_or(text.len() - 1))
}

/// The ranges of tokens that are items under `#[cfg(test)]`, attributes included.
fn tests(tokens: &[Token]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for at in 0..tokens.len() {
        let inside = found.last().is_some_and(|last| last.contains(&at));
        if inside || !starts(tokens, at, &["#", "["]) {
            continue;
        }
        let after = close(tokens, at + 1);
        if asks_for_tests(&tokens[at..after]) {
            found.push(at..item(tokens, after));
        }
    }
    found
}

fn starts(tokens: &[Token], at: usize, texts: &[&str]) -> bool {
    let here = tokens.get(at..at + texts.len());
    here.is_some_and(|here| here.iter().zip(texts).all(|(token, text)| token.text == *text))
}

/// Whether an attribute is a `cfg` that holds in tests only: it names `test`, not within `not`.
fn asks_for_tests(attribute: &[Token]) -> bool {
    if !starts(attribute, 2, &["cfg", "("]) {
        return false;
    }
    let mut around: Vec<&str> = Vec::new();
    for (before, token) in attribute.iter().zip(&attribute[1..]) {
        match token.text.as_str() {
            "(" => around.push(&before.text),
            ")" => _ = around.pop(),
            "test" if !around.contains(&"not") => return true,
            _ => {}
        }
    }
    false
}

/// Behind the bracket that closes the one at `open`.
fn close(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        depth += depth_of(&token.text);
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// What a token adds to the depth of brackets.
pub fn depth_of(text: &str) -> i32 {
    match text {
        "(" | "[" | "{" => 1,
        ")" | "]" | "}" => -1,
        _ => 0,
    }
}

/// Behind the item that begins at `from`, with its further attributes.
fn item(tokens: &[Token], mut from: usize) -> usize {
    while starts(tokens, from, &["#", "["]) {
        from = close(tokens, from + 1);
    }
    let has_body = tokens[from..].iter().map(|token| token.text.as_str()).find_map(kind);
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        depth += depth_of(&token.text);
        match token.text.as_str() {
            _ if depth < 0 => return at,
            ";" if depth == 0 => return at + 1,
            "}" if depth == 0 && has_body == Some(Kind::Body) => return at + 1,
            "," if depth == 0 && has_body == Some(Kind::Part) => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Ends with its braces.
    Body,
    /// Ends with a semicolon, braces or not.
    Line,
    /// A field or variant: ends with a comma.
    Part,
}

/// The kind of an item, as its first telling word says.
fn kind(word: &str) -> Option<Kind> {
    match word {
        "fn" | "mod" | "impl" | "struct" | "enum" | "union" | "trait" | "macro_rules" => {
            Some(Kind::Body)
        }
        "use" | "static" | "type" | "let" | "=" => Some(Kind::Line),
        ":" => Some(Kind::Part),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Tokens;

    fn lines(text: &str) -> (usize, usize) {
        let tokens = Tokens::of(text);
        (tokens.code, tokens.comments)
    }

    #[test]
    fn lines_are_code_comments_or_neither() {
        assert_eq!(lines("//! What.\n\nfn a() {} // why\n/* one\n   /* two */ */\n"), (1, 3));
        assert_eq!(lines("const A: &str = \"// no\n   comment\";\n"), (2, 0));
        assert_eq!(lines("const A: &str = r#\"/* \" \"#; // one\n// two\n"), (1, 1));
        assert_eq!(
            lines("fn a<'a>(c: char) -> bool { c == '\"' || c == '\\'' }\n// one\n"),
            (1, 1)
        );
    }

    #[test]
    fn tests_are_cut_out() {
        let counted = "fn a() {}\n";
        for test in [
            "#[cfg(test)]\nmod tests {\n    // a comment\n    fn b() {}\n}\n",
            "#[cfg(test)]\nuse a::{b, c};\n",
            "#[cfg(all(test, not(loom)))]\n#[path = \"b.rs\"]\nmod tests;\n",
            "#[cfg(test)]\nconst B: [u8; 2] = [1, 2];\n",
            "#[cfg(test)]\nconst fn b() -> [u8; 2] {\n    [1, 2]\n}\n",
        ] {
            assert_eq!(lines(&format!("{test}{counted}")), (1, 0), "{test}");
            assert_eq!(Tokens::of(&format!("{test}{counted}")).texts.concat(), "fna(){}", "{test}");
        }
        assert_eq!(lines("struct A {\n    #[cfg(test)]\n    b: u8,\n    c: u8,\n}\n"), (3, 0));
        assert_eq!(lines("#[cfg(not(test))]\nfn a() {}\n"), (2, 0));
    }

    #[test]
    fn numbers_and_paths_stay_whole() {
        assert_eq!(
            Tokens::of("a::b(0x1f, 'c', 'd: \"e\")").texts,
            ["a", "::", "b", "(", "0x1f", ",", "", ",", "", ":", "", ")"]
        );
    }
}
