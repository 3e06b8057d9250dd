//! Line charts: one large one with every series named where it ends, or small multiples, which can be laid over one another.

use super::html::Escaped;
use super::scale::{Scale, Unit, show};
use std::borrow::Cow;
use std::fmt::Write;

/// More series than this become small multiples: a colour each would no longer tell them apart.
pub const MOST_TOGETHER: usize = 6;

/// Lines that are laid over one another at first, of small multiples: the others are picked.
const FIRST_OVERLAID: usize = 3;

/// A line: its name, its colour and dash (0 to 5; see `style.css`) and its points in rising x.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Name, as in the tables.
    pub name: String,
    /// Number of its colour, and of its dash where it is drawn among the first six.
    pub colour: usize,
    /// Points.
    pub points: Vec<(f64, f64)>,
    /// The intervals around the points, low and high, where they are known; drawn as whiskers.
    pub spread: Vec<(f64, f64)>,
}

impl Series {
    /// A line of points whose intervals are not known.
    pub fn new(name: impl Into<String>, colour: usize, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), colour, points, spread: Vec::new() }
    }

    /// Points and the ends of their intervals: what the axes must hold.
    fn reach(&self) -> impl Iterator<Item = (f64, f64)> + Clone {
        let points = self.points.iter();
        let ends = points
            .clone()
            .zip(&self.spread)
            .flat_map(|(point, &(low, high))| [(point.0, low), (point.0, high)]);
        points.copied().chain(ends)
    }
}

/// One axis: its title, its unit, and for a y axis where it starts and at most ends.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it counts.
    pub title: Cow<'static, str>,
    /// In what.
    pub unit: Unit,
    /// Lowest value shown.
    pub from: f64,
    /// Highest value shown, where the data's own highest would hide the rest.
    pub cap: Option<f64>,
    /// Whether it is logarithmic: from the lowest value above zero, whatever `from` says.
    pub log: bool,
}

impl Axis {
    /// From zero to the highest value.
    pub fn linear(title: impl Into<Cow<'static, str>>, unit: Unit) -> Self {
        Self { title: title.into(), unit, from: 0.0, cap: None, log: false }
    }

    /// From the lowest value above zero to the highest, each power as far from the next.
    pub fn log(title: impl Into<Cow<'static, str>>, unit: Unit) -> Self {
        Self { log: true, ..Self::linear(title, unit) }
    }

    fn scale(&self, values: impl Iterator<Item = f64> + Clone, pixels: (f64, f64)) -> Scale {
        let highest = values.clone().fold(self.from, f64::max);
        let highest = self.cap.map_or(highest, |cap| cap.min(highest));
        if self.log {
            let lowest = values.filter(|value| *value > 0.0).fold(highest, f64::min);
            return Scale::log(lowest, highest, pixels, self.unit);
        }
        Scale::linear(self.from, highest, pixels, self.unit)
    }
}

/// A chart of lines over a common ground.
#[derive(Clone, Debug)]
pub struct LineChart {
    /// Identifies the drawing's title and description in the page.
    pub id: String,
    /// For those who cannot see it.
    pub title: String,
    /// For those who cannot see it, and what to look for.
    pub description: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// A filled ground under the lines: what was alive.
    pub ground: Option<Series>,
    /// The lines.
    pub series: Vec<Series>,
}

/// Pixels around and inside the plot.
struct Frame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

const LARGE: Frame =
    Frame { width: 960.0, height: 380.0, left: 74.0, right: 176.0, top: 26.0, bottom: 46.0 };
const SMALL: Frame =
    Frame { width: 320.0, height: 200.0, left: 60.0, right: 14.0, top: 10.0, bottom: 28.0 };

impl LineChart {
    /// The drawing: one chart, or small multiples of it when there are too many lines for one.
    pub fn draw(&self) -> String {
        if self.series.len() <= MOST_TOGETHER {
            let chart = self.draw_together();
            return super::html::scrolling(&self.title, &chart) + &self.narrow_key();
        }
        self.draw_apart()
    }

    /// Which colour is whose, for screens so narrow that the names at the ends of the lines are out of sight.
    fn narrow_key(&self) -> String {
        let mut out = String::from("<p class=\"key narrow\">");
        for series in &self.series {
            let stroke = stroke(series.colour, series.colour);
            let _ = write!(out, "<span>{stroke}{}</span> ", Escaped(&series.name));
        }
        out + "</p>"
    }

    fn draw_together(&self) -> String {
        let (x, y) = self.scales(&LARGE);
        let mut svg = self.open(&LARGE, &self.id, &self.title, &self.description);
        axes(&mut svg, &LARGE, &x, &y);
        axis_titles(&mut svg, &LARGE, &self.x.title, &self.y.title);
        self.ground(&mut svg, &x, &y);
        for series in &self.series {
            line(&mut svg, series, series.colour, &x, &y);
        }
        self.end_labels(&mut svg, &y);
        svg.push_str("</svg>");
        svg
    }

    /// A panel a series, all on the same axes.
    fn draw_apart(&self) -> String {
        let (x, y) = self.scales(&SMALL);
        let mut out = String::from("<div class=\"panels\">");
        for (i, series) in self.series.iter().enumerate() {
            let _ = write!(out, "<div><h4>{}</h4>", Escaped(&series.name));
            let title = format!("{}: {}", self.title, series.name);
            let highest = series.points.iter().map(|p| p.1).fold(0.0, f64::max);
            let description =
                format!("{} reaches {} at most.", series.name, show(highest, self.y.unit));
            out += &self.open(&SMALL, &format!("{}-{i}", self.id), &title, &description);
            axes(&mut out, &SMALL, &x, &y);
            self.ground(&mut out, &x, &y);
            line(&mut out, &Series { colour: 0, ..series.clone() }, 0, &x, &y);
            out.push_str("</svg></div>");
        }
        let _ = write!(
            out,
            "</div><p class=\"key\">Across: {}. Up: {}. All panels share both axes.</p>",
            Escaped(&self.x.title),
            Escaped(&self.y.title)
        );
        out + &self.overlay()
    }

    /// The same lines over one another, as the reader picks them: boxes, each with the line that the style sheet shows while it is checked.
    fn overlay(&self) -> String {
        let (x, y) = self.scales(&LARGE);
        let mut out = String::from("<div class=\"overlay\">");
        for (i, series) in self.series.iter().enumerate() {
            let (colour, dash) = (i % COLOURS, (i + i / COLOURS) % COLOURS);
            let (id, name) = (format!("{}-pick-{i}", self.id), Escaped(&series.name));
            let checked = if i < FIRST_OVERLAID { " checked" } else { "" };
            let stroke = stroke(colour, dash);
            let _ = write!(
                out,
                "<input type=\"checkbox\" id=\"{id}\"{checked}> <label for=\"{id}\">{stroke}{name}</label>\
                 <svg class=\"laid\" viewBox=\"0 0 {} {}\" aria-hidden=\"true\">",
                LARGE.width, LARGE.height
            );
            line(&mut out, &Series { colour, ..series.clone() }, dash, &x, &y);
            out.push_str("</svg>");
        }
        let (id, title) = (format!("{}-overlay", self.id), format!("{}, overlaid", self.title));
        out += &self.open(&LARGE, &id, &title, "The lines that are picked, on common axes.");
        axes(&mut out, &LARGE, &x, &y);
        axis_titles(&mut out, &LARGE, &self.x.title, &self.y.title);
        self.ground(&mut out, &x, &y);
        out.push_str("</svg></div>");
        let box_of_its_own = super::html::scrolling(&title, &out);
        format!("<details><summary>Lay them over one another</summary>{box_of_its_own}</details>")
    }

    fn scales(&self, frame: &Frame) -> (Scale, Scale) {
        let all = self.series.iter().chain(&self.ground).flat_map(Series::reach);
        let x = self.x.scale(all.clone().map(|p| p.0), (frame.left, frame.width - frame.right));
        let y = self.y.scale(all.map(|p| p.1), (frame.height - frame.bottom, frame.top));
        (x, y.rounded_up())
    }

    fn open(&self, frame: &Frame, id: &str, title: &str, description: &str) -> String {
        open_svg(frame.width, frame.height, id, title, description)
    }

    fn ground(&self, svg: &mut String, x: &Scale, y: &Scale) {
        let Some(ground) = &self.ground else { return };
        let (Some(first), Some(last)) = (ground.points.first(), ground.points.last()) else {
            return;
        };
        let base = y.at(if self.y.log { 0.0 } else { self.y.from });
        let _ = write!(svg, "<path class=\"ground\" d=\"M{:.1} {base:.1}", x.at(first.0));
        for point in &ground.points {
            let _ = write!(svg, "L{:.1} {:.1}", x.at(point.0), y.at(point.1));
        }
        let _ =
            write!(svg, "L{:.1} {base:.1}Z\"><title>{}</title></path>", x.at(last.0), ground.name);
    }

    /// Names at the right end of the lines, pushed apart until none touches another.
    fn end_labels(&self, svg: &mut String, y: &Scale) {
        let ends = |series: &Series| series.points.last().map(|p| y.at(p.1));
        let mut labels: Vec<(f64, String, String)> = Vec::new();
        for series in &self.series {
            let class = format!("t{}", series.colour);
            labels.extend(ends(series).map(|at| (at, series.name.clone(), class.clone())));
        }
        if let Some(ground) = &self.ground {
            labels.extend(ends(ground).map(|at| (at, ground.name.clone(), "quiet".to_owned())));
        }
        let wanted: Vec<f64> = labels.iter().map(|label| label.0).collect();
        let places = spread_out(&wanted, 16.0, LARGE.top + 4.0, LARGE.height - LARGE.bottom);
        let x = LARGE.width - LARGE.right;
        for ((wanted, name, class), place) in labels.iter().zip(places) {
            let _ = write!(
                svg,
                "<path class=\"leader\" d=\"M{:.1} {wanted:.1}L{:.1} {place:.1}\"/>\
                 <text class=\"end {class}\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 2.0,
                x + 12.0,
                x + 15.0,
                place + 4.0,
                Escaped(&shortened(name, 19))
            );
        }
    }
}

/// Colours, and dashes.
const COLOURS: usize = 6;

/// A piece of a line, for a key.
pub fn stroke(colour: usize, dash: usize) -> String {
    format!(
        "<svg class=\"stroke\" viewBox=\"0 0 40 6\" aria-hidden=\"true\"><path class=\"line s{colour} d{dash}\" d=\"M1 3H39\"/></svg>"
    )
}

/// The first element of every drawing, with what a screen reader says of it.
pub fn open_svg(width: f64, height: f64, id: &str, title: &str, description: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\">\
         <title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
        Escaped(title),
        Escaped(description)
    )
}

fn axes(svg: &mut String, frame: &Frame, x: &Scale, y: &Scale) {
    let (left, right) = (frame.left, frame.width - frame.right);
    let floor = frame.height - frame.bottom;
    for tick in y.ticks() {
        let at = y.at(tick.value);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{left} {at:.1}H{right}\"/>\
             <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 7.0,
            at + 4.0,
            tick.label
        );
    }
    let ticks = x.ticks();
    // Half of them where the labels would touch.
    let room = (right - left) / ticks.len().max(1) as f64;
    let every = if room < 52.0 { 2 } else { 1 };
    for tick in ticks.into_iter().step_by(every) {
        let at = x.at(tick.value);
        let anchor = if at > right - 18.0 && frame.right < 20.0 { "end" } else { "middle" };
        let _ = write!(
            svg,
            "<path class=\"notch\" d=\"M{at:.1} {floor}v5\"/>\
             <text class=\"tick\" text-anchor=\"{anchor}\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
            floor + 19.0,
            tick.label
        );
    }
    let _ = write!(svg, "<path class=\"axis\" d=\"M{left} {floor}H{right}\"/>");
}

fn axis_titles(svg: &mut String, frame: &Frame, across: &str, up: &str) {
    let _ = write!(
        svg,
        "<text class=\"name\" x=\"4\" y=\"13\">{}</text>\
         <text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
        Escaped(up),
        frame.width - frame.right,
        frame.height - 7.0,
        Escaped(across)
    );
}

fn line(svg: &mut String, series: &Series, dash: usize, x: &Scale, y: &Scale) {
    let _ = write!(svg, "<path class=\"line s{} d{dash}\" d=\"", series.colour);
    for (i, point) in series.points.iter().enumerate() {
        let pen = if i == 0 { 'M' } else { 'L' };
        let _ = write!(svg, "{pen}{:.1} {:.1}", x.at(point.0), y.at(point.1));
    }
    let _ = write!(svg, "\"><title>{}</title></path>", Escaped(&series.name));
    whiskers(svg, series, x, y);
}

/// The intervals, where they are as long as a pixel.
fn whiskers(svg: &mut String, series: &Series, x: &Scale, y: &Scale) {
    let mut path = String::new();
    for (point, &(low, high)) in series.points.iter().zip(&series.spread) {
        let (at, foot, head) = (x.at(point.0), y.at(low), y.at(high));
        if foot - head >= 1.0 {
            let _ = write!(path, "M{:.1} {foot:.1}h6m-3 0V{head:.1}m-3 0h6", at - 3.0);
        }
    }
    if !path.is_empty() {
        let _ = write!(svg, "<path class=\"spread s{}\" d=\"{path}\"/>", series.colour);
    }
}

/// A name that fits beside a chart or in a column. The line number with which a site ends stays: it may be all that tells two apart.
pub fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let line = name.rfind(':').filter(|&at| is_number(name[at + 1..].trim_end_matches(')')));
    let end = line.map_or("", |at| &name[at..]);
    let end = if end.len() < most / 2 { end } else { "" };
    name.chars().take(most - 1 - end.len()).chain(['…']).chain(end.chars()).collect()
}

/// Moves places, as little as it takes, until all are `apart` from each other and within the
/// bounds; when they cannot all fit they are spaced evenly.
pub fn spread_out(wanted: &[f64], apart: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]));
    let room = (high - low) / wanted.len().max(1) as f64;
    let apart = apart.min(room);
    let mut places = wanted.to_vec();
    let mut least = low;
    for &i in &order {
        places[i] = places[i].max(least);
        least = places[i] + apart;
    }
    let mut most = high;
    for &i in order.iter().rev() {
        places[i] = places[i].min(most);
        most = places[i] - apart;
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_keeps_its_line_number() {
        assert_eq!(shortened("work (big.cpp:16)", 17), "work (big.cpp:16)");
        assert_eq!(shortened("work (big.cpp:16)", 14), "work (big…:16)");
        assert_eq!(shortened("a name of no site", 8), "a name …");
        assert_eq!(shortened("f:12345678", 6), "f:123…", "not the number alone");
        assert_eq!(shortened("std::vector<…>::grow", 8), "std::ve…");
    }

    /// Lines differ by more than their colour; more than six can be laid over one another, no two of them alike.
    #[test]
    fn lines_differ_by_dash_and_many_can_be_overlaid() {
        let chart = |many: usize| LineChart {
            id: "m".into(),
            title: "Memory".into(),
            description: "…".into(),
            x: Axis::linear("time", Unit::Seconds),
            y: Axis::linear("memory", Unit::Bytes),
            ground: None,
            series: (0..many)
                .map(|i| Series::new(format!("p{i}"), i % 6, vec![(0.0, 1.0), (1.0, i as f64)]))
                .collect(),
        };
        let style = include_str!("style.css");
        let together = chart(6).draw();
        for dash in 1..6 {
            assert!(together.contains(&format!("class=\"line s{dash} d{dash}\"")), "{together}");
            assert!(style.contains(&format!(".d{dash} {{ stroke-dasharray")), "{dash}");
        }
        assert!(!together.contains("checkbox"));
        let apart = chart(36).draw();
        assert_eq!(apart.matches("<input type=\"checkbox\"").count(), 36);
        let (_, overlay) = apart.split_once("<details>").unwrap();
        let mut classes: Vec<&str> = overlay
            .split("class=\"laid\"")
            .skip(1)
            .filter_map(|rest| rest.split("class=\"line ").nth(1)?.split('"').next())
            .collect();
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes.len(), 36, "a colour and a dash of its own each");
        super::super::sound::assert_sound(&apart);
    }

    #[test]
    fn labels_never_touch() {
        let wanted = [100.0, 101.0, 99.0, 300.0, 20.0, 21.0];
        let mut places = spread_out(&wanted, 16.0, 20.0, 330.0);
        assert_eq!(places[3], 300.0, "one that has room stays where it is");
        places.sort_by(f64::total_cmp);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 15.999), "{places:?}");
        assert!(places[0] >= 20.0 && places[5] <= 330.0);
    }

    /// Whiskers stand around the points; axes reach to their ends; what is shorter than a pixel is not drawn.
    #[test]
    fn intervals_are_drawn_and_seen_whole() {
        let chart = |spread: Vec<(f64, f64)>| LineChart {
            id: "speed".into(),
            title: "Speed".into(),
            description: "…".into(),
            x: Axis::linear("threads", Unit::Count),
            y: Axis::linear("speed-up", Unit::Times),
            ground: None,
            series: vec![Series { spread, ..Series::new("loop", 2, vec![(1.0, 1.0), (2.0, 2.0)]) }],
        };
        let drawn = chart(vec![(1.0, 1.0), (1.0, 3.0)]).draw();
        assert_eq!(drawn.matches("class=\"spread s2\"").count(), 1);
        assert_eq!(drawn.matches("m-3 0h6").count(), 1, "one of the two has an interval");
        assert!(drawn.contains(">3×<"), "the axis reaches to the end of the interval");
        assert!(!chart(Vec::new()).draw().contains("class=\"spread"));
    }

    #[test]
    fn seven_lines_become_seven_panels() {
        let series = |n: usize| {
            let line =
                |i| Series::new(format!("policy-{i}"), i % 6, vec![(0.0, 1.0), (10.0, i as f64)]);
            (0..n).map(line).collect()
        };
        let chart = |n| LineChart {
            id: "memory".into(),
            title: "Memory".into(),
            description: "…".into(),
            x: Axis::linear("bytes allocated", Unit::Bytes),
            y: Axis::linear("memory", Unit::Bytes),
            ground: None,
            series: series(n),
        };
        assert_eq!(chart(6).draw().matches("role=\"img\"").count(), 1);
        assert_eq!(chart(7).draw().matches("<h4>").count(), 7);
    }
}
