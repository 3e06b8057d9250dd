//! The simulation itself: one policy, one stream of requests.
//!
//! For each request: free what has lived long enough; go along the path, asking the remote search
//! where it says `search`; take the first block that a policy gives; note the time. A strict search
//! may name a memory that the path has tried already, and as the chapter prints it that memory is
//! then tried again.

use super::costs::{Costs, Meter};
use super::machine::{Machine, Memory};
use super::requests::{Background, Request};
use crate::region::SimMemory;
use freehold_blocks::Region;
use freehold_blocks::align::Align;
use freehold_blocks::policy::{Policy, Totals};
use freehold_core::place::{
    Average, Effort, Load, Memories, NodeId, NodeSet, Path, RemoteSearch, Stop, Thresholds,
};
use std::ptr::NonNull;

/// Everything but the policy and the requests.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// What steps cost on it.
    pub costs: &'a Costs,
    /// Where requests go.
    pub path: Path,
    /// How long the remote search goes on.
    pub effort: Effort,
    /// Its categories.
    pub thresholds: Thresholds,
    /// What is there before the first request.
    pub background: &'a Background,
    /// Bytes of every request that cost nothing: 0, or 8 to see what headers cost.
    pub free_of_charge: u64,
}

/// The memories of a machine, as memory: taken once, used for one run after the other.
#[derive(Debug, Default)]
pub struct Backing(Vec<SimMemory>);

/// A run that could not begin.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoRoom {
    /// This computer has not enough memory.
    #[error("{memory} of {capacity} bytes: this computer has no such memory to simulate it with")]
    System {
        /// Which memory.
        memory: Memory,
        /// Its length.
        capacity: u64,
    },
    /// The policy wants more.
    #[error("{memory} of {capacity} bytes is too short for the policy")]
    Policy {
        /// Which memory.
        memory: Memory,
        /// Its length.
        capacity: u64,
    },
    /// The background does not fit.
    #[error(
        "the background does not fit into {memory}: a block of {size} bytes found no room; fill it less"
    )]
    Background {
        /// Which memory.
        memory: Memory,
        /// The block.
        size: u64,
    },
}

/// The memories of a path together, after a request.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct State {
    /// Bytes asked for and alive.
    pub live: u64,
    /// Bytes of the blocks that hold them.
    pub gross: u64,
    /// From the start of each memory to the end of its last used block, summed.
    pub extent: u64,
    /// The mean over memories of 1 - longest free block / free bytes; 0 for one that is full.
    pub external: f64,
}

/// What became of one request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seen<'a> {
    /// The request.
    pub request: &'a Request,
    /// The memory it was served from; `None` when it was not.
    pub served: Option<Memory>,
    /// It failed although a memory that was tried had bytes enough free, headers included.
    pub room_enough: bool,
    /// Steps of all policies asked.
    pub steps: u64,
    /// Simulated nanoseconds.
    pub ns: u64,
    /// The memories on the path, afterwards.
    pub state: State,
}

/// Watches a run.
pub trait Watch {
    /// A block was freed.
    fn freed(&mut self, steps: u64, ns: u64);
    /// A request was served, or not.
    fn asked(&mut self, seen: Seen<'_>);
}

/// Runs `requests` on a fresh policy per memory, made by `make`.
///
/// # Errors
/// See [`NoRoom`].
pub fn run<P: Policy>(
    backing: &mut Backing,
    setup: &Setup<'_>,
    requests: &[Request],
    make: impl Fn(Region) -> Option<P>,
    watch: &mut impl Watch,
) -> Result<(), NoRoom> {
    backing.fit(setup.machine)?;
    let mut world = World::new(backing, setup, requests.len(), make)?;
    for (i, request) in requests.iter().enumerate() {
        world.free_due(i, watch);
        let seen = world.serve(i, request);
        watch.asked(seen);
    }
    Ok(())
}

impl Backing {
    /// Memory for each of the machine's memories.
    fn fit(&mut self, machine: &Machine) -> Result<(), NoRoom> {
        let wanted: Vec<u64> = machine.memories().map(|memory| machine.capacity(memory)).collect();
        if self.0.iter().map(SimMemory::len).eq(wanted.iter().copied()) {
            return Ok(());
        }
        self.0.clear();
        for memory in machine.memories() {
            let capacity = machine.capacity(memory);
            self.0.push(SimMemory::new(capacity).ok_or(NoRoom::System { memory, capacity })?);
        }
        Ok(())
    }
}

/// A memory and its policy.
struct Site<P> {
    policy: P,
    totals: Totals,
    live: u64,
    external: f64,
}

impl<P: Policy> Site<P> {
    fn load(&self) -> Load {
        Load::of(self.totals.used(), self.totals.capacity)
    }

    fn look(&mut self) {
        self.totals = self.policy.totals();
        let (free, largest) = (self.totals.free, self.policy.largest_free());
        self.external = if free == 0 { 0.0 } else { 1.0 - largest as f64 / free as f64 };
    }
}

/// An object that lives.
#[derive(Clone, Copy)]
struct Object {
    payload: NonNull<u8>,
    site: usize,
    node: NodeId,
    size: u64,
    /// The next that dies at the same time.
    next: Option<u32>,
}

/// A run under way. Invariant: `objects[i]` is some exactly while request i's block is alive.
struct World<'a, P> {
    setup: &'a Setup<'a>,
    sites: Vec<Site<P>>,
    /// The sites whose state is told.
    told: Vec<usize>,
    objects: Vec<Option<Object>>,
    /// For each request, the first of the objects that die before it.
    due: Vec<Option<u32>>,
}

impl<'a, P: Policy> World<'a, P> {
    fn new(
        backing: &mut Backing,
        setup: &'a Setup<'a>,
        requests: usize,
        make: impl Fn(Region) -> Option<P>,
    ) -> Result<Self, NoRoom> {
        let mut sites = Vec::new();
        for (memory, sim) in setup.machine.memories().zip(&mut backing.0) {
            let capacity = sim.len();
            // SAFETY: policies of earlier runs are gone, for `run` returns only after its world is
            // dropped; this one's are dropped then, too, while the backing lives on.
            let region = unsafe { sim.region() };
            let policy = region.and_then(&make).ok_or(NoRoom::Policy { memory, capacity })?;
            sites.push(Site { policy, totals: Totals::default(), live: 0, external: 0.0 });
        }
        let told = told(setup);
        let (objects, due) = (vec![None; requests], vec![None; requests]);
        let mut world = World { setup, sites, told, objects, due };
        world.fill()?;
        Ok(world)
    }

    /// Lays out the background, which stays.
    fn fill(&mut self) -> Result<(), NoRoom> {
        for (site, memory) in self.setup.machine.memories().enumerate() {
            for &size in self.setup.background.0.get(site).into_iter().flatten() {
                let asked = size.saturating_sub(self.setup.free_of_charge);
                let payload = self.sites[site].policy.alloc(asked, Align::ONE, &mut ());
                payload.ok_or(NoRoom::Background { memory, size })?;
                self.sites[site].live += size;
            }
            self.sites[site].look();
        }
        Ok(())
    }

    fn free_due(&mut self, now: usize, watch: &mut impl Watch) {
        let mut at = self.due[now].take();
        while let Some(id) = at {
            let Some(object) = self.objects[id as usize].take() else { return };
            let mut meter = Meter::default();
            let site = &mut self.sites[object.site];
            // SAFETY: by the invariant of `objects` the payload came from this site's policy and is
            // alive; its slot is empty now, so it is freed once.
            unsafe { site.policy.free(object.payload, &mut meter) };
            site.live -= object.size;
            site.look();
            watch.freed(
                meter.steps(),
                meter.ns(self.setup.costs, self.touch_ns(object.node, object.site)),
            );
            at = object.next;
        }
    }

    fn serve<'r>(&mut self, id: usize, request: &'r Request) -> Seen<'r> {
        let mut trip = Trip { ns: self.setup.costs.request_ns, ..Trip::default() };
        let path = self.setup.path;
        let mut asking = Asking { run: self, request, trip: &mut trip };
        let found = path.walk(request.node, &mut asking).map(|(_, found)| found);
        if let Some((site, payload)) = found {
            self.keep(id, request, site, payload);
        }
        Seen {
            request,
            served: found.and_then(|(site, _)| self.setup.machine.memories().nth(site)),
            room_enough: found.is_none() && trip.room_enough,
            steps: trip.steps,
            ns: trip.ns,
            state: self.state(),
        }
    }

    /// Asks the policy of one memory for the block.
    fn ask(
        &mut self,
        site: usize,
        request: &Request,
        trip: &mut Trip,
    ) -> Option<(usize, NonNull<u8>)> {
        let mut meter = Meter::default();
        let asked = request.size.saturating_sub(self.setup.free_of_charge);
        let payload = self.sites[site].policy.alloc(asked, Align::ONE, &mut meter);
        trip.steps += meter.steps();
        trip.ns += meter.ns(self.setup.costs, self.touch_ns(request.node, site));
        if payload.is_none() {
            trip.room_enough |= self.sites[site].totals.free >= request.size + HEADER;
        }
        payload.map(|payload| (site, payload))
    }

    fn keep(&mut self, id: usize, request: &Request, site: usize, payload: NonNull<u8>) {
        let due = usize::try_from(request.lifetime).ok().and_then(|life| id.checked_add(life));
        let due = due.and_then(|due| self.due.get_mut(due));
        let next = due.and_then(|due| due.replace(id as u32));
        let (node, size) = (request.node, request.size);
        self.objects[id] = Some(Object { payload, site, node, size, next });
        self.sites[site].live += size;
        self.sites[site].look();
    }

    fn touch_ns(&self, node: NodeId, site: usize) -> u64 {
        let memory = NodeId::new(site).filter(|_| site < self.setup.machine.nodes());
        let memory = memory.map_or(Memory::Shared, Memory::Of);
        self.setup.costs.touch_ns(self.setup.machine, node, memory)
    }

    fn state(&self) -> State {
        let mut state = State::default();
        for &told in &self.told {
            let site = &self.sites[told];
            state.live += site.live;
            state.gross += site.totals.used();
            state.extent += site.totals.extent;
            state.external += site.external;
        }
        state.external /= self.told.len() as f64;
        state
    }
}

/// Bytes of a header.
const HEADER: u64 = 8;

/// The memories that a path can reach: all nodes', and the shared one where the path stops there.
fn told(setup: &Setup<'_>) -> Vec<usize> {
    let nodes = setup.machine.nodes();
    let most = if setup.path.visits(Stop::Shared) { nodes + 1 } else { nodes };
    (0..most).collect()
}

/// A request asks memory after memory.
struct Asking<'a, 'b, P> {
    run: &'a mut World<'b, P>,
    request: &'a Request,
    trip: &'a mut Trip,
}

impl<P: Policy> Memories for Asking<'_, '_, P> {
    type Found = (usize, NonNull<u8>);

    fn node(&mut self, node: NodeId) -> Option<Self::Found> {
        self.run.ask(node.index(), self.request, self.trip)
    }

    fn shared(&mut self) -> Option<Self::Found> {
        self.run.ask(self.run.sites.len() - 1, self.request, self.trip)
    }

    fn search(&mut self, tried: NodeSet) -> Option<Self::Found> {
        let Setup { effort, thresholds, machine, costs, .. } = *self.run.setup;
        let loads: Vec<Load> = self.run.sites.iter().map(Site::load).collect();
        let search = RemoteSearch {
            loads: &loads[..machine.nodes()],
            distances: machine.hops_from(self.request.node),
            average: Average::of(loads.iter().copied()),
            thresholds,
            here: self.request.node,
        };
        self.trip.ns += costs.load_ns * loads.len() as u64;
        self.trip.steps += loads.len() as u64;
        // What a complete search is for is memory that was not tried yet.
        let tried = if effort == Effort::Complete { tried } else { NodeSet::default() };
        search.order(effort, tried).find_map(|node| self.node(node))
    }
}

/// One request's way along the path.
#[derive(Default)]
struct Trip {
    ns: u64,
    steps: u64,
    room_enough: bool,
}

#[cfg(test)]
mod tests;
