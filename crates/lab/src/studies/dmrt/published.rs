//! The chapter's twelve tables, and what can be said of them without simulating anything.

use crate::studies::statistics::correlation;
use serde::Serialize;
use std::sync::LazyLock;

/// Every printed figure, with its source on top.
const TABLES: &str = include_str!("../../../../../studies/published/dmrt.csv");

/// One column of one table.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Published {
    /// The table's number, `4.1`.
    pub table: String,
    /// The case.
    pub case: u32,
    /// Requests of an attempt.
    pub requests: u32,
    /// The allocator.
    pub allocator: String,
    /// "Execution Time (ms)".
    pub time_ms: f64,
    /// "Fragmentation in (%)".
    pub fragmentation: f64,
    /// "Request Satisfied in (%)".
    pub satisfied: f64,
    /// The last, as printed: how many decimals tells what it can be an average of.
    #[serde(skip)]
    satisfied_text: String,
}

/// All of them, in the order of the tables.
pub static PUBLISHED: LazyLock<Vec<Published>> = LazyLock::new(|| {
    let lines = TABLES.lines().filter(|line| !line.starts_with('#')).skip(1);
    lines.filter_map(read).collect()
});

fn read(line: &str) -> Option<Published> {
    let fields: Vec<&str> = line.split(',').collect();
    let [table, case, _, _, requests, allocator, time, fragmentation, satisfied] = fields[..]
    else {
        return None;
    };
    Some(Published {
        table: table.to_owned(),
        case: case.parse().ok()?,
        requests: requests.parse().ok()?,
        allocator: allocator.to_owned(),
        time_ms: time.parse().ok()?,
        fragmentation: fragmentation.parse().ok()?,
        satisfied: satisfied.parse().ok()?,
        satisfied_text: satisfied.to_owned(),
    })
}

/// What the chapter prints for that allocator in that case under that load.
pub fn find(case: u32, requests: u32, allocator: &str) -> Option<Published> {
    let is = |row: &&Published| {
        row.case == case && row.requests == requests && row.allocator == allocator
    };
    PUBLISHED.iter().find(is).cloned()
}

/// Whether `attempts` whole counts of `requests` can have this average, as printed.
fn can_be_average(row: &Published, attempts: u64) -> bool {
    let decimals = row.satisfied_text.split_once('.').map_or(0, |(_, after)| after.len());
    let scale = 10_u64.pow(decimals as u32);
    let Ok(printed) = row.satisfied_text.replace('.', "").parse::<u64>() else { return false };
    // Satisfied requests of all attempts together: percent / 100 * requests * attempts. Printed
    // figures end where their zeros do, so a finer average would have been printed finer.
    (printed * u64::from(row.requests) * attempts).is_multiple_of(100 * scale)
}

/// A statement about the published tables, and the figures it rests on.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Note {
    /// In a sentence.
    pub text: String,
}

/// What the tables say about themselves, computed.
pub fn notes() -> Vec<Note> {
    vec![
        fragmentation_is_unsatisfied(),
        averages(),
        one_path_two_values(),
        more_requests_more_satisfied(),
        almost_the_same_time(),
    ]
    .into_iter()
    .map(|text| Note { text })
    .collect()
}

fn fragmentation_is_unsatisfied() -> String {
    let fragmentation: Vec<f64> = PUBLISHED.iter().map(|row| row.fragmentation).collect();
    let unsatisfied: Vec<f64> = PUBLISHED.iter().map(|row| 100.0 - row.satisfied).collect();
    let r = correlation(&fragmentation, &unsatisfied);
    format!(
        "Published fragmentation is nearly 100 less the requests satisfied: over all {} pairs they \
         correlate with r = {r:.3}. Two quantities that are measured apart do not.",
        PUBLISHED.len()
    )
}

fn averages() -> String {
    let count = |requests| {
        let of_load = PUBLISHED.iter().filter(|row| row.requests == requests);
        let can = of_load.clone().filter(|row| can_be_average(row, 100)).count();
        (can, of_load.count())
    };
    let [(a, n), (b, m), (c, k)] = [100, 1000, 2000].map(count);
    format!(
        "Requests satisfied are said to be averages of 100 attempts. An average of 100 counts of 100 \
         requests has two decimals: {a} of {n} printed figures can be one; of 1000 requests {b} of \
         {m}, of 2000 {c} of {k}."
    )
}

/// Existing allocators go the same path in cases 1 and 2, and DmRT in 1 and 4, and in 2 and 3.
fn one_path_two_values() -> String {
    let mut worst: Option<(f64, String)> = None;
    let mut add = |cases: [u32; 2], allocator: &str| {
        for requests in [100, 1000, 2000] {
            let [a, b] = cases.map(|case| find(case, requests, allocator));
            let (Some(a), Some(b)) = (a, b) else { continue };
            let apart = (a.satisfied - b.satisfied).abs();
            if worst.as_ref().is_none_or(|worst| apart > worst.0) {
                let text = format!(
                    "{allocator} satisfies {:.1} % in table {} and {:.1} % in table {}",
                    a.satisfied, a.table, b.satisfied, b.table
                );
                worst = Some((apart, text));
            }
        }
    };
    ["dlmalloc", "tcmalloc", "tlsf"].into_iter().for_each(|name| add([1, 2], name));
    add([1, 4], "dmrt");
    add([2, 3], "dmrt");
    let text = worst.map_or_else(String::new, |worst| worst.1);
    format!(
        "The same allocator on the same path under the same load is printed twice, with different values: {text}."
    )
}

fn more_requests_more_satisfied() -> String {
    let rising = PUBLISHED.iter().filter(|row| row.requests == 1000).filter_map(|row| {
        let more = find(row.case, 2000, &row.allocator)?;
        let text = format!("{} in tables {} and {}", row.allocator, row.table, more.table);
        (more.satisfied > row.satisfied).then_some(text)
    });
    let rising: Vec<String> = rising.collect();
    format!(
        "Twice the requests on the same memory should not be served better; printed so for {}.",
        listed(&rising)
    )
}

fn almost_the_same_time() -> String {
    let ratios: Vec<f64> = PUBLISHED
        .iter()
        .filter(|row| row.case == 3 && row.allocator == "tlsf")
        .filter_map(|row| Some(row.time_ms / find(3, row.requests, "dmrt")?.time_ms))
        .collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!(
        "Of case 3 the text says that times \"will be almost same\"; its tables print {least:.2} to \
         {most:.2} times DmRT's for TLSF. No table prints a spread."
    )
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed(items: &[String]) -> String {
    match items {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_twelve_tables_are_there() {
        assert_eq!(PUBLISHED.len(), 48);
        let row = find(1, 2000, "tcmalloc").unwrap();
        assert_eq!((row.table.as_str(), row.time_ms), ("4.3", 4348.651));
        assert_eq!((row.fragmentation, row.satisfied), (43.3702, 50.0315));
        assert_eq!(find(1, 500, "tcmalloc"), None);
    }

    #[test]
    fn what_the_tables_say_of_themselves() {
        let notes: Vec<String> = notes().into_iter().map(|note| note.text).collect();
        assert!(notes[0].contains("r = 0.985"), "{}", notes[0]);
        assert!(
            notes[1].contains("0 of 16 printed") && notes[1].contains("1 of 16"),
            "{}",
            notes[1]
        );
        assert!(
            notes[2].contains("dlmalloc satisfies 45.2 % in table 4.2 and 34.4 % in table 4.5")
        );
        assert!(notes[3].contains("dlmalloc in tables 4.5 and 4.6"), "{}", notes[3]);
        assert!(notes[4].contains("1.17 to 1.33"), "{}", notes[4]);
    }

    #[test]
    fn an_average_of_counts_has_few_decimals() {
        let row = |text: &str| Published {
            satisfied_text: text.to_owned(),
            ..find(1, 100, "dmrt").unwrap()
        };
        assert!(can_be_average(&row("57.50"), 100) && can_be_average(&row("57.51"), 100));
        assert!(!can_be_average(&row("57.511"), 100));
    }
}
