//! Whether a zone's pools agree with its sets.

use super::super::memory::{Beside, SetRecord};
use super::super::order::Order;
use super::super::pooled::Table;
use super::super::request::SetId;
use super::{BUCKETS, POOLS, Pools};
use freehold_blocks::check::Broken;

impl Pools {
    /// Compares links with areas and counts. O(sets).
    pub fn check(&self, table: &Table<'_>) -> Result<(), Broken> {
        let mut sets = [0_u64; POOLS];
        for (index, bank) in table.sets.iter().enumerate() {
            let at = index as u64;
            let (linked, bucket) = match bank.usable() {
                true => (Self::largest(table, SetId(index as u16)), self.bucket(bank.free)),
                false => (0, 0),
            };
            sets[usize::from(bank.pool)] += u64::from(bank.usable());
            let what = "a usable set is linked by its largest free block";
            if self.pools[usize::from(bank.pool)].hot != index as u16 + 1 {
                Broken::unless_equal(what, at, linked.into(), bank.linked.into())?;
            }
            let what = "a usable set is in the bucket of its free frames";
            Broken::unless_equal(what, at, bucket.into(), bank.bucket.into())?;
            let (what, from) = ("a usable set knows its bucket's bounds", self.from(bank.free));
            Broken::unless(!bank.usable() || from == bank.from, what, at)?;
        }
        for (number, pool) in self.pools.iter().enumerate() {
            let at = number as u64;
            Broken::unless_equal("a pool counts its sets", at, sets[number], pool.sets.into())?;
            self.check_lists(table, number)?;
        }
        Ok(())
    }

    fn check_lists(&self, table: &Table<'_>, number: usize) -> Result<(), Broken> {
        let pool = &self.pools[number];
        for order in Order::all() {
            let of = |bank: &SetRecord| {
                usize::from(bank.pool) == number && bank.linked == order.log2() + 1
            };
            let expected = table.sets.iter().filter(|bank| of(bank)).count();
            let found =
                length(pool.by_largest[order.index()], expected, |set| table.sets[set].by_largest);
            let what = "an order's list holds the sets that are linked by it";
            let at = u64::from(order.log2());
            Broken::unless_equal(what, at, expected as u64, found as u64)?;
            let mask = pool.orders.has(order);
            Broken::unless_equal(
                "a pool's mask says which",
                at,
                u64::from(found > 0),
                mask.into(),
            )?;
        }
        for bucket in 0..usize::from(BUCKETS) {
            let of = |&(index, bank): &(usize, &SetRecord)| {
                let in_pool =
                    usize::from(bank.pool) == number && usize::from(pool.hot) != index + 1;
                in_pool && usize::from(bank.bucket) == bucket + 1
            };
            let expected = table.sets.iter().enumerate().filter(of).count();
            let found = length(pool.buckets[bucket], expected, |set| table.sets[set].beside);
            let what = "a bucket holds the sets that are in it";
            Broken::unless_equal(what, bucket as u64, expected as u64, found as u64)?;
            let filled = pool.filled >> (bucket + 1) & 1;
            Broken::unless_equal(
                "a pool's mask of buckets says which",
                bucket as u64,
                u64::from(found > 0),
                filled,
            )?;
        }
        Ok(())
    }
}

/// How many sets a list has; stops one past `most`.
fn length(first: u16, most: usize, beside: impl Fn(usize) -> Beside) -> usize {
    let (mut at, mut count) = (first, 0);
    while let Some(set) = at.checked_sub(1) {
        count += 1;
        if count > most {
            break;
        }
        at = beside(usize::from(set)).next;
    }
    count
}
