//! What is changed alone, and where it is looked for: one entry a cause.

use super::{Against, Look, Spec};

/// Every one of them, as the account names them.
pub(super) const ABLATIONS: &[Spec] = &[
    Spec {
        key: "same-path",
        title: "DmRT goes the path of the others",
        changes: &["cases.1.dmrt=local", "cases.2.dmrt=local"],
        looks: &[lead(1, 1000, "dlmalloc"), lead(1, 1000, "tlsf"), lead(2, 1000, "dlmalloc")],
    },
    Spec {
        key: "existing-25",
        title: "Existing allocators get a quarter of every memory",
        changes: &["what_if.existing_capacity=25"],
        looks: &[lead(4, 1000, "dlmalloc"), lead(4, 1000, "tcmalloc"), lead(4, 1000, "tlsf")],
    },
    Spec {
        key: "existing-50",
        title: "Existing allocators get half of every memory",
        changes: &["what_if.existing_capacity=50"],
        looks: &[lead(4, 1000, "dlmalloc"), lead(4, 1000, "tcmalloc"), lead(4, 1000, "tlsf")],
    },
    Spec {
        key: "complete",
        title: "The search goes on until every node was tried",
        changes: &["place.search=complete"],
        looks: &[
            satisfied(2, 1000, "dmrt"),
            satisfied(1, 1000, "dmrt"),
            look(2, 1000, "time", "dmrt", Against::Nothing),
        ],
    },
    Spec {
        key: "second-look",
        title: "DmRT looks at four blocks more before it gives up",
        changes: &["dmrt.second_look=4"],
        looks: &[
            satisfied(1, 1000, "dmrt"),
            look(1, 1000, "external", "dmrt", Against::Nothing),
            look(1, 1000, "time", "dmrt", Against::Nothing),
        ],
    },
    Spec {
        key: "longest",
        title: "DmRT's worst fit takes the longest block, not the head of the highest list",
        changes: &["dmrt.large_fit=longest"],
        looks: &[satisfied(1, 1000, "dmrt"), look(1, 1000, "external", "dmrt", Against::Nothing)],
    },
    Spec {
        key: "no-worst-fit",
        title: "DmRT uses good fit for large blocks, too",
        changes: &["dmrt.large_from=60G"],
        looks: &[satisfied(1, 1000, "dmrt"), look(1, 1000, "external", "dmrt", Against::Nothing)],
    },
    Spec {
        key: "headers",
        title: "Headers cost nothing",
        changes: &["what_if.free_of_charge=8"],
        looks: &[satisfied(4, 1000, "dmrt"), lead(4, 1000, "dlmalloc")],
    },
    Spec {
        key: "capacity-double",
        title: "Twice the memory",
        changes: &["machine.capacity=32M", "machine.shared=64M"],
        looks: &[
            satisfied(1, 1000, "dlmalloc"),
            satisfied(1, 1000, "dmrt"),
            lead(4, 1000, "dlmalloc"),
        ],
    },
    Spec {
        key: "capacity-half",
        title: "Half the memory",
        changes: &["machine.capacity=8M", "machine.shared=16M"],
        looks: &[
            satisfied(1, 1000, "dlmalloc"),
            satisfied(1, 1000, "dmrt"),
            lead(4, 1000, "dlmalloc"),
        ],
    },
    Spec {
        key: "shared-256M",
        title: "Eight times the shared memory, the nodes' as they are",
        changes: &["machine.shared=256M"],
        looks: EVERY_TABLE,
    },
    Spec {
        key: "half-and-256M",
        title: "Half the nodes' memory, eight times the shared",
        changes: &["machine.capacity=8M", "machine.shared=256M"],
        looks: EVERY_TABLE,
    },
    Spec {
        key: "no-large",
        title: "No requests of 2 MiB and more",
        changes: &["sizes.large.weight=0"],
        looks: &[satisfied(1, 1000, "dlmalloc"), satisfied(1, 1000, "dmrt")],
    },
    Spec {
        key: "short-lives",
        title: "Blocks live a tenth as long",
        changes: &["requests_from.lifetime_most=400"],
        looks: &[
            satisfied(1, 1000, "dmrt"),
            satisfied(1, 1000, "dlmalloc"),
            satisfied(1, 100, "dmrt"),
        ],
    },
    Spec {
        key: "empty-machine",
        title: "Nothing is there beforehand",
        changes: &["background.nodes=0", "background.shared=0"],
        looks: &[
            satisfied(1, 1000, "dlmalloc"),
            satisfied(1, 1000, "dmrt"),
            lead(1, 1000, "dlmalloc"),
        ],
    },
    Spec {
        key: "flat",
        title: "All memory is as near as the own node's, and loads are known for nothing",
        changes: &["time.shared_ns=80", "time.remote_ns=80", "time.load_ns=0"],
        looks: &[
            look(2, 1000, "time", "dmrt", Against::Over("tlsf")),
            look(3, 1000, "time", "dmrt", Against::Over("tlsf")),
            look(4, 1000, "time", "dmrt", Against::Over("tlsf")),
        ],
    },
    Spec {
        key: "dear-calls",
        title: "Every call costs ten times a miss, whatever it does",
        changes: &["time.request_ns=10000"],
        looks: &[
            look(3, 1000, "time", "tlsf", Against::Over("dmrt")),
            look(3, 1000, "time", "dlmalloc", Against::Over("dmrt")),
            look(3, 1000, "time", "tcmalloc", Against::Over("dmrt")),
        ],
    },
];

/// DmRT and dlmalloc in each of the twelve tables, by case and then load.
const EVERY_TABLE: &[Look] = &[
    satisfied(1, 100, "dmrt"),
    satisfied(1, 1000, "dmrt"),
    satisfied(1, 2000, "dmrt"),
    satisfied(2, 100, "dmrt"),
    satisfied(2, 1000, "dmrt"),
    satisfied(2, 2000, "dmrt"),
    satisfied(3, 100, "dmrt"),
    satisfied(3, 1000, "dmrt"),
    satisfied(3, 2000, "dmrt"),
    satisfied(4, 100, "dmrt"),
    satisfied(4, 1000, "dmrt"),
    satisfied(4, 2000, "dmrt"),
    satisfied(1, 1000, "dlmalloc"),
    satisfied(3, 1000, "dlmalloc"),
    satisfied(4, 1000, "dlmalloc"),
    // So that all four that are printed run: what brings one nearer takes others away.
    satisfied(1, 1000, "tcmalloc"),
    satisfied(1, 1000, "tlsf"),
];

const fn look(
    case: u32,
    load: u32,
    metric: &'static str,
    of: &'static str,
    against: Against,
) -> Look {
    Look { case, load, metric, of, against }
}

const fn satisfied(case: u32, load: u32, of: &'static str) -> Look {
    look(case, load, "satisfied", of, Against::Nothing)
}

/// By how much DmRT satisfies more than the other.
const fn lead(case: u32, load: u32, over: &'static str) -> Look {
    look(case, load, "satisfied", "dmrt", Against::Less(over))
}
