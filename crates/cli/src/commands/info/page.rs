//! The page that `freehold info` prints: figures, curves, histograms, threads, processes.

use super::draw::{Row, Style, area, bar, doublings};
use super::{Judged, who};
use freehold_lab::answer::{Answer, Program};
use freehold_lab::human;
use freehold_lab::profile::{Bucket, Figures, Point, ProcessProfile, Profile};
use freehold_lab::report;
use freehold_trace::{Begin, Ending, Header, ProcessId, ProcessInfo};
use std::fmt::Write;
use std::path::Path;

/// Columns of the names at the left.
const LABEL: usize = 12;
/// Rows of a curve.
const CURVE_ROWS: usize = 7;
/// Threads shown one by one.
const MOST_THREADS: usize = 12;
/// Processes shown one by one.
pub const MOST_PROCESSES: usize = 20;
/// Columns from which on threads stand further apart.
const WIDE_THREADS: usize = 72;
/// Columns from which on processes show what they held at their end.
const WIDE_PROCESSES: usize = 80;
/// Sizes listed.
const MOST_SIZES: usize = 8;

/// What a page shows.
pub struct Shown<'a> {
    /// All of it, in figures.
    pub profile: &'a Profile,
    /// Processes that are listed, the one with the most memory first.
    pub processes: &'a [ProcessProfile],
    /// Figures are those of all processes together, not of the first listed.
    pub sums: bool,
    /// The first of them, and what is known of it beside its profile.
    pub judged: Option<&'a Judged>,
}

/// The [`MOST_PROCESSES`] processes with the most memory, the most first.
#[derive(Default)]
pub struct Most {
    /// Sorted.
    pub processes: Vec<ProcessProfile>,
}

impl Most {
    /// Takes a process.
    pub fn add(&mut self, process: ProcessProfile) {
        let weight = process.weight();
        let at = self.processes.partition_point(|known| known.weight() > weight);
        if at < MOST_PROCESSES {
            self.processes.insert(at, process);
            self.processes.truncate(MOST_PROCESSES);
        }
    }
}

/// The page.
pub fn page(path: &Path, shown: &Shown<'_>, style: Style) -> String {
    let Shown { profile, processes, sums, judged } = *shown;
    let mut page = Page { out: String::new(), style, header: &profile.header };
    let several = profile.processes > 1;
    let called = |id: ProcessId| {
        let known = processes.iter().find(|profile| profile.process.id == id);
        let name = known.and_then(|profile| profile.process.name()).unwrap_or("?");
        format!("{name} (process {} of {})", id.0, profile.processes)
    };
    let name = judged.filter(|_| several).map(|judged| called(judged.process));
    page.heading_line(&path.display().to_string());
    if let Some(judged) = judged {
        page.answer(judged, name.as_deref());
    }
    page.facts(profile);
    if let Some(sites) = judged.and_then(|judged| judged.sites.as_ref()) {
        page.out += &who::lists(sites, name.as_deref(), style);
    }
    match processes {
        [judged, ..] if !sums => {
            if profile.processes > 1 {
                let name = called(judged.process.id);
                page.line(&clip(
                    &format!("\nOf {name}, which has the most memory:"),
                    style.columns,
                ));
            }
            page.figures(&judged.figures, None);
            page.threads(judged);
        }
        _ => page.figures(&profile.total.figures, Some(profile.total.seconds)),
    }
    if profile.processes > 1 {
        page.processes(processes, profile.processes);
    }
    for note in &profile.header.notes {
        page.line(&format!("Note: {note}"));
    }
    page.out
}

struct Page<'a> {
    out: String,
    style: Style,
    header: &'a Header,
}

impl Page<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn heading(&mut self, text: &str) {
        let heading = self.style.heading(text);
        self.line(&format!("\n{heading}"));
    }

    /// A label and what it says, in as many lines as the terminal makes of it.
    fn entry(&mut self, label: &str, text: &str) {
        let room = self.style.columns - LABEL - 3;
        let (mut label, mut rest) = (label, text);
        while let Some(end) = line_end(rest, room) {
            self.line(&format!("  {label:<LABEL$} {}", &rest[..end]));
            (label, rest) = ("", rest[end..].trim_start());
        }
        self.line(&format!("  {label:<LABEL$} {rest}"));
    }

    /// As many items on a line as fit; nothing where there are none.
    fn list(&mut self, label: &str, items: &[String]) {
        let mut label = label;
        let mut line = String::new();
        for item in items {
            if LABEL + line.chars().count() + item.chars().count() + 6 > self.style.width() {
                self.entry(label, &format!("{line},"));
                (label, line) = ("", String::new());
            }
            line += if line.is_empty() { "" } else { ", " };
            line += item;
        }
        if !line.is_empty() {
            self.entry(label, &line);
        }
    }

    /// A moment, in the unit of the trace.
    fn moment(&self, seconds: f64) -> String {
        if self.header.ticks_are_events {
            format!("event {}", human::count(seconds as u64))
        } else {
            human::seconds(seconds)
        }
    }

    fn heading_line(&mut self, text: &str) {
        let heading = self.style.heading(text);
        self.line(&heading);
    }

    fn answer(&mut self, judged: &Judged, name: Option<&str>) {
        let program = Program {
            figures: &judged.figures,
            resident: judged.there.as_ref(),
            sites: judged.sites.as_ref(),
            process: name,
            ticks_are_events: self.header.ticks_are_events,
            tried: &[],
        };
        let columns = self.style.width();
        self.out += &report::answer(&Answer::of_program(program), self.style.color, columns);
    }

    fn facts(&mut self, profile: &Profile) {
        let total = &profile.total;
        self.heading("The recording");
        if !self.header.command.is_empty() {
            let command = clip(&shown(&self.header.command), self.style.columns - LABEL - 3);
            self.entry("command", &command);
        }
        if !self.header.recorder.is_empty() {
            self.entry(
                "recorded by",
                &clip(&self.header.recorder.clone(), self.style.columns - LABEL - 3),
            );
        }
        let processes = plural(profile.processes as u64, "process", "processes");
        let threads = plural(total.threads, "thread", "threads");
        self.entry(
            "events",
            &format!("{} in {processes}, {threads}", human::exact(total.figures.events)),
        );
        if !self.header.ticks_are_events {
            let seconds = human::seconds(total.seconds);
            let rate = human::count((total.figures.events as f64 / total.seconds.max(1e-9)) as u64);
            let rate = if total.figures.events > 1 {
                format!(", {rate} events a second")
            } else {
                String::new()
            };
            self.entry("time", &format!("{seconds}{rate}"));
        }
        let each = profile.file_bytes as f64 / total.figures.events.max(1) as f64;
        let each = if total.figures.events > 0 {
            format!(", {each:.2} B an event")
        } else {
            String::new()
        };
        self.entry("file", &format!("{}{each}", human::bytes(profile.file_bytes)));
    }

    /// `seconds` from the first event to the last where the curve ends before.
    fn figures(&mut self, figures: &Figures, seconds: Option<f64>) {
        self.summary(figures);
        if figures.calls.allocations() + figures.calls.reallocs == 0 {
            return self.line("\nNo allocations.");
        }
        let axis = if self.header.ticks_are_events { "events" } else { "seconds" };
        let points = &figures.live_over_seconds;
        let first = points.first().map_or(0.0, |point| point.at);
        let last = points.last().map_or(0.0, |point| point.at);
        let until = seconds.map_or(last, |seconds| first + seconds);
        let ends = (self.moment(first), self.moment(until));
        self.curve(&format!("Live bytes over {axis}"), points, until, ends);
        let allocated = figures.allocated_bytes;
        let ends = ("0 B".into(), format!("{} allocated", human::bytes(allocated)));
        self.curve(
            "Live bytes over bytes allocated",
            &figures.live_over_bytes,
            allocated as f64,
            ends,
        );
        self.histogram("Sizes", &doublings(&figures.sizes, 1.0), |from| human::bytes(from as u64));
        self.top_sizes(figures);
        self.lifetimes(&figures.lifetimes.seconds);
    }

    fn summary(&mut self, figures: &Figures) {
        let calls = &figures.calls;
        let (bytes, many) =
            (human::bytes(figures.allocated_bytes), human::count(calls.allocations()));
        self.heading("Totals");
        self.entry("allocated", &format!("{bytes} in {many} allocations"));
        let families = [
            ("malloc", calls.malloc),
            ("calloc", calls.calloc),
            ("aligned", calls.aligned),
            ("new", calls.new),
            ("new[]", calls.new_array),
            ("realloc", calls.reallocs),
            ("failed", calls.failed),
        ];
        let used = families.iter().filter(|(_, count)| *count > 0);
        let list: Vec<String> =
            used.map(|(n, count)| format!("{n} {}", human::count(*count))).collect();
        self.list("calls", &list);
        let remote = calls.remote_frees as f64 / calls.frees.max(1) as f64;
        let remote = match calls.remote_frees {
            0 => String::new(),
            _ => format!(", {} by another thread than allocated", human::percent(remote)),
        };
        self.entry("freed", &format!("{} objects{remote}", human::count(calls.frees)));
        for (label, count, what) in [
            ("unknown", calls.unknown_frees, "frees of what no recorded call returned"),
            ("inherited", calls.inherited, "objects of the parent touched after a fork"),
            ("lost", calls.contradictions, "events contradict others: some were lost"),
        ] {
            if count > 0 {
                self.entry(label, &format!("{} {what}", human::count(count)));
            }
        }
        let peak = &figures.peak;
        let (bytes, objects, when) =
            (human::bytes(peak.bytes), human::count(peak.objects), self.moment(peak.at_s));
        self.entry("peak live", &format!("{bytes} in {objects} objects, at {when}"));
        if figures.peak_objects > peak.objects {
            self.entry("", &format!("{} objects at most", human::count(figures.peak_objects)));
        }
        let (bytes, objects) = (human::bytes(figures.end_bytes), human::count(figures.end_objects));
        self.entry("never freed", &format!("{bytes} in {objects} objects"));
    }

    fn curve(&mut self, heading: &str, points: &[Point], until: f64, ends: (String, String)) {
        self.heading(heading);
        let width = self.style.width() - LABEL - 4;
        let (rows, most) = area(points, until, width, CURVE_ROWS);
        for (i, row) in rows.iter().enumerate() {
            let label = if i == 0 { human::bytes(most) } else { String::new() };
            let row = self.style.ink(row);
            self.line(&format!("  {label:>LABEL$} │{row}"));
        }
        let gap = width.saturating_sub(ends.0.chars().count() + ends.1.chars().count());
        self.line(&format!("  {:>LABEL$} └{}", "0 B", "─".repeat(width)));
        let axis = self.style.dim(&format!("{}{}{}", ends.0, " ".repeat(gap), ends.1));
        self.line(&format!("  {:>LABEL$}  {axis}", ""));
    }

    fn histogram(&mut self, heading: &str, rows: &[Row], label: impl Fn(f64) -> String) {
        self.heading(heading);
        let most = rows.iter().map(|row| row.count).max().unwrap_or(1);
        let all: u64 = rows.iter().map(|row| row.count).sum();
        let caption =
            format!("  {:>LABEL$}  {:>9} {:>6} {:>10}", "from", "objects", "share", "bytes");
        let caption = self.style.dim(&caption);
        self.line(&caption);
        let room = self.style.width() - 46;
        for row in rows {
            let bar = self.style.ink(&bar(row.count as f64 / most as f64, room));
            let share = row.count as f64 / all as f64 * 100.0;
            let (label, count, bytes) =
                (label(row.from), human::count(row.count), human::bytes(row.bytes));
            self.line(&format!("  {label:>LABEL$}  {count:>9} {share:>5.1}% {bytes:>10} {bar}"));
        }
    }

    fn top_sizes(&mut self, figures: &Figures) {
        let all = figures.calls.allocations().max(1) as f64;
        let sizes = figures
            .top_sizes
            .iter()
            .take(MOST_SIZES)
            .map(|top| format!("{} B {:.1}%", top.size, top.count as f64 / all * 100.0));
        let list: Vec<String> = sizes.collect();
        let mut line = String::from("  most often:");
        for size in list {
            if line.chars().count() + size.len() + 2 > self.style.width() {
                break;
            }
            let _ = write!(line, "  {size}");
        }
        self.line(&line);
    }

    fn lifetimes(&mut self, buckets: &[Bucket]) {
        if buckets.is_empty() {
            return;
        }
        let unit = 1.0 / self.header.ticks_per_second.max(1) as f64;
        // Finer than 16 ns says more of the clock than of the program.
        let unit = if self.header.ticks_are_events { unit } else { unit.max(16e-9) };
        let rows = doublings(buckets, unit);
        let events = self.header.ticks_are_events;
        let label = |from: f64| match (events, from == 0.0) {
            (true, _) => format!("{} events", human::count(from as u64)),
            (false, true) => "0 s".into(),
            (false, false) => human::nanoseconds(from * 1e9),
        };
        self.histogram("Lifetimes of freed objects", &rows, label);
    }

    fn threads(&mut self, process: &ProcessProfile) {
        if process.threads.len() < 2 {
            return;
        }
        self.heading("Threads");
        // As wide as their heads, and wider where there is room.
        let gap = " ".repeat(if self.style.width() < WIDE_THREADS { 1 } else { 3 });
        let line = |cells: [&str; 6]| {
            let [thread, events, allocations, bytes, frees, others] = cells;
            format!(
                "  {thread:>6}{gap}{events:>8}{gap}{allocations:>11}{gap}{bytes:>10}{gap}{frees:>8}{gap}{others:>10}"
            )
        };
        let heads = line(["thread", "events", "allocations", "bytes", "frees", "of others'"]);
        let caption = self.style.dim(&heads);
        self.line(&caption);
        for thread in process.threads.iter().take(MOST_THREADS) {
            self.line(&line([
                &format!("T{}", thread.thread),
                &human::count(thread.events),
                &human::count(thread.allocations),
                &human::bytes(thread.allocated_bytes),
                &human::count(thread.frees),
                &human::count(thread.remote_frees),
            ]));
        }
        self.and_more(process.threads.len(), MOST_THREADS, "threads");
        self.matrix(process);
    }

    /// Rows free the objects of columns; the busiest pairs where there are many threads.
    fn matrix(&mut self, process: &ProcessProfile) {
        let mut pairs: Vec<_> = process.frees_between.iter().filter(|p| p.owner != p.by).collect();
        if pairs.is_empty() {
            return;
        }
        self.heading("Who frees whose objects");
        pairs.sort_by_key(|pair| std::cmp::Reverse(pair.frees));
        let most = pairs[0].frees;
        let room = self.style.width() - 46;
        for pair in pairs.iter().take(MOST_THREADS) {
            let names = format!("T{} frees T{}'s", pair.by, pair.owner);
            let bar = self.style.ink(&bar(pair.frees as f64 / most as f64, room.min(30)));
            let (frees, bytes) = (human::count(pair.frees), human::bytes(pair.bytes));
            self.line(&format!("  {names:<20} {frees:>9} {bytes:>11} {bar}"));
        }
        self.and_more(pairs.len(), MOST_THREADS, "pairs of threads");
    }

    fn processes(&mut self, first: &[ProcessProfile], all: usize) {
        if first.is_empty() {
            return;
        }
        self.heading("Processes");
        // Where there is little room, for the command rather than for what was left.
        let is_wide = self.style.columns >= WIDE_PROCESSES;
        let line = |cells: [&str; 7]| {
            let [number, events, resident, peak, end, began, command] = cells;
            let end = if is_wide { format!(" {end:>10}") } else { String::new() };
            format!(
                "  {number:<5} {events:>9} {peak:>10} {resident:>10}{end}  {began:<11} {command}"
            )
        };
        let heads = line(["", "events", "resident", "malloc", "at end", "began", "command"]);
        let caption = self.style.dim(&heads);
        self.line(&caption);
        for process in first {
            let info = &process.process;
            let line = line([
                &format!("P{}", info.id.0),
                &human::count(process.figures.events),
                &info.peak_resident.map_or_else(|| "-".to_owned(), human::bytes),
                &human::bytes(process.figures.peak.bytes),
                &human::bytes(process.figures.end_bytes),
                &began(info.begins, info.parent.map(|parent| parent.0)),
                &format!("{}{}", ended(info.ended), called(info)),
            ]);
            self.line(&clip(&line, self.style.columns));
        }
        self.and_more(all, first.len(), "processes");
    }

    fn and_more(&mut self, all: usize, shown: usize, what: &str) {
        if all > shown {
            let more =
                self.style.dim(&format!("  … and {} more {what} (all with --json)", all - shown));
            self.line(&more);
        }
    }
}

/// A title that it gave itself, or its command.
fn called(info: &ProcessInfo) -> String {
    if info.title.is_empty() { shown(&info.command) } else { info.title.clone() }
}

fn began(begins: Begin, parent: Option<u32>) -> String {
    let of = parent.map_or(String::new(), |parent| format!(" of P{parent}"));
    match begins {
        Begin::Root => "root".into(),
        Begin::Fork => format!("fork{of}"),
        Begin::Exec => format!("exec{of}"),
    }
}

/// Only an ending that is worth a word.
fn ended(ending: Option<Ending>) -> String {
    match ending {
        Some(Ending::Code(code)) if code != 0 => format!("(exit {code}) "),
        Some(Ending::Signal(signal)) => format!("(signal {signal}) "),
        _ => String::new(),
    }
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", human::exact(count), if count == 1 { one } else { many })
}

/// A command line as one line: control characters of another program must not reach the terminal.
fn shown(command: &[String]) -> String {
    let clean = |c: char| if c.is_control() { '·' } else { c };
    command.join(" ").chars().map(clean).collect()
}

/// Where to end the first of several lines of so many characters: at the last space that is not too late. `None` where
/// the text fits, or has no such space.
fn line_end(text: &str, room: usize) -> Option<usize> {
    let (beyond, _) = text.char_indices().nth(room)?;
    // A space that is the first character beyond will do, too.
    let beyond = beyond + text[beyond..].chars().next().map_or(0, char::len_utf8);
    text[..beyond].rfind(' ').filter(|end| *end > 0)
}

/// At most `width` characters, the last one … where some are left out.
fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}
