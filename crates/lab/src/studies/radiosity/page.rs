//! The study as one HTML file: the answer, Figure 1, speed-up, memory.

use super::{Median, PAPER_IN_USE, Results, Scaled, Summary};
use crate::human;
use crate::report::html::{self, Cell, Figure};
use crate::report::lines::{Axis, LineChart, Series};
use crate::report::scale::Unit;
use crate::report::sheet;
use crate::shared_heap::SCHEMES;
use crate::studies::claims;

/// The whole page. `command` is what made it.
pub fn page(results: &Results, command: &str) -> String {
    let one_thread = results.allocators.iter().filter(|summary| summary.threads == 1);
    let facts = format!(
        "{} objects, {} mallocs and schemes on {} processors, {} policies",
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
        "The two allocators of IRIX that the paper measured cannot be had. Heaps of the library, shared in the \
         ways that the paper names, stand in for them.",
        "",
    );
    claims::section(&mut out, &super::claims::claims(results), command);
    figure_1(&mut out, results, command);
    speed_up(&mut out, results, command);
    stand_ins(&mut out, results, command);
    memory(&mut out, results, command);
    large_inputs(&mut out, results, command);
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
        lead: "From the recorded trace: the same whatever allocator serves it. What does not stay are candidate \
               links with the list that judges each, tasks, and lists that grew.",
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
                of_the_loop(summary),
                against_the_loop(summary),
                Cell::text(format!("{:.2}", summary.more_work)),
            ]);
        }
    }
    let heads = [
        "",
        "time",
        "speed-up",
        "of the loop",
        "speed-up over the loop's",
        "processor time over one thread's",
    ]
    .map(String::from);
    let mut table = String::new();
    html::table(&mut table, "Speed-up over threads", &heads, &rows);
    out.push_str("<h2 id=\"threads\">Speed-up over threads</h2>");
    Figure {
        id: "speed-up",
        title: "Measured on this machine",
        lead: "Medians over rounds; below a quotient stands the interval of its median (95 %; of fewer than six \
               rounds the least and the greatest). The loop allocates nothing and runs directly before and \
               directly after each run, with as many threads: what the machine itself gives, which on a machine that others use is less than there \
               are threads and different every second. Rounds in which the loop gained more than there are processors are refused. Processor time does not depend on others: 1.00 in the \
               last column says that threads cost each other nothing.",
        drawing: &table,
        table: "",
        command,
    }
    .write(out);
}

/// The loop's own gain, and in how many rounds it was refused.
fn of_the_loop(summary: &Summary) -> Cell {
    let note = (summary.refused > 0).then(|| format!("{} rounds refused", summary.refused));
    let text = match summary.loop_speed_up.is_finite() {
        true => format!("{:.2}", summary.loop_speed_up),
        false => "refused".to_owned(),
    };
    Cell { note, ..Cell::text(text) }
}

fn against_the_loop(summary: &Summary) -> Cell {
    let Median { median, low, high } = summary.against_loop;
    if !median.is_finite() {
        return Cell::text("refused");
    }
    Cell {
        bar: Some(median.min(1.0)),
        note: Some(format!("{low:.2} to {high:.2}")),
        ..Cell::text(format!("{median:.2}"))
    }
}

/// The schemes: what they stand for, and who waits.
fn stand_ins(out: &mut String, results: &Results, command: &str) {
    if results.locks.is_empty() {
        return;
    }
    let rows: Vec<Vec<Cell>> = SCHEMES
        .iter()
        .map(|scheme| {
            let mut cells = vec![
                Cell { note: Some(scheme.about.to_owned()), ..Cell::text(scheme.name) },
                Cell::text(scheme.stands_for),
            ];
            let most = results.locks.iter().filter(|locks| locks.scheme == scheme.name);
            cells.push(match most.max_by_key(|locks| locks.threads) {
                Some(locks) if locks.taken > 0 => {
                    let share = locks.contended as f64 / locks.taken as f64;
                    Cell {
                        bar: Some(share),
                        note: Some(format!(
                            "{} threads: {} of {} calls, {:.2} s waited",
                            locks.threads,
                            human::exact(locks.contended),
                            human::exact(locks.taken),
                            locks.wait_s
                        )),
                        ..Cell::text(format!("{:.1} %", share * 100.0))
                    }
                }
                Some(_) => Cell::text("no lock"),
                None => Cell::text("–"),
            });
            cells
        })
        .collect();
    let heads = ["scheme", "stands for", "calls that wait"].map(String::from);
    let mut table = String::new();
    html::table(&mut table, "Sharing schemes", &heads, &rows);
    out.push_str("<h2 id=\"schemes\">Sharing schemes, for real</h2>");
    Figure {
        id: "stand-ins",
        title: "The same program on heaps that threads share in the paper's ways",
        lead: "Not simulated: these heaps take the place of malloc in the program's own process. Waiting is \
               counted in a run of its own, for looking at the clock makes the locks slower.",
        drawing: &table,
        table: "",
        command,
    }
    .write(out);
}

/// Memory in use as the scene grows.
fn large_inputs(out: &mut String, results: &Results, command: &str) {
    if results.scaled.is_empty() {
        return;
    }
    let mut servers: Vec<&str> = Vec::new();
    let mut epsilons: Vec<f64> = Vec::new();
    for run in &results.scaled {
        if !servers.contains(&run.server.as_str()) {
            servers.push(&run.server);
        }
        if !epsilons.contains(&run.epsilon) {
            epsilons.push(run.epsilon);
        }
    }
    let mut heads = vec![String::new()];
    for &epsilon in &epsilons {
        let of = results.scaled.iter().find(|run| run.epsilon == epsilon);
        let bytes = human::bytes(of.map_or(0, |run| run.useful_bytes));
        heads.push(format!("{bytes} of objects (epsilon {epsilon:e})"));
    }
    let rows: Vec<Vec<Cell>> = servers
        .iter()
        .map(|&server| {
            let mut cells = vec![Cell::text(server)];
            for &epsilon in &epsilons {
                let of = |run: &&Scaled| run.server == server && run.epsilon == epsilon;
                cells.push(results.scaled.iter().find(of).map_or(Cell::text("–"), in_use));
            }
            cells
        })
        .collect();
    let mut table = String::new();
    html::table(&mut table, "Memory in use by size of scene", &heads, &rows);
    out.push_str("<h2 id=\"large\">Large inputs</h2>");
    Figure {
        id: "large-inputs",
        title: "Share of the process's memory in use as the scene grows",
        lead: "The room, ever finer, once under each with all processors. Bytes of the solution's objects over \
               the peak of resident memory. The paper met fragmentation on large scenes only, and could not \
               trace those. Below a scheme's share stands that of its heaps alone, and external \
               fragmentation within them (1 - longest free block over all that is free).",
        drawing: &table,
        table: "",
        command,
    }
    .write(out);
}

fn in_use(run: &Scaled) -> Cell {
    let share = run.useful_bytes as f64 / run.peak_resident.max(1) as f64;
    let heaps = (run.heap_bytes > 0).then(|| {
        let share = run.useful_bytes as f64 * 100.0 / run.heap_bytes as f64;
        match run.external {
            Some(external) => format!("{share:.0} % of its heaps; external {external:.2}"),
            None => format!("{share:.0} % of its heaps"),
        }
    });
    Cell { bar: Some(share), note: heaps, ..Cell::text(format!("{:.0} %", share * 100.0)) }
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
    let schemes = results.allocators.iter().filter(|row| row.threads == 1 && row.heap_bytes > 0);
    rows.extend(schemes.map(|row| {
        let share = row.useful_bytes as f64 / row.heap_bytes as f64;
        vec![
            Cell::text(&row.allocator),
            Cell::text("measured, its heaps"),
            Cell::text(human::bytes(row.heap_bytes)),
            Cell { bar: Some(share), ..Cell::text(format!("{:.0} %", share * 100.0)) },
        ]
    }));
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
