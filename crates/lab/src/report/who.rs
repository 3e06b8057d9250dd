//! Who has the memory, on the page: a flame graph, the sites as a table, and a timeline with a cursor.
//!
//! Both drawings are complete without the script (`flame.js`), which adds zoom, search, the other measures and the cursor.
//! It gets everything from one block of JSON in the page.
//!
//! Invariant: the page stays small: the tree has left out what is tiny, the block names at most [`MOST_SITES`] sites.

use super::html::{Cell, Escaped, Figure, table_of};
use crate::human;
use crate::sites::{Branch, MOMENTS, Measure, Site, Sites};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use std::fmt::Write;

/// Sites whose bytes at each moment are in the page.
const MOST_SITES: usize = 400;
/// Sites of the table.
const MOST_ROWS: usize = 50;
/// Sites that the timeline tells apart; the rest is one.
const MOST_BANDS: usize = 5;
/// Least width of a box without the script, per cent.
const LEAST_WIDTH: f64 = 0.25;
/// Rows of the graph without the script.
const MOST_LEVELS: usize = 48;
/// Height of a row, pixels; `flame.js` has the same.
const ROW: usize = 22;
/// Height of the timeline's drawing.
const HEIGHT: f64 = 220.0;

/// Appends the section.
pub(super) fn write(out: &mut String, sites: &Sites, command: &str) {
    out.push_str(
        "<h2 id=\"who\">Who has the memory</h2><p>By call stacks: the functions of the program, outermost at the top.</p>",
    );
    Figure {
        id: "flame-figure",
        title: "Call stacks",
        lead: "A box is as wide as the bytes below it. Choose one to look into it; by keys: arrows, Enter, and Escape to go back.",
        drawing: &flame(&sites.tree),
        table: &table(sites),
        command,
    }
    .write(out);
    if sites.sites.iter().any(|site| !site.held.is_empty()) {
        Figure {
            id: "moments-figure",
            title: "Who held what, when",
            lead: "Bytes alive at the end of each of 64 parts of the time, by site; move the cursor for the sites of a moment.",
            drawing: &timeline(sites),
            table: &moments(sites),
            command,
        }
        .write(out);
    }
    let _ = write!(
        out,
        "<script type=\"application/json\" id=\"sites-data\">{}</script><script>{}</script>",
        // No name can end the block.
        data(sites).to_string().replace('<', "\\u003c"),
        include_str!("flame.js")
    );
}

fn flame(tree: &Branch) -> String {
    let mut out = String::from("<div id=\"flame-tools\" class=\"tools\" hidden>");
    for (number, name) in Measure::ALL.map(Measure::name).iter().enumerate() {
        let checked = if number == 0 { " checked" } else { "" };
        let _ = write!(
            out,
            "<label><input type=\"radio\" name=\"flame-of\" value=\"{number}\"{checked}> {name}</label>"
        );
    }
    out.push_str(
        "<label>Search <input id=\"flame-search\" type=\"search\"></label><button id=\"flame-back\">Back</button></div>\
         <p id=\"flame-said\" class=\"said\" aria-live=\"polite\"></p>",
    );
    let (mut boxes, mut levels) = (String::new(), 0);
    put(&mut boxes, &mut levels, tree, (0.0, 100.0), 0);
    let _ = write!(
        out,
        "<div id=\"flame\" class=\"flame\" role=\"group\" aria-label=\"Flame graph\" style=\"height:{}px\">{boxes}</div>",
        levels * ROW
    );
    out
}

/// A box and those below it, for pages without the script: by bytes at the peak.
fn put(out: &mut String, levels: &mut usize, branch: &Branch, at: (f64, f64), level: usize) {
    let (left, width) = at;
    if width < LEAST_WIDTH || level >= MOST_LEVELS {
        return;
    }
    *levels = (*levels).max(level + 1);
    let name = if level == 0 { "all at the peak" } else { &branch.name };
    let _ = write!(
        out,
        "<span class=\"g{}\" style=\"left:{left:.2}%;width:{width:.2}%;top:{}px\" title=\"{}: {}\">{}</span>",
        branch.name.len() % 3,
        level * ROW,
        Escaped(name),
        human::bytes(branch.bytes[0]),
        Escaped(name)
    );
    let mut from = left;
    for call in &branch.calls {
        let part = width * call.bytes[0] as f64 / branch.bytes[0].max(1) as f64;
        put(out, levels, call, (from, part), level + 1);
        from += part;
    }
}

/// What the script draws from.
fn data(sites: &Sites) -> Value {
    let mut names = Names::default();
    let tree = names.branch(&sites.tree);
    let listed = || sites.sites.iter().take(MOST_SITES);
    let times: Vec<String> = (1..=MOMENTS).map(|moment| time(sites, moment)).collect();
    json!({
        "measures": Measure::ALL.map(Measure::name),
        "tree": tree,
        "names": names.list,
        "sites": listed().map(Site::text).collect::<Vec<_>>(),
        "held": listed().map(|site| &site.held).collect::<Vec<_>>(),
        "times": times,
    })
}

/// The end of a part of the time.
fn time(sites: &Sites, moment: usize) -> String {
    human::seconds(sites.seconds * moment as f64 / MOMENTS as f64)
}

/// Each name once.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    numbers: FxHashMap<String, i64>,
}

impl Names {
    fn number(&mut self, name: &str) -> i64 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.list.len() as i64;
        self.list.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    fn branch(&mut self, branch: &Branch) -> Value {
        let name = self.number(&branch.name);
        let place = branch.place.as_deref().map_or(-1, |place| self.number(place));
        let calls: Vec<Value> = branch.calls.iter().map(|call| self.branch(call)).collect();
        json!([name, place, branch.bytes, calls])
    }
}

fn table(sites: &Sites) -> String {
    let heads = [
        "site",
        "at the peak",
        "blocks",
        "never freed",
        "allocated",
        "allocations",
        "freed at once",
        "copied to grow",
        "freed by others",
        "half lived",
    ];
    let bytes = |bytes| Cell::text(if bytes == 0 { "–".to_owned() } else { human::bytes(bytes) });
    let count = |count| Cell::text(if count == 0 { "–".to_owned() } else { human::count(count) });
    let row = |site: &Site| {
        let counts = &site.counts;
        vec![
            Cell { note: site.callers.names.first().cloned(), ..Cell::text(site.text()) },
            Cell { bar: Some(site.share), ..bytes(counts.peak_bytes) },
            count(counts.peak_blocks),
            bytes(counts.leaked_bytes),
            bytes(counts.allocated_bytes),
            count(counts.allocations),
            count(counts.temporary),
            bytes(counts.copied_bytes),
            count(counts.freed_by_others),
            Cell::text(site.median_life_s.map_or("–".to_owned(), human::seconds)),
        ]
    };
    let rows: Vec<_> = sites.sites.iter().take(MOST_ROWS).map(row).collect();
    table_of("The sites", heads, &rows)
}

/// The sites that held most at any moment.
fn bands(sites: &Sites) -> Vec<&Site> {
    let mut all: Vec<&Site> = sites.sites.iter().collect();
    all.sort_by_key(|site| std::cmp::Reverse(site.most_held()));
    all.truncate(MOST_BANDS);
    all
}

/// What all sites held at each moment.
fn totals(sites: &Sites) -> Vec<u64> {
    let sum = |at| sites.sites.iter().map(|site| site.held.get(at).copied().unwrap_or(0)).sum();
    (0..MOMENTS).map(sum).collect()
}

fn timeline(sites: &Sites) -> String {
    let (bands, totals) = (bands(sites), totals(sites));
    let most = totals.iter().copied().max().unwrap_or(0).max(1) as f64;
    let step = 1000.0 / MOMENTS as f64;
    let y = |bytes: f64| HEIGHT - bytes / most * (HEIGHT - 10.0);
    let mut out = format!(
        "<svg viewBox=\"0 0 1000 {HEIGHT}\" preserveAspectRatio=\"none\" class=\"moments\" role=\"img\" \
         aria-label=\"Bytes alive by site over time\">"
    );
    let mut below = vec![0.0; MOMENTS];
    let mut band = |class: &str, held: &dyn Fn(usize) -> f64| {
        let mut points = String::new();
        for (moment, base) in below.iter_mut().enumerate() {
            *base += held(moment);
            let (from, to) = (moment as f64 * step, (moment + 1) as f64 * step);
            let _ = write!(points, "{from:.1},{y:.1} {to:.1},{y:.1} ", y = y(*base));
        }
        // The lower edge is the axis: later bands are drawn first.
        format!("<polygon class=\"{class}\" points=\"0,{HEIGHT} {points}1000,{HEIGHT}\"/>")
    };
    let mut shapes: Vec<String> = Vec::new();
    for (number, site) in bands.iter().enumerate() {
        shapes.push(band(&format!("f{number}"), &|at| {
            site.held.get(at).copied().unwrap_or(0) as f64
        }));
    }
    let named =
        |at: usize| bands.iter().map(|site| site.held.get(at).copied().unwrap_or(0)).sum::<u64>();
    shapes.push(band("ground", &|at| totals[at].saturating_sub(named(at)) as f64));
    shapes.iter().rev().for_each(|shape| out.push_str(shape));
    let _ = write!(
        out,
        "<line id=\"moment-line\" class=\"stop\" x1=\"0\" x2=\"0\" y1=\"0\" y2=\"{HEIGHT}\" visibility=\"hidden\"/></svg><p class=\"key\">"
    );
    for (number, site) in bands.iter().enumerate() {
        let _ =
            write!(out, "<i style=\"background:var(--s{number})\"></i>{} ", Escaped(&site.text()));
    }
    let _ = write!(
        out,
        "<i></i>others; at most {}, {} in all</p><div id=\"moment-tools\" class=\"tools\" hidden>\
         <label>Moment <input id=\"moment\" type=\"range\" min=\"0\" max=\"{}\" value=\"{}\"></label>\
         <p id=\"moment-said\" class=\"said\" aria-live=\"polite\"></p><ol id=\"moment-sites\"></ol></div>",
        human::bytes(most as u64),
        time(sites, MOMENTS),
        MOMENTS - 1,
        totals.iter().enumerate().max_by_key(|total| *total.1).map_or(0, |(at, _)| at),
    );
    out
}

/// Eight moments as a table.
fn moments(sites: &Sites) -> String {
    let bands = bands(sites);
    let totals = totals(sites);
    let heads = std::iter::once("until".to_owned())
        .chain(std::iter::once("all".to_owned()))
        .chain(bands.iter().map(|site| site.text()));
    let row = |moment: usize| {
        let at =
            |held: &[u64]| Cell::text(human::bytes(held.get(moment - 1).copied().unwrap_or(0)));
        let mut cells = vec![Cell::text(time(sites, moment)), at(&totals)];
        cells.extend(bands.iter().map(|site| at(&site.held)));
        cells
    };
    let rows: Vec<_> = (1..=MOMENTS).filter(|moment| moment % 8 == 0).map(row).collect();
    table_of("Bytes alive at some moments", heads, &rows)
}
