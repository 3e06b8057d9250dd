//! What fills an empty stack, and where a full one goes.
//!
//! ```text
//! empty    1 the spare stack of a metered cache   2 a stack of the depot, else arrivals   3 bits of listed slabs   4 bits of slabs that threads share or shared
//!          5 an idle cache's slab   6 a new slab, in return for which other classes' blocks go back, from depots or else from
//!          stacks at rest
//! full     goes to the depot as it is; blocks of 16 bytes behind a block of 32 for the header               O(1)
//!          or, when the reserve is full, goes back to bits; or where its blocks lie close and enough is set aside: there they
//!          get their order back
//! ```
//!
//! The first two are linked already and cost the same however long they are (but arrivals are cut to a stack's length). Bits become a stack a few
//! blocks at a time, so that the heap touches few pages before the program does. Blocks go back to bits in steps of a few
//! words, so the longest call is short; the rest of a stack stays at the bottom, under the blocks freed next.

use super::block::{Block, Chain, List};
use super::cache::Cache;
use super::heap::NodeHeap;
use super::misuse::Misuse;
use super::reserve::depot::HEADER;
use super::slabs::{CLOSE, SAMPLE, give_list, give_lists, lie_close};
use super::tag::SHARED;
use super::units::region::{Region, Run};
use super::units::{UNIT, UnitLayout};
use crate::machine::Machine;
use crate::place::Home;
use crate::size_class::{SizeClass, class_of};
use core::ptr;

/// Of which class the block is that carries the header of a magazine whose own blocks are too small for that.
const HEAD: SizeClass = match class_of(HEADER) {
    Some(class) => class,
    None => unreachable!(),
};

impl<M: Machine> NodeHeap<M> {
    /// Puts blocks of `class` into the cache's empty stack, if there are any to be had.
    #[cold]
    pub(super) fn refill(&self, cache: &Cache, class: SizeClass) {
        let _changing = cache.changing();
        self.look_around(cache);
        if let Some(at) = cache.magazines.astray(class) {
            // Whatever the rest of the stack is, nobody gets it.
            self.shared.late.note(Misuse::Astray, at);
            cache.magazines.take(class, 0);
        }
        if (!cache.is_metered() || self.is_long(cache, class)) && self.take_spare(cache, class) {
            return;
        }
        cache.slabs.receive(&self.shared);
        if let Some(stack) = self.fetch(cache, class) {
            let most = self.stack_len(cache, class);
            cache.magazines.set(class, stack, most);
            if stack.len > most {
                // The rest is no part of a stack that the purger cannot take.
                let rest = cache.magazines.cut(class, most);
                self.set_aside(cache, class, rest);
            }
            return;
        }
        self.refill_from_bits(cache, class);
        if cache.magazines.first(class).is_null() {
            self.take_spare(cache, class);
        }
    }

    /// How many blocks of a class a full stack of a cache holds.
    #[inline(never)]
    fn stack_len(&self, cache: &Cache, class: SizeClass) -> usize {
        let decisions = self.shared.decisions();
        if self.registry.shares(decisions, cache, class) {
            decisions.shared_stack_len(class, self.registry.threads())
        } else {
            decisions.stack_len(class).max(decisions.stack_least)
        }
    }

    fn refill_from_bits(&self, cache: &Cache, class: SizeClass) {
        let decisions = self.shared.decisions();
        let stack_len = self.stack_len(cache, class);
        let most = decisions.batch_len(stack_len);
        let want = cache.magazines.next_batch(class, most, decisions);
        if class.size() < HEADER && want == most && cache.magazines.first(HEAD).is_null() {
            // For stacks that will be set aside: a free takes no memory.
            self.refill(cache, HEAD);
        }
        let mut chain = Chain::new(cache.key());
        cache.slabs.take(&self.shared, class, want, &mut chain);
        if chain.len == 0 && self.registry.shares(decisions, cache, class) {
            self.take_shared(cache, class, want, &mut chain);
        } else if chain.len == 0 {
            self.take_left(cache, class, want, &mut chain);
        }
        while chain.len == 0 && self.find_slab(cache, class) {
            cache.slabs.take(&self.shared, class, want, &mut chain);
        }
        let stack = List { first: chain.close(), len: chain.len };
        // Before the stack can be taken from: what is repaid may need heads.
        if cache.reserve.owes() {
            self.repay(cache, class);
        }
        cache.magazines.set(class, stack, stack_len);
    }

    /// Takes blocks of `class` from slabs that the threads of a home share, of which a cache without a thread is the owner.
    fn take_shared(&self, cache: &Cache, class: SizeClass, want: usize, chain: &mut Chain) {
        let shared = &self.shared;
        let found = self.registry.with_common(shared, cache, |common| {
            common.take(shared, class, want, chain);
            if chain.len == 0 {
                common.receive(shared);
                common.take(shared, class, want, chain);
            }
        });
        if found.is_none() || chain.len != 0 {
            return;
        }
        // Not under the lock: what idle caches hold may have to go back first.
        let run = self.take_unit(cache);
        self.registry.with_common(shared, cache, |common| {
            match run {
                Some((region, run)) => {
                    cache.note_zero(run, class);
                    common.cut(region, run, class, SHARED);
                }
                // Some of what went back may be of these slabs.
                None => common.receive(shared),
            }
            common.take(shared, class, want, chain);
        });
        if let Some((region, run)) = run {
            self.refresh_for(cache, region, run.address);
        }
    }

    /// Takes blocks of `class` that are left in slabs that threads share, for one that does not, or not now.
    fn take_left(&self, cache: &Cache, class: SizeClass, want: usize, chain: &mut Chain) {
        self.registry.try_common(self.machine(), cache, |common| {
            common.receive(&self.shared);
            common.take(&self.shared, class, want, chain);
        });
    }

    /// Lists a slab of `class` with free blocks: one that an idle cache has, else a new one.
    fn find_slab(&self, cache: &Cache, class: SizeClass) -> bool {
        self.adopt(cache, class) || self.cut_slab(cache, class)
    }

    /// Takes over a slab of `class` from a cache without a thread.
    fn adopt(&self, cache: &Cache, class: SizeClass) -> bool {
        let most = self.shared.decisions().slabs_adopt;
        self.registry.any_idle(self.machine(), cache.home.get(), most, |from| {
            from.slabs.receive(&self.shared);
            if from.slabs.first(class).is_none() {
                // Its blocks become bits, and this lists the slabs with these bits.
                self.stow(from, class);
                from.reserve.empty(&self.shared, Some(&from.slabs), class);
            }
            cache.slabs.adopt(&self.shared, &from.slabs, class)
        })
    }

    fn cut_slab(&self, cache: &Cache, class: SizeClass) -> bool {
        if cache.home.get() != Home::ANYWHERE {
            self.look_closely(cache);
        }
        let Some((region, run)) = self.take_unit(cache) else { return false };
        cache.note_zero(run, class);
        cache.slabs.cut(region, run, class, 0);
        self.refresh_for(cache, region, run.address);
        cache.reserve.owe(class, self.shared.decisions());
        cache.slabs.ask_for_huge(&self.shared, run);
        true
    }

    /// A unit for a slab, which shall lie in what is resident: some of what was set aside, or of what others freed, goes back first.
    #[inline(never)]
    fn take_unit(&self, cache: &Cache) -> Option<(&Region, Run)> {
        cache.reserve.runs.give_one(&self.shared);
        if let Some(class) = cache.reserve.arrivals.longest() {
            let words = self.shared.decisions().reserve_words;
            let arrived = cache.reserve.arrivals.take(class);
            cache.slabs.reuse(arrived.len * class.size());
            let rest = give_list(&self.shared, Some(&cache.slabs), arrived, words);
            self.set_aside(cache, class, rest);
        }
        self.take_run(cache, cache.home.get(), UnitLayout::ONE, 0)
    }

    /// Makes the spare stack the one in use, which is empty; `false` if there is none.
    fn take_spare(&self, cache: &Cache, class: SizeClass) -> bool {
        if !cache.reserve.has_spare(class) {
            return false;
        }
        let stack = cache.reserve.take_spare(class);
        let most = self.stack_len(cache, class);
        cache.magazines.set(class, stack, most);
        true
    }

    /// Whether a metered cache's spare stack, to which frees go, is worth changing places with the empty one: half as long
    /// as what a refill from bits gives at most. A shorter one grows until it is, while bits fill the other.
    fn is_long(&self, cache: &Cache, class: SizeClass) -> bool {
        let len = cache.reserve.spare_len[class.index()].get() as usize;
        len * 2 >= self.shared.decisions().batch_len(self.stack_len(cache, class))
    }

    /// Makes room in a stack that is full.
    #[cold]
    pub fn overflow(&self, cache: &Cache, class: SizeClass) {
        let _changing = cache.changing();
        let decisions = self.shared.decisions();
        let (last, key) = (cache.magazines.first(class), cache.key());
        // All but the block that did not fit any more, with which a new stack begins.
        // SAFETY: the stack is this cache's, and not empty: a block was just pushed.
        let first = unsafe { Block::next(last, key) };
        // What goes back to bits may be another thread's before this call ends: no list leads there, for a forked child
        // follows them.
        // SAFETY: as above.
        unsafe { Block::link(last, ptr::null_mut(), key) };
        let full = List { first, len: cache.magazines.len(class).saturating_sub(1) };
        let (most, stocked) = (self.stack_len(cache, class), self.is_stocked(cache, class));
        let short = cache.magazines.is_short(class, most)
            || (stocked && full.len <= decisions.batch_blocks);
        let close = !short && self.is_worth_ordering(cache, class, full);
        let rest = if short || close { full } else { self.try_set_aside(cache, class, full) };
        // The free that looked at the blocks has taken long already.
        let words = if close { CLOSE } else { decisions.reserve_words };
        let rest = give_list(&self.shared, Some(&cache.slabs), rest, words);
        // SAFETY: as above; the rest is this cache's as well.
        unsafe { Block::link(last, rest.first, key) };
        // A short stack from now on: what does not fit goes back at once, little by little.
        let goes_on = stocked || close || (short && full.len - rest.len >= words * CLOSE);
        let most = if goes_on { (most / 4).max(1) } else { most };
        let stack = List { first: last, len: rest.len + 1 };
        cache.magazines.set(class, stack, most);
    }

    /// Whether the blocks of a full stack lie close, in a heap of which the depots cannot hold all: then it goes back to bits
    /// instead of to the depot.
    fn is_worth_ordering(&self, cache: &Cache, class: SizeClass, full: List) -> bool {
        cache.reserve.holds_at_least(self.shared.decisions().reserve_near)
            && full.len >= SAMPLE
            && cache.slabs.counts().0 * UNIT > self.most_stocked(cache, class)
            && lie_close(self.shared.units.primary(cache.home.get()), class, full, cache.key())
    }

    /// Whether the cache has set so much aside that no more blocks of a class should be.
    pub(super) fn is_stocked(&self, cache: &Cache, class: SizeClass) -> bool {
        cache.reserve.is_full(self.most_stocked(cache, class))
    }

    /// Bytes that the cache may set aside, blocks of a class among them.
    fn most_stocked(&self, cache: &Cache, class: SizeClass) -> usize {
        let (slabs, _) = cache.slabs.counts();
        let (threads, units) = (self.registry.threads(), &self.shared.units);
        let most = self.shared.decisions().reserve_of(slabs, class, threads);
        most.min(units.kept_at_most() / (16 * threads.max(1)))
    }

    /// Puts a stack, if it has blocks, into the depot, or back to bits where it has no head.
    #[inline(never)]
    pub(super) fn set_aside(&self, cache: &Cache, class: SizeClass, stack: List) {
        let rest = self.try_set_aside(cache, class, stack);
        give_list(&self.shared, Some(&cache.slabs), rest, usize::MAX);
    }

    /// Puts a stack, if it has blocks, into the depot; it is the answer again where its blocks are too small for a magazine's
    /// header and there is no block of another class to be its head.
    #[inline(never)]
    pub(super) fn try_set_aside(&self, cache: &Cache, class: SizeClass, mut stack: List) -> List {
        if stack.is_empty() {
            return stack;
        }
        if class.size() < HEADER {
            let Some(head) = self.take_head(cache) else { return stack };
            // SAFETY: a free block of the cache's, which is in no stack.
            unsafe { Block::link(head, stack.first, cache.key()) };
            stack = List { first: head, len: stack.len + 1 };
        }
        cache.reserve.put(class, stack, cache.key());
        cache.slabs.account(&self.shared, stack.len * class.size());
        List::EMPTY
    }

    /// A free block that can carry a magazine's header. No new memory is taken for it.
    fn take_head(&self, cache: &Cache) -> Option<*mut Block> {
        if cache.is_metered() {
            // What is taken from its stacks counts as the program's.
            return None;
        }
        let head: *mut Block = cache.magazines.pop(HEAD).cast();
        if !head.is_null() {
            return Some(head);
        }
        let mut chain = Chain::new(cache.key());
        cache.slabs.take(&self.shared, HEAD, 1, &mut chain);
        (chain.len != 0).then(|| chain.close())
    }

    /// A stack from the depot, if there is one.
    fn fetch(&self, cache: &Cache, class: SizeClass) -> Option<List> {
        let stack = cache.reserve.take(class, cache.key())?;
        cache.slabs.reuse(stack.len * class.size());
        if class.size() >= HEADER {
            return Some(stack);
        }
        // SAFETY: the stack was linked with this key, and is ours.
        let first = unsafe { Block::next(stack.first, cache.key()) };
        self.put_back(cache, stack.first, HEAD);
        Some(List { first, len: stack.len - 1 })
    }

    /// Before memory grows for one class, what others hold goes back, each class in turn, a step
    /// at a time.
    #[cold]
    fn repay(&self, cache: &Cache, class: SizeClass) {
        let decisions = self.shared.decisions();
        let Some(other) = cache.reserve.next_stocked(class) else {
            return self.repay_at_hand(cache, class);
        };
        let whole = self.stack_len(cache, other);
        let mut stacks = cache.reserve.take_owed(other, whole, cache.key());
        let taken = List::len_of_all(&stacks);
        cache.slabs.reuse(taken * other.size());
        // No more blocks than of one full stack.
        let most = (decisions.reserve_repaid_words, whole);
        give_lists(&self.shared, Some(&cache.slabs), &mut stacks, most);
        let left = List::len_of_all(&stacks);
        stacks.into_iter().rev().for_each(|rest| self.set_aside(cache, other, rest));
        // The last stack; but not what is left of a longer one.
        let kept = if left == 0 { whole } else { 0 };
        cache.reserve.repaid(other, taken - left, kept);
    }

    /// The same of stacks that nobody used for a while: of blocks that were freed in random order, a few keep all slabs of
    /// their class.
    fn repay_at_hand(&self, cache: &Cache, class: SizeClass) {
        let magazines = &cache.magazines;
        // The last slab of a class stays in any case.
        let keeps = |other| cache.slabs.has_several(other) && !magazines.first(other).is_null();
        let rests = |other| {
            keeps(other).then(|| {
                let rests = magazines.rests(other);
                magazines.look(other);
                rests
            })
        };
        let classes = cache.slabs.opened();
        let Some(other) = cache.reserve.next_resting(class, classes, rests) else { return };
        let granted = magazines.granted(other);
        let stack = magazines.take(other, granted);
        let words = self.shared.decisions().reserve_words;
        let rest = give_list(&self.shared, Some(&cache.slabs), stack, words);
        magazines.set(other, rest, granted);
        // What is left has its turn again.
        magazines.look(other);
        cache.reserve.repaid(other, stack.len.saturating_sub(rest.len), 0);
    }

    /// Gives everything that the cache holds for itself back to bits, and frees slabs that are empty.
    #[cold]
    pub fn give_all(&self, cache: &Cache) {
        let _changing = cache.changing();
        cache.told.set(0);
        for class in SizeClass::all() {
            self.stow(cache, class);
            cache.reserve.empty(&self.shared, Some(&cache.slabs), class);
        }
        cache.reserve.runs.give_all(&self.shared);
        cache.slabs.receive(&self.shared);
        cache.slabs.retire_free(&self.shared);
    }

    /// Puts the stacks of an ended thread into depots; their bytes stay counted for the purger.
    pub(super) fn stow_all(&self, cache: &Cache) {
        SizeClass::all().for_each(|class| self.stow(cache, class));
        if cache.told.get() != 0 {
            cache.told.set(0);
            cache.slabs.given.set(0);
        }
    }

    /// Puts both stacks of a class into the depot.
    fn stow(&self, cache: &Cache, class: SizeClass) {
        if !cache.magazines.first(class).is_null() {
            let stack = cache.magazines.take(class, self.stack_len(cache, class));
            self.set_aside(cache, class, stack);
        }
        if cache.reserve.has_spare(class) {
            self.set_aside(cache, class, cache.reserve.take_spare(class));
        }
    }
}
