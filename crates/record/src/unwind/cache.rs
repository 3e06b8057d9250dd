//! The stacks that a thread met last, with the words that decide about them: one megabyte at most, none until it is used.
//!
//! ```text
//!   table    64 sets of 4 stacks, by the return address and the stack pointer of the top
//!   loads    │ the shadow: the stack told last ─▶         ◀─ the walk under way │
//! ```
//!
//! A stack is told by what is the same: nothing (it is the last one), a place in the table, or so many outer frames of
//! the last one and the frames that are new. The reader keeps the same table and the same last stack.
//!
//! On a miss the walk goes on until it meets a frame of the shadow whose outer loads all hold. What was found takes a
//! place in the table. Where the table seldom knows a stack (compilers recurse over trees), it is left out for a while:
//! then filling it costs more than it gives.
//!
//! Invariant: `last` and the table are what the reader has, once everything that was given out was told to it.

use super::list::{self, BY_RBP, FRAME, Load, NEEDS_RBP, RBP};
use super::memory::Range;
use super::modules::Module;
use super::walk::{self, Ended, Walker};
use super::{Caller, modules, rules};

/// Sets of the table.
const SETS: usize = 64;
/// Stacks of a set.
const WAYS: usize = 4;
/// Stacks of the table.
pub const ENTRIES: usize = SETS * WAYS;
/// Most loads of a stack of the table.
const MOST_LOADS: usize = 128;
/// Loads of the shadow and the walk under way: 12,000 frames that need their frame pointers, or twice as many that do not.
const LOADS: usize = 24_576;
/// Modules that one walk may come upon for the first time and tell of.
const MODULES: usize = 16;

/// Events over which hits are counted.
const WINDOW: u32 = 4096;
/// The table is left out for so many windows after one with fewer than three hits for two misses.
const PAUSE: u32 = 16;

/// What decides about a stack before its loads are looked at.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Key {
    slot: u64,
    rip: u64,
    /// The frame pointer, if the stack needs it.
    rbp: u64,
    loads: u16,
    frames: u16,
    needs_rbp: bool,
    /// An outermost frame that says "cut" counts among the frames.
    valid: bool,
}

impl Key {
    #[inline(always)]
    fn fits(&self, caller: &Caller, rip: u64) -> bool {
        (self.slot == caller.slot)
            & (self.rip == rip)
            & (!self.needs_rbp | (self.rbp == caller.rbp))
            && self.valid
    }
}

/// Which stack was told last.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Last {
    Nothing = 0,
    Shadow = 1,
    Entry = 2,
}

/// A thread's stacks. All zero is valid, and knows nothing.
#[repr(C)]
pub struct Stacks {
    generation: u64,
    range: Range,
    last: Last,
    /// The place of the last stack, if it is an entry's.
    entry: u32,
    /// The shadow's key; its own lengths are below.
    shadow: Key,
    shadow_loads: usize,
    shadow_frames: usize,
    /// The loads of the shadow decide about it.
    reusable: bool,
    hits: u32,
    misses: u32,
    /// Counts what was told: a signal's handler may have come between.
    mark: u32,
    /// Windows that the table is left out for.
    paused: u32,
    news: usize,
    modules: [Module; MODULES],
    victims: [u8; SETS],
    keys: [[Key; WAYS]; SETS],
    /// Loads without flags, which a look need not take off then.
    table: [[Load; MOST_LOADS]; ENTRIES],
    flags: [[u8; MOST_LOADS]; ENTRIES],
    loads: [Load; LOADS],
}

/// Bytes of a thread's stacks.
pub const BYTES: usize = size_of::<Stacks>();
const _: () = assert!(BYTES <= 1 << 20);

/// What a look came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The last stack.
    Last,
    /// That of a place in the table.
    Entry(usize),
    /// None of those.
    Missed,
}

/// A stack as it is told after a miss.
pub struct Told<'a> {
    /// Outer frames of the last stack that are the same.
    pub keep: usize,
    /// What was new: its frames come after those, in the order of [`list::frames`].
    pub new: &'a [Load],
    /// How many frames that are.
    pub push: usize,
    /// Before the first new frame, the callers are unknown.
    pub cut: bool,
    /// The place that it takes, if it takes one.
    pub entry: Option<usize>,
    /// Modules met for the first time.
    pub modules: &'a [Module],
    /// They are of this generation.
    pub generation: u64,
}

impl Stacks {
    /// Looks for the stack of a hook's caller. Changes nothing but counts and `last`, which whoever calls tells on.
    ///
    /// # Safety
    /// `caller` is that of a hook of this thread that has not returned.
    #[inline(always)]
    pub unsafe fn find(&mut self, caller: &Caller) -> Found {
        // SAFETY: the slot holds the hook's return address.
        let rip = unsafe { (caller.slot as *const u64).read_volatile() };
        match self.last {
            // SAFETY: the keys are the same, so the innermost load holds.
            Last::Shadow if self.shadow.fits(caller, rip) && unsafe { self.shadow_holds() } => {
                self.hits += 1;
                return Found::Last;
            }
            Last::Entry => {
                let last = self.entry as usize;
                // SAFETY: as above.
                if self.key(last).fits(caller, rip) && unsafe { self.holds(last) } {
                    self.hits += 1;
                    return Found::Last;
                }
            }
            _ => {}
        }
        // SAFETY: as above.
        if self.paused > 0 { Found::Missed } else { unsafe { self.find_other(caller, rip) } }
    }

    /// Looks for a stack that is not the last one.
    ///
    /// # Safety
    /// As [`Stacks::find`]; `rip` stands in the caller's slot.
    #[inline(never)]
    unsafe fn find_other(&mut self, caller: &Caller, rip: u64) -> Found {
        let set = set_of(caller.slot, rip);
        let last = if self.last == Last::Entry { self.entry as usize } else { ENTRIES };
        for entry in set * WAYS..(set + 1) * WAYS {
            // SAFETY: the keys are the same, so the innermost load holds.
            if entry != last && self.key(entry).fits(caller, rip) && unsafe { self.holds(entry) } {
                self.hits += 1;
                (self.last, self.entry) = (Last::Entry, entry as u32);
                self.mark = self.mark.wrapping_add(1);
                return Found::Entry(entry);
            }
        }
        Found::Missed
    }

    #[inline(always)]
    fn key(&self, entry: usize) -> &Key {
        // SAFETY: entries are below ENTRIES wherever they are made (`find`, `take_place`).
        unsafe { self.keys.get_unchecked(entry / WAYS).get_unchecked(entry % WAYS) }
    }

    /// # Safety
    /// The entry's key fits the caller.
    #[inline(always)]
    unsafe fn holds(&self, entry: usize) -> bool {
        let loads = usize::from(self.key(entry).loads);
        // SAFETY: as in `key`; an entry has at most MOST_LOADS, and the innermost of them is the key's.
        unsafe { list::all_hold(self.table.get_unchecked(entry).as_ptr(), loads) }
    }

    /// # Safety
    /// The shadow's key fits the caller.
    unsafe fn shadow_holds(&self) -> bool {
        let list = self.loads.get(..self.shadow_loads).unwrap_or_default();
        // SAFETY: as the caller promises, and in the order of the walk.
        self.reusable && list.iter().rev().all(|load| unsafe { load.holds() })
    }

    /// Whether what is known holds in this generation; if not, it is forgotten, and the reader must be told so.
    #[inline(always)]
    pub fn is_of(&self, generation: u64) -> bool {
        self.generation == generation
    }

    /// Forgets everything: a new generation, or a process that was forked.
    pub fn forget(&mut self, generation: u64) {
        self.keys.as_flattened_mut().iter_mut().for_each(|key| key.valid = false);
        self.forget_last();
        (self.generation, self.reusable, self.range) = (generation, false, Range::default());
        self.mark = self.mark.wrapping_add(1);
    }

    /// What the next look must find the same, if nothing came between.
    #[inline(always)]
    pub fn mark(&self) -> u32 {
        self.mark
    }

    /// Something came between: nobody knows what the reader has as the last stack.
    #[cold]
    pub fn forget_last(&mut self) {
        (self.last, self.shadow_loads, self.shadow_frames) = (Last::Nothing, 0, 0);
    }

    /// Walks after a miss.
    ///
    /// # Safety
    /// As [`Stacks::find`], which has missed just now.
    pub unsafe fn walk(&mut self, caller: &Caller) -> Told<'_> {
        self.count();
        self.take_last();
        let old_frames = self.shadow_frames;
        let mut range = self.range;
        let mut builder = Builder {
            cursor: if self.reusable { self.shadow_loads } else { 0 },
            shadow_loads: self.shadow_loads,
            rbp: self.shadow.rbp,
            loads: &mut self.loads,
            at: LOADS,
            kept: None,
            full: false,
            by_other: false,
            generation: self.generation,
            modules: &mut self.modules,
            news: 0,
        };
        let ended = walk::walk(caller, (rules::rule_at, self.generation), &mut range, &mut builder);
        let Builder { at, kept, full, by_other, news, .. } = builder;
        (self.range, self.news) = (range, news);
        let cut = kept.is_none() && (ended == Ended::Cut || full);
        let (keep_loads, needs) = kept.unwrap_or((0, false));
        let dropped = self.loads.get(keep_loads..self.shadow_loads).unwrap_or_default();
        let keep = match kept {
            Some(_) => old_frames - dropped.iter().filter(|load| load.is(FRAME)).count(),
            None => 0,
        };
        let (loads, frames, needs_rbp) = self.settle(at, keep_loads, needs);
        self.shadow_loads = loads;
        self.shadow_frames = keep + usize::from(cut) + frames;
        self.reusable = !by_other;
        let rip = self.loads.get(loads.wrapping_sub(1)).map_or(0, |top| top.word);
        self.shadow = Key {
            slot: caller.slot,
            rip,
            rbp: caller.rbp,
            needs_rbp,
            loads: 0,
            frames: 0,
            valid: loads > 0,
        };
        self.last = Last::Shadow;
        let entry = self.take_place();
        Told {
            keep,
            new: self.loads.get(keep_loads..loads).unwrap_or_default(),
            push: frames,
            cut,
            entry,
            modules: self.modules.get(..self.news).unwrap_or_default(),
            generation: self.generation,
        }
    }

    /// Ends a window of counting, if it is over.
    fn count(&mut self) {
        self.misses += 1;
        self.mark = self.mark.wrapping_add(1);
        if self.hits + self.misses < WINDOW {
            return;
        }
        self.paused = match self.paused {
            0 if self.hits < self.misses / 2 * 3 => PAUSE,
            paused => paused.saturating_sub(1),
        };
        (self.hits, self.misses) = (0, 0);
    }

    /// Makes the last stack the shadow, if it is an entry's.
    fn take_last(&mut self) {
        if self.last != Last::Entry {
            return;
        }
        let entry = self.entry as usize;
        let key = *self.key(entry);
        let loads = usize::from(key.loads);
        let Stacks { table, flags, loads: to, .. } = self;
        for (to, from) in to.iter_mut().zip(of_entry(table, flags, entry, loads)) {
            *to = from;
        }
        (self.shadow, self.reusable) = (key, true);
        (self.shadow_loads, self.shadow_frames) = (loads, key.frames.into());
        self.last = Last::Shadow;
    }

    /// Puts what was walked behind the loads that are kept, without the frame pointers that nobody needs. `needs`: the
    /// kept ones need that of the frame they begin at. The length of the list, its new frames, and whether it needs the
    /// caller's.
    fn settle(&mut self, from: usize, keep: usize, mut needs: bool) -> (usize, usize, bool) {
        let (mut to, mut frames, mut saved) = (keep, 0, false);
        for at in from..LOADS {
            let Some(&(mut load)) = self.loads.get(at) else { break };
            if load.is(FRAME) {
                load.place |= u64::from(needs) * NEEDS_RBP;
                needs = load.is(BY_RBP) | (needs & !saved);
                saved = false;
                frames += 1;
            } else if load.is(RBP) {
                saved = true;
                if !needs {
                    continue;
                }
            }
            if let Some(place) = self.loads.get_mut(to) {
                *place = load;
            }
            to += 1;
        }
        (to, frames, needs)
    }

    /// Gives the shadow a place in the table, if it fits.
    fn take_place(&mut self) -> Option<usize> {
        let loads = self.shadow_loads;
        if self.paused > 0 || !self.reusable || loads == 0 || loads > MOST_LOADS {
            return None;
        }
        let set = set_of(self.shadow.slot, self.shadow.rip);
        let victim = self.victims.get_mut(set)?;
        *victim = (*victim + 1) % WAYS as u8;
        let entry = set * WAYS + usize::from(*victim);
        let places = self.table.get_mut(entry)?.iter_mut().zip(self.flags.get_mut(entry)?);
        for (load, place) in self.loads.get(..loads)?.iter().zip(places) {
            (*place.0, *place.1) = load.split();
        }
        let key = Key { loads: loads as u16, frames: self.shadow_frames as u16, ..self.shadow };
        *self.keys.as_flattened_mut().get_mut(entry)? = key;
        (self.last, self.entry) = (Last::Entry, entry as u32);
        Some(entry)
    }

    /// The frames of the last stack, the innermost first.
    pub fn last_frames(&self) -> impl Iterator<Item = u64> + '_ {
        let (shadow, entry) = match self.last {
            Last::Nothing => (0, 0),
            Last::Shadow => (self.shadow_loads, 0),
            Last::Entry => (0, self.key(self.entry as usize).loads.into()),
        };
        let loads = self.loads.get(..shadow).unwrap_or_default().iter().copied();
        let of_entry = of_entry(&self.table, &self.flags, self.entry as usize, entry);
        list::frames_of(loads.rev().chain(of_entry.rev()))
    }
}

/// The loads of an entry of the table, flags and all.
fn of_entry<'a>(
    table: &'a [[Load; MOST_LOADS]; ENTRIES],
    flags: &'a [[u8; MOST_LOADS]; ENTRIES],
    entry: usize,
    loads: usize,
) -> impl DoubleEndedIterator<Item = Load> + 'a {
    let list = table.get(entry).and_then(|list| list.get(..loads)).unwrap_or_default();
    let flags = flags.get(entry).and_then(|flags| flags.get(..loads)).unwrap_or_default();
    list.iter().zip(flags).map(|(load, &flags)| load.join(flags))
}

#[inline(always)]
fn set_of(slot: u64, rip: u64) -> usize {
    let mixed = (slot ^ rip.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 58) as usize
}

const _: () = assert!(SETS == 64);

/// Takes the frames of a walk, from the end of the loads downwards, and looks for them in the shadow.
struct Builder<'a> {
    loads: &'a mut [Load; LOADS],
    shadow_loads: usize,
    /// The frame pointer of the shadow's top.
    rbp: u64,
    /// Loads of the shadow that may still be met: those before this.
    cursor: usize,
    /// The first load of the walk.
    at: usize,
    /// Loads of the shadow that are kept, and whether they need the frame pointer of the frame before them.
    kept: Option<(usize, bool)>,
    full: bool,
    by_other: bool,
    generation: u64,
    modules: &'a mut [Module; MODULES],
    news: usize,
}

impl Walker for Builder<'_> {
    #[inline(always)]
    fn load(&mut self, load: Load) -> bool {
        if self.at == self.shadow_loads {
            // No room beside the shadow: it is not met any more.
            (self.shadow_loads, self.cursor) = (0, 0);
        }
        let Some(place) = self.at.checked_sub(1).and_then(|at| self.loads.get_mut(at)) else {
            self.full = true;
            return false;
        };
        *place = load;
        self.at -= 1;
        true
    }

    #[inline(always)]
    fn frame(&mut self, frame: Load, rbp: Option<u64>) -> bool {
        !self.meets(frame, rbp)
    }

    fn module(&mut self, module: &Module) {
        let is_told = || self.modules.iter().take(self.news).any(|known| known == module);
        if !is_told()
            && let Some(place) = self.modules.get_mut(self.news)
            && modules::is_news(module, self.generation)
        {
            *place = *module;
            self.news += 1;
        }
    }

    fn by_other(&mut self) {
        self.by_other = true;
    }
}

impl Builder<'_> {
    /// Whether the frame is one of the shadow's, and all that is further out is as it was.
    #[inline(always)]
    fn meets(&mut self, step: Load, rbp: Option<u64>) -> bool {
        let slot = step.address();
        while let Some(load) = self.cursor.checked_sub(1).and_then(|at| self.loads.get(at)) {
            if load.is(FRAME) && load.address() >= slot {
                if load.address() == slot && load.word == step.word {
                    return self.matches(rbp, self.cursor - 1);
                }
                return false;
            }
            self.cursor -= 1;
        }
        false
    }

    /// The same for the shadow's frame at `at`, which has the same address in the same place.
    fn matches(&mut self, rbp: Option<u64>, at: usize) -> bool {
        let Some(frame) = self.loads.get(at).copied() else { return false };
        let saved = at.checked_sub(1).and_then(|at| self.loads.get(at)).filter(|l| l.is(RBP));
        let needs = frame.is(NEEDS_RBP);
        if needs {
            let further_in = self.loads.get(at..self.shadow_loads).unwrap_or_default();
            let nearest = saved.or_else(|| further_in.iter().find(|load| load.is(RBP)));
            if rbp != Some(nearest.map_or(self.rbp, |load| load.word)) {
                return false;
            }
        }
        let outer = at - usize::from(saved.is_some());
        let list = self.loads.get(..outer).unwrap_or_default();
        // SAFETY: the frame is on this stack, and these are the loads that a walk makes from there on.
        let holding = unsafe { list::holding(list) };
        if holding == outer {
            self.kept = Some((outer, needs));
            return true;
        }
        self.cursor = outer - holding - 1;
        false
    }
}
