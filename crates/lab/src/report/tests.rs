//! The report on made-up outcomes: what it says, and that it says it safely.

use super::*;

fn page_of(document: &Document, map: &HeatMap) -> String {
    let answer = Answer::of_comparison(None, document);
    Story {
        document,
        circumstances: &samples::circumstances(),
        lifetimes: Some(map),
        sites: None,
        answer: &answer,
        command: "freehold compare -- freehold-radiosity",
        trace_file: "app.fht",
        kept: false,
        warnings: &[],
    }
    .html()
}

fn sample_page() -> String {
    page_of(&samples::document(), &samples::heat())
}

#[test]
fn base64_is_that_of_the_rfc() {
    let shown =
        ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|s| sheet::base64(s.as_bytes()));
    assert_eq!(shown, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"]);
}

#[test]
fn the_page_is_sound_and_every_name_escaped() {
    let page = sample_page();
    sound::assert_sound(&page);
    assert!(page.contains("&lt;room &amp; box&gt;") && !page.contains("<room"));
}

#[test]
fn nothing_replayed_is_said_not_drawn() {
    let mut document = samples::document();
    document.results.clear();
    let page = page_of(&document, &HeatMap::default());
    assert!(page.contains("Nothing could replay this trace"));
    assert!(!page.contains("<svg"));
}

/// Writes the sample page where `FREEHOLD_SAMPLE_REPORT` says, to be looked at.
#[test]
fn sample_page_for_the_eye() {
    if let Some(path) = std::env::var_os("FREEHOLD_SAMPLE_REPORT") {
        std::fs::write(path, sample_page()).unwrap();
    }
}
