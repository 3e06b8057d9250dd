//! A walk: from the top's registers outwards, frame by frame, by the rules of the addresses met.
//!
//! Loads are handed on in the order in which they are made. Where nothing tells what to do (code made at run time), the
//! frame pointer is followed if it can be one.
//!
//! Invariant: the stack pointer grows with every frame but a signal's, so a walk ends; where it cannot go on, it says
//! so ([`Ended::Cut`]).

use super::Caller;
use super::list::{BY_RBP, EXACT, FRAME, Load, RBP};
use super::memory::Range;
use super::modules::Module;
use super::rule::{Base, Packed, Place, Plain, Rule, Saved, Special};
use super::rules;

/// Most bytes of a frame that was found by its frame pointer alone.
const LARGEST_UNTOLD: u64 = 8 << 20;
/// Lowest address that can be code.
const LOWEST_CODE: u64 = 4096;
/// Signals handled within one another, at most.
const MOST_SIGNALS: u32 = 64;

/// How a walk came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// At the outermost frame.
    Whole,
    /// Where it could not be followed: the frames further out are unknown.
    Cut,
    /// Where who listens wanted no more.
    Stopped,
}

/// Who listens to a walk.
pub trait Walker {
    /// The next load: what a CFA took, a frame's address, or the frame pointer saved in it. False ends the walk.
    fn load(&mut self, load: Load) -> bool;
    /// The frame of the loads since the last one: its address, and the frame pointer there. False ends the walk.
    fn frame(&mut self, frame: Load, rbp: Option<u64>) -> bool;
    /// The rule of an address was worked out by the tables of `module`.
    fn module(&mut self, module: &Module);
    /// A frame was found by another register than the stack and frame pointer: the list does not decide about the stack.
    fn by_other(&mut self);
}

/// Where a walk is.
struct At<'a, W> {
    rip: u64,
    exact: bool,
    /// By the number of a [`Base`].
    registers: [u64; 4],
    /// Bits of registers whose values are lost.
    lost: u8,
    signals: u32,
    range: &'a mut Range,
    walker: &'a mut W,
}

/// Walks from the caller of a hook by the rules of a generation: [`rules::rule_at`], or [`rules::anew`] to check it. `range`
/// belongs to the thread.
#[inline(always)]
pub fn walk<W: Walker>(
    caller: &Caller,
    (rule_at, generation): (impl Fn(u64, bool, u64) -> (Packed, Option<Module>), u64),
    range: &mut Range,
    walker: &mut W,
) -> Ended {
    range.enter(caller.slot);
    let Some(rip) = range.word(caller.slot) else { return Ended::Cut };
    let registers = [caller.slot + 8, caller.rbp, caller.rbx, 0];
    let mut at = At { rip, exact: false, registers, lost: 0, signals: 0, range, walker };
    let mut frame = Load { place: caller.slot | FRAME, word: rip };
    if !at.walker.load(frame) {
        return Ended::Stopped;
    }
    while at.walker.frame(frame, at.base(Base::Rbp)) {
        // A call is the last thing before its return address, so that is looked up which lies before.
        let (rule, module) = rule_at(at.rip - u64::from(!at.exact), at.exact, generation);
        if let Some(module) = module {
            at.walker.module(&module);
        }
        let step = match rule.plain() {
            Some(plain) => at.plain(plain),
            None => at.other(rule.rule()),
        };
        frame = match step {
            Ok(frame) => frame,
            Err(ended) => return ended,
        };
    }
    Ended::Stopped
}

/// What a frame took besides its address.
#[derive(Default)]
struct Taken {
    /// What the CFA was loaded from.
    cfa: Option<Load>,
    /// The frame pointer that was saved.
    rbp: Option<Load>,
    /// By another register than the stack and frame pointer.
    by_other: bool,
}

impl<W: Walker> At<'_, W> {
    #[inline(always)]
    fn base(&self, base: Base) -> Option<u64> {
        (self.lost >> base as u8 & 1 == 0).then_some(self.registers[base as usize])
    }

    #[inline(always)]
    fn set(&mut self, base: Base, value: Option<u64>) {
        match value {
            Some(value) => {
                self.registers[base as usize] = value;
                self.lost &= !(1 << base as u8);
            }
            None => self.lost |= 1 << base as u8,
        }
    }

    #[inline(always)]
    fn load(&mut self, at: u64, flags: u64) -> Result<Load, Ended> {
        let word = self.range.word(at).ok_or(Ended::Cut)?;
        Ok(Load { place: at | flags, word })
    }

    /// Goes on to the frame that was found, whose caller's stack pointer is `rsp`, and hands its loads on.
    #[inline(always)]
    fn arrive(&mut self, frame: Load, rsp: u64, taken: &Taken) -> Result<Load, Ended> {
        if taken.by_other {
            self.walker.by_other();
        }
        if frame.word < LOWEST_CODE {
            return Err(if frame.word == 0 { Ended::Whole } else { Ended::Cut });
        }
        if let Some(saved) = taken.rbp {
            self.set(Base::Rbp, Some(saved.word));
        }
        self.registers[Base::Rsp as usize] = rsp;
        (self.rip, self.exact) = (frame.word, frame.is(EXACT));
        let goes_on = taken.cfa.is_none_or(|load| self.walker.load(load))
            && self.walker.load(frame)
            && taken.rbp.is_none_or(|load| self.walker.load(load));
        if goes_on { Ok(frame) } else { Err(Ended::Stopped) }
    }

    #[inline(always)]
    fn plain(&mut self, rule: Plain) -> Result<Load, Ended> {
        let base = rule.base();
        let by = if base == Base::Rbp { BY_RBP } else { 0 };
        // A sum that runs over is below the stack pointer, or can't be read.
        let cfa = self.base(base).ok_or(Ended::Cut)?.wrapping_add_signed(rule.cfa());
        if cfa <= self.registers[Base::Rsp as usize] {
            return Err(Ended::Cut);
        }
        let frame = self.load(cfa - 8, FRAME | by)?;
        let rbp = match rule.rbp() {
            Saved::Same => None,
            Saved::At(offset) => Some(self.load(cfa.wrapping_add_signed(offset), RBP)?),
            Saved::Lost => {
                self.set(Base::Rbp, None);
                None
            }
        };
        match rule.rbx() {
            Saved::Same => {}
            Saved::At(offset) => {
                let word = self.range.word(cfa.wrapping_add_signed(offset));
                self.set(Base::Rbx, word);
            }
            Saved::Lost => self.set(Base::Rbx, None),
        }
        self.arrive(frame, cfa, &Taken { cfa: None, rbp, by_other: base == Base::Rbx })
    }

    #[inline(never)]
    fn other(&mut self, rule: Rule) -> Result<Load, Ended> {
        match rule {
            Rule::End => Err(Ended::Whole),
            Rule::Untold => self.untold(),
            Rule::Special(place) => {
                self.special(&rules::special(place).ok_or(Ended::Cut)?).unwrap_or(Err(Ended::Cut))
            }
            Rule::Cut | Rule::Plain { .. } => Err(Ended::Cut),
        }
    }

    /// Follows the frame pointer.
    fn untold(&mut self) -> Result<Load, Ended> {
        let rsp = self.registers[Base::Rsp as usize];
        let can_be = |rbp: &u64| *rbp >= rsp && rbp - rsp < LARGEST_UNTOLD;
        let rbp = self.base(Base::Rbp).filter(can_be).ok_or(Ended::Cut)?;
        let saved = self.load(rbp, RBP)?;
        let frame = self.load(rbp + 8, FRAME | BY_RBP)?;
        self.set(Base::Rbx, None);
        self.arrive(frame, rbp + 16, &Taken { rbp: Some(saved), ..Taken::default() })
    }

    /// None where it can't be followed.
    fn special(&mut self, rule: &Special) -> Option<Result<Load, Ended>> {
        let by = |base| {
            let loads = |place: &Place| matches!(place, Place::Load(load) if load.base == base);
            rule.cfa.base == base || [rule.rip, rule.rbp].iter().any(loads)
        };
        let mut taken = Taken { by_other: by(Base::Rbx), ..Taken::default() };
        let mut cfa = self.base(rule.cfa.base)?.checked_add_signed(rule.cfa.offset)?;
        if rule.loads {
            let load = self.load(cfa, 0).ok()?;
            (cfa, taken.cfa) = (load.word, Some(load));
        }
        let cfa = cfa.checked_add_signed(rule.beyond)?;
        self.signals += u32::from(rule.signal);
        // A signal's frame may lie on another stack than what it interrupted.
        let is_further_out = cfa > self.registers[Base::Rsp as usize];
        if !(is_further_out || rule.signal) || self.signals > MOST_SIGNALS {
            return None;
        }
        let by_rbp = if by(Base::Rbp) { BY_RBP } else { 0 };
        let exact = if rule.signal { EXACT } else { 0 };
        let frame = self.load(self.place(rule.rip, cfa)??, FRAME | by_rbp | exact).ok()?;
        let (rbp, rbx) = (self.place(rule.rbp, cfa)?, self.place(rule.rbx, cfa)?);
        taken.rbp = match rbp {
            Some(at) => Some(self.load(at, RBP).ok()?),
            None => None,
        };
        if let Some(at) = rbx {
            let word = self.range.word(at);
            self.set(Base::Rbx, word);
        }
        for (place, base) in [(rule.rbp, Base::Rbp), (rule.rbx, Base::Rbx)] {
            if place == Place::Saved(Saved::Lost) {
                self.set(base, None);
            }
        }
        Some(self.arrive(frame, cfa, &taken))
    }

    /// The address that a register is loaded from; the inner None: it is not.
    fn place(&self, place: Place, cfa: u64) -> Option<Option<u64>> {
        Some(match place {
            Place::Saved(Saved::At(offset)) => Some(cfa.checked_add_signed(offset)?),
            Place::Saved(_) => None,
            Place::Load(load) => Some(self.base(load.base)?.checked_add_signed(load.offset)?),
        })
    }
}

/// Compares a walk with frames as they were told, the innermost first.
pub struct Comparison<I> {
    frames: I,
    differs: bool,
}

impl<I: Iterator<Item = u64>> Comparison<I> {
    /// Whether a plain walk by rules worked out anew finds these frames and no others.
    pub fn holds(caller: &Caller, generation: u64, frames: I) -> bool {
        let mut comparison = Comparison { frames, differs: false };
        let ended = walk(caller, (rules::anew, generation), &mut Range::default(), &mut comparison);
        !comparison.differs && ended != Ended::Stopped && comparison.frames.next().is_none()
    }
}

impl<I: Iterator<Item = u64>> Walker for Comparison<I> {
    fn load(&mut self, _: Load) -> bool {
        true
    }

    fn frame(&mut self, frame: Load, _: Option<u64>) -> bool {
        self.differs = self.frames.next() != Some(frame.told());
        !self.differs
    }

    fn module(&mut self, _: &Module) {}

    fn by_other(&mut self) {}
}
