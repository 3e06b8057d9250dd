//! What every page must be: closed, with ids given once, without a request to anybody, all figures numbers.

/// Panics where the page is not.
pub(crate) fn assert_sound(page: &str) {
    for tag in [
        "figure", "table", "svg", "div", "section", "details", "dl", "ol", "ul", "nav", "main",
        "text",
    ] {
        let opened =
            page.matches(&format!("<{tag} ")).count() + page.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "<{tag}>");
    }
    let mut ids: Vec<&str> =
        page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    ids.sort_unstable();
    let twice = ids.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "an id given twice");
    for fetches in ["http:", "https:", "src=\"h", "@import", "url(", "<script src", "<iframe"] {
        assert!(!page.contains(fetches), "{fetches}");
    }
    for odd in ["NaN", ">inf", "inf ", "\"inf"] {
        assert!(!page.contains(odd), "{odd}: every figure is a number");
    }
}
