//! What a replay on the malloc can be told: the machine, and the values that the malloc decides by.

use freehold_core::malloc::decisions::{Decision, Decisions};
use std::sync::{Mutex, PoisonError};

/// The machine and the malloc's decisions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Bytes of a page: a power of two from 4 KiB to 64 KiB.
    pub page: usize,
    /// Whether the machine gives huge pages of 2 MiB where the malloc asks for them.
    pub huge_pages: bool,
    /// How many times faster than recorded the program runs: the purger's clock. A replay on the real library leaves out
    /// the program's own computing, so it is many times faster than the program was.
    pub speed: f64,
    /// Bytes that the malloc may have; `None`: no limit.
    pub limit: Option<u64>,
    /// Most points of the series over time, at least 2.
    pub points: usize,
    /// Only so many events are replayed; `None`: all.
    pub first: Option<u64>,
    /// What the malloc decides by.
    pub decisions: Decisions,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            page: 4096,
            huge_pages: false,
            speed: 1.0,
            limit: None,
            points: crate::measure::MAX_POINTS,
            first: None,
            decisions: Decisions::SHIPPED,
        }
    }
}

/// What the malloc's structures allow where not every number makes sense: its bits come in words of 64, its counts in 16 bits, and
/// nothing is divided by zero.
const BOUNDS: &[(&str, usize, usize)] = &[
    ("stack.blocks", 1, 4096),
    ("batch.blocks", 1, 64),
    ("parcel.blocks", 1, 64),
    ("reserve.share", 1, usize::MAX),
    ("slabs.shared-waits", 0, u8::MAX as usize),
    ("sparse.frees", 1, u16::MAX as usize),
    ("purge.rest", 0, 1000),
    ("purge.round", 1, 3_600_000),
    ("purge.patience", 0, 3_600_000),
    ("resize.creep", 1, usize::MAX),
];

/// Why a setting cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// Not `NAME=VALUE`.
    #[error("{text:?} is not NAME=VALUE, such as reserve.bytes=2M")]
    Form {
        /// What was given.
        text: String,
    },
    /// No such decision.
    #[error("no decision is called {name:?}{offer}; there are {all}")]
    Unknown {
        /// The name.
        name: String,
        /// The nearest name, as a clause.
        offer: String,
        /// All names.
        all: String,
    },
    /// Not a number.
    #[error("{name}={value}: a number such as 8, 64K or 2MiB is wanted, or `off`")]
    Number {
        /// The decision.
        name: String,
        /// The value.
        value: String,
    },
    /// A number that the malloc's structures do not allow.
    #[error("{name}={value}: {least} to {most} is possible")]
    Bounds {
        /// The decision.
        name: String,
        /// The value.
        value: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
    /// Has no value at which nothing is done.
    #[error("{name} cannot be off: its mechanism is part of every call; give a number")]
    NotOff {
        /// The decision.
        name: String,
    },
    /// Not a page size.
    #[error("pages have 4K, 8K, 16K, 32K or 64K, not {bytes} bytes")]
    Page {
        /// What was given.
        bytes: u64,
    },
    /// Not a speed.
    #[error("a number above 0 is wanted, such as 1 (as recorded) or 20")]
    Speed,
}

/// Every decision with its name, its reason and what is shipped.
pub fn decisions() -> &'static [Decision] {
    Decisions::ALL
}

impl Settings {
    /// Changes one decision, as `reserve.bytes=2M` says, or `reserve.bytes=off`.
    ///
    /// # Errors
    /// When there is no such decision, or it cannot have the value.
    pub fn set(&mut self, text: &str) -> Result<(), SettingsError> {
        let form = || SettingsError::Form { text: text.to_owned() };
        let (name, value) = text.split_once('=').ok_or_else(form)?;
        let decision = find(name.trim())?;
        let value = within_bounds(decision.name, value_of(decision, value.trim())?)?;
        *(decision.of)(&mut self.decisions) = value;
        Ok(())
    }

    /// Sets the page size.
    ///
    /// # Errors
    /// When no machine has pages of so many bytes.
    pub fn set_page(&mut self, bytes: u64) -> Result<(), SettingsError> {
        if !bytes.is_power_of_two() || !(4096..=65536).contains(&bytes) {
            return Err(SettingsError::Page { bytes });
        }
        self.page = bytes as usize;
        Ok(())
    }

    /// Sets how many times faster than recorded the program runs.
    ///
    /// # Errors
    /// When that is not a number above zero.
    pub fn set_speed(&mut self, speed: f64) -> Result<(), SettingsError> {
        if !(speed.is_finite() && speed > 0.0) {
            return Err(SettingsError::Speed);
        }
        self.speed = speed;
        Ok(())
    }

    /// The decisions that are not as shipped, by name.
    pub fn changed(&self) -> Vec<(&'static str, usize)> {
        let mut decisions = self.decisions;
        let value = |one: &Decision| (one.name, *(one.of)(&mut decisions), one.shipped);
        let all = Decisions::ALL.iter().map(value);
        all.filter(|(_, value, shipped)| value != shipped).map(|(name, is, _)| (name, is)).collect()
    }

    /// The decisions for as long as the program runs: a machine returns them by reference. The same set is kept once.
    pub(super) fn kept_decisions(&self) -> &'static Decisions {
        static KEPT: Mutex<Vec<&'static Decisions>> = Mutex::new(Vec::new());
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().find(|one| ***one == self.decisions);
        known.copied().unwrap_or_else(|| {
            let new: &'static Decisions = Box::leak(Box::new(self.decisions));
            kept.push(new);
            new
        })
    }
}

fn find(name: &str) -> Result<&'static Decision, SettingsError> {
    let all = Decisions::ALL;
    all.iter().find(|one| one.name == name).ok_or_else(|| {
        let near = |one: &&Decision| strsim::jaro_winkler(name, one.name);
        let nearest = all.iter().max_by(|a, b| near(a).total_cmp(&near(b)));
        let offer = nearest.filter(|one| near(one) > 0.7);
        SettingsError::Unknown {
            name: name.to_owned(),
            offer: offer.map_or(String::new(), |one| format!(", did you mean {}?", one.name)),
            all: all.iter().map(|one| one.name).collect::<Vec<_>>().join(", "),
        }
    })
}

fn value_of(decision: &Decision, value: &str) -> Result<usize, SettingsError> {
    if value == "off" {
        let name = || decision.name.to_owned();
        return decision.off.ok_or_else(|| SettingsError::NotOff { name: name() });
    }
    let number = crate::human::parse_bytes(value).and_then(|bytes| usize::try_from(bytes).ok());
    number.ok_or_else(|| SettingsError::Number {
        name: decision.name.to_owned(),
        value: value.to_owned(),
    })
}

fn within_bounds(name: &str, value: usize) -> Result<usize, SettingsError> {
    match BOUNDS.iter().find(|(bound, ..)| *bound == name) {
        Some(&(_, least, most)) if !(least..=most).contains(&value) => {
            Err(SettingsError::Bounds { name: name.to_owned(), value, least, most })
        }
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_set_by_name() {
        let mut settings = Settings::default();
        settings.set("reserve.bytes=2M").unwrap();
        settings.set("purge.from = off").unwrap();
        settings.set("slabs.kept=0").unwrap();
        assert_eq!(settings.decisions.reserve_bytes, 2 << 20);
        assert_eq!(
            settings.changed(),
            [("reserve.bytes", 2 << 20), ("slabs.kept", 0), ("purge.from", usize::MAX)]
        );
        let kept = settings.kept_decisions();
        assert!(std::ptr::eq(kept, settings.kept_decisions()), "kept once");
    }

    #[test]
    fn bounds_are_those_of_decisions_and_hold_what_is_shipped() {
        for (name, least, most) in BOUNDS {
            let decision = find(name).unwrap();
            assert!((*least..=*most).contains(&decision.shipped), "{name}");
            assert!(decision.off.is_none_or(|off| (*least..=*most).contains(&off)), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_the_way_out() {
        let said = |text: &str| Settings::default().set(text).unwrap_err().to_string();
        let unknown = said("reserve.byte=1");
        assert!(unknown.contains("did you mean reserve.bytes?"), "{unknown}");
        assert!(unknown.contains("batch.first, reserve.bytes"), "all are listed: {unknown}");
        assert!(said("zzz=1").starts_with("no decision is called \"zzz\"; there are"));
        assert!(said("reserve.bytes").contains("is not NAME=VALUE"));
        assert!(said("reserve.bytes=much").contains("64K or 2MiB"));
        assert!(said("stack.bytes=off").starts_with("stack.bytes cannot be off"));
        assert_eq!(said("batch.blocks=65"), "batch.blocks=65: 1 to 64 is possible");
        assert!(said("purge.round=0").contains("1 to 3600000"));
        assert!(Settings::default().set_page(12 << 10).is_err());
        assert_eq!(Settings::default().set_page(16 << 10), Ok(()));
    }
}
