//! The improvements by name: each alone, each left out of all, all.

use freehold_sim::mesh::Improve;

/// Something that the proposed allocator does better than it was published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Improvement {
    /// A remote heap is asked by one message instead of two.
    OneMessage,
    /// Hints of how full others were.
    Hints,
    /// Summaries of tiles.
    Summary,
    /// Borrowed pages.
    Pages,
    /// Batched frees.
    Batch,
}

impl Improvement {
    /// Every improvement.
    pub const ALL: [Improvement; 5] = [
        Improvement::OneMessage,
        Improvement::Hints,
        Improvement::Summary,
        Improvement::Pages,
        Improvement::Batch,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Improvement::OneMessage => "one-message",
            Improvement::Hints => "hints",
            Improvement::Summary => "summary",
            Improvement::Pages => "pages",
            Improvement::Batch => "batch",
        }
    }

    /// What it is, in a line.
    pub const fn about(self) -> &'static str {
        match self {
            Improvement::OneMessage => {
                "a remote heap is locked, searched and unlocked by one message"
            }
            Improvement::Hints => "heaps that lately said they were full are asked last",
            Improvement::Summary => "the middle node of a tile knows who has room",
            Improvement::Pages => "a page is borrowed instead of a block",
            Improvement::Batch => "frees of others' blocks travel together, unwaited for",
        }
    }
}

/// Those of `chosen`, with the parameters of `all`.
pub fn only(all: &Improve, chosen: &[Improvement]) -> Improve {
    let has = |one| chosen.contains(&one);
    let none = Improve::default();
    Improve {
        one_message: has(Improvement::OneMessage),
        trusted_for: if has(Improvement::Hints) { all.trusted_for } else { none.trusted_for },
        summary: has(Improvement::Summary),
        page_bytes: if has(Improvement::Pages) { all.page_bytes } else { none.page_bytes },
        batch: if has(Improvement::Batch) { all.batch } else { none.batch },
        batch_age: if has(Improvement::Batch) { all.batch_age } else { none.batch_age },
    }
}

/// The sets to compare: none, each alone, all, all but each; and what the plots call improved.
pub fn sets(improved: &[Improvement]) -> Vec<(String, Vec<Improvement>)> {
    let all = Improvement::ALL;
    let mut sets = vec![("none".to_owned(), Vec::new())];
    sets.extend(all.map(|one| (one.name().to_owned(), vec![one])));
    sets.push(("all".to_owned(), all.to_vec()));
    sets.extend(all.map(|one| {
        let rest = all.into_iter().filter(|&other| other != one).collect();
        (format!("all but {}", one.name()), rest)
    }));
    sets.push(("improved".to_owned(), improved.to_vec()));
    sets
}
