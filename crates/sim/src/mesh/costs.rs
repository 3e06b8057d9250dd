//! Every parameter of the model, in one table: name, default, range, meaning.
//!
//! The published letter prints no cycle table. These were found once, by fitting its ratios with a quick
//! model before this program existed, and are the same for every experiment, allocator and platform.
//! (Koutras et al. 2016; the ratios: `studies/published/mesh.csv`.)

/// A parameter: what the table says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name, as in the settings.
    pub name: &'static str,
    /// What it is unless set.
    pub default: u64,
    /// The least that makes sense.
    pub least: u64,
    /// The most that makes sense.
    pub most: u64,
    /// What it is, with its unit.
    pub about: &'static str,
}

/// A parameter out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{} must be {} to {}, not {value}: {}", .parameter.name, .parameter.least, .parameter.most, .parameter.about)]
pub struct OutOfRange {
    /// Which.
    pub parameter: Parameter,
    /// What it was to be.
    pub value: u64,
}

macro_rules! parameters {
    ($($name:ident = $default:literal in $least:literal ..= $most:literal, $about:literal;)+) => {
        /// What things cost.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Costs {
            $(#[doc = $about] pub $name: u64,)+
        }

        /// Every parameter, in the order of the table.
        pub const PARAMETERS: &[Parameter] = &[$(Parameter {
            name: stringify!($name), default: $default, least: $least, most: $most, about: $about,
        }),+];

        impl Default for Costs {
            fn default() -> Self {
                Costs { $($name: $default),+ }
            }
        }

        impl Costs {
            /// Every value, in the order of [`PARAMETERS`].
            pub fn values(&self) -> impl Iterator<Item = u64> {
                [$(self.$name),+].into_iter()
            }
        }
    };
}

parameters! {
    router = 1 in 0..=1000, "cycles in each router on the way";
    link = 1 in 1..=1000, "cycles of a flit on a link, which is taken meanwhile";
    interface = 4 in 0..=1000, "cycles of the network interface, at either end";
    flits_out = 2 in 1..=64, "flits of a command";
    flits_back = 2 in 1..=64, "flits of an answer";
    command = 6 in 0..=10_000, "cycles of the core to give its controller a command";
    v2p = 10 in 0..=10_000, "cycles of the controller to translate an address of shared memory";
    lock = 8 in 0..=10_000, "cycles of the controller to test and set a lock";
    unlock = 4 in 0..=10_000, "cycles of the controller to give a lock back";
    alloc = 120 in 0..=10_000, "cycles of the controller to take a block out of a heap";
    free = 80 in 0..=10_000, "cycles of the controller to put a block back";
    full_lazy = 20 in 0..=10_000, "cycles of the controller to find a heap full, lazily";
    full_exhaustive = 90 in 0..=10_000, "cycles of the controller to find a heap full, exhaustively";
    record = 22 in 0..=10_000, "cycles for each record of a priority table";
    message = 12 in 1..=10_000, "microcode instructions for each message between nodes";
    c_call = 30 in 0..=10_000, "cycles of a call in C, in and out";
    c_map = 97 in 0..=10_000, "cycles in C to find the heap of an address in the heap space map";
    c_probe = 15 in 0..=10_000, "cycles in C for each remote heap tried";
    c_alloc = 175 in 0..=10_000, "cycles of the allocator in C to choose and take a block, without its accesses";
    c_free = 120 in 0..=10_000, "cycles of the allocator in C to put a block back, without its accesses";
    c_alloc_accesses = 6 in 0..=1000, "words of metadata that the allocator in C touches to take a block";
    c_free_accesses = 4 in 0..=1000, "words of metadata that it touches to put one back";
    c_access = 12 in 0..=10_000, "cycles of an access to local memory";
    c_hint = 12 in 0..=10_000, "cycles in C to read what was last heard of a heap: a word of local memory";
    c_bit = 2 in 0..=10_000, "cycles in C to test a heap's bit in a word at hand, and go on to the next";
    summary = 8 in 0..=10_000, "cycles of a controller to read or change a word of a summary";
    c_retry = 100 in 1..=100_000, "cycles of rest before the first round over busy heaps; doubled each round";
}

impl Costs {
    /// Whether every parameter is within its range.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), OutOfRange> {
        for (&parameter, value) in PARAMETERS.iter().zip(self.values()) {
            if !(parameter.least..=parameter.most).contains(&value) {
                return Err(OutOfRange { parameter, value });
            }
        }
        Ok(())
    }

    /// Cycles of rest before a round, the first being 1.
    pub fn rest(&self, round: u32) -> u64 {
        self.c_retry << round.saturating_sub(1).min(16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_within_their_ranges_and_names_are_unique() {
        assert_eq!(Costs::default().check(), Ok(()));
        assert!(Costs::default().values().eq(PARAMETERS.iter().map(|p| p.default)));
        let mut names: Vec<_> = PARAMETERS.iter().map(|p| p.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PARAMETERS.len());
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let said = Costs { link: 0, ..Costs::default() }.check().unwrap_err().to_string();
        assert!(said.starts_with("link must be 1 to 1000, not 0: cycles of a flit"), "{said}");
    }

    #[test]
    fn rests_double_and_never_overflow() {
        let costs = Costs::default();
        assert_eq!([1, 2, 3].map(|round| costs.rest(round)), [100, 200, 400]);
        assert!(costs.rest(u32::MAX) < 1 << 30);
    }
}
