//! Who has the memory: the places in a program that allocate, and everything that is said of them.
//!
//! A *site* is the innermost function of a call stack that the programmer wrote, with its line: allocators and standard libraries are folded
//! into their callers ([`fold`]). One pass over the events of a process counts by site ([`count`]); what
//! a site held over time and how long its objects lived is [`life`]'s, which pages they keep [`pages`]', what lies outside of malloc
//! [`outside`]'s; who called a site is [`callers`]'; [`names`] prints functions.
//! `info`, `compare`, the report, `diff` and the exports all read the one [`Sites`].
//!
//! Conventions. Bytes are bytes asked for; a reallocation moves an object to the site that reallocated it. *At the peak*
//! is the moment at which `freehold info` finds the peak of live bytes. *Temporary* is an object that its thread frees
//! as its very next event.
//!
//! Invariant: memory grows with live objects and with the stacks that differ, never with the length of the trace.

mod callers;
mod count;
mod fold;
mod life;
mod names;
mod outside;
mod pages;
#[cfg(test)]
mod tests;
mod tree;

pub use callers::Callers;
pub use count::{BRIEF, Counts};
pub use life::{MOMENTS, Trend};
pub use names::short;
pub use outside::Outside;
pub use tree::{Branch, Bytes, Measure};

use callers::Surroundings;
use count::Counting;
use fold::{Folding, Function};
use freehold_trace::{Damage, ProcessId, ProcessInfo, ReadError, StackId, Stacks, Trace};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// What stands for the function where there is no call stack.
pub const NO_STACK: &str = "(no call stack)";

/// A place that allocates.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Site {
    /// The function, or module and offset where it has no name.
    pub function: String,
    /// The source file and line.
    pub place: Option<String>,
    /// The module.
    pub module: Option<String>,
    /// What it called, if that was a library's function and not an allocator.
    pub via: Option<String>,
    /// What it did.
    #[serde(flatten)]
    pub counts: Counts,
    /// Its part of what was held at the peak, 0 to 1.
    pub share: f64,
    /// Whether what it holds grows until the process ends.
    pub trend: Trend,
    /// Half of its objects that were freed lived no longer, seconds (or events, where the trace has no times).
    pub median_life_s: Option<f64>,
    /// What it held at the end of each of [`MOMENTS`] parts of the process's time.
    pub held: Vec<u64>,
    /// Who called it for what it held at the peak, or for all that it allocated if it held nothing then.
    #[serde(flatten)]
    pub callers: Callers,
    /// Who called it for what is measured otherwise, where those are others.
    pub callers_by: BTreeMap<Measure, Callers>,
}

impl Site {
    /// Who called it for what is measured so.
    pub fn callers_by(&self, measure: Measure) -> &Callers {
        self.callers_by.get(&measure).unwrap_or(&self.callers)
    }

    /// Function and line as they are printed: `grow (cache.cc:12)`.
    pub fn text(&self) -> String {
        text(&self.function, self.place.as_deref())
    }

    /// The module whose functions have no names, if this is one of those.
    pub fn nameless(&self) -> Option<&str> {
        let module = self.module.as_deref()?;
        self.function.strip_prefix(module)?.starts_with("+0x").then_some(module)
    }

    /// The most that it held at the end of any moment, or at the peak.
    pub fn most_held(&self) -> u64 {
        self.held.iter().copied().max().unwrap_or(0).max(self.counts.peak_bytes)
    }
}

/// A function and where it stands, as they are printed: the last two parts of the path will do.
fn text(function: &str, place: Option<&str>) -> String {
    match place {
        Some(place) => format!("{} ({})", short(function), short_place(place)),
        None => short(function).into_owned(),
    }
}

/// A file's name and line without its folders.
pub fn short_place(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or(place)
}

/// The sites of a process.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Sites {
    /// The process.
    pub process: u32,
    /// All of it.
    pub total: Counts,
    /// Most bytes that it had in memory at a look and that are no file's; at least those of malloc at the peak.
    pub whole_bytes: u64,
    /// When the pages were seen that sites keep; none where they are those of a model.
    pub kept_s: Option<f64>,
    /// When the objects' contents were seen; none where nobody read them.
    pub seen_s: Option<f64>,
    /// When its peak was, seconds from the beginning of the trace.
    pub peak_s: f64,
    /// From its first event to its last, seconds.
    pub seconds: f64,
    /// Every site, that which held most at the peak first.
    pub sites: Vec<Site>,
    /// Memory outside of malloc, the most resident first; and malloc's, as its pages are.
    pub outside: Vec<Outside>,
    /// The call stacks, for a flame graph.
    #[serde(skip)]
    pub tree: Branch,
    /// What of the call stacks could not be read. (That of the events is told by the profile.)
    #[serde(skip)]
    pub damage: Vec<Damage>,
}

impl Sites {
    /// The sites that have any of something, that which has most first.
    pub fn most(&self, what: impl Fn(&Counts) -> u64) -> Vec<&Site> {
        let mut all: Vec<&Site> = self.sites.iter().filter(|s| what(&s.counts) > 0).collect();
        all.sort_by_key(|site| std::cmp::Reverse(what(&site.counts)));
        all
    }
}

/// Where a site is, to find it again in the same trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    function: String,
    place: Option<String>,
    module: Option<String>,
}

#[cfg(test)]
impl Place {
    /// Of a function of which nothing else is known.
    pub(crate) fn named(function: &str) -> Place {
        Place { function: function.into(), place: None, module: None }
    }
}

impl Site {
    /// Where it is.
    pub fn place(&self) -> Place {
        let Site { function, place, module, .. } = self.clone();
        Place { function, place, module }
    }
}

/// The sites of call stacks.
pub(crate) struct SitesOf(Folding);

impl SitesOf {
    pub(crate) fn new(stacks: &Stacks) -> SitesOf {
        SitesOf(Folding::new(stacks))
    }

    /// The number of a site; none where no stack is of it.
    pub(crate) fn number(&self, place: &Place) -> Option<u32> {
        (0..self.0.sites() as u32).find(|&number| {
            let Function { name, place: at, module } = self.0.function(number);
            (name, at, module) == (&place.function, &place.place, &place.module)
        })
    }

    /// Function and line of a site.
    pub(crate) fn text(&self, number: u32) -> String {
        let function = self.0.function(number);
        text(&function.name, function.place.as_deref())
    }

    /// Whose stack it is.
    pub(crate) fn of(&self, stack: StackId) -> u32 {
        self.0.site(stack)
    }
}

/// What the sites of a trace's call stacks are called.
pub struct SiteNames {
    sites: SitesOf,
    names: Vec<String>,
}

impl SiteNames {
    /// All of them.
    pub fn new(stacks: &Stacks) -> SiteNames {
        let sites = SitesOf::new(stacks);
        let names = (0..sites.0.sites() as u32).map(|number| sites.text(number)).collect();
        SiteNames { sites, names }
    }

    /// The function and line to which a stack belongs; none without a stack.
    pub fn of(&self, stack: StackId) -> Option<&str> {
        let site = self.sites.of(stack);
        (site != 0).then(|| self.names[site as usize].as_str())
    }
}

/// Looks for the sites of a process. `None` when `stop` was raised.
///
/// # Errors
/// When the operating system refuses to read. What is damaged is left out.
pub fn sites(
    trace: &Trace,
    process: ProcessId,
    progress: &mut dyn FnMut(u64, u64),
    stop: &AtomicBool,
) -> Result<Option<Sites>, ReadError> {
    let (stacks, mut damage) = trace.stacks()?;
    let folding = Folding::new(&stacks);
    let unseen = ProcessInfo::unseen(process);
    let info = trace.process(process).unwrap_or(&unseen);
    let mut records = trace.records_of(process)?;
    let mut outside = outside::outside(trace, &stacks, &folding, info)?;
    let mut counting = Counting::new(&folding, info, &outside.looks);
    let expected = trace.events_of(process);
    while let Some(run) = records.next_run()? {
        counting.see(&run);
        progress(records.given(), expected);
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    counting.finish();
    outside.kept.take_if(|_| !counting.is_look_in_time());
    if let Some(kept) = &outside.kept {
        counting.keep(&kept.kept);
    }
    if let Some(look) = &outside.blank {
        counting.see_blank(&look.blank);
    }
    damage.extend(outside.damage);
    let total = counting.sites.iter().fold(Counts::default(), |sum, tally| sum + tally.counts);
    let second = 1.0 / trace.header().ticks_per_second.max(1) as f64;
    let seconds = info.last.0.saturating_sub(info.first.0) as f64 * second;
    Ok(Some(Sites {
        process: process.0,
        total,
        whole_bytes: outside.private_bytes.max(total.peak_bytes),
        kept_s: outside.kept.as_ref().map(|kept| kept.tick.0 as f64 * second),
        seen_s: outside.blank.as_ref().map(|look| look.tick.0 as f64 * second),
        peak_s: counting.peak_tick.0 as f64 * second,
        seconds,
        sites: listed(&stacks, &folding, &counting, (second, seconds)),
        outside: outside.found,
        tree: tree::tree(&stacks, &counting.stacks),
        damage,
    }))
}

/// The sites that did anything, in order.
fn listed(
    stacks: &Stacks,
    folding: &Folding,
    counting: &Counting<'_>,
    (second, seconds): (f64, f64),
) -> Vec<Site> {
    let mut of_sites: Vec<Vec<(StackId, Bytes)>> = vec![Vec::new(); folding.sites()];
    for (stack, bytes) in &counting.stacks {
        of_sites[folding.site(*stack) as usize].push((*stack, bytes.bytes()));
    }
    let peak: u64 = counting.sites.iter().map(|tally| tally.counts.peak_bytes).sum();
    let end = life::before_the_end(&counting.made, &counting.freed);
    let awake = life::awake(&counting.made[..end], seconds / MOMENTS as f64);
    let of_awake = |all: &[u64]| awake.iter().filter_map(|&at| all.get(at).copied()).collect();
    let made: Vec<u64> = of_awake(&counting.made);
    let mut sites: Vec<Site> = Vec::new();
    for (number, (tally, of_site)) in counting.sites.iter().zip(&of_sites).enumerate() {
        let Some(Surroundings { most, others }) = callers::surroundings(stacks, folding, of_site)
        else {
            continue;
        };
        let function = folding.function(number as u32);
        sites.push(Site {
            function: function.name.clone(),
            place: function.place.clone(),
            module: function.module.clone(),
            callers: Callers::from(&most),
            callers_by: others,
            via: most.via.map(|via| short(&via.name).into_owned()),
            counts: tally.counts,
            share: tally.counts.peak_bytes as f64 / peak.max(1) as f64,
            trend: life::trend(&of_awake(tally.life.held()), &made),
            median_life_s: tally.life.median_ticks().map(|ticks| (ticks * second).min(seconds)),
            held: tally.life.held().to_vec(),
        });
    }
    // Of equals, in the order of their names: the same trace gives the same list.
    let order =
        |site: &Site| std::cmp::Reverse((site.counts.peak_bytes, site.counts.allocated_bytes));
    sites.sort_by(|a, b| {
        order(a).cmp(&order(b)).then_with(|| (&a.function, &a.place).cmp(&(&b.function, &b.place)))
    });
    sites
}
