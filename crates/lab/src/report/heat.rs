//! Size against lifetime: which objects the program makes, as a map of shades.

use super::html::{self, Cell, Escaped};
use super::lines::open_svg;
use crate::human;
use crate::profile;
use std::fmt::Write;

/// A table of counts with named columns and rows, lowest first.
#[derive(Clone, Debug, Default)]
pub struct HeatMap {
    /// Lower edges of the columns, written out (`64 B`).
    pub columns: Vec<String>,
    /// Lower edges of the rows, written out (`1 ms`).
    pub rows: Vec<String>,
    /// `cells[row][column]`.
    pub cells: Vec<Vec<u64>>,
    /// What the columns are.
    pub across: String,
    /// What the rows are.
    pub up: String,
}

/// Shades from "one" to "most"; `style.css` has one colour for each.
const SHADES: usize = 8;
const WIDTH: f64 = 960.0;
const LEFT: f64 = 92.0;
const TOP: f64 = 30.0;
const RIGHT: f64 = 16.0;

impl HeatMap {
    /// From the cells of a profile: sizes by doublings, lifetimes by fourfold steps (from an even
    /// doubling on, so that the edges are those of the profile).
    pub fn of(cells: &[profile::Cell]) -> Self {
        let shortest =
            cells.iter().map(|cell| cell.lifetime_s).filter(|s| *s > 0.0).fold(f64::MAX, f64::min);
        // 0 for a lifetime of no tick at all, then one for each factor of four.
        let row_of = |cell: &profile::Cell| match cell.lifetime_s > 0.0 {
            true => 1 + ((cell.lifetime_s / shortest).log2().round() / 2.0) as usize,
            false => 0,
        };
        let column_of = |cell: &profile::Cell| (64 - cell.size.leading_zeros()) as usize;
        let (Some(last), Some(left), Some(right)) = (
            cells.iter().map(row_of).max(),
            cells.iter().map(column_of).min(),
            cells.iter().map(column_of).max(),
        ) else {
            return Self::default();
        };
        let first = cells.iter().map(row_of).min().unwrap_or(0);
        let mut map = Self {
            columns: (left..=right)
                .map(|c| human::bytes(if c == 0 { 0 } else { 1 << (c - 1) }))
                .collect(),
            rows: (first..=last)
                .map(|row| match row {
                    0 => "0 s".to_owned(),
                    row => human::seconds(shortest * 4f64.powi(row as i32 - 1)),
                })
                .collect(),
            cells: vec![vec![0; right - left + 1]; last - first + 1],
            across: "bytes asked for, from".into(),
            up: "lifetime, from".into(),
        };
        for cell in cells {
            map.cells[row_of(cell) - first][column_of(cell) - left] += cell.count;
        }
        map
    }

    /// The drawing; `None` where there is nothing to draw.
    pub fn draw(&self) -> Option<String> {
        let most = self.cells.iter().flatten().copied().max().filter(|most| *most > 0)?;
        let width = (WIDTH - LEFT - RIGHT) / self.columns.len() as f64;
        let height = (340.0 / self.rows.len() as f64).clamp(14.0, 34.0);
        let floor = TOP + height * self.rows.len() as f64;
        let description = "Darker cells hold more objects, on a logarithmic scale. Long-lived objects are on top, \
             large ones to the right.";
        let mut svg =
            open_svg(WIDTH, floor + 78.0, "heat", "Objects by size and lifetime", description);
        for (i, row) in self.cells.iter().enumerate() {
            let y = floor - height * (i + 1) as f64;
            for (j, count) in row.iter().enumerate() {
                self.cell(
                    &mut svg,
                    (i, j),
                    *count,
                    most,
                    (LEFT + width * j as f64, y, width, height),
                );
            }
        }
        self.labels(&mut svg, width, height, floor);
        legend(&mut svg, most, floor + 52.0);
        svg.push_str("</svg>");
        Some(html::scrolling("Objects by size and lifetime", &svg))
    }

    fn cell(
        &self,
        svg: &mut String,
        at: (usize, usize),
        count: u64,
        most: u64,
        place: (f64, f64, f64, f64),
    ) {
        let (x, y, width, height) = place;
        let _ = write!(
            svg,
            "<rect class=\"h{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\">",
            shade(count, most),
            x + 0.5,
            y + 0.5,
            width - 1.0,
            height - 1.0
        );
        if count > 0 {
            let _ = write!(
                svg,
                "<title>size from {}, lifetime from {}: {} objects</title>",
                Escaped(&self.columns[at.1]),
                Escaped(&self.rows[at.0]),
                human::exact(count)
            );
        }
        svg.push_str("</rect>");
    }

    fn labels(&self, svg: &mut String, width: f64, height: f64, floor: f64) {
        let every = (64.0 / width).ceil().max(1.0) as usize;
        for (j, label) in self.columns.iter().enumerate().step_by(every) {
            let x = LEFT + width * j as f64;
            let _ = write!(
                svg,
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                floor + 17.0,
                Escaped(label)
            );
        }
        let every = (18.0 / height).ceil().max(1.0) as usize;
        for (i, label) in self.rows.iter().enumerate().step_by(every) {
            let y = floor - height * i as f64;
            let _ = write!(
                svg,
                "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 7.0,
                y - 3.0,
                Escaped(label)
            );
        }
        let _ = write!(
            svg,
            "<text class=\"name\" x=\"4\" y=\"15\">{}</text>\
             <text class=\"name\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            Escaped(&self.up),
            WIDTH - RIGHT,
            floor + 36.0,
            Escaped(&self.across)
        );
    }

    /// The same as a table.
    pub fn table(&self) -> String {
        let heads: Vec<String> = std::iter::once("lifetime from".to_owned())
            .chain(self.columns.iter().cloned())
            .collect();
        let row = |(label, counts): (&String, &Vec<u64>)| {
            let shown = |n: &u64| Cell::text(if *n == 0 { "·".into() } else { human::count(*n) });
            std::iter::once(Cell::text(label)).chain(counts.iter().map(shown)).collect()
        };
        let rows: Vec<_> = self.rows.iter().zip(&self.cells).rev().map(row).collect();
        let mut out = String::new();
        html::table(&mut out, "Objects by size (across) and lifetime (down)", &heads, &rows);
        out
    }
}

/// 0 for none, then 1 to [`SHADES`] by the logarithm of the count.
fn shade(count: u64, most: u64) -> usize {
    if count == 0 {
        return 0;
    }
    let share = (count as f64).ln() / (most.max(2) as f64).ln();
    1 + ((share * SHADES as f64) as usize).min(SHADES - 1)
}

fn legend(svg: &mut String, most: u64, y: f64) {
    let _ = write!(svg, "<text class=\"tick\" x=\"{LEFT}\" y=\"{:.1}\">1</text>", y + 12.0);
    for i in 1..=SHADES {
        let x = LEFT + 14.0 + 22.0 * (i - 1) as f64;
        let _ =
            write!(svg, "<rect class=\"h{i}\" x=\"{x}\" y=\"{y}\" width=\"21\" height=\"14\"/>");
    }
    let _ = write!(
        svg,
        "<text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{} objects (logarithmic)</text>",
        LEFT + 22.0 + 22.0 * SHADES as f64,
        y + 12.0,
        human::count(most)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_rise_with_the_logarithm() {
        assert_eq!([0, 1, 2, 1_000, 1_000_000].map(|n| shade(n, 1_000_000)), [0, 1, 1, 5, 8]);
        assert_eq!(shade(1, 1), 1, "a single object is drawn");
    }

    #[test]
    fn a_profile_s_cells_keep_their_edges() {
        let cell = |size, lifetime_s, count| profile::Cell { size, lifetime_s, count, bytes: 0 };
        let map = HeatMap::of(&[
            cell(16, 1e-6, 5),
            cell(16, 2e-6, 2),
            cell(64, 4e-6, 1),
            cell(32, 0.0, 9),
        ]);
        assert_eq!(map.columns, ["16 B", "32 B", "64 B"]);
        assert_eq!(map.rows, ["0 s", "1.00 µs", "4.00 µs"]);
        assert_eq!(map.cells, [[0, 9, 0], [7, 0, 0], [0, 0, 1]]);
        assert!(HeatMap::of(&[]).draw().is_none());
    }

    #[test]
    fn an_empty_map_is_not_drawn() {
        assert!(HeatMap::default().draw().is_none());
    }
}
