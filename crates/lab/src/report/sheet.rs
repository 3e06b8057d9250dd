//! A page's frame: its head with the content policy, the answer, its foot with the numbers to download.
//!
//! Invariant: every page of the project begins and ends here, so none asks the network for anything: the
//! policy forbids every address but inline styles and pictures, and scripts but for the inline ones of a page that says it has some.

use super::html::Escaped;
use serde::Serialize;
use std::fmt::Write;

/// What stands at the top of a page. The text is escaped here; `style` is trusted.
pub(crate) struct Head<'a> {
    /// The command, over the heading.
    pub over: &'a str,
    /// The browser's title.
    pub title: &'a str,
    /// The heading.
    pub heading: &'a str,
    /// One line below it.
    pub facts: &'a str,
    /// Style sheet beyond the common one.
    pub style: &'a str,
    /// Whether the page has scripts, inline.
    pub scripts: bool,
}

impl Head<'_> {
    /// Everything to the answer: `<header>` is left open.
    pub fn write(&self, out: &mut String) {
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; img-src data:{}\"><meta name=\"color-scheme\" content=\"light dark\">\
             <link rel=\"icon\" href=\"data:,\"><title>{}</title><style>{}{}</style></head><body><header>\
             <p class=\"over\">{}</p><h1>{}</h1><p class=\"facts\">{}</p>",
            if self.scripts { "; script-src 'unsafe-inline'" } else { "" },
            Escaped(self.title),
            include_str!("style.css"),
            self.style,
            Escaped(self.over),
            Escaped(self.heading),
            Escaped(self.facts)
        );
    }
}

/// A study's page up to `<main>`: its name (as in `freehold study NAME`), title, one line of facts, the
/// answer in sentences, and how it is known.
pub(crate) fn open(
    study: &str,
    title: &str,
    facts: &str,
    answer: &[String],
    fine: &str,
    style: &str,
) -> String {
    let mut out = String::with_capacity(1 << 18);
    let over = format!("Freehold {study}");
    Head { over: &over, title, heading: title, facts, style, scripts: false }.write(&mut out);
    out.push_str("<section class=\"answer\" aria-label=\"The answer\">");
    for sentence in answer {
        let _ = write!(out, "<p>{}</p>", Escaped(sentence));
    }
    if !fine.is_empty() {
        let _ = write!(out, "<p class=\"fine\">{}</p>", Escaped(fine));
    }
    out.push_str("</section>");
    out.push_str(MAIN);
    out
}

/// Where the main part begins: the navigation is put behind it when all sections are there.
const MAIN: &str = "</header><main>";

/// Links to every section of a page that is written so far, behind [`MAIN`]. A section is an `h2` with an anchor.
fn navigate(out: &mut String) {
    let mut links = String::new();
    let sections: Vec<&str> = out.split("<h2 id=\"").skip(1).collect();
    if sections.len() < 2 {
        return;
    }
    for section in sections {
        let title = section
            .split_once("\">")
            .and_then(|(id, rest)| Some((id, rest.split_once("</h2>")?.0)));
        if let Some((id, title)) = title {
            let _ = write!(links, "<a href=\"#{id}\">{title}</a>");
        }
    }
    let nav = format!("<nav class=\"contents\" aria-label=\"Contents\">{links}</nav>");
    if let Some(at) = out.find(MAIN) {
        out.insert_str(at + MAIN.len(), &nav);
    }
}

/// The end of a page: every number of it as JSON under the name `file`, and a remark on it.
pub(crate) fn close(
    out: &mut String,
    file: &str,
    numbers: &impl Serialize,
    schema_version: u32,
    remark: &str,
) {
    navigate(out);
    let json = serde_json::to_vec(numbers).unwrap_or_default();
    let _ = writeln!(
        out,
        "</main><footer><p class=\"screen-only\"><a download=\"{file}\" \
         href=\"data:application/json;base64,{}\">Download every number of this page</a> as JSON, schema \
         version {schema_version}. {}</p><p>Made by Freehold {}. This file is complete in itself and loads \
         nothing.</p></footer></body></html>",
        base64(&json),
        Escaped(remark),
        env!("CARGO_PKG_VERSION")
    );
}

/// Base 64 (RFC 4648), for the download link.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
        let word = word << (8 * (3 - group.len()));
        for digit in 0..4 {
            let shown = DIGITS[(word >> (18 - 6 * digit)) as usize & 63] as char;
            text.push(if digit <= group.len() { shown } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_a_study_links_its_sections_in_front() {
        let mut out = open("study x", "X", "", &["Yes.".to_owned()], "", "");
        out.push_str("<h2 id=\"a\">First &amp; best</h2><p>x</p><h2 id=\"b\">Second</h2>");
        close(&mut out, "x.json", &1, 1, "");
        let links =
            "<a href=\"#a\">First &amp; best</a><a href=\"#b\">Second</a></nav><h2 id=\"a\">";
        assert!(out.contains(links), "{out}");
    }
}
