//! Every reading that was run, and what they say together.

use super::super::config::Plan;
use super::super::gaps::{NEAR, PRINTED, least_possible};
use super::super::published::{self, listed};
use super::reading::{Reading, Stage};
use super::space::Space;
use serde::Serialize;

/// Raised when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Whose printed rows a reading is to come near to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// One allocator's, by its place in [`PRINTED`].
    One(usize),
    /// All four under the same reading.
    All,
}

impl Aim {
    /// Every aim.
    pub const ALL: [Aim; 5] = [Aim::One(0), Aim::One(1), Aim::One(2), Aim::One(3), Aim::All];

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Aim::One(at) => PRINTED[at],
            Aim::All => "all four",
        }
    }

    /// The mean and the greatest distance of the rows that it is about.
    pub fn distances(self, reading: &Reading) -> Option<(f64, f64)> {
        let of = |at: usize| reading.gaps.get(at).map(|gap| (gap.mean, gap.largest));
        match self {
            Aim::One(at) => of(at),
            Aim::All => {
                let all: Option<Vec<(f64, f64)>> = (0..PRINTED.len()).map(of).collect();
                let all = all?;
                let mean = all.iter().map(|one| one.0).sum::<f64>() / all.len() as f64;
                Some((mean, all.iter().map(|one| one.1).fold(0.0, f64::max)))
            }
        }
    }

    /// What a descent makes smaller: the greatest distance, and the mean so that it does not rest on one row.
    pub fn score(self, reading: &Reading) -> Option<f64> {
        self.distances(reading).map(|(mean, largest)| mean + largest)
    }

    /// The least that the greatest distance can be under any reading.
    pub fn least_possible(self) -> f64 {
        match self {
            Aim::One(at) => least_possible(PRINTED[at]),
            Aim::All => PRINTED.into_iter().map(least_possible).fold(0.0, f64::max),
        }
    }
}

/// The best reading for an aim, of those that were confirmed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Best {
    /// The aim.
    pub aim: &'static str,
    /// Mean distance.
    pub mean: f64,
    /// Greatest distance.
    pub largest: f64,
    /// What no reading can go below.
    pub least_possible: f64,
    /// Readings of the design within [`NEAR`] points of every row, and how many there were.
    pub near: u64,
    /// See `near`.
    pub of: u64,
    /// Confirmed readings within [`NEAR`] points of every row.
    pub confirmed_near: u64,
    /// It, as `--set` takes it.
    pub changes: Vec<String>,
}

/// What a level of a setting does to the distances, over the design.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Effect {
    /// The setting.
    pub factor: String,
    /// The level.
    pub level: String,
    /// Readings with it that could be run, and all with it.
    pub possible: u64,
    /// See `possible`.
    pub readings: u64,
    /// Mean over them of the mean distance, for each aim.
    pub mean: Vec<f64>,
}

/// The map. A function of the settings alone.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Map {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// As run, with every default.
    pub settings: serde_json::Value,
    /// In a few words.
    pub answer: Vec<String>,
    /// The settings that were moved.
    pub space: Space,
    /// The best for each aim.
    pub best: Vec<Best>,
    /// What each level does.
    pub effects: Vec<Effect>,
    /// Everything that was run: exported, not printed.
    #[serde(skip)]
    pub readings: Vec<Reading>,
}

impl Map {
    /// Of all readings.
    pub fn new(plan: &Plan, space: Space, readings: Vec<Reading>) -> Map {
        let best = Aim::ALL.into_iter().filter_map(|aim| best(&space, &readings, aim)).collect();
        let effects = effects(&space, &readings);
        let mut map = Map {
            schema_version: SCHEMA_VERSION,
            settings: plan.settings.to_json(),
            answer: Vec::new(),
            space,
            best,
            effects,
            readings,
        };
        map.answer = map.sentences();
        map
    }

    /// Readings of a stage.
    pub fn of(&self, stage: Stage) -> impl Iterator<Item = &Reading> {
        self.readings.iter().filter(move |one| one.stage == stage)
    }

    fn sentences(&self) -> Vec<String> {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for best in &self.best {
            let text = format!("{} ({:.1} points at most)", best.aim, best.largest);
            if best.largest <= NEAR { near.push(text) } else { far.push(text) }
        }
        let design = self.of(Stage::Design).count();
        let ran = self.readings.iter().filter(|one| !one.gaps.is_empty()).count();
        let mut sentences = vec![
            format!(
                "Of {} readings of what the chapter leaves open ({} settings moved, one column compared: requests satisfied, neither time \
                 nor fragmentation; {design} spread evenly, the others searched from \
                 the best of these; {} could not begin), some come within {NEAR:.0} points of every printed row of: {}. \
                 None that was found does of: {}.",
                self.readings.len(),
                self.space.factors.len(),
                self.readings.len() - ran,
                listed(&near),
                listed(&far),
            ),
            format!(
                "No reading can for dlmalloc: tables 4.2 and 4.5 print one path and load {:.1} points apart.",
                2.0 * least_possible("dlmalloc")
            ),
        ];
        sentences.extend(self.lead());
        sentences
    }

    /// The greatest lead of DmRT over dlmalloc on one path, over all readings.
    fn lead(&self) -> Option<String> {
        let most = self
            .readings
            .iter()
            .filter_map(|one| one.lead)
            .fold(None, |most, lead| Some(most.map_or(lead, |most: f64| most.max(lead))))?;
        let [dmrt, dlmalloc] = ["dmrt", "dlmalloc"].map(|name| published::find(4, 1000, name));
        Some(format!(
            "Under no reading does DmRT satisfy more than {most:.1} points more than dlmalloc on one path at 1000 \
             requests (case 4); {:.1} are printed.",
            dmrt?.satisfied - dlmalloc?.satisfied
        ))
    }
}

fn best(space: &Space, readings: &[Reading], aim: Aim) -> Option<Best> {
    let is_near = |one: &&Reading| aim.distances(one).is_some_and(|(_, largest)| largest <= NEAR);
    let of = |stage| readings.iter().filter(move |one| one.stage == stage);
    let confirmed = of(Stage::Confirm).filter_map(|one| Some((aim.score(one)?, one)));
    let (_, one) = confirmed.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let (mean, largest) = aim.distances(one)?;
    Some(Best {
        aim: aim.name(),
        mean,
        largest,
        least_possible: aim.least_possible(),
        near: of(Stage::Design).filter(is_near).count() as u64,
        of: of(Stage::Design).count() as u64,
        confirmed_near: of(Stage::Confirm).filter(is_near).count() as u64,
        changes: space.changes(&one.point).collect(),
    })
}

fn effects(space: &Space, readings: &[Reading]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (number, factor) in space.factors.iter().enumerate() {
        for (level, name) in factor.levels.iter().enumerate() {
            let with: Vec<&Reading> = readings
                .iter()
                .filter(|one| one.stage == Stage::Design && usize::from(one.point[number]) == level)
                .collect();
            let mean = |aim: Aim| {
                let means: Vec<f64> =
                    with.iter().filter_map(|one| Some(aim.distances(one)?.0)).collect();
                means.iter().sum::<f64>() / means.len().max(1) as f64
            };
            effects.push(Effect {
                factor: factor.name.clone(),
                level: name.clone(),
                possible: with.iter().filter(|one| !one.gaps.is_empty()).count() as u64,
                readings: with.len() as u64,
                mean: Aim::ALL.into_iter().map(mean).collect(),
            });
        }
    }
    effects
}
