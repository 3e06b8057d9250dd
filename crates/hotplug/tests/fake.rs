//! Parser, planner and apply against folders that look like a machine.

use freehold_core::frames::Interleave;
use freehold_hotplug::apply::{Outcome, Writer, apply, restore};
use freehold_hotplug::{Machine, Plan, Tree, TreeError, Verdict, Wanted};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Frames of a fake block, and bytes of a frame.
const FRAMES: usize = 64;
const PAGE: u64 = 4096;

const FREE: u64 = 1 << 10;
const USER: u64 = 1 << 5 | 1 << 12;
const SLAB: u64 = 1 << 7;
const TABLE: u64 = 1 << 26;

/// A machine in a folder: blocks of `node`, `zone` and so many used, slab and page-table pages.
struct Fake {
    folder: tempfile::TempDir,
    flags: Vec<u64>,
    free: Vec<(u32, u64)>,
    blocks: u64,
}

impl Fake {
    fn new() -> Fake {
        let folder = tempfile::tempdir().expect("a folder");
        let fake = Fake { folder, flags: Vec::new(), free: Vec::new(), blocks: 0 };
        fake.put(
            "sys/devices/system/memory/block_size_bytes",
            &format!("{:x}\n", FRAMES as u64 * PAGE),
        );
        fake.put("sys/devices/system/memory/auto_online_blocks", "offline\n");
        fake
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        std::fs::write(path, text).expect("it can be written");
    }

    fn block(&mut self, node: u32, zone: &str, state: &str, pages: [(u64, usize); 3]) -> u64 {
        let number = self.blocks;
        self.blocks += 1;
        let folder = format!("sys/devices/system/memory/memory{number}");
        self.put(&format!("{folder}/state"), &format!("{state}\n"));
        self.put(&format!("{folder}/removable"), "1\n");
        self.put(&format!("{folder}/valid_zones"), &format!("{zone}\n"));
        self.put(&format!("{folder}/phys_index"), &format!("{number:08x}\n"));
        self.put(&format!("{folder}/node{node}/x"), "");
        let start = self.flags.len();
        for (flags, count) in pages {
            self.flags.extend(std::iter::repeat_n(flags, count));
        }
        self.flags.resize(start + FRAMES, FREE);
        if state == "online" {
            let free = FRAMES - pages.iter().map(|page| page.1).sum::<usize>();
            self.free.push((node, free as u64));
        }
        number
    }

    /// A block of node 0 with so many pages of programs.
    fn used(&mut self, used: usize) -> u64 {
        self.block(0, "Movable", "online", [(USER, used), (FREE, 0), (FREE, 0)])
    }

    fn tree(&self) -> Tree {
        let words = |words: &[u64]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>();
        std::fs::create_dir_all(self.folder.path().join("proc")).expect("it can be made");
        let proc = |name: &str| self.folder.path().join("proc").join(name);
        std::fs::write(proc("kpageflags"), words(&self.flags)).expect("it can be written");
        let counts: Vec<u64> = self.flags.iter().map(|&flags| u64::from(flags == USER)).collect();
        std::fs::write(proc("kpagecount"), words(&counts)).expect("it can be written");
        let mut zones = String::new();
        for node in self.free.iter().map(|free| free.0).collect::<BTreeSet<_>>() {
            let free: u64 = self.free.iter().filter(|f| f.0 == node).map(|f| f.1).sum();
            let _ = write!(
                zones,
                "Node {node}, zone  Movable\n  pages free     {free}\n        high     10\n        present  999\n"
            );
        }
        self.put("proc/zoneinfo", &zones);
        Tree::at(self.folder.path())
    }

    fn machine(&self) -> Machine {
        Machine::read(&self.tree(), PAGE).expect("a machine")
    }

    fn state(&self, block: u64) -> String {
        let file = format!("sys/devices/system/memory/memory{block}/state");
        std::fs::read_to_string(self.folder.path().join(file)).expect("it is there").trim().into()
    }
}

fn planned(plan: &Plan) -> Vec<Vec<u64>> {
    plan.sets.iter().map(|set| set.blocks.clone()).collect()
}

/// Everything may be emptied, however full.
fn all() -> Wanted {
    Wanted { most_used: 1000, slack: Some(0), ..Wanted::default() }
}

#[test]
fn blocks_are_read_and_judged() {
    let mut fake = Fake::new();
    fake.block(0, "none", "online", [(USER, 3), (SLAB, 2), (FREE, 0)]);
    fake.block(0, "DMA32", "online", [(USER, 3), (SLAB, 2), (TABLE, 1)]);
    fake.block(1, "Normal", "online", [(USER, 3), (FREE, 0), (FREE, 0)]);
    fake.block(1, "Movable", "online", [(0, 5), (FREE, 0), (FREE, 0)]);
    fake.block(1, "Normal Movable", "offline", [(0, 0), (FREE, 0), (FREE, 0)]);
    fake.block(0, "Normal", "online", [(0, 5), (FREE, 0), (FREE, 0)]);
    let machine = fake.machine();
    let verdicts: Vec<Verdict> = machine.blocks.iter().map(|block| block.verdict).collect();
    use Verdict::{Empty, Movable, Offline, Pinned, Refused};
    assert_eq!(verdicts, [Refused, Pinned, Movable, Empty, Offline, Pinned]);
    let pages = machine.blocks[1].pages;
    assert_eq!((pages.movable, pages.mapped, pages.slab, pages.page_tables), (3, 3, 2, 1));
    assert_eq!((pages.free, pages.pinned()), (58, 3));
    assert_eq!(machine.blocks[2].node, Some(1));
    assert_eq!((machine.block_bytes, machine.offline()), (64 * 4096, 64));
    let c = machine.c().expect("there is free memory");
    assert!((c - 64.0 / (64.0 + machine.free() as f64)).abs() < 1e-12);
}

#[test]
fn what_is_no_machine_says_what_it_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = Machine::read(&Tree::at(folder.path()), PAGE).expect_err("nothing is there");
    assert!(
        matches!(error, TreeError::NoBlocks(_)) && error.to_string().contains("hotplug")
            || error.to_string().contains("HOTPLUG"),
        "{error}"
    );
    let mut fake = Fake::new();
    fake.used(1);
    fake.put("sys/devices/system/memory/memory0/phys_index", "what\n");
    let error = Machine::read(&fake.tree(), PAGE).expect_err("that is no number");
    assert!(error.to_string().contains("says \"what\""), "{error}");
}

#[test]
fn a_block_past_the_end_of_the_flags_is_a_hole() {
    let mut fake = Fake::new();
    fake.used(1);
    let tree = fake.tree();
    fake.used(0);
    let machine = Machine::read(&tree, PAGE).expect("a machine");
    assert_eq!((machine.blocks[1].pages.holes, machine.blocks[1].verdict), (64, Verdict::Refused));
}

#[test]
fn the_emptiest_goes_first_as_long_as_there_is_room() {
    let mut fake = Fake::new();
    for used in [60, 20, 0, 35, 20, 64] {
        fake.used(used);
    }
    let machine = fake.machine();
    // 185 free less 10. Without 2 and 1, 67 are left for 20 pages; without 4 too, 23 for 40.
    let plan = Plan::new(&machine, &all());
    assert_eq!(planned(&plan), [[2], [1]]);
    assert_eq!((plan.blocks(), plan.migrated()), (2, 20));
    assert_eq!(plan.left.len(), 4);
    // 175 - 64 - 44 = 67 are enough for 20 and a slack of half a block, 32, but not of 48.
    let careful = |slack| planned(&Plan::new(&machine, &Wanted { slack, ..all() }));
    assert_eq!((careful(None).len(), careful(Some(48)).len()), (2, 1));
    // What leaves block 1 may move into block 2, which has room for it, and from there again.
    let mut roomy = Fake::new();
    for used in [0, 20, 30] {
        roomy.used(used);
    }
    roomy.block(0, "Movable", "online", [(SLAB, 1), (FREE, 0), (FREE, 0)]);
    let plan = Plan::new(&roomy.machine(), &Wanted { most_blocks: Some(3), ..all() });
    assert_eq!((plan.migrated(), plan.migrated_at_most()), (50, 70));
    // Sets more than half full stay by default, and so does what nobody asked for.
    let some = Wanted { most_blocks: Some(1), ..all() };
    assert_eq!(planned(&Plan::new(&machine, &some)), [[2]]);
}

#[test]
fn full_sets_stay_unless_it_is_said_otherwise() {
    let mut fake = Fake::new();
    for used in [33, 0, 0, 32] {
        fake.used(used);
    }
    let machine = fake.machine();
    let wanted = Wanted { slack: Some(0), ..Wanted::default() };
    assert_eq!(planned(&Plan::new(&machine, &wanted)), [[1], [2]], "no room for 32 then");
    let mut roomy = Fake::new();
    for used in [33, 0, 0, 32] {
        roomy.used(used);
    }
    roomy.block(0, "Normal", "online", [(SLAB, 1), (FREE, 0), (FREE, 0)]);
    let machine = roomy.machine();
    assert_eq!(planned(&Plan::new(&machine, &wanted)), [[1], [2], [3]], "33 are more than half");
    let one = Wanted { most_used: 400, ..wanted };
    assert_eq!(planned(&Plan::new(&machine, &one)), [[1], [2]]);
    let every = Wanted { most_used: 1000, ..wanted };
    assert_eq!(planned(&Plan::new(&machine, &every)), [[1], [2], [3]], "no room for 33 more");
}

#[test]
fn what_interleaving_ties_goes_together_or_not_at_all() {
    let mut fake = Fake::new();
    for used in [0, 5, 0, 7] {
        fake.used(used);
    }
    fake.block(0, "Movable", "online", [(SLAB, 1), (FREE, 0), (FREE, 0)]);
    for used in [1, 30, 30] {
        fake.used(used);
    }
    let machine = fake.machine();
    let wanted = Wanted { interleave: Interleave::Pairs { stride_log2: 1 }, ..all() };
    let plan = Plan::new(&machine, &wanted);
    // 0+2, 1+3, and 5+7; 4+6 has what cannot move.
    assert_eq!(planned(&plan), [[0, 2], [1, 3], [5, 7]]);
    assert!(plan.left.is_empty());
}

/// Linux moves pages to other nodes while there are any.
#[test]
fn room_is_room_on_other_nodes() {
    let mut fake = Fake::new();
    let block = |fake: &mut Fake, node, used| {
        fake.block(node, "Movable", "online", [(USER, used), (FREE, 0), (FREE, 0)])
    };
    for (node, used) in [(0, 30), (0, 0), (1, 20), (1, 64)] {
        block(&mut fake, node, used);
    }
    let machine = fake.machine();
    // Without block 1, node 0 has 24 to spare for the 20 of block 2; then node 1 has none for the 30 of block 0.
    let plan = Plan::new(&machine, &all());
    assert_eq!(planned(&plan), [[1], [2]]);
    let zero = Wanted { node: Some(0), ..all() };
    assert_eq!(planned(&Plan::new(&machine, &zero)), [[1], [0]]);
}

/// Block 4 has room on node 0; but without it node 1 has none for what then leaves node 0. (On a guest of two nodes the
/// write that should have taken block 2 offline came to no end.)
#[test]
fn what_was_chosen_before_keeps_its_room() {
    let mut fake = Fake::new();
    for (node, used) in [(0, 0), (0, 8), (0, 18), (1, 6), (1, 19)] {
        fake.block(node, "Movable", "online", [(USER, used), (FREE, 0), (FREE, 0)]);
    }
    for (node, pinned) in [(0, 1), (0, 1), (1, 44)] {
        fake.block(node, "Movable", "online", [(SLAB, pinned), (FREE, 0), (FREE, 0)]);
    }
    let plan = Plan::new(&fake.machine(), &all());
    assert_eq!(planned(&plan), [[0], [3], [1], [2]]);
    assert_eq!(plan.left.iter().map(|set| set.blocks[0]).collect::<Vec<_>>(), [4]);
}

/// One node after the other: what leaves one cannot come back into what goes later.
#[test]
fn several_nodes_are_left_one_after_the_other() {
    let mut fake = Fake::new();
    for (node, used) in [(0, 9), (1, 3), (0, 0), (1, 10), (0, 12), (1, 0)] {
        fake.block(node, "Movable", "online", [(USER, used), (FREE, 0), (FREE, 0)]);
    }
    for node in [0, 1] {
        fake.block(node, "Movable", "online", [(SLAB, 1), (FREE, 0), (FREE, 0)]);
    }
    fake.put("proc/vmstat", "nr_free_pages 7\npgmigrate_success 41\npgmigrate_fail 1\n");
    let machine = fake.machine();
    assert_eq!((machine.nodes(), machine.migrated), (2, Some(41)));
    let plan = Plan::new(&machine, &all());
    // Empty ones, then the 13 pages of node 1; they may be among what leaves node 0.
    assert_eq!(planned(&plan), [[2], [5], [1], [3], [0], [4]]);
    assert_eq!((plan.migrated(), plan.migrated_at_most()), (34, 34 + 13));
    // By emptiness alone what left a node could come back, and move with every block.
    let mut mixed = plan;
    mixed.sets.sort_by_key(|set| set.migrated);
    assert_eq!(mixed.migrated_at_most(), 34 + 3 + 12 + 22);
}

/// A kernel that writes what it is told, but for some blocks.
struct Kernel {
    refuses: Vec<(u64, &'static str)>,
    written: Vec<(PathBuf, String)>,
}

impl Kernel {
    fn refusing(refuses: &[(u64, &'static str)]) -> Kernel {
        Kernel { refuses: refuses.to_vec(), written: Vec::new() }
    }
}

impl Writer for Kernel {
    fn write(&mut self, file: &Path, word: &str) -> Result<(), String> {
        self.written.push((file.to_path_buf(), word.to_owned()));
        let is = |block: u64| file.to_string_lossy().contains(&format!("memory{block}/"));
        if self.refuses.iter().any(|&(block, what)| is(block) && what == word) {
            return Err("Device or resource busy".to_owned());
        }
        let state = if word == "offline" { "offline\n" } else { "online\n" };
        std::fs::write(file, state).map_err(|why| why.to_string())
    }
}

#[test]
fn a_plan_is_carried_out_and_a_set_that_cannot_go_is_put_back_whole() {
    let mut fake = Fake::new();
    (0..8).for_each(|_| {
        fake.used(0);
    });
    let (machine, tree) = (fake.machine(), fake.tree());
    let wanted = Wanted { interleave: Interleave::Pairs { stride_log2: 1 }, ..all() };
    let plan = Plan::new(&machine, &Wanted { most_blocks: Some(6), ..wanted });
    assert_eq!(planned(&plan), [[0, 2], [1, 3], [4, 6]]);
    let mut kernel = Kernel::refusing(&[(3, "offline")]);
    let mut told = 0;
    let done = apply(&tree, &plan, &mut kernel, &|| false, |_| told += 1);
    assert_eq!(
        (done[0].outcome.clone(), done[2].outcome.clone()),
        (Outcome::Offline, Outcome::Offline)
    );
    let why = "Device or resource busy".to_owned();
    assert_eq!(done[1].outcome, Outcome::Refused { block: 3, why, lost: Vec::new() });
    let states: Vec<String> = (0..8).map(|block| fake.state(block)).collect();
    let [on, off] = ["online", "offline"];
    assert_eq!(states, [off, on, off, on, off, on, off, on]);
    let back =
        kernel.written.iter().find(|(file, _)| file.ends_with("memory1/state") && file.exists());
    assert!(back.is_some() && kernel.written.iter().any(|(_, word)| word == "online_movable"));
    assert_eq!(told, 3);
    assert!(restore(&tree, &[0, 2, 4, 6], true, &mut kernel).is_empty());
    assert!((0..8).all(|block| fake.state(block) == on));
}

#[test]
fn what_cannot_be_put_back_is_said() {
    let mut fake = Fake::new();
    (0..4).for_each(|_| {
        fake.used(0);
    });
    let (machine, tree) = (fake.machine(), fake.tree());
    let wanted = Wanted { interleave: Interleave::Pairs { stride_log2: 0 }, ..all() };
    let plan = Plan::new(&machine, &Wanted { most_blocks: Some(2), ..wanted });
    let mut kernel = Kernel::refusing(&[(1, "offline"), (0, "online_movable")]);
    let done = apply(&tree, &plan, &mut kernel, &|| false, |_| ());
    assert!(matches!(&done[0].outcome, Outcome::Refused { block: 1, lost, .. } if lost == &[0]));
    let stopped = apply(&tree, &plan, &mut kernel, &|| true, |_| ());
    assert_eq!(stopped[0].outcome, Outcome::NotTried);
    let left = restore(&tree, &[0], true, &mut kernel);
    assert_eq!(left, [(0, "Device or resource busy".to_owned())]);
}
