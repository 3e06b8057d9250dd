//! The columns of call stacks: for each event that may have one, a byte, and a number where the byte does not know it.
//!
//! Programs allocate again and again from the same places, so a block remembers [`SLOTS`] stacks, each in the slot
//! that its number alone decides ([`slot_of`]): a byte names what was there last. Allocations and frees have columns
//! of their own, because most recordings have stacks for the first only. A block where no event of a class has a
//! stack has no column for it; which of the two it is, the first event of the class decides.
//!
//! Invariant: both sides put the same number into the same slot at the same event.

use super::columns::{ALLOC_STACKS, Building, FREE_STACKS, Loaded, STACK_NUMBERS};
use crate::event::Event;
use crate::stacks::StackId;
use crate::varint;

/// The event has no stack.
const NONE: u8 = 0;
/// The stack is not in its slot; its number stands in the column of numbers.
const NEW: u8 = 255;
/// Slots 1 to 254.
const SLOTS: u64 = 254;

/// The slot of a stack.
#[inline]
fn slot_of(stack: StackId) -> u8 {
    let hash = stack.0.wrapping_mul(2_654_435_769);
    (1 + ((u64::from(hash) * SLOTS) >> 32)) as u8
}

/// The column of an event's stack; none for events that have none.
#[inline]
fn column_of(event: &Event) -> Option<usize> {
    match event {
        Event::Alloc { .. } | Event::Realloc { .. } | Event::Failed { .. } => Some(ALLOC_STACKS),
        Event::Free { .. } | Event::UnknownFree => Some(FREE_STACKS),
        _ => None,
    }
}

/// Stacks that a block remembers.
struct Recent {
    slots: [StackId; 256],
    last: StackId,
}

impl Default for Recent {
    fn default() -> Self {
        Recent { slots: [StackId::NONE; 256], last: StackId::NONE }
    }
}

/// Whether the events of a class have stacks, in a block.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Class {
    /// None of them has come yet.
    #[default]
    Open,
    Without,
    With,
}

/// The writing side.
#[derive(Default)]
pub(crate) struct Stacked {
    allocs: Class,
    frees: Class,
    recent: Recent,
}

impl Stacked {
    pub(crate) fn clear(&mut self) {
        (self.allocs, self.frees) = (Class::Open, Class::Open);
        self.recent = Recent::default();
    }

    fn class(&mut self, column: usize) -> &mut Class {
        if column == ALLOC_STACKS { &mut self.allocs } else { &mut self.frees }
    }

    /// Whether the block can hold the event with that stack; else it needs a new one.
    #[inline]
    pub(crate) fn fits(&mut self, event: &Event, stack: StackId) -> bool {
        stack == StackId::NONE
            || column_of(event).is_none_or(|column| *self.class(column) != Class::Without)
    }

    /// Adds the stack of an event that is added to the block.
    #[inline]
    pub(crate) fn push(&mut self, building: &mut Building, event: &Event, stack: StackId) {
        let Some(column) = column_of(event) else { return };
        let class = self.class(column);
        if *class == Class::Open {
            *class = if stack == StackId::NONE { Class::Without } else { Class::With };
        }
        if *class == Class::With {
            self.put(building, column, stack);
        }
    }

    fn put(&mut self, building: &mut Building, column: usize, stack: StackId) {
        let slot = slot_of(stack);
        let known = &mut self.recent.slots[usize::from(slot)];
        let byte = match stack {
            StackId::NONE => NONE,
            _ if *known == stack => slot,
            _ => {
                let distance = i64::from(stack.0) - i64::from(self.recent.last.0);
                varint::put(&mut building.columns[STACK_NUMBERS], varint::fold(distance));
                (*known, self.recent.last) = (stack, stack);
                NEW
            }
        };
        building.columns[column].push(byte);
    }
}

/// The reading side.
#[derive(Default)]
pub(crate) struct Unstacked {
    any: bool,
    recent: Recent,
}

impl Unstacked {
    /// Begins a block.
    pub(crate) fn begin(&mut self, columns: &Loaded) {
        self.any = columns.has(ALLOC_STACKS) || columns.has(FREE_STACKS);
        if self.any {
            self.recent = Recent::default();
        }
    }

    /// Appends the stacks of the next events, one for each, or nothing at all where the block has none. `None` is damage:
    /// from there on, nothing is given.
    pub(crate) fn take<'a>(
        &mut self,
        columns: &mut Loaded,
        events: impl Iterator<Item = &'a Event>,
        out: &mut Vec<StackId>,
    ) -> Option<()> {
        if !self.any {
            return Some(());
        }
        for event in events {
            let stack = match column_of(event) {
                Some(column) if columns.has(column) => self.next(columns, column),
                _ => Some(StackId::NONE),
            };
            self.any = stack.is_some();
            out.push(stack?);
        }
        Some(())
    }

    fn next(&mut self, columns: &mut Loaded, column: usize) -> Option<StackId> {
        let byte = columns.byte(column)?;
        if byte != NEW {
            return Some(self.recent.slots[usize::from(byte)]);
        }
        let distance = varint::unfold(columns.number(STACK_NUMBERS)?);
        let number = i64::from(self.recent.last.0).checked_add(distance)?;
        let stack = StackId(u32::try_from(number).ok().filter(|&number| number > 0)?);
        self.recent.slots[usize::from(slot_of(stack))] = stack;
        self.recent.last = stack;
        Some(stack)
    }
}
