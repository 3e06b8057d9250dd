//! What programs came to: every recording's values, each policy's means, and the answer in sentences.
//!
//! Invariant: a program either has all of its recordings or is missing, with the reason.

use super::compare::{Compared, Tally, Verdict};
use super::{MEASURES, Measure, Plan, Program, SCHEMA_VERSION, Target};
use crate::results::{Outcome, Steps};
use crate::studies::class::{Basis, Class};
use crate::studies::statistics::Summary;
use serde::Serialize;
use std::collections::BTreeMap;

/// One recording, replayed on every policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Recording {
    /// Variables of padding in the program's environment.
    pub padding: usize,
    /// Events replayed.
    pub events: u64,
    /// Most bytes alive.
    pub peak_live: u64,
    /// One for each policy.
    pub policies: Vec<Replayed>,
}

/// One recording on one policy.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Replayed {
    /// The policy.
    pub name: String,
    /// By key of a measure; one that was not measured is not there.
    pub measures: BTreeMap<&'static str, f64>,
    /// Steps of its calls.
    pub steps: Steps,
}

impl Recording {
    /// Of what the policies came to.
    pub fn of(padding: usize, peak_live: u64, outcomes: &[Outcome]) -> Recording {
        let replayed = |outcome: &Outcome| Replayed {
            name: outcome.name.clone(),
            measures: MEASURES.iter().filter_map(|m| Some((m.key, (m.get)(outcome)?))).collect(),
            steps: outcome.steps.unwrap_or_default(),
        };
        let events = outcomes.iter().map(|outcome| outcome.events).max().unwrap_or(0);
        Recording { padding, events, peak_live, policies: outcomes.iter().map(replayed).collect() }
    }
}

/// One policy over all recordings of a program.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    /// The policy.
    pub name: String,
    /// By key of a measure.
    pub measures: BTreeMap<&'static str, Summary>,
    /// By key of a measure, beside the target's rival; empty for the rival itself.
    pub to_rival: BTreeMap<&'static str, Compared>,
    /// Its steps: the mean of the means, else the greatest.
    pub steps: Steps,
}

/// What one program came to.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Found {
    /// The program.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Why there are no figures.
    pub missing: Option<String>,
    /// In the order of their padding.
    pub recordings: Vec<Recording>,
    /// One for each policy.
    pub policies: Vec<Judged>,
}

impl Found {
    /// Of a program's recordings.
    pub fn of(plan: &Plan, program: &Program, recordings: Vec<Recording>) -> Found {
        let mut found =
            Found { missing: None, recordings, ..Found::missing(program, String::new()) };
        let judged = |name: &String| found.judge(name, &plan.target.at_most);
        let policies = plan.policies.iter().map(judged).collect();
        found.policies = policies;
        found
    }

    /// A program without figures.
    pub fn missing(program: &Program, why: String) -> Found {
        Found {
            name: program.name.clone(),
            about: program.about.clone(),
            missing: Some(why),
            recordings: Vec::new(),
            policies: Vec::new(),
        }
    }

    fn judge(&self, name: &str, rival: &str) -> Judged {
        let steps = self.replays(name).map(|one| one.steps).collect::<Vec<_>>();
        let most = |get: fn(&Steps) -> u64| steps.iter().map(get).max().unwrap_or(0);
        let means: Vec<f64> = steps.iter().map(|one| one.mean).collect();
        let summary = |m: &Measure| Some((m.key, Summary::of(&self.values(name, m)?)));
        let beside = |m: &Measure| Some((m.key, self.compare(name, rival, m)?));
        let others = MEASURES.iter().filter(|_| name != rival);
        Judged {
            name: name.to_owned(),
            measures: MEASURES.iter().filter_map(summary).collect(),
            to_rival: others.filter_map(beside).collect(),
            steps: Steps {
                total: most(|one| one.total),
                mean: Summary::of(&means).mean,
                p99: most(|one| one.p99),
                max: most(|one| one.max),
            },
        }
    }

    fn replays(&self, name: &str) -> impl Iterator<Item = &Replayed> {
        self.recordings.iter().filter_map(move |all| all.policies.iter().find(|p| p.name == name))
    }

    /// A policy's values, one for each recording; `None` where one was not measured.
    fn values(&self, name: &str, measure: &Measure) -> Option<Vec<f64>> {
        let values: Vec<f64> =
            self.replays(name).filter_map(|one| one.measures.get(measure.key).copied()).collect();
        (!values.is_empty() && values.len() == self.recordings.len()).then_some(values)
    }

    fn compare(&self, one: &str, other: &str, measure: &Measure) -> Option<Compared> {
        Some(Compared::of(&self.values(one, measure)?, &self.values(other, measure)?))
    }

    /// By which measures, by their titles, `one` got this verdict beside `other`.
    pub fn verdicts(&self, one: &str, other: &str, verdict: Verdict) -> Vec<&'static str> {
        let got = |m: &&Measure| self.compare(one, other, m).is_some_and(|c| c.verdict == verdict);
        MEASURES.iter().filter(got).map(|measure| measure.title).collect()
    }
}

/// One policy over all programs and measures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Counted {
    /// The policy.
    pub name: String,
    /// How it fares beside the target's rival; `None` for that one.
    pub beside_rival: Option<Tally>,
    /// How the target's policy fares beside it; `None` for that one.
    pub target_beside: Option<Tally>,
}

impl Counted {
    fn of(name: &str, target: &Target, traces: &[Found]) -> Counted {
        let tally = |one: &str, other: &str| {
            (one != other).then(|| Tally::of(comparisons(traces, one, other)))
        };
        Counted {
            name: name.to_owned(),
            beside_rival: tally(name, &target.at_most),
            target_beside: tally(&target.of, name),
        }
    }
}

/// Everything found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Results {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// `fragmentation`.
    pub study: &'static str,
    /// The target.
    pub target: Target,
    /// How often each program was recorded.
    pub recordings: usize,
    /// How the target's policy fares beside its rival.
    pub tally: Tally,
    /// The same of every policy, in the order of the file.
    pub counted: Vec<Counted>,
    /// [`Plan::note`].
    pub note: String,
    /// One for each program, in the order of the file.
    pub traces: Vec<Found>,
}

impl Results {
    /// Of all programs together.
    pub fn of(plan: &Plan, traces: Vec<Found>) -> Results {
        let tally = Tally::of(comparisons(&traces, &plan.target.of, &plan.target.at_most));
        Results {
            schema_version: SCHEMA_VERSION,
            study: "fragmentation",
            target: plan.target.clone(),
            recordings: plan.recordings,
            tally,
            counted: plan
                .policies
                .iter()
                .map(|name| Counted::of(name, &plan.target, &traces))
                .collect(),
            note: plan.note.trim().to_owned(),
            traces,
        }
    }

    /// In a few sentences.
    pub fn answer(&self) -> String {
        let Target { of, at_most, .. } = &self.target;
        let missing = self.traces.iter().filter(|found| found.missing.is_some()).count();
        let tally = &self.tally;
        let chosen = if self.target.fitted {
            format!(" (no prediction: {of} was chosen on these programs)")
        } else {
            String::new()
        };
        let mut text = format!(
            "Memory that nobody can use, between blocks and within them, is what an allocator loses. Over {} recordings of each of {} programs, by {} measures of it, {of} loses on average at most as \
             much as {at_most} in {} (clearly less in {}), not distinguishably more in {}, more in {} of {} \
             comparisons{chosen}.",
            self.recordings,
            self.traces.len() - missing,
            MEASURES.len(),
            tally.at_most,
            tally.clearly_less,
            tally.no_difference,
            tally.more,
            tally.all(),
        );
        text += &self.named("Not distinguishable", Verdict::NoDifference);
        text += &self.named("More", Verdict::More);
        if missing > 0 {
            text += &format!(" {missing} could not be recorded here.");
        }
        text
    }

    /// What is said of the target on a program by one measure.
    pub fn class(&self, found: &Found, measure: &Measure) -> Option<Class> {
        let Target { of, at_most, fitted } = &self.target;
        let basis = if *fitted { Basis::Fitted } else { Basis::Predicted };
        // What a program allocates depends on its environment: one recording is a draw.
        let difference = found.compare(of, at_most, measure)?.difference;
        Some(Class::of(basis, difference.into(), (f64::NEG_INFINITY, 0.0)))
    }

    /// The comparisons with this verdict, by program; nothing where there are none.
    fn named(&self, what: &str, verdict: Verdict) -> String {
        let Target { of, at_most, .. } = &self.target;
        let by_program = self.traces.iter().filter_map(|found| {
            let titles = found.verdicts(of, at_most, verdict);
            (!titles.is_empty()).then(|| format!("{} ({})", found.name, titles.join(", ")))
        });
        let all: Vec<String> = by_program.collect();
        if all.is_empty() { String::new() } else { format!(" {what}: {}.", all.join("; ")) }
    }
}

fn comparisons<'a>(
    traces: &'a [Found],
    one: &'a str,
    other: &'a str,
) -> impl Iterator<Item = Compared> + 'a {
    let of =
        move |found: &'a Found| MEASURES.iter().filter_map(move |m| found.compare(one, other, m));
    traces.iter().flat_map(of)
}
