//! The allocator: one interface over the table, whatever the policy.
//!
//! Invariant: every argument is checked against the table before anything changes, so a wrong call is an
//! error and leaves the lists as they were.

use super::memory::{Memory, SetRecord};
use super::order::Order;
use super::policy::Policy;
use super::request::{Class, Frame, Kind, Request, SetId};
use super::store::{Begins, Store};
use super::table::Table;
use super::zone::{Needs, SetupError, Zone};
use core::fmt;
use freehold_blocks::probe::Probe;

/// The page frames of one zone under one policy.
///
/// Called by one thread at a time: whoever shares it holds a lock, as Linux does. Every operation reports
/// its steps to the probe given with it; `()` is nobody.
pub struct Frames<'m, P: Policy> {
    pub(super) table: Table<'m, P::Store>,
    pub(super) policy: P,
}

/// A request that got nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AllocError {
    /// No block of that order in any bank that may serve this kind.
    Exhausted,
}

/// A free that was refused. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FreeError {
    /// Not a frame of this zone.
    Foreign(Frame),
    /// A free block begins there: freed twice.
    Twice(Frame),
    /// No block begins there: it is inside one, used or free.
    Inside(Frame),
    /// The block has another order.
    Order(Frame, Order),
}

/// A bank set that cannot do what was asked. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetError {
    /// The zone has no such set.
    Unknown(SetId),
    /// Shared with a neighbouring zone or a hole: it stays on.
    Shared(SetId),
    /// Something in it is used.
    Occupied(SetId),
    /// It is isolated or off already, or is neither and should be.
    State(SetId, SetState),
}

/// What a bank set does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetState {
    /// Serves requests.
    Usable,
    /// Keeps what it has and serves nothing.
    Isolated,
    /// Switched off, until a request finds no other memory.
    Offline,
}

/// A bank set as seen from outside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetInfo {
    /// Frames that are there.
    pub frames: u32,
    /// Free ones.
    pub free: u32,
    /// Frames of the kernel class: while there are any the set cannot be evacuated.
    pub unmovable: u32,
    /// What it does.
    pub state: SetState,
    /// Shared with a neighbour: never off.
    pub shared: bool,
}

impl SetInfo {
    /// Frames that an evacuation would have to move.
    pub const fn used(&self) -> u32 {
        self.frames - self.free
    }

    /// Whether all that is in it can be moved away.
    pub const fn removable(&self) -> bool {
        self.unmovable == 0 && !self.shared
    }
}

/// Sums of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// All frames.
    pub frames: u32,
    /// Free, those of sets that are off included.
    pub free: u32,
    /// Frames of sets that are off.
    pub offline: u32,
    /// Bank sets.
    pub sets: u16,
    /// How often one was switched on.
    pub switched_on: u64,
    /// Frames freed since the beginning, those of blocks that moved included.
    pub freed: u64,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AllocError::Exhausted => f.write_str("no block of that order is left"),
        }
    }
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FreeError::Foreign(frame) => write!(f, "{frame:?} is not of this zone"),
            FreeError::Twice(frame) => write!(f, "{frame:?} is free already"),
            FreeError::Inside(frame) => write!(f, "no block begins at {frame:?}"),
            FreeError::Order(frame, has) => write!(f, "the block at {frame:?} is of order {has}"),
        }
    }
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::Unknown(set) => write!(f, "there is no {set:?}"),
            SetError::Shared(set) => write!(f, "{set:?} is shared with a neighbour and stays on"),
            SetError::Occupied(set) => write!(f, "something in {set:?} is used"),
            SetError::State(set, state) => write!(f, "{set:?} is {state:?}"),
        }
    }
}

impl core::error::Error for AllocError {}
impl core::error::Error for FreeError {}
impl core::error::Error for SetError {}

impl<'m, P: Policy> Frames<'m, P> {
    /// What [`new`](Self::new) must be handed for that zone.
    ///
    /// # Errors
    /// When the zone cannot be managed.
    pub fn needs(zone: &Zone) -> Result<Needs, SetupError> {
        zone.validate()?;
        Ok(Table::<P::Store>::needs(zone, P::areas(zone.sets())))
    }

    /// Takes over the zone, wholly free. O(frames).
    ///
    /// # Errors
    /// When the zone cannot be managed, or a slice of `memory` is too short.
    pub fn new(zone: Zone, memory: Memory<'m>) -> Result<Self, SetupError> {
        zone.validate()?;
        let mut table = Table::new(zone, memory, P::areas(zone.sets()))?;
        let mut policy = P::new(&table);
        for set in (0..zone.sets() as u16).map(SetId) {
            let off = P::STARTS_OFF && !table.sets[set.index()].has(SetRecord::NOMIG);
            table.set_off(set, off);
        }
        table.fill(|table, at| policy.area(table, at));
        for set in (0..zone.sets() as u16).map(SetId) {
            if table.sets[set.index()].usable() {
                policy.join(&mut table, set, &mut ());
            }
        }
        Ok(Frames { table, policy })
    }

    /// A block, owned by the caller until freed. A set that is off is switched on when no other serves.
    ///
    /// # Errors
    /// [`AllocError::Exhausted`]: then nothing has changed.
    #[inline]
    pub fn alloc<Q: Probe>(&mut self, wanted: Request, probe: &mut Q) -> Result<Frame, AllocError> {
        let picked =
            self.policy.pick(&mut self.table, wanted, probe).ok_or(AllocError::Exhausted)?;
        Ok(self.hand_out(picked, wanted, probe))
    }

    /// A block out of sets that are on, as far as the policy knows how to; switches none on.
    ///
    /// # Errors
    /// As of `alloc`; then another zone may have one, or this one by [`alloc`](Self::alloc).
    #[inline]
    pub fn alloc_awake<Q: Probe>(
        &mut self,
        wanted: Request,
        probe: &mut Q,
    ) -> Result<Frame, AllocError> {
        let picked = self.policy.pick_awake(&mut self.table, wanted, probe);
        Ok(self.hand_out(picked.ok_or(AllocError::Exhausted)?, wanted, probe))
    }

    /// A block to move another one into: as [`alloc`](Self::alloc), but switches no set on, and takes it
    /// where it is most likely to stay.
    ///
    /// # Errors
    /// As of `alloc`.
    pub fn refuge<Q: Probe>(
        &mut self,
        wanted: Request,
        probe: &mut Q,
    ) -> Result<Frame, AllocError> {
        let picked =
            self.policy.refuge(&mut self.table, wanted, probe).ok_or(AllocError::Exhausted)?;
        Ok(self.hand_out(picked, wanted, probe))
    }

    #[inline]
    fn hand_out<Q: Probe>(
        &mut self,
        picked: <P::Store as Store>::Picked,
        wanted: Request,
        probe: &mut Q,
    ) -> Frame {
        let set = P::Store::set_of(&self.table, picked);
        let (at, changed) = self.table.take(picked, set, (wanted.order, wanted.kind), probe);
        self.policy.settle(&mut self.table, changed, probe);
        self.table.global(at)
    }

    /// Takes a block back. O(orders).
    ///
    /// # Errors
    /// When no used block of that order begins there: then nothing has changed.
    #[inline]
    pub fn free<Q: Probe>(
        &mut self,
        frame: Frame,
        order: Order,
        probe: &mut Q,
    ) -> Result<(), FreeError> {
        let at = self.table.local(frame).ok_or(FreeError::Foreign(frame))?;
        let area = |table: &Table<'_, P::Store>, at| self.policy.area(table, at);
        let Some(changed) = self.table.give((at, order), area, probe) else {
            return Err(self.refusal(frame, at));
        };
        self.policy.settle(&mut self.table, changed, probe);
        Ok(())
    }

    /// Why no block of the order that was said can be freed there.
    #[cold]
    #[inline(never)]
    fn refusal(&self, frame: Frame, at: u32) -> FreeError {
        match P::Store::begins(&self.table, at) {
            Begins::Used(has, _) => FreeError::Order(frame, has),
            Begins::Free(_) => FreeError::Twice(frame),
            Begins::Tail => FreeError::Inside(frame),
            Begins::Hole => FreeError::Foreign(frame),
        }
    }

    fn state(&self, set: SetId) -> Result<SetState, SetError> {
        let bank = self.table.sets.get(set.index()).ok_or(SetError::Unknown(set))?;
        Ok(match (bank.has(SetRecord::OFFLINE), bank.has(SetRecord::ISOLATED)) {
            (true, _) => SetState::Offline,
            (_, true) => SetState::Isolated,
            _ => SetState::Usable,
        })
    }

    fn expect(&self, set: SetId, wants: SetState) -> Result<(), SetError> {
        let state = self.state(set)?;
        if state == wants { Ok(()) } else { Err(SetError::State(set, state)) }
    }

    /// From here on nothing is handed out of the set. What it holds stays, and may be freed.
    ///
    /// # Errors
    /// When it is shared, isolated or off.
    pub fn isolate<Q: Probe>(&mut self, set: SetId, probe: &mut Q) -> Result<(), SetError> {
        self.expect(set, SetState::Usable)?;
        if self.table.sets[set.index()].has(SetRecord::NOMIG) {
            return Err(SetError::Shared(set));
        }
        self.table.sets[set.index()].flags |= SetRecord::ISOLATED;
        self.policy.withdraw(&mut self.table, set, probe);
        Ok(())
    }

    /// Undoes [`isolate`](Self::isolate).
    ///
    /// # Errors
    /// When it is not isolated.
    pub fn release<Q: Probe>(&mut self, set: SetId, probe: &mut Q) -> Result<(), SetError> {
        self.expect(set, SetState::Isolated)?;
        self.table.sets[set.index()].flags &= !SetRecord::ISOLATED;
        self.policy.join(&mut self.table, set, probe);
        Ok(())
    }

    /// Switches a set off in which nothing is used. A request that finds no other memory switches it on
    /// again; to take it away for good, leave it isolated.
    ///
    /// # Errors
    /// When something in it is used, or it is shared or off.
    pub fn switch_off<Q: Probe>(&mut self, set: SetId, probe: &mut Q) -> Result<(), SetError> {
        let state = self.state(set)?;
        let bank = &self.table.sets[set.index()];
        if state == SetState::Offline {
            return Err(SetError::State(set, state));
        }
        if bank.has(SetRecord::NOMIG) {
            return Err(SetError::Shared(set));
        }
        if !bank.is_vacant() {
            return Err(SetError::Occupied(set));
        }
        if state == SetState::Usable {
            self.isolate(set, probe)?;
        }
        self.table.sets[set.index()].flags &= !SetRecord::ISOLATED;
        self.table.set_off(set, true);
        Ok(())
    }

    /// Switches a set on again.
    ///
    /// # Errors
    /// When it is not off.
    pub fn switch_on<Q: Probe>(&mut self, set: SetId, probe: &mut Q) -> Result<(), SetError> {
        self.expect(set, SetState::Offline)?;
        self.table.set_off(set, false);
        self.policy.join(&mut self.table, set, probe);
        Ok(())
    }

    /// Of the policies that put banks in order now and then: do it. The caller decides how often
    /// (Panwar's optimal-selection thread: 100 ms here), and skips it while the allocator's lock is taken.
    pub fn tidy<Q: Probe>(&mut self, probe: &mut Q) {
        self.policy.tidy(&mut self.table, probe);
    }

    /// Frames into which pages could be moved without switching a set on, the free ones of `leaving` left out.
    pub fn room(&self, leaving: Option<SetId>) -> u32 {
        self.policy.room(&self.table, leaving)
    }

    /// Sums. O(1).
    pub fn stats(&self) -> Stats {
        Stats {
            frames: self.table.zone().frames,
            free: self.table.free(),
            offline: self.table.offline(),
            sets: self.table.sets.len() as u16,
            switched_on: self.table.switched_on(),
            freed: self.table.freed(),
        }
    }

    /// The zone.
    pub fn zone(&self) -> &Zone {
        self.table.zone()
    }

    /// A bank set.
    ///
    /// # Errors
    /// When the zone has no such set.
    pub fn set(&self, set: SetId) -> Result<SetInfo, SetError> {
        let state = self.state(set)?;
        let bank = &self.table.sets[set.index()];
        Ok(SetInfo {
            frames: bank.frames,
            free: bank.free,
            unmovable: bank.unmovable,
            state,
            shared: bank.has(SetRecord::NOMIG),
        })
    }

    /// The pool of a set: which class it serves first, where the policy keeps classes apart by bank.
    pub fn pool(&self, set: SetId) -> Option<Class> {
        let bank = self.table.sets.get(set.index())?;
        self.policy.pool(bank.pool)
    }

    /// The set of a frame, or `None` when the zone does not have the frame.
    pub fn set_of(&self, frame: Frame) -> Option<SetId> {
        self.table.local(frame).map(|at| self.table.set_of(at))
    }

    /// The order and kind of the used block that begins at `frame`, if one does.
    pub fn used(&self, frame: Frame) -> Option<(Order, Kind)> {
        match self.table.begins(self.table.local(frame)?) {
            Begins::Used(order, kind) => Some((order, kind)),
            _ => None,
        }
    }

    /// Every block in the order of addresses: (first frame, order, kind when used). O(blocks).
    pub fn for_each_block(&self, mut visit: impl FnMut(Frame, Order, Option<Kind>)) {
        let end = self.table.zone().banks() * self.table.zone().bank_frames;
        let mut at = 0;
        while at < end {
            match self.table.begins(at) {
                Begins::Free(order) => visit(self.table.global(at), order, None),
                Begins::Used(order, kind) => visit(self.table.global(at), order, Some(kind)),
                Begins::Tail | Begins::Hole => {}
            }
            at = self.table.after(at);
        }
    }
}
