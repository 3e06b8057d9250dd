//! Steps per call of each policy: mean, 99th percentile and worst as three dots on one line.

use super::html::{self, Escaped};
use super::lines::{open_svg, shortened};
use super::scale::{Scale, Unit};
use crate::human;
use crate::results::{Outcome, Steps};
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 150.0;
const RIGHT: f64 = 60.0;
const ROW: f64 = 30.0;
const TOP: f64 = 34.0;

/// The drawing; `None` where no policy counted steps. Rows come in rising order of the mean.
pub fn draw(policies: &[&Outcome]) -> Option<String> {
    let mut rows: Vec<(&str, Steps)> = Vec::new();
    for outcome in policies {
        rows.extend(outcome.steps.map(|steps| (outcome.name.as_str(), steps)));
    }
    rows.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    let worst = rows.iter().map(|row| row.1.max).max()?;
    let least = rows.iter().map(|row| row.1.mean).fold(f64::MAX, f64::min);
    let floor = TOP + ROW * rows.len() as f64;
    let x = Scale::log(least.max(1.0), worst as f64, (LEFT, WIDTH - RIGHT), Unit::Count);
    let description = "A row a policy, quickest first: mean, 99th percentile and worst steps of a \
                       call on a logarithmic axis. Further left is better.";
    let mut svg = open_svg(WIDTH, floor + 44.0, "steps", "Steps per call", description);
    for tick in x.ticks() {
        let at = x.at(tick.value);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{floor}\"/>\
             <text class=\"tick\" text-anchor=\"middle\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            floor + 18.0,
            tick.label
        );
    }
    key(&mut svg, floor + 38.0);
    for (i, (name, steps)) in rows.iter().enumerate() {
        row(&mut svg, name, steps, TOP + ROW * (i as f64 + 0.5), &x);
    }
    svg.push_str("</svg>");
    Some(html::scrolling("Steps per call", &svg))
}

/// What the three marks mean, on top; the axis title below.
fn key(svg: &mut String, below: f64) {
    let mut x = LEFT;
    for (class, text) in [("mean", "mean"), ("p99", "99th percentile"), ("worst", "worst call")] {
        let _ = write!(
            svg,
            "{}<text class=\"tick\" x=\"{:.1}\" y=\"16\">{text}</text>",
            mark(class, x + 5.0, 12.0),
            x + 16.0
        );
        x += 46.0 + 7.0 * text.len() as f64;
    }
    let _ = write!(
        svg,
        "<text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{below:.1}\">steps of one call, \
         logarithmic</text>",
        WIDTH - RIGHT
    );
}

/// Three shapes, so that they differ without colour too.
fn mark(class: &str, x: f64, y: f64) -> String {
    match class {
        "mean" => format!("<circle class=\"f0\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"),
        "p99" => {
            format!("<circle class=\"hollow\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.5\"/>")
        }
        _ => format!("<path class=\"stop\" d=\"M{x:.1} {:.1}v12\"/>", y - 6.0),
    }
}

fn row(svg: &mut String, name: &str, steps: &Steps, y: f64, x: &Scale) {
    let (mean, p99, worst) = (x.at(steps.mean), x.at(steps.p99 as f64), x.at(steps.max as f64));
    let _ = write!(
        svg,
        "<g><title>{0}: mean {1}, 99th percentile {2}, worst {3}</title>\
         <text class=\"row\" text-anchor=\"end\" x=\"{4:.1}\" y=\"{5:.1}\">{6}</text>\
         <path class=\"reach\" d=\"M{mean:.1} {y:.1}H{worst:.1}\"/>{7}{8}{9}\
         <text class=\"tick\" x=\"{10:.1}\" y=\"{5:.1}\">{3}</text></g>",
        Escaped(name),
        human::number(steps.mean),
        human::count(steps.p99),
        human::count(steps.max),
        LEFT - 12.0,
        y + 4.0,
        Escaped(&shortened(name, 20)),
        mark("worst", worst, y),
        mark("p99", p99, y),
        mark("mean", mean, y),
        worst + 8.0,
    );
}
