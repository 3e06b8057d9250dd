//! A stream of calls on a policy, second by second, with the migration task of every zone.

use super::machine::{BankMachine, BankMachineError, Metadata};
use super::pages::Pages;
use super::sections::{Section, survey};
use super::workload::{Sink, Trigger};
use freehold_blocks::check::Broken;
use freehold_core::frames::migrate::{Eagerness, Migrator};
use freehold_core::frames::{Frames, Lifetime, Order, Policy, Request, SetId, Zones};

/// On which occasions migration is called besides its own waking.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Triggers {
    /// At the end of every process.
    pub exit: bool,
    /// When page cache is dropped.
    pub cache_drop: bool,
    /// When a process gives memory back.
    pub unmap: bool,
}

/// How a run is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunSettings {
    /// The migration task, if there is one.
    pub eagerness: Option<Eagerness>,
    /// Calls of it besides.
    pub triggers: Triggers,
    /// Whether users' pages rather come from another node than from a bank that must be switched on; slack is
    /// the whole machine's then.
    pub far_before_waking: bool,
    /// Whether the policy is told lifetimes.
    pub lifetimes: bool,
    /// The machine is idle in a second in which fewer frames than this were asked for.
    pub idle_below: u32,
    /// Seconds between two samples.
    pub sample_s: u32,
    /// Seconds between two surveys of sections; 0 is at the end only.
    pub survey_s: u32,
}

/// What is seen at one moment. Frames.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// Seconds since the beginning.
    pub at_s: u32,
    /// Free, banks that are off included.
    pub free: u64,
    /// In banks that are off.
    pub offline: u64,
    /// In banks that nothing is used in, off or not.
    pub vacant: u64,
    /// What could be off at best: with K sets pinned (kernel pages, shared), of S frames each and U unmovable frames in
    /// them, M movable frames need K + max(0, ceil((M - (K S - U)) / S)) sets, in every zone.
    pub best: u64,
    /// And wherever the kernel's pages lie: the used frames of each zone in as few sets as hold them.
    pub best_of_any: u64,
    /// Free in sets that are pinned.
    pub pinned_free: u64,
    /// Bank sets with kernel pages.
    pub pinned: u32,
    /// Bank sets that the kernel's pages would fill at least.
    pub pinned_least: u32,
    /// Frames copied so far.
    pub copied: u64,
}

/// Sums of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    /// Blocks asked for.
    pub requests: u64,
    /// Blocks that could not be had.
    pub failed: u64,
    /// Frames allocated, and freed.
    pub allocated: u64,
    /// Of those allocated, on another node than the one that asked.
    pub far: u64,
    /// Of them given back.
    pub freed: u64,
    /// Copied by migration.
    pub copied: u64,
    /// Switched off by migration, counted each time.
    pub offlined: u64,
    /// Bank sets switched on because a request needed one.
    pub onlines: u64,
    /// Passes of migration.
    pub given_up: u64,
    /// Calls of migration on other occasions.
    pub triggered: u64,
    /// Seconds.
    pub seconds: u64,
}

/// What came of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Frames of the machine.
    pub frames: u32,
    /// Every `sample_s`.
    pub samples: Vec<Sample>,
    /// Every `survey_s` and at the end: what was in every section.
    pub surveys: Vec<(u32, Vec<Section>)>,
    /// Sums.
    pub totals: Totals,
}

/// Why a run ended without a result.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Halt {
    /// The machine cannot be.
    #[error(transparent)]
    Machine(#[from] BankMachineError),
    /// A structure of the policy is broken: a bug of ours.
    #[error("after {0} s: {1}")]
    Broken(u32, Broken),
    /// Somebody does not want it any more.
    #[error("interrupted")]
    Interrupted,
}

/// Runs what `play` makes of calls on a policy. `go_on` is asked every second.
///
/// # Errors
/// See [`Halt`].
pub fn run<P: Policy>(
    machine: &BankMachine,
    settings: &RunSettings,
    play: impl FnOnce(&mut dyn Sink),
    go_on: &dyn Fn() -> bool,
) -> Result<Run, Halt> {
    let mut metadata = Vec::new();
    for zone in &machine.zones {
        metadata.push(Metadata::of::<P>(zone).map_err(BankMachineError::from)?);
    }
    let mut zones = Vec::new();
    for (zone, memory) in machine.zones.iter().zip(&mut metadata) {
        zones.push(Frames::<P>::new(*zone, memory.lend()).map_err(BankMachineError::from)?);
    }
    let zones = Zones::new(&mut zones, &machine.roles).map_err(BankMachineError::from)?;
    let zones = zones.far_before_waking(settings.far_before_waking);
    let task = |eagerness| vec![Migrator::new(eagerness); machine.zones.len()];
    let mut world = World {
        machine,
        settings,
        zones,
        tasks: settings.eagerness.map(task).unwrap_or_default(),
        pages: Pages::new(machine.frames()),
        samples: Vec::new(),
        surveys: Vec::new(),
        totals: Totals::default(),
        now_s: 0,
        asked: 0,
        idle: true,
        go_on,
        interrupted: false,
    };
    play(&mut world);
    world.finish()
}

/// Optimal-selection runs this often a second (Panwar: "after some interval"; 100 ms).
const TIDIES_PER_S: u32 = 10;

struct World<'a, 'z, 'm, P: Policy> {
    machine: &'a BankMachine,
    settings: &'a RunSettings,
    zones: Zones<'z, 'm, P>,
    tasks: Vec<Migrator>,
    pages: Pages,
    samples: Vec<Sample>,
    surveys: Vec<(u32, Vec<Section>)>,
    totals: Totals,
    now_s: u32,
    /// Frames asked for in this second.
    asked: u32,
    idle: bool,
    go_on: &'a dyn Fn() -> bool,
    interrupted: bool,
}

impl<P: Policy> World<'_, '_, '_, P> {
    fn alloc(&mut self, object: u32, wanted: Request, node: u8) -> bool {
        self.totals.requests += 1;
        let mut got = self.zones.alloc(wanted, node, &mut ());
        while got.is_err() && self.relieve() {
            got = self.zones.alloc(wanted, node, &mut ());
        }
        let Ok((zone, frame)) = got else { return false };
        if self.machine.roles[zone].node != node {
            self.totals.far += u64::from(wanted.order.frames());
        }
        self.pages.add(object as usize, frame, wanted.order);
        self.totals.allocated += u64::from(wanted.order.frames());
        true
    }

    /// Takes sets back from the migration task; `false` when it holds none.
    fn relieve(&mut self) -> bool {
        let mut tasks = self.tasks.iter_mut().zip(self.zones.zones());
        tasks.any(|(task, zone)| task.relieve(zone, &mut ()))
    }

    fn migrate(&mut self) {
        let now_ms = u64::from(self.now_s) * 1_000;
        let all = self.tasks.iter_mut().zip(self.zones.zones());
        let rooms: Vec<u32> = all.map(|(task, zone)| task.watch(now_ms, zone)).collect();
        let mut lasting = if self.settings.far_before_waking { rooms.iter().sum() } else { 0 };
        let all = self.tasks.iter_mut().zip(self.zones.zones()).zip(rooms);
        for ((task, zone), room) in all {
            task.count_on(u32::saturating_sub(lasting, room));
            let before = zone.room(None);
            let pass = task.poll(now_ms, self.idle, zone, &mut self.pages, &mut ());
            lasting = lasting.saturating_sub(before.saturating_sub(zone.room(None)));
            self.totals.copied += pass.copied;
            self.totals.offlined += pass.offlined;
            self.totals.given_up += pass.given_up;
        }
    }

    fn sample(&mut self) {
        let mut sample = Sample {
            at_s: self.now_s,
            free: 0,
            offline: 0,
            vacant: 0,
            best: 0,
            best_of_any: 0,
            pinned_free: 0,
            pinned: 0,
            pinned_least: 0,
            copied: self.totals.copied,
        };
        for zone in self.zones.zones().iter() {
            look(zone, &mut sample);
        }
        self.samples.push(sample);
    }

    fn survey(&mut self) {
        let sections = survey(self.zones.zones(), self.machine.frames());
        self.surveys.push((self.now_s, sections));
    }

    fn finish(mut self) -> Result<Run, Halt> {
        if self.interrupted {
            return Err(Halt::Interrupted);
        }
        self.survey();
        for zone in self.zones.zones().iter() {
            zone.check().map_err(|broken| Halt::Broken(self.now_s, broken))?;
            self.totals.onlines += zone.stats().switched_on;
        }
        self.totals.seconds = self.now_s.into();
        Ok(Run {
            frames: self.machine.frames(),
            samples: self.samples,
            surveys: self.surveys,
            totals: self.totals,
        })
    }
}

/// Adds a zone to a sample.
fn look<P: Policy>(zone: &Frames<'_, P>, sample: &mut Sample) {
    let stats = zone.stats();
    sample.free += u64::from(stats.free);
    sample.offline += u64::from(stats.offline);
    let (mut pinned_frames, mut unmovable, mut movable, mut set_frames) = (0, 0, 0, 0);
    for index in 0..stats.sets {
        let Ok(set) = zone.set(SetId(index)) else { continue };
        sample.vacant += if set.used() == 0 && !set.shared { u64::from(set.frames) } else { 0 };
        sample.pinned += u32::from(set.unmovable > 0);
        set_frames = set_frames.max(set.frames);
        if !set.removable() {
            pinned_frames += u64::from(set.frames);
            sample.pinned_free += u64::from(set.free);
        }
        unmovable += u64::from(set.unmovable);
        movable += u64::from(set.used() - set.unmovable);
    }
    let least = (unmovable + movable).next_multiple_of(u64::from(set_frames).max(1));
    sample.best_of_any += u64::from(stats.frames).saturating_sub(least);
    sample.pinned_least += unmovable.div_ceil(u64::from(set_frames).max(1)) as u32;
    let others = movable.saturating_sub(pinned_frames - unmovable);
    let used = pinned_frames + others.next_multiple_of(u64::from(set_frames).max(1));
    sample.best += u64::from(stats.frames).saturating_sub(used);
}

impl<P: Policy> Sink for World<'_, '_, '_, P> {
    fn grow(&mut self, object: u32, wanted: Request, node: u8, blocks: u32) {
        let lifetime = if self.settings.lifetimes { wanted.lifetime } else { Lifetime::Long };
        let wanted = Request { lifetime, ..wanted };
        self.asked = self.asked.saturating_add(blocks * wanted.order.frames());
        for _ in 0..blocks {
            if self.alloc(object, wanted, node) {
                continue;
            }
            // A huge page that is not to be had becomes small ones, as in Linux.
            let single = Request { order: Order::FRAME, ..wanted };
            let huge = wanted.order > Order::FRAME;
            let filled =
                huge && (0..wanted.order.frames()).all(|_| self.alloc(object, single, node));
            self.totals.failed += u64::from(!filled);
        }
    }

    fn shrink(&mut self, object: u32, from: u32, blocks: u32) {
        let World { pages, zones, totals, .. } = self;
        pages.shrink(object as usize, from, blocks, |frame, order| {
            let freed = zones.free(frame, order, &mut ());
            debug_assert_eq!(freed, Ok(()));
            totals.freed += u64::from(order.frames());
        });
    }

    fn end(&mut self, object: u32) {
        let World { pages, zones, totals, .. } = self;
        pages.end(object as usize, |frame, order| {
            let freed = zones.free(frame, order, &mut ());
            debug_assert_eq!(freed, Ok(()));
            totals.freed += u64::from(order.frames());
        });
    }

    fn occasion(&mut self, trigger: Trigger) {
        let Triggers { exit, cache_drop, unmap } = self.settings.triggers;
        let called = match trigger {
            Trigger::Exit => exit,
            Trigger::CacheDrop => cache_drop,
            Trigger::Unmap => unmap,
        };
        if called && !self.tasks.is_empty() {
            self.tasks.iter_mut().for_each(Migrator::trigger);
            self.totals.triggered += 1;
            let idle = std::mem::replace(&mut self.idle, true);
            self.migrate();
            self.idle = idle;
        }
    }

    fn second(&mut self) -> bool {
        self.now_s += 1;
        self.idle = self.asked < self.settings.idle_below;
        self.asked = 0;
        for _ in 0..TIDIES_PER_S {
            self.zones.zones().iter_mut().for_each(|zone| zone.tidy(&mut ()));
        }
        self.migrate();
        if self.now_s.is_multiple_of(self.settings.sample_s.max(1)) {
            self.sample();
        }
        if self.settings.survey_s > 0 && self.now_s.is_multiple_of(self.settings.survey_s) {
            self.survey();
        }
        self.interrupted = !(self.go_on)();
        !self.interrupted
    }
}
