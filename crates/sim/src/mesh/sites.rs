//! The heaps themselves: policies of `freehold-blocks` over the memory of the nodes, one address range over all.

use crate::region::SimMemory;
use freehold_blocks::Granules;
use freehold_blocks::align::Align;
use freehold_blocks::check::Broken;
use freehold_blocks::policy::{Inspect, Policy};
use freehold_blocks::probe::{Probe, Step};
use freehold_core::place::mesh::{BadMap, HeapId, MAX_PAGE, Pages, SpaceMap};
use std::collections::BTreeSet;
use std::ptr::NonNull;

/// The shortest heap, in bytes: a few blocks.
pub const MIN_HEAP: u64 = 256;

/// Pages that the longest free block of a lender must hold.
const PLENTY: u64 = 3;

/// Empty pages that a node keeps: it often needs the next one soon.
const KEPT: usize = 1;

/// The first name of an object that has parted with its own.
const PARTED: u32 = 1 << 31;

/// Heaps that cannot be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadHeaps {
    /// Too short for anything.
    #[error("a heap has at least {MIN_HEAP} bytes and a multiple of 16, not {0}")]
    Length(u64),
    /// The address range.
    #[error(transparent)]
    Map(#[from] BadMap),
    /// This computer's memory.
    #[error("{0} bytes: this computer has no such memory to simulate a heap with")]
    System(u64),
    /// The policy wants more.
    #[error("a heap of {0} bytes is too short for the policy")]
    Policy(u64),
    /// No page.
    #[error("a page to borrow has a multiple of 16 bytes, at most {MAX_PAGE}, not {0}; 0 is none")]
    Page(u32),
}

/// Where an object lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Place {
    #[default]
    Nowhere,
    /// A block of its own, at this address.
    Block(u32),
    /// In a page that this node has borrowed.
    InPage(u32, HeapId),
}

/// Who has to do with an object: they differ where its page was lent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Whose memory it is, by its address.
    pub home: HeapId,
    /// Who knows of it.
    pub holder: HeapId,
}

/// The longest free block of a heap, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Room {
    since: u64,
    granules: u32,
}

/// Words of metadata that policies have touched.
#[derive(Default)]
pub struct Accesses(u64);

impl Accesses {
    /// So many.
    pub fn words(&self) -> u64 {
        self.0
    }
}

impl Probe for Accesses {
    fn step(&mut self, step: Step) {
        self.0 += u64::from(matches!(step, Step::Touch { .. } | Step::Index));
    }
}

/// What a simulated node asks of its policy, whichever that is: the simulation is one code for all.
trait Chooser {
    fn alloc(&mut self, size: u64, made: &mut Accesses) -> Option<NonNull<u8>>;

    /// # Safety
    /// As for [`Policy::free`].
    unsafe fn free(&mut self, payload: NonNull<u8>, made: &mut Accesses);

    fn largest_free(&self) -> u64;

    fn used_blocks(&self) -> u64;

    fn check(&self) -> Result<(), Broken>;
}

impl<P: Policy> Chooser for P {
    fn alloc(&mut self, size: u64, made: &mut Accesses) -> Option<NonNull<u8>> {
        Policy::alloc(self, size, Align::ONE, made)
    }

    unsafe fn free(&mut self, payload: NonNull<u8>, made: &mut Accesses) {
        // SAFETY: the caller's.
        unsafe { Policy::free(self, payload, made) };
    }

    fn largest_free(&self) -> u64 {
        Inspect::largest_free(self)
    }

    fn used_blocks(&self) -> u64 {
        self.totals().used_blocks
    }

    fn check(&self) -> Result<(), Broken> {
        Inspect::check(self)
    }
}

/// One policy over one region.
struct Site<'p> {
    policy: Box<dyn Chooser + 'p>,
    base: NonNull<u8>,
    /// Borrowed from others.
    pages: Option<Pages>,
    /// Over time: what a search that fails is judged by.
    rooms: Vec<Room>,
}

/// All heaps and the objects in them. Invariant: every used block of a policy is that of one object's
/// `Place::Block` or of one address in `lent`.
pub struct Sites<'p> {
    /// One for each node, or one for all. Dropped before the memory.
    sites: Vec<Site<'p>>,
    _memory: Vec<SimMemory>,
    map: SpaceMap<Vec<u32>>,
    heap_bytes: u64,
    objects: Vec<Place>,
    /// Objects that their program has freed and whose frees are on their way: their own names may be in use
    /// again. By number, from [`PARTED`] on.
    parted: Vec<Place>,
    /// Names from [`PARTED`] on that are free for use.
    unused: Vec<u32>,
    /// Addresses of lent pages.
    lent: BTreeSet<u32>,
}

impl<'p> Sites<'p> {
    /// `heaps` heaps of `heap_bytes` each; `shared`: all of them one region with one policy;
    /// `page_bytes`: of the pages that nodes lend each other, or 0.
    ///
    /// # Errors
    /// See [`BadHeaps`].
    pub fn new<P: Policy + 'p>(
        heaps: usize,
        heap_bytes: u64,
        shared: bool,
        page_bytes: u32,
    ) -> Result<Sites<'p>, BadHeaps> {
        if heap_bytes < MIN_HEAP || !heap_bytes.is_multiple_of(16) {
            return Err(BadHeaps::Length(heap_bytes));
        }
        let pages = Pages::new(page_bytes);
        if page_bytes > 0 && pages.is_none() {
            return Err(BadHeaps::Page(page_bytes));
        }
        let map = SpaceMap::new(&vec![heap_bytes; heaps], vec![0; heaps])?;
        let (count, len) =
            if shared { (1, heap_bytes * heaps as u64) } else { (heaps, heap_bytes) };
        let mut memory = (0..count)
            .map(|_| SimMemory::new(len).ok_or(BadHeaps::System(len)))
            .collect::<Result<Vec<_>, _>>()?;
        let mut sites = Vec::with_capacity(count);
        for sim in &mut memory {
            // SAFETY: the memory is fresh, and its policy is dropped before it: `sites` is the first
            // field, and here a policy that was made is dropped with the vector before `memory`.
            let region = unsafe { sim.region() }.ok_or(BadHeaps::Policy(len))?;
            let base = region.base();
            let policy: Box<dyn Chooser + 'p> =
                Box::new(P::new(region).ok_or(BadHeaps::Policy(len))?);
            let rooms = vec![Room { since: 0, granules: granules(policy.largest_free()) }];
            sites.push(Site { policy, base, pages, rooms });
        }
        let (objects, parted, unused) = (Vec::new(), Vec::new(), Vec::new());
        let lent = BTreeSet::new();
        Ok(Sites { sites, _memory: memory, map, heap_bytes, objects, parted, unused, lent })
    }

    /// Takes a block of `size` bytes of `heap`, or of the pages it borrowed, for `object` at `now`: whose
    /// memory it is. `None` when there is none, or the object has one already.
    pub fn alloc(&mut self, object: u32, heap: HeapId, size: u64, now: u64) -> Option<HeapId> {
        self.alloc_counted(object, heap, size, now, &mut Accesses::default())
    }

    /// As [`alloc`](Self::alloc), and adds what the policy touches.
    pub fn alloc_counted(
        &mut self,
        object: u32,
        heap: HeapId,
        size: u64,
        now: u64,
        made: &mut Accesses,
    ) -> Option<HeapId> {
        if self.place(object) != Place::Nowhere {
            return None;
        }
        let place = match self.block(heap, size, now, made) {
            Some(address) => Place::Block(address),
            None => self.in_page(heap, size, now)?,
        };
        self.settle(object, place)
    }

    /// As [`alloc`](Self::alloc) for a node that has borrowed nothing yet that would do: `heap` lends it a
    /// page, in which the object lies. `None` where there is no page to be had.
    pub fn lend(
        &mut self,
        object: u32,
        heap: HeapId,
        borrower: HeapId,
        size: u64,
        now: u64,
    ) -> Option<HeapId> {
        let pages = self.sites.get(borrower.index())?.pages?;
        let fits = u64::from(pages.page_bytes()) >= size && pages.has_slot();
        if !fits || self.place(object) != Place::Nowhere {
            return None;
        }
        // Only who has plenty lends: of a page that is half used, the other half is lost to others.
        let has = self.sites.get(heap.index())?.policy.largest_free();
        if has < PLENTY * u64::from(pages.page_bytes()) {
            return None;
        }
        let page = self.block(heap, pages.page_bytes().into(), now, &mut Accesses::default())?;
        self.lent.insert(page);
        let site = self.sites.get_mut(borrower.index())?;
        site.pages.as_mut()?.add(page);
        let place = self.in_page(borrower, size, now)?;
        self.settle(object, place)
    }

    /// Gives an object another name until it is freed; its own may be used again.
    pub fn part(&mut self, object: u32) -> u32 {
        let place = self.slot(object).map_or(Place::Nowhere, std::mem::take);
        let name = self.unused.pop().unwrap_or_else(|| {
            self.parted.push(Place::Nowhere);
            PARTED + self.parted.len() as u32 - 1
        });
        if let Some(slot) = self.slot(name) {
            *slot = place;
        }
        name
    }

    fn slot(&mut self, object: u32) -> Option<&mut Place> {
        match object.checked_sub(PARTED) {
            Some(parted) => self.parted.get_mut(parted as usize),
            None => self.objects.get_mut(object as usize),
        }
    }

    fn place(&self, object: u32) -> Place {
        let slot = match object.checked_sub(PARTED) {
            Some(parted) => self.parted.get(parted as usize),
            None => self.objects.get(object as usize),
        };
        slot.copied().unwrap_or_default()
    }

    fn settle(&mut self, object: u32, place: Place) -> Option<HeapId> {
        let at = object as usize;
        if self.objects.len() <= at {
            self.objects.resize(at + 1, Place::Nowhere);
        }
        self.objects[at] = place;
        self.owner(object).map(|owner| owner.home)
    }

    /// A block of the policy over `heap`: its address.
    fn block(&mut self, heap: HeapId, size: u64, now: u64, made: &mut Accesses) -> Option<u32> {
        let (number, before) = self.site_of(heap);
        let site = self.sites.get_mut(number)?;
        let payload = site.policy.alloc(size, made)?;
        let offset = before + (payload.addr().get() - site.base.addr().get()) as u64;
        site.look(now);
        let home = HeapId::new((offset / self.heap_bytes) as usize)?;
        self.map.address(home, (offset % self.heap_bytes) as u32)
    }

    fn in_page(&mut self, holder: HeapId, size: u64, now: u64) -> Option<Place> {
        let site = self.sites.get_mut(holder.index())?;
        let address = site.pages.as_mut()?.alloc(size)?;
        site.look(now);
        Some(Place::InPage(address, holder))
    }

    /// Who has to do with `object`.
    pub fn owner(&self, object: u32) -> Option<Owner> {
        let (address, holder) = match self.place(object) {
            Place::Nowhere => return None,
            Place::Block(address) => (address, None),
            Place::InPage(address, holder) => (address, Some(holder)),
        };
        let (home, _) = self.map.find(address).ok()?;
        Some(Owner { home, holder: holder.unwrap_or(home) })
    }

    /// Frees the block of `object` at `now`. A page that became empty and can go home: its address, for
    /// [`take_back`](Self::take_back), and whose it is.
    pub fn free(&mut self, object: u32, now: u64) -> Option<(u32, HeapId)> {
        self.free_counted(object, now, &mut Accesses::default())
    }

    /// As [`free`](Self::free), and adds what the policy touches.
    pub fn free_counted(
        &mut self,
        object: u32,
        now: u64,
        made: &mut Accesses,
    ) -> Option<(u32, HeapId)> {
        let place = std::mem::take(self.slot(object)?);
        if object >= PARTED {
            self.unused.push(object);
        }
        match place {
            Place::Nowhere => None,
            Place::Block(address) => {
                self.free_block(address, now, made);
                None
            }
            Place::InPage(address, holder) => {
                let site = self.sites.get_mut(holder.index())?;
                let pages = site.pages.as_mut()?;
                let known = pages.free(address);
                debug_assert!(known, "its holder knows of every object in its pages");
                let page = pages.take_empty(KEPT);
                site.look(now);
                let page = page?;
                self.map.find(page).ok().map(|(heap, _)| (page, heap))
            }
        }
    }

    /// A page is home again.
    pub fn take_back(&mut self, page: u32, now: u64) {
        if self.lent.remove(&page) {
            self.free_block(page, now, &mut Accesses::default());
        }
    }

    /// Frees a block whose address has just been taken out of `objects` or `lent`.
    fn free_block(&mut self, address: u32, now: u64, made: &mut Accesses) {
        let Ok((heap, offset)) = self.map.find(address) else { return };
        let (number, before) = self.site_of(heap);
        let within = heap.index() as u64 * self.heap_bytes + u64::from(offset) - before;
        let Some(site) = self.sites.get_mut(number) else { return };
        // SAFETY: `block` made the address of a payload of this site, so it lies in its region.
        let payload = unsafe { site.base.add(within as usize) };
        // SAFETY: by the invariant of `Sites` the block is used, and what named it has just been taken
        // out, so that it is freed once.
        unsafe { site.policy.free(payload, made) };
        site.look(now);
    }

    /// The policy over `heap`, and where its region begins, in bytes from the base of the map.
    fn site_of(&self, heap: HeapId) -> (usize, u64) {
        if self.sites.len() == 1 {
            (0, 0)
        } else {
            (heap.index(), heap.index() as u64 * self.heap_bytes)
        }
    }

    /// A policy that has had room for `size` bytes all the time since `began`.
    pub fn room_since(&self, size: u64, began: u64) -> Option<HeapId> {
        let need = Granules::for_request(size)?.count();
        HeapId::new(self.sites.iter().position(|site| site.had_room(need, began))?)
    }

    /// Bytes of the longest free block of `heap` or its pages.
    pub fn room(&self, heap: HeapId) -> u64 {
        self.sites.get(self.site_of(heap).0).map_or(0, |site| u64::from(site.room()) * 16)
    }

    /// Objects that have a block.
    pub fn live(&self) -> usize {
        let all = self.objects.iter().chain(&self.parted);
        all.filter(|&&place| place != Place::Nowhere).count()
    }

    /// Whether all policies and pages are whole, and nothing in them is nobody's.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), Broken> {
        let pages = || self.sites.iter().filter_map(|site| site.pages.as_ref());
        let used: u64 = self.sites.iter().map(|site| site.policy.used_blocks()).sum();
        let in_pages: u64 = pages().map(|pages| u64::from(pages.blocks())).sum();
        let known = (self.live() + self.lent.len()) as u64;
        Broken::unless_equal("every block is an object's or lent", 0, known, used + in_pages)?;
        pages().try_for_each(Pages::check)?;
        self.sites.iter().try_for_each(|site| site.policy.check())
    }
}

impl Site<'_> {
    fn room(&self) -> u32 {
        let in_pages = self.pages.as_ref().map_or(0, |pages| pages.longest_free() / 16);
        granules(self.policy.largest_free()).max(in_pages)
    }

    fn look(&mut self, now: u64) {
        let granules = self.room();
        if self.rooms.last().is_none_or(|last| last.granules != granules) {
            self.rooms.push(Room { since: now, granules });
        }
    }

    /// Whether it has had `need` granules in one block from `began` until now.
    fn had_room(&self, need: u32, began: u64) -> bool {
        let good = self.rooms.iter().rev().take_while(|room| room.granules >= need);
        good.last().is_some_and(|room| room.since <= began)
    }
}

/// In granules; what is longer than 32 bits say is as good as that.
fn granules(bytes: u64) -> u32 {
    u32::try_from(bytes / 16).unwrap_or(u32::MAX)
}
