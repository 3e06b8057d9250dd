//! The study's settings, read and checked.

use crate::studies::settings::{Settings, SettingsError};
use freehold_core::frames::migrate::{Eagerness, First, Lasting};
use freehold_core::frames::{Kind, POLICIES};
use freehold_sim::banks::{
    BankMachine, Boot, Builds, Caches, DimmPower, Exchange, Footprint, Meter, Processes,
    RunSettings, Shape, Slabs, StatePower, Storms, Triggers, Workload,
};
use freehold_sim::random::Random;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The study as it ships: the schema and the default of every setting.
pub const DEFAULT: &str = include_str!("../../../../../studies/banks.toml");

/// The table of modules, as published.
pub const TABLE_1_1: &str =
    include_str!("../../../../../studies/published/banks_table_1_1_dimm_power.csv");

/// MiB of the machine that the workloads' sizes are for.
const SIZED_FOR_MIB: u64 = 32_768;

/// A study that can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of all draws.
    pub seed: u64,
    /// Names in the registry of page-frame policies.
    pub policies: Vec<&'static str>,
    /// Seconds of a run that compares policies.
    pub sweep_seconds: u32,
    /// Whether policies are compared and one thing at a time is changed.
    pub compared: bool,
    /// Runs of each workload with moved parameters.
    pub robust_seeds: u64,
    /// Runs of each stream of another make.
    pub stream_seeds: u64,
    /// Runs that the interval of a verdict comes from.
    pub verdict_seeds: u64,
    /// The thesis's task.
    pub thesis: RunSettings,
    /// Ours.
    pub ours: RunSettings,
    /// Power tables.
    pub states: Vec<StatePower>,
    /// The module that the machine is made of.
    pub dimm: DimmPower,
    /// What else energy is reckoned from.
    pub meter: Meter,
    keys: Keys,
    /// What it was made of.
    pub settings: Settings,
}

impl Plan {
    /// Reads and checks.
    ///
    /// # Errors
    /// The first setting that makes no sense, by name, with the reason.
    pub fn new(settings: &Settings) -> Result<Plan, SettingsError> {
        let keys: Keys = settings.read()?;
        for (name, machine) in &keys.machines {
            let key = format!("machines.{name}");
            machine.machine(false, 0).map_err(|why| SettingsError::value(&key, why))?;
        }
        for (name, stream) in &keys.streams {
            let key = format!("streams.{name}");
            stream.check(&keys).map_err(|why| SettingsError::value(&key, why))?;
        }
        for (name, workload) in &keys.workloads {
            workload.check(&format!("workloads.{name}"))?;
        }
        let mut policies = Vec::new();
        for wanted in &keys.policies {
            let known = POLICIES.iter().map(|policy| policy.name).find(|known| known == wanted);
            policies.push(known.ok_or_else(|| unknown_policy(wanted))?);
        }
        let ours = keys.migration.settings(keys.sample_s)?;
        let thesis = keys.thesis.settings(keys.sample_s, &ours);
        let states = keys.states.iter().map(|(name, keys)| keys.power(name)).collect();
        let meter = &keys.meter;
        let dimm = dimm(&meter.dimm).ok_or_else(|| {
            SettingsError::value(
                "meter.dimm",
                "no such row in table 1.1: frequency, configuration, technology",
            )
        })?;
        Ok(Plan {
            seed: keys.seed,
            policies,
            sweep_seconds: keys.sweep_seconds.clamp(60, 360_000),
            compared: keys.compared,
            robust_seeds: keys.robust_seeds.min(1_000),
            stream_seeds: keys.stream_seeds.min(1_000),
            verdict_seeds: keys.verdict_seeds.clamp(1, 100),
            thesis,
            ours,
            states,
            dimm,
            meter: Meter {
                peak_gb_s: meter.peak_gb_s.max(0.1),
                touches: meter.touches,
                cpu_watts: meter.cpu_watts,
                copy_gb_s: meter.copy_gb_s.max(0.1),
            },
            keys,
            settings: settings.clone(),
        })
    }

    /// A machine by its name.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be so.
    pub fn machine(
        &self,
        name: &str,
        interleaved: bool,
        movable_percent: u32,
    ) -> Result<BankMachine, SettingsError> {
        let key = format!("machines.{name}");
        let keys = self
            .keys
            .machines
            .get(name)
            .ok_or_else(|| SettingsError::value(&key, "no such machine"))?;
        keys.machine(interleaved, movable_percent).map_err(|why| SettingsError::value(&key, why))
    }

    /// A workload by its name, sized for that machine.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn workload(&self, name: &str, machine: &BankMachine) -> Result<Workload, SettingsError> {
        let key = format!("workloads.{name}");
        let keys = self
            .keys
            .workloads
            .get(name)
            .ok_or_else(|| SettingsError::value(&key, "no such workload"))?;
        Ok(keys.workload(machine))
    }

    /// Streams of another make: name, machine, stream.
    pub fn streams(&self) -> impl Iterator<Item = (&str, &str, Exchange)> {
        let all = self.keys.streams.iter();
        all.map(|(name, keys)| (name.as_str(), keys.machine.as_str(), keys.exchange()))
    }

    /// The same with every parameter moved by its own share of up to half, either way.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn moved(
        &self,
        name: &str,
        machine: &BankMachine,
        seed: u64,
    ) -> Result<Workload, SettingsError> {
        let key = format!("workloads.{name}");
        let keys = self
            .keys
            .workloads
            .get(name)
            .ok_or_else(|| SettingsError::value(&key, "no such workload"))?;
        let mut random = Random::named(seed, &[0x0ff5e7]);
        Ok(keys.moved(&mut random).workload(machine))
    }

    /// Settings of a task as they are for that machine: slack and budget are in its frames.
    pub fn task(&self, settings: &RunSettings, machine: &BankMachine) -> RunSettings {
        let set = u64::from(machine.set_frames());
        let scaled = |eagerness: Eagerness| Eagerness {
            slack: (u64::from(eagerness.slack) * set / 1_000) as u32,
            burst: eagerness.burst.max(machine.set_frames()),
            ..eagerness
        };
        RunSettings { eagerness: settings.eagerness.map(scaled), ..*settings }
    }
}

fn unknown_policy(name: &str) -> SettingsError {
    let near = |other: &&str| strsim::jaro_winkler(name, other);
    let names = POLICIES.iter().map(|policy| policy.name);
    let nearest = names.max_by(|a, b| near(a).total_cmp(&near(b))).unwrap_or_default();
    SettingsError::value(
        "policies",
        format!("no page-frame policy is called {name:?}; did you mean {nearest}?"),
    )
}

/// A row of table 1.1.
fn dimm(name: &str) -> Option<DimmPower> {
    let rows = TABLE_1_1.lines().filter(|line| !line.starts_with('#')).skip(1);
    rows.filter_map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let [frequency, configuration, technology, watts, _] = fields[..] else { return None };
        let found = format!("{frequency} {configuration} {technology}") == name;
        let gigabytes = technology.split_once('/')?.1.strip_suffix("GB")?.parse().ok()?;
        let watts = watts.trim_end_matches('W').trim().parse().ok()?;
        found.then(|| DimmPower { name: name.to_owned(), watts, gigabytes })
    })
    .next()
}

type Bounds = [u32; 2];

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    seed: u64,
    policies: Vec<String>,
    sample_s: u32,
    sweep_seconds: u32,
    compared: bool,
    robust_seeds: u64,
    stream_seeds: u64,
    verdict_seeds: u64,
    machines: BTreeMap<String, MachineKeys>,
    workloads: BTreeMap<String, WorkloadKeys>,
    streams: BTreeMap<String, StreamKeys>,
    migration: MigrationKeys,
    thesis: ThesisKeys,
    states: BTreeMap<String, StateKeys>,
    meter: MeterKeys,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineKeys {
    memory_mib: u32,
    bank_mib: u32,
    nodes: u32,
}

impl MachineKeys {
    fn machine(&self, interleaved: bool, movable_percent: u32) -> Result<BankMachine, String> {
        let MachineKeys { memory_mib, bank_mib, nodes } = *self;
        let shape = Shape { memory_mib, bank_mib, nodes, interleaved, movable_percent };
        BankMachine::new(shape).map_err(|error| error.to_string())
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkloadKeys {
    seconds: u32,
    footprint_percent: Bounds,
    footprint_skew: u32,
    phase_s: Bounds,
    boot_kernel_mib: u32,
    process_mib: Bounds,
    process_life_s: Bounds,
    process_grow_mib_s: u32,
    process_churn_percent: u32,
    process_huge_percent: u32,
    cache_percent: u32,
    file_kib: Bounds,
    read_mib_s: u32,
    slab_per_s: u32,
    slab_life_s: Bounds,
    files_per_page: u32,
    build_every_s: u32,
    build_lasts_s: u32,
    build_jobs_per_s: u32,
    build_job_mib: Bounds,
    build_job_life_s: Bounds,
    storm_every_s: u32,
    storm_mib: Bounds,
    storm_files: Bounds,
    storm_life_s: Bounds,
    storm_write_mib_s: u32,
    storm_residue_permille: u32,
    storm_data: String,
}

/// What pages files in memory lie in: Linux's ramfs asks for pages that stay where they are, tmpfs for movable ones.
fn kind(storm_data: &str) -> Option<Kind> {
    match storm_data {
        "unmovable" => Some(Kind::Unmovable),
        "movable" => Some(Kind::Movable),
        _ => None,
    }
}

impl WorkloadKeys {
    fn check(&self, name: &str) -> Result<(), SettingsError> {
        let wrong = |key: &str, why: &str| Err(SettingsError::value(&format!("{name}.{key}"), why));
        if !(1..=360_000).contains(&self.seconds) {
            return wrong("seconds", "1 to 360000 is possible");
        }
        let [least, most] = self.footprint_percent;
        if least > most || most > 95 {
            return wrong("footprint_percent", "[least, most] with most up to 95 is possible");
        }
        if kind(&self.storm_data).is_none() {
            return wrong("storm_data", "unmovable (ramfs) or movable (tmpfs) is possible");
        }
        if self.slab_life_s[1] > 360_000 {
            return wrong("slab_life_s", "up to 360000 s is possible");
        }
        let bounds = [
            ("phase_s", self.phase_s),
            ("process_mib", self.process_mib),
            ("process_life_s", self.process_life_s),
            ("file_kib", self.file_kib),
            ("slab_life_s", self.slab_life_s),
            ("build_job_mib", self.build_job_mib),
            ("build_job_life_s", self.build_job_life_s),
            ("storm_mib", self.storm_mib),
            ("storm_files", self.storm_files),
            ("storm_life_s", self.storm_life_s),
        ];
        match bounds.into_iter().find(|(_, [least, most])| least > most || *most == 0) {
            Some((key, _)) => wrong(key, "[least, most] with 0 < most is wanted"),
            None => Ok(()),
        }
    }

    /// Every parameter times 0.5 to 1.5; bounds move together. The footprint stays below 92 %.
    fn moved(&self, random: &mut Random) -> WorkloadKeys {
        let mut share = || random.uniform(500, 1_500) as u32;
        let by =
            |value: u32, share: u32| (u64::from(value) * u64::from(share)).div_ceil(1_000) as u32;
        let mut one = |value: u32| by(value, share());
        let mut keys = self.clone();
        for value in [
            &mut keys.boot_kernel_mib,
            &mut keys.process_grow_mib_s,
            &mut keys.process_churn_percent,
            &mut keys.cache_percent,
            &mut keys.read_mib_s,
            &mut keys.slab_per_s,
            &mut keys.files_per_page,
            &mut keys.build_every_s,
            &mut keys.build_lasts_s,
            &mut keys.build_jobs_per_s,
            &mut keys.storm_every_s,
            &mut keys.storm_write_mib_s,
            &mut keys.storm_residue_permille,
        ] {
            *value = one(*value);
        }
        for bounds in [
            &mut keys.footprint_percent,
            &mut keys.phase_s,
            &mut keys.process_mib,
            &mut keys.process_life_s,
            &mut keys.file_kib,
            &mut keys.slab_life_s,
            &mut keys.build_job_mib,
            &mut keys.build_job_life_s,
            &mut keys.storm_mib,
            &mut keys.storm_files,
            &mut keys.storm_life_s,
        ] {
            let share = random.uniform(500, 1_500) as u32;
            *bounds = bounds.map(|value| by(value, share));
        }
        keys.footprint_percent = keys.footprint_percent.map(|percent| percent.min(92));
        keys
    }

    /// Sizes in MiB, and rates of them, follow the machine's memory.
    fn workload(&self, machine: &BankMachine) -> Workload {
        let of = |mib: u32| {
            (u64::from(mib) * u64::from(machine.shape.memory_mib)).div_ceil(SIZED_FOR_MIB) as u32
        };
        let all = |[least, most]: Bounds| (of(least).max(1), of(most).max(1));
        let pair = |[least, most]: Bounds| (least, most);
        Workload {
            seconds: self.seconds,
            footprint: Footprint {
                percent: pair(self.footprint_percent),
                skew: self.footprint_skew,
                phase_s: pair(self.phase_s),
            },
            boot: Boot { kernel_mib: of(self.boot_kernel_mib) },
            processes: Processes {
                mib: all(self.process_mib),
                life_s: pair(self.process_life_s),
                grow_mib_s: of(self.process_grow_mib_s),
                churn_percent: self.process_churn_percent,
                huge_percent: self.process_huge_percent,
            },
            caches: Caches {
                percent: self.cache_percent,
                file_kib: pair(self.file_kib),
                read_mib_s: of(self.read_mib_s).max(self.file_kib[1] / 1024 + 1),
            },
            slabs: Slabs {
                per_s: of(self.slab_per_s),
                life_s: pair(self.slab_life_s),
                files_per_page: self.files_per_page,
            },
            builds: Builds {
                every_s: self.build_every_s,
                lasts_s: self.build_lasts_s,
                jobs_per_s: self.build_jobs_per_s,
                job_mib: all(self.build_job_mib),
                job_life_s: pair(self.build_job_life_s),
            },
            storms: Storms {
                data: kind(&self.storm_data).unwrap_or(Kind::Unmovable),
                every_s: self.storm_every_s,
                mib: all(self.storm_mib),
                files: all(self.storm_files),
                life_s: pair(self.storm_life_s),
                write_mib_s: of(self.storm_write_mib_s),
                residue_permille: self.storm_residue_permille,
            },
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamKeys {
    machine: String,
    seconds: u32,
    footprint_percent: Bounds,
    swing_s: Bounds,
    life_s: Bounds,
    pages: Bounds,
    kernel_permille: u32,
}

impl StreamKeys {
    fn check(&self, keys: &Keys) -> Result<(), String> {
        if !keys.machines.contains_key(&self.machine) {
            return Err(format!("there is no machine {}", self.machine));
        }
        let [least, most] = self.footprint_percent;
        let all = [self.footprint_percent, self.swing_s, self.life_s, self.pages];
        if !(1..=360_000).contains(&self.seconds) || least > most || most > 95 {
            return Err("1 to 360000 seconds and a footprint of up to 95 % are possible".into());
        }
        match all.into_iter().any(|[least, most]| least > most || most == 0) {
            true => Err("[least, most] with 0 < most is wanted".into()),
            false => Ok(()),
        }
    }

    fn exchange(&self) -> Exchange {
        let pair = |[least, most]: Bounds| (least, most);
        Exchange {
            seconds: self.seconds,
            percent: pair(self.footprint_percent),
            swing_s: pair(self.swing_s),
            life_s: pair(self.life_s),
            pages: pair(self.pages),
            kernel_permille: self.kernel_permille,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MigrationKeys {
    order: String,
    most_used_permille: u32,
    fuller_part: u32,
    slack_permille: u32,
    mib_per_s: u32,
    per_thousand_freed: u32,
    burst_mib: u32,
    wake_ms: u64,
    rest_ms: u64,
    lasting: String,
    break_even_us: u64,
    idle_below_mib_s: u32,
    lifetimes: bool,
    far_before_waking: bool,
    on_exit: bool,
    on_cache_drop: bool,
    on_unmap: bool,
}

/// Frames of a MiB.
const MIB: u32 = 256;

impl MigrationKeys {
    fn lasting(&self) -> Result<Lasting, SettingsError> {
        match (self.lasting.as_str(), self.lasting.parse()) {
            ("reuse", _) => Ok(Lasting::Reuse),
            ("at-once", _) => Ok(Lasting::AtOnce),
            (_, Ok(ms)) => Ok(Lasting::For(ms)),
            (other, Err(_)) => {
                let why = format!("reuse, at-once or milliseconds are possible, not {other:?}");
                Err(SettingsError::value("migration.lasting", why))
            }
        }
    }

    fn settings(&self, sample_s: u32) -> Result<RunSettings, SettingsError> {
        let first = match self.order.as_str() {
            "emptiest" => First::Emptiest,
            "lowest" => First::Lowest,
            other => {
                let why = format!("emptiest or lowest is possible, not {other:?}");
                return Err(SettingsError::value("migration.order", why));
            }
        };
        let eagerness = Eagerness {
            first,
            most_used: self.most_used_permille.min(1_000),
            fuller_part: self.fuller_part,
            slack: self.slack_permille.min(100_000),
            frames_per_s: self.mib_per_s.saturating_mul(MIB),
            per_thousand_freed: self.per_thousand_freed,
            burst: self.burst_mib.saturating_mul(MIB),
            wake_ms: self.wake_ms.max(1),
            rest_ms: self.rest_ms.max(self.wake_ms),
            lasting: self.lasting()?,
            break_even_us: self.break_even_us,
        };
        Ok(RunSettings {
            eagerness: Some(eagerness),
            triggers: Triggers {
                exit: self.on_exit,
                cache_drop: self.on_cache_drop,
                unmap: self.on_unmap,
            },
            lifetimes: self.lifetimes,
            far_before_waking: self.far_before_waking,
            idle_below: self.idle_below_mib_s.saturating_mul(MIB),
            sample_s: sample_s.max(1),
            survey_s: 0,
        })
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ThesisKeys {
    most_used_permille: u32,
    slack_permille: u32,
    wake_ms: u64,
    rest_ms: u64,
}

impl ThesisKeys {
    fn settings(&self, sample_s: u32, ours: &RunSettings) -> RunSettings {
        let eagerness = ours.eagerness.map(|eagerness| Eagerness {
            first: First::Emptiest,
            most_used: self.most_used_permille.min(1_000),
            fuller_part: 0,
            slack: self.slack_permille.min(100_000),
            wake_ms: self.wake_ms.max(1),
            rest_ms: self.rest_ms.max(self.wake_ms),
            lasting: Lasting::AtOnce,
            break_even_us: 0,
            per_thousand_freed: 1_000_000,
            ..eagerness
        });
        let sample_s = sample_s.max(1);
        RunSettings {
            eagerness,
            triggers: Triggers::default(),
            lifetimes: false,
            far_before_waking: false,
            sample_s,
            ..*ours
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateKeys {
    active_idle: f64,
    off: f64,
    exit_us: f64,
}

impl StateKeys {
    fn power(&self, name: &str) -> StatePower {
        StatePower {
            name: name.to_owned(),
            active_idle: self.active_idle,
            off: self.off,
            exit_us: self.exit_us,
        }
    }
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeterKeys {
    dimm: String,
    peak_gb_s: f64,
    touches: f64,
    cpu_watts: f64,
    copy_gb_s: f64,
}
