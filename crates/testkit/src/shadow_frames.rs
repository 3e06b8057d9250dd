//! The oracle for page-frame allocators: who owns which frame, what it wrote there, and what must never happen.

use crate::frame_programs::{FrameOp, FrameProgram};
use freehold_core::frames::migrate::{self, Eagerness, Lasting, Migrator, Owner};
use freehold_core::frames::{
    AllocError, Area, Class, Frame, Frames, FreeError, Group, Kind, Link, Memory, Needs, Order,
    Policy, Request, SetId, SetRecord, SetState, Zone,
};

/// Metadata of a zone in ordinary memory.
#[derive(Debug, Default)]
pub struct FrameMemory {
    tags: Vec<u8>,
    links: Vec<Link>,
    groups: Vec<Group>,
    page_blocks: Vec<u8>,
    areas: Vec<Area>,
    sets: Vec<SetRecord>,
}

impl FrameMemory {
    /// Just what is needed.
    pub fn new(needs: Needs) -> FrameMemory {
        FrameMemory {
            tags: vec![0; needs.frames],
            links: vec![Link::default(); needs.frames],
            groups: vec![Group::default(); needs.groups],
            page_blocks: vec![0; needs.page_blocks],
            areas: vec![Area::default(); needs.areas],
            sets: vec![SetRecord::default(); needs.sets],
        }
    }

    /// To be handed in.
    pub fn lend(&mut self) -> Memory<'_> {
        Memory {
            tags: &mut self.tags,
            links: &mut self.links,
            groups: &mut self.groups,
            page_blocks: &mut self.page_blocks,
            areas: &mut self.areas,
            sets: &mut self.sets,
        }
    }
}

/// A live block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    id: u64,
    frame: Frame,
    order: Order,
    kind: Kind,
}

/// What every frame holds: who owns it and which of its frames it is; 0 is nobody.
struct Contents {
    first: u32,
    words: Vec<(u64, u32)>,
    held: Vec<Held>,
    /// Every nth copy is refused; 0: none.
    refuse: u8,
    copies: u32,
}

impl Contents {
    fn at(&mut self, frame: Frame, order: Order) -> &mut [(u64, u32)] {
        let from = (frame.0 - self.first) as usize;
        &mut self.words[from..from + order.frames() as usize]
    }

    fn write(&mut self, held: Held) -> Result<(), String> {
        for (nth, word) in self.at(held.frame, held.order).iter_mut().enumerate() {
            if word.0 != 0 {
                return Err(format!("{held:?} overlaps block {}", word.0));
            }
            *word = (held.id, nth as u32);
        }
        Ok(())
    }

    fn is_intact(&mut self, held: Held) -> bool {
        let mut words = self.at(held.frame, held.order).iter().enumerate();
        words.all(|(nth, &word)| word == (held.id, nth as u32))
    }
}

impl Owner for Contents {
    fn migrate(&mut self, from: Frame, to: Frame, order: Order) -> bool {
        self.copies += 1;
        if self.refuse != 0 && self.copies.is_multiple_of(self.refuse.into()) {
            return false;
        }
        let words = self.at(from, order).to_vec();
        self.at(to, order).copy_from_slice(&words);
        self.at(from, order).fill((0, 0));
        let held = self.held.iter_mut().find(|held| held.frame == from && held.order == order);
        held.map(|held| held.frame = to).is_some()
    }
}

/// A zone under the oracle.
pub struct ShadowFrames<'m, P: Policy> {
    frames: Frames<'m, P>,
    zone: Zone,
    task: Migrator,
    contents: Contents,
    now_ms: u64,
    ids: u64,
}

impl<'m, P: Policy> ShadowFrames<'m, P> {
    /// A zone, wholly free. The zone must be one that can be managed.
    pub fn new(zone: Zone, memory: &'m mut FrameMemory) -> Result<Self, String> {
        let frames = Frames::new(zone, memory.lend()).map_err(|error| error.to_string())?;
        let eagerness = Eagerness {
            fuller_part: 2,
            slack: zone.bank_frames / 4,
            frames_per_s: 700,
            per_thousand_freed: 2_000,
            burst: 1_500,
            rest_ms: 4_000,
            lasting: Lasting::Reuse,
            ..Eagerness::of(zone.bank_frames)
        };
        let words = vec![(0, 0); zone.frames as usize];
        let contents =
            Contents { first: zone.first.0, words, held: Vec::new(), refuse: 0, copies: 0 };
        Ok(ShadowFrames {
            frames,
            zone,
            task: Migrator::new(eagerness),
            contents,
            now_ms: 0,
            ids: 0,
        })
    }

    /// One call, and what must hold after it. `thorough` looks at everything.
    ///
    /// # Errors
    /// The broken promise.
    pub fn step(&mut self, op: FrameOp, thorough: bool) -> Result<(), String> {
        match op {
            FrameOp::Alloc(order, kind, brief) => {
                self.alloc(FrameOp::request(order, kind, brief))?
            }
            FrameOp::Free(n) => {
                if let Some(held) = self.nth(n) {
                    self.free(held)?;
                }
            }
            FrameOp::Misuse(how, n) => self.misuse(how, n)?,
            FrameOp::Isolate(n) => {
                self.change(n, Frames::isolate, |was, _| was == SetState::Usable)?
            }
            FrameOp::Release(n) => {
                self.change(n, Frames::release, |was, _| was == SetState::Isolated)?
            }
            FrameOp::Off(n) => {
                self.change(n, Frames::switch_off, |was, used| {
                    was != SetState::Offline && used == 0
                })?;
            }
            FrameOp::On(n) => {
                self.change(n, Frames::switch_on, |was, _| was == SetState::Offline)?
            }
            FrameOp::Tidy => self.frames.tidy(&mut ()),
            FrameOp::Poll(ms, refuse) => self.poll(ms, refuse)?,
            FrameOp::Relieve => drop(self.task.relieve(&mut self.frames, &mut ())),
            FrameOp::Remove(n) => self.remove(n)?,
        }
        let rare = !matches!(op, FrameOp::Alloc(..) | FrameOp::Free(_));
        if !(rare || thorough) {
            return Ok(());
        }
        self.frames.check().map_err(|broken| broken.to_string())
    }

    fn nth(&self, n: u32) -> Option<Held> {
        let held = &self.contents.held;
        held.get(n as usize % held.len().max(1)).copied()
    }

    fn nth_set(&self, n: u16) -> SetId {
        SetId(n % self.zone.sets() as u16)
    }

    fn alloc(&mut self, wanted: Request) -> Result<(), String> {
        let before: Vec<_> = self.states();
        if self.ids.is_multiple_of(4)
            && let Ok(frame) = self.frames.alloc_awake(wanted, &mut ())
        {
            if self.states() != before {
                return Err(format!("{wanted:?} of sets that are on changed the state of one"));
            }
            return self.accept(frame, wanted, &before);
        }
        match self.frames.alloc(wanted, &mut ()) {
            Ok(frame) => self.accept(frame, wanted, &before),
            Err(AllocError::Exhausted) if !self.could_serve(wanted) => Ok(()),
            Err(error) => Err(format!("{wanted:?} failed though a block exists: {error}")),
        }
    }

    fn states(&self) -> Vec<SetState> {
        let sets = (0..self.zone.sets() as u16).map(SetId);
        sets.map(|set| self.frames.set(set).map_or(SetState::Isolated, |info| info.state)).collect()
    }

    fn accept(&mut self, frame: Frame, wanted: Request, before: &[SetState]) -> Result<(), String> {
        let Request { order, kind, .. } = wanted;
        let set = self.frames.set_of(frame).ok_or(format!("{frame:?} is not of the zone"))?;
        if before[set.index()] == SetState::Isolated {
            return Err(format!("{frame:?} was handed out of {set:?}, which is isolated"));
        }
        if !frame.0.is_multiple_of(order.frames()) {
            return Err(format!("{frame:?} is not aligned to order {order}"));
        }
        if self.frames.used(frame) != Some((order, kind)) {
            return Err(format!("{frame:?} is not known as {wanted:?}"));
        }
        if kind.class() == Class::Kernel && self.in_cma(frame) {
            return Err(format!("{frame:?} of CMA went to the kernel"));
        }
        self.ids += 1;
        let held = Held { id: self.ids, frame, order, kind };
        self.contents.write(held)?;
        self.contents.held.push(held);
        Ok(())
    }

    fn in_cma(&self, frame: Frame) -> bool {
        let within = |(first, frames): (Frame, u32)| (first.0..first.0 + frames).contains(&frame.0);
        self.zone.cma.is_some_and(within)
    }

    /// Whether a free block exists that must have been found: in a set that is not isolated, and for the kernel
    /// in one without CMA.
    fn could_serve(&self, wanted: Request) -> bool {
        let cma = self.zone.cma.and_then(|(first, _)| self.frames.set_of(first));
        let mut found = false;
        self.frames.for_each_block(|frame, order, kind| {
            let Some(set) = self.frames.set_of(frame) else { return };
            let isolated = self.frames.set(set).is_ok_and(|info| info.state == SetState::Isolated);
            let closed = wanted.kind.class() == Class::Kernel && Some(set) == cma;
            found |= kind.is_none() && order >= wanted.order && !isolated && !closed;
        });
        found
    }

    fn free(&mut self, held: Held) -> Result<(), String> {
        if !self.contents.is_intact(held) {
            return Err(format!("{held:?} does not hold what was written"));
        }
        self.contents.at(held.frame, held.order).fill((0, 0));
        self.contents.held.retain(|other| *other != held);
        self.frames.free(held.frame, held.order, &mut ()).map_err(|error| error.to_string())
    }

    /// A wrong free must be refused and change nothing (`check` runs after it).
    fn misuse(&mut self, how: u8, n: u32) -> Result<(), String> {
        let held = self.nth(n);
        let (frame, order) = match (how, held) {
            (0, Some(Held { frame, order, .. })) => (frame, order.double()),
            (1, Some(Held { frame, order, .. })) => (frame, order.half()),
            (2, Some(held)) if held.order > Order::FRAME => {
                (Frame(held.frame.0 + 1), Some(Order::FRAME))
            }
            (3, _) => (Frame(self.zone.first.0.wrapping_sub(1)), Some(Order::FRAME)),
            (4, _) => (Frame(self.zone.end()), Some(Order::FRAME)),
            (5, Some(held)) => {
                self.free(held)?;
                (held.frame, Some(held.order))
            }
            _ => return Ok(()),
        };
        let Some(order) = order else { return Ok(()) };
        let free = self.frames.stats().free;
        match self.frames.free(frame, order, &mut ()) {
            Ok(()) => Err(format!("the free of {frame:?}, order {order}, was not refused")),
            Err(FreeError::Twice(_) | FreeError::Inside(_)) if how == 1 => {
                Err(format!("{frame:?} begins a used block"))
            }
            Err(_) if self.frames.stats().free != free => {
                Err("a refused free changed something".into())
            }
            Err(_) => Ok(()),
        }
    }

    fn change(
        &mut self,
        n: u16,
        call: fn(&mut Frames<'m, P>, SetId, &mut ()) -> Result<(), freehold_core::frames::SetError>,
        may: fn(SetState, u32) -> bool,
    ) -> Result<(), String> {
        let set = self.nth_set(n);
        let info = self.frames.set(set).map_err(|error| error.to_string())?;
        // A set that the task is emptying is the task's until it is given back.
        if info.state == SetState::Isolated && !info.shared {
            while self.task.relieve(&mut self.frames, &mut ()) {}
        }
        let info = self.frames.set(set).map_err(|error| error.to_string())?;
        let result = call(&mut self.frames, set, &mut ());
        let allowed = may(info.state, info.used()) && !info.shared;
        if result.is_ok() != allowed {
            return Err(format!("{set:?}, {info:?}: {result:?}"));
        }
        Ok(())
    }

    fn poll(&mut self, ms: u16, refuse: u8) -> Result<(), String> {
        self.now_ms += u64::from(ms);
        self.contents.refuse = refuse;
        let room = self.frames.room(None);
        let lasting = self.task.watch(self.now_ms, &self.frames);
        if lasting > room {
            return Err(format!("{lasting} frames of room have lasted, of {room}"));
        }
        self.task.count_on(u32::from(refuse) * 64);
        self.task.poll(self.now_ms, true, &mut self.frames, &mut self.contents, &mut ());
        Ok(())
    }

    fn remove(&mut self, n: u16) -> Result<(), String> {
        let set = self.nth_set(n);
        self.contents.refuse = 0;
        let removed = migrate::remove(&mut self.frames, set, &mut self.contents, &mut ());
        let info = self.frames.set(set).map_err(|error| error.to_string())?;
        match removed {
            Ok(_) if info.used() > 0 || info.state != SetState::Isolated => {
                Err(format!("{set:?} was removed and is {info:?}"))
            }
            Ok(_) => self.frames.release(set, &mut ()).map_err(|error| error.to_string()),
            Err(left) if left != info.used() => Err(format!("{left} left, but {info:?}")),
            Err(_) => Ok(()),
        }
    }

    /// Every block holds what was written, as its order and kind, wherever it lies now.
    pub fn verify(&mut self) -> Result<(), String> {
        for held in self.contents.held.clone() {
            if !self.contents.is_intact(held) {
                return Err(format!("{held:?} does not hold what was written"));
            }
            if self.frames.used(held.frame) != Some((held.order, held.kind)) {
                return Err(format!("{held:?} is known as {:?}", self.frames.used(held.frame)));
            }
        }
        Ok(())
    }

    /// Frees all; then every frame is free again.
    pub fn end(mut self) -> Result<(), String> {
        self.verify()?;
        while let Some(held) = self.nth(0) {
            self.free(held)?;
        }
        self.frames.check().map_err(|broken| broken.to_string())?;
        let stats = self.frames.stats();
        if stats.free == self.zone.frames {
            Ok(())
        } else {
            Err(format!("after freeing all: {stats:?}"))
        }
    }
}

/// Ordinary calls between two walks over all structures. (After every other call there is one.)
const CHECK_EVERY: usize = 8;

/// Runs a program under the oracle.
///
/// # Errors
/// The broken promise, and after which call.
pub fn run_frames<P: Policy>(program: &FrameProgram) -> Result<(), String> {
    let zone = program.zone();
    let needs = Frames::<P>::needs(&zone).map_err(|error| error.to_string())?;
    let mut memory = FrameMemory::new(needs);
    let mut shadow = ShadowFrames::<P>::new(zone, &mut memory)?;
    for (nth, &op) in program.ops.iter().enumerate() {
        let after = |fault: String| format!("call {nth}, {op:?}: {fault}");
        let thorough = nth % CHECK_EVERY == 0;
        shadow.step(op, thorough).map_err(after)?;
        if thorough {
            shadow.verify().map_err(after)?;
        }
    }
    shadow.end()
}
