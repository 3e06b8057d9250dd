//! Events that happened and are in no trace, by why.

use crate::spool::facts::{FactReader, FactWriter};
use std::ops::AddAssign;

/// Counts of events; see the fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Of signal handlers that came while their thread was in a hook.
    pub interrupting: u64,
    /// Of threads that could be given no ring.
    pub ringless: u64,
    /// For which the disk had no room, or that it did not take.
    pub unstored: u64,
    /// Stacks that were compared with a plain walk; no loss.
    pub compared: u64,
    /// Those of them that were not the same; their events are there.
    pub differing: u64,
}

impl Lost {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.interrupting + self.ringless + self.unstored
    }

    /// As a part of a fact.
    pub fn write(&self, fact: FactWriter) -> FactWriter {
        let fact = fact.number(self.interrupting).number(self.ringless).number(self.unstored);
        fact.number(self.compared).number(self.differing)
    }

    /// What [`write`](Self::write) wrote.
    pub fn read(fact: &mut FactReader<'_>) -> Option<Lost> {
        let (interrupting, ringless) = (fact.number()?, fact.number()?);
        let unstored = fact.number()?;
        let (compared, differing) = (fact.number()?, fact.number()?);
        Some(Lost { interrupting, ringless, unstored, compared, differing })
    }

    /// For the user: what is missing, why, and what helps.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let causes = [
            (
                self.interrupting,
                "of signal handlers are missing: each interrupted a call that was being recorded",
            ),
            (
                self.ringless,
                "of threads are missing for which no shared memory could be had (4 MiB for each \
                 sixteen threads)",
            ),
            (self.unstored, "are missing because the file could not be written on"),
        ];
        let told = causes.into_iter().filter(|(count, _)| *count > 0);
        let events = told.map(|(count, why)| format!("{count} events {why}"));
        let Lost { compared, differing, .. } = *self;
        let checked = format!(
            "{compared} call stacks were compared with plain walks; {differing} were not the same"
        );
        events.chain((compared > 0).then_some(checked))
    }
}

impl AddAssign for Lost {
    fn add_assign(&mut self, more: Lost) {
        self.interrupting += more.interrupting;
        self.ringless += more.ringless;
        self.unstored += more.unstored;
        self.compared += more.compared;
        self.differing += more.differing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_a_note_of_its_own() {
        let mut lost = Lost { interrupting: 2, ..Lost::default() };
        lost += Lost { unstored: 3, ..Lost::default() };
        let fact = lost.write(FactWriter::default());
        assert_eq!(Lost::read(&mut FactReader(fact.bytes())), Some(lost));
        let notes: Vec<String> = lost.notes().collect();
        assert_eq!((lost.total(), notes.len()), (5, 2));
        assert!(notes[0].starts_with("2 events of signal handlers"), "{notes:?}");
        assert!(notes[1].starts_with("3 events are missing because the file"), "{notes:?}");
    }
}
