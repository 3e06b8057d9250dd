//! What the facts of a spool say: the recording, its processes, and what is missing.

use super::Ended;
use crate::blank::{self, Page};
use crate::lost::Lost;
use crate::smaps::{self, Row};
use crate::spool::facts::FactReader;
use crate::spool::{Kind, Spool};
use freehold_record::hello::NOBODY;
use freehold_trace::resident::MOST_SAMPLES;
use freehold_trace::{Begin, Ending, Header, ProcessId, ProcessInfo, ThreadId};
use std::collections::BTreeMap;

/// A process as its facts describe it.
pub struct Process {
    /// For the trace.
    pub info: ProcessInfo,
    /// The thread that forked it; none where unknown.
    pub forked_by: Option<ThreadId>,
    /// When it was forked, or began.
    pub tick: u64,
    /// Its end was seen, or its exec.
    pub ended: bool,
    /// The moments at which its map was read that go into the trace, in the order of time.
    pub looks: Vec<Look>,
    /// At how many looks it called itself how.
    titles: BTreeMap<String, u32>,
}

/// A moment at which a process's map was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    /// When.
    pub tick: u64,
    /// The process was about to end.
    pub at_end: bool,
    /// Bytes in memory.
    resident: u64,
    /// Which fact of the spool it is.
    fact: usize,
}

impl Process {
    /// It called itself so at a look. Its name is what it was called most often: "… is shutting down" comes late and is seen once.
    fn call(&mut self, title: String) {
        *self.titles.entry(title).or_insert(0) += 1;
        // Of several, the shortest beginning.
        let most = self.titles.iter().rev().max_by_key(|(_, looks)| **looks);
        self.info.title = most.map_or_else(String::new, |(title, _)| title.clone());
    }
}

impl Look {
    /// The rows of the map, and the pages that were read.
    pub fn seen(&self, spool: &Spool) -> Option<(Vec<Row>, Vec<Page>)> {
        let mut fact = spool.facts.get(self.fact)?.reader();
        let (_tick, _end, _mark, _title) =
            (fact.number()?, fact.number()?, fact.number()?, fact.text()?);
        Some((smaps::read(&mut fact)?, blank::read_back(&mut fact)?))
    }
}

/// The facts of a recording.
#[derive(Default)]
pub struct Plan {
    /// The tick at which the recording began.
    pub origin: u64,
    /// Processes by number.
    pub processes: BTreeMap<u32, Process>,
    /// Events that are not in the spool.
    pub lost: Lost,
    started_unix_ms: u64,
    recorder: String,
    command: Vec<String>,
    /// Which events have stacks: see `freehold_record::hello`.
    pub stacks: u32,
    ticks_per_second: u64,
    whole: bool,
    cut_off: u64,
    alive: u64,
}

impl Plan {
    /// Reads the facts. None without the first of them.
    pub fn read(spool: &Spool) -> Option<Plan> {
        let mut plan = Plan { cut_off: spool.cut_off, ..Plan::default() };
        let (first, rest) = spool.facts.split_first()?;
        if first.kind != Kind::Start {
            return None;
        }
        plan.start(first.reader())?;
        for (before, fact) in rest.iter().enumerate() {
            // A fact that makes no sense is as good as none.
            let _ = match fact.kind {
                Kind::Process => plan.process(fact.process, fact.reader()),
                Kind::Look => plan.look(fact.process, fact.reader(), before + 1),
                Kind::End => plan.end(fact.process, fact.reader()),
                Kind::Clock => plan.clock(fact.reader()),
                Kind::Finish => plan.finish(fact.reader()),
                Kind::Start | Kind::Events | Kind::RawEvents | Kind::PlainEvents => None,
            };
        }
        for process in plan.processes.values_mut() {
            thin(&mut process.looks);
        }
        Some(plan)
    }

    fn start(&mut self, mut fact: FactReader<'_>) -> Option<()> {
        self.origin = fact.number()?;
        self.started_unix_ms = fact.number()?;
        self.recorder = fact.text()?;
        self.command = fact.texts()?;
        self.stacks = fact.number()? as u32;
        Some(())
    }

    fn process(&mut self, number: u32, mut fact: FactReader<'_>) -> Option<()> {
        let begins = fact.number()?;
        let parent = fact.number()? as u32;
        let forked_by = fact.number()? as u32;
        let tick = fact.number()?;
        let os_pid = fact.number()? as u32;
        let command = fact.texts()?;
        // Spools of earlier recorders end here.
        let told = fact.text().unwrap_or_default();
        let malloc = if begins == 1 { self.malloc_of(parent) } else { told };
        let info = ProcessInfo {
            id: ProcessId(number),
            parent: self.processes.contains_key(&parent).then_some(ProcessId(parent)),
            begins: match begins {
                1 => Begin::Fork,
                2 => Begin::Exec,
                _ => Begin::Root,
            },
            os_pid,
            command,
            malloc,
            ..ProcessInfo::default()
        };
        let forked_by = (forked_by != NOBODY).then_some(ThreadId(forked_by));
        self.processes.insert(
            number,
            Process {
                info,
                forked_by,
                tick,
                ended: false,
                looks: Vec::new(),
                titles: BTreeMap::new(),
            },
        );
        Some(())
    }

    /// A forked child has its parent's.
    fn malloc_of(&self, parent: u32) -> String {
        self.processes.get(&parent).map_or_else(String::new, |known| known.info.malloc.clone())
    }

    fn look(&mut self, number: u32, mut fact: FactReader<'_>, at: usize) -> Option<()> {
        let process = self.processes.get_mut(&number)?;
        let (tick, at_end, high_water) = (fact.number()?, fact.number()? == 1, fact.number()?);
        let title = fact.text()?;
        if !title.is_empty() {
            process.call(title);
        }
        if high_water > 0 {
            process.info.high_water = process.info.high_water.max(Some(high_water));
        }
        let resident = smaps::read(&mut fact)?.iter().map(|row| row.resident).sum();
        process.looks.push(Look { tick, at_end, resident, fact: at });
        Some(())
    }

    fn end(&mut self, number: u32, mut fact: FactReader<'_>) -> Option<()> {
        let process = self.processes.get_mut(&number)?;
        let (how, value) = (fact.number()?, fact.number()? as i32);
        process.info.ended = match how {
            1 => Some(Ending::Code(value)),
            2 => Some(Ending::Signal(value)),
            0 => Some(Ending::Unknown),
            _ => None,
        };
        process.ended = how != 4;
        self.alive += u64::from(how == 4);
        Some(())
    }

    fn clock(&mut self, mut fact: FactReader<'_>) -> Option<()> {
        self.ticks_per_second = fact.number()?;
        Some(())
    }

    fn finish(&mut self, mut fact: FactReader<'_>) -> Option<()> {
        self.ticks_per_second = fact.number()?;
        self.lost = Lost::read(&mut fact)?;
        self.whole = true;
        Some(())
    }

    /// The recorder itself says how it ended.
    pub fn end_with(&mut self, ended: Ended) {
        self.ticks_per_second = ended.ticks_per_second;
        self.lost = ended.lost;
        self.whole = true;
    }

    /// The trace's header.
    pub fn header(&self) -> Header {
        Header {
            ticks_per_second: self.ticks_per_second.max(1),
            ticks_are_events: false,
            started_unix_ms: self.started_unix_ms,
            command: self.command.clone(),
            recorder: self.recorder.clone(),
            machine: machine(),
            notes: self.notes(),
        }
    }

    /// What the user should know about what is missing.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.whole {
            let lag = "the last second of it may be missing";
            notes.push(format!("the recorder did not end properly: {lag}"));
        }
        if self.cut_off > 0 {
            notes.push(format!(
                "the last {} bytes of the recording are no whole block",
                self.cut_off
            ));
        }
        notes.extend(self.lost.notes());
        match self.alive {
            0 => {}
            1 => notes.push("a process outlived the program; it is recorded until then".into()),
            n => notes.push(format!("{n} processes outlived the program; recorded until then")),
        }
        notes
    }
}

/// Leaves as many as a trace keeps: the greatest, the last, and others as even in time as they came.
fn thin(looks: &mut Vec<Look>) {
    looks.sort_by_key(|look| look.tick);
    let Some(greatest) = looks.iter().max_by_key(|look| look.resident).copied() else { return };
    let (most, all) = (MOST_SAMPLES - 1, looks.len());
    if all <= MOST_SAMPLES {
        return;
    }
    let mut kept: Vec<Look> = (1..=most).map(|part| looks[part * all / most - 1]).collect();
    if !kept.contains(&greatest) {
        kept.push(greatest);
        kept.sort_by_key(|look| look.tick);
    }
    *looks = kept;
}

fn machine() -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    facts.insert("cpus".to_owned(), cpus.to_string());
    if let Ok(kernel) = std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        facts.insert("kernel".to_owned(), kernel.trim().to_owned());
    }
    facts
}
