//! What it is worth that a figure of ours is near a published one.
//!
//! A figure that the settings were fitted to is near because it was made near: it is shown and never counted.
//! One that follows from settings fitted to others is a prediction: it holds, it fails, or the runs or the
//! machine cannot decide it. Arithmetic on the paper's own numbers, and a figure of another thing than the paper's, are
//! no predictions either: they are computed, shown and never counted.
//!
//! Invariant: every study says what became of a figure with this type and no other.

use super::statistics::Summary;
use crate::report::html::Cell;
use serde::Serialize;

/// What a figure rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Settings were chosen so that it comes out.
    Fitted,
    /// No setting was chosen by it.
    Predicted,
    /// It is arithmetic on numbers that the paper prints, or of another thing than the paper's: nothing here could fail.
    Computed,
}

/// A figure of ours, and what is known of its spread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ours {
    /// The figure.
    pub value: f64,
    /// Half its 95 % interval: 0 where nothing is drawn, `None` where it was drawn once.
    pub half_width: Option<f64>,
}

impl Ours {
    /// Nothing is drawn and nothing measured: another run gives the same.
    pub const fn exact(value: f64) -> Ours {
        Ours { value, half_width: Some(0.0) }
    }
}

impl From<Summary> for Ours {
    /// The mean of runs that draw or measure. One run does not decide anything.
    fn from(summary: Summary) -> Ours {
        Ours { value: summary.mean, half_width: summary.spread() }
    }
}

/// What is said of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It was fitted, and comes out: not counted.
    Fitted,
    /// It was fitted, and does not come out with any of its interval: no prediction that fails, but a fit that is lost. Not counted.
    Missed,
    /// A prediction that holds with all of its interval.
    Holds,
    /// A prediction that fails with all of its interval.
    Fails,
    /// Its interval lies on both sides of a limit, it was drawn once, or this machine cannot measure it.
    Undecidable,
    /// Arithmetic on the paper's own numbers, or of another thing: not counted.
    Computed,
}

impl Class {
    /// Of a figure, where `least` to `most` is near enough. One that was fitted is missed once all of its interval lies outside.
    pub fn of(basis: Basis, ours: Ours, (least, most): (f64, f64)) -> Class {
        match (basis, ours.half_width) {
            (Basis::Fitted, _) => match Class::of(Basis::Predicted, ours, (least, most)) {
                Class::Fails => Class::Missed,
                _ => Class::Fitted,
            },
            (Basis::Computed, _) => Class::Computed,
            (Basis::Predicted, None) => Class::Undecidable,
            (Basis::Predicted, Some(half_width)) => {
                let (low, high) = (ours.value - half_width, ours.value + half_width);
                if least <= low && high <= most {
                    Class::Holds
                } else if high < least || most < low {
                    Class::Fails
                } else {
                    Class::Undecidable
                }
            }
        }
    }

    /// Of a claim with several parts: it holds when all do, and fails when one does.
    pub fn of_all(parts: impl IntoIterator<Item = Class>) -> Class {
        let worse = |a, b| match (a, b) {
            (Class::Fails | Class::Missed, _) | (_, Class::Fails | Class::Missed) => Class::Fails,
            (Class::Holds, Class::Holds) => Class::Holds,
            _ => Class::Undecidable,
        };
        parts.into_iter().reduce(worse).unwrap_or(Class::Undecidable)
    }

    /// A cell of a table that says it.
    pub fn cell(self) -> Cell {
        Cell { best: self == Class::Holds, verdict: true, ..Cell::text(self.name()) }
    }

    /// As a page says it.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Fitted => "fitted",
            Class::Missed => "fitted: missed",
            Class::Holds => "predicted: holds",
            Class::Fails => "predicted: fails",
            Class::Undecidable => "undecidable",
            Class::Computed => "computed",
        }
    }
}

/// `3 of 9 predictions hold, 4 fail and 2 are undecidable; 9 more were fitted and are not counted (2 of these are missed)`.
pub fn counted(classes: impl Iterator<Item = Class> + Clone) -> String {
    let of = |class| classes.clone().filter(|&one| one == class).count();
    let (holds, fails, open) = (of(Class::Holds), of(Class::Fails), of(Class::Undecidable));
    let (near, missed) = (of(Class::Fitted), of(Class::Missed));
    let mut fitted = match near + missed {
        0 => String::new(),
        1 => "; one more was fitted and is not counted".to_owned(),
        some => format!("; {some} more were fitted and are not counted"),
    };
    fitted += &match (near, missed) {
        (_, 0) => String::new(),
        (0, 1) => " (it is missed)".to_owned(),
        (_, 1) => " (one of these is missed)".to_owned(),
        (_, some) => format!(" ({some} of these are missed)"),
    };
    let computed = match of(Class::Computed) {
        0 => String::new(),
        1 => "; one is arithmetic or of another thing and is not counted either".to_owned(),
        some => format!("; {some} are arithmetic or of other things and are not counted either"),
    };
    let all = holds + fails + open;
    let be = if open == 1 { "is" } else { "are" };
    format!(
        "{holds} of {all} predictions hold, {fails} fail and {open} {be} undecidable{fitted}{computed}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_holds_or_fails_with_all_of_its_interval() {
        let of = |value, half_width| {
            let ours = Ours { value, half_width: Some(half_width) };
            Class::of(Basis::Predicted, ours, (0.9, 1.1))
        };
        assert_eq!([of(1.0, 0.05), of(1.09, 0.05)], [Class::Holds, Class::Undecidable]);
        assert_eq!([of(1.3, 0.1), of(0.5, 0.0)], [Class::Fails, Class::Fails]);
        assert_eq!(Class::of(Basis::Fitted, Ours::exact(1.0), (0.9, 1.1)), Class::Fitted);
        assert_eq!(Class::of(Basis::Computed, Ours::exact(1.0), (0.9, 1.1)), Class::Computed);
    }

    #[test]
    fn one_run_decides_nothing() {
        let of =
            |values: &[f64]| Class::of(Basis::Predicted, Summary::of(values).into(), (0.9, 1.1));
        assert_eq!(
            [of(&[1.0]), of(&[]), of(&[1.0, 1.0])].map(Class::name)[..2],
            ["undecidable"; 2]
        );
        assert_eq!((of(&[1.0, 1.0]), of(&[2.0])), (Class::Holds, Class::Undecidable));
    }

    #[test]
    fn a_fit_that_is_lost_is_missed() {
        let of = |value, half_width| {
            let ours = Ours { value, half_width: Some(half_width) };
            Class::of(Basis::Fitted, ours, (0.9, 1.1))
        };
        assert_eq!([of(1.0, 0.0), of(1.2, 0.2)], [Class::Fitted; 2]);
        assert_eq!(of(1.2, 0.05), Class::Missed);
    }

    #[test]
    fn a_claim_of_parts_holds_with_all_of_them() {
        use Class::{Fails, Holds, Undecidable};
        assert_eq!(Class::of_all([Holds, Holds]), Holds);
        assert_eq!(Class::of_all([Holds, Undecidable, Holds]), Undecidable);
        assert_eq!(Class::of_all([Undecidable, Fails]), Fails);
        assert_eq!(Class::of_all([]), Undecidable);
    }

    #[test]
    fn what_was_fitted_is_not_counted() {
        assert!(
            counted([Class::Computed].into_iter())
                .ends_with("; one is arithmetic or of another thing and is not counted either")
        );
        let all = [Class::Fitted, Class::Fitted, Class::Holds, Class::Fails, Class::Undecidable];
        let said = "1 of 3 predictions hold, 1 fail and 1 is undecidable; 2 more were fitted and are not counted";
        assert_eq!(counted(all.into_iter()), said);
        let lost = [Class::Fitted, Class::Missed].into_iter();
        assert!(
            counted(lost)
                .ends_with("; 2 more were fitted and are not counted (one of these is missed)")
        );
        assert!(counted([Class::Missed].into_iter()).ends_with(" is not counted (it is missed)"));
        assert_eq!(
            counted([].into_iter()),
            "0 of 0 predictions hold, 0 fail and 0 are undecidable"
        );
    }
}
