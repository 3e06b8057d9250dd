//! Memory outside of malloc, by who has it: the site that mapped it, or the runtime whose heap it is.
//!
//! Two sources say different things. Calls of `mmap` have stacks and are exact about addresses, but not about memory; looks at the process's own map
//! know what is in memory, now and then. So what is *held* is resident bytes at looks; what is *left* is what calls mapped and no call unmapped.
//!
//! Invariant: memory grows with the mappings that are there at once, never with the length of the trace.

use super::callers::{self, Callers};
use super::fold::{self, Folding};
use super::life::{EVENLY, Life, MOMENTS, Trend, trend};
use freehold_trace::{
    Damage, MapChange, MapEvent, MapFlags, MapId, Part, ProcessInfo, ReadError, Resident, StackId,
    Stacks, Tick, Trace, What,
};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

/// Fewer looks do not tell how something grew.
const LEAST_LOOKS: u32 = 5;

/// Memory that is not malloc's, or, of [`What::Malloc`], what is known of malloc's pages.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Outside {
    /// What for.
    pub what: What,
    /// The function that mapped it, with its line; or the runtime.
    pub name: String,
    /// Who called it, by the stack that has most of it, the next one first.
    pub callers: Vec<String>,
    /// Mappings that calls made, and their bytes of addresses.
    pub mappings: u64,
    /// Those bytes.
    pub mapped_bytes: u64,
    /// Mappings of which something was never unmapped,
    pub left: u64,
    /// and their bytes.
    pub left_bytes: u64,
    /// They show files.
    pub is_file: bool,
    /// Whether what is left of the mappings grows to the end.
    pub left_trend: Trend,
    /// Most bytes in memory at a look, and at that look:
    pub resident_bytes: u64,
    /// in huge pages,
    pub huge_bytes: u64,
    /// of those, nothing but zeroes.
    pub zero_bytes: u64,
    /// Whether what is in memory grows to the end.
    pub trend: Trend,
    /// Bytes in memory at the end of each of [`MOMENTS`] parts of the process's time.
    pub held: Vec<u64>,
}

/// All of a process.
#[derive(Default)]
pub(super) struct AllOutside {
    pub(super) found: Vec<Outside>,
    /// Most bytes in memory at a look that are no file's.
    pub(super) private_bytes: u64,
    /// The look at which most pages were kept for few bytes.
    pub(super) kept: Option<Resident>,
    /// The look at which malloc had most in use, of those at which pages were read.
    pub(super) blank: Option<Resident>,
    /// When there were looks: all of them may have missed the time at which it matters.
    pub(super) looks: Vec<Tick>,
    pub(super) damage: Vec<Damage>,
}

/// Who has it: a site, or a runtime by its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Site(u32),
    Named(What, String),
}

#[derive(Default)]
struct Tally {
    out: Outside,
    left: Life,
    left_now: u64,
    /// Looks at which it had anything in memory.
    looks: u32,
    /// Bytes by stack, in memory at the looks and mapped: for the callers.
    stacks: BTreeMap<StackId, (u64, u64)>,
}

struct Gathering<'a> {
    folding: &'a Folding,
    info: &'a ProcessInfo,
    tallies: BTreeMap<Owner, Tally>,
    /// Bytes that are left of a mapping, and its site.
    there: FxHashMap<MapId, (u64, u32)>,
}

/// Gathers it.
pub(super) fn outside(
    trace: &Trace,
    stacks: &Stacks,
    folding: &Folding,
    info: &ProcessInfo,
) -> Result<AllOutside, ReadError> {
    let mut gathering =
        Gathering { folding, info, tallies: BTreeMap::new(), there: FxHashMap::default() };
    let mut damage = trace.mappings_of(info.id, &mut |event| gathering.call(event))?;
    let (samples, more) = trace.residents_of(info.id)?;
    damage.extend(more);
    let private = |sample: &Resident| -> u64 {
        let own = sample.parts.iter().filter(|p| !matches!(p.what, What::File | What::Recorder));
        own.map(|part| part.resident).sum()
    };
    let private_bytes = samples.iter().map(private).max().unwrap_or(0);
    samples.iter().for_each(|sample| gathering.look(sample));
    let looks = samples.iter().map(|sample| sample.tick).collect();
    let pages = |sample: &Resident| sample.kept.iter().map(|kept| kept.pages).sum::<u64>();
    let live = |sample: &&Resident| sample.parts.iter().map(|part| part.live).sum::<u64>();
    let read = samples.iter().filter(|sample| !sample.blank.is_empty());
    let blank = read.max_by_key(live).cloned();
    let kept = samples.into_iter().filter(|sample| pages(sample) > 0).max_by_key(pages);
    Ok(AllOutside { found: gathering.finish(stacks), private_bytes, kept, blank, looks, damage })
}

impl Gathering<'_> {
    fn moment(&self, tick: u64) -> usize {
        let ticks = self.info.last.0.saturating_sub(self.info.first.0) / MOMENTS as u64 + 1;
        ((tick.saturating_sub(self.info.first.0) / ticks) as usize).min(MOMENTS - 1)
    }

    fn call(&mut self, event: &MapEvent) {
        let moment = self.moment(event.tick.0);
        let site = match event.change {
            MapChange::Map { flags, .. } if flags.has(MapFlags::RECORDER) => return,
            MapChange::Map { .. } => self.folding.site(event.stack),
            MapChange::Unmap { .. } => match self.there.get(&event.map) {
                Some(&(_, site)) => site,
                None => return,
            },
        };
        let tally = self.tallies.entry(Owner::Site(site)).or_default();
        tally.left.reach(moment, tally.left_now);
        match event.change {
            MapChange::Map { bytes, flags } => {
                tally.out.mappings += 1;
                tally.out.mapped_bytes = tally.out.mapped_bytes.saturating_add(bytes);
                tally.out.is_file |= flags.has(MapFlags::FILE);
                tally.left_now = tally.left_now.saturating_add(bytes);
                let by_stack = &mut tally.stacks.entry(event.stack).or_default().1;
                *by_stack = by_stack.saturating_add(bytes);
                self.there.insert(event.map, (bytes, site));
            }
            MapChange::Unmap { bytes } => {
                tally.left_now = tally.left_now.saturating_sub(bytes);
                if let Some((left, _)) = self.there.get_mut(&event.map) {
                    *left = left.saturating_sub(bytes);
                    if *left == 0 {
                        self.there.remove(&event.map);
                    }
                }
            }
        }
    }

    fn owner(&self, part: &Part) -> Option<Owner> {
        match part.what {
            What::Mapped => Some(Owner::Site(self.folding.site(part.stack))),
            What::Runtime | What::Malloc => Some(Owner::Named(part.what, part.name.clone())),
            _ => None,
        }
    }

    /// Parts of one owner are added up; what it holds until the next look is what it has now.
    fn look(&mut self, sample: &Resident) {
        let mut now: BTreeMap<Owner, Part> = BTreeMap::new();
        for part in &sample.parts {
            let Some(owner) = self.owner(part) else { continue };
            if part.stack != StackId::NONE {
                let tally = self.tallies.entry(owner.clone()).or_default();
                tally.stacks.entry(part.stack).or_default().0 += part.resident;
            }
            let sum = now.entry(owner).or_default();
            sum.resident += part.resident;
            sum.huge += part.huge;
            sum.zero += part.zero;
        }
        for owner in now.keys() {
            self.tallies.entry(owner.clone()).or_default();
        }
        let moment = self.moment(sample.tick.0);
        for (owner, tally) in &mut self.tallies {
            let part = now.get(owner).cloned().unwrap_or_default();
            let out = &mut tally.out;
            tally.looks += u32::from(part.resident > 0);
            // Of several looks in one moment the last one counts; between two looks it changes evenly.
            out.held.truncate(moment);
            let (before, from) = (out.held.last().copied().unwrap_or(0), out.held.len());
            for at in from..=moment {
                let step = (at + 1 - from) as f64 / (moment + 1 - from) as f64;
                let more = part.resident as f64 - before as f64;
                out.held.push((before as f64 + more * step) as u64);
            }
            if part.resident > out.resident_bytes {
                out.resident_bytes = part.resident;
                (out.huge_bytes, out.zero_bytes) = (part.huge, part.zero);
            }
        }
    }

    fn finish(mut self, stacks: &Stacks) -> Vec<Outside> {
        for (bytes, site) in self.there.values() {
            if let Some(tally) = self.tallies.get_mut(&Owner::Site(*site)) {
                tally.out.left += 1;
                tally.out.left_bytes = tally.out.left_bytes.saturating_add(*bytes);
            }
        }
        let folding = self.folding;
        let named = |(owner, mut tally): (Owner, Tally)| {
            let last = tally.out.held.last().copied().unwrap_or(0);
            tally.out.held.resize(MOMENTS, last);
            tally.left.reach(MOMENTS, tally.left_now);
            if tally.looks >= LEAST_LOOKS {
                tally.out.trend = trend(&tally.out.held, &EVENLY);
            }
            tally.out.left_trend = trend(tally.left.held(), &EVENLY);
            let site = match owner {
                Owner::Site(site) => site,
                Owner::Named(what, name) => return Outside { what, name, ..tally.out },
            };
            let function = folding.function(site);
            let name = super::text(&function.name, function.place.as_deref());
            let by = |amount: fn(&(u64, u64)) -> u64| {
                let amounts = tally.stacks.iter().map(|(stack, bytes)| (*stack, amount(bytes)));
                callers::most_travelled(stacks, folding, amounts)
            };
            let stack = by(|&(resident, _)| resident).or_else(|| by(|&(_, mapped)| mapped));
            let around = stack.map(|stack| fold::around(stacks, stack, function));
            let callers = around.map_or_else(Vec::new, |around| Callers::from(&around).names);
            Outside { what: What::Mapped, name, callers, ..tally.out }
        };
        let mut found: Vec<Outside> = self.tallies.into_iter().map(named).collect();
        found.sort_by(|a, b| {
            let order = |out: &Outside| std::cmp::Reverse((out.resident_bytes, out.left_bytes));
            order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name))
        });
        found
    }
}
