//! The rules of all addresses met so far, for all threads: a table that grows and is never emptied.
//!
//! ```text
//!   key   63      48  47   46                       0      rule: see `rule.rs`
//!        │ generation │ E │ address looked up         │
//! ```
//!
//! *E* is set for an exact address: one where a signal came, not one that a call returns to. Entries of an older
//! generation may be replaced, all others stay as they are.
//!
//! **Orderings.** A rule is written before its key (Release), and a key is cleared before its rule changes; a reader
//! takes the key (Acquire), then the rule, and believes it if the key is still the same. A key belongs to one rule for
//! ever, since the generation is in it.
//!
//! Invariants: nobody waits: a rule that cannot be kept, because another thread writes just now, is worked out again the
//! next time. A table that was outgrown stays mapped, for somebody may be reading it; all of them together take as much
//! as the newest.

use super::modules::{self, Module};
use super::rule::{Packed, Rule, Special};
use super::tables::Tables;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

/// Entries of the first table: 16 KiB.
const FIRST_ENTRIES: usize = 1 << 10;
/// Entries looked at before an address counts as unknown.
const PROBES: usize = 16;
/// Most special rules.
const SPECIALS: usize = 512;

const EXACT: u64 = 1 << 47;
const ADDRESS: u64 = EXACT - 1;
const GENERATION_SHIFT: u32 = 48;
/// Generations that a key can tell apart; 0 is that of an entry never used.
const GENERATIONS: u64 = (1 << 16) - 1;

#[derive(Default)]
struct Entry {
    key: AtomicU64,
    rule: AtomicU64,
}

#[repr(C)]
struct Table {
    entries: usize,
    /// The generation that `used` counts for.
    generation: AtomicU64,
    used: AtomicUsize,
}

impl Table {
    /// Entries of that generation; about, for one that was interrupted.
    fn used(&self, generation: u64) -> usize {
        let is_of = self.generation.load(Ordering::Relaxed) == generation;
        if is_of { self.used.load(Ordering::Relaxed) } else { 0 }
    }
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(core::ptr::null_mut());
/// Taken by who writes; nobody waits for it.
static WRITER: AtomicBool = AtomicBool::new(false);
static SPECIAL: [Slot; SPECIALS] = [const { Slot(core::cell::UnsafeCell::new(None)) }; SPECIALS];
static SPECIAL_COUNT: AtomicUsize = AtomicUsize::new(0);

struct Slot(core::cell::UnsafeCell<Option<Special>>);

// SAFETY: written once, by who holds `WRITER`, before `SPECIAL_COUNT` (Release) says that it is there.
unsafe impl Sync for Slot {}

/// In a child of `fork`: a thread that wrote in the parent is not here.
pub fn forget_lock() {
    WRITER.store(false, Ordering::Release);
}

/// A special rule by its place.
pub fn special(place: u32) -> Option<Special> {
    let there = (place as usize) < SPECIAL_COUNT.load(Ordering::Acquire);
    // SAFETY: below the count (Acquire pairs with the Release in `add_special`) slots do not change.
    unsafe { *SPECIAL.get(place as usize).filter(|_| there)?.0.get() }
}

/// The rule at `address`, and the module whose tables gave it if it was not known before (to be told of).
#[inline]
pub fn rule_at(address: u64, exact: bool, generation: u64) -> (Packed, Option<Module>) {
    if address & !ADDRESS != 0 {
        return (Packed::new(Rule::Untold), None);
    }
    let key = address | u64::from(exact) << 47 | (1 + generation % GENERATIONS) << GENERATION_SHIFT;
    match look_up(key) {
        Some(rule) => (rule, None),
        None => work_out(address, key),
    }
}

#[inline]
fn home(key: u64, entries: usize) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (entries - 1)
}

/// # Safety
/// `table` came from [`make`].
unsafe fn entries<'a>(table: *const Table) -> &'a [Entry] {
    // SAFETY: `make` maps as many entries behind the head, for good; all zero is valid.
    unsafe { core::slice::from_raw_parts(table.add(1).cast::<Entry>(), (*table).entries) }
}

#[inline]
fn look_up(key: u64) -> Option<Packed> {
    let table = TABLE.load(Ordering::Acquire);
    if table.is_null() {
        return None;
    }
    // SAFETY: what was stored there is a table, and stays mapped.
    let entries = unsafe { entries(table) };
    let home = home(key, entries.len());
    for step in 0..PROBES {
        let entry = entries.get((home + step) & (entries.len() - 1))?;
        let found = entry.key.load(Ordering::Acquire);
        if found == key {
            let rule = entry.rule.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            return (entry.key.load(Ordering::Relaxed) == key).then_some(Packed(rule));
        }
        if found == 0 {
            return None;
        }
    }
    None
}

/// As [`rule_at`], worked out anew: to check what was kept.
pub fn anew(address: u64, exact: bool, generation: u64) -> (Packed, Option<Module>) {
    let _ = (exact, generation);
    let is_untold = address & !ADDRESS != 0;
    (if is_untold { Packed::new(Rule::Untold) } else { work_out(address, 0).0 }, None)
}

/// Works a rule out, and keeps it by its key (0: not).
#[cold]
#[inline(never)]
fn work_out(address: u64, key: u64) -> (Packed, Option<Module>) {
    let module = modules::find(address);
    let (mut rule, special) = match &module {
        Some(module) if let Some(part) = module.part_with_tables() => {
            // SAFETY: a return address into the module stands on the stack of the running thread, so nobody may unload it.
            let memory = unsafe { part.memory() };
            Tables { memory, start: part.start, header: module.eh_frame }.rule_at(address)
        }
        _ => (Rule::Untold, None),
    };
    if !WRITER.swap(true, Ordering::Acquire) {
        if let Some(special) = special {
            rule = add_special(special);
        }
        if key != 0 && modules::is_ready() {
            keep(key, Packed::new(rule));
        }
        WRITER.store(false, Ordering::Release);
    } else if special.is_some() {
        // Only a place can be handed on. Very rare, and the next walk has another try.
        rule = Rule::Cut;
    }
    (Packed::new(rule), module)
}

/// The place of a special rule. With `WRITER` taken.
fn add_special(special: Special) -> Rule {
    let count = SPECIAL_COUNT.load(Ordering::Relaxed);
    // SAFETY: only who holds `WRITER` writes, which is us.
    let known =
        SPECIAL.iter().take(count).position(|slot| unsafe { *slot.0.get() == Some(special) });
    if let Some(place) = known {
        return Rule::Special(place as u32);
    }
    let Some(slot) = SPECIAL.get(count) else { return Rule::Cut };
    // SAFETY: as above, and nobody reads from the count on.
    unsafe { *slot.0.get() = Some(special) };
    SPECIAL_COUNT.store(count + 1, Ordering::Release);
    Rule::Special(count as u32)
}

/// Keeps a rule. With `WRITER` taken.
fn keep(key: u64, rule: Packed) {
    let mut table = TABLE.load(Ordering::Relaxed);
    let generation = key >> GENERATION_SHIFT;
    // SAFETY: what was stored there is a table, and stays mapped.
    let full = table.is_null() || unsafe { (*table).used(generation) * 2 >= (*table).entries };
    if full && let Some(next) = grown(table, generation) {
        TABLE.store(next, Ordering::Release);
        table = next;
    }
    if !table.is_null() {
        // SAFETY: as above.
        unsafe { put(table, key, rule.0) };
    }
}

/// # Safety
/// `table` is a table, and `WRITER` is taken.
unsafe fn put(table: *const Table, key: u64, rule: u64) {
    // SAFETY: as the caller promises.
    let (entries, table) = unsafe { (entries(table), &*table) };
    let generation = key >> GENERATION_SHIFT;
    let home = home(key, entries.len());
    for step in 0..PROBES {
        let Some(entry) = entries.get((home + step) & (entries.len() - 1)) else { return };
        let found = entry.key.load(Ordering::Relaxed);
        if found >> GENERATION_SHIFT == generation {
            if found == key {
                return;
            }
            continue;
        }
        // Readers on their way to entries behind this one find it taken all the time but for a moment, after which they
        // work a rule out that is there: no harm.
        entry.key.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        entry.rule.store(rule, Ordering::Relaxed);
        entry.key.store(key, Ordering::Release);
        table.used.store(table.used(generation) + 1, Ordering::Relaxed);
        table.generation.store(generation, Ordering::Relaxed);
        return;
    }
}

/// A table of the entries of `generation` of `old`, twice as large. None without memory.
fn grown(old: *const Table, generation: u64) -> Option<*mut Table> {
    if old.is_null() {
        return make(FIRST_ENTRIES);
    }
    // SAFETY: a table that stays mapped.
    let old = unsafe { entries(old) };
    let next = make(old.len() * 2)?;
    for entry in old {
        let (key, rule) = (entry.key.load(Ordering::Relaxed), entry.rule.load(Ordering::Relaxed));
        if key >> GENERATION_SHIFT == generation {
            // SAFETY: just made, and not yet anybody else's.
            unsafe { put(next, key, rule) };
        }
    }
    Some(next)
}

/// A table that was made and not told of; 0 for none.
static UNTOLD: AtomicUsize = AtomicUsize::new(0);

/// Where the table lies that was made last, and its bytes; none if that was told. (Of two threads' tables made at once one
/// may be missing: it is only to be told from the program's own memory.)
pub fn untold() -> Option<(u64, u64)> {
    if UNTOLD.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let table = UNTOLD.swap(0, Ordering::Relaxed) as *const Table;
    // SAFETY: null, or a table, which stays mapped.
    let entries = unsafe { table.as_ref()?.entries };
    Some((table as u64, (size_of::<Table>() + entries * size_of::<Entry>()) as u64))
}

fn make(entries: usize) -> Option<*mut Table> {
    let bytes = size_of::<Table>() + entries * size_of::<Entry>();
    let table = super::map(bytes)?.cast::<Table>();
    UNTOLD.store(table as usize, Ordering::Relaxed);
    // SAFETY: fresh memory of that size, aligned to a page; all zero are valid entries.
    unsafe { (&raw mut (*table).entries).write(entries) };
    Some(table)
}
