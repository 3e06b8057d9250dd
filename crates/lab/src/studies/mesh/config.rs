//! The study's settings, read and checked: what comes out can be run.

use super::improve::Improvement;
use super::programs::{ProgramError, in_other_tiles, programs};
use crate::models;
use crate::studies::settings::{Settings, SettingsError};
use freehold_core::place::mesh::HeapId;
use freehold_core::place::mesh::{MAX_BATCH, MAX_PAGE, MAX_ROUNDS, Mesh, Order, Pages, SpaceMap};
use freehold_sim::mesh::{Costs, Failure, Improve, MIN_HEAP, Program, Synthetic};
use serde::Deserialize;

/// The study as it ships: the schema and the default of every setting.
pub const DEFAULT: &str = include_str!("../../../../../studies/mesh.toml");

/// What a person waits for.
const MOST_EVENTS: u64 = 100_000_000;
const MOST_THINK: u64 = 1_000_000;

/// Why a study cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A program.
    #[error(transparent)]
    Program(#[from] ProgramError),
}

/// A study that can be run.
#[derive(Debug)]
pub struct Plan {
    /// Of all draws.
    pub seed: u64,
    /// Runs of a cell.
    pub repeats: u64,
    /// Counted calls of a run, at least.
    pub events: u64,
    /// Counted calls for every node of the platform, at least, on average.
    pub events_per_node: u64,
    /// Counted calls of every single node, at least.
    pub least_per_node: u64,
    /// Calls of every node before counting.
    pub warm_up_per_node: u64,
    /// The policy of every heap.
    pub policy: &'static str,
    /// The published platforms.
    pub platforms: Vec<Mesh>,
    /// Those to plan past them.
    pub larger: Vec<Mesh>,
    /// The last on which heaps are asked by index.
    pub index_up_to: Mesh,
    /// Orders to compare.
    pub orders: Vec<Order>,
    /// Rounds over busy heaps.
    pub rounds: u32,
    /// The synthetic load, but for its seed.
    pub load: Synthetic,
    /// What things cost.
    pub costs: Costs,
    /// Every improvement, with its parameter.
    pub improve: Improve,
    /// Those that the plots call improved.
    pub improved: Vec<Improvement>,
    /// The recorded kernels; from `kernels` on, those in tiles of another side.
    pub programs: Vec<Program>,
    /// How many are the kernels as they are.
    pub kernels: usize,
    /// Cycles that a program computes for each of its accesses.
    pub cycles_per_access: u64,
    /// Others, to see what they make of the shares.
    pub other_cycles: Vec<u64>,
    /// Policies on private heaps in C.
    pub in_c: Vec<&'static str>,
    /// Those of them that stand for the usual allocators.
    pub general_purpose: Vec<&'static str>,
    /// Pauses between calls, to see where waiting comes from.
    pub thinks: Vec<u64>,
    /// The first node fails: when, for how long it is watched, and how patient the others are.
    pub failure: Failure,
    /// What it was made of.
    pub settings: Settings,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    seed: u64,
    repeats: u64,
    events: u64,
    events_per_node: u64,
    least_per_node: u64,
    warm_up_per_node: u64,
    policy: String,
    platforms: Vec<String>,
    larger: Vec<String>,
    index_up_to: String,
    orders: Vec<String>,
    rounds: u32,
    improve: ImproveKeys,
    kernels: KernelKeys,
    in_c: InCKeys,
    waiting: WaitingKeys,
    failure: FailureKeys,
    load: LoadKeys,
    costs: Costs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImproveKeys {
    improved: Vec<String>,
    trusted_for: u64,
    page_bytes: u32,
    batch: u64,
    batch_age: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelKeys {
    run: bool,
    cycles_per_access: u64,
    others: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InCKeys {
    policies: Vec<String>,
    general_purpose: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitingKeys {
    think: Vec<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailureKeys {
    after: u64,
    watched: u64,
    patience: u64,
}

impl FailureKeys {
    fn read(&self) -> Result<Failure, SettingsError> {
        let Some(node) = HeapId::new(0) else { unreachable!("there is a first node") };
        Ok(Failure {
            node,
            after: within("failure.after", self.after, 1, MOST_EVENTS)?,
            watched: within("failure.watched", self.watched, 1, MOST_EVENTS)?,
            patience: within("failure.patience", self.patience, 1, MOST_EVENTS)?,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadKeys {
    heap_bytes: u64,
    heavy_percent: u64,
    light_percent: u64,
    grow_percent: u64,
    think: u64,
    least: u64,
    most: u64,
}

impl Plan {
    /// Reads and checks.
    ///
    /// # Errors
    /// The first setting that makes no sense, by name, with the reason and what would.
    pub fn new(settings: &Settings) -> Result<Plan, PlanError> {
        let keys: Keys = settings.read()?;
        let kernels = match keys.kernels.run {
            true => programs(keys.load.heap_bytes / 2)?,
            false => Vec::new(),
        };
        let in_other_tiles = match keys.kernels.run {
            true => in_other_tiles(keys.load.heap_bytes / 2)?,
            false => Vec::new(),
        };
        keys.costs.check().map_err(|why| SettingsError::value("costs", why))?;
        let plan = Plan {
            seed: keys.seed,
            repeats: within("repeats", keys.repeats, 1, 1000)?,
            events: within("events", keys.events, 1, MOST_EVENTS)?,
            events_per_node: within("events_per_node", keys.events_per_node, 0, MOST_EVENTS)?,
            least_per_node: within("least_per_node", keys.least_per_node, 0, MOST_EVENTS)?,
            warm_up_per_node: within("warm_up_per_node", keys.warm_up_per_node, 0, MOST_EVENTS)?,
            policy: policy("policy", &keys.policy)?,
            platforms: meshes("platforms", &keys.platforms)?,
            larger: meshes("larger", &keys.larger)?,
            index_up_to: mesh("index_up_to", &keys.index_up_to)?,
            orders: orders(&keys.orders)?,
            rounds: within("rounds", keys.rounds.into(), 0, MAX_ROUNDS.into())? as u32,
            load: keys.load.read(keys.seed)?,
            costs: keys.costs,
            improve: keys.improve.read()?,
            improved: improved(&keys.improve.improved)?,
            kernels: kernels.len(),
            programs: [kernels, in_other_tiles].concat(),
            cycles_per_access: computing(
                "kernels.cycles_per_access",
                keys.kernels.cycles_per_access,
            )?,
            other_cycles: each(&keys.kernels.others, |&cycles| {
                computing("kernels.others", cycles)
            })?,
            in_c: each(&keys.in_c.policies, |name| policy("in_c.policies", name))?,
            general_purpose: each(&keys.in_c.general_purpose, |name| {
                keys.in_c.listed(name).and_then(|()| policy("in_c.general_purpose", name))
            })?,
            thinks: each(&keys.waiting.think, |&think| {
                within("waiting.think", think, 0, MOST_THINK)
            })?,
            failure: keys.failure.read()?,
            settings: settings.clone(),
        };
        plan.check_heaps()?;
        Ok(plan)
    }

    /// Heaps that no address range holds are refused before any run.
    fn check_heaps(&self) -> Result<(), SettingsError> {
        if self.platforms.is_empty() {
            return Err(SettingsError::value("platforms", "at least one is wanted, such as 2x2"));
        }
        for mesh in self.platforms.iter().chain(&self.larger) {
            let lengths = vec![self.load.heap_bytes; mesh.heaps()];
            let map = SpaceMap::new(&lengths, vec![0; mesh.heaps()]);
            let why = |why| SettingsError::value("load.heap_bytes", format!("on {mesh}: {why}"));
            map.map_err(why)?;
        }
        Ok(())
    }

    /// Every platform, the published ones first.
    pub fn all(&self) -> impl Iterator<Item = Mesh> {
        self.platforms.iter().chain(&self.larger).copied()
    }

    /// Counted calls of a run on that platform.
    pub fn events_on(&self, mesh: Mesh) -> u64 {
        self.events.max(self.events_per_node.saturating_mul(mesh.heaps() as u64))
    }
}

impl InCKeys {
    fn listed(&self, name: &String) -> Result<(), SettingsError> {
        if self.policies.contains(name) {
            return Ok(());
        }
        let why = format!("{name:?} is not among in_c.policies");
        Err(SettingsError::value("in_c.general_purpose", why))
    }
}

impl ImproveKeys {
    /// All of them on.
    fn read(&self) -> Result<Improve, SettingsError> {
        if Pages::new(self.page_bytes).is_none() {
            let why = format!("a multiple of 16 up to {MAX_PAGE} bytes, not {}", self.page_bytes);
            return Err(SettingsError::value("improve.page_bytes", why));
        }
        Ok(Improve {
            one_message: true,
            trusted_for: within("improve.trusted_for", self.trusted_for, 1, MOST_EVENTS)?,
            summary: true,
            page_bytes: self.page_bytes,
            batch: within("improve.batch", self.batch, 2, MAX_BATCH as u64)? as usize,
            batch_age: within("improve.batch_age", self.batch_age, 0, MOST_EVENTS)?,
        })
    }
}

impl LoadKeys {
    fn read(&self, seed: u64) -> Result<Synthetic, SettingsError> {
        let heap_bytes = within("load.heap_bytes", self.heap_bytes, MIN_HEAP, u32::MAX.into())?;
        if !heap_bytes.is_multiple_of(16) {
            let why = format!("a multiple of 16 bytes is possible, not {heap_bytes}");
            return Err(SettingsError::value("load.heap_bytes", why));
        }
        if self.least > self.most {
            let why = format!("{} to {} is no range: the least first", self.least, self.most);
            return Err(SettingsError::value("load.least, load.most", why));
        }
        if self.most.saturating_add(64) > heap_bytes {
            let why = format!("a request of {} bytes fits into no heap of {heap_bytes}", self.most);
            return Err(SettingsError::value("load.most", why));
        }
        Ok(Synthetic {
            seed,
            heap_bytes,
            heavy_percent: within("load.heavy_percent", self.heavy_percent, 1, 10_000)?,
            light_percent: within("load.light_percent", self.light_percent, 1, 10_000)?,
            grow_percent: within("load.grow_percent", self.grow_percent, 1, 100)?,
            think: within("load.think", self.think, 0, MOST_THINK)?,
            least: self.least,
            most: self.most,
        })
    }
}

fn each<T, U>(
    values: &[T],
    read: impl FnMut(&T) -> Result<U, SettingsError>,
) -> Result<Vec<U>, SettingsError> {
    values.iter().map(read).collect()
}

fn computing(key: &str, cycles: u64) -> Result<u64, SettingsError> {
    within(key, cycles, 0, 10_000)
}

fn within(key: &str, value: u64, least: u64, most: u64) -> Result<u64, SettingsError> {
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    Err(SettingsError::value(key, format!("{least} to {most} is possible, not {value}")))
}

fn mesh(key: &str, text: &str) -> Result<Mesh, SettingsError> {
    text.parse().map_err(|why| SettingsError::value(key, format!("{text:?}: {why}")))
}

fn meshes(key: &str, texts: &[String]) -> Result<Vec<Mesh>, SettingsError> {
    let mut found: Vec<Mesh> = Vec::new();
    for text in texts {
        let mesh = mesh(key, text)?;
        if !found.contains(&mesh) {
            found.push(mesh);
        }
    }
    Ok(found)
}

fn orders(texts: &[String]) -> Result<Vec<Order>, SettingsError> {
    let one = |text: &String| {
        let why = |why| SettingsError::value("orders", format!("{why}, not {text:?}"));
        text.parse::<Order>().map_err(why)
    };
    let found = texts.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    if found.contains(&Order::Index) {
        return Ok(found);
    }
    Err(SettingsError::value("orders", "index must be among them: the published figures are of it"))
}

fn improved(texts: &[String]) -> Result<Vec<Improvement>, SettingsError> {
    let one = |text: &String| {
        let known = Improvement::ALL.into_iter().find(|one| one.name() == text);
        known.ok_or_else(|| {
            let names = Improvement::ALL.map(Improvement::name).join(", ");
            SettingsError::value("improve.improved", format!("{names} are possible, not {text:?}"))
        })
    };
    texts.iter().map(one).collect()
}

fn policy(key: &str, name: &str) -> Result<&'static str, SettingsError> {
    let known = models::all().map(|policy| policy.name).find(|known| *known == name);
    known.ok_or_else(|| {
        let why = format!("there is no policy {name:?}; `freehold policies` lists them");
        SettingsError::value(key, why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(changes: &[&str]) -> String {
        let mut settings = Settings::of_default(DEFAULT).unwrap();
        changes.iter().for_each(|change| settings.set(change).unwrap());
        Plan::new(&settings).unwrap_err().to_string()
    }

    #[test]
    fn the_default_is_the_table_of_the_model() {
        let plan = Plan::new(&Settings::of_default(DEFAULT).unwrap()).unwrap();
        assert_eq!(plan.costs, Costs::default());
        assert_eq!((plan.platforms.len(), plan.larger.len()), (7, 3));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        assert!(
            said(&["platforms=[\"0x4\"]"])
                .starts_with("platforms: \"0x4\": a mesh has at least one")
        );
        assert!(said(&["platforms=25"]).contains("a rectangle of rows x columns, such as 8x8"));
        assert!(said(&["platforms=[\"3x3x3\"]"]).contains("a rectangle"));
        assert!(said(&["larger=100x100"]).contains("at most 4096 nodes"));
        assert!(said(&["platforms=[]"]).contains("at least one is wanted"));
        assert!(said(&["load.heap_bytes=1M"]).contains("on 64x64: 4294967296 bytes of heaps"));
        assert!(said(&["load.heap_bytes=1000"]).contains("multiple of 16"));
        assert!(said(&["orders=nearest"]).contains("index, distance, rotated or hinted"));
        assert!(said(&["orders=distance"]).contains("index must be among them"));
        assert!(said(&["load.least=300"]).contains("300 to 256 is no range"));
        assert!(said(&["load.most=4096"]).contains("fits into no heap of 2048"));
        assert!(said(&["costs.link=0"]).contains("link must be 1 to 1000, not 0"));
        assert!(said(&["rounds=17"]).contains("0 to 16 is possible, not 17"));
        assert!(said(&["improve.batch=9"]).contains("2 to 8 is possible, not 9"));
        assert!(said(&["improve.page_bytes=100"]).contains("a multiple of 16 up to 1024"));
        assert!(said(&["improve.improved=magic"]).contains("one-message, hints, summary"));
        assert!(said(&["policy=fast"]).contains("freehold policies"));
        assert!(said(&["in_c.policies=fast"]).starts_with("in_c.policies: there is no policy"));
        assert!(said(&["in_c.policies=best-fit"]).contains("first-fit-list\" is not among"));
        assert!(said(&["waiting.think=[1, 2000000]"]).starts_with("waiting.think: 0 to 1000000"));
        assert!(said(&["kernels.others=[20000]"]).starts_with("kernels.others: 0 to 10000"));
    }
}
