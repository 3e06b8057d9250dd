//! Table 1 of Cavin and Alonso, "Parallel management of large dynamic shared memory space", as data.

/// Processors of the table's columns.
pub const PROCESSORS: [u32; 7] = [1, 4, 8, 16, 24, 32, 40];

const MISSES: &str =
    include_str!("../../../../../studies/published/radiosity_table_1_tlb_misses_1e6.csv");
const TIMES: &str = include_str!("../../../../../studies/published/radiosity_table_1_time_s.csv");

/// A row of each half of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Published {
    /// Seconds, by processors; the table has no cell for 4 processors and 1 MiB pages.
    pub seconds: [Option<f64>; 7],
    /// Millions of TLB misses.
    pub misses: [Option<f64>; 7],
}

/// The rows of a page size: 14 (16 KiB) or 20 (1 MiB), as log2; `None` for others.
pub fn published(page_log2: u32) -> Option<Published> {
    let name = match page_log2 {
        14 => "16k",
        20 => "1m",
        _ => return None,
    };
    Some(Published { seconds: row(TIMES, name)?, misses: row(MISSES, name)? })
}

fn row(table: &str, name: &str) -> Option<[Option<f64>; 7]> {
    let line = table.lines().find(|line| line.split(',').next() == Some(name))?;
    let mut cells = line.split(',').skip(1).map(|cell| cell.parse().ok());
    Some(std::array::from_fn(|_| cells.next().flatten()))
}
