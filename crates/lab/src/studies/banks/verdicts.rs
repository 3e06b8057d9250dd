//! Every figure that the thesis prints, beside ours: fitted, predicted and holding or not, or undecidable here.
//!
//! Two of its figures chose a setting (c of both workloads the threshold of its task), the optimum of table 5.2 chose how
//! footprints are skewed, and sizes that it names are settings. None of these is counted while it comes out; where it does not any
//! more, because another setting was changed since, it fails. Nor is what is computed from its
//! own numbers alone (table 1.1, the size of a free area) or is of other memory than its own (DDR4 and DDR5 beside its mobile
//! DRAM). All else follows, and is judged by its 95 % interval over seeds, of which one alone decides nothing; a number holds
//! within 10 % of what is printed, a bound within itself.

use super::measure::Row;
use super::published::{FIGURES, cell, printed};
use super::results::{PUBLISHED, Pinned, Results, STOCK};
use crate::studies::class::{self, Basis, Class, Ours as Value};
use crate::studies::statistics::Summary;
use freehold_core::frames::ORDERS;
use serde::Serialize;

/// How near is near: 10 %.
const NEAR: f64 = 0.10;

/// A figure of the thesis, and ours.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Verdict {
    /// A key of `studies/published/banks_figures.csv`, or a table with its row and column.
    pub key: String,
    /// What it is.
    pub what: String,
    /// As printed.
    pub printed: String,
    /// Ours, where there is a number.
    pub ours: Option<f64>,
    /// Half its 95 % interval over the seeds; 0 where nothing is drawn, `None` of a single seed.
    pub half_width: Option<f64>,
    /// Of both.
    pub unit: String,
    /// Fitted, or what became of the prediction.
    pub class: Class,
    /// What it rests on, or why it cannot be decided.
    pub note: &'static str,
}

/// What a figure is judged by.
enum Rule {
    /// Within 10 % of that number.
    Near(f64),
    /// Between these.
    Within(f64, f64),
    /// A setting.
    Setting,
    /// Within 10 % of that number, by which a setting was chosen.
    Fitted(f64),
    /// Of the thesis's own numbers alone, or of another memory than its: nothing is drawn.
    Computed,
    /// Not to be had here.
    Unknown,
}

struct Ours {
    values: Vec<f64>,
    rule: Rule,
    note: &'static str,
}

fn ours(values: Vec<f64>, rule: Rule, note: &'static str) -> Ours {
    Ours { values, rule, note }
}

impl Ours {
    fn judged(self, key: String, what: String, printed: &str, unit: &str) -> Verdict {
        let summary = Summary::of(&self.values);
        let has = !self.values.is_empty();
        let predicted = |limits| Class::of(Basis::Predicted, Value::from(summary), limits);
        let class = match self.rule {
            Rule::Near(to) => predicted(near(to)),
            Rule::Within(least, most) => predicted((least, most)),
            Rule::Setting => Class::Fitted,
            Rule::Fitted(to) => Class::of(Basis::Fitted, Value::from(summary), near(to)),
            Rule::Computed => Class::Computed,
            Rule::Unknown => Class::Undecidable,
        };
        let (printed, unit, note) = (printed.to_owned(), unit.to_owned(), self.note);
        let half_width = match self.rule {
            Rule::Computed => Some(0.0),
            _ => summary.spread(),
        };
        let ours = has.then_some(summary.mean);
        Verdict { key, what, printed, ours, half_width, unit, class, note }
    }
}

/// What is within 10 %.
fn near(to: f64) -> (f64, f64) {
    (to * (1.0 - NEAR), to * (1.0 + NEAR))
}

/// All of them: the figures of the text, tables 1.1, 1.2, 5.1 and 5.2.
pub fn verdicts(results: &Results) -> Vec<Verdict> {
    let runs = Runs { results };
    let figures = FIGURES.lines().skip(2).filter_map(|line| {
        let fields: Vec<&str> = line.splitn(4, ',').collect();
        let [key, value, unit, quote] = fields[..] else { return None };
        Some((key, value, unit, quote.trim_matches('"')))
    });
    let figures = figures.flat_map(|(key, value, unit, quote)| {
        let all = runs.figure(key, value);
        all.into_iter().map(move |ours| ours.judged(key.to_owned(), quote.to_owned(), value, unit))
    });
    let mut all: Vec<Verdict> = figures.collect();
    all.extend(dimms());
    all.extend(states(results));
    all.extend(runs.tables());
    all
}

/// How many hold, fail, are open and were fitted, in a sentence.
pub fn counted(verdicts: &[Verdict]) -> String {
    class::counted(verdicts.iter().map(|verdict| verdict.class))
}

struct Runs<'a> {
    results: &'a Results,
}

impl Runs<'_> {
    /// A number of every run of the thesis's policy, the first seed first.
    fn of(&self, machine: &str, workload: &str, get: fn(&Row) -> f64) -> Vec<f64> {
        let rows = self.results.tables.iter().chain(&self.results.repeated);
        let rows = rows.filter(|row| {
            row.machine == machine && row.workload == workload && row.policy == PUBLISHED
        });
        rows.map(get).collect()
    }

    fn storms(&self, policy: &str, get: fn(&Pinned) -> f64) -> Vec<f64> {
        self.results.pinned.iter().filter(|of| of.policy == policy).map(get).collect()
    }

    /// Ours of a figure of the text; several where it says several things.
    fn figure(&self, key: &str, value: &str) -> Vec<Ours> {
        let number: f64 = value.parse().unwrap_or(0.0);
        let m32 = |workload, get| self.of("m32", workload, get);
        let one = |ours| vec![ours];
        let setting = || one(ours(Vec::new(), Rule::Setting, "a setting of the study"));
        match key {
            "c_medium" => one(ours(m32("medium", |row| row.c), Rule::Fitted(0.80), THRESHOLD)),
            "c_light" => one(ours(m32("light", |row| row.c), Rule::Fitted(0.85), THRESHOLD)),
            "c_range" => {
                let both = |get| [m32("light", get), m32("medium", get)].concat();
                let within = || Rule::Within(0.75, 0.90);
                vec![
                    ours(
                        both(|row| row.c_min),
                        within(),
                        "the least at any time, light and medium",
                    ),
                    ours(both(|row| row.c_max), within(), "the greatest at any time"),
                ]
            }
            "waste_best" => {
                let waste: fn(&Row) -> f64 = |row| row.free_mean - row.best_mean;
                let all = [m32("light", waste), m32("medium", waste)].concat();
                one(ours(
                    all,
                    Rule::Within(1.0, 3.0),
                    "free memory that no solution could switch off, mean over time",
                ))
            }
            "migrated_total" => {
                one(ours(m32("medium", |row| row.copied_gib), Rule::Near(number), TEN_HOURS))
            }
            "offlined_total" => {
                one(ours(m32("medium", |row| row.offlined_gib), Rule::Near(number), TEN_HOURS))
            }
            "active_banks_reduction" => one(ours(
                m32("light", |row| row.offline_max),
                Rule::Near(number),
                "read as the most memory that is ever off: under stock Linux every bank is on",
            )),
            "hotplug_improvement" => {
                let share = |policy| {
                    self.storms(policy, |of| {
                        100.0 - f64::from(of.sections) * 100.0 / f64::from(of.of.max(1))
                    })
                };
                let (stock, adaptive) = (share(STOCK), share(PUBLISHED));
                let gained = stock.iter().zip(&adaptive).map(|(stock, adaptive)| adaptive - stock);
                one(ours(
                    gained.collect(),
                    Rule::Near(number),
                    "read as sections that can be removed under adaptive-buddy and not under stock, after the storms, percent of all",
                ))
            }
            "banks_touched_at_10_percent" => one(ours(
                self.storms(STOCK, |of| of.referenced_percent),
                Rule::Within(100.0, 100.0),
                "percent of all banks that hold anything under stock, when least memory is used; “can” is read as “does”",
            )),
            "unremovable_sections" => one(ours(
                self.storms(STOCK, |of| f64::from(of.sections)),
                Rule::Within(170.0, 256.0),
                "after the storms, under stock, with files in ramfs, whose pages Linux cannot move",
            )),
            "free_area_size" => {
                // A list head for each of six kinds and a count, for each order.
                let bytes = ORDERS as f64 * (6.0 * 16.0 + 8.0);
                one(ours(
                    vec![bytes],
                    Rule::Computed,
                    "orders x (six lists of 16 bytes and a count)",
                ))
            }
            "zone_size" | "zone_trimmed" => one(ours(
                Vec::new(),
                Rule::Unknown,
                "a structure of a patched Linux 3.17; table 4.2 has ours",
            )),
            _ => setting(),
        }
    }

    /// Tables 5.1 and 5.2.
    fn tables(&self) -> Vec<Verdict> {
        type Column = (&'static str, &'static str, usize, &'static str, fn(&Row) -> f64);
        let columns: [Column; 6] = [
            ("5.1", "m32", 1, "off, most", |row| row.offline_max),
            ("5.1", "m32", 2, "off, mean", |row| row.offline_mean),
            ("5.1", "m32, interleaved", 3, "off, mean", |row| row.offline_mean),
            ("5.1", "m4", 4, "off, most", |row| row.offline_max),
            ("5.1", "m4", 5, "off, mean", |row| row.offline_mean),
            ("5.2", "m32", 1, "optimum", |row| row.best_mean),
        ];
        let both = [("Light", "light"), ("Medium", "medium")];
        let cells = both.into_iter().flat_map(|names| columns.iter().map(move |of| (names, of)));
        let judged =
            cells.filter_map(|((name, workload), &(table, machine, column, what, get))| {
                let printed = cell(table, name, column)?;
                let (rule, note) = match (table, column) {
                    ("5.2", _) => {
                        (Rule::Fitted(printed), "footprints are skewed so that their mean gives it")
                    }
                    ("5.1", 2) => (
                        Rule::Fitted(printed),
                        "follows from c and the optimum, to which settings were fitted",
                    ),
                    _ => (Rule::Near(printed), ""),
                };
                let key = format!("table {table}, {name}, column {column}");
                let of = machine.replace("m32", "32 GB").replace("m4", "4 GB");
                let what = format!("Table {table}, {of}, {workload} use: {what}");
                let ours = ours(self.of(machine, workload, get), rule, note);
                Some(ours.judged(key, what, &printed.to_string(), "percent"))
            });
        judged.collect()
    }
}

const THRESHOLD: &str = "the threshold of its task, which the thesis does not print, was chosen by it, with files in tmpfs, \
                         whose pages move";
const TEN_HOURS: &str = "ten hours of the medium workload";

/// Table 1.1: modules times their power, and what is printed.
fn dimms() -> Vec<Verdict> {
    let Some(table) = printed("1.1") else { return Vec::new() };
    let row = |cells: &Vec<&'static str>| {
        let [frequency, configuration, technology, watts, system] = cells[..] else { return None };
        let number = |text: &str| text.trim_end_matches('W').trim().parse::<f64>().ok();
        let gigabytes: f64 = technology.split_once('/')?.1.strip_suffix("GB")?.parse().ok()?;
        let system_watts = number(system)?;
        let product = number(watts)? * 64.0 / gigabytes;
        let what = format!("Table 1.1, {frequency} MHz {configuration} {technology}: 64 GB");
        let note = match (product - system_watts).abs() <= 0.05 {
            true => "modules for 64 GB x watts of one: the printed product is right",
            false => "modules for 64 GB x watts of one: the printed product is wrong",
        };
        let key = format!("table 1.1, {frequency} {configuration} {technology}");
        Some(ours(vec![product], Rule::Computed, note).judged(key, what, system, "W"))
    };
    table.rows.iter().filter_map(row).collect()
}

/// Table 1.2: the study's own settings for the thesis's memory, and whether today's memory is so.
fn states(results: &Results) -> Vec<Verdict> {
    let Some(table) = printed("1.2") else { return Vec::new() };
    let setting = |memory: &str, key: &str| results.settings["states"][memory][key].as_f64();
    let mut all = Vec::new();
    for cells in &table.rows {
        let [state, power] = cells[..] else { continue };
        let key = match state {
            "Active-Idle" => Some("active_idle"),
            "Self-Refresh" | "Deep-Power-Down" => Some("off"),
            _ => None,
        };
        let what = format!("Table 1.2: {state}, of power when reading and writing");
        let name = format!("table 1.2, {state}");
        let own = match state {
            "Active-Idle" | "Deep-Power-Down" => {
                ours(Vec::new(), Rule::Setting, "a setting of the study: [states.thesis]")
            }
            _ => ours(Vec::new(), Rule::Computed, "no bank of the study is in this state for long"),
        };
        all.push(own.judged(name.clone(), what, power, "percent"));
        let Some(key) = key else { continue };
        for memory in ["ddr4", "ddr5"] {
            let value = setting(memory, key).into_iter().collect();
            let note = "of that memory's current tables; the thesis's states are of mobile DRAM, so this says nothing of it";
            let what = format!("The same of {}: {state}", memory.to_uppercase());
            let verdict = ours(value, Rule::Computed, note);
            all.push(verdict.judged(format!("{name}, {memory}"), what, power, "percent"));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_product_that_the_thesis_gets_wrong_is_found() {
        let wrong = dimms().into_iter().filter(|verdict| verdict.note.ends_with("wrong"));
        let wrong: Vec<String> = wrong.map(|verdict| verdict.what).collect();
        assert_eq!(wrong, ["Table 1.1, 1033 MHz QR x 8 2Gb/8GB: 64 GB"]);
        assert!(
            dimms().iter().all(|verdict| verdict.class == Class::Computed),
            "nothing could fail"
        );
        assert_eq!(dimms().len(), 6);
    }

    #[test]
    fn bounds_and_numbers_are_judged_by_their_interval() {
        let class = |values: &[f64], rule| {
            ours(values.to_vec(), rule, "").judged(String::new(), String::new(), "", "").class
        };
        assert_eq!(class(&[105.0, 104.9], Rule::Near(100.0)), Class::Holds);
        assert_eq!(class(&[91.4, 91.4], Rule::Within(100.0, 100.0)), Class::Fails);
        assert_eq!(class(&[105.0], Rule::Near(100.0)), Class::Undecidable, "one seed");
        assert_eq!(class(&[104.0], Rule::Computed), Class::Computed);
        assert_eq!(class(&[0.9, 3.1], Rule::Within(1.0, 3.0)), Class::Undecidable);
        assert_eq!(class(&[], Rule::Near(1.0)), Class::Undecidable);
        assert_eq!(class(&[], Rule::Setting), Class::Fitted);
        assert_eq!(class(&[0.84, 0.86], Rule::Fitted(0.85)), Class::Fitted);
        assert_eq!(class(&[0.54, 0.55], Rule::Fitted(0.80)), Class::Missed, "the fit is lost");
    }
}
