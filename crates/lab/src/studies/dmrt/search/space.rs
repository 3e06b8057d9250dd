//! The settings that the chapter leaves open, as factors with levels; and which combinations a design takes.

use super::super::config::{Plan, PlanError};
use crate::studies::settings::SettingsError;
use freehold_sim::random::Random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `[search]` of the study's file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    /// Readings of the design.
    pub points: u32,
    /// Attempts of every table in the design and in descents.
    pub screen: u32,
    /// Descents for each aim.
    pub starts: u32,
    /// Rounds of a descent, in each of which every setting is changed once.
    pub rounds: u32,
    /// Readings confirmed for each aim.
    pub finalists: u32,
    /// Attempts of every table when a reading is confirmed.
    pub confirm: u32,
    /// Each open setting and its levels. Settings that move together are one key, apart by spaces, and so are the
    /// values of a level.
    pub open: BTreeMap<String, Vec<String>>,
}

/// One open setting.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Factor {
    /// The settings that move together, apart by spaces.
    pub name: String,
    /// Their values, apart by spaces.
    pub levels: Vec<String>,
}

impl Factor {
    /// A level as `key=value`, for each of its settings.
    pub fn changes(&self, level: u8) -> impl Iterator<Item = String> {
        let values = self.levels.get(usize::from(level)).map_or("", String::as_str);
        let pairs = self.name.split(' ').zip(values.split(' '));
        pairs.map(|(key, value)| format!("{key}={value}"))
    }
}

/// All of them, in the order of their names.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Space {
    /// The open settings.
    pub factors: Vec<Factor>,
}

/// A choice: for each factor the number of its level.
pub type Point = Vec<u8>;

impl Space {
    /// Reads and checks: every level must be a setting by itself.
    ///
    /// # Errors
    /// A factor without levels, or a level that is no setting.
    pub fn new(keys: &Keys, plan: &Plan) -> Result<Space, PlanError> {
        let factor = |(name, levels): (&String, &Vec<String>)| {
            let wrong = |why: &str| SettingsError::value(&format!("search.open.{name}"), why);
            let keys = name.split(' ').count();
            if levels.is_empty() || levels.len() > 100 {
                return Err(wrong("1 to 100 levels are possible"));
            }
            if levels.iter().any(|level| level.split(' ').count() != keys) {
                return Err(wrong("a level has a value for each of its settings"));
            }
            let factor = Factor { name: name.clone(), levels: levels.clone() };
            let mut settings = plan.settings.clone();
            let levels = 0..levels.len() as u8;
            levels
                .flat_map(|level| factor.changes(level))
                .try_for_each(|one| settings.set(&one))?;
            Ok(factor)
        };
        let factors = keys.open.iter().map(factor).collect::<Result<Vec<_>, _>>()?;
        Ok(Space { factors })
    }

    /// The study at this point.
    ///
    /// # Errors
    /// Levels that do not go together.
    pub fn plan(&self, base: &Plan, point: &[u8]) -> Result<Plan, PlanError> {
        let mut settings = base.settings.clone();
        self.changes(point).try_for_each(|change| settings.set(&change))?;
        Plan::new(&settings)
    }

    /// A point as `--set` takes it.
    pub fn changes(&self, point: &[u8]) -> impl Iterator<Item = String> {
        self.factors.iter().zip(point).flat_map(|(factor, &level)| factor.changes(level))
    }

    /// `count` points of a Latin hypercube: of each factor every level as often as every other, give or take one, in
    /// an order of its own.
    pub fn hypercube(&self, seed: u64, count: usize) -> Vec<Point> {
        let column = |(number, factor): (usize, &Factor)| -> Vec<u8> {
            let mut random = Random::named(seed, &[HYPERCUBE, number as u64]);
            let mut column: Vec<u8> = (0..count).map(|i| (i % factor.levels.len()) as u8).collect();
            for last in (1..column.len()).rev() {
                column.swap(last, random.below(last as u64 + 1) as usize);
            }
            column
        };
        let columns: Vec<Vec<u8>> = self.factors.iter().enumerate().map(column).collect();
        (0..count).map(|i| columns.iter().map(|column| column[i]).collect()).collect()
    }

    /// Every point that differs from this one in one factor.
    pub fn neighbours(&self, point: &[u8]) -> Vec<Point> {
        let of = |number: usize| {
            let levels = self.factors[number].levels.len() as u8;
            let others = (0..levels).filter(move |&level| level != point[number]);
            others.map(move |level| {
                let mut other = point.to_vec();
                other[number] = level;
                other
            })
        };
        (0..self.factors.len()).flat_map(of).collect()
    }
}

/// The name of the design's draws.
const HYPERCUBE: u64 = 0x4c48;

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Space {
        let factor = |name: &str, levels: usize| Factor {
            name: name.to_owned(),
            levels: (0..levels).map(|level| level.to_string()).collect(),
        };
        Space { factors: vec![factor("a", 2), factor("b", 3)] }
    }

    #[test]
    fn every_level_of_a_hypercube_is_as_frequent_as_every_other() {
        let points = space().hypercube(7, 60);
        for (factor, levels) in [(0, 2), (1, 3)] {
            for level in 0..levels {
                let count = points.iter().filter(|point| point[factor] == level).count();
                assert_eq!(count, 60 / usize::from(levels));
            }
        }
        assert_eq!(points, space().hypercube(7, 60));
        assert_ne!(points, space().hypercube(8, 60));
        let pairs = points.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(pairs, 6, "all combinations of the two");
    }

    #[test]
    fn neighbours_differ_in_one_setting() {
        assert_eq!(space().neighbours(&[0, 1]), [[1, 1], [0, 0], [0, 2]]);
    }
}
