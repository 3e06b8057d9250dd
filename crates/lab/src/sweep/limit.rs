//! The memory that a cell's policy may have: bytes, or so many times what its trace has alive at most.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The most times that a limit may be: a longer plain number is meant as bytes, and has no unit.
const MOST_TIMES: f64 = 1000.0;

/// A limit on memory.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// As `freehold replay` without `--limit`.
    None,
    /// So many times the trace's peak of live bytes.
    Times(f64),
    /// Bytes.
    Bytes(u64),
}

impl Limit {
    /// In bytes, for a trace of which so much is alive at most.
    pub fn bytes(self, peak_live: u64) -> Option<u64> {
        match self {
            Limit::None => None,
            Limit::Times(times) => Some((times * peak_live as f64).ceil() as u64),
            Limit::Bytes(bytes) => Some(bytes),
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Limit, String> {
        if text == "none" {
            return Ok(Limit::None);
        }
        let wanted = || {
            format!(
                "{text:?} is not a limit: 1.5 is one and a half times the most that the trace has alive, 64M are bytes, `none` is none"
            )
        };
        match text.parse::<f64>() {
            Ok(times) if (1.0..=MOST_TIMES).contains(&times) => Ok(Limit::Times(times)),
            Ok(_) => Err(wanted()),
            Err(_) => match crate::human::parse_bytes(text) {
                Some(bytes) if bytes > 0 => Ok(Limit::Bytes(bytes)),
                _ => Err(wanted()),
            },
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::None => f.write_str("none"),
            Limit::Times(times) => write!(f, "{times}"),
            Limit::Bytes(bytes) => write!(f, "{bytes}B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back_as_the_same() {
        let read = |text: &str| text.parse::<Limit>();
        assert_eq!(read("1.05"), Ok(Limit::Times(1.05)));
        assert_eq!(read("64K"), Ok(Limit::Bytes(65536)));
        for limit in [Limit::None, Limit::Times(1.5), Limit::Times(2.0), Limit::Bytes(4097)] {
            assert_eq!(read(&limit.to_string()), Ok(limit));
        }
        for wrong in ["", "0.9", "65536", "-1", "nan", "much", "0B"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Limit::Times(1.05).bytes(1000), Some(1050));
    }
}
