//! The migration task: empties banks with few pages so that they can be switched off (Panwar 2015, section 4.3).
//!
//! ```text
//!   scan      which sets hold nothing that cannot move, and little of it
//!   choose    the emptiest first, as long as the others have room for their pages and a slack besides
//!   isolate   all chosen, so that no page moves from one candidate into another
//!   migrate   block by block: a refuge, the owner's copy, the old block back
//!   off       what is vacant
//! ```
//!
//! How pages are moved is the owner's business ([`Owner`]): a reverse map in a kernel, a table in a simulator.
//! There is no clock here: the caller says what time it is. Thresholds, slack, budget and back-off are ours; the
//! thesis prints none. Emptying the emptiest first is optimal in bytes copied: each set emptied frees the same, at
//! the least copying.

use super::allocator::{Frames, SetState};
use super::lasting::{Flow, Watch};
use super::memory::SetRecord;
use super::order::Order;
use super::policy::Policy;
use super::request::{Class, Frame, Kind, Request, SetId};
use super::store::Begins;
use core::cmp::Reverse;
use freehold_blocks::probe::Probe;

pub use super::lasting::Lasting;

/// Who holds the pages.
pub trait Owner {
    /// Copies the block of `order` from `from` to `to` and from now on uses `to`. `false` when it cannot: then
    /// it goes on using `from`, and nothing has changed.
    fn migrate(&mut self, from: Frame, to: Frame, order: Order) -> bool;
}

/// Which set is emptied first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum First {
    /// The one with the fewest pages.
    Emptiest,
    /// The one with the lowest number, as with Panwar's array of banks: he names this as its fault.
    Lowest,
}

/// How eager the task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eagerness {
    /// Which set first.
    pub first: First,
    /// Sets with more used frames than this stay, in thousandths of a set.
    pub most_used: u32,
    /// But where emptying a fuller set costs at most one part in so many of what may be copied for what was freed, it goes,
    /// too; 0: it never does.
    pub fuller_part: u32,
    /// Frames that stay free in usable sets, so that the next requests switch none on.
    pub slack: u32,
    /// Frames that may be copied in a second, on average.
    pub frames_per_s: u32,
    /// Frames that may be copied for every thousand freed: what bounds the cost of a busy machine.
    pub per_thousand_freed: u32,
    /// Frames that may be copied at once after a rest.
    pub burst: u32,
    /// Milliseconds between two looks when there is something to do.
    pub wake_ms: u64,
    /// The most that is doubled to when there is nothing.
    pub rest_ms: u64,
    /// Which room counts.
    pub lasting: Lasting,
    /// Microseconds that a set must stay off for each frame copied, or the copying costs more energy than
    /// the sleep saves; 0 asks nobody.
    pub break_even_us: u64,
}

impl Eagerness {
    /// The defaults for sets of that many frames: half full at most, half a set of slack, a second to a minute.
    pub const fn of(set_frames: u32) -> Eagerness {
        Eagerness {
            first: First::Emptiest,
            most_used: 500,
            fuller_part: 0,
            slack: set_frames / 2,
            frames_per_s: set_frames,
            per_thousand_freed: 55,
            burst: set_frames * 4,
            wake_ms: 1_000,
            rest_ms: 60_000,
            lasting: Lasting::AtOnce,
            break_even_us: 0,
        }
    }

    /// Whether a set of so many frames, so many used, is empty enough to be emptied.
    pub fn empties(&self, used: u32, frames: u32) -> bool {
        u64::from(used) * 1_000 <= u64::from(frames) * u64::from(self.most_used)
    }

    /// Whether `room` frames elsewhere are enough for `needed` ones, with the slack left over.
    pub fn has_room(&self, room: u32, needed: u32) -> bool {
        u64::from(room) >= u64::from(needed) + u64::from(self.slack)
    }

    /// The emptiest is the greatest, the lowest of those that are equally empty.
    pub fn rank(free: u32, index: usize) -> (u32, Reverse<usize>) {
        (free, Reverse(index))
    }
}

/// Tries a page gets before its set is left alone.
const RETRIES: u32 = 3;
/// Passes that a set is left alone then.
const SKIPS: u8 = 8;
/// Sets switched off before their mean time off is believed.
const BELIEVED: u64 = 4;

/// What a call did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pass {
    /// Frames copied.
    pub copied: u64,
    /// Frames switched off.
    pub offlined: u64,
    /// Copies that the owner refused.
    pub refused: u64,
    /// Sets given up.
    pub given_up: u64,
}

/// The task of one zone.
#[derive(Clone, Debug)]
pub struct Migrator {
    eagerness: Eagerness,
    /// Frames that may be copied now, by time; and by what was freed, in thousandths.
    tokens: u64,
    earned: u64,
    /// Frames freed when `earned` was last counted, copied ones left out.
    freed: u64,
    copied: u64,
    refilled_ms: u64,
    next_ms: u64,
    interval_ms: u64,
    leaving: u32,
    /// Free frames of other zones that stand for slack.
    elsewhere: u32,
    watch: Watch,
    /// Set-milliseconds off, and sets switched off: their quotient is how long a set stays off (Little's law).
    off_ms: u64,
    offs: u64,
}

impl Migrator {
    /// A task that has not looked yet.
    pub fn new(eagerness: Eagerness) -> Migrator {
        Migrator {
            eagerness,
            tokens: eagerness.burst.into(),
            earned: 0,
            freed: 0,
            copied: 0,
            refilled_ms: 0,
            next_ms: eagerness.wake_ms,
            interval_ms: eagerness.wake_ms,
            leaving: 0,
            elsewhere: 0,
            watch: Watch::new(eagerness.lasting, eagerness.per_thousand_freed),
            off_ms: 0,
            offs: 0,
        }
    }

    /// Look at the next call, whatever time it is: what the thesis tried at exits, dropped caches and unmaps,
    /// and rejected.
    pub fn trigger(&mut self) {
        self.next_ms = 0;
    }

    /// So many frames of other zones' usable sets are free and may serve instead of slack in this zone.
    pub fn count_on(&mut self, elsewhere: u32) {
        self.elsewhere = elsewhere;
    }

    /// Notes the room there is, and says how much of it has lasted. To be called before each `poll`, if at all.
    pub fn watch<P: Policy>(&mut self, now_ms: u64, frames: &Frames<'_, P>) -> u32 {
        let (stats, copied) = (frames.stats(), self.copied);
        let freed = stats.freed - copied;
        let allocated = freed + u64::from(stats.frames - stats.free);
        let flow = Flow { allocated, freed, copied };
        self.watch.look(now_ms, frames.room(None), flow, stats.frames)
    }

    /// Goes on with what is under way, or begins if it is time and the machine is `idle`. `now_ms` never falls.
    pub fn poll<P: Policy, Q: Probe>(
        &mut self,
        now_ms: u64,
        idle: bool,
        frames: &mut Frames<'_, P>,
        owner: &mut impl Owner,
        probe: &mut Q,
    ) -> Pass {
        let mut pass = Pass::default();
        self.pass_time(now_ms, frames);
        if self.leaving == 0 && idle && now_ms >= self.next_ms {
            self.choose(frames, probe);
            self.interval_ms = match self.leaving {
                0 => (self.interval_ms * 2).min(self.eagerness.rest_ms),
                _ => self.eagerness.wake_ms,
            };
            self.next_ms = now_ms + self.interval_ms;
        }
        if self.leaving > 0 {
            self.empty(frames, owner, &mut pass, probe);
        }
        pass
    }

    /// An allocation failed: gives a set that is being emptied back to the others, the one least of which was
    /// moved. `false` when none is.
    pub fn relieve<P: Policy, Q: Probe>(
        &mut self,
        frames: &mut Frames<'_, P>,
        probe: &mut Q,
    ) -> bool {
        let leaving = leaving(frames);
        let Some(set) = leaving.min_by_key(|set| frames.table.sets[set.index()].moved) else {
            return false;
        };
        self.give_up(frames, set, probe);
        true
    }

    fn pass_time<P: Policy>(&mut self, now_ms: u64, frames: &Frames<'_, P>) {
        let passed = now_ms.saturating_sub(self.refilled_ms);
        let freed = frames.stats().freed - self.copied;
        let most = u64::from(self.eagerness.burst) * 1_000;
        let share = u64::from(self.eagerness.per_thousand_freed);
        self.earned = (self.earned + (freed - self.freed) * share).min(most);
        self.freed = freed;
        let refill = u64::from(self.eagerness.frames_per_s) * passed / 1_000;
        if refill > 0 {
            self.tokens = (self.tokens + refill).min(self.eagerness.burst.into());
            self.refilled_ms = now_ms;
            self.off_ms += passed * frames.table.off.len() as u64;
        }
        if self.offs > 64 {
            (self.off_ms, self.offs) = (self.off_ms / 2, self.offs / 2);
        }
    }

    /// Isolates every set that shall be emptied.
    fn choose<P: Policy, Q: Probe>(&mut self, frames: &mut Frames<'_, P>, probe: &mut Q) {
        for bank in frames.table.sets.iter_mut() {
            bank.skip = bank.skip.saturating_sub(1);
        }
        let mut pending = 0;
        let slack = self.eagerness.slack.saturating_sub(self.elsewhere);
        let mut from = 0;
        while let Some(set) = self.candidate(frames, from) {
            from = set.index() + 1;
            let used = frames.table.sets[set.index()].frames - frames.table.sets[set.index()].free;
            let needed = pending + used + self.watch.passing();
            let room =
                Eagerness { slack, ..self.eagerness }.has_room(frames.room(Some(set)), needed);
            let fits = room && u64::from(pending + used) * 1_000 <= self.earned;
            let done = match (fits, self.eagerness.first) {
                (true, _) => frames.isolate(set, probe).is_err(),
                (false, First::Emptiest) => true,
                (false, First::Lowest) => continue,
            };
            if done {
                break;
            }
            pending += used;
            let bank = &mut frames.table.sets[set.index()];
            bank.flags |= SetRecord::LEAVING;
            bank.moved = 0;
            self.leaving += 1;
        }
    }

    /// The next set worth emptying: the emptiest, or the lowest from `from` on.
    fn candidate<P: Policy>(&self, frames: &Frames<'_, P>, from: usize) -> Option<SetId> {
        let worth = |(_, bank): &(usize, &SetRecord)| {
            let used = bank.frames - bank.free;
            bank.usable()
                && bank.unmovable == 0
                && bank.skip == 0
                && !bank.has(SetRecord::NOMIG)
                && frames.policy.pool(bank.pool) != Some(Class::Kernel)
                && (self.eagerness.empties(used, bank.frames) || self.affords(used.into()))
                && self.pays(used.into())
        };
        let mut all = frames.table.sets.iter().enumerate().filter(worth);
        let found = match self.eagerness.first {
            First::Emptiest => all.max_by_key(|(index, bank)| Eagerness::rank(bank.free, *index)),
            First::Lowest => all.find(|(index, _)| *index >= from),
        };
        found.map(|(index, _)| SetId(index as u16))
    }

    /// Whether what may be copied is so much that a set's fullness does not matter.
    fn affords(&self, used: u64) -> bool {
        let part = u64::from(self.eagerness.fuller_part);
        part > 0 && used * 1_000 * part <= self.earned
    }

    /// Whether a set stays off long enough to be worth that much copying.
    fn pays(&self, used: u64) -> bool {
        let needed = used * self.eagerness.break_even_us / 1_000;
        self.offs < BELIEVED || needed <= self.off_ms / self.offs.max(1)
    }

    /// Moves blocks out of the sets that are leaving, as far as the budget goes.
    fn empty<P: Policy, Q: Probe>(
        &mut self,
        frames: &mut Frames<'_, P>,
        owner: &mut impl Owner,
        pass: &mut Pass,
        probe: &mut Q,
    ) {
        while let Some(set) = leaving(frames).max_by_key(|set| {
            let bank = &frames.table.sets[set.index()];
            Eagerness::rank(bank.free, set.index())
        }) {
            match self.empty_set(frames, set, owner, pass, probe) {
                Emptied::Vacant => self.switch_off(frames, set, pass, probe),
                Emptied::Stuck => {
                    pass.given_up += 1;
                    self.give_up(frames, set, probe);
                }
                Emptied::NoBudget => break,
            }
        }
    }

    fn switch_off<P: Policy, Q: Probe>(
        &mut self,
        frames: &mut Frames<'_, P>,
        set: SetId,
        pass: &mut Pass,
        probe: &mut Q,
    ) {
        let bank = &mut frames.table.sets[set.index()];
        bank.flags &= !SetRecord::LEAVING;
        self.leaving -= 1;
        let off = bank.frames;
        if frames.switch_off(set, probe).is_ok() {
            pass.offlined += u64::from(off);
            self.offs += 1;
        }
    }

    fn give_up<P: Policy, Q: Probe>(
        &mut self,
        frames: &mut Frames<'_, P>,
        set: SetId,
        probe: &mut Q,
    ) {
        let bank = &mut frames.table.sets[set.index()];
        bank.flags &= !SetRecord::LEAVING;
        bank.skip = SKIPS;
        self.leaving -= 1;
        let released = frames.release(set, probe);
        debug_assert_eq!(released, Ok(()), "a leaving set is isolated");
    }

    fn empty_set<P: Policy, Q: Probe>(
        &mut self,
        frames: &mut Frames<'_, P>,
        set: SetId,
        owner: &mut impl Owner,
        pass: &mut Pass,
        probe: &mut Q,
    ) -> Emptied {
        for nth in 0..frames.table.width() {
            let (mut at, end) = frames.table.bank_range(set, nth);
            while at < end && !frames.table.sets[set.index()].is_vacant() {
                let next = frames.table.after(at);
                if let Begins::Used(order, kind) = frames.table.begins(at) {
                    let len = u64::from(order.frames());
                    if self.tokens < len {
                        return Emptied::NoBudget;
                    }
                    let from = frames.table.global(at);
                    if !move_block(frames, from, order, kind, owner, pass, probe) {
                        return Emptied::Stuck;
                    }
                    self.tokens -= len;
                    self.copied += len;
                    self.earned = self.earned.saturating_sub(1_000 * len);
                    frames.table.sets[set.index()].moved += order.frames();
                }
                at = next;
            }
        }
        Emptied::Vacant
    }
}

enum Emptied {
    Vacant,
    Stuck,
    NoBudget,
}

/// Sets that a task is emptying.
fn leaving<P: Policy>(frames: &Frames<'_, P>) -> impl Iterator<Item = SetId> {
    let all = frames.table.sets.iter().enumerate().filter(|(_, bank)| bank.has(SetRecord::LEAVING));
    all.map(|(index, _)| SetId(index as u16))
}

/// A refuge, the copy, and the old block back.
fn move_block<P: Policy, Q: Probe>(
    frames: &mut Frames<'_, P>,
    from: Frame,
    order: Order,
    kind: Kind,
    owner: &mut impl Owner,
    pass: &mut Pass,
    probe: &mut Q,
) -> bool {
    let Ok(to) = frames.refuge(Request::new(order, kind), probe) else { return false };
    for _ in 0..RETRIES {
        if owner.migrate(from, to, order) {
            pass.copied += u64::from(order.frames());
            return frames.free(from, order, probe).is_ok();
        }
        pass.refused += 1;
    }
    let freed = frames.free(to, order, probe);
    debug_assert_eq!(freed, Ok(()), "what was just allocated can be freed");
    false
}

/// Empties one set for good, whatever it holds: hot removal. The set stays isolated when it is vacant, and is
/// released when it cannot be emptied.
///
/// # Errors
/// How many frames are left in it.
pub fn remove<P: Policy, Q: Probe>(
    frames: &mut Frames<'_, P>,
    set: SetId,
    owner: &mut impl Owner,
    probe: &mut Q,
) -> Result<u64, u32> {
    let left = |frames: &Frames<'_, P>| frames.set(set).map_or(0, |info| info.used());
    match frames.set(set) {
        Ok(info) if info.removable() && info.state == SetState::Usable => {}
        _ => return Err(left(frames)),
    }
    if frames.isolate(set, probe).is_err() {
        return Err(left(frames));
    }
    let (eagerness, mut pass) =
        (Eagerness::of(frames.set(set).map_or(0, |info| info.frames)), Pass::default());
    let mut task = Migrator { tokens: u64::MAX, ..Migrator::new(eagerness) };
    match task.empty_set(frames, set, owner, &mut pass, probe) {
        Emptied::Vacant => Ok(pass.copied),
        Emptied::Stuck | Emptied::NoBudget => {
            let left = left(frames);
            let released = frames.release(set, probe);
            debug_assert_eq!(released, Ok(()), "it was isolated here");
            Err(left)
        }
    }
}
