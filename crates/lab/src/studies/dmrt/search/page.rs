//! The map as one HTML file: the best readings, how all of them lie, what each level does.

use super::super::gaps::{NEAR, PRINTED};
use super::map::{Aim, Best, Effect, Map};
use super::reading::{Reading, Stage};
use crate::report::html::{self, Cell, Figures};
use crate::report::sheet;

/// Upper ends of the classes of the greatest distance, in points; the last class is open.
const ENDS: [f64; 8] = [NEAR, 7.5, 10.0, 15.0, 20.0, 30.0, 40.0, 60.0];

/// The whole page. `command` is what made it.
pub fn page(map: &Map, command: &str) -> String {
    let facts = format!(
        "{} readings of {} settings that the chapter leaves open",
        map.readings.len(),
        map.space.factors.len()
    );
    let mut out = sheet::open(
        "study dmrt --search",
        "DmRT for NUMA: readings of what is not printed",
        &facts,
        &map.answer,
        "A reading is one choice of each of these settings; what else the chapter leaves open (costs, the sizes of small \
         requests) stays as it is set. Its distance to a printed row is the \
         difference of the requests satisfied, in points of a hundred. What the chapter prints (nodes, thresholds, \
         limits of sizes, paths) is not moved, and nothing is taken away from any allocator.",
        "",
    );
    let figures = Figures { command };
    out.push_str("<h2 id=\"best\">The nearest readings</h2>");
    figures.add(
        &mut out,
        "nearest",
        "The nearest reading for each aim",
        "Of the readings found, run again with as many attempts as a table of the chapter. \"At least\" is what no \
         reading can go below: two tables print one allocator on one path under one load.",
        &best(map),
    );
    figures.add(
        &mut out,
        "all",
        "All readings",
        "How many readings of the even design have which greatest distance to a printed row.",
        &distribution(map),
    );
    out.push_str("<h2 id=\"levels\">What each setting does</h2>");
    figures.add(
        &mut out,
        "effects",
        "Mean distance by level",
        "Over the readings of the even design, in which every level is as frequent as every other of its setting: the \
         mean distance in points. The lowest of a setting is marked where it is more than a point below its highest.",
        &effects(map),
    );
    let remark = "Every reading is in map.csv, too.";
    sheet::close(&mut out, "study-dmrt-search.json", map, map.schema_version, remark);
    out
}

fn best(map: &Map) -> String {
    let row = |best: &Best| {
        vec![
            Cell { note: Some(best.changes.join(", ")), ..Cell::text(best.aim) },
            Cell::text(format!("{:.1}", best.largest)),
            Cell::text(format!("{:.1}", best.mean)),
            Cell::text(format!("{:.1}", best.least_possible)),
            Cell::text(format!("{} of {}", best.near, best.of)),
            Cell::text(best.confirmed_near.to_string()),
        ]
    };
    let rows: Vec<Vec<Cell>> = map.best.iter().map(row).collect();
    let heads =
        ["rows of", "largest", "mean", "at least", "near, of the design", "near, of the best"];
    html::table_of("The nearest readings", heads, &rows)
}

fn distribution(map: &Map) -> String {
    let class = |largest: f64| ENDS.iter().position(|&end| largest <= end).unwrap_or(ENDS.len());
    let row = |aim: Aim| {
        let of = |reading: &Reading| aim.distances(reading).map(|(_, largest)| class(largest));
        let classes: Vec<usize> = map.of(Stage::Design).filter_map(of).collect();
        let count = |at: usize| classes.iter().filter(|&&one| one == at).count();
        let cells = (0..=ENDS.len()).map(|at| Cell::text(count(at).to_string()));
        std::iter::once(Cell::text(aim.name())).chain(cells).collect()
    };
    let rows: Vec<Vec<Cell>> = Aim::ALL.into_iter().map(row).collect();
    let ends = ENDS.iter().map(|end| format!("to {end}"));
    let heads = std::iter::once("rows of".to_owned()).chain(ends).chain(["more".to_owned()]);
    html::table_of("Greatest distances", heads, &rows)
}

fn effects(map: &Map) -> String {
    let of = |factor: &str, aim: usize| {
        let levels = map.effects.iter().filter(|one| one.factor == factor);
        let means = levels.filter(|one| one.possible > 0).map(|one| one.mean[aim]);
        means
            .fold((f64::INFINITY, 0.0_f64), |(least, most), mean| (least.min(mean), most.max(mean)))
    };
    let row = |effect: &Effect| {
        let name = Cell { note: Some(effect.factor.clone()), ..Cell::text(&effect.level) };
        let cells = (0..Aim::ALL.len()).map(|aim| {
            let (least, most) = of(&effect.factor, aim);
            let mean = effect.mean[aim];
            let best = mean <= least && most > least + 1.0;
            Cell { best, ..Cell::text(format!("{mean:.1}")) }
        });
        let ran = Cell::text(format!("{} of {}", effect.possible, effect.readings));
        std::iter::once(name).chain(cells).chain([ran]).collect()
    };
    let rows: Vec<Vec<Cell>> = map.effects.iter().map(row).collect();
    let heads = ["level"].into_iter().chain(PRINTED).chain(["all four", "could begin"]);
    html::table_of("Mean distance by level", heads, &rows)
}
