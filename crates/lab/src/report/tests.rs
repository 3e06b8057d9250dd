//! The report on made-up outcomes: what it says, and that it says it safely.

use super::*;

fn story_of<'a>(
    document: &'a Document,
    circumstances: &'a Circumstances,
    map: &'a HeatMap,
) -> Story<'a> {
    Story {
        document,
        circumstances,
        lifetimes: Some(map),
        command: "freehold compare -- freehold-radiosity",
        trace_file: "app.fht",
        kept: false,
        warnings: &[],
    }
}

pub(super) fn sample_page() -> String {
    let (document, circumstances, map) =
        (samples::document(), samples::circumstances(), samples::heat());
    story_of(&document, &circumstances, &map).html()
}

#[test]
fn base64_is_that_of_the_rfc() {
    let shown = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|s| base64(s.as_bytes()));
    assert_eq!(shown, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
}

#[test]
fn every_tag_is_closed_and_every_name_escaped() {
    let page = sample_page();
    for tag in
        ["figure", "table", "svg", "div", "section", "details", "dl", "ol", "ul", "main", "text"]
    {
        let opened =
            page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "<{tag}>");
    }
    assert!(page.contains("&lt;room &amp; box&gt;") && !page.contains("<room"));
    assert!(!page.contains("NaN") && !page.contains("inf "), "every coordinate is a number");
}

#[test]
fn asks_nobody_for_anything() {
    let page = sample_page();
    for fetches in ["http:", "https:", "src=", "@import", "url(", "<script", "<iframe"] {
        assert!(!page.contains(fetches), "{fetches}");
    }
}

#[test]
fn ids_are_given_once() {
    let page = sample_page();
    let mut ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

#[test]
fn nothing_replayed_is_said_not_drawn() {
    let mut document = samples::document();
    document.results.clear();
    let map = HeatMap::default();
    let page = story_of(&document, &samples::circumstances(), &map).html();
    assert!(page.contains("Nothing could replay this trace"));
    assert!(!page.contains("<svg"));
}

/// Writes the sample page where `FREEHOLD_SAMPLE_REPORT` says, to be looked at.
#[test]
pub(super) fn sample_page_for_the_eye() {
    if let Some(path) = std::env::var_os("FREEHOLD_SAMPLE_REPORT") {
        std::fs::write(path, sample_page()).unwrap();
    }
}
