//! Text that is safe inside HTML, and the two or three shapes that every section uses.

use std::fmt::{self, Display, Write};

/// Shows text with the characters escaped that HTML and SVG give a meaning.
pub struct Escaped<'a>(pub &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                // Control characters are not allowed in a document at all.
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A table cell: its text, whether it is the best of its column, and a bar behind it (0 to 1).
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// A quieter second line.
    pub note: Option<String>,
    /// Whether it is the best of its column.
    pub best: bool,
    /// Length of the bar under the text, 0 to 1.
    pub bar: Option<f64>,
    /// Whether it says what became of the row's claim: words, which wrap on a phone.
    pub verdict: bool,
}

impl Cell {
    /// Just text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// A table in its own scrolling box; the caption is for those who cannot see what stands around it. The first column holds the rows' names.
pub fn table(out: &mut String, caption: &str, heads: &[String], rows: &[Vec<Cell>]) {
    let label = Escaped(caption);
    let _ = write!(
        out,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{label}\"><table>\
         <caption class=\"unseen\">{label}</caption><thead><tr>"
    );
    for (i, head) in heads.iter().enumerate() {
        let verdict = rows.iter().any(|row| row.get(i).is_some_and(|cell| cell.verdict));
        let class = if verdict { " class=\"verdict\"" } else { "" };
        let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", Escaped(head));
    }
    out.push_str("</tr></thead><tbody>");
    for row in rows {
        out.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            table_cell(out, cell, i == 0);
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>\n");
}

fn table_cell(out: &mut String, cell: &Cell, is_name: bool) {
    let (open, close) = if is_name { ("<th scope=\"row\"", "</th>") } else { ("<td", "</td>") };
    out.push_str(open);
    out.push_str(match (cell.verdict, cell.best) {
        (true, true) => " class=\"verdict best\"",
        (true, false) => " class=\"verdict\"",
        (false, true) => " class=\"best\"",
        (false, false) => "",
    });
    let _ = write!(out, ">{}", Escaped(&cell.text));
    if cell.best && !cell.verdict {
        out.push_str("<span class=\"unseen\"> (best)</span>");
    }
    if let Some(note) = &cell.note {
        let _ = write!(out, "<small>{}</small>", Escaped(note));
    }
    if let Some(bar) = cell.bar {
        let _ =
            write!(out, "<i class=\"bar\" style=\"--w:{:.1}%\"></i>", bar.clamp(0.0, 1.0) * 100.0);
    }
    out.push_str(close);
}

/// A figure: heading, one sentence on how to read it, the drawing, the same as a table, and the
/// command that makes it.
pub struct Figure<'a> {
    /// Anchor.
    pub id: &'a str,
    /// What it shows.
    pub title: &'a str,
    /// How to read it.
    pub lead: &'a str,
    /// SVG, or several.
    pub drawing: &'a str,
    /// The fallback table.
    pub table: &'a str,
    /// The command whose output holds these numbers.
    pub command: &'a str,
}

/// The figures of one page, all made by the same command.
#[derive(Clone, Copy)]
pub struct Figures<'a> {
    /// That command.
    pub command: &'a str,
}

impl Figures<'_> {
    /// Appends a figure that is a drawing or a table.
    pub fn add(&self, out: &mut String, id: &str, title: &str, lead: &str, drawing: &str) {
        self.add_with_table(out, id, title, lead, drawing, "");
    }

    /// Appends a drawing with its numbers as a table.
    pub fn add_with_table(
        &self,
        out: &mut String,
        id: &str,
        title: &str,
        lead: &str,
        drawing: &str,
        table: &str,
    ) {
        Figure { id, title, lead, drawing, table, command: self.command }.write(out);
    }
}

/// A table on its own, as a drawing.
pub fn table_of(
    caption: &str,
    heads: impl IntoIterator<Item: ToString>,
    rows: &[Vec<Cell>],
) -> String {
    let heads: Vec<String> = heads.into_iter().map(|head| head.to_string()).collect();
    let mut drawing = String::new();
    table(&mut drawing, caption, &heads, rows);
    drawing
}

impl Figure<'_> {
    /// Appends the figure.
    pub fn write(&self, out: &mut String) {
        let _ = write!(
            out,
            "<figure id=\"{}\"><figcaption><h3>{}</h3><p>{}</p></figcaption>{}",
            self.id,
            Escaped(self.title),
            Escaped(self.lead),
            self.drawing
        );
        if !self.table.is_empty() {
            let _ = write!(
                out,
                "<details><summary>The numbers as a table</summary>{}</details>",
                self.table
            );
        }
        let _ = writeln!(
            out,
            "<p class=\"made\">Made by <code>{}</code></p></figure>",
            Escaped(self.command)
        );
    }
}

/// Puts a wide drawing into a box of its own that scrolls on a narrow screen.
pub fn scrolling(label: &str, drawing: &str) -> String {
    format!(
        "<div class=\"scroll wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">{drawing}</div>",
        Escaped(label)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_program_s_name_can_become_markup() {
        let shown = Escaped("a<b>&\"'\u{1b}[0m").to_string();
        assert_eq!(shown, "a&lt;b&gt;&amp;&quot;&#39;\u{fffd}[0m");
    }
}
