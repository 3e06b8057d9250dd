//! The heaps themselves: policies of core's over the memory of the nodes, one address range over all.

use crate::region::SimMemory;
use freehold_core::blocks::Granules;
use freehold_core::check::Broken;
use freehold_core::place::mesh::{BadMap, HeapId, SpaceMap};
use freehold_core::policy::Policy;
use freehold_core::units::Align;
use std::ptr::NonNull;

/// The shortest heap, in bytes: a few blocks.
pub const MIN_HEAP: u64 = 256;

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
}

/// The longest free block of a heap, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Room {
    since: u64,
    granules: u32,
}

/// One policy over one region.
#[derive(Debug)]
struct Site<P> {
    policy: P,
    base: NonNull<u8>,
    /// Over time: what a search that fails is judged by.
    rooms: Vec<Room>,
}

/// All heaps and the objects in them. Invariant: an address in `objects` is that of a used block, and no
/// other object has it.
#[derive(Debug)]
pub struct Sites<P> {
    /// One for each node, or one for all. Dropped before the memory.
    sites: Vec<Site<P>>,
    _memory: Vec<SimMemory>,
    map: SpaceMap<Vec<u32>>,
    heap_bytes: u64,
    objects: Vec<Option<u32>>,
}

impl<P: Policy> Sites<P> {
    /// `heaps` heaps of `heap_bytes` each; `shared`: all of them one region with one policy.
    ///
    /// # Errors
    /// See [`BadHeaps`].
    pub fn new(heaps: usize, heap_bytes: u64, shared: bool) -> Result<Sites<P>, BadHeaps> {
        if heap_bytes < MIN_HEAP || !heap_bytes.is_multiple_of(16) {
            return Err(BadHeaps::Length(heap_bytes));
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
            let policy = P::new(region).ok_or(BadHeaps::Policy(len))?;
            let rooms = vec![Room { since: 0, granules: granules(policy.largest_free()) }];
            sites.push(Site { policy, base, rooms });
        }
        Ok(Sites { sites, _memory: memory, map, heap_bytes, objects: Vec::new() })
    }

    /// Takes a block of `size` bytes of `heap` for `object` at `now`: the heap it lies in, which is
    /// another where all are one region. `None` when there is none, or the object has one already.
    pub fn alloc(&mut self, object: u32, heap: HeapId, size: u64, now: u64) -> Option<HeapId> {
        let at = object as usize;
        if self.objects.len() <= at {
            self.objects.resize(at + 1, None);
        }
        let (number, before) = self.site_of(heap);
        let site = self.sites.get_mut(number).filter(|_| self.objects[at].is_none())?;
        let payload = site.policy.alloc(size, Align::ONE, &mut ())?;
        let offset = before + (payload.addr().get() - site.base.addr().get()) as u64;
        site.look(now);
        let home = HeapId::new((offset / self.heap_bytes) as usize)?;
        self.objects[at] = self.map.address(home, (offset % self.heap_bytes) as u32);
        Some(home)
    }

    /// The heap that `object` lies in, by its address.
    pub fn owner(&self, object: u32) -> Option<HeapId> {
        let address = (*self.objects.get(object as usize)?)?;
        self.map.find(address).ok().map(|(heap, _)| heap)
    }

    /// Frees the block of `object` at `now`. Whether it had one.
    pub fn free(&mut self, object: u32, now: u64) -> bool {
        let taken = self.objects.get_mut(object as usize).and_then(Option::take);
        let Some(Ok((heap, offset))) = taken.map(|address| self.map.find(address)) else {
            return false;
        };
        let (number, before) = self.site_of(heap);
        let within = heap.index() as u64 * self.heap_bytes + u64::from(offset) - before;
        let Some(site) = self.sites.get_mut(number) else { return false };
        // SAFETY: `alloc` made the address of a payload of this site, so it lies in its region.
        let payload = unsafe { site.base.add(within as usize) };
        // SAFETY: by the invariant of `objects` the block is used, and its address has just been taken
        // out, so that it is freed once.
        unsafe { site.policy.free(payload, &mut ()) };
        site.look(now);
        true
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

    /// Objects that have a block.
    pub fn live(&self) -> usize {
        self.objects.iter().flatten().count()
    }

    /// Whether all policies are whole.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), Broken> {
        let used: u64 = self.sites.iter().map(|site| site.policy.totals().used_blocks).sum();
        Broken::unless_equal("every used block is an object's", 0, self.live() as u64, used)?;
        self.sites.iter().try_for_each(|site| site.policy.check())
    }
}

impl<P: Policy> Site<P> {
    fn look(&mut self, now: u64) {
        let granules = granules(self.policy.largest_free());
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
