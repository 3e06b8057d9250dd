//! A [`Machine`] of ordinary memory whose nth call fails, or one in so many, and which notices misuse of its contract:
//! a commit or purge outside what it reserved, or a purge of what was never committed.

use crate::nodes::FakeNodes;
use freehold_core::machine::{Machine, Nodes, Room};
use freehold_core::malloc::units::BANK;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// Bytes of a page of this machine, unless a test says otherwise.
const PAGE: usize = 4096;

/// Reservations larger than this are refused, so that tests stay small.
const LARGEST: usize = 16 << 20;

struct Reservation {
    at: usize,
    len: usize,
    /// What was given back of it.
    gone: BTreeSet<usize>,
    /// The allocation that it lies in.
    whole: *mut u8,
    layout: Layout,
}

/// See the module. For one thread.
pub struct FailingMachine {
    page: usize,
    reservations: RefCell<Vec<Reservation>>,
    committed: RefCell<BTreeSet<usize>>,
    calls: Cell<usize>,
    fails_at: Cell<Option<usize>>,
    /// One call in so many fails; 0 is none.
    one_in: Cell<u32>,
    nodes: Option<FakeNodes>,
    /// Longer reservations are refused; `None` for [`LARGEST`].
    longest: Option<usize>,
    /// Where huge pages are advised, bank by bank.
    huge: RefCell<BTreeSet<usize>>,
    /// Pages that belong into a core file.
    dumped: RefCell<BTreeSet<usize>>,
    /// Pages that were purged at any time.
    purged: RefCell<BTreeSet<usize>>,
    /// Bytes that were moved by page.
    relocated: Cell<usize>,
    /// Bytes of written pages that its container allows.
    limit: Cell<Option<usize>>,
}

impl Default for FailingMachine {
    fn default() -> FailingMachine {
        FailingMachine {
            page: PAGE,
            reservations: RefCell::default(),
            committed: RefCell::default(),
            calls: Cell::default(),
            fails_at: Cell::default(),
            one_in: Cell::default(),
            nodes: None,
            longest: None,
            huge: RefCell::default(),
            dumped: RefCell::default(),
            purged: RefCell::default(),
            relocated: Cell::default(),
            limit: Cell::default(),
        }
    }
}

impl FailingMachine {
    /// A machine whose call number `fails_at` (from 0) is refused, and no other.
    pub fn new(fails_at: Option<usize>) -> FailingMachine {
        let machine = FailingMachine::default();
        machine.fails_at.set(fails_at);
        machine
    }

    /// Refuses the next call.
    pub fn refuse_next(&self) {
        self.fails_at.set(Some(self.calls.get()));
    }

    /// A machine that refuses about one call in `one_in`, always the same ones.
    pub fn at_times(one_in: u32) -> FailingMachine {
        let machine = FailingMachine::default();
        machine.one_in.set(one_in);
        machine
    }

    /// A machine that refuses nothing but what is too large, with several memories.
    pub fn with_nodes(nodes: FakeNodes) -> FailingMachine {
        let mut machine = FailingMachine::default();
        machine.nodes = Some(nodes);
        machine
    }

    /// A machine that refuses nothing but reservations of more than `longest` bytes.
    pub fn with_reservations(longest: usize) -> FailingMachine {
        let mut machine = FailingMachine::default();
        machine.longest = Some(longest);
        machine
    }

    /// The same with pages of so many bytes: a power of two from 4 KiB to 64 KiB.
    #[must_use]
    pub fn with_pages(mut self, page: usize) -> FailingMachine {
        assert!(page.is_power_of_two() && (PAGE..=16 * PAGE).contains(&page), "{page}");
        self.page = page;
        self
    }

    /// How many bytes were moved by moving their pages.
    pub fn relocated(&self) -> usize {
        self.relocated.get()
    }

    /// Whether huge pages are advised for the bank that `address` lies in.
    pub fn is_huge(&self, address: usize) -> bool {
        self.huge.borrow().contains(&(address / BANK))
    }

    /// Whether the page that `address` lies in was ever purged.
    pub fn was_purged(&self, address: usize) -> bool {
        self.purged.borrow().contains(&(address / self.page * self.page))
    }

    /// Whether the page that `address` lies in belongs into a core file.
    pub fn is_dumped(&self, address: usize) -> bool {
        self.dumped.borrow().contains(&(address / self.page * self.page))
    }

    /// How many stretches belong into core files, each a mapping of its own.
    pub fn dumped_stretches(&self) -> usize {
        let dumped = self.dumped.borrow();
        dumped.iter().filter(|page| !dumped.contains(&(**page - self.page))).count()
    }

    /// The same machine in a container that allows so many bytes of written pages; it says so, and allows more.
    pub fn with_limit(self, bytes: usize) -> FailingMachine {
        self.limit.set(Some(bytes));
        self
    }

    /// How many pages hold anything but zeroes.
    pub fn written_pages(&self) -> usize {
        let committed = self.committed.borrow();
        let written = committed.iter().filter(|page| {
            let start: *const u64 = std::ptr::with_exposed_provenance(**page);
            // SAFETY: committed pages lie within reservations, which are ordinary memory, zero at first.
            let words = unsafe { std::slice::from_raw_parts(start, self.page / 8) };
            words.iter().any(|word| *word != 0)
        });
        written.count()
    }

    /// Its memories, if it has several.
    pub fn fake_nodes(&self) -> Option<&FakeNodes> {
        self.nodes.as_ref()
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.calls.get()
    }

    fn refuses(&self) -> bool {
        let call = self.calls.replace(self.calls.get() + 1);
        let one_in = self.one_in.get() as usize;
        // A multiplicative hash of the call's number: the same calls in every run.
        let by_chance =
            one_in != 0 && (call.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(one_in);
        by_chance || self.fails_at.get() == Some(call)
    }

    fn pages(&self, at: *mut u8, len: usize) -> impl Iterator<Item = usize> + use<> {
        assert!(at.addr().is_multiple_of(self.page) && len.is_multiple_of(self.page) && len > 0);
        (at.addr()..at.addr() + len).step_by(self.page)
    }

    fn assert_committed(&self, at: *mut u8, len: usize) {
        let committed = self.committed.borrow();
        assert!(self.pages(at, len).all(|page| committed.contains(&page)), "{at:p} + {len}");
    }

    fn assert_reserved(&self, at: *mut u8, len: usize) {
        let inside = |r: &Reservation| {
            let gone = r.gone.range(at.addr()..at.addr() + len).next().is_some();
            r.at <= at.addr() && at.addr() + len <= r.at + r.len && !gone
        };
        assert!(self.reservations.borrow().iter().any(inside), "{at:p}+{len} was not reserved");
    }
}

impl Drop for FailingMachine {
    fn drop(&mut self) {
        for Reservation { whole, layout, .. } in self.reservations.take() {
            // SAFETY: allocated by `reserve` with this layout; whoever was given it is gone.
            unsafe { dealloc(whole, layout) };
        }
    }
}

// SAFETY: reservations are allocations of their own, which live as long as the machine.
unsafe impl Machine for FailingMachine {
    fn page_size(&self) -> usize {
        self.page
    }

    fn reserve(&self, len: usize, align: usize) -> *mut u8 {
        if len > self.longest.unwrap_or(LARGEST) || self.refuses() {
            return std::ptr::null_mut();
        }
        // Aligned by hand: asked for aligned zeroes, the system's allocator writes every page.
        let Ok(layout) = Layout::from_size_align(len + align, 16) else {
            return std::ptr::null_mut();
        };
        // SAFETY: the length is not zero.
        let whole = unsafe { alloc_zeroed(layout) };
        if whole.is_null() {
            return whole;
        }
        let start = whole.wrapping_add(whole.align_offset(align));
        let at = start.expose_provenance();
        self.reservations.borrow_mut().push(Reservation {
            at,
            len,
            gone: BTreeSet::new(),
            whole,
            layout,
        });
        start
    }

    fn room(&self) -> Option<Room> {
        let limit = self.limit.get().filter(|_| !self.refuses())?;
        let free = limit.saturating_sub(self.written_pages() * self.page);
        Some(Room { free: free as u64, capacity: limit as u64 })
    }

    fn nodes(&self) -> Option<&dyn Nodes> {
        self.nodes.as_ref().map(|nodes| nodes as &dyn Nodes)
    }

    unsafe fn commit(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's.
        let done = unsafe { self.commit_ahead(at, len) };
        if done {
            self.dump(at, len, true);
        }
        done
    }

    unsafe fn commit_ahead(&self, at: *mut u8, len: usize) -> bool {
        self.assert_reserved(at, len);
        if self.refuses() {
            return false;
        }
        self.committed.borrow_mut().extend(self.pages(at, len));
        true
    }

    fn dump(&self, at: *mut u8, len: usize, wanted: bool) {
        self.assert_committed(at, len);
        for page in self.pages(at, len) {
            match wanted {
                true => self.dumped.borrow_mut().insert(page),
                false => self.dumped.borrow_mut().remove(&page),
            };
        }
    }

    fn advise(&self, at: *mut u8, len: usize, huge: bool) {
        assert!(at.addr().is_multiple_of(BANK) && len.is_multiple_of(BANK), "{at:p} + {len}");
        self.assert_reserved(at, len);
        let banks = at.addr() / BANK..(at.addr() + len) / BANK;
        match huge {
            true => self.huge.borrow_mut().extend(banks),
            false => self.huge.borrow_mut().retain(|bank| !banks.contains(bank)),
        }
    }

    unsafe fn release(&self, at: *mut u8, len: usize) {
        self.assert_reserved(at, len);
        let mut reservations = self.reservations.borrow_mut();
        let holds = |it: &Reservation| (it.at..it.at + it.len).contains(&at.addr());
        let found = reservations.iter().position(holds).expect("a reservation");
        let reservation = &mut reservations[found];
        reservation.gone.extend(self.pages(at, len));
        self.committed.borrow_mut().retain(|page| !(at.addr()..at.addr() + len).contains(page));
        self.dumped.borrow_mut().retain(|page| !(at.addr()..at.addr() + len).contains(page));
        if reservation.gone.len() * self.page == reservation.len {
            let Reservation { whole, layout, .. } = reservations.swap_remove(found);
            // SAFETY: allocated by `reserve` with this layout; the caller says that nothing in it is in use.
            unsafe { dealloc(whole, layout) };
        }
    }

    unsafe fn relocate(&self, from: *mut u8, to: *mut u8, len: usize) -> bool {
        self.assert_committed(from, len);
        self.assert_committed(to, len);
        assert!(from.addr() + len <= to.addr() || to.addr() + len <= from.addr(), "overlap");
        if self.refuses() {
            return false;
        }
        // SAFETY: both are committed, disjoint, and the caller's alone.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, len);
            from.write_bytes(0, len);
        }
        self.relocated.set(self.relocated.get() + len);
        true
    }

    unsafe fn purge(&self, at: *mut u8, len: usize) -> bool {
        self.assert_committed(at, len);
        if self.refuses() {
            return false;
        }
        self.purged.borrow_mut().extend(self.pages(at, len));
        for page in self.pages(at, len) {
            let words: *mut u64 = std::ptr::with_exposed_provenance_mut(page);
            // SAFETY: reserved by us, and the caller says that nothing in it is in use.
            let words = unsafe { std::slice::from_raw_parts_mut(words, self.page / 8) };
            // What was never written stays without memory of its own.
            if words.iter().any(|word| *word != 0) {
                words.fill(0);
            }
        }
        true
    }
}
