//! From runs to tables: per metric one table of ratios to glibc with intervals and geometric means, and Freehold (or
//! whatever is last) against the best of the others on each row: the best on odd rounds, measured on even ones, because the best of
//! several noisy medians is lower than the true value of any of them.

use super::allocators::Allocator;
use super::launch::Usage;
use super::rounds::Measured;
use super::stats::{self, Pairs, Ratio};
use super::table::Table;
use serde_json::{Value, json};

/// One thing that a run is asked for.
struct Metric {
    key: &'static str,
    title: &'static str,
    unit: &'static str,
    of: fn(&Usage) -> f64,
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run are far below 2^53")]
const METRICS: &[Metric] = &[
    Metric { key: "wall", title: "Wall time", unit: "s", of: |usage| usage.wall_ns as f64 * 1e-9 },
    Metric {
        key: "cpu",
        title: "CPU time (user + system)",
        unit: "s",
        of: |usage| (usage.user_us + usage.system_us) as f64 * 1e-6,
    },
    Metric {
        key: "rss",
        title: "Peak RSS",
        unit: "MiB",
        of: |usage| usage.peak_rss_kib as f64 / 1024.0,
    },
    Metric {
        key: "faults",
        title: "Minor faults",
        unit: "",
        of: |usage| usage.minor_faults as f64,
    },
];

/// Freehold and the best of the others on one row: their values in the same rounds.
struct Beside {
    best: usize,
    mine: Vec<f64>,
    theirs: Vec<f64>,
}

impl Beside {
    fn pairs(&self) -> Pairs<'_> {
        Pairs { of: &self.mine, to: &self.theirs }
    }
}

/// All measured rows under their columns.
pub struct Summary<'a> {
    /// The columns; one of them is called glibc.
    pub allocators: &'a [Allocator],
    /// The rows.
    pub rows: &'a [Measured],
}

impl Summary<'_> {
    fn base(&self) -> usize {
        self.allocators.iter().position(|allocator| allocator.name == "glibc").unwrap_or(0)
    }

    fn values(&self, metric: &Metric, row: &Measured, column: usize) -> Option<Vec<f64>> {
        row.usages[column].as_ref().ok().map(|usages| usages.iter().map(metric.of).collect())
    }

    fn ratio(&self, metric: &Metric, row: &Measured, column: usize) -> Option<Ratio> {
        let (of, to) = (self.values(metric, row, column)?, self.values(metric, row, self.base())?);
        Some(stats::ratio(&Pairs { of: &of, to: &to }))
    }

    /// Over the rows on which every column succeeded, so that all columns are means of the same rows.
    fn mean(&self, metric: &Metric, column: usize) -> Option<Ratio> {
        let whole = self.rows.iter().filter(|row| row.usages.iter().all(Result::is_ok));
        let values: Vec<(Vec<f64>, Vec<f64>)> = whole
            .filter_map(|row| {
                Some((self.values(metric, row, column)?, self.values(metric, row, self.base())?))
            })
            .collect();
        let pairs: Vec<Pairs<'_>> = values.iter().map(|(of, to)| Pairs { of, to }).collect();
        (!pairs.is_empty()).then(|| stats::geometric_mean(&pairs))
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let base = self.base();
        (0..self.allocators.len()).filter(move |column| *column != base)
    }

    /// Every table, as text.
    pub fn tables(&self) -> String {
        let mut out: String = METRICS.iter().map(|metric| self.table(metric)).collect();
        if let Some(ours) =
            self.allocators.iter().position(|allocator| allocator.name == "freehold")
        {
            out += &self.against_the_best(ours);
        }
        out + &self.failures()
    }

    fn table(&self, metric: &Metric) -> String {
        let unit =
            if metric.unit.is_empty() { String::new() } else { format!(", {}", metric.unit) };
        let head = ["row".to_owned(), format!("glibc{unit}")].into_iter();
        let names = self.others().map(|column| self.allocators[column].name.clone());
        let title = format!("{}: ratio to glibc [95 % interval]", metric.title);
        let mut table = Table::new(title, head.chain(names));
        for row in self.rows {
            let base = self.values(metric, row, self.base());
            let base = base.map_or("failed".to_owned(), |values| number(stats::median(&values)));
            let ratios = self.others().map(|column| shown(self.ratio(metric, row, column)));
            table.push([row.row.clone(), base].into_iter().chain(ratios));
        }
        let means = self.others().map(|column| shown(self.mean(metric, column)));
        table.push(["geometric mean".to_owned(), String::new()].into_iter().chain(means));
        table.render()
    }

    fn against_the_best(&self, ours: usize) -> String {
        let head =
            METRICS.iter().flat_map(|metric| [metric.key.to_owned(), "best peer".to_owned()]);
        let title = "Freehold: ratio to the best peer on each row (chosen on odd rounds, measured on even ones)";
        let mut table = Table::new(title, ["row".to_owned()].into_iter().chain(head));
        for row in self.rows {
            let cells = METRICS.iter().flat_map(|metric| self.best_cells(metric, row, ours));
            table.push([row.row.clone()].into_iter().chain(cells));
        }
        let means = METRICS.iter().flat_map(|metric| {
            let beside = self.rows.iter().filter_map(|row| self.beside_best(metric, row, ours));
            let beside: Vec<Beside> = beside.collect();
            let pairs: Vec<Pairs<'_>> = beside.iter().map(Beside::pairs).collect();
            let mean = (!pairs.is_empty()).then(|| stats::geometric_mean(&pairs));
            [shown(mean), String::new()]
        });
        table.push(["geometric mean".to_owned()].into_iter().chain(means));
        table.render()
    }

    fn best_cells(&self, metric: &Metric, row: &Measured, ours: usize) -> [String; 2] {
        self.beside_best(metric, row, ours).map_or(["failed".to_owned(), String::new()], |beside| {
            let ratio = stats::ratio(&beside.pairs());
            [shown(Some(ratio)), self.allocators[beside.best].name.clone()]
        })
    }

    /// What the best of the others on odd rounds has on even ones.
    fn beside_best(&self, metric: &Metric, row: &Measured, ours: usize) -> Option<Beside> {
        let halves = |column: usize| self.values(metric, row, column).map(|it| stats::halves(&it));
        let peers = (0..self.allocators.len()).filter(|column| *column != ours);
        let chosen = peers.filter_map(|peer| {
            let [odd, even] = halves(peer)?;
            Some((stats::median(&odd), peer, even))
        });
        let (_, best, theirs) = chosen.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let [_, mine] = halves(ours)?;
        Some(Beside { best, mine, theirs })
    }

    fn failures(&self) -> String {
        let failed = self.rows.iter().flat_map(|row| {
            let each = row.usages.iter().zip(self.allocators);
            each.filter_map(|(usages, allocator)| {
                usages
                    .as_ref()
                    .err()
                    .map(|why| format!("FAILED: {} under {}: {why}\n", row.row, allocator.name))
            })
        });
        failed.collect()
    }

    /// Whether every run of every column counted.
    pub fn is_whole(&self) -> bool {
        self.rows.iter().all(|row| row.usages.iter().all(Result::is_ok))
    }

    /// The tables as data.
    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let cells = self.allocators.iter().enumerate().map(|(column, allocator)| {
                let metrics = METRICS.iter().map(|metric| {
                    let median = self.values(metric, row, column).map(|values| stats::median(&values));
                    let ratio = self.ratio(metric, row, column);
                    let value = json!({"median": median, "ratio": ratio.map(|ratio| [ratio.value, ratio.low, ratio.high])});
                    (metric.key.to_owned(), value)
                });
                (allocator.name.clone(), Value::Object(metrics.collect()))
            });
            json!({"row": row.row, "allocators": Value::Object(cells.collect())})
        });
        json!({"rows": rows.collect::<Vec<_>>()})
    }
}

/// Three digits that matter.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn shown(ratio: Option<Ratio>) -> String {
    ratio.map_or("failed".to_owned(), |ratio| {
        format!("{:.2} [{:.2}-{:.2}]", ratio.value, ratio.low, ratio.high)
    })
}
