//! The measurement as one HTML file.

use super::{Measured, Point};
use crate::human;
use crate::report::html::{self, Cell, Figure};
use crate::report::lines::{Axis, LineChart, Series};
use crate::report::scale::Unit;
use crate::report::sheet;

/// The whole page. `command` is what made it.
pub fn page(measured: &Measured, command: &str) -> String {
    let mut out = sheet::open(
        "probe tlb",
        "Huge pages and this machine's TLB",
        measured.processor.as_deref().unwrap_or("a processor that does not say its name"),
        &measured.sentences(),
        "",
        "",
    );
    figure(&mut out, measured, command, "random", |point| {
        [point.small.random_ns, point.huge.random_ns]
    });
    figure(&mut out, measured, command, "strided", |point| {
        [point.small.strided_ns, point.huge.strided_ns]
    });
    let remark = format!(
        "Transparent huge pages: {}. Measured on one machine, at one moment.",
        measured.transparent_hugepage.as_deref().unwrap_or("not known")
    );
    sheet::close(&mut out, "freehold-probe-tlb.json", measured, measured.schema_version, &remark);
    out
}

fn figure(
    out: &mut String,
    measured: &Measured,
    command: &str,
    way: &str,
    get: fn(&Point) -> [f64; 2],
) {
    let lead = match way {
        "random" => {
            "One line of each 4 KiB page, along a random cycle: each step waits for the one before, \
             so what is seen is the latency of cache and translation. Buffers double from left to \
             right, evenly spaced."
        }
        _ => "One line of each page, page after page: prefetchers may run ahead.",
    };
    let series = ["4 KiB pages", "huge pages"].into_iter().enumerate().map(|(which, name)| {
        let points = measured.points.iter().map(|point| (point.bytes as f64, get(point)[which]));
        Series::new(name, which, points.collect())
    });
    let chart = LineChart {
        id: way.to_owned(),
        title: format!("A {way} step, by length of the buffer"),
        description: "With and without transparent huge pages.".to_owned(),
        x: Axis::log("length of the buffer", Unit::Bytes),
        y: Axis::linear("a step", Unit::Nanoseconds),
        ground: None,
        series: series.collect(),
    };
    let rows: Vec<Vec<Cell>> = measured
        .points
        .iter()
        .map(|point| {
            let [small, huge] = get(point);
            vec![
                Cell::text(human::bytes(point.bytes)),
                Cell::text(format!("{small:.2} ns")),
                Cell::text(format!("{huge:.2} ns")),
                Cell::text(format!("{:.2}", huge / small)),
                Cell::text(format!("{:.0} %", point.huge_share * 100.0)),
            ]
        })
        .collect();
    let heads = ["buffer", "4 KiB pages", "huge pages", "huge over small", "of it on huge pages"];
    let mut table = String::new();
    html::table(&mut table, "Nanoseconds a step", &heads.map(String::from), &rows);
    Figure {
        id: way,
        title: &format!("A {way} step"),
        lead,
        drawing: &(chart.draw() + &table),
        table: "",
        command,
    }
    .write(out);
}
