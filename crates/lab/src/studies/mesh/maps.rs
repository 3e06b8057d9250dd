//! Hot spots: a map of the mesh, a cell a node, darker where there is more.

use super::measure::Entry;
use crate::report::html::Escaped;
use crate::report::lines::open_svg;
use freehold_core::place::mesh::Mesh;
use std::fmt::Write;

/// Beyond the common style: maps side by side.
pub const STYLE: &str = ".maps{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,220px),1fr));\
                         gap:18px 22px}";

/// Shades from "least" to "most"; `style.css` has one colour for each, and one for none.
const SHADES: usize = 8;
const SIDE: f64 = 240.0;

/// A map for each entry.
pub fn maps(
    id: &str,
    mesh: Mesh,
    entries: &[(&str, &Entry)],
    get: fn(&Entry) -> &Vec<f64>,
) -> String {
    let mut out = String::from("<div class=\"maps\">");
    for (i, (name, entry)) in entries.iter().enumerate() {
        let values = get(entry);
        let most = values.iter().copied().fold(0.0, f64::max);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let _ = write!(out, "<div><h4>{}</h4>", Escaped(name));
        map(&mut out, &format!("{id}-{i}"), name, mesh, values, most);
        let _ = write!(out, "<p class=\"key\">most {most:.3}, mean {mean:.3}</p></div>");
    }
    out + "</div>"
}

fn map(out: &mut String, id: &str, name: &str, mesh: Mesh, values: &[f64], most: f64) {
    let cell = SIDE / mesh.columns().max(mesh.rows()) as f64;
    let (width, height) = (cell * mesh.columns() as f64, cell * mesh.rows() as f64);
    let description = format!("{name}: a cell for each node of {mesh}, darker for more.");
    out.push_str(&open_svg(width, height, id, name, &description));
    for (heap, &value) in mesh.all().zip(values) {
        let (row, column) = mesh.place(heap);
        let _ = write!(
            out,
            "<rect class=\"h{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>node {}: \
             {value:.4}</title></rect>",
            shade(value, most),
            column as f64 * cell + 0.5,
            row as f64 * cell + 0.5,
            cell - 1.0,
            cell - 1.0,
            heap.index(),
        );
    }
    out.push_str("</svg>");
}

/// 0 for none, then 1 to [`SHADES`] in equal steps up to the most.
fn shade(value: f64, most: f64) -> usize {
    if value <= 0.0 || most <= 0.0 {
        return 0;
    }
    1 + ((value / most * SHADES as f64) as usize).min(SHADES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_rise_in_equal_steps() {
        assert_eq!([0.0, 0.1, 0.5, 0.99, 1.0].map(|value| shade(value, 1.0)), [0, 1, 5, 8, 8]);
        assert_eq!(shade(0.0, 0.0), 0);
    }
}
