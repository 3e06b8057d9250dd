//! How long single calls take: percentile against latency, both stretched where it matters.

use super::html::{self, Cell, Escaped};
use super::lines::{MOST_TOGETHER, open_svg, shortened};
use super::scale::{Scale, Unit};
use crate::human;
use crate::results::{Latency, Outcome};
use std::fmt::Write;

/// The percentiles kept, and where they stand: each further nine is one step to the right.
const PLACES: [(&str, f64); 6] = [
    ("50 %", 0.3),
    ("90 %", 1.0),
    ("99 %", 2.0),
    ("99.9 %", 3.0),
    ("99.99 %", 4.0),
    ("slowest", 5.0),
];

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 46.0;

fn values(latency: &Latency) -> [f64; 6] {
    let Latency { p50, p90, p99, p999, p9999, max, .. } = *latency;
    [p50, p90, p99, p999, p9999, max]
}

/// The drawing: a line an allocator. With more than six, only the six fastest medians are drawn
/// (the table has all). `None` where no allocator told its latencies.
pub fn draw(allocators: &[&Outcome]) -> Option<String> {
    let mut told: Vec<(usize, &str, [f64; 6])> = Vec::new();
    for (i, outcome) in allocators.iter().enumerate() {
        told.extend(outcome.latency.map(|l| (i, outcome.name.as_str(), values(&l))));
    }
    if told.len() > MOST_TOGETHER {
        told.sort_by(|a, b| a.2[0].total_cmp(&b.2[0]));
        told.truncate(MOST_TOGETHER);
        for (place, line) in told.iter_mut().enumerate() {
            line.0 = place;
        }
    }
    let all = || told.iter().flat_map(|line| line.2).filter(|ns| *ns > 0.0);
    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    if high == 0.0 {
        return None;
    }
    let y = Scale::log(low, high, (HEIGHT - BOTTOM, TOP), Unit::Nanoseconds);
    let description = "One line an allocator; lower is faster. Each step to the right looks at ten \
                       times rarer calls.";
    let mut svg = open_svg(WIDTH, HEIGHT, "latency", "Latency of calls by percentile", description);
    ground(&mut svg, &y);
    let mut ends: Vec<(f64, usize, &str)> = Vec::new();
    for (colour, name, values) in &told {
        line(&mut svg, *colour, name, values, &y);
        ends.push((y.at(values[5]), *colour, name));
    }
    end_labels(&mut svg, ends);
    svg.push_str("</svg>");
    Some(html::scrolling("Latency of calls by percentile", &svg))
}

fn x(place: f64) -> f64 {
    LEFT + 12.0 + (place - 0.3) / 4.7 * (WIDTH - LEFT - RIGHT - 24.0)
}

fn ground(svg: &mut String, y: &Scale) {
    let (right, floor) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for tick in y.ticks() {
        let at = y.at(tick.value);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
             <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT - 7.0,
            at + 4.0,
            tick.label
        );
    }
    for (label, place) in PLACES {
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{0:.1} {TOP}V{floor}\"/>\
             <text class=\"tick\" text-anchor=\"middle\" x=\"{0:.1}\" y=\"{1:.1}\">{label}</text>",
            x(place),
            floor + 19.0
        );
    }
    let _ = write!(
        svg,
        "<path class=\"axis\" d=\"M{LEFT} {floor}H{right}\"/>\
         <text class=\"name\" x=\"4\" y=\"13\">latency of a call</text>\
         <text class=\"name\" text-anchor=\"end\" x=\"{right}\" y=\"{:.1}\">share of calls that \
         are at least this fast</text>",
        HEIGHT - 7.0
    );
}

fn line(svg: &mut String, colour: usize, name: &str, values: &[f64; 6], y: &Scale) {
    let place = |i: usize| (x(PLACES[i].1), y.at(values[i]));
    let _ = write!(svg, "<path class=\"line s{colour} d{colour}\" d=\"");
    for i in 0..values.len() {
        let (x, y) = place(i);
        let _ = write!(svg, "{}{x:.1} {y:.1}", if i == 0 { 'M' } else { 'L' });
    }
    svg.push_str("\"/>");
    for (i, value) in values.iter().enumerate() {
        let (x, y) = place(i);
        let _ = write!(
            svg,
            "<circle class=\"dot f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\">\
             <title>{}, {}: {}</title></circle>",
            Escaped(name),
            PLACES[i].0,
            human::nanoseconds(*value)
        );
    }
}

fn end_labels(svg: &mut String, ends: Vec<(f64, usize, &str)>) {
    let wanted: Vec<f64> = ends.iter().map(|end| end.0).collect();
    let places = super::lines::spread_out(&wanted, 16.0, TOP + 4.0, HEIGHT - BOTTOM);
    let from = x(5.0) + 5.0;
    for ((wanted, colour, name), place) in ends.into_iter().zip(places) {
        let _ = write!(
            svg,
            "<path class=\"leader\" d=\"M{from:.1} {wanted:.1}L{:.1} {place:.1}\"/>\
             <text class=\"end t{colour}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT + 12.0,
            WIDTH - RIGHT + 15.0,
            place + 4.0,
            Escaped(&shortened(name, 19))
        );
    }
}

/// The same as a table.
pub fn table(allocators: &[&Outcome]) -> String {
    let heads = std::iter::once("allocator").chain(PLACES.map(|place| place.0));
    let mut rows = Vec::new();
    for outcome in allocators {
        let Some(latency) = &outcome.latency else { continue };
        let cells = values(latency).map(|ns| Cell::text(human::clocked(ns, latency.resolution)));
        rows.push(std::iter::once(Cell::text(&outcome.name)).chain(cells).collect());
    }
    let mut out = String::new();
    let heads: Vec<String> = heads.map(String::from).collect();
    html::table(&mut out, "Latency of calls by percentile", &heads, &rows);
    out
}
