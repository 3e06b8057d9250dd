//! Tables that are Markdown and, being aligned, plain text as well.

/// Rows of cells under a head.
pub struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with its title and head.
    pub fn new(title: impl Into<String>, head: impl IntoIterator<Item = String>) -> Self {
        Self { title: title.into(), rows: vec![head.into_iter().collect()] }
    }

    /// Appends a row.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }

    /// The whole table; the first column to the left, numbers to the right.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = format!("\n### {}\n\n", self.title);
        for (index, row) in self.rows.iter().enumerate() {
            out += &line(row, &widths);
            if index == 0 {
                out += &rule(&widths);
            }
        }
        out
    }
}

fn line(row: &[String], widths: &[usize]) -> String {
    let mut out = String::from("|");
    for (column, width) in widths.iter().enumerate() {
        let cell = row.get(column).map_or("", String::as_str);
        let pad = " ".repeat(width - cell.chars().count());
        out += &if column == 0 { format!(" {cell}{pad} |") } else { format!(" {pad}{cell} |") };
    }
    out + "\n"
}

fn rule(widths: &[usize]) -> String {
    let mut out = String::from("|");
    for (column, width) in widths.iter().enumerate() {
        let dashes = "-".repeat(*width);
        out += &if column == 0 { format!(" {dashes} |") } else { format!(" {}: |", &dashes[1..]) };
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new("T", ["row".to_owned(), "x".to_owned()]);
        table.push(["a".to_owned(), "1.25".to_owned()]);
        let wanted = "\n### T\n\n| row |    x |\n| --- | ---: |\n| a   | 1.25 |\n";
        assert_eq!(table.render(), wanted);
    }
}
