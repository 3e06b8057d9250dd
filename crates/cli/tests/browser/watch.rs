//! What a browser sees of a page: the page in a frame, a script beside it that writes down what it measures.

use std::path::{Path, PathBuf};
use std::process::Command;

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
  let verdicts = 0, farthest = 0;
  for (const cell of page.querySelectorAll('td.verdict')) {
    if (cell.checkVisibility && !cell.checkVisibility()) continue;
    verdicts += 1;
    farthest = Math.max(farthest, cell.getBoundingClientRect().right);
  }
  // The first sentence of what to do, and on a phone the first figures of the table.
  const heading = [...page.querySelectorAll('.answer dt')].find(dt => dt.textContent === 'What to do');
  const todo = heading && heading.nextElementSibling;
  const thirds = [...page.querySelectorAll('#ranking-allocators tbody tr > :nth-child(3)')]
    .map(cell => cell.getBoundingClientRect().right);
  // By keys alone: down to the first function and the next, back up, into it, and out again.
  const flame = page.getElementById('flame'), keys = [];
  if (flame) {
    const press = key => {
      page.activeElement.dispatchEvent(new view.KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
      keys.push(page.activeElement.textContent);
    };
    const stops = flame.querySelectorAll('[tabindex="0"]');
    keys.push(String(stops.length));
    stops[0].focus();
    keys.push(page.activeElement.textContent);
    ['ArrowDown', 'ArrowUp', 'ArrowDown'].forEach(press);
    page.activeElement.click();
    keys.push(flame.querySelector('button').textContent);
    press('Escape');
  }
  const root = page.documentElement;
  document.getElementById('seen').textContent = JSON.stringify({
    width: root.clientWidth, needs: root.scrollWidth, tall: root.scrollHeight, drawn,
    requests: view.performance.getEntriesByType('resource').map(entry => entry.name),
    page: view.getComputedStyle(page.body).backgroundColor, contrast: worst, faintest, least, verdicts, farthest, keys,
    todo: todo ? todo.textContent : '', todo_ends: todo ? todo.getBoundingClientRect().bottom : 0,
    third_ends: Math.max(0, ...thirds) });
});
</script>"#;

/// What was seen.
#[derive(serde::Deserialize, Debug)]
pub struct Seen {
    pub width: u32,
    pub needs: u32,
    pub tall: u32,
    pub drawn: u32,
    pub requests: Vec<String>,
    pub page: String,
    pub contrast: f64,
    pub faintest: String,
    pub least: f64,
    /// Cells that say what became of a claim, and where the farthest of them ends.
    pub verdicts: u32,
    pub farthest: f64,
    /// Where keys alone lead in the graph of call stacks, if there is one.
    pub keys: Vec<String>,
    /// What to do first, if the page says so, and where that ends.
    pub todo: String,
    pub todo_ends: f64,
    /// Where the third column of the table of allocators ends, if there is one.
    pub third_ends: f64,
    #[serde(skip)]
    pub console: Vec<String>,
}

/// A browser of this machine's; without one the trial ends here, ignored.
pub fn browser() -> Option<PathBuf> {
    let found = find();
    if found.is_none() {
        freehold_testkit::skip(&format!("none of {BROWSERS:?} is installed"));
    }
    found
}

fn find() -> Option<PathBuf> {
    let folders: Vec<_> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let places = BROWSERS.iter().flat_map(|name| folders.iter().map(move |f| f.join(name)));
    places.into_iter().find(|path| path.is_file())
}

/// Loads `page.html` of the folder in a frame `width` pixels wide.
pub fn look(browser: &Path, folder: &Path, width: u32, dark: bool) -> Seen {
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
