//! What a page-frame policy decides, and the registry of all there are.
//!
//! The table splits, merges and counts; a policy says in which area a free block is kept and which free
//! block a request gets. One file a policy, one line in the registry.

use super::memory::SetRecord;
use super::request::{Class, Request, SetId};
use super::store::{Changed, Store};
use super::table::Table;
use freehold_blocks::check::Broken;
use freehold_blocks::probe::Probe;
use freehold_blocks::registry;

/// What a policy on a store picks.
pub type Picked<S> = <S as Store>::Picked;

/// Chooses blocks of one zone. The methods are called by [`Frames`](super::Frames) only.
///
/// Whatever it keeps besides the table's areas must agree with them after `settle`, `join` and
/// `withdraw`; `check` says whether it does. Plain data, so that a zone may move between threads.
pub trait Policy: Sized + Send {
    /// Where its free blocks are kept.
    type Store: Store;

    /// Whether sets begin switched off.
    const STARTS_OFF: bool;

    /// How many areas it wants for that many sets.
    fn areas(sets: usize) -> usize;

    /// Before there is any block.
    fn new(table: &Table<'_, Self::Store>) -> Self;

    /// The area for a free block at `at`.
    fn area(&self, table: &Table<'_, Self::Store>, at: u32) -> usize;

    /// Whether a free block at `at` may be found in `area`: for [`Frames::check`](super::Frames::check). More than
    /// the one that [`area`](Self::area) says, where blocks of mixed page blocks follow the first.
    fn keeps(&self, table: &Table<'_, Self::Store>, at: u32, area: usize) -> bool {
        self.area(table, at) == area
    }

    /// Where a free block of at least `wanted.order` is in a usable set; `None` only when there is none that may
    /// serve the kind. May switch sets on and move sets between pools on the way.
    fn pick<Q: Probe>(
        &mut self,
        table: &mut Table<'_, Self::Store>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Self::Store>>;

    /// The same for whoever would rather have another zone's frame than a set switched on: changes no pool, and
    /// leaves the kernel its reserve. `None` of policies that do not know.
    fn pick_awake<Q: Probe>(
        &mut self,
        table: &mut Table<'_, Self::Store>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Self::Store>> {
        let _ = (table, wanted, probe);
        None
    }

    /// The same for a page that moves: switches no set on.
    fn refuge<Q: Probe>(
        &mut self,
        table: &mut Table<'_, Self::Store>,
        wanted: Request,
        probe: &mut Q,
    ) -> Option<Picked<Self::Store>>;

    /// A set's counts have changed, and it may be which of its lists hold any.
    fn settle<Q: Probe>(
        &mut self,
        table: &mut Table<'_, Self::Store>,
        changed: Changed,
        probe: &mut Q,
    );

    /// `set` was usable and is isolated now.
    fn withdraw<Q: Probe>(&mut self, table: &mut Table<'_, Self::Store>, set: SetId, probe: &mut Q);

    /// `set` was isolated, off or new, and is usable now.
    fn join<Q: Probe>(&mut self, table: &mut Table<'_, Self::Store>, set: SetId, probe: &mut Q);

    /// Puts sets in order; see [`Frames::tidy`](super::Frames::tidy).
    fn tidy<Q: Probe>(&mut self, table: &mut Table<'_, Self::Store>, probe: &mut Q) {
        let _ = (table, probe);
    }

    /// See [`Frames::room`](super::Frames::room).
    fn room(&self, table: &Table<'_, Self::Store>, leaving: Option<SetId>) -> u32 {
        free_of(table, leaving, |_| true)
    }

    /// Whom the pool with that number serves first; `None` where there are no pools.
    fn pool(&self, number: u8) -> Option<Class> {
        let _ = number;
        None
    }

    /// Compares what it keeps with the table.
    ///
    /// # Errors
    /// What does not agree.
    fn check(&self, table: &Table<'_, Self::Store>) -> Result<(), Broken> {
        let _ = table;
        Ok(())
    }
}

/// Free frames of usable sets that `of` admits, but `leaving`. O(sets).
pub(super) fn free_of<S: Store>(
    table: &Table<'_, S>,
    leaving: Option<SetId>,
    of: impl Fn(&SetRecord) -> bool,
) -> u32 {
    let others =
        table.sets.iter().enumerate().filter(|&(set, _)| Some(SetId(set as u16)) != leaving);
    others
        .map(|(_, bank)| bank)
        .filter(|bank| bank.usable() && of(bank))
        .map(|bank| bank.free)
        .sum()
}

/// The set that is off and next in turn: the lowest for the kernel, but none with CMA; the highest for users
/// (Panwar 2015, section 4.2: "towards the lower address space"). Switches it on. A set serves any order, unless
/// page blocks of CMA cut its largest blocks: then the caller asks for another.
pub(super) fn wake<S: Store>(table: &mut Table<'_, S>, class: Class) -> Option<SetId> {
    let set = match class {
        Class::User => table.off.highest()?,
        Class::Kernel => {
            let mut set = table.off.lowest()?;
            while table.sets[set.index()].has(SetRecord::CMA) {
                set = table.off.next_from(set.index() + 1)?;
            }
            set
        }
    };
    table.set_off(set, false);
    Some(set)
}

registry! {
    Policy;
    "buddy" => super::Buddy<false>, "Linux 3.17: lists for each kind, the zone's; other kinds are raided from the largest block down";
    "buddy-claim" => super::Buddy<true>, "Linux of today: claims a whole page block, or else takes the smallest block";
    "bank-array" => super::BankArray<false>, "a free area for each bank; the kernel from below, users from above, first fit";
    "bank-array-bits" => super::BankArray<true>, "the same choice, found in bit sets instead of a scan";
    "bank-list" => super::BankList<true>, "lists of banks for kernel and users; a kernel in need takes the emptiest user bank";
    "bank-list-arbitrary" => super::BankList<false>, "the same, but a kernel in need takes the first user bank that serves";
    "adaptive-paper" => super::AdaptivePaper, "pools of banks with common lists; a bank changes its pool page by page";
    "adaptive" => super::Adaptive, "pools of banks with lists for each bank; a bank changes its pool in O(1)";
    "fullest" => super::Fullest, "the same pools, always from the fullest bank that serves";
}
