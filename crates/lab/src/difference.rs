//! What changed between two recordings, by site.
//!
//! A site of the one is that of the other if function, module and source file are the same: lines move between builds, so those of one
//! function are added up. Changes within [`NOISE`] are none: two runs of one program differ, too.

use crate::sites::{Counts, Site, Sites, short, short_place};
use serde::Serialize;
use std::collections::BTreeMap;

/// A site changed if one of its figures did by this part of the larger total, or more.
const NOISE: f64 = 0.01;

/// A function that allocates, in two recordings.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Change {
    /// The function.
    pub function: String,
    /// Its source file and the line by which most came, in the later recording if it is there.
    pub place: Option<String>,
    /// The module.
    pub module: Option<String>,
    /// What it did in the earlier recording.
    pub before: Counts,
    /// What it did in the later one.
    pub after: Counts,
}

impl Change {
    /// By how much something grew; negative if it shrank.
    pub fn by(&self, what: fn(&Counts) -> u64) -> i64 {
        what(&self.after).cast_signed().saturating_sub(what(&self.before).cast_signed())
    }

    /// Function and place as they are printed.
    pub fn text(&self) -> String {
        let place =
            self.place.as_deref().map_or(String::new(), |at| format!(" ({})", short_place(at)));
        format!("{}{place}", short(&self.function))
    }
}

/// What changed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    /// All of the earlier recording.
    pub before: Counts,
    /// All of the later one.
    pub after: Counts,
    /// The functions that changed, that whose bytes at the peak changed most first.
    pub changes: Vec<Change>,
}

/// What a figure is called, and where it is.
pub type Figure = (&'static str, fn(&Counts) -> u64);

/// What is compared.
pub const FIGURES: [Figure; 3] = [
    ("at the peak", |counts| counts.peak_bytes),
    ("never freed", |counts| counts.leaked_bytes),
    ("allocated", |counts| counts.allocated_bytes),
];

/// Compares.
pub fn difference(before: &Sites, after: &Sites) -> Difference {
    let mut all: BTreeMap<(&str, Option<&str>, &str), Change> = BTreeMap::new();
    for (sites, is_later) in [(before, false), (after, true)] {
        // That which has most is first, so its line stands for the function.
        for site in sites.sites.iter().rev() {
            let change = all.entry(key(site)).or_insert_with(|| Change {
                function: site.function.clone(),
                place: None,
                module: site.module.clone(),
                before: Counts::default(),
                after: Counts::default(),
            });
            change.place = site.place.clone();
            let counts = if is_later { &mut change.after } else { &mut change.before };
            *counts = *counts + site.counts;
        }
    }
    let (before, after) = (before.total, after.total);
    let changed = |change: &Change| {
        FIGURES.iter().any(|(_, what)| {
            let least = what(&before).max(what(&after)) as f64 * NOISE;
            change.by(*what) != 0 && change.by(*what).unsigned_abs() as f64 >= least
        })
    };
    let mut changes: Vec<Change> = all.into_values().filter(changed).collect();
    changes.sort_by_key(|change| {
        std::cmp::Reverse(FIGURES.map(|(_, what)| change.by(what).unsigned_abs()))
    });
    Difference { before, after, changes }
}

fn key(site: &Site) -> (&str, Option<&str>, &str) {
    let file = site.place.as_deref().map(short_place);
    let file = file.map(|place| place.rsplit_once(':').map_or(place, |(file, _)| file));
    (&site.function, file, site.module.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sites::{Callers, Trend};

    fn site(function: &str, line: u32, peak_bytes: u64) -> Site {
        Site {
            function: function.into(),
            place: Some(format!("/src/a.c:{line}")),
            module: None,
            via: None,
            counts: Counts { peak_bytes, ..Counts::default() },
            share: 0.0,
            trend: Trend::Steady,
            median_life_s: None,
            held: Vec::new(),
            callers: Callers::default(),
            callers_by: BTreeMap::new(),
        }
    }

    fn sites(sites: Vec<Site>) -> Sites {
        let total = sites.iter().fold(Counts::default(), |sum, site| sum + site.counts);
        Sites { total, sites, ..Sites::default() }
    }

    #[test]
    fn functions_are_matched_although_their_lines_move_and_noise_is_left_out() {
        let before = sites(vec![
            site("grow", 10, 1000),
            site("grow", 12, 500),
            site("gone", 1, 400),
            site("same", 1, 9000),
        ]);
        let after = sites(vec![site("same", 2, 9010), site("grow", 20, 4000), site("new", 3, 200)]);
        let found = difference(&before, &after);
        let told: Vec<_> =
            found.changes.iter().map(|c| (c.text(), c.by(|counts| counts.peak_bytes))).collect();
        let expected = [("grow (a.c:20)", 2500), ("gone (a.c:1)", -400), ("new (a.c:3)", 200)];
        assert_eq!(told, expected.map(|(name, by)| (name.to_owned(), by)));
        assert_eq!(difference(&before, &before).changes, []);
    }
}
