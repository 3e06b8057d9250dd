//! What the thesis prints, as data; and its slips, computed from it.

use serde::Serialize;

const TABLES: [(&str, &str, &str); 7] = [
    ("1.1", "power of DDR3 modules", super::config::TABLE_1_1),
    (
        "1.2",
        "relative power of mobile DRAM states",
        include_str!("../../../../../studies/published/banks_table_1_2_power_states.csv"),
    ),
    (
        "4.1",
        "two-way interleaving",
        include_str!("../../../../../studies/published/banks_table_4_1_interleaving.csv"),
    ),
    (
        "4.2",
        "sizes of structures, bytes",
        include_str!("../../../../../studies/published/banks_table_4_2_structure_sizes.csv"),
    ),
    (
        "5.1",
        "memory switched off",
        include_str!("../../../../../studies/published/banks_table_5_1_offlined.csv"),
    ),
    (
        "5.2",
        "against an optimal solution",
        include_str!("../../../../../studies/published/banks_table_5_2_optimal.csv"),
    ),
    (
        "6.1",
        "time of an allocation, nanoseconds",
        include_str!("../../../../../studies/published/banks_table_6_1_alloc_ns.csv"),
    ),
];

/// Figures of the text: a comment, a head, then key, value, unit and the words it stands in.
pub const FIGURES: &str = include_str!("../../../../../studies/published/banks_figures.csv");

/// A printed table: its cells as they stand there.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Printed {
    /// Its number.
    pub number: &'static str,
    /// What it holds.
    pub title: &'static str,
    /// Heads of the columns.
    pub heads: Vec<&'static str>,
    /// Rows.
    pub rows: Vec<Vec<&'static str>>,
}

/// The table of that number.
pub fn printed(number: &str) -> Option<Printed> {
    let &(number, title, text) = TABLES.iter().find(|table| table.0 == number)?;
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let heads = lines.next()?.split(',').collect();
    let rows = lines.map(|line| line.split(',').collect()).collect();
    Some(Printed { number, title, heads, rows })
}

/// A number of a printed table: the row whose first cell is `row`, and the column.
pub fn cell(number: &str, row: &str, column: usize) -> Option<f64> {
    let table = printed(number)?;
    let row = table.rows.iter().find(|cells| cells[0] == row)?;
    row.get(column)?.trim().parse().ok()
}

/// A figure of the text.
pub fn figure(key: &str) -> Option<f64> {
    let line = FIGURES.lines().find(|line| line.split(',').next() == Some(key))?;
    line.split(',').nth(1)?.parse().ok()
}

/// What does not agree within the thesis, in sentences.
pub fn slips() -> Vec<String> {
    let of = |workload| {
        let (best, ours) =
            (cell("5.2", workload, 1).unwrap_or(0.0), cell("5.2", workload, 2).unwrap_or(0.0));
        100.0 * (best - ours) / best.max(1.0)
    };
    let product: f64 = 10.6 * 8.0;
    vec![
        format!("Table 1.1, second row: 8 modules of 10.6 W are {product:.1} W, not 85.8 W."),
        "Table 4.1 ends with banks 112-117; sixteen banks tied to 80-95 must be 112-127.".into(),
        format!(
            "Table 4.2: 64 free areas of 1,144 bytes are {} bytes, more than the {} of the zone that holds them.",
            64 * 1_144,
            cell("4.2", "zone", 2).unwrap_or(0.0)
        ),
        format!(
            "Section 5.5 calls the distance from an optimal solution 15 to 20 %; its table 5.2 gives {:.1} % and {:.1} %.",
            of("Light"),
            of("Medium")
        ),
        "Tables 5.1 and 5.2 give the same quantity as 45.7 and 45.37.".into(),
        "Section 6.1 calls single pages O(1); it means order 0.".into(),
        "Table 6.4: creat-clo is -1.27 % and link_test -2.93 % by its own numbers, not -1.30 % and -3.94 %.".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_read_as_printed() {
        assert_eq!(cell("5.1", "Light", 2), Some(59.5));
        assert_eq!(cell("5.2", "Medium", 2), Some(45.37));
        assert_eq!(figure("c_light"), Some(0.85));
        assert_eq!(printed("6.1").unwrap().rows.len(), 5);
        assert!(
            TABLES.iter().all(|table| printed(table.0).is_some_and(|table| !table.rows.is_empty()))
        );
        assert!(slips()[3].contains("13.8 % and 20.4 %"), "{}", slips()[3]);
    }
}
