//! The ranking tables for a terminal: within 100 columns, with or without colour.

use super::html::Cell;
use super::ranking::Ranking;
use crate::results::{Kind, Outcome};

/// Widest a line gets.
pub const MOST_COLUMNS: usize = 100;

const STRONG: &str = "\u{1b}[1;32m";
const FAINT: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// The outcomes as one or two tables. The best of each column is marked by `*`, and in colour too
/// where `colour` is set.
pub fn tables(outcomes: &[Outcome], colour: bool) -> String {
    let kinds = [Kind::Allocator, Kind::Policy];
    let rankings: Vec<_> = kinds.iter().filter_map(|kind| Ranking::of(outcomes, *kind)).collect();
    rankings.iter().map(|ranking| table(ranking, colour)).collect::<Vec<_>>().join("\n")
}

fn table(ranking: &Ranking, colour: bool) -> String {
    let mut widths: Vec<usize> = ranking.heads.iter().map(|head| width(head)).collect();
    for row in &ranking.rows {
        for (most, cell) in widths.iter_mut().zip(row) {
            // A column apart for the mark of the best.
            *most = (*most).max(width(&cell.text));
        }
    }
    // Long names (paths of libraries) give way first.
    let others: usize = widths[1..].iter().map(|width| width + 3).sum();
    widths[0] = widths[0].min(MOST_COLUMNS.saturating_sub(others).max(12));

    let faint = |text: String| if colour { format!("{FAINT}{text}{PLAIN}") } else { text };
    let mut out = format!("{}\n", ranking.caption);
    let mut heads = pad_right(&ranking.heads[0], widths[0]);
    for (head, most) in ranking.heads[1..].iter().zip(&widths[1..]) {
        heads += &format!("  {} ", pad_left(head, *most));
    }
    out += &faint(heads.trim_end().to_owned());
    out.push('\n');
    for row in &ranking.rows {
        let mut line = pad_right(&super::lines::shortened(&row[0].text, widths[0]), widths[0]);
        for (cell, most) in row[1..].iter().zip(&widths[1..]) {
            line += &figure(cell, *most, colour);
        }
        out += line.trim_end();
        out.push('\n');
    }
    out
}

fn figure(cell: &Cell, most: usize, colour: bool) -> String {
    let text = pad_left(&cell.text, most);
    match (cell.best, colour) {
        (false, _) => format!("  {text} "),
        (true, false) => format!("  {text}*"),
        (true, true) => format!("  {STRONG}{text}*{PLAIN}"),
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

fn pad_left(text: &str, to: usize) -> String {
    " ".repeat(to.saturating_sub(width(text))) + text
}

fn pad_right(text: &str, to: usize) -> String {
    text.to_owned() + &" ".repeat(to.saturating_sub(width(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn fits_a_hundred_columns_and_marks_the_best() {
        let mut story = samples::document();
        story.results[0].name =
            "/opt/a/very/long/path/to/some/build/of/an/allocator/lib.so.2".into();
        let text = tables(&story.results, false);
        let widest = text.lines().map(width).max().unwrap();
        assert!(widest <= MOST_COLUMNS, "{widest} columns:\n{text}");
        assert!(text.contains('*') && !text.contains('\u{1b}'), "{text}");
        assert!(tables(&story.results, true).contains(STRONG));
    }
}
