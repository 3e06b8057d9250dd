//! The study as one HTML file: the answer, Figure 1, speed-up, memory.

use super::{PAPER_IN_USE, Results};
use crate::human;
use crate::report::html::{self, Cell, Figure};
use crate::report::lines::{Axis, LineChart, Series};
use crate::report::scale::Unit;
use crate::report::sheet;

/// The whole page. `command` is what made it.
pub fn page(results: &Results, command: &str) -> String {
    let one_thread = results.allocators.iter().filter(|summary| summary.threads == 1);
    let facts = format!(
        "{} objects, {} allocators on {} processors, {} policies",
        human::exact(results.profile.objects),
        one_thread.count(),
        results.processors,
        results.policies.len()
    );
    let mut out = sheet::open(
        "study radiosity",
        "Radiosity under every allocator",
        &facts,
        &results.answer(),
        "The two allocators of IRIX that the paper measured cannot be had. First fit and best fit under one \
         lock stand in for them.",
        "",
    );
    figure_1(&mut out, results, command);
    speed_up(&mut out, results, command);
    memory(&mut out, results, command);
    sheet::close(&mut out, "freehold-study-radiosity.json", results, results.schema_version, "");
    out
}

fn figure_1(out: &mut String, results: &Results, command: &str) {
    let profile = &results.profile;
    let points = profile.curve.iter().map(|point| (point.at, point.bytes as f64)).collect();
    let chart = LineChart {
        id: "figure-1".to_owned(),
        title: "Live bytes over bytes allocated".to_owned(),
        description: "Grows to its peak at the end, as the solution does.".to_owned(),
        x: Axis::linear("bytes allocated", Unit::Bytes),
        y: Axis::linear("live bytes", Unit::Bytes),
        ground: None,
        series: vec![Series::new("live", 0, points)],
    };
    let mb = |bytes: u64| Cell::text(format!("{:.1} MB", bytes as f64 / 1e6));
    let times = |allocated: u64, useful: u64| {
        Cell::text(format!("{:.1}", allocated as f64 / useful.max(1) as f64))
    };
    let (allocated, useful) = (super::PAPER_ALLOCATED, super::PAPER_USEFUL);
    let rows = vec![
        vec![Cell::text("Cavin, Alonso"), mb(allocated), mb(useful), times(allocated, useful)],
        vec![
            Cell::text("ours"),
            mb(profile.allocated),
            mb(profile.peak_live),
            times(profile.allocated, profile.peak_live),
        ],
    ];
    let heads = ["", "allocated", "alive", "allocated over alive"].map(String::from);
    let mut table = String::new();
    html::table(&mut table, "Figure 1 in numbers", &heads, &rows);
    out.push_str("<h2 id=\"figure\">Figure 1: the program's own profile</h2>");
    Figure {
        id: "profile",
        title: "Live bytes over bytes allocated (534 surfaces, 20 iterations)",
        lead: "From the recorded trace: the same whatever allocator serves it. Ours allocates more \
               temporary lists for the same useful data, because every candidate link brings the lists \
               that judge it.",
        drawing: &(chart.draw() + &table),
        table: "",
        command,
    }
    .write(out);
}

fn speed_up(out: &mut String, results: &Results, command: &str) {
    let names: Vec<&str> = results
        .allocators
        .iter()
        .filter(|summary| summary.threads == 1)
        .map(|summary| summary.allocator.as_str())
        .collect();
    let mut rows = Vec::new();
    for name in names {
        for summary in results.allocators.iter().filter(|summary| summary.allocator == name) {
            rows.push(vec![
                Cell::text(format!("{name}, {} threads", summary.threads)),
                Cell::text(format!("{:.2} s", summary.seconds)),
                Cell::text(format!("{:.2}", summary.speed_up)),
                Cell::text(format!("{:.2}", summary.loop_speed_up)),
                Cell {
                    bar: Some(summary.against_loop.min(1.0)),
                    ..Cell::text(format!("{:.2}", summary.against_loop))
                },
            ]);
        }
    }
    let heads =
        ["", "time", "speed-up", "of the loop", "speed-up over the loop's"].map(String::from);
    let mut table = String::new();
    html::table(&mut table, "Speed-up over threads", &heads, &rows);
    out.push_str("<h2 id=\"threads\">Speed-up over threads</h2>");
    Figure {
        id: "speed-up",
        title: "Measured on this machine",
        lead: "Medians over rounds. The loop allocates nothing and runs directly before each run, with as \
               many threads: what the machine itself gives. 1.00 in the last column is all of it.",
        drawing: &table,
        table: "",
        command,
    }
    .write(out);
}

fn memory(out: &mut String, results: &Results, command: &str) {
    out.push_str("<h2 id=\"memory\">Memory in use</h2>");
    let live = results.profile.peak_live;
    let mut rows: Vec<Vec<Cell>> = results
        .allocators
        .iter()
        .filter(|summary| summary.threads == 1)
        .map(|summary| {
            let share = live as f64 / summary.peak_resident.max(1) as f64;
            vec![
                Cell::text(&summary.allocator),
                Cell::text("measured, whole process"),
                Cell::text(human::bytes(summary.peak_resident)),
                Cell { bar: Some(share), ..Cell::text(format!("{:.0} %", share * 100.0)) },
            ]
        })
        .collect();
    rows.extend(results.policies.iter().map(|policy| {
        vec![
            Cell::text(&policy.policy),
            Cell::text("simulated heap"),
            Cell::text(human::bytes(policy.peak_memory)),
            Cell {
                bar: Some(policy.in_use),
                ..Cell::text(format!("{:.0} %", policy.in_use * 100.0))
            },
        ]
    }));
    let heads = ["", "what", "peak", "live bytes of it"].map(String::from);
    let mut table = String::new();
    html::table(&mut table, "Share of allocated memory in use", &heads, &rows);
    Figure {
        id: "in-use",
        title: "Share of memory in use at the peak",
        lead: &format!(
            "The paper: {:.0} % under all three of its allocators on this size of scene. A process's \
             resident memory holds its code and stacks, too; a simulated heap holds blocks alone.",
            PAPER_IN_USE * 100.0
        ),
        drawing: &table,
        table: "",
        command,
    }
    .write(out);
}
