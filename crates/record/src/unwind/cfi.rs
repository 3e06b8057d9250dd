//! DWARF's call frame information: a small machine whose program says, address by address, how to leave a function.
//!
//! Only what a walk needs is kept: the CFA and the places of rbx, rbp and the return address. Expressions are not run
//! but understood: a register plus a number, loaded or not ([`super::rule::Special`]); the one that compares the
//! instruction's address (in procedure linkage tables) is computed, for the address is known.
//!
//! Invariant: a program that is cut short, or says what is not understood, gives [`Rule::Cut`], never a wrong rule.

use super::rule::{Base, Load, Place, Rule, Saved, Special};

/// Bytes being read.
#[derive(Clone, Copy)]
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    /// All of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Bytes { rest: bytes }
    }

    /// Bytes that are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// What is left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// The next number of `N` bytes, little-endian.
    pub fn number<const N: usize>(&mut self) -> Option<u64> {
        Some(self.take(N)?.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    /// The next unsigned LEB128.
    pub fn uleb(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte < 0x80 {
                return Some(value);
            }
        }
    }

    /// The next signed LEB128.
    pub fn sleb(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0i64, 0u32);
        loop {
            let byte = self.byte()?;
            value |= i64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte < 0x80 {
                let negative = byte & 0x40 != 0 && shift < 64;
                return Some(if negative { value | -1 << shift } else { value });
            }
        }
    }
}

/// The parts of a CIE and an FDE that the machine needs.
pub struct Program<'a> {
    /// What advances are multiplied by.
    pub code_align: u64,
    /// What offsets are multiplied by.
    pub data_align: i64,
    /// The CIE's instructions.
    pub initial: &'a [u8],
    /// The FDE's instructions.
    pub own: &'a [u8],
    /// The first address of the function.
    pub begin: u64,
    /// The frame is a signal's.
    pub signal: bool,
}

const RBX: u64 = 3;
const RBP: u64 = 6;
const RSP: u64 = 7;
const RIP: u64 = 16;

/// How a register is to be had.
#[derive(Clone, Copy)]
enum How<'a> {
    /// Nothing was said.
    Unsaid,
    Same,
    Undefined,
    /// From the CFA.
    Offset(i64),
    /// At the address that this expression gives.
    Expression(&'a [u8]),
    Unknown,
}

/// The CFA.
#[derive(Clone, Copy)]
enum Cfa<'a> {
    Register(u64, i64),
    Expression(&'a [u8]),
}

#[derive(Clone, Copy)]
struct Row<'a> {
    cfa: Cfa<'a>,
    rbx: How<'a>,
    rbp: How<'a>,
    rip: How<'a>,
}

/// Depth of remembered rows; compilers use one or two.
const DEPTH: usize = 8;

struct Machine<'a> {
    row: Row<'a>,
    initial: Row<'a>,
    remembered: [Option<Row<'a>>; DEPTH],
    depth: usize,
    at: u64,
}

/// The rule at address `pc` of a function, and the special that it names, if it does (by place 0).
pub fn rule_at(program: &Program<'_>, pc: u64) -> (Rule, Option<Special>) {
    let unsaid = How::Unsaid;
    let row = Row { cfa: Cfa::Register(u64::MAX, 0), rbx: unsaid, rbp: unsaid, rip: unsaid };
    let at = program.begin;
    let mut machine = Machine { row, initial: row, remembered: [None; DEPTH], depth: 0, at };
    let run = machine.run(program, program.initial, u64::MAX).and_then(|()| {
        machine.initial = machine.row;
        machine.run(program, program.own, pc)
    });
    run.and_then(|()| machine.row.rule(program.signal, pc)).unwrap_or((Rule::Cut, None))
}

impl<'a> Machine<'a> {
    /// Runs instructions as long as they speak of addresses up to `pc`. None where one is not understood.
    fn run(&mut self, program: &Program<'a>, instructions: &'a [u8], pc: u64) -> Option<()> {
        let mut bytes = Bytes::new(instructions);
        while let Some(op) = bytes.byte() {
            let low = u64::from(op & 0x3f);
            let advance = match op {
                0x40..=0x7f => low,
                0x02 => bytes.number::<1>()?,
                0x03 => bytes.number::<2>()?,
                0x04 => bytes.number::<4>()?,
                _ => {
                    self.step(program, op, &mut bytes)?;
                    continue;
                }
            };
            self.at = self.at.checked_add(advance.checked_mul(program.code_align)?)?;
            if self.at > pc {
                break;
            }
        }
        Some(())
    }

    fn step(&mut self, program: &Program<'a>, op: u8, bytes: &mut Bytes<'a>) -> Option<()> {
        let low = u64::from(op & 0x3f);
        let scale = |offset: i64| offset.checked_mul(program.data_align);
        match op {
            0x80..=0xbf => self.set(low, How::Offset(scale(bytes.uleb()? as i64)?)),
            0xc0..=0xff => self.restore(low),
            0x00 => {}
            0x05 => {
                let register = bytes.uleb()?;
                self.set(register, How::Offset(scale(bytes.uleb()? as i64)?));
            }
            0x06 => self.restore(bytes.uleb()?),
            0x07 => self.set(bytes.uleb()?, How::Undefined),
            0x08 => self.set(bytes.uleb()?, How::Same),
            // In another register; the value of an offset; of an expression: not followed.
            0x09 | 0x14 => {
                self.set(bytes.uleb()?, How::Unknown);
                bytes.uleb()?;
            }
            0x0a => self.remember()?,
            0x0b => self.recall()?,
            0x0c => self.row.cfa = Cfa::Register(bytes.uleb()?, bytes.uleb()? as i64),
            0x0d => self.row.cfa = Cfa::Register(bytes.uleb()?, self.cfa_offset()?),
            0x0e => self.row.cfa = Cfa::Register(self.cfa_register()?, bytes.uleb()? as i64),
            0x0f => self.row.cfa = Cfa::Expression(block(bytes)?),
            0x10 => self.set(bytes.uleb()?, How::Expression(block(bytes)?)),
            0x11 => {
                let register = bytes.uleb()?;
                self.set(register, How::Offset(scale(bytes.sleb()?)?));
            }
            0x12 => self.row.cfa = Cfa::Register(bytes.uleb()?, scale(bytes.sleb()?)?),
            0x13 => self.row.cfa = Cfa::Register(self.cfa_register()?, scale(bytes.sleb()?)?),
            0x15 => {
                self.set(bytes.uleb()?, How::Unknown);
                bytes.sleb()?;
            }
            0x16 => {
                self.set(bytes.uleb()?, How::Unknown);
                block(bytes)?;
            }
            // DW_CFA_GNU_args_size: what a landing pad would pop.
            0x2e => {
                bytes.uleb()?;
            }
            _ => return None,
        }
        Some(())
    }

    fn set(&mut self, register: u64, how: How<'a>) {
        match register {
            RBX => self.row.rbx = how,
            RBP => self.row.rbp = how,
            RIP => self.row.rip = how,
            _ => {}
        }
    }

    fn restore(&mut self, register: u64) {
        match register {
            RBX => self.row.rbx = self.initial.rbx,
            RBP => self.row.rbp = self.initial.rbp,
            RIP => self.row.rip = self.initial.rip,
            _ => {}
        }
    }

    fn remember(&mut self) -> Option<()> {
        *self.remembered.get_mut(self.depth)? = Some(self.row);
        self.depth += 1;
        Some(())
    }

    fn recall(&mut self) -> Option<()> {
        self.depth = self.depth.checked_sub(1)?;
        self.row = (*self.remembered.get(self.depth)?)?;
        Some(())
    }

    fn cfa_register(&self) -> Option<u64> {
        match self.row.cfa {
            Cfa::Register(register, _) => Some(register),
            Cfa::Expression(_) => None,
        }
    }

    fn cfa_offset(&self) -> Option<i64> {
        match self.row.cfa {
            Cfa::Register(_, offset) => Some(offset),
            Cfa::Expression(_) => None,
        }
    }
}

fn block<'a>(bytes: &mut Bytes<'a>) -> Option<&'a [u8]> {
    let len = usize::try_from(bytes.uleb()?).ok()?;
    bytes.take(len)
}

impl Row<'_> {
    /// The row as a rule. None where it cannot be followed.
    fn rule(&self, signal: bool, pc: u64) -> Option<(Rule, Option<Special>)> {
        if matches!(self.rip, How::Undefined) {
            return Some((Rule::End, None));
        }
        let cfa = match self.cfa {
            Cfa::Register(register, offset) => {
                Value { base: Some(base_of(register)?), offset, loaded: None }
            }
            Cfa::Expression(expression) => evaluate(expression, pc)?,
        };
        let (rip, rbp, rbx) = (place(self.rip, pc)?, lossy(self.rbp, pc), lossy(self.rbx, pc));
        if let (false, None, Place::Saved(Saved::At(-8)), Place::Saved(rbp), Place::Saved(rbx)) =
            (signal, cfa.loaded, rip, rbp, rbx)
        {
            return Some((Rule::Plain { base: cfa.base?, cfa: cfa.offset, rbp, rbx }, None));
        }
        let special = Special {
            cfa: Load { base: cfa.base?, offset: cfa.offset },
            loads: cfa.loaded.is_some(),
            beyond: cfa.loaded.unwrap_or(0),
            rip,
            rbp,
            rbx,
            signal,
        };
        Some((Rule::Special(0), Some(special)))
    }
}

/// A register that is not understood is lost; only who needs it is cut off.
fn lossy(how: How<'_>, pc: u64) -> Place {
    place(how, pc).unwrap_or(Place::Saved(Saved::Lost))
}

fn place(how: How<'_>, pc: u64) -> Option<Place> {
    Some(match how {
        How::Unsaid | How::Same => Place::Saved(Saved::Same),
        How::Undefined => Place::Saved(Saved::Lost),
        How::Offset(offset) => Place::Saved(Saved::At(offset)),
        How::Expression(expression) => match evaluate(expression, pc)? {
            Value { base: Some(base), offset, loaded: None } => Place::Load(Load { base, offset }),
            _ => return None,
        },
        How::Unknown => return None,
    })
}

fn base_of(register: u64) -> Option<Base> {
    match register {
        RSP => Some(Base::Rsp),
        RBP => Some(Base::Rbp),
        RBX => Some(Base::Rbx),
        _ => None,
    }
}

/// What an expression comes to: a register plus `offset`, and, if `loaded`, the word there plus that. A number has no register.
#[derive(Clone, Copy)]
struct Value {
    base: Option<Base>,
    offset: i64,
    loaded: Option<i64>,
}

/// Understands an expression at address `pc`.
fn evaluate(expression: &[u8], pc: u64) -> Option<Value> {
    let number = |offset: i64| Value { base: None, offset, loaded: None };
    let mut bytes = Bytes::new(expression);
    let (mut stack, mut depth) = ([number(0); 8], 0usize);
    while let Some(op) = bytes.byte() {
        let value = match op {
            0x30..=0x4f => number(i64::from(op - 0x30)),
            0x08 => number(bytes.number::<1>()? as i64),
            0x09 => number(i64::from(bytes.number::<1>()? as i8)),
            0x0a => number(bytes.number::<2>()? as i64),
            0x0b => number(i64::from(bytes.number::<2>()? as i16)),
            0x70..=0x8f => {
                let offset = bytes.sleb()?;
                match u64::from(op - 0x70) {
                    RIP => number((pc as i64).checked_add(offset)?),
                    register => Value { base: Some(base_of(register)?), offset, loaded: None },
                }
            }
            0x06 => {
                depth = depth.checked_sub(1)?;
                let value = *stack.get(depth)?;
                let loads = value.base.is_some() && value.loaded.is_none();
                loads.then_some(Value { loaded: Some(0), ..value })?
            }
            0x23 => {
                depth = depth.checked_sub(1)?;
                add(*stack.get(depth)?, i64::try_from(bytes.uleb()?).ok()?)?
            }
            0x1a | 0x1c | 0x22 | 0x24 | 0x2a => {
                depth = depth.checked_sub(2)?;
                combine(op, *stack.get(depth)?, *stack.get(depth + 1)?)?
            }
            _ => return None,
        };
        *stack.get_mut(depth)? = value;
        depth += 1;
    }
    (depth == 1).then(|| stack.first().copied())?
}

fn add(value: Value, more: i64) -> Option<Value> {
    Some(match value.loaded {
        Some(beyond) => Value { loaded: Some(beyond.checked_add(more)?), ..value },
        None => Value { offset: value.offset.checked_add(more)?, ..value },
    })
}

/// Two operands; all but sums are of numbers only.
fn combine(op: u8, left: Value, right: Value) -> Option<Value> {
    let is_number = |value: Value| value.base.is_none();
    if op == 0x22 && is_number(right) {
        return add(left, right.offset);
    }
    if op == 0x22 && is_number(left) {
        return add(right, left.offset);
    }
    if op == 0x1c && is_number(right) {
        return add(left, right.offset.checked_neg()?);
    }
    let (a, b) = (is_number(left) && is_number(right)).then_some((left.offset, right.offset))?;
    let offset = match op {
        0x1a => a & b,
        0x24 => a.checked_shl(u32::try_from(b).ok()?)?,
        _ => i64::from(a >= b),
    };
    Some(Value { base: None, offset, loaded: None })
}
