//! The machine that the malloc runs on in the laboratory: real memory, everything else by the book.
//!
//! It answers the same in every run: nothing depends on where the system puts its memory, on how many processors there are,
//! or on time. Huge pages are never asked of the kernel, only noted; pages are moved by copying those that are there.
//!
//! Invariant: a commit of whole banks is memory for blocks, every other one is for the malloc's records. (Records are
//! never as long as a bank; `units::region` draws both.)

use super::resident::{Resident, UnitPages};
use super::settings::Settings;
use super::space::{KERNEL_PAGE, Ranges, Space};
use freehold_core::machine::Machine;
use freehold_core::malloc::decisions::Decisions;
use freehold_core::malloc::units::BANK;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::ptr;

/// What holds the committed memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Banks: slabs, large blocks, caches, free units.
    Banks,
    /// The malloc's records of them.
    Records,
}

struct Memory {
    space: Space,
    banks: Ranges,
    records: Ranges,
    resident: Resident,
}

/// See the module. For one thread, which plays all threads of a program.
pub struct Simulated {
    page: usize,
    decisions: &'static Decisions,
    memory: RefCell<Memory>,
    thread: Cell<u32>,
}

impl Simulated {
    /// A machine as the settings want it.
    pub fn new(settings: &Settings) -> Simulated {
        let memory = Memory {
            space: Space::default(),
            banks: Ranges::default(),
            records: Ranges::default(),
            resident: Resident::new(settings.page, settings.huge_pages),
        };
        Simulated {
            page: settings.page,
            decisions: settings.kept_decisions(),
            memory: RefCell::new(memory),
            thread: Cell::new(1),
        }
    }

    /// From now on the calls are those of this thread, counted from 0.
    pub fn play(&self, thread: u32) {
        self.thread.set((thread & (u32::MAX >> 2)) + 1);
    }

    /// Calls `visit` with every 64 KiB that have resident pages, in order of addresses; records come first.
    pub fn each_unit(&self, mut visit: impl FnMut(Use, usize, UnitPages)) {
        let Memory { banks, records, resident, .. } = &mut *self.memory.borrow_mut();
        for range in records.iter() {
            resident.each_unit(range, |at, pages| visit(Use::Records, at, pages));
        }
        for range in banks.iter() {
            resident.each_unit(range, |at, pages| visit(Use::Banks, at, pages));
        }
    }

    /// Page faults so far, while `bytes` are resident.
    pub fn faults(&self, bytes: u64) -> u64 {
        self.memory.borrow().resident.faults(bytes / self.page as u64)
    }

    /// Bytes given back so far.
    pub fn purged(&self) -> u64 {
        self.memory.borrow().resident.purged()
    }

    /// Bytes that may have become resident since the kernel had counted `faults` page faults of this thread, at most.
    pub fn grown_since(&self, faults: u64) -> u64 {
        let own = super::space::faults().saturating_sub(faults) * self.page as u64;
        own + self.memory.borrow().resident.may_be_brought()
    }
}

fn range(at: *mut u8, len: usize) -> Range<usize> {
    let start = at.expose_provenance();
    start..start + len
}

// SAFETY: reservations are private mappings of `Space`, changed by these methods alone and removed with the machine.
unsafe impl Machine for Simulated {
    fn page_size(&self) -> usize {
        self.page
    }

    fn reserve(&self, len: usize, align: usize) -> *mut u8 {
        let at = self.memory.borrow_mut().space.reserve(len, align);
        at.expose_provenance();
        at
    }

    unsafe fn commit(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's.
        if !unsafe { Space::commit(at, len) } {
            return false;
        }
        let memory = &mut *self.memory.borrow_mut();
        let whole_banks = at.addr().is_multiple_of(BANK) && len.is_multiple_of(BANK);
        let ranges = if whole_banks { &mut memory.banks } else { &mut memory.records };
        ranges.add(range(at, len));
        true
    }

    unsafe fn purge(&self, at: *mut u8, len: usize) -> bool {
        self.memory.borrow_mut().resident.purge(range(at, len));
        // SAFETY: the caller's.
        unsafe { Space::discard(at, len) }
    }

    unsafe fn relocate(&self, from: *mut u8, to: *mut u8, len: usize) -> bool {
        let source = range(from, len);
        self.memory.borrow_mut().resident.relocate(source.clone(), to.expose_provenance());
        // SAFETY: both ranges are committed and the caller's alone, and `to` holds nothing.
        unsafe {
            Space::discard(to, len);
            Space::each_resident(source.clone(), |page| {
                let offset = page - source.start;
                ptr::copy_nonoverlapping(from.add(offset), to.add(offset), KERNEL_PAGE);
            });
            Space::discard(from, len)
        }
    }

    fn advise(&self, at: *mut u8, len: usize, huge: bool) {
        self.memory.borrow_mut().resident.advise(range(at, len), huge);
    }

    fn decisions(&self) -> &'static Decisions {
        self.decisions
    }

    fn me(&self) -> u32 {
        self.thread.get()
    }
}
