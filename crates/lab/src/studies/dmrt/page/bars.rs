//! Published and ours as pairs of bars: a panel a load, a row an allocator.

use super::super::metrics::{Unit, metric};
use super::super::tables::{Entry, Table};
use crate::report::html::Escaped;
use crate::report::lines::open_svg;
use std::fmt::Write;

/// What is drawn of every case: the metric, its title, how to read it.
pub const PICTURES: &[(&str, &str, &str)] = &[
    (
        "time",
        "Execution time",
        "As multiples of DmRT's in the same table, because the chapter's milliseconds are those of \
         its own simulator. The table below has the times themselves.",
    ),
    (
        "external",
        "Fragmentation",
        "Ours is external: how much of what is free is not in the longest free block. The chapter \
         does not say what it measures.",
    ),
    ("satisfied", "Requests satisfied", "Of all requests of an attempt, those that were served."),
];

const WIDTH: f64 = 320.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 62.0;
const TOP: f64 = 6.0;
const BAR: f64 = 13.0;
const ROW: f64 = 38.0;

/// A value with its interval, as drawn.
struct Bar {
    value: f64,
    half_width: f64,
}

/// The bars of one allocator.
struct Pair<'a> {
    name: &'a str,
    published: Option<f64>,
    ours: Bar,
}

/// One panel a table, with a key above.
pub fn panels(tables: &[&Table], key: &str, case: u32) -> String {
    let mut out = String::from(
        "<p class=\"key\"><i class=\"swatch is-printed\"></i>published<i class=\"swatch\"></i>ours, \
         with its 95 % interval</p><div class=\"panels\">",
    );
    let all: Vec<Vec<Pair>> = tables.iter().map(|table| pairs(table, key)).collect();
    let reach =
        |pair: &Pair| (pair.ours.value + pair.ours.half_width).max(pair.published.unwrap_or(0.0));
    let most = all.iter().flatten().map(reach).fold(0.0, f64::max);
    // Percentages of one case are compared across its panels; ratios differ too much for that.
    let unit = metric(key).map_or(Unit::Number, |metric| metric.unit);
    for (table, pairs) in tables.iter().zip(&all) {
        let own = pairs.iter().map(reach).fold(0.0, f64::max);
        let most = if unit == Unit::Percent { most } else { own };
        let id = format!("b-{key}-{case}-{}", table.requests);
        let _ = write!(
            out,
            "<div><h4>{} requests{}</h4>{}</div>",
            table.requests,
            numbered(table),
            panel(&id, table, pairs, most, unit)
        );
    }
    out + "</div>"
}

fn numbered(table: &Table) -> String {
    match table.entries.iter().any(|entry| entry.published.is_some()) {
        true => format!(" (table {})", Escaped(&table.name)),
        false => String::new(),
    }
}

/// What is compared with the chapter comes first, in its order; all others below.
fn pairs<'a>(table: &'a Table, key: &str) -> Vec<Pair<'a>> {
    let Some(metric) = metric(key) else { return Vec::new() };
    let of = |entry: &Entry| metric.published.and_then(|get| entry.published.as_ref().map(get));
    let dmrt = table.entry("dmrt");
    let is_time = metric.unit == Unit::Microseconds;
    let unit = dmrt.filter(|_| is_time).map_or(1.0, |dmrt| dmrt.of(key).mean);
    let printed = dmrt.filter(|_| is_time).and_then(of).unwrap_or(1.0);
    let pair = |entry: &'a Entry| Pair {
        name: entry.allocator,
        published: of(entry).map(|value| value / printed),
        ours: Bar { value: entry.of(key).mean / unit, half_width: entry.of(key).half_width / unit },
    };
    table.entries.iter().map(pair).collect()
}

fn panel(id: &str, table: &Table, pairs: &[Pair], most: f64, unit: Unit) -> String {
    let height = TOP + ROW * pairs.len() as f64;
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * (value / most.max(1e-9)).clamp(0.0, 1.0);
    let show = |value: f64| match unit {
        Unit::Percent => format!("{value:.1} %"),
        Unit::Microseconds => format!("{value:.2}×"),
        Unit::Number => format!("{value:.1}"),
    };
    let title = format!("Case {}, {} requests", table.case, table.requests);
    let mut svg = open_svg(WIDTH, height, id, &title, &description(pairs, &show));
    let _ = write!(svg, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{height}\"/>");
    for (i, pair) in pairs.iter().enumerate() {
        let top = TOP + ROW * i as f64 + 4.0;
        let _ = write!(
            svg,
            "<text class=\"row\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 8.0,
            top + BAR + 5.0,
            Escaped(pair.name)
        );
        if let Some(value) = pair.published {
            bar(&mut svg, "printed", top, x(value), &show(value));
        }
        // Alone, a bar stands in the middle of its row.
        let below = if pair.published.is_some() { top + BAR + 2.0 } else { top + BAR / 2.0 };
        let (value, half) = (pair.ours.value, pair.ours.half_width);
        let (start, end) = (x(value - half), x(value + half));
        let middle = below + BAR / 2.0;
        let _ = write!(
            svg,
            "<rect class=\"f0\" x=\"{LEFT}\" y=\"{below:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>\
             <path class=\"whisker\" d=\"M{start:.1} {middle:.1}H{end:.1}M{start:.1} {1:.1}v6M{end:.1} {1:.1}v6\"/>",
            (x(value) - LEFT).max(0.5),
            middle - 3.0
        );
        label(&mut svg, end, below, &show(value));
    }
    svg + "</svg>"
}

fn bar(svg: &mut String, class: &str, top: f64, end: f64, text: &str) {
    let _ = write!(
        svg,
        "<rect class=\"{class}\" x=\"{LEFT}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>",
        (end - LEFT).max(0.5)
    );
    label(svg, end, top, text);
}

fn label(svg: &mut String, end: f64, top: f64, text: &str) {
    let _ = write!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        end + 5.0,
        top + BAR - 2.0,
        Escaped(text)
    );
}

fn description(pairs: &[Pair], show: &impl Fn(f64) -> String) -> String {
    let one = |pair: &Pair| {
        let printed =
            pair.published.map_or(String::new(), |value| format!(", published {}", show(value)));
        format!("{} {}{printed}", pair.name, show(pair.ours.value))
    };
    pairs.iter().map(one).collect::<Vec<_>>().join("; ")
}
