//! A plain account: where ours differs from the chapter, and why, in sentences made of the figures.
//!
//! Every sentence is computed: its numbers come from the tables and ablations at hand, and so do
//! words such as "more" and "does not". A finding whose figures are missing is left out.

use super::ablations::{Ablation, Effect};
use super::gaps::{self, Gap};
use super::orders::Verdict;
use super::published::listed;
use super::tables::{Entry, Table};
use crate::studies::class::Class;
use crate::studies::statistics::{Summary, correlation};
use serde::Serialize;

/// One finding.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Finding {
    /// What it is about.
    pub title: &'static str,
    /// The finding.
    pub text: String,
    /// The ablations it rests on, by their keys.
    pub ablations: Vec<&'static str>,
}

/// A change of what is not published, in words, and at which of its effects dlmalloc and DmRT stand (case 1,
/// 1000 requests).
struct Spelled {
    key: &'static str,
    words: &'static str,
    dlmalloc: usize,
    dmrt: usize,
}

const fn spelled(key: &'static str, words: &'static str, dlmalloc: usize, dmrt: usize) -> Spelled {
    Spelled { key, words, dlmalloc, dmrt }
}

const LEVELS: &[Spelled] = &[
    spelled("capacity-double", "with twice the memory", 0, 1),
    spelled("capacity-half", "with half of it", 0, 1),
    spelled("short-lives", "with lives a tenth as long", 1, 0),
    spelled("no-large", "without large requests", 0, 1),
    spelled("empty-machine", "on an empty machine", 0, 1),
    spelled("shared-256M", "with 256 MiB of shared memory", 12, 1),
    spelled("half-and-256M", "with that and half the nodes' memory", 12, 1),
];

/// What the answer is about, for those who have not read the chapter.
const LEAD: &str = "DmRT is an allocator for machines of several nodes with a memory each: it keeps lists of blocks by length, and a request \
                    that one memory cannot serve tries others along a path (in one test case all allocators have the same path).";

/// What the account is made of.
pub struct Evidence<'a> {
    /// The tables.
    pub tables: &'a [Table],
    /// The claims.
    pub verdicts: &'a [Verdict],
    /// The ablations.
    pub ablations: &'a [Ablation],
}

impl Evidence<'_> {
    /// The findings, the most important first.
    pub fn findings(&self) -> Vec<Finding> {
        let all = [
            self.path_not_blocks(),
            self.handicap(),
            self.fragmentation(),
            self.times(),
            self.levels(),
            self.search(),
            self.blocks(),
            self.spread(),
        ];
        all.into_iter().flatten().collect()
    }

    /// The answer in a few words.
    pub fn answer(&self) -> Vec<String> {
        let kept = |claim: &str| {
            let of_claim = || self.verdicts.iter().filter(|verdict| verdict.claim == claim);
            (of_claim().filter(|verdict| verdict.ours == Class::Holds).count(), of_claim().count())
        };
        let mut answer = vec![LEAD.to_owned()];
        if let Some(leads) = self.leads(4) {
            answer.push(format!(
                "On one path DmRT satisfies at most {:.1} points more of the requests than the other three \
                 allocators, not the {:.0} to {:.0} points that are published.",
                leads.ours_most.max(0.0),
                leads.published_least,
                leads.published_most
            ));
        }
        let (order, of) =
            kept("time: TLSF < dlmalloc < DmRT < tcmalloc (ours has no thread caches)");
        let (fastest, of_fastest) = kept("time: DmRT is fastest");
        let (slowest, of_slowest) = kept("time: tcmalloc (ours has no thread caches) is slowest");
        if of > 0 {
            answer.push(format!(
                "The published order of times holds in {order} of {of} tables of case 1; that \
                 tcmalloc is slowest in {slowest} of {of_slowest}, which says little of the real one, for \
                 it is modelled without the thread caches that would serve most of its small requests; \
                 that DmRT is fastest in {fastest} of {of_fastest}."
            ));
        }
        answer
    }

    fn ablation(&self, key: &str) -> Option<&Ablation> {
        self.ablations.iter().find(|ablation| ablation.key == key)
    }

    fn effect(&self, key: &str, at: usize) -> Option<&Effect> {
        self.ablation(key)?.effects.get(at)
    }

    fn of_case(&self, case: u32) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(move |table| table.case == case)
    }

    /// By how much DmRT satisfies more than the others, over the tables of a case.
    fn leads(&self, case: u32) -> Option<Leads> {
        let mut leads = Leads::default();
        for table in self.of_case(case) {
            let dmrt = table.entry("dmrt")?.published.as_ref()?.satisfied;
            for name in ["dlmalloc", "tcmalloc", "tlsf"] {
                let other = table.entry(name)?;
                leads
                    .add(dmrt - other.published.as_ref()?.satisfied, -other.less("satisfied").mean);
            }
        }
        leads.any.then_some(leads)
    }

    fn path_not_blocks(&self) -> Option<Finding> {
        let (one, four) = (self.leads(1)?, self.leads(4)?);
        let same = self.effect("same-path", 0)?;
        let text = format!(
            "Along different paths (case 1) DmRT leads by {} points in ours, by {} as published: it \
             has more memory to try. Let it go the others' path and its lead over dlmalloc goes from \
             {} to {}. Along one path (case 4) DmRT leads by {} points in ours, by {} as published. \
             The block policy has little to decide: what fails is a large request, for want of any \
             block so long.",
            one.ours(),
            one.published(),
            points(&same.before),
            points(&same.after),
            four.ours(),
            four.published(),
        );
        let title = "The path separates the allocators, not the choice of the block";
        Some(Finding { title, text, ablations: vec!["same-path"] })
    }

    fn handicap(&self) -> Option<Finding> {
        let table = self.of_case(4).find(|table| table.requests == 1000)?;
        let published = |name: &str| -> Option<f64> {
            let of = |name: &str| Some(table.entry(name)?.published.as_ref()?.satisfied);
            Some(of("dmrt")? - of(name)?)
        };
        let lead = |key, at| self.effect(key, at).map(|effect| points(&effect.after));
        let names = ["dlmalloc", "tcmalloc", "tlsf"];
        let reached = names.into_iter().enumerate().filter(|&(at, name)| {
            let quarter = self.effect("existing-25", at).map(|effect| effect.after.mean);
            quarter.zip(published(name)).is_some_and(|(ours, printed)| ours >= printed)
        });
        let reached: Vec<String> = reached.map(|(_, name)| name.to_owned()).collect();
        let text = format!(
            "The published lead of case 4 at 1000 requests is {:.1} points over dlmalloc, {:.1} over \
             tcmalloc and {:.1} over TLSF. Taking memory away from the others moves ours that way: with \
             half of it DmRT leads by {}, {} and {}, with a \
             quarter by {}, {} and {}; that reaches the published lead over: {}. What ours lose to \
             headers and rounding comes to {} internal fragmentation.",
            published("dlmalloc")?,
            published("tcmalloc")?,
            published("tlsf")?,
            lead("existing-50", 0)?,
            lead("existing-50", 1)?,
            lead("existing-50", 2)?,
            lead("existing-25", 0)?,
            lead("existing-25", 1)?,
            lead("existing-25", 2)?,
            listed(&reached),
            self.internal(table)?,
        );
        let title = "What would make the published lead appear";
        Some(Finding { title, text, ablations: vec!["existing-50", "existing-25"] })
    }

    fn internal(&self, table: &Table) -> Option<String> {
        let of = |name: &str| Some(table.entry(name)?.of("internal").mean);
        let all = [of("dlmalloc")?, of("tcmalloc")?, of("tlsf")?];
        Some(format!("{:.2} %, {:.2} % and {:.2} %", all[0], all[1], all[2]))
    }

    fn fragmentation(&self) -> Option<Finding> {
        let entries: Vec<&Entry> = self.tables.iter().flat_map(|table| &table.entries).collect();
        let ours: Vec<&&Entry> = entries.iter().filter(|entry| entry.published.is_some()).collect();
        if ours.is_empty() {
            return None;
        }
        let external: Vec<f64> = ours.iter().map(|entry| entry.of("external").mean).collect();
        let unsatisfied: Vec<f64> =
            ours.iter().map(|entry| 100.0 - entry.of("satisfied").mean).collect();
        let r = correlation(&external, &unsatisfied);
        let apart: Vec<f64> =
            external.iter().zip(&unsatisfied).map(|(a, b)| (a - b).abs()).collect();
        let published = ours.iter().filter_map(|entry| entry.published.as_ref());
        let printed: Vec<f64> =
            published.map(|row| (row.fragmentation - (100.0 - row.satisfied)).abs()).collect();
        let text = format!(
            "Published fragmentation and 100 less the requests satisfied are {:.1} points apart on \
             average; ours, measured as what is free but not in one piece, {:.1} points (their correlation over all tables and allocators is {r:.2}). \
             The chapter does not define its fragmentation. Ours also moves with the policy where \
             the requests satisfied hardly do: compare worst fit with the others.",
            Summary::of(&printed).mean,
            Summary::of(&apart).mean,
        );
        let title = "Fragmentation is a quantity of its own";
        Some(Finding { title, text, ablations: Vec::new() })
    }

    fn times(&self) -> Option<Finding> {
        let table = self.of_case(2).find(|table| table.requests == 1000)?;
        let ratio = |name: &str| -> Option<(f64, f64)> {
            let (dmrt, other) = (table.entry("dmrt")?, table.entry(name)?);
            let published = (dmrt.published.as_ref()?.time_ms, other.published.as_ref()?.time_ms);
            Some((published.0 / published.1, dmrt.of("time").mean / other.of("time").mean))
        };
        let (published, ours) = ratio("tlsf")?;
        let (flat, flat_3) = (self.effect("flat", 0)?, self.effect("flat", 1)?);
        let broken: Vec<String> = self
            .verdicts
            .iter()
            .filter(|verdict| {
                verdict.claim == "time: DmRT is fastest" && verdict.ours == Class::Fails
            })
            .map(|verdict| verdict.table.clone())
            .collect();
        let text = format!(
            "In case 2 DmRT searches all nodes and works in remote memory while TLSF stays at home; \
             the chapter prints {published:.2} times TLSF's time at 1000 requests, ours is \
             {ours:.2}. Where all memory is equally near and loads cost nothing, it is {} in case 2 \
             and {} in case 3: the steps of the two are nearly the same, so DmRT cannot be much faster than TLSF anywhere. (DmRT is not the \
             fastest in {}.) Where every call costs ten microseconds whatever it does, as the \
             milliseconds of the chapter suggest, ratios shrink towards 1: {}.",
            times(&flat.after),
            times(&flat_3.after),
            listed(&broken),
            self.dear()?,
        );
        let title = "Time follows the steps and the distance";
        Some(Finding { title, text, ablations: vec!["flat", "dear-calls"] })
    }

    fn dear(&self) -> Option<String> {
        let of = |at| self.effect("dear-calls", at).map(|effect| times(&effect.after));
        let table = self.of_case(3).find(|table| table.requests == 1000)?;
        let time = |name: &str| Some(table.entry(name)?.published.as_ref()?.time_ms);
        let printed = |name: &str| Some(format!("{:.2}×", time(name)? / time("dmrt")?));
        Some(format!(
            "TLSF, dlmalloc and tcmalloc then take {}, {} and {} of DmRT's time in case 3, printed \
             are {}, {} and {}",
            of(0)?,
            of(1)?,
            of(2)?,
            printed("tlsf")?,
            printed("dlmalloc")?,
            printed("tcmalloc")?
        ))
    }

    fn levels(&self) -> Option<Finding> {
        let table = |load| self.of_case(1).find(move |table| table.requests == load);
        let of = |load, name: &str| -> Option<(f64, f64)> {
            let entry = table(load)?.entry(name)?;
            Some((entry.published.as_ref()?.satisfied, entry.of("satisfied").mean))
        };
        let (dl, dm) =
            ([of(100, "dlmalloc")?, of(1000, "dlmalloc")?], [of(100, "dmrt")?, of(1000, "dmrt")?]);
        let changes: Vec<(&Spelled, f64, f64)> = LEVELS
            .iter()
            .filter_map(|change| {
                let of = |at| self.effect(change.key, at).map(|effect| effect.after.mean);
                Some((change, of(change.dlmalloc)?, of(change.dmrt)?))
            })
            .collect();
        let spelled = changes.iter().map(|(change, dlmalloc, dmrt)| {
            format!("{} {dlmalloc:.0} and {dmrt:.0} %", change.words)
        });
        let near = |ours: f64, printed: f64| (ours - printed).abs() <= gaps::NEAR;
        let both = changes.iter().filter(|(_, a, b)| near(*a, dl[1].0) && near(*b, dm[1].0));
        let both: Vec<String> = both.map(|(change, ..)| change.words.to_owned()).collect();
        let text = format!(
            "From 100 to 1000 requests of case 1, dlmalloc falls from {:.0} to {:.0} % as published and \
             from {:.0} to {:.0} % in ours, DmRT from {:.0} to {:.0} and from {:.0} to {:.0} %. Capacities, \
             sizes and lifetimes are not published, and they set the level. At 1000 requests dlmalloc and \
             DmRT satisfy: {}. Of these, what brings both within {:.0} points of the printed figures at \
             once: {}. {}",
            dl[0].0,
            dl[1].0,
            dl[0].1,
            dl[1].1,
            dm[0].0,
            dm[1].0,
            dm[0].1,
            dm[1].1,
            spelled.collect::<Vec<_>>().join("; "),
            gaps::NEAR,
            listed(&both),
            self.shared()?,
        );
        let ablations = LEVELS.iter().map(|change| change.key).collect();
        Some(Finding { title: "What is not published sets the level", text, ablations })
    }

    /// The reading that was missed for long: only DmRT has the shared memory in cases 1 and 2.
    fn shared(&self) -> Option<String> {
        let ours = gaps::of_tables(self.tables);
        let larger = &self.ablation("shared-256M")?.gaps;
        let gap = |gaps: &[Gap], of: &str| gaps.iter().find(|gap| gap.allocator == of).cloned();
        let (before, after) = (gap(&ours, "dmrt")?, gap(larger, "dmrt")?);
        let moved = |towards: bool| {
            let of = |name: &&str| {
                let (before, after) = (gap(&ours, name)?.mean, gap(larger, name)?.mean);
                let said = || format!("{name} from {before:.1} to {after:.1}");
                ((after < before) == towards).then(said)
            };
            let others: Vec<String> = gaps::PRINTED[..3].iter().filter_map(of).collect();
            listed(&others)
        };
        Some(format!(
            "Over the {} tables DmRT's mean distance to what is printed is {:.1} points as set, {:.1} with \
             256 MiB of shared memory ({} and {} rows within {:.0} points), a capacity that is fitted: it was chosen by these \
             rows. It moves away from what is printed: {}, and \
             brings nearer: {}. No reading of the settings can \
             be that near to all rows of dlmalloc: on one path under one load it is printed {:.1} points \
             apart in two tables. Which readings come near to which rows is what `freehold study dmrt \
             --search` maps.",
            before.rows,
            before.mean,
            after.mean,
            before.near,
            after.near,
            gaps::NEAR,
            moved(false),
            moved(true),
            2.0 * gaps::least_possible("dlmalloc"),
        ))
    }

    fn search(&self) -> Option<Finding> {
        let (two, one) = (self.effect("complete", 0)?, self.effect("complete", 1)?);
        let time = self.effect("complete", 2)?;
        let text = format!(
            "As printed, the search names one node and never asks whether the block fits there. Going \
             on to the next best moves DmRT's requests satisfied by {} in case 2 and {} in case 1 at \
             1000 requests, and its time in case 2 by {:+.0} %.",
            points(&two.change),
            points(&one.change),
            100.0 * time.change.mean / time.before.mean,
        );
        let title = "A search that asks whether the block fits";
        Some(Finding { title, text, ablations: vec!["complete"] })
    }

    fn blocks(&self) -> Option<Finding> {
        let of = |key, at| self.effect(key, at).map(|effect| points(&effect.change));
        let text = format!(
            "Inside DmRT, at 1000 requests of case 1: a second look at four blocks moves the requests \
             satisfied by {} and fragmentation by {}; the longest block instead of the head of \
             the highest list by {} and {}; good fit instead of worst fit for large blocks by {} and \
             {}. Headers that cost nothing move them by {} (case 4).",
            of("second-look", 0)?,
            of("second-look", 1)?,
            of("longest", 0)?,
            of("longest", 1)?,
            of("no-worst-fit", 0)?,
            of("no-worst-fit", 1)?,
            of("headers", 0)?,
        );
        let ablations = vec!["second-look", "longest", "no-worst-fit", "headers"];
        Some(Finding { title: "Inside DmRT", text, ablations })
    }

    fn spread(&self) -> Option<Finding> {
        let worst = |name: &str| -> Option<(f64, f64)> {
            let times = self.tables.iter().filter_map(|table| Some(table.entry(name)?.of("time")));
            times.fold(None, |worst: Option<(f64, f64)>, time| {
                let (a, b) = worst.unwrap_or_default();
                Some((a.max(time.variation()), b.max(time.worst_over_mean())))
            })
        };
        let say = |name: &str| {
            let (variation, most) = worst(name)?;
            Some(format!("{name} {:.1} % and {most:.2}", 100.0 * variation))
        };
        let all: Option<Vec<String>> =
            ["dlmalloc", "tcmalloc", "tlsf", "dmrt"].into_iter().map(say).collect();
        let text = format!(
            "The chapter wants execution times that are \"consistent and minimum\" and prints no \
             spread. Ours over all tables, the greatest coefficient of variation and the slowest \
             attempt over the mean: {}.",
            listed(&all?)
        );
        Some(Finding { title: "How consistent times are", text, ablations: Vec::new() })
    }
}

/// Differences of the requests satisfied, in points.
#[derive(Default)]
struct Leads {
    any: bool,
    published_least: f64,
    published_most: f64,
    ours_least: f64,
    ours_most: f64,
}

impl Leads {
    fn add(&mut self, published: f64, ours: f64) {
        if !std::mem::replace(&mut self.any, true) {
            (self.published_least, self.published_most) = (published, published);
            (self.ours_least, self.ours_most) = (ours, ours);
        }
        self.published_least = self.published_least.min(published);
        self.published_most = self.published_most.max(published);
        self.ours_least = self.ours_least.min(ours);
        self.ours_most = self.ours_most.max(ours);
    }

    fn published(&self) -> String {
        format!("{:.0} to {:.0}", self.published_least, self.published_most)
    }

    fn ours(&self) -> String {
        format!("{:.1} to {:.1}", self.ours_least, self.ours_most)
    }
}

/// `+3.2 ± 0.4 points`.
fn points(of: &Summary) -> String {
    format!("{:+.1} ± {:.1} points", of.mean, of.half_width)
}

fn times(of: &Summary) -> String {
    format!("{:.2}×", of.mean)
}
