//! Cells and tables in Markdown, and their place in THREAT-MODEL.md: between two marks, rewritten as a whole.

use super::columns::Column;
use super::misuse::{Cell, Row};
use super::trial::Verdict;
use crate::bench::facts;
use anyhow::Context;
use std::fmt::Write;

/// The mark of the table of misuse.
pub const MISUSE: &str = "cargo xtask threats";
/// The mark of the table of costs.
pub const COST: &str = "cargo xtask threats --cost";

const FILE: &str = "crates/freehold/THREAT-MODEL.md";

/// The table, what its columns are, and where a goal is missed.
pub fn markdown(rows: &[Row], columns: &[Column], worse: &[String]) -> String {
    let mut text = String::from("| misuse |");
    columns.iter().for_each(|column| _ = write!(text, " {} |", column.name));
    text += "\n|---|";
    columns.iter().for_each(|_| text += "---|");
    text.push('\n');
    for row in rows {
        let _ = write!(text, "| {} |", row.case.sentence);
        row.cells.iter().for_each(|cell| _ = write!(text, " {} |", cell_text(cell.as_ref())));
        text.push('\n');
    }
    text.push('\n');
    for column in columns {
        let _ = match &column.allocator {
            Ok(allocator) => writeln!(text, "- {}: {}", column.name, allocator.version),
            Err(_) => writeln!(text, "- {}: missing when the table was made", column.name),
        };
    }
    let _ = match worse {
        [] => writeln!(text, "\nNo cell of Freehold's misses its goal ({}).", facts::commit()),
        _ => writeln!(text, "\nMissed goals ({}): {}.", facts::commit(), worse.join("; ")),
    };
    text
}

/// The worst verdict; how many of the runs ended so, where not all did.
fn cell_text(cell: Option<&Cell>) -> String {
    let Some(cell) = cell else { return "–".to_owned() };
    let runs = cell.trials.len();
    let share =
        |count: usize| if count == runs { String::new() } else { format!(" {count}/{runs}") };
    match cell.worst() {
        Verdict::Exploitable => {
            format!("**exploitable**{}", share(cell.count(Verdict::Exploitable)))
        }
        Verdict::Silent | Verdict::Hang => {
            let hangs = cell.count(Verdict::Hang);
            let silent = share(cell.count(Verdict::Silent) + hangs);
            if hangs == 0 {
                format!("silent{silent}")
            } else {
                format!("silent{silent}, hangs {hangs}")
            }
        }
        Verdict::Detected | Verdict::Fault => match cell.count(Verdict::Fault) {
            0 => "detected".to_owned(),
            faults => format!("detected, faults {faults}/{runs}"),
        },
    }
}

/// Puts `text` between the marks of that name.
pub fn write(mark: &str, text: &str) -> anyhow::Result<()> {
    let path = crate::sources::root().join(FILE);
    let document = std::fs::read_to_string(&path)?;
    let made = between(&document, mark, text)
        .with_context(|| format!("{FILE} has no marks <!-- {mark} --> and <!-- end -->"))?;
    std::fs::write(path, made)?;
    Ok(())
}

/// The table of misuse as it stands in the document: the verdict of each cell that has one.
#[derive(Default)]
pub struct Recorded {
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<Verdict>>)>,
}

impl Recorded {
    /// Reads THREAT-MODEL.md.
    pub fn read() -> anyhow::Result<Recorded> {
        Recorded::of(&std::fs::read_to_string(crate::sources::root().join(FILE))?)
    }

    fn of(document: &str) -> anyhow::Result<Recorded> {
        let opening = format!("<!-- {MISUSE} -->\n");
        let table = document
            .split_once(&opening)
            .with_context(|| format!("{FILE} has no table of misuse"))?
            .1;
        let mut lines = table
            .lines()
            .skip_while(|line| line.is_empty())
            .take_while(|line| line.starts_with('|'));
        let columns = lines.next().map(|line| cells(line).skip(1).map(str::to_owned).collect());
        let columns: Vec<String> =
            columns.with_context(|| format!("the table of misuse in {FILE} is empty"))?;
        let row = |line| {
            let mut cells = cells(line);
            Some((cells.next()?.to_owned(), cells.map(verdict).collect()))
        };
        Ok(Recorded { columns, rows: lines.skip(1).filter_map(row).collect() })
    }

    /// A table of one row.
    #[cfg(test)]
    pub fn row(sentence: &str, cells: &[(&str, Verdict)]) -> Recorded {
        let columns = cells.iter().map(|(name, _)| (*name).to_owned()).collect();
        let verdicts = cells.iter().map(|(_, verdict)| Some(*verdict)).collect();
        Recorded { columns, rows: vec![(sentence.to_owned(), verdicts)] }
    }

    /// The cell of this row and column.
    pub fn cell(&self, sentence: &str, column: &str) -> Option<Verdict> {
        let at = self.columns.iter().position(|name| name == column)?;
        let (_, cells) = self.rows.iter().find(|(name, _)| name == sentence)?;
        *cells.get(at)?
    }
}

fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.trim_matches('|').split('|').map(str::trim)
}

/// What [`cell_text`] made a text of: a fault counts as detected, a hang as silent.
fn verdict(text: &str) -> Option<Verdict> {
    match text.split([' ', ',']).next()? {
        "detected" => Some(Verdict::Detected),
        "silent" => Some(Verdict::Silent),
        "**exploitable**" => Some(Verdict::Exploitable),
        _ => None,
    }
}

fn between(document: &str, mark: &str, text: &str) -> Option<String> {
    let opening = format!("<!-- {mark} -->\n");
    let begin = document.find(&opening)? + opening.len();
    let len = document[begin..].find("<!-- end -->")?;
    Some(format!("{}\n{}\n\n{}", &document[..begin], text.trim_end(), &document[begin + len..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threats::trial::Trial;

    fn cell(verdicts: &[Verdict]) -> Cell {
        let trial = |verdict: &Verdict| Trial { verdict: *verdict, said: String::new() };
        Cell { trials: verdicts.iter().map(|verdict| (40, 0, trial(verdict))).collect() }
    }

    #[test]
    fn a_cell_is_the_worst_of_its_runs() {
        use Verdict::{Detected, Exploitable, Fault, Hang, Silent};
        let text = |verdicts: &[Verdict]| cell_text(Some(&cell(verdicts)));
        assert_eq!(text(&[Detected, Detected]), "detected");
        assert_eq!(text(&[Detected, Fault]), "detected, faults 1/2");
        assert_eq!(text(&[Detected, Silent]), "silent 1/2");
        assert_eq!(text(&[Detected, Hang]), "silent 1/2, hangs 1");
        assert_eq!(text(&[Exploitable, Silent, Fault]), "**exploitable** 1/3");
        assert_eq!(cell_text(None), "–");
    }

    #[test]
    fn what_was_written_is_read_again() {
        use Verdict::{Detected, Exploitable, Fault, Hang, Silent};
        let column = |name: &str| Column { name: name.to_owned(), allocator: Err(String::new()) };
        let columns = ["a", "b"].map(column);
        let row = |at: usize, cells: [Option<Cell>; 2]| Row {
            case: &crate::threats::misuse::ALL[at],
            cells: cells.into(),
        };
        let rows = [
            row(0, [Some(cell(&[Detected, Fault])), None]),
            row(1, [Some(cell(&[Silent, Hang])), Some(cell(&[Detected, Exploitable]))]),
        ];
        let text = markdown(&rows, &columns, &[]);
        let document =
            between(&format!("a\n<!-- {MISUSE} -->\n<!-- end -->\nb\n"), MISUSE, &text).unwrap();
        let recorded = Recorded::of(&document).unwrap();
        for row in &rows {
            for (cell, column) in row.cells.iter().zip(&columns) {
                let worst = cell.as_ref().map(Cell::worst);
                assert_eq!(recorded.cell(row.case.sentence, &column.name), worst);
            }
        }
        assert_eq!(recorded.cell("no such misuse", "a"), None);
        assert_eq!(recorded.cell(rows[0].case.sentence, "c"), None);
        assert!(Recorded::of("nothing").is_err());
    }

    #[test]
    fn what_lies_between_the_marks_is_replaced() {
        let document = "a\n<!-- x -->\nold\n<!-- end -->\nb\n";
        let made = between(document, "x", "new\n").unwrap();
        assert_eq!(made, "a\n<!-- x -->\n\nnew\n\n<!-- end -->\nb\n");
        assert_eq!(between(&made, "x", "new\n").unwrap(), made);
        assert_eq!(between(document, "y", "new"), None);
    }
}
