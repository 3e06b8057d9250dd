//! What it is worth that a figure of ours is near a published one.
//!
//! A figure that the settings were fitted to is near because it was made near: it is shown and never counted.
//! One that follows from settings fitted to others is a prediction: it holds, it fails, or the runs or the
//! machine cannot decide it.

use serde::Serialize;

/// What a figure rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Settings were chosen so that it comes out.
    Fitted,
    /// No setting was chosen by it.
    Predicted,
}

/// What is said of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It was fitted: not counted.
    Fitted,
    /// A prediction that holds with all of its interval.
    Holds,
    /// A prediction that fails with all of its interval.
    Fails,
    /// Its interval lies on both sides of a limit, or this machine cannot measure it.
    Undecidable,
}

impl Class {
    /// Of a figure whose 95 % interval is `ours ± half_width`, where `least` to `most` is near enough.
    pub fn of(basis: Basis, (ours, half_width): (f64, f64), (least, most): (f64, f64)) -> Class {
        let (low, high) = (ours - half_width, ours + half_width);
        match basis {
            Basis::Fitted => Class::Fitted,
            Basis::Predicted if least <= low && high <= most => Class::Holds,
            Basis::Predicted if high < least || most < low => Class::Fails,
            Basis::Predicted => Class::Undecidable,
        }
    }

    /// As a page says it.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Fitted => "fitted",
            Class::Holds => "predicted: holds",
            Class::Fails => "predicted: fails",
            Class::Undecidable => "undecidable",
        }
    }
}

/// `3 of 9 predictions hold, 4 fail and 2 are undecidable; 9 more were fitted and are not counted`.
pub fn counted(classes: impl Iterator<Item = Class> + Clone) -> String {
    let of = |class| classes.clone().filter(|&one| one == class).count();
    let (holds, fails, open) = (of(Class::Holds), of(Class::Fails), of(Class::Undecidable));
    let fitted = match of(Class::Fitted) {
        0 => String::new(),
        1 => "; one more was fitted and is not counted".to_owned(),
        some => format!("; {some} more were fitted and are not counted"),
    };
    let all = holds + fails + open;
    let be = if open == 1 { "is" } else { "are" };
    format!("{holds} of {all} predictions hold, {fails} fail and {open} {be} undecidable{fitted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_holds_or_fails_with_all_of_its_interval() {
        let of = |ours, half| Class::of(Basis::Predicted, (ours, half), (0.9, 1.1));
        assert_eq!([of(1.0, 0.05), of(1.09, 0.05)], [Class::Holds, Class::Undecidable]);
        assert_eq!([of(1.3, 0.1), of(0.5, 0.0)], [Class::Fails, Class::Fails]);
        assert_eq!(Class::of(Basis::Fitted, (1.0, 0.0), (0.9, 1.1)), Class::Fitted);
    }

    #[test]
    fn what_was_fitted_is_not_counted() {
        let all = [Class::Fitted, Class::Fitted, Class::Holds, Class::Fails, Class::Undecidable];
        let said = "1 of 3 predictions hold, 1 fail and 1 is undecidable; 2 more were fitted and are not counted";
        assert_eq!(counted(all.into_iter()), said);
        assert_eq!(
            counted([].into_iter()),
            "0 of 0 predictions hold, 0 fail and 0 are undecidable"
        );
    }
}
