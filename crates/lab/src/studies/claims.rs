//! What a paper says beside what came out here, sentence by sentence: fitted, predicted or undecidable.

use super::class::{self, Basis, Class, Ours};
use crate::report::html::{self, Cell, Escaped, Figure};
use std::fmt::Write;

/// A sentence of the paper, and what came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Claim {
    /// What is claimed, in words.
    pub what: String,
    /// The published figure.
    pub published: String,
    /// Ours.
    pub ours: String,
    /// What ours is worth.
    pub class: Class,
    /// What it rests on, or why it is not decided.
    pub why: &'static str,
}

/// Two figures are near each other within this share of the published one.
const NEAR: f64 = 0.1;

/// The class of a figure that an interval from `low` to `high` holds: is all of it near the published one? A figure that
/// was fitted is missed if none of it is.
pub fn near(basis: Basis, published: f64, (low, high): (f64, f64)) -> Class {
    let (middle, half_width) = ((low + high) / 2.0, (high - low) / 2.0);
    let limits = (published - NEAR * published.abs(), published + NEAR * published.abs());
    let ours = Ours { value: middle, half_width: Some(half_width) };
    Class::of(basis, ours, limits)
}

/// A section with all of them: a table, in which the verdict stands beside the claim, where a phone shows it, and below it
/// what each verdict rests on.
pub fn section(out: &mut String, claims: &[Claim], command: &str) {
    out.push_str("<h2 id=\"claims\">What the paper says, and what came out</h2>");
    let mut why = String::from("<dl class=\"pairs\">");
    for claim in claims.iter().filter(|claim| !claim.why.is_empty()) {
        let _ = write!(why, "<dt>{}</dt><dd>{}</dd>", Escaped(&claim.what), Escaped(claim.why));
    }
    Figure {
        id: "verdicts",
        title: &format!("Within a tenth of what is printed: {}", counted(claims)),
        lead: "Fitted: a setting was chosen so that it comes out, and it does, so it proves nothing and is not counted (where it \
               does not come out, it is missed). Predicted: no setting was chosen by it. Undecidable: this machine or these runs cannot tell.",
        drawing: &(table("Claims of the paper", claims) + &why + "</dl>"),
        table: "",
        command,
    }
    .write(out);
}

fn table(caption: &str, claims: &[Claim]) -> String {
    let row = |claim: &Claim| {
        vec![
            Cell::text(&claim.what),
            claim.class.cell(),
            Cell::text(&claim.published),
            Cell::text(&claim.ours),
        ]
    };
    let rows: Vec<Vec<Cell>> = claims.iter().map(row).collect();
    html::table_of(caption, ["", "verdict", "published", "ours"], &rows)
}

/// How many hold.
pub fn counted(claims: &[Claim]) -> String {
    class::counted(claims.iter().map(|claim| claim.class))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_is_a_tenth_of_the_published_figure() {
        let of = |low, high| near(Basis::Predicted, 50.0, (low, high));
        assert_eq!([of(45.5, 54.5), of(54.0, 56.0)], [Class::Holds, Class::Undecidable]);
        assert_eq!(
            [of(60.0, 61.0), near(Basis::Fitted, 1.0, (1.0, 1.0))],
            [Class::Fails, Class::Fitted]
        );
        assert_eq!(near(Basis::Fitted, 50.0, (60.0, 61.0)), Class::Missed, "the fit is lost");
        assert_eq!(near(Basis::Predicted, -34.0, (-33.0, -33.0)), Class::Holds);
    }
}
