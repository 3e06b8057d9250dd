//! The machine's memories: Linux's NUMA nodes.
//!
//! ```text
//! which may be used     get_mempolicy(MEMS_ALLOWED), which knows cpusets; else /sys/…/node/has_memory
//! where a thread is     the limit of a descriptor, as the vDSO's getcpu reads it; else getcpu
//! what a node has       /sys/…/node/nodeN/meminfo, less what the kernel keeps of it (its low watermark)
//! how far, which have processors    nodeN/distance, online, has_cpu
//! where pages come from             mbind: preferred, never bound, for a bound node that is full means the OOM killer
//! where pages lie, and moving them  move_pages
//! ```
//!
//! All of it is asked when it is needed and nothing is kept but the set of usable nodes, for nodes come and go. What the
//! kernel refuses (seccomp, no `/sys`) is not known, and then memory comes from where it is first touched.
//!
//! A policy that somebody has set for the process or a thread (`numactl`, `set_mempolicy`) stands: nothing is placed then.

use crate::small_file::SmallFile;
use crate::syscall::{Number, call};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use freehold_core::machine::{Nodes, Room, Survey};
use freehold_core::place::{Home, MAX_NODES, NodeId, NodeSet, Path, Stop};

/// Bits of the kernel's masks: no kernel is built for more nodes.
const MASK_BITS: usize = 1024;
const MPOL_DEFAULT: u32 = 0;
const MPOL_PREFERRED: usize = 1;
const MPOL_F_MEMS_ALLOWED: usize = 4;
/// Pages that only this process has mapped.
const MPOL_MF_MOVE: usize = 2;
/// Pages named in one call.
pub(crate) const BATCH: usize = 512;

/// No path: memory comes from where the system takes it.
const NO_PATH: u8 = u8::MAX;

type Mask = [u64; MASK_BITS / 64];

/// The memories. All-zero: not looked for.
#[derive(Debug)]
pub struct Memories {
    /// Those that may be used, if there are several; else 0.
    usable: AtomicU64,
    /// The path: for each stop two bits, [`Stop`]'s number + 1; 0 is the default, [`NO_PATH`] that there is none.
    path: AtomicU8,
    /// For each node that cannot be used, the nearest that can, as number + 1; 0 when nobody asked.
    nearest: [AtomicU8; MAX_NODES],
    /// What the kernel keeps of a node, in 65,536ths, plus one; 0 when nobody asked.
    kept: AtomicU32,
}

impl Memories {
    /// None known.
    pub const fn new() -> Memories {
        Memories {
            usable: AtomicU64::new(0),
            path: AtomicU8::new(0),
            nearest: [const { AtomicU8::new(0) }; MAX_NODES],
            kept: AtomicU32::new(0),
        }
    }

    /// Looks which there are, unless the process has a policy, or no path.
    pub fn find(&self) {
        if self.path.load(Ordering::Relaxed) == NO_PATH {
            return;
        }
        let usable = usable();
        if usable.count_ones() > 1 && !has_policy() {
            self.usable.store(usable, Ordering::Relaxed);
        }
    }

    /// Says where to look for memory; `None` leaves it to the system.
    pub fn set_path(&self, path: Option<Path>) {
        let code = path.map_or(NO_PATH, |path| {
            path.stops().iter().rev().fold(0, |code, stop| code << 2 | (*stop as u8 + 1))
        });
        self.path.store(code, Ordering::Relaxed);
    }

    /// Whether there is more than one, and nobody else says which to use.
    #[inline]
    pub fn are_several(&self) -> bool {
        self.usable.load(Ordering::Relaxed) != 0
    }

    fn set(&self) -> NodeSet {
        NodeSet::from_bits(self.usable.load(Ordering::Relaxed))
    }
}

impl Memories {
    /// What the kernel keeps of a node, in 65,536ths: the low watermark, as `__setup_per_zone_wmarks` makes it of
    /// `vm.min_free_kbytes` and `vm.watermark_scale_factor`.
    fn kept(&self) -> u32 {
        if let Some(kept) = self.kept.load(Ordering::Relaxed).checked_sub(1) {
            return kept;
        }
        let number = |path: &[u8]| SmallFile::at(path).and_then(|file| file.numbers().next());
        let least = number(b"/proc/sys/vm/min_free_kbytes").unwrap_or(0);
        let scale = number(b"/proc/sys/vm/watermark_scale_factor").unwrap_or(10);
        let total = SmallFile::at(b"/proc/meminfo").and_then(|file| file.number_of(b"MemTotal:"));
        let part = (least << 16).checked_div(total.unwrap_or(0)).unwrap_or(0);
        let kept = part + (part / 4).max((scale << 16) / 10_000);
        let kept = kept.min(1 << 15) as u32;
        self.kept.store(kept + 1, Ordering::Relaxed);
        kept
    }

    /// The usable node nearest to one that is not: processors can be without memory, by the machine or a cpuset.
    #[cold]
    fn nearest(&self, from: NodeId) -> Option<NodeId> {
        let known = self.nearest.get(from.index())?;
        if let Some(number) = known.load(Ordering::Relaxed).checked_sub(1) {
            return NodeId::new(number.into());
        }
        let distances = distances(from);
        let near = self.set().iter().min_by_key(|node| distances.get(node.index()).copied())?;
        known.store(near.index() as u8 + 1, Ordering::Relaxed);
        Some(near)
    }
}

impl Nodes for Memories {
    fn here(&self) -> Option<NodeId> {
        let node = NodeId::new(node_of_processor()?)?;
        if self.set().contains(node) { Some(node) } else { self.nearest(node) }
    }

    fn has_policy(&self) -> bool {
        has_policy()
    }

    fn path(&self) -> Path {
        let code = self.path.load(Ordering::Relaxed);
        let mut stops = [Stop::Local; 3];
        let mut len = 0;
        for (at, stop) in stops.iter_mut().enumerate() {
            *stop = match code >> (2 * at) & 3 {
                1 => Stop::Local,
                2 => Stop::Shared,
                3 => Stop::Search,
                _ => break,
            };
            len = at + 1;
        }
        stops.get(..len).and_then(Path::new).unwrap_or(Path::LOCAL_SHARED_SEARCH)
    }

    fn room(&self, node: NodeId) -> Option<Room> {
        let file = SmallFile::of_node(node.index(), b"meminfo")?;
        let bytes = |key: &[u8]| file.number_of(key).map(|kib| kib << 10);
        // What was read from files and not used since is dropped before anything is sent to another node.
        let free = bytes(b"MemFree:")? + bytes(b"Inactive(file):").unwrap_or(0);
        let capacity = bytes(b"MemTotal:")?;
        // Of what lies below the watermark nobody gets a page while another node has one.
        let kept = ((u128::from(capacity) * u128::from(self.kept())) >> 16) as u64;
        Some(Room { free: free.saturating_sub(kept), capacity })
    }

    fn survey(&self, from: NodeId) -> Survey {
        // A cpuset may have changed since the last time.
        let usable = match usable() {
            0 => self.set(),
            bits => NodeSet::from_bits(bits),
        };
        let with_processors = SmallFile::of_nodes(b"has_cpu").map_or(u64::MAX, |file| file.set());
        let shared = usable.without(NodeSet::from_bits(with_processors));
        let mut survey = Survey { usable, shared, distances: distances(from), ..Survey::NOTHING };
        for node in usable.iter() {
            if let (Some(place), Some(room)) = (survey.rooms.get_mut(node.index()), self.room(node))
            {
                *place = room;
            }
        }
        survey
    }

    fn prefer(&self, at: *mut u8, len: usize, node: NodeId) -> bool {
        let mask: u64 = 1 << node.index();
        // The kernel looks at one bit less than it is told.
        let arguments =
            [at.addr(), len, MPOL_PREFERRED, (&raw const mask).addr(), MAX_NODES + 1, 0];
        // SAFETY: a policy changes no contents; the mask is as long as said.
        unsafe { call(Number::MBind, arguments) == 0 }
    }

    fn locate(&self, at: *mut u8, page: usize, pages: &mut [Home]) -> bool {
        let mut start = at.addr();
        pages.chunks_mut(BATCH).all(|batch| {
            let mut addresses = [0usize; BATCH];
            let mut found = [-1i32; BATCH];
            for (number, address) in addresses.iter_mut().take(batch.len()).enumerate() {
                *address = start + number * page;
            }
            start += batch.len() * page;
            let known = move_pages(batch.len(), &addresses, None, &mut found, 0);
            for (home, &node) in batch.iter_mut().zip(&found) {
                let node = usize::try_from(node).ok().and_then(NodeId::new);
                *home = node.filter(|_| known).map_or(Home::ANYWHERE, Home::of);
            }
            known
        })
    }

    fn migrate(&self, at: *mut u8, page: usize, pages: &[Home], from: NodeSet, to: NodeId) {
        let there = |home: &Home| home.node().is_some_and(|node| from.contains(node));
        let named = pages.iter().enumerate().filter(|(_, home)| there(home));
        let mut named = named.map(|(number, _)| at.addr() + number * page);
        loop {
            let mut addresses = [0usize; BATCH];
            let mut len = 0;
            for (place, address) in addresses.iter_mut().zip(&mut named) {
                *place = address;
                len += 1;
            }
            if len == 0 {
                return;
            }
            // Of a huge page the first that is named takes the others along, which are said to be busy then: what
            // became of them is asked, not read from the answer.
            let nodes = [to.index() as i32; BATCH];
            move_pages(len, &addresses, Some(&nodes), &mut [0; BATCH], MPOL_MF_MOVE);
            if len < BATCH {
                return;
            }
        }
    }
}

impl Memories {
    /// The nodes that may be used.
    pub fn usable(&self) -> NodeSet {
        self.set()
    }
}

/// Asks where the first `len` of the pages are, or moves them to `nodes`; `false` when refused.
fn move_pages(
    len: usize,
    pages: &[usize; BATCH],
    nodes: Option<&[i32; BATCH]>,
    found: &mut [i32; BATCH],
    flags: usize,
) -> bool {
    let to = nodes.map_or(0, |nodes| nodes.as_ptr().addr());
    let (pages, found) = (pages.as_ptr().addr(), found.as_mut_ptr().addr());
    // SAFETY: all arrays have at least `len` entries; pages that move keep contents and address.
    unsafe { call(Number::MovePages, [0, len, pages, to, found, flags]) >= 0 }
}

/// The nodes that the process may take memory from; 0 when nobody says.
fn usable() -> u64 {
    let mut mask: Mask = [0; MASK_BITS / 64];
    let arguments = [0, mask.as_mut_ptr().addr(), MASK_BITS, 0, MPOL_F_MEMS_ALLOWED, 0];
    // SAFETY: the mask is ours and as long as said.
    let refused = unsafe { call(Number::GetMemPolicy, arguments) } != 0;
    let [first, ..] = mask;
    if refused {
        return SmallFile::of_nodes(b"has_memory").map_or(0, |file| file.set());
    }
    first
}

/// Whether the calling thread has a memory policy.
fn has_policy() -> bool {
    let mut mode = MPOL_DEFAULT;
    // SAFETY: the kernel writes one number.
    let done = unsafe { call(Number::GetMemPolicy, [(&raw mut mode).addr(), 0, 0, 0, 0, 0]) };
    done == 0 && mode != MPOL_DEFAULT
}

/// The node of the processor that the calling thread runs on.
fn node_of_processor() -> Option<usize> {
    // The kernel keeps node << 12 | processor in the limit of this descriptor, for its own vDSO (arch/x86/include/asm/segment.h).
    const SELECTOR: u32 = 15 * 8 + 3;
    let (limit, found): (u32, u8);
    // SAFETY: reads the limit of a descriptor; where it is none, says so by the zero flag.
    unsafe {
        core::arch::asm!(
            "lsl {limit:e}, {selector:e}",
            "setz {found}",
            selector = in(reg) SELECTOR,
            limit = inout(reg) 0u32 => limit,
            found = out(reg_byte) found,
            options(nomem, nostack),
        );
    }
    if found != 0 { Some((limit >> 12) as usize) } else { node_by_call() }
}

#[cold]
fn node_by_call() -> Option<usize> {
    let mut node = 0u32;
    // SAFETY: the kernel writes one number.
    let done = unsafe { call(Number::GetCpu, [0, (&raw mut node).addr(), 0, 0, 0, 0]) };
    (done == 0).then_some(node as usize)
}

/// How far every node is from one; those of which nobody knows are farthest.
fn distances(from: NodeId) -> [u32; MAX_NODES] {
    let mut distances = [u32::MAX; MAX_NODES];
    let files = (
        SmallFile::of_node(from.index(), b"distance"),
        SmallFile::of_nodes(b"online").map(|file| NodeSet::from_bits(file.set())),
    );
    if let (Some(file), Some(online)) = files {
        for (node, far) in online.iter().zip(file.numbers()) {
            if let Some(place) = distances.get_mut(node.index()) {
                *place = far as u32;
            }
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_kept() {
        let memories = Memories::new();
        assert_eq!(memories.path(), Path::LOCAL_SHARED_SEARCH);
        let [local, shared, search] = [Stop::Local, Stop::Shared, Stop::Search];
        for stops in [&[local][..], &[shared, local], &[search], &[local, search, shared]] {
            let path = Path::new(stops).expect("different stops");
            memories.set_path(Some(path));
            assert_eq!(memories.path(), path);
        }
        memories.set_path(None);
        memories.find();
        assert!(!memories.are_several());
    }

    #[test]
    fn the_descriptor_says_what_the_call_says() {
        let agree = || node_of_processor() == node_by_call();
        assert!((0..10).any(|_| agree()), "unless the thread moves every time");
    }

    #[test]
    fn one_memory_is_none_to_choose_from() {
        let memories = Memories::new();
        memories.find();
        assert_eq!(memories.are_several(), usable().count_ones() > 1 && !has_policy());
    }
}
