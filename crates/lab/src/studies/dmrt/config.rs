//! The study's settings, read and checked: what comes out can be run.

use super::search::SearchKeys;
use super::stream::{Stream, StreamError};
use crate::human;
use crate::models;
use crate::studies::settings::{Settings, SettingsError};
use freehold_blocks::{DmrtParams, LargeFit};
use freehold_core::place::{Effort, Path, Thresholds};
use freehold_sim::numa::{Costs, Draw, Generator, Lifetimes, Machine, Memory, SizeClass};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The study as it ships: the schema and the default of every setting.
pub const DEFAULT: &str = include_str!("../../../../../studies/dmrt.toml");

/// The allocator that the study is about: the one whose parameters are settings.
pub const DMRT: &str = "dmrt";

/// The most requests of an attempt, and attempts of a table: what a person waits for.
const MOST: u32 = 1_000_000;

/// Why a study cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The trace that is to be the stream.
    #[error("requests_from.source: {0}")]
    Stream(#[from] StreamError),
}

/// Where requests come from.
#[derive(Debug)]
pub enum Source {
    /// Drawn.
    Generator(Generator),
    /// Out of a recorded program; the generator still draws the background.
    Trace(Stream, Generator),
}

/// One of the chapter's test cases.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its number in the chapter.
    pub number: u32,
    /// What it is, in a line.
    pub title: String,
    /// The path of existing allocators.
    pub existing: Path,
    /// The path of DmRT.
    pub dmrt: Path,
}

impl Case {
    /// The path of the allocator of that name.
    pub fn path_of(&self, allocator: &str) -> Path {
        if is_dmrt(allocator) { self.dmrt } else { self.existing }
    }
}

/// Whether it goes DmRT's path.
pub fn is_dmrt(allocator: &str) -> bool {
    allocator.starts_with(DMRT)
}

/// A study that can be run.
#[derive(Debug)]
pub struct Plan {
    /// Of all draws.
    pub seed: u64,
    /// Attempts of each table.
    pub attempts: u32,
    /// Requests of an attempt, a table each.
    pub loads: Vec<u32>,
    /// Names in the registry of policies and models.
    pub allocators: Vec<&'static str>,
    /// The machine.
    pub machine: Machine,
    /// The machine as existing allocators have it: see `what_if`.
    pub existing_machine: Machine,
    /// What steps cost.
    pub costs: Costs,
    /// Categories of load.
    pub thresholds: Thresholds,
    /// Strict or complete.
    pub effort: Effort,
    /// DmRT's parameters.
    pub dmrt: DmrtParams,
    /// Requests.
    pub source: Source,
    /// Bytes of each request that cost nothing.
    pub free_of_charge: u64,
    /// The cases.
    pub cases: Vec<Case>,
    /// What a search moves, and how far it looks.
    pub search: SearchKeys,
    background: Vec<u32>,
    background_shared: u32,
    /// What it was made of.
    pub settings: Settings,
}

impl Plan {
    /// Reads and checks.
    ///
    /// # Errors
    /// The first setting that makes no sense, by name, with the reason and what would.
    pub fn new(settings: &Settings) -> Result<Plan, PlanError> {
        let keys: Keys = settings.read()?;
        let nodes = keys.machine.nodes as usize;
        if nodes == 0 || nodes > 64 {
            let why = format!("a machine has 1 to 64 nodes, not {}", keys.machine.nodes);
            return Err(SettingsError::value("machine.nodes", why).into());
        }
        let machine = keys.machine(100)?;
        let generator = keys.generator(nodes)?;
        let background = spread("background.nodes", &keys.background.nodes, nodes)?;
        percentages("background.nodes", &background)?;
        percentages("background.shared", &[keys.background.shared])?;
        Ok(Plan {
            seed: keys.seed,
            attempts: number("attempts", keys.attempts, MOST)?,
            loads: keys.loads()?,
            allocators: allocators(&keys.allocators)?,
            existing_machine: keys.machine(keys.what_if.existing_capacity)?,
            machine,
            costs: keys.costs()?,
            thresholds: keys.thresholds()?,
            effort: keys.effort()?,
            dmrt: keys.dmrt_params()?,
            source: match keys.requests_from.source.as_str() {
                "generator" => Source::Generator(generator),
                path => Source::Trace(Stream::open(path)?, generator),
            },
            free_of_charge: keys.what_if.free_of_charge.min(8),
            cases: keys.cases()?,
            search: keys.search()?,
            background,
            background_shared: keys.background.shared,
            settings: settings.clone(),
        })
    }

    /// How full a memory is before the first request, in percent.
    pub fn background_of(&self, memory: Memory) -> u32 {
        match memory {
            Memory::Of(node) => self.background.get(node.index()).copied().unwrap_or(0),
            Memory::Shared => self.background_shared,
        }
    }

    /// Every table, as case and load.
    pub fn tables(&self) -> impl Iterator<Item = (&Case, u32)> {
        self.cases.iter().flat_map(|case| self.loads.iter().map(move |&load| (case, load)))
    }
}

/// The file, key by key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    seed: u64,
    attempts: u32,
    requests: Vec<u32>,
    allocators: Vec<String>,
    machine: MachineKeys,
    place: PlaceKeys,
    dmrt: DmrtKeys,
    requests_from: SourceKeys,
    sizes: SizesKeys,
    background: BackgroundKeys,
    time: Costs4,
    what_if: WhatIfKeys,
    cases: BTreeMap<String, CaseKeys>,
    search: SearchKeys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineKeys {
    nodes: u32,
    processors_per_node: u32,
    capacity: Vec<Bytes>,
    shared: Bytes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceKeys {
    ideal_below: u32,
    light_to: u32,
    heavy_from: u32,
    search: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DmrtKeys {
    small_below: Bytes,
    large_from: Bytes,
    second_look: u32,
    large_fit: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceKeys {
    source: String,
    node_weights: Vec<u32>,
    lifetime_least: u64,
    lifetime_most: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SizesKeys {
    small: SizeKeys,
    normal: SizeKeys,
    large: SizeKeys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SizeKeys {
    weight: u32,
    least: Bytes,
    most: Bytes,
    draw: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackgroundKeys {
    nodes: Vec<u32>,
    shared: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Costs4 {
    request_ns: u64,
    step_ns: u64,
    load_ns: u64,
    local_ns: u64,
    shared_ns: u64,
    remote_ns: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WhatIfKeys {
    existing_capacity: u32,
    free_of_charge: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseKeys {
    title: String,
    existing: String,
    dmrt: String,
}

/// A number of bytes: `4096` or `"16M"`.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "BytesText")]
struct Bytes(u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum BytesText {
    Number(u64),
    Text(String),
}

impl TryFrom<BytesText> for Bytes {
    type Error = String;

    fn try_from(text: BytesText) -> Result<Bytes, String> {
        match text {
            BytesText::Number(bytes) => Ok(Bytes(bytes)),
            BytesText::Text(text) => human::parse_bytes(&text)
                .map(Bytes)
                .ok_or_else(|| format!("{text:?} is no number of bytes such as 4096, 64K or 16M")),
        }
    }
}

impl Keys {
    fn loads(&self) -> Result<Vec<u32>, SettingsError> {
        if self.requests.is_empty() {
            return Err(SettingsError::value("requests", "at least one number is wanted"));
        }
        self.requests.iter().map(|&load| number("requests", load, MOST)).collect()
    }

    /// The machine with `percent` of every capacity.
    fn machine(&self, percent: u32) -> Result<Machine, SettingsError> {
        let keys = &self.machine;
        if !(1..=100).contains(&percent) {
            return Err(SettingsError::value("what_if.existing_capacity", "1 to 100 percent"));
        }
        let part = |Bytes(bytes): Bytes| {
            bytes / 100 * u64::from(percent) + bytes % 100 * u64::from(percent) / 100
        };
        let capacity: Vec<u64> = keys.capacity.iter().copied().map(part).collect();
        let capacity = spread("machine.capacity", &capacity, keys.nodes as usize)?;
        Machine::new(&capacity, part(keys.shared), keys.processors_per_node)
            .map_err(|why| SettingsError::value("machine", why))
    }

    fn generator(&self, nodes: usize) -> Result<Generator, SettingsError> {
        let keys = &self.requests_from;
        let weights = spread("requests_from.node_weights", &keys.node_weights, nodes)?;
        let SizesKeys { small, normal, large } = &self.sizes;
        let named = [("small", small), ("normal", normal), ("large", large)];
        let classes = named.map(|(name, keys)| keys.class(name));
        let classes = classes.into_iter().collect::<Result<Vec<_>, _>>()?;
        let lifetimes = Lifetimes { least: keys.lifetime_least, most: keys.lifetime_most };
        Generator::new(&classes, lifetimes, &weights)
            .map_err(|why| SettingsError::value("sizes, requests_from", why))
    }

    fn costs(&self) -> Result<Costs, SettingsError> {
        let Costs4 { request_ns, step_ns, load_ns, local_ns, shared_ns, ref remote_ns } = self.time;
        let remote_ns = remote_ns.clone();
        let costs = Costs { request_ns, step_ns, load_ns, local_ns, shared_ns, remote_ns };
        costs.check().map_err(|why| SettingsError::value("time", why))?;
        Ok(costs)
    }

    fn thresholds(&self) -> Result<Thresholds, SettingsError> {
        let PlaceKeys { ideal_below, light_to, heavy_from, .. } = self.place;
        Thresholds::new(ideal_below, light_to, heavy_from)
            .map_err(|why| SettingsError::value("place", why))
    }

    fn effort(&self) -> Result<Effort, SettingsError> {
        let known = [("strict", Effort::Strict), ("complete", Effort::Complete)];
        word("place.search", &self.place.search, &known)
    }

    fn dmrt_params(&self) -> Result<DmrtParams, SettingsError> {
        let keys = &self.dmrt;
        let known = [("head", LargeFit::Head), ("longest", LargeFit::Longest)];
        let large_fit = word("dmrt.large_fit", &keys.large_fit, &known)?;
        let params = DmrtParams::PAPER.with_limits(keys.small_below.0, keys.large_from.0);
        let most = DmrtParams::MAX_SMALL;
        let why = format!("small_below must be at most {most} and at most large_from");
        let params = params.ok_or_else(|| SettingsError::value("dmrt", why))?;
        Ok(params.with_second_look(keys.second_look).with_large_fit(large_fit))
    }

    fn search(&self) -> Result<SearchKeys, SettingsError> {
        let keys = &self.search;
        number("search.points", keys.points, MOST)?;
        number("search.screen", keys.screen, MOST)?;
        number("search.finalists", keys.finalists, 1000)?;
        number("search.confirm", keys.confirm, MOST)?;
        Ok(keys.clone())
    }

    fn cases(&self) -> Result<Vec<Case>, SettingsError> {
        let one = |(number, keys): (&String, &CaseKeys)| {
            let path = |key: &str, text: &str| {
                let name = format!("cases.{number}.{key}");
                text.parse::<Path>().map_err(|why| SettingsError::value(&name, why))
            };
            Ok(Case {
                number: number.parse().unwrap_or(0),
                title: keys.title.clone(),
                existing: path("existing", &keys.existing)?,
                dmrt: path("dmrt", &keys.dmrt)?,
            })
        };
        self.cases.iter().map(one).collect()
    }
}

impl SizeKeys {
    fn class(&self, name: &str) -> Result<SizeClass, SettingsError> {
        let known = [("uniform", Draw::Uniform), ("log-uniform", Draw::LogUniform)];
        let draw = word(&format!("sizes.{name}.draw"), &self.draw, &known)?;
        Ok(SizeClass { weight: self.weight, least: self.least.0, most: self.most.0, draw })
    }
}

fn number(key: &str, value: u32, most: u32) -> Result<u32, SettingsError> {
    if (1..=most).contains(&value) {
        return Ok(value);
    }
    Err(SettingsError::value(key, format!("1 to {most} is possible, not {value}")))
}

fn percentages(key: &str, values: &[u32]) -> Result<(), SettingsError> {
    match values.iter().find(|&&value| value > 95) {
        Some(value) => {
            Err(SettingsError::value(key, format!("0 to 95 percent is possible, not {value}")))
        }
        None => Ok(()),
    }
}

/// The list, repeated until every node has its own.
fn spread<T: Copy>(key: &str, values: &[T], nodes: usize) -> Result<Vec<T>, SettingsError> {
    if values.is_empty() || !nodes.is_multiple_of(values.len()) {
        let why = format!(
            "{} values cannot be shared out among {nodes} nodes: as many are wanted, or a part of that",
            values.len()
        );
        return Err(SettingsError::value(key, why));
    }
    Ok(values.iter().copied().cycle().take(nodes).collect())
}

fn word<T: Copy>(key: &str, text: &str, known: &[(&str, T)]) -> Result<T, SettingsError> {
    known.iter().find(|one| one.0 == text).map(|one| one.1).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|one| one.0).collect();
        SettingsError::value(key, format!("{} is possible, not {text:?}", names.join(" or ")))
    })
}

fn allocators(names: &[String]) -> Result<Vec<&'static str>, SettingsError> {
    let find = |name: &String| {
        let all: Vec<&'static str> = models::all().map(|policy| policy.name).collect();
        all.iter().copied().find(|known| known == name).ok_or_else(|| {
            let near = |other: &&&str| strsim::jaro_winkler(name, other);
            let nearest = all.iter().max_by(|a, b| near(a).total_cmp(&near(b)));
            let nearest = nearest.copied().unwrap_or_default();
            let why = format!("no policy or model is called {name:?}; did you mean {nearest}?");
            SettingsError::value("allocators", why)
        })
    };
    let mut found = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let mut seen: Vec<&str> = Vec::new();
    found.retain(|name| {
        !seen.contains(name) && {
            seen.push(name);
            true
        }
    });
    if found.contains(&DMRT) {
        return Ok(found);
    }
    Err(SettingsError::value("allocators", "dmrt must be among them: the study compares with it"))
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
