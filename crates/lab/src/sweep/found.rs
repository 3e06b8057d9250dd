//! What one cell found: columns with their kinds, and rows of plain values; or why there is none.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What stands in a column. A value may be missing in any.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// UTF-8.
    Text,
    /// A whole number.
    Whole,
    /// A real number.
    Real,
}

/// What one cell found.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// The columns in order; none where there is an error.
    pub columns: Vec<(String, Kind)>,
    /// A value a column; null where it is not known. One row of a replay, many of a study.
    pub rows: Vec<Vec<Value>>,
    /// Why nothing was found, in a sentence.
    pub error: Option<String>,
}

impl Found {
    /// Nothing, and why.
    pub fn failed(why: impl ToString) -> Found {
        let one_line: Vec<String> = why.to_string().split_whitespace().map(str::to_owned).collect();
        Found { error: Some(one_line.join(" ")), ..Found::default() }
    }
}
