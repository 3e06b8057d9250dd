//! Made-up outcomes that look like real ones, for the tests of everything that shows results.

use super::heat::HeatMap;
use crate::results::{
    Circumstances, Document, Kind, Latency, MachineFacts, Outcome, Point, ProcessFacts, Spread,
    Steps, TraceFacts,
};

/// A program that grows in waves, on five allocators and eight policies.
pub fn document() -> Document {
    let mut document = Document::new(facts(), None);
    let real = [
        ("glibc", 1.21, 1.18),
        ("jemalloc", 1.02, 1.09),
        ("mimalloc", 0.84, 1.22),
        ("tcmalloc", 0.99, 1.31),
        ("freehold", 0.86, 1.07),
    ];
    let simulated = [
        ("first-fit", 1.11, 14.0, 900),
        ("next-fit", 1.72, 11.0, 260),
        ("best-fit", 1.06, 16.5, 120),
        ("worst-fit", 2.40, 15.0, 110),
        ("good-fit", 1.09, 9.2, 31),
        ("exact-fit", 1.13, 9.9, 44),
        ("buddy", 1.48, 12.5, 40),
        ("dmrt", 1.08, 9.4, 33),
    ];
    document.results.extend(real.iter().map(|(name, time, over)| allocator(name, *time, *over)));
    document.results.extend(
        simulated.iter().map(|(name, over, mean, worst)| policy(name, *over, *mean, *worst)),
    );
    document
}

fn facts() -> TraceFacts {
    let process = |process, name: &str, events| ProcessFacts {
        process,
        command: vec![name.into(), "--scene".into(), "<room & box>".into()],
        threads: 4,
        events,
        ..ProcessFacts::default()
    };
    TraceFacts {
        command: vec!["freehold-radiosity".into(), "--scene".into(), "<room & box>".into()],
        process: 0,
        events: 4_200_000,
        threads: 4,
        allocated: 1 << 30,
        seconds: 3.2,
        malloc: Some("/usr/lib/libglibc.so.2".into()),
        processes: vec![process(0, "freehold-radiosity", 4_200_000), process(1, "sh", 1_200)],
        damage: vec!["block 17 of 912: its checksum is wrong".into()],
    }
}

/// Memory over 200 points: live in waves, used `over` times the highest so far, with some decay.
fn timeline(over: f64) -> Vec<Point> {
    let mut highest = 0.0f64;
    let point = |i: u64| {
        let t = i as f64 / 200.0;
        let live = (36.0 * (t * 1.4).min(1.0) * (0.75 + 0.25 * (t * 19.0).sin())).max(0.1);
        highest = (highest * 0.995).max(live * over);
        Point {
            events: i * 21_000,
            allocated: (i * (1 << 30)) / 200,
            seconds: 3.2 * t * t,
            live: (live * 1048576.0) as u64,
            used: (highest * 1048576.0) as u64,
        }
    };
    (1..=200).map(point).collect()
}

fn outcome(name: &str, over: f64) -> Outcome {
    let timeline = timeline(over);
    let peak = |of: fn(&Point) -> u64| timeline.iter().map(of).max().unwrap_or(0);
    let (peak_live, peak_memory) = (peak(|p| p.live), peak(|p| p.used));
    let mut outcome = Outcome {
        name: name.into(),
        events: 4_200_000,
        peak_live,
        peak_memory,
        final_memory: timeline.last().map_or(0, |p| p.used),
        timeline,
        ..Outcome::default()
    };
    outcome.johnstone_wilson.average = over * 1.03 - 1.0;
    outcome.johnstone_wilson.peak_over_peak = peak_memory as f64 / peak_live as f64 - 1.0;
    outcome
}

fn allocator(name: &str, seconds: f64, over: f64) -> Outcome {
    let latency = Latency {
        p50: 18.0 * seconds,
        p90: 31.0 * seconds,
        p99: 190.0 * seconds,
        p999: 2_100.0 * seconds * seconds,
        p9999: 12_000.0 * seconds,
        max: 900_000.0 * seconds * over,
        resolution: 1.0,
    };
    let spread = Spread {
        runs: 3,
        seconds_min: seconds * 0.98,
        seconds_max: seconds * 1.03,
        ..Spread::default()
    };
    Outcome {
        kind: Kind::Allocator,
        library: Some(format!("lib{name}.so.2")),
        seconds: Some(seconds),
        spread: Some(spread),
        latency: Some(latency),
        page_faults: Some((over * 9_000.0) as u64),
        ..outcome(name, over)
    }
}

fn policy(name: &str, over: f64, mean: f64, max: u64) -> Outcome {
    let steps = Steps { total: (mean * 4.2e6) as u64, mean, p99: (mean * 2.1) as u64, max };
    Outcome {
        steps: Some(steps),
        internal_fragmentation: Some(0.04),
        external_fragmentation: Some(over - 1.0).map(|f| f.min(0.9)),
        ..outcome(name, over)
    }
}

/// The machine of the samples.
pub fn circumstances() -> Circumstances {
    let machine = MachineFacts {
        processor: Some("A processor".into()),
        processors: 2,
        memory: Some(16 << 30),
        kernel: "Linux 6.1".into(),
    };
    Circumstances { schema_version: 1, machine, timings: Vec::new() }
}

/// Sizes from 16 B to 1 MiB, lifetimes from 1 µs to 1 s.
pub fn heat() -> HeatMap {
    let columns: Vec<String> = (4..=20).map(|power| crate::human::bytes(1 << power)).collect();
    let rows: Vec<String> = (0..=6)
        .map(|power| format!("≥ {}", crate::human::seconds(1e-6 * 10f64.powi(power))))
        .collect();
    let count = |i: usize, j: usize| {
        let at = 13.0 - (j as f64 - 3.0).abs() * 0.9 - (i as f64 - 2.0).abs() * 1.3;
        if at > 0.0 { at.exp() as u64 } else { 0 }
    };
    let cells =
        (0..rows.len()).map(|i| (0..columns.len()).map(|j| count(i, j)).collect()).collect();
    HeatMap { columns, rows, cells, across: "size asked for".into(), up: "lifetime".into() }
}
