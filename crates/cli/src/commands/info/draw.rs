//! Bars and curves of Unicode blocks, at most 80 columns wide and no wider than the terminal; text may be wider.

use freehold_lab::profile::{Bucket, Point};

/// Columns of a page, but for text of any length.
pub const WIDTH: usize = 80;
/// Narrower than this, lines are longer than the terminal.
pub const LEAST_WIDTH: usize = 60;
const EIGHTHS_UP: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const EIGHTHS_RIGHT: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// What the page is shown on.
#[derive(Clone, Copy)]
pub struct Style {
    /// Columns for text of any length (commands), which ends in … where it is longer.
    pub columns: usize,
    /// ANSI colours are wanted and understood.
    pub color: bool,
}

impl Style {
    /// Columns of everything that can choose.
    pub fn width(self) -> usize {
        self.columns.clamp(LEAST_WIDTH, WIDTH)
    }

    /// A heading.
    pub fn heading(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Ink of bars and curves.
    pub fn ink(self, text: &str) -> String {
        self.wrap("36", text)
    }

    /// What may be overlooked.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.color && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A bar of `fraction` (0 to 1) of `width` columns; the least value above 0 is visible.
pub fn bar(fraction: f64, width: usize) -> String {
    let eighths = (fraction.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let eighths = if fraction > 0.0 { eighths.max(1) } else { 0 };
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS_RIGHT[eighths % 8 - 1]);
    }
    bar
}

/// A histogram whose rows double: what lies from `from` up to twice that.
pub struct Row {
    /// Least value.
    pub from: f64,
    /// Objects.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Joins fine buckets to doublings. `unit` is the value of one step (1 byte, 1 tick): below it,
/// everything is one row.
pub fn doublings(buckets: &[Bucket], unit: f64) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for bucket in buckets {
        // A hair above the bound, for scaled bounds are rounded.
        let steps = bucket.from / unit * (1.0 + 1e-9);
        let from = if steps < 1.0 { 0.0 } else { steps.log2().floor().exp2() * unit };
        match rows.last_mut() {
            Some(row) if (row.from - from).abs() <= unit * 1e-6 => {
                row.count += bucket.count;
                row.bytes += bucket.bytes;
            }
            _ => rows.push(Row { from, count: bucket.count, bytes: bucket.bytes }),
        }
    }
    rows
}

/// The curve's highest values in so many columns from its first point to `end`.
fn columns(points: &[Point], end: f64, width: usize) -> Vec<u64> {
    let Some(first) = points.first() else { return Vec::new() };
    let stretch = (end - first.at).max(f64::MIN_POSITIVE);
    let column = |at: f64| (((at - first.at) / stretch * width as f64) as usize).min(width - 1);
    let mut highest = vec![0; width];
    for (i, point) in points.iter().enumerate() {
        let (from, to) =
            (column(point.at), points.get(i + 1).map_or(width, |next| column(next.at)));
        highest[from] = highest[from].max(point.max_bytes);
        // Until the next point, what was live stays live.
        for value in &mut highest[(from + 1).min(to)..to] {
            *value = (*value).max(point.bytes);
        }
    }
    highest
}

/// The rows of an area under a curve, highest first, and the highest value.
pub fn area(points: &[Point], end: f64, width: usize, height: usize) -> (Vec<String>, u64) {
    let values = columns(points, end, width);
    let most = values.iter().copied().max().unwrap_or(0);
    let rows = (0..height).rev().map(|row| {
        let cell = |value: &u64| {
            let eighths = *value as f64 / most.max(1) as f64 * (height * 8) as f64;
            EIGHTHS_UP[(eighths.ceil() as usize).saturating_sub(row * 8).min(8)]
        };
        values.iter().map(cell).collect::<String>().trim_end().to_owned()
    });
    (rows.collect(), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: f64, bytes: u64) -> Point {
        Point { at, min_bytes: bytes, max_bytes: bytes, bytes, objects: 1 }
    }

    #[test]
    fn bars() {
        assert_eq!(bar(0.0, 10), "");
        assert_eq!(bar(1e-9, 10), "▏");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(0.3, 4), "█▎");
        assert_eq!(bar(7.0, 2), "██");
    }

    #[test]
    fn an_area_rises_and_holds() {
        let (rows, most) = area(&[point(0.0, 1), point(2.0, 4), point(3.0, 2)], 4.0, 4, 2);
        assert_eq!(most, 4);
        assert_eq!(rows, ["  █", "▄▄██"]);
    }

    #[test]
    fn doublings_join_eighths() {
        let bucket = |from, to, count| Bucket { from, to, count, bytes: 0 };
        let rows = doublings(
            &[
                bucket(0.0, 1.0, 1),
                bucket(8.0, 9.0, 2),
                bucket(15.0, 16.0, 3),
                bucket(16.0, 18.0, 4),
            ],
            1.0,
        );
        let seen: Vec<_> = rows.iter().map(|row| (row.from, row.count)).collect();
        assert_eq!(seen, [(0.0, 1), (8.0, 5), (16.0, 4)]);
    }
}
