//! The figures over time: memory beside what was alive, and the one divided by the other.

use super::html::{self, Cell, Figure};
use super::lines::{Axis, LineChart, MOST_TOGETHER, Series, stroke};
use super::scale::Unit;
use super::{Kind, Story};
use crate::human;
use crate::results::{Outcome, Point};
use std::fmt::Write;

/// What runs across: the paper's axis, or the program's own time.
#[derive(Clone, Copy)]
enum Across {
    Bytes,
    Seconds,
}

impl Across {
    const BOTH: [(Self, &str); 2] = [(Self::Bytes, "bytes"), (Self::Seconds, "seconds")];

    fn of(self, point: &Point) -> f64 {
        match self {
            Self::Bytes => point.allocated as f64,
            Self::Seconds => point.seconds,
        }
    }

    fn axis(self) -> Axis {
        let (title, unit) = match self {
            Self::Bytes => ("bytes allocated since the start", Unit::Bytes),
            Self::Seconds => ("time of the recorded program", Unit::Seconds),
        };
        Axis::linear(title, unit)
    }
}

/// Appends both figures for both kinds, with the switch between the axes.
pub fn write(out: &mut String, story: &Story<'_>) {
    let groups = [
        (Kind::Allocator, "allocators", "measured", "Resident memory beyond the replayer's own"),
        (Kind::Policy, "policies", "simulated", "Extent of the heap"),
        (Kind::Malloc, "malloc", "simulated", "Resident memory of Freehold's malloc"),
    ];
    let drawn = |kind| story.of_kind(kind).iter().any(|outcome| outcome.timeline.len() > 1);
    if !groups.iter().any(|group| drawn(group.0)) {
        return;
    }
    out.push_str(
        "<h2 id=\"time\">Memory over time</h2><p>How much memory each needs as the program runs, \
         over what the program has alive just then.</p>\
         <input class=\"pick\" type=\"radio\" name=\"axis\" id=\"axis-bytes\" checked>\
         <input class=\"pick\" type=\"radio\" name=\"axis\" id=\"axis-seconds\">\
         <div class=\"axes\"><span>Across:</span><label for=\"axis-bytes\">bytes allocated</label>\
         <label for=\"axis-seconds\">seconds</label></div><div class=\"over-time\">",
    );
    for (kind, on, how, what) in groups {
        let outcomes: Vec<&Outcome> =
            story.of_kind(kind).into_iter().filter(|outcome| outcome.timeline.len() > 1).collect();
        if outcomes.is_empty() {
            continue;
        }
        let command = story.replay_command(on);
        let title = format!("Memory of the {on}, {how}");
        Figure {
            id: &format!("memory-{on}"),
            title: &title,
            lead: &memory_lead(&outcomes, what),
            drawing: &(both(|across, suffix| memory_chart(&outcomes, &title, on, across, suffix))
                + &key(outcomes.len())),
            table: &table(&outcomes),
            command: &command,
        }
        .write(out);
        let title = format!("Fragmentation of the {on}, {how}");
        let cap = ratio_cap(&outcomes);
        Figure {
            id: &format!("fragmentation-{on}"),
            title: &title,
            lead: &ratio_lead(&outcomes, cap),
            drawing: &both(|across, suffix| {
                ratio_chart(&outcomes, &title, on, cap, across, suffix)
            }),
            table: "",
            command: &command,
        }
        .write(out);
    }
    out.push_str("</div>");
}

/// The chart on both axes; the style sheet shows the one that is picked.
fn both(chart: impl Fn(Across, &str) -> LineChart) -> String {
    let mut out = String::new();
    for (across, name) in Across::BOTH {
        let _ = write!(out, "<div class=\"by-{name}\">{}</div>", chart(across, name).draw());
    }
    out
}

fn key(lines: usize) -> String {
    let line = match lines > MOST_TOGETHER {
        true => format!("{}memory used ", stroke(0, 0)),
        false => String::new(),
    };
    format!("<p class=\"key\">{line}<i></i>alive: bytes asked for and not yet freed</p>")
}

fn memory_lead(outcomes: &[&Outcome], what: &str) -> String {
    let peak = outcomes[0].timeline.iter().max_by_key(|point| point.live);
    let last = outcomes[0].timeline.last();
    let Some((peak, last)) = peak.zip(last) else { return String::new() };
    let share = peak.allocated as f64 / last.allocated.max(1) as f64 * 100.0;
    format!(
        "{what}; the shade below is what the program has alive, at most {} and that after {share:.0} % \
         of all bytes were allocated. The gap between line and shade is what the choice costs.",
        human::bytes(outcomes[0].peak_live)
    )
}

fn series(outcomes: &[&Outcome], get: impl Fn(&Point) -> Option<(f64, f64)>) -> Vec<Series> {
    let line = |(colour, outcome): (usize, &&Outcome)| {
        let points = outcome.timeline.iter().filter_map(&get).collect();
        Series::new(&outcome.name, colour % MOST_TOGETHER, points)
    };
    outcomes.iter().enumerate().map(line).collect()
}

fn memory_chart(
    outcomes: &[&Outcome],
    title: &str,
    on: &str,
    across: Across,
    suffix: &str,
) -> LineChart {
    // What is alive differs between outcomes only where some failed; the fullest is the program's.
    let fullest = outcomes.iter().max_by_key(|outcome| outcome.peak_live);
    let alive = fullest.map(|outcome| {
        let points = outcome.timeline.iter().map(|p| (across.of(p), p.live as f64));
        Series::new("alive", 0, points.collect())
    });
    LineChart {
        id: format!("memory-{on}-{suffix}"),
        title: title.to_owned(),
        description: "A line for each: memory in use over time, above the live bytes.".into(),
        x: across.axis(),
        y: Axis::linear("memory", Unit::Bytes),
        ground: alive,
        series: series(outcomes, |p| Some((across.of(p), p.used as f64))),
    }
}

/// Memory over live, where something is alive.
fn ratio(point: &Point) -> Option<f64> {
    (point.live > 0).then(|| point.used as f64 / point.live as f64)
}

/// The first and last moments, when almost nothing is alive, have ratios without bound: the axis
/// ends where nine tenths of all points lie below, and not under 1.5.
fn ratio_cap(outcomes: &[&Outcome]) -> f64 {
    let mut all: Vec<f64> =
        outcomes.iter().flat_map(|outcome| &outcome.timeline).filter_map(ratio).collect();
    all.sort_by(f64::total_cmp);
    let most = all.get(all.len() * 9 / 10).copied().unwrap_or(2.0);
    (most * 1.1).max(1.5)
}

fn ratio_lead(outcomes: &[&Outcome], cap: f64) -> String {
    let beyond =
        outcomes.iter().flat_map(|o| &o.timeline).filter_map(ratio).any(|r| r > cap * 1.05);
    let clipped = if beyond {
        " Moments beyond the upper edge, when almost nothing is alive, are cut off there."
    } else {
        ""
    };
    format!("Memory divided by live bytes: 1× would waste nothing.{clipped}")
}

fn ratio_chart(
    outcomes: &[&Outcome],
    title: &str,
    on: &str,
    cap: f64,
    across: Across,
    suffix: &str,
) -> LineChart {
    LineChart {
        id: format!("fragmentation-{on}-{suffix}"),
        title: title.to_owned(),
        description: "A line for each: memory divided by live bytes over time.".into(),
        x: across.axis(),
        y: Axis {
            from: lowest(outcomes),
            cap: Some(cap),
            ..Axis::linear("memory ÷ alive", Unit::Times)
        },
        ground: None,
        series: series(outcomes, |p| Some((across.of(p), ratio(p)?))),
    }
}

/// 1, or 0 where memory can be below what is alive (pages asked for and never touched).
fn lowest(outcomes: &[&Outcome]) -> f64 {
    let all = outcomes.iter().flat_map(|outcome| &outcome.timeline).filter_map(ratio);
    if all.fold(f64::MAX, f64::min) < 1.0 { 0.0 } else { 1.0 }
}

/// A dozen moments of the run.
fn table(outcomes: &[&Outcome]) -> String {
    const MOMENTS: usize = 12;
    let fullest = outcomes.iter().map(|outcome| outcome.timeline.len()).max().unwrap_or(0);
    let heads: Vec<String> = ["allocated", "alive"]
        .into_iter()
        .map(String::from)
        .chain(outcomes.iter().map(|outcome| outcome.name.clone()))
        .collect();
    let at = |outcome: &Outcome, moment: usize| {
        outcome.timeline.get((outcome.timeline.len() * moment / MOMENTS).saturating_sub(1)).copied()
    };
    let row = |moment: usize| {
        let first = at(outcomes[0], moment).unwrap_or_default();
        let head =
            [Cell::text(human::bytes(first.allocated)), Cell::text(human::bytes(first.live))];
        let used = outcomes.iter().map(|o| {
            at(o, moment)
                .map_or_else(|| Cell::text("–"), |point| Cell::text(human::bytes(point.used)))
        });
        head.into_iter().chain(used).collect()
    };
    let rows: Vec<Vec<Cell>> = (1..=MOMENTS.min(fullest)).map(row).collect();
    let mut out = String::new();
    html::table(&mut out, "Memory at a dozen moments of the run", &heads, &rows);
    out
}
