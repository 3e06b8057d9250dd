//! Pools of banks whose lists stay with their bank, so that a bank changes its pool in O(1).
//!
//! ```text
//!   pool     order 0: set - set - set       the sets whose largest free block is of that order, last come first,
//!            ...                            and a mask of the orders that have any
//!            order 10: set
//!            bucket 0 .. 31: set - set      the sets by free frames, in 32nds of a set, and a mask
//!   set      area: its own eleven lists
//! ```
//!
//! Panwar's pools (2015, section 4.2) have one set of lists each, so that a bank that changes its pool is
//! taken out of one pool's lists and put into another's block by block. Here two links change, whatever
//! the bank holds. The buckets answer "the set with most free frames" and "the
//! fullest set" to within 1/32 of a set.
//!
//! Of each pool one set is hot: it served last and serves next, as long as it has the order and, once it changes its bucket,
//! no other set is fuller. It is in no bucket meanwhile, and in the list of the order that it had, for both would change
//! again and again; whoever looks for another set puts both right first.
//!
//! Invariant: a usable set that has free frames is linked by its largest free block (the hot one: by what that was when it
//! became hot), in its pool, and into the bucket of its free frames (the hot one: into none, but it knows its bucket);
//! other sets are linked nowhere.

use super::memory::{Beside, SetRecord};
use super::order::{ORDERS, Order, Orders};
use super::policy::{free_of, wake};
use super::pooled::Table;
use super::request::{Class, Request, SetId};
use super::store::Changed;
use crate::row::Row;
use freehold_blocks::probe::{Probe, Step};

mod check;

/// The kernel's pool.
pub const KERNEL: usize = 0;
/// The users'.
pub const USER: usize = 1;
/// Users' pages that will not live long: only used where the policy tells lifetimes apart.
pub const BRIEF: usize = 2;
/// How many.
pub const POOLS: usize = 3;

/// A set of 256 MiB changes its bucket with every fourth block of 2 MiB that it takes or gives. (With 64 buckets with every second:
/// some 18 instructions a call more, by callgrind.)
const BUCKETS: u8 = 32;

/// The most steps that `alloc` or `free` takes on these pools in a zone without CMA, whatever the banks hold and
/// however many there are: two levels' groups of five steps each, a hot set's links and five of a retag, [`TRIES`] looks in
/// each of three pools.
/// Tests hold both policies to it; block by block the same retag takes one step and more for each free block of a bank.
pub const MOST_STEPS: u32 = 48;

/// Sets that are looked at in buckets before the list of an order decides. With it every search is O(1).
const TRIES: usize = 8;

/// One pool.
#[derive(Clone, Debug)]
struct Pool {
    /// First set whose largest free block is of each order, + 1.
    by_largest: [u16; ORDERS],
    /// First set of each bucket, + 1.
    buckets: [u16; BUCKETS as usize],
    /// Which buckets hold sets: bit `b + 1` of bucket `b`, as sets count them.
    filled: u64,
    /// Which of these lists hold any.
    orders: Orders,
    /// Usable sets that belong to it.
    sets: u16,
    /// The hot one, + 1.
    hot: u16,
}

impl Pool {
    const EMPTY: Pool = Pool {
        by_largest: [0; ORDERS],
        buckets: [0; BUCKETS as usize],
        filled: 0,
        orders: Orders::NONE,
        sets: 0,
        hot: 0,
    };
}

/// Which set of a pool serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// The one whose largest block is the smallest that will do, the last of several to become so.
    Recent,
    /// The one with the fewest free frames, of the first [`TRIES`] that have the order.
    Fullest,
    /// The one with the most.
    Emptiest,
}

/// The pools of a zone.
#[derive(Clone, Debug)]
pub struct Pools {
    pools: [Pool; POOLS],
    /// log2 of the frames that a bucket stands for, and one less than they are.
    bucket_log2: u32,
    bucket_mask: u32,
}

impl Pools {
    /// Empty pools for that zone.
    pub fn new(table: &Table<'_>) -> Pools {
        let zone = table.zone();
        let bucket_log2 = (zone.bank_frames * zone.interleave.width()).ilog2() - BUCKETS.ilog2();
        Pools { pools: [Pool::EMPTY; POOLS], bucket_log2, bucket_mask: (1 << bucket_log2) - 1 }
    }

    /// Links a set anew after its count has changed, and maybe its lists. Most calls leave a set in its bucket and
    /// change no list: then there is nothing to ask.
    #[inline(always)]
    pub fn settle<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        Changed { set, relisted, free, from, pool }: Changed,
        probe: &mut Q,
    ) {
        let stays = free.wrapping_sub(from) <= self.bucket_mask;
        let pool = usize::from(pool);
        if !stays || relisted && self.pools.at(pool).hot != set.0 + 1 {
            self.settle_slow(table, set, probe);
        }
        if pool == KERNEL {
            self.give_back(table, set, probe);
        }
    }

    #[inline(never)]
    fn settle_slow<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, probe: &mut Q) {
        let bank = table.sets.at_mut(set.index());
        if !bank.usable() {
            return;
        }
        let bucket = self.bucket(bank.free);
        bank.from = self.from(bank.free);
        let number = usize::from(bank.pool);
        let pool = self.pools.at(number);
        if pool.hot == set.0 + 1 {
            bank.bucket = bucket;
            let fullest = pool.filled.trailing_zeros();
            if fullest < bucket.into() {
                self.cool(table, number, probe);
            }
            return;
        }
        self.relink(table, set, bucket, probe);
    }

    /// Links a set that is not hot, and belongs into that bucket.
    #[inline(never)]
    fn relink<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, bucket: u8, probe: &mut Q) {
        let bank = table.sets.at(set.index());
        let (pool, was, linked) = (usize::from(bank.pool), bank.bucket, bank.linked);
        if bucket != was {
            probe.step(Step::Index);
            self.move_bucket(table.sets, pool, set, bucket);
        }
        if Self::largest(table, set) != linked {
            self.relink_order(table, set, probe);
        }
    }

    /// Links it by its largest free block.
    #[inline(never)]
    fn relink_order<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, probe: &mut Q) {
        probe.step(Step::Index);
        let (pool, linked) = (table.sets.at(set.index()).pool.into(), Self::largest(table, set));
        self.unlink(table.sets, pool, set);
        self.link(table.sets, pool, set, linked);
    }

    /// The order of a set's largest free block, + 1; 0 when it has none.
    #[inline]
    fn largest(table: &Table<'_>, set: SetId) -> u8 {
        table.areas.at(set.index()).orders.largest_and_one()
    }

    /// The pool's hot set is one like the others from here on.
    #[inline(never)]
    fn cool<Q: Probe>(&mut self, table: &mut Table<'_>, pool: usize, probe: &mut Q) {
        let hot = core::mem::take(&mut self.pools[pool].hot);
        if let Some(set) = hot.checked_sub(1) {
            let bank = &mut table.sets[usize::from(set)];
            bank.bucket = 0;
            let bucket = self.bucket(bank.free);
            self.relink(table, SetId(set), bucket, probe);
        }
    }

    /// The set serves until it does not, and is in no bucket from here on.
    fn heat<Q: Probe>(&mut self, table: &mut Table<'_>, pool: usize, set: SetId, probe: &mut Q) {
        let bucket = table.sets[set.index()].bucket;
        probe.step(Step::Index);
        self.move_bucket(table.sets, pool, set, 0);
        table.sets[set.index()].bucket = bucket;
        self.pools[pool].hot = set.0 + 1;
    }

    /// The bucket of that many free frames, + 1; 0 when there are none.
    #[inline]
    fn bucket(&self, free: u32) -> u8 {
        ((free + self.bucket_mask) >> self.bucket_log2) as u8
    }

    /// The least number of free frames in the bucket of that many. (Of 0, such that only 0 is less than a bucket's width above.)
    #[inline]
    fn from(&self, free: u32) -> u32 {
        free.wrapping_sub((free + self.bucket_mask) & self.bucket_mask)
    }

    /// Puts a set that is in no list of orders at the head of one.
    fn link(&mut self, sets: &mut [SetRecord], pool: usize, set: SetId, linked: u8) {
        let bank = &mut sets[set.index()];
        bank.linked = linked;
        let Some(order) = linked.checked_sub(1).map(Order::of) else { return };
        let head = &mut self.pools[pool].by_largest[order.index()];
        let old = core::mem::replace(head, set.0 + 1);
        self.pools[pool].orders.insert(order);
        bank.by_largest = Beside { next: old, prev: 0 };
        if old != 0 {
            sets[usize::from(old) - 1].by_largest.prev = set.0 + 1;
        }
    }

    /// Takes it out of its list of orders, if it is in any.
    fn unlink(&mut self, sets: &mut [SetRecord], pool: usize, set: SetId) {
        let bank = &mut sets[set.index()];
        let Beside { next, prev } = bank.by_largest;
        let linked = core::mem::take(&mut bank.linked);
        let Some(order) = linked.checked_sub(1).map(Order::of) else { return };
        let pool = &mut self.pools[pool];
        match prev {
            0 => pool.by_largest[order.index()] = next,
            prev => sets[usize::from(prev) - 1].by_largest.next = next,
        }
        if next != 0 {
            sets[usize::from(next) - 1].by_largest.prev = prev;
        }
        if pool.by_largest[order.index()] == 0 {
            pool.orders.remove(order);
        }
    }

    /// Takes a set out of its bucket, if it is in one, and puts it into another one unless that is 0.
    #[inline(always)]
    fn move_bucket(&mut self, sets: &mut [SetRecord], pool: usize, set: SetId, bucket: u8) {
        let pool = self.pools.at_mut(pool);
        let bank = sets.at_mut(set.index());
        let (old, Beside { next, prev }) = (bank.bucket, bank.beside);
        bank.bucket = bucket;
        let mut first = 0;
        if bucket != 0 {
            let head = pool.buckets.at_mut(usize::from(bucket) - 1);
            first = core::mem::replace(head, set.0 + 1);
            pool.filled |= 1 << bucket;
            bank.beside = Beside { next: first, prev: 0 };
        }
        if old != 0 {
            if prev == 0 {
                *pool.buckets.at_mut(usize::from(old) - 1) = next;
                if next == 0 {
                    pool.filled &= !(1 << old);
                }
            } else {
                sets.at_mut(usize::from(prev) - 1).beside.next = next;
            }
            if next != 0 {
                sets.at_mut(usize::from(next) - 1).beside.prev = prev;
            }
        }
        if first != 0 {
            sets.at_mut(usize::from(first) - 1).beside.prev = set.0 + 1;
        }
    }

    /// Links a usable set into a pool. O(1).
    pub fn join<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        set: SetId,
        pool: usize,
        probe: &mut Q,
    ) {
        table.sets[set.index()].pool = pool as u8;
        self.pools[pool].sets += 1;
        self.settle_slow(table, set, probe);
    }

    /// Unlinks it from its pool. O(1).
    pub fn leave<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, probe: &mut Q) {
        let bank = &table.sets[set.index()];
        let pool = usize::from(bank.pool);
        probe.step(Step::Index);
        self.unlink(table.sets, pool, set);
        probe.step(Step::Index);
        if self.pools[pool].hot == set.0 + 1 {
            self.pools[pool].hot = 0;
            table.sets[set.index()].bucket = 0;
        }
        self.move_bucket(table.sets, pool, set, 0);
        self.pools[pool].sets -= 1;
    }

    /// Moves a usable set to another pool. O(1), whatever it holds: Panwar's worst allocations are
    /// those that do this block by block.
    pub fn retag<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        set: SetId,
        pool: usize,
        probe: &mut Q,
    ) {
        self.leave(table, set, probe);
        self.join(table, set, pool, probe);
    }

    /// Whether any other set of the pool has free frames.
    pub fn others(&self, table: &Table<'_>, set: SetId, pool: usize) -> bool {
        let pool = &self.pools[pool];
        let hot = pool.hot.checked_sub(1).map(SetId).filter(|&hot| hot != set);
        if hot.is_some_and(|hot| table.sets[hot.index()].free > 0) {
            return true;
        }
        let mut filled = pool.filled;
        while filled != 0 {
            let bucket = filled.trailing_zeros() as usize;
            filled &= filled - 1;
            if pool.buckets[bucket - 1] != set.0 + 1 {
                return true;
            }
        }
        false
    }

    /// The pool's hot set, if it has a block of at least `order`.
    #[inline(always)]
    pub fn hot<Q: Probe>(
        &self,
        table: &Table<'_>,
        pool: usize,
        order: Order,
        probe: &mut Q,
    ) -> Option<SetId> {
        probe.step(Step::Index);
        let hot = self.pools[pool].hot.checked_sub(1).map(SetId)?;
        serves(table, hot, order).then_some(hot)
    }

    /// A set of the pool that has a block of at least `order`: the hot one, unless the emptiest is wanted. O(1): at most
    /// [`TRIES`] sets are looked at before any set with the order is taken.
    #[inline]
    pub fn find<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        pool: usize,
        order: Order,
        choice: Choice,
        probe: &mut Q,
    ) -> Option<SetId> {
        if choice != Choice::Emptiest
            && let Some(hot) = self.hot(table, pool, order, probe)
        {
            return Some(hot);
        }
        self.find_slow(table, pool, order, choice, probe)
    }

    #[inline(never)]
    fn find_slow<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        pool: usize,
        order: Order,
        choice: Choice,
        probe: &mut Q,
    ) -> Option<SetId> {
        self.cool(table, pool, probe);
        let smallest = self.pools[pool].orders.smallest_from(order)?;
        let by_fill = match choice {
            Choice::Recent => None,
            Choice::Fullest => self.by_fill(table, pool, order, false, probe),
            Choice::Emptiest => self.by_fill(table, pool, order, true, probe),
        };
        let found = by_fill
            .or_else(|| self.pools[pool].by_largest[smallest.index()].checked_sub(1).map(SetId));
        if let Some(set) = found
            && choice != Choice::Emptiest
        {
            self.heat(table, pool, set, probe);
        }
        found
    }

    #[inline]
    fn by_fill<Q: Probe>(
        &self,
        table: &Table<'_>,
        pool: usize,
        order: Order,
        emptiest: bool,
        probe: &mut Q,
    ) -> Option<SetId> {
        let pool = &self.pools[pool];
        let mut filled = pool.filled;
        let mut tries = TRIES;
        while filled != 0 {
            let bucket = if emptiest { filled.ilog2() } else { filled.trailing_zeros() };
            filled &= !(1 << bucket);
            let mut at = pool.buckets[bucket as usize - 1];
            while let Some(set) = at.checked_sub(1) {
                probe.step(Step::Inspect);
                if table.areas[usize::from(set)].orders.has_from(order) {
                    return Some(SetId(set));
                }
                tries -= 1;
                if tries == 0 {
                    return None;
                }
                at = table.sets[usize::from(set)].beside.next;
            }
        }
        None
    }

    /// The set with most free frames (to within a bucket) of a user pool that may serve the kernel: it has
    /// the order and no CMA.
    pub fn emptiest_for_kernel<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        order: Order,
        probe: &mut Q,
    ) -> Option<SetId> {
        let found =
            [USER, BRIEF].map(|pool| self.find(table, pool, order, Choice::Emptiest, probe));
        let fits = |set: SetId| {
            let bank = &table.sets[set.index()];
            table.areas[set.index()].orders.has_from(order) && !bank.has(SetRecord::CMA)
        };
        let found = found.into_iter().flatten().filter(|&set| fits(set));
        let most = found.max_by_key(|set| table.sets[set.index()].free);
        // Only where sets with CMA come first: then any other will do. O(sets).
        most.or_else(|| {
            let sets = (0..table.sets.len() as u16).map(SetId);
            let mut users = sets.filter(|set| {
                probe.step(Step::Inspect);
                let bank = &table.sets[set.index()];
                bank.usable() && usize::from(bank.pool) != KERNEL
            });
            users.find(|&set| fits(set))
        })
    }

    /// Panwar's order for the kernel: its own pool; a bank that is off; the user bank with most free frames,
    /// which becomes the kernel's.
    pub fn for_kernel<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        choice: Choice,
        probe: &mut Q,
    ) -> Option<SetId> {
        if let Some(picked) = self.find(table, KERNEL, wanted.order, choice, probe) {
            return Some(picked);
        }
        let set = match wake(table, Class::Kernel) {
            Some(set) => {
                self.join(table, set, KERNEL, probe);
                set
            }
            None => {
                let set = self.emptiest_for_kernel(table, wanted.order, probe)?;
                self.retag(table, set, KERNEL, probe);
                set
            }
        };
        serves(table, set, wanted.order).then_some(set)
    }

    /// Panwar's order for users, after their own pools: a bank that is off; the kernel's pool, its smallest
    /// block.
    pub fn for_user_elsewhere<Q: Probe>(
        &mut self,
        table: &mut Table<'_>,
        wanted: Request,
        pool: usize,
        probe: &mut Q,
    ) -> Option<SetId> {
        while let Some(set) = wake(table, Class::User) {
            self.join(table, set, pool, probe);
            if serves(table, set, wanted.order) {
                return Some(set);
            }
        }
        self.find(table, KERNEL, wanted.order, Choice::Recent, probe)
    }

    /// A kernel bank without a kernel page is the users' again, unless it is the pool's last.
    #[inline(never)]
    fn give_back<Q: Probe>(&mut self, table: &mut Table<'_>, set: SetId, probe: &mut Q) {
        let bank = &table.sets[set.index()];
        if bank.unmovable != 0 {
            return;
        }
        if bank.usable() && !bank.has(SetRecord::NOMIG) && self.others(table, set, KERNEL) {
            self.retag(table, set, USER, probe);
        }
    }

    /// Free frames that some set of a pool has at least, to within a bucket. O(1).
    #[inline]
    pub fn most_free(&self, table: &Table<'_>, pool: usize) -> u32 {
        let pool = &self.pools[pool];
        let hot = pool.hot.checked_sub(1).map_or(0, |hot| table.sets[usize::from(hot)].bucket);
        let listed = pool.filled.checked_ilog2().unwrap_or(0);
        listed.max(hot.into()).saturating_sub(1) << self.bucket_log2
    }

    /// Free frames in user pools, and in the kernel's but for `reserve` in its emptiest set.
    pub fn room(&self, table: &Table<'_>, leaving: Option<SetId>, reserve: Option<u32>) -> u32 {
        let users = free_of(table, leaving, |bank| usize::from(bank.pool) != KERNEL);
        let kernel = free_of(table, leaving, |bank| usize::from(bank.pool) == KERNEL);
        match reserve {
            Some(reserve) if self.most_free(table, KERNEL) > reserve => users + (kernel - reserve),
            _ => users,
        }
    }
}

/// Whether a set has a block of at least that order.
#[inline(always)]
fn serves(table: &Table<'_>, set: SetId, order: Order) -> bool {
    table.areas.at(set.index()).orders.has_from(order)
}
