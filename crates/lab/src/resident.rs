//! What there is: what a process had in memory when it had most, by what it was for.
//!
//! Events show malloc's part; samples of the process's own map (`freehold_trace::resident`) show all of it. Invariant:
//! the shares are of one sample, so they add up to it; nothing is estimated beyond what the recorder saw.

use crate::human;
use freehold_trace::{Damage, ProcessId, ReadError, Resident, Trace, What};
use serde::Serialize;

/// Shares that are smaller are left out of the sentence, malloc's excepted.
const LEAST_SHARE: f64 = 0.01;
/// Malloc's memory is told apart if it has this many halves of what is in use, and this part of all.
const MUCH_FREE: u64 = 3;
const LEAST_MALLOC: f64 = 0.2;
/// Looks at which at least so much of the most was resident show the peak as well.
const AS_MUCH: f64 = 0.98;
/// How much higher the kernel's own mark must be than what was seen, to be told.
const MISSED: f64 = 1.1;

/// The memory of a process at the moment when most of it was resident.
#[derive(Clone, Debug, Serialize)]
pub struct WhatThereIs {
    /// The process.
    pub process: u32,
    /// When, seconds after the beginning of the recording.
    pub at_s: f64,
    /// Bytes in memory, but for the recorder's own.
    pub resident: u64,
    /// Bytes in swap.
    pub swapped: u64,
    /// Bytes that the kernel says were resident at most, where it was asked: more than was seen, if the peak came between
    /// two samples; the recorder's own are among them.
    pub high_water: Option<u64>,
    /// Malloc's part, whether or not there is any.
    pub malloc: Malloc,
    /// By what it is for, malloc first, then the most resident first.
    pub groups: Vec<Group>,
    /// The sample itself: each mapping's file, runtime or module.
    pub sample: Resident,
}

/// What malloc explains.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Malloc {
    /// Bytes in memory where malloc's blocks lie, or lay.
    pub resident: u64,
    /// Bytes asked for of the blocks that lived.
    pub live: u64,
    /// Of all resident bytes: 0 to 1.
    pub share: f64,
}

/// Memory of one kind.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Group {
    /// What for.
    pub what: What,
    /// In words, as in "V8's own heap".
    pub name: String,
    /// Bytes in memory.
    pub resident: u64,
    /// Of all resident bytes: 0 to 1.
    pub share: f64,
}

/// What `process` had in memory at its peak, and what could not be read; none where nobody looked.
///
/// # Errors
/// When the operating system refuses to read.
pub fn at_peak(
    trace: &Trace,
    process: ProcessId,
) -> Result<(Option<WhatThereIs>, Vec<Damage>), ReadError> {
    let (samples, damage) = trace.residents_of(process)?;
    let peak = fullest(samples);
    let high_water = trace.process(process).and_then(|info| info.high_water);
    let found = peak.filter(|peak| peak.bytes() > 0).map(|sample| {
        let at_s = trace.header().seconds(sample.tick);
        WhatThereIs::of(process, at_s, high_water, sample)
    });
    Ok((found, damage))
}

/// The look at which most was resident; of those that differ by less than [`AS_MUCH`] from it, the one at which malloc had most in
/// use: memory stays resident while a program that ends frees it.
fn fullest(samples: Vec<Resident>) -> Option<Resident> {
    let most = samples.iter().map(Resident::bytes).max()?;
    let malloc = |sample: &Resident| sample.parts.iter().map(|part| part.live).sum::<u64>();
    let as_much = |sample: &Resident| sample.bytes() as f64 >= most as f64 * AS_MUCH;
    samples.into_iter().filter(as_much).max_by_key(|sample| (malloc(sample), sample.bytes()))
}

impl WhatThereIs {
    pub(crate) fn of(
        process: ProcessId,
        at_s: f64,
        high_water: Option<u64>,
        sample: Resident,
    ) -> WhatThereIs {
        let resident = sample.bytes();
        let share = |bytes: u64| bytes as f64 / resident.max(1) as f64;
        let (mut groups, mut malloc): (Vec<Group>, _) = (Vec::new(), Malloc::default());
        for part in sample.parts.iter().filter(|part| part.what != What::Recorder) {
            if part.what == What::Malloc {
                malloc.resident += part.resident;
                malloc.live += part.live;
            }
            let name = in_words(part.what, &part.name);
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.resident += part.resident,
                None => groups.push(Group {
                    what: part.what,
                    name,
                    resident: part.resident,
                    share: 0.0,
                }),
            }
        }
        for group in &mut groups {
            group.share = share(group.resident);
        }
        malloc.share = share(malloc.resident);
        groups.sort_by_key(|group| {
            (group.what != What::Malloc, std::cmp::Reverse(group.resident), group.name.clone())
        });
        let swapped = sample.parts.iter().map(|part| part.swapped).sum();
        WhatThereIs {
            process: process.0,
            at_s,
            resident,
            swapped,
            high_water,
            malloc,
            groups,
            sample,
        }
    }

    /// "95 MB resident at the peak of P3: malloc explains 28 %, V8's own heap 58 %, files 12 %." `of` names the process where
    /// there are several.
    pub fn sentence(&self, of: Option<&str>) -> String {
        let mut parts = vec![format!("malloc explains {}", percent(self.malloc.share))];
        let told = |group: &&Group| group.what != What::Malloc && group.share >= LEAST_SHARE;
        let others = self.groups.iter().filter(told);
        parts.extend(others.map(|group| format!("{} {}", group.name, percent(group.share))));
        let of = of.map_or(String::new(), |name| format!(" of {name}"));
        format!("{} resident at the peak{of}: {}.", human::bytes(self.resident), parts.join(", "))
    }

    /// What must be said beside it: swap, and a peak that came between two samples.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.swapped > 0 {
            remarks.push(format!("{} more were in swap.", human::bytes(self.swapped)));
        }
        if self.malloc.live > 0
            && self.malloc.resident >= self.malloc.live * MUCH_FREE / 2
            && self.malloc.share >= LEAST_MALLOC
        {
            let live = human::bytes(self.malloc.live);
            remarks.push(format!(
                "Of malloc's {}, {live} were in use.",
                human::bytes(self.malloc.resident)
            ));
        }
        let recorder = self.sample.parts.iter().filter(|part| part.what == What::Recorder);
        let own: u64 = recorder.map(|part| part.resident).sum();
        let most = self.high_water.unwrap_or(0).saturating_sub(own);
        if most as f64 > self.resident as f64 * MISSED {
            remarks.push(format!(
                "The kernel's own mark is {}: the very peak came between two looks.",
                human::bytes(most)
            ));
        }
        remarks
    }
}

/// Whole percents: samples are not finer.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What memory of that kind is called; files are told together.
pub(crate) fn in_words(what: What, name: &str) -> String {
    match (what, name) {
        (What::Malloc, _) => "malloc".into(),
        (What::Runtime, name) => format!("{name}'s own heap"),
        (What::Mapped, "") => "mapped by the program".into(),
        (What::Mapped, name) => format!("mapped by {}", name.rsplit('/').next().unwrap_or(name)),
        (What::File, _) => "files".into(),
        (What::Stack, _) => "stacks".into(),
        (What::Shared, _) => "shared memory".into(),
        (What::Huge, _) => "huge pages".into(),
        (What::Recorder, _) => "the recorder".into(),
        (What::Other, _) => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freehold_trace::{Part, Tick};

    fn part(what: What, name: &str, megabytes: u64) -> Part {
        Part { what, name: name.into(), resident: megabytes << 20, ..Part::default() }
    }

    fn there_is(parts: Vec<Part>, high_water: Option<u64>) -> WhatThereIs {
        let sample = Resident { tick: Tick(1), parts, ..Resident::default() };
        WhatThereIs::of(ProcessId(3), 0.5, high_water, sample)
    }

    #[test]
    fn the_sentence_names_each_kind_once_and_malloc_first() {
        let found = there_is(
            vec![
                part(What::Runtime, "V8", 58),
                part(What::Malloc, "", 20),
                part(What::Malloc, "arena", 8),
                part(What::File, "/usr/bin/node", 9),
                part(What::File, "/lib/libc.so.6", 3),
                part(What::Stack, "", 2),
                part(What::Recorder, "", 50),
            ],
            Some(151 << 20),
        );
        assert_eq!(
            found.sentence(None),
            "100 MiB resident at the peak: malloc explains 28 %, V8's own heap 58 %, files 12 %, stacks 2 %."
        );
        assert_eq!(found.remarks(), Vec::<String>::new(), "the recorder explains the mark");
        assert_eq!((found.process, found.malloc.resident), (3, 28 << 20));
    }

    #[test]
    fn of_looks_with_as_much_the_one_with_most_in_use_is_the_peak() {
        let look = |tick, resident, live: u64| {
            let part = Part { live: live << 20, ..part(What::Malloc, "", resident) };
            Resident { tick: Tick(tick), parts: vec![part], ..Resident::default() }
        };
        let of = |looks: [Resident; 3]| fullest(looks.into()).unwrap().tick.0;
        assert_eq!(of([look(1, 99, 90), look(2, 100, 2), look(3, 50, 50)]), 1);
        assert_eq!(of([look(1, 90, 90), look(2, 100, 2), look(3, 50, 50)]), 2);
    }

    #[test]
    fn a_program_without_malloc_is_told_so() {
        let found = there_is(vec![part(What::Mapped, "/opt/app", 10)], Some(20 << 20));
        assert_eq!(
            found.sentence(Some("P3")),
            "10.0 MiB resident at the peak of P3: malloc explains 0 %, mapped by app 100 %."
        );
        assert_eq!(found.remarks().len(), 1, "the kernel saw twice as much");
    }
}
