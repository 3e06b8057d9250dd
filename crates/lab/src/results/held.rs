//! Pages that are in memory for few bytes: what `held` finds, as results carry it.

use serde::{Deserialize, Serialize};

/// Pages that are in memory for few bytes, at one moment under one allocator.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Held {
    /// The allocator, as in the results.
    pub allocator: String,
    /// When.
    pub moment: Moment,
    /// The same in seconds from the process's first event.
    pub at_s: f64,
    /// Bytes of all objects alive.
    pub live: u64,
    /// Bytes of the pages of which objects have at most a quarter.
    pub pages: u64,
    /// Anonymous bytes in memory, where an allocator was measured.
    pub resident: Option<u64>,
    /// Who keeps them, the most first.
    pub sites: Vec<Keeper>,
}

/// A site that keeps pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Keeper {
    /// Function and line.
    pub site: String,
    /// Bytes of its objects on those pages.
    pub live: u64,
    /// Bytes of the pages; where sites share a page, its part.
    pub pages: u64,
}

/// One of three moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Moment {
    /// Live bytes are at their most.
    #[default]
    Peak,
    /// And at their least after that, before the last allocation.
    Lowest,
    /// After the last event.
    End,
}

impl Moment {
    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Moment::Peak => "peak",
            Moment::Lowest => "lowest",
            Moment::End => "end",
        }
    }

    /// "at the peak".
    pub fn in_words(self) -> &'static str {
        match self {
            Moment::Peak => "at the peak",
            Moment::Lowest => "at the lowest point after the peak",
            Moment::End => "at the end",
        }
    }
}

impl Held {
    /// What a site keeps then, if it is told.
    pub fn of(&self, site: &str) -> Option<&Keeper> {
        self.sites.iter().find(|keeper| keeper.site == site)
    }
}
