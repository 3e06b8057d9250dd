//! What `freehold hotplug` prints for people.

use freehold_hotplug::apply::{Done, Outcome};
use freehold_hotplug::pages::Pages;
use freehold_hotplug::{Block, Machine, Plan};
use freehold_lab::human;
use std::io::{self, Write};

/// One line a block, and what all of them come to.
pub fn machine(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let page = machine.page_bytes;
    writeln!(
        out,
        "{:>5} {:>4} {:8} {:16} {:>9} {:>9} {:>9} {:>9}  by",
        "block", "node", "verdict", "zones", "free", "movable", "mapped", "pinned"
    )?;
    for block in &machine.blocks {
        let Block { number, pages, verdict, valid_zones, .. } = block;
        let node = block.node.map_or("?".to_owned(), |node| node.to_string());
        write!(out, "{number:>5} {node:>4} {:8} {valid_zones:16}", verdict.name())?;
        if block.is_online() {
            for frames in [pages.free, pages.movable, pages.mapped, pages.pinned()] {
                write!(out, " {:>9}", human::bytes(frames * page))?;
            }
            write!(out, "  {}", pins(pages, page))?;
        }
        writeln!(out)?;
    }
    let can_go: Vec<&Block> = machine.blocks.iter().filter(|block| block.can_go()).collect();
    let moves: u64 = can_go.iter().map(|block| block.pages.movable).sum();
    writeln!(
        out,
        "\n{} of {} blocks of {} could go by themselves, {} would have to move; offline {}, free {}{}",
        can_go.len(),
        machine.blocks.len(),
        human::bytes(machine.block_bytes),
        human::bytes(moves * page),
        human::bytes(machine.offline() * page),
        human::bytes(machine.free() * page),
        share(machine),
    )?;
    for zone in &machine.zones {
        writeln!(
            out,
            "node {} zone {}: {} free, of which the kernel keeps {}",
            zone.node,
            zone.name,
            human::bytes(zone.free * page),
            human::bytes(zone.high * page),
        )?;
    }
    Ok(())
}

/// What pins a block, the most first.
fn pins(pages: &Pages, page: u64) -> String {
    let mut pins = [
        (pages.slab, "slab"),
        (pages.page_tables, "page tables"),
        (pages.reserved, "reserved"),
        (pages.kernel, "kernel"),
        (pages.holes, "holes"),
    ];
    pins.sort_by_key(|pin| std::cmp::Reverse(pin.0));
    let some = pins.iter().filter(|pin| pin.0 > 0);
    let words: Vec<String> =
        some.map(|(frames, name)| format!("{name} {}", human::bytes(frames * page))).collect();
    words.join(", ")
}

fn share(machine: &Machine) -> String {
    machine.c().map_or(String::new(), |c| format!(", c {c:.3}"))
}

/// The plan, in its order.
pub fn plan(out: &mut dyn Write, machine: &Machine, plan: &Plan) -> io::Result<()> {
    for set in &plan.sets {
        writeln!(
            out,
            "{:12} {:>9} to move",
            names(&set.blocks),
            human::bytes(set.migrated * machine.page_bytes)
        )?;
    }
    writeln!(
        out,
        "{} blocks, {}, for {} that must move (at most {} with what moves twice); {} more could go but are too full, or find no room",
        plan.blocks(),
        human::bytes(plan.blocks() * machine.block_bytes),
        human::bytes(plan.migrated() * machine.page_bytes),
        human::bytes(plan.migrated_at_most() * machine.page_bytes),
        plan.left.len(),
    )
}

fn names(blocks: &[u64]) -> String {
    blocks.iter().map(u64::to_string).collect::<Vec<_>>().join("+")
}

/// One set, and what became of it.
pub fn done(done: &Done) -> String {
    let names = names(&done.blocks);
    match &done.outcome {
        Outcome::Offline => format!("{names}: offline"),
        Outcome::NotTried => format!("{names}: not tried"),
        Outcome::Refused { block, why, lost } if lost.is_empty() => {
            format!("{names}: stays, for block {block} would not go: {why}")
        }
        Outcome::Refused { block, why, lost } => format!(
            "{names}: block {block} would not go: {why}; and could not be put back: {}",
            self::names(lost)
        ),
    }
}

/// Bytes that were moved meanwhile, where the kernel says: by whomever.
pub fn moved(before: &Machine, after: &Machine) -> Option<u64> {
    Some(after.migrated?.checked_sub(before.migrated?)? * after.page_bytes)
}

/// What it came to.
pub fn after(
    out: &mut dyn Write,
    before: &Machine,
    after: &Machine,
    plan: &Plan,
) -> io::Result<()> {
    let gone = after.offline().saturating_sub(before.offline()) * after.page_bytes;
    let free = human::bytes(after.free() * after.page_bytes);
    writeln!(out, "{} offline now, {free} free{}", human::bytes(gone), share(after))?;
    let planned = plan.migrated() * after.page_bytes;
    match moved(before, after) {
        Some(moved) if planned > 0 => {
            let times = moved as f64 / planned as f64;
            let moved = human::bytes(moved);
            writeln!(out, "{moved} moved meanwhile, {times:.2} x what the plan's blocks held")
        }
        _ => Ok(()),
    }
}
