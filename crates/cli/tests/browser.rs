//! The report of a comparison in a real browser: no console message, no request, no sideways scrolling on
//! a phone, readable in both colour schemes. Ignored, and counted so, where there is no Chromium.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Holds the page in a frame of a given width, and writes down what it sees in there.
const WATCHER: &str = r#"<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="page" style="width:WIDTHpx;height:9000px;border:0" src="page.html"></iframe><pre id="seen"></pre>
<script>
const luminance = colour => {
  const [r, g, b] = colour.match(/[\d.]+/g).map(Number).slice(0, 3)
    .map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
};
const contrast = (a, b) => {
  const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
  return (x + .05) / (y + .05);
};
document.getElementById('page').addEventListener('load', event => {
  const view = event.target.contentWindow, page = view.document;
  const ground = node => {
    for (let at = node; at; at = at.parentElement) {
      const colour = view.getComputedStyle(at).backgroundColor;
      if (!/, 0\)$|transparent/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  let worst = 21, faintest = '', least = 99, drawn = 0;
  for (const node of page.querySelectorAll('p, td, th, dt, dd, li, h1, h2, h3, h4, small, code, a, label, summary, svg text')) {
    const style = view.getComputedStyle(node), inDrawing = node.closest('svg');
    if (node.checkVisibility && !node.checkVisibility()) continue;
    const found = contrast(inDrawing ? style.fill : style.color, ground(node));
    if (found < worst) { worst = found; faintest = node.outerHTML.slice(0, 90); }
    if (!inDrawing) least = Math.min(least, parseFloat(style.fontSize));
  }
  for (const svg of page.querySelectorAll('svg')) drawn += svg.getBoundingClientRect().height > 50;
  const root = page.documentElement;
  document.getElementById('seen').textContent = JSON.stringify({
    width: root.clientWidth, needs: root.scrollWidth, tall: root.scrollHeight, drawn,
    requests: view.performance.getEntriesByType('resource').map(entry => entry.name),
    page: view.getComputedStyle(page.body).backgroundColor, contrast: worst, faintest, least });
});
</script>"#;

#[derive(serde::Deserialize, Debug)]
struct Seen {
    width: u32,
    needs: u32,
    tall: u32,
    drawn: u32,
    requests: Vec<String>,
    page: String,
    contrast: f64,
    faintest: String,
    least: f64,
    #[serde(skip)]
    console: Vec<String>,
}

fn browser() -> Option<PathBuf> {
    let folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let places = BROWSERS.iter().flat_map(|name| folders.iter().map(move |f| f.join(name)));
    places.into_iter().find(|path| path.is_file())
}

/// Loads `page.html` of the folder in a frame `width` pixels wide.
fn look(browser: &Path, folder: &Path, width: u32, dark: bool) -> Seen {
    let watcher = folder.join(format!("watch-{width}-{dark}.html"));
    std::fs::write(&watcher, WATCHER.replace("WIDTH", &width.to_string())).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--allow-file-access-from-files", "--enable-logging=stderr", "--v=0"])
        .args(["--hide-scrollbars", "--window-size=1300,9100", "--virtual-time-budget=5000"])
        // Whatever asks the network fails, and says so on the console.
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }))
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", watcher.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let log = String::from_utf8_lossy(&output.stderr);
    let seen = dom.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let seen = seen.unwrap_or_else(|| panic!("the browser showed nothing:\n{log}"));
    let text = seen
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&amp;", "&");
    let mut seen: Seen =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}\n{log}"));
    seen.console = log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
    seen
}

/// Compares a program of many small allocations, whose arguments no page may take for its own.
fn compare(folder: &Path) {
    let output = Command::new(env!("CARGO_BIN_EXE_freehold"))
        .current_dir(folder)
        .stdin(Stdio::null())
        .args([
            "compare",
            "-o",
            "page.html",
            "--on",
            "glibc,first-fit,best-fit,good-fit,dmrt",
            "--",
        ])
        .args(["sh", "-c", "for n in $(seq 3000); do x=\"$x$n\"; done", "<room & box>"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn a_browser_shows_it_quietly_on_phone_and_desk_in_light_and_dark() {
    let Some(browser) = browser() else {
        return freehold_testkit::skip(&format!("none of {BROWSERS:?} is installed"));
    };
    let folder = tempfile::tempdir().unwrap();
    compare(folder.path());
    let mut grounds = Vec::new();
    for (width, dark) in [(360, false), (360, true), (1200, true)] {
        let seen = look(&browser, folder.path(), width, dark);
        assert!(seen.console.is_empty(), "the console says {:?}", seen.console);
        assert!(seen.requests.is_empty(), "the page asks for {:?}", seen.requests);
        assert_eq!(seen.width, width, "the frame is as wide as meant");
        assert!(seen.needs <= width, "at {width} px the page needs {} px", seen.needs);
        assert!(seen.tall > 3000 && seen.drawn >= 6, "something is missing: {seen:?}");
        assert!(seen.contrast >= 4.5, "contrast {} of {}", seen.contrast, seen.faintest);
        assert!(seen.least >= 12.0, "text of {} px", seen.least);
        grounds.push(seen.page);
    }
    assert_ne!(grounds[0], grounds[1], "dark is not light");
    assert_eq!(grounds[1], grounds[2]);
}

freehold_testkit::trials! {
    a_browser_shows_it_quietly_on_phone_and_desk_in_light_and_dark,
}
