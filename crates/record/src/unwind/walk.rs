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
use super::rule::{self, Base, Place, Rule, Saved, Special};
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
    /// A frame: the load of its address, that of its frame pointer if it was saved, and of what its CFA took.
    /// `rbp` is the frame pointer there. False ends the walk.
    fn frame(&mut self, step: &Step) -> bool;
    /// The rule of an address was worked out by the tables of `module`.
    fn module(&mut self, module: &Module);
    /// A frame was found by another register than the stack and frame pointer: the list does not decide about the stack.
    fn by_other(&mut self);
}

/// A frame as it was found.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// What the CFA was loaded from, where it was.
    pub cfa: Option<Load>,
    /// The address.
    pub frame: Load,
    /// The saved frame pointer.
    pub saved: Option<Load>,
    /// The frame pointer in the frame.
    pub rbp: Option<u64>,
}

/// Where a walk is.
struct At<'a> {
    rip: u64,
    exact: bool,
    rsp: u64,
    /// None where it is lost.
    rbp: Option<u64>,
    rbx: Option<u64>,
    signals: u32,
    range: &'a mut Range,
}

/// Where rules come from: [`rules::rule_at`], or [`rules::anew`] to check it.
pub type Rules = fn(u64, bool, u64) -> (Rule, Option<Module>);

/// Walks from the caller of a hook. `range` belongs to the thread.
#[inline]
pub fn walk(
    caller: &Caller,
    (rule_at, generation): (Rules, u64),
    range: &mut Range,
    walker: &mut impl Walker,
) -> Ended {
    range.enter(caller.slot);
    let Some(rip) = range.word(caller.slot) else { return Ended::Cut };
    let (rbp, rbx) = (Some(caller.rbp), Some(caller.rbx));
    let rsp = caller.slot + 8;
    let mut at = At { rip, exact: false, rsp, rbp, rbx, signals: 0, range };
    let top = Load { place: caller.slot | FRAME, word: rip };
    if !walker.frame(&Step { cfa: None, frame: top, saved: None, rbp }) {
        return Ended::Stopped;
    }
    loop {
        // A call is the last thing before its return address, so that is looked up which lies before.
        let address = at.rip - u64::from(!at.exact);
        let (rule, module) = rule_at(address, at.exact, generation);
        if let Some(module) = module {
            walker.module(&module);
        }
        let step = match rule {
            Rule::End => return Ended::Whole,
            Rule::Cut => None,
            Rule::Plain { base, cfa, rbp, rbx } => at.plain(base, cfa, rbp, rbx),
            Rule::Untold => at.untold(),
            Rule::Special(place) => rules::special(place).and_then(|special| at.special(&special)),
        };
        let Some(step) = step else { return Ended::Cut };
        if by_rbx(rule) {
            walker.by_other();
        }
        if at.rip == 0 {
            return Ended::Whole;
        }
        if at.rip < LOWEST_CODE {
            return Ended::Cut;
        }
        if !walker.frame(&step) {
            return Ended::Stopped;
        }
    }
}

fn by_rbx(rule: Rule) -> bool {
    let loads = |place: &Place| matches!(place, Place::Load(load) if load.base == Base::Rbx);
    match rule {
        Rule::Plain { base, .. } => base == Base::Rbx,
        Rule::Special(place) => rules::special(place).is_some_and(|special| {
            special.cfa.base == Base::Rbx || [special.rip, special.rbp].iter().any(loads)
        }),
        _ => false,
    }
}

impl At<'_> {
    fn base(&self, base: Base) -> Option<u64> {
        match base {
            Base::Rsp => Some(self.rsp),
            Base::Rbp => self.rbp,
            Base::Rbx => self.rbx,
        }
    }

    fn load(&mut self, at: u64, flags: u64) -> Option<Load> {
        Some(Load { place: at | flags, word: self.range.word(at)? })
    }

    #[inline]
    fn plain(&mut self, base: Base, cfa: i64, rbp: Saved, rbx: Saved) -> Option<Step> {
        let by = if base == Base::Rbp { BY_RBP } else { 0 };
        let cfa = self.base(base)?.checked_add_signed(cfa)?;
        if cfa <= self.rsp {
            return None;
        }
        let frame = self.load(cfa - 8, FRAME | by)?;
        let saved = self.leave(cfa, rbp, rbx)?;
        (self.rip, self.exact, self.rsp) = (frame.word, false, cfa);
        Some(Step { cfa: None, frame, saved, rbp: self.rbp })
    }

    /// Takes the registers that are saved relative to the CFA.
    #[inline]
    fn leave(&mut self, cfa: u64, rbp: Saved, rbx: Saved) -> Option<Option<Load>> {
        match rbx {
            Saved::Same => {}
            Saved::At(offset) => self.rbx = self.range.word(cfa.checked_add_signed(offset)?),
            Saved::Lost => self.rbx = None,
        }
        Some(match rbp {
            Saved::Same => None,
            Saved::At(offset) => {
                let load = self.load(cfa.checked_add_signed(offset)?, RBP)?;
                self.rbp = Some(load.word);
                Some(load)
            }
            Saved::Lost => {
                self.rbp = None;
                None
            }
        })
    }

    /// Follows the frame pointer.
    fn untold(&mut self) -> Option<Step> {
        let rbp = self.rbp.filter(|&rbp| rbp >= self.rsp && rbp - self.rsp < LARGEST_UNTOLD)?;
        let saved = self.load(rbp, RBP)?;
        let frame = self.load(rbp.checked_add(8)?, FRAME | BY_RBP)?;
        (self.rip, self.exact) = (frame.word, false);
        (self.rsp, self.rbp, self.rbx) = (rbp + 16, Some(saved.word), None);
        Some(Step { cfa: None, frame, saved: Some(saved), rbp: self.rbp })
    }

    fn special(&mut self, rule: &Special) -> Option<Step> {
        let by_rbp = rule.cfa.base == Base::Rbp
            || [rule.rip, rule.rbp]
                .iter()
                .any(|place| matches!(place, Place::Load(rule::Load { base: Base::Rbp, .. })));
        let by = if by_rbp { BY_RBP } else { 0 };
        let mut cfa = self.base(rule.cfa.base)?.checked_add_signed(rule.cfa.offset)?;
        let mut taken = None;
        if rule.loads {
            let load = self.load(cfa, 0)?;
            (cfa, taken) = (load.word, Some(load));
        }
        let cfa = cfa.checked_add_signed(rule.beyond)?;
        self.signals += u32::from(rule.signal);
        // A signal's frame may lie on another stack than what it interrupted.
        if (cfa <= self.rsp && !rule.signal) || self.signals > MOST_SIGNALS {
            return None;
        }
        let exact = if rule.signal { EXACT } else { 0 };
        let rip = self.place(rule.rip, cfa)??;
        let frame = self.load(rip, FRAME | by | exact)?;
        let rbp = self.place(rule.rbp, cfa)?;
        let rbx = self.place(rule.rbx, cfa)?;
        let saved = match rbp {
            Some(at) => Some(self.load(at, RBP)?),
            None => None,
        };
        if let Some(at) = rbx {
            self.rbx = self.range.word(at);
        }
        if rule.rbx == Place::Saved(Saved::Lost) {
            self.rbx = None;
        }
        if let Some(saved) = saved {
            self.rbp = Some(saved.word);
        } else if rule.rbp == Place::Saved(Saved::Lost) {
            self.rbp = None;
        }
        (self.rip, self.exact, self.rsp) = (frame.word, rule.signal, cfa);
        Some(Step { cfa: taken, frame, saved, rbp: self.rbp })
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
    fn frame(&mut self, step: &Step) -> bool {
        self.differs = self.frames.next() != Some(step.frame.told());
        !self.differs
    }

    fn module(&mut self, _: &Module) {}

    fn by_other(&mut self) {}
}
