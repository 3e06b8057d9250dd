//! The answer and the ranking tables for a terminal: within 100 columns or what the terminal has, with or without colour.

use super::html::Cell;
use super::ranking::Ranking;
use crate::answer::{Answer, Phrase};
use crate::results::{Held, Kind, Outcome, ProcessFacts};
use std::ops::Range;

/// Widest a line gets.
pub const MOST_COLUMNS: usize = 100;

const STRONG: &str = "\u{1b}[1;32m";
const FAINT: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

const BOLD: &str = "\u{1b}[1m";
/// Columns of the headings beside the answer, and of the space behind them.
const HEADING: usize = 15;

/// Narrowest that names become.
const LEAST_NAME: usize = 12;

/// The outcomes as one to three tables of at most so many columns. The best of each column is marked by `*`, and in
/// colour too where `colour` is set. What does not fit beside the names follows below, with the names again.
pub fn tables(outcomes: &[Outcome], colour: bool, columns: usize) -> String {
    let kinds = [Kind::Allocator, Kind::Policy, Kind::Malloc];
    let rankings: Vec<_> = kinds.iter().filter_map(|kind| Ranking::of(outcomes, *kind)).collect();
    let columns = columns.min(MOST_COLUMNS);
    rankings.iter().map(|ranking| table(ranking, colour, columns)).collect::<Vec<_>>().join("\n")
}

/// Who holds pages for few bytes under each allocator; empty where that was not asked.
pub fn held(held: &[Held], colour: bool, columns: usize) -> String {
    let columns = columns.min(MOST_COLUMNS);
    Ranking::of_held(held).map_or(String::new(), |ranking| table(&ranking, colour, columns))
}

/// The processes with the most memory, those `judged` marked; and what all of them add up to.
pub fn processes(
    processes: &[ProcessFacts],
    judged: &[u32],
    colour: bool,
    columns: usize,
) -> String {
    let columns = columns.min(MOST_COLUMNS);
    let mut ranking = super::processes::ranking(processes, judged);
    for cell in ranking.rows.iter_mut().flatten() {
        // Names of another program may hold anything.
        cell.text = cell.text.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    }
    let table = table(&ranking, colour, columns);
    format!("{table}{}\n", wrapped(&super::processes::sum(processes), columns))
}

/// The answer: each heading once, its sentences beside it in lines that fit, each sentence on a line of its own.
pub fn answer(answer: &Answer, colour: bool, columns: usize) -> String {
    let columns = columns.min(MOST_COLUMNS);
    let mut out = String::new();
    for (heading, sentences) in answer.parts() {
        let mut heading = heading;
        for sentence in sentences {
            for line in lines_of(sentence, columns.saturating_sub(HEADING), colour) {
                let label = pad_right(std::mem::take(&mut heading), HEADING);
                out += &if colour && !label.trim().is_empty() {
                    format!("{BOLD}{label}{PLAIN}")
                } else {
                    label
                };
                out += &line;
                out.push('\n');
            }
        }
    }
    out
}

/// A sentence in lines of so many columns. Names of another program may hold anything: no control character passes.
fn lines_of(sentence: &[Phrase], columns: usize, colour: bool) -> Vec<String> {
    let (mut lines, mut line, mut taken) = (Vec::new(), String::new(), 0);
    let mut open = false;
    for phrase in sentence {
        let strong = phrase.strong && colour;
        for piece in phrase.text.split_inclusive(' ') {
            let piece: String =
                piece.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
            // Where the line is broken a style ends and begins anew.
            if taken > 0 && taken + width(piece.trim_end()) > columns {
                line.truncate(line.trim_end().len());
                line += if open { PLAIN } else { "" };
                lines.push(std::mem::take(&mut line));
                (taken, open) = (0, false);
            }
            if strong != open {
                line += if strong { BOLD } else { PLAIN };
                open = strong;
            }
            taken += width(&piece);
            line += &piece;
        }
    }
    line += if open { PLAIN } else { "" };
    lines.push(line);
    lines.iter().map(|line| line.trim_end().to_owned()).collect()
}

fn table(ranking: &Ranking, colour: bool, columns: usize) -> String {
    let mut widths: Vec<usize> = ranking.heads.iter().map(|head| width(head)).collect();
    for row in &ranking.rows {
        for (most, cell) in widths.iter_mut().zip(row) {
            // A column apart for the mark of the best.
            *most = (*most).max(width(&cell.text));
        }
    }
    let mut out = format!("{}\n", wrapped(ranking.caption, columns));
    let parts = parts(&widths, columns);
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        write_part(&mut out, ranking, &widths, part, colour, columns);
    }
    out
}

/// Which columns of figures stand beside each other.
fn parts(widths: &[usize], columns: usize) -> Vec<Range<usize>> {
    // Long names (paths of libraries) give way first.
    let name = widths[0].min(LEAST_NAME);
    let mut parts = Vec::new();
    let (mut from, mut taken) = (1, name);
    for (at, width) in widths.iter().enumerate().skip(1) {
        if taken + width + 3 > columns && at > from {
            parts.push(from..at);
            (from, taken) = (at, name);
        }
        taken += width + 3;
    }
    parts.push(from..widths.len());
    parts
}

fn write_part(
    out: &mut String,
    ranking: &Ranking,
    widths: &[usize],
    part: &Range<usize>,
    colour: bool,
    columns: usize,
) {
    let figures: usize = widths[part.clone()].iter().map(|width| width + 3).sum();
    let names = widths[0].min(columns.saturating_sub(figures).max(LEAST_NAME));
    let faint = |text: String| if colour { format!("{FAINT}{text}{PLAIN}") } else { text };
    let mut heads = pad_right(&super::lines::shortened(&ranking.heads[0], names), names);
    for at in part.clone() {
        heads += &format!("  {} ", pad_left(&ranking.heads[at], widths[at]));
    }
    *out += &faint(heads.trim_end().to_owned());
    out.push('\n');
    for row in &ranking.rows {
        let mut line = pad_right(&super::lines::shortened(&row[0].text, names), names);
        for at in part.clone() {
            line += &figure(&row[at], widths[at], colour);
        }
        *out += line.trim_end();
        out.push('\n');
    }
}

/// The sentence in lines that fit.
fn wrapped(text: &str, columns: usize) -> String {
    let mut out = String::new();
    let mut taken = 0;
    for word in text.split(' ') {
        let needs = width(word) + usize::from(taken > 0);
        if taken > 0 && taken + needs > columns {
            out.push('\n');
            taken = 0;
        } else if taken > 0 {
            out.push(' ');
        }
        out += word;
        taken += if taken == 0 { width(word) } else { needs };
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
        let text = tables(&story.results, false, usize::MAX);
        let widest = text.lines().map(width).max().unwrap();
        assert!(widest <= MOST_COLUMNS, "{widest} columns:\n{text}");
        assert!(text.contains('*') && !text.contains('\u{1b}'), "{text}");
        assert!(tables(&story.results, true, usize::MAX).contains(STRONG));
    }

    #[test]
    fn the_answer_fits_and_its_words_stay_whole() {
        let phrase = |text: &str, strong| Phrase { text: text.into(), strong };
        let sentence = vec![
            phrase("Free what ", false),
            phrase("grow\u{1b} (a.c:7)", true),
            phrase(" makes, ", false),
        ];
        let said = Answer { todo: vec![sentence.clone(), sentence], ..Answer::default() };
        assert_eq!(
            answer(&said, false, 35),
            "What to do     Free what grow·\n               (a.c:7) makes,\n\
             \u{20}              Free what grow·\n               (a.c:7) makes,\n"
        );
        let coloured = answer(&said, true, 30);
        assert!(coloured.contains("\u{1b}[1mgrow·\u{1b}[0m\n"), "{coloured:?}");
    }

    #[test]
    fn a_narrow_terminal_gets_every_figure_below_each_other() {
        let mut story = samples::document();
        story.results[0].name = "/opt/a/very/long/path/to/an/allocator/lib.so.2".into();
        let wide = tables(&story.results, false, usize::MAX);
        for columns in [40, 60, 80] {
            let text = tables(&story.results, false, columns);
            let widest = text.lines().map(width).max().unwrap();
            assert!(widest <= columns, "{widest} columns of {columns}:\n{text}");
            for figure in wide.split_whitespace().filter(|word| word.ends_with('*')) {
                assert!(text.contains(figure), "{figure} is missing:\n{text}");
            }
        }
    }
}
