//! What the core asks of the world.
//!
//! [`Machine`] is memory and waiting: what an operating system gives. The core calls it only from
//! cold paths. `freehold-os` implements it for Linux, the testkit by a machine that fails.
//!
//! [`Nodes`] is asked only where a machine has several memories: which one is near, how full they are.

use crate::malloc::decisions::Decisions;
use crate::place::{Home, MAX_NODES, NodeId, NodeSet, Path};

/// Where address space, pages and sleep come from.
///
/// Called from cold paths only, often under a lock of the core's, from any thread. No method may
/// allocate through the core, panic, or change `errno`. Lengths and addresses are multiples of
/// [`Machine::page_size`] unless a method says otherwise.
///
/// # Safety
/// Memory returned by [`Machine::reserve`] belongs to the caller alone until it is released, and
/// nothing but these methods changes what is mapped there.
pub unsafe trait Machine {
    /// The page size in bytes, a power of two from 4 KiB to 64 KiB. Constant.
    fn page_size(&self) -> usize;

    /// Reserves `len` bytes of address space at a multiple of `align` (a power of two), neither
    /// readable nor writable. Null when there is none.
    fn reserve(&self, len: usize, align: usize) -> *mut u8;

    /// Gives a reservation back, or whole pages of one, addresses and all.
    ///
    /// # Safety
    /// `[at, at + len)` lies within one reservation, and nothing in it is in use or will be.
    unsafe fn release(&self, at: *mut u8, len: usize) {
        let _ = (at, len);
    }

    /// Makes reserved bytes readable, writable and zero on first touch. `false` when memory is
    /// short: then nothing has changed.
    ///
    /// # Safety
    /// `[at, at + len)` lies within one reservation and holds nothing that is in use.
    unsafe fn commit(&self, at: *mut u8, len: usize) -> bool;

    /// [`Machine::commit`] ahead of need: what is committed so is not in core files until [`Machine::dump`] puts it there.
    ///
    /// # Safety
    /// As [`Machine::commit`].
    unsafe fn commit_ahead(&self, at: *mut u8, len: usize) -> bool {
        // SAFETY: the caller's.
        unsafe { self.commit(at, len) }
    }

    /// Advice: committed bytes belong into a core file of the program (`wanted`), or hold nothing. What was only
    /// reserved, or committed ahead, is in none.
    fn dump(&self, at: *mut u8, len: usize, wanted: bool) {
        let _ = (at, len, wanted);
    }

    /// Gives the pages back; they stay committed and read as zero. `false` when refused: then some
    /// may read as zero, and the others are as they were.
    ///
    /// # Safety
    /// `[at, at + len)` is committed and nothing in it is in use.
    unsafe fn purge(&self, at: *mut u8, len: usize) -> bool;

    /// Moves the pages of `[from, from + len)` to `to`, leaving `from` committed and zero. `false`
    /// when it cannot: then nothing has changed, and the caller copies.
    ///
    /// # Safety
    /// Both ranges are committed, disjoint, and the caller's alone; `to` holds nothing in use.
    unsafe fn relocate(&self, from: *mut u8, to: *mut u8, len: usize) -> bool {
        let _ = (from, to, len);
        false
    }

    /// Advice: `[at, at + len)`, whole banks of committed memory, is going to be used densely, and huge
    /// pages would suit it (`huge`); or parts of it are about to be given back, and shall not be
    /// filled again. Contents and what is committed stay as they are.
    fn advise(&self, at: *mut u8, len: usize, huge: bool) {
        let _ = (at, len, huge);
    }

    /// The machine's memories; `None` where there is one only, or where the user has said by which rules memory comes
    /// from several. A machine that answers `None` is asked nothing about nodes.
    fn nodes(&self) -> Option<&dyn Nodes> {
        None
    }

    /// How much memory the process may still take before the system takes it back or ends the process; `None`: nobody has
    /// set a limit, or nobody knows it. What the system could do without (copies of files) is free. Takes some tens of
    /// microseconds.
    fn room(&self) -> Option<Room> {
        None
    }

    /// What the malloc on this machine decides by. Constant. Only a simulated machine says anything else than what ships.
    #[inline(always)]
    fn decisions(&self) -> &'static Decisions {
        &Decisions::SHIPPED
    }

    /// Which thread is calling: a number from 1 to 2^31 - 1 that no two threads of a process have at the same time, by which
    /// a forked child tells what its own thread was doing from what the others were. Costs an instruction or two.
    #[inline]
    fn me(&self) -> u32 {
        1
    }

    /// Sleeps while `word` is `expected`, until [`Machine::wake`] or spuriously.
    fn wait(&self, word: &core::sync::atomic::AtomicU32, expected: u32) {
        let _ = (word, expected);
        core::hint::spin_loop();
    }

    /// Wakes one sleeper of `word`.
    fn wake(&self, word: &core::sync::atomic::AtomicU32) {
        let _ = word;
    }
}

/// Several memories. Called from cold paths only, as [`Machine`] is, and under the same rules.
pub trait Nodes {
    /// The node that memory for the calling thread shall come from: its processor's, or the nearest to it that has any;
    /// `None` when nobody knows. Costs some ten instructions.
    fn here(&self) -> Option<NodeId>;

    /// Whether the calling thread has a memory policy of its own, which then stands. Costs a system call.
    fn has_policy(&self) -> bool;

    /// Where to look for memory, in which order. Constant.
    fn path(&self) -> Path;

    /// How much of a node is left; `None` when nobody knows.
    fn room(&self, node: NodeId) -> Option<Room>;

    /// Everything about all nodes, as seen from one. Much slower than [`Nodes::room`].
    fn survey(&self, from: NodeId) -> Survey;

    /// The pages of `[at, at + len)` that are not there yet shall come from `node` if it has any. `false` when refused:
    /// then they come from the node of whoever touches them first.
    fn prefer(&self, at: *mut u8, len: usize, node: NodeId) -> bool;

    /// Where the pages of `page` bytes from `at` lie: an answer for each, [`Home::ANYWHERE`] for one that is not there.
    /// `false` when nobody can say.
    fn locate(&self, at: *mut u8, page: usize, pages: &mut [Home]) -> bool {
        let _ = (at, page, pages);
        false
    }

    /// Moves those of the pages from `at` to node `to` that lie on a node of `from`, as `pages` says. Contents stay as
    /// they are, whoever uses them meanwhile; what cannot be moved just now stays where it is.
    fn migrate(&self, at: *mut u8, page: usize, pages: &[Home], from: NodeSet, to: NodeId) {
        let _ = (at, page, pages, from, to);
    }
}

/// What a node has, or what a process may have, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Not in use, or in use for copies of files that nobody needs.
    pub free: u64,
    /// In all.
    pub capacity: u64,
}

/// All memories at one moment, as seen from one node.
#[derive(Clone, Copy, Debug)]
pub struct Survey {
    /// Those that the program may use.
    pub usable: NodeSet,
    /// Those of them that have no processors: what all nodes share.
    pub shared: NodeSet,
    /// By node; zero for those that cannot be used.
    pub rooms: [Room; MAX_NODES],
    /// How far each node is, in any unit.
    pub distances: [u32; MAX_NODES],
}

impl Survey {
    /// Nothing known: no node can be used.
    pub const NOTHING: Survey = Survey {
        usable: NodeSet::from_bits(0),
        shared: NodeSet::from_bits(0),
        rooms: [Room { free: 0, capacity: 0 }; MAX_NODES],
        distances: [u32::MAX; MAX_NODES],
    };
}
