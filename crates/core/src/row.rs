//! Rows of things whose indices an invariant keeps in range.
//!
//! An index outside is a broken invariant, told in one place for all of them ([`broken`]): each place that may tell by itself
//! costs some twenty bytes of code, for a message that nobody could use.

/// A row that is looked into by indices which are known to be in range.
pub trait Row {
    /// What it is a row of.
    type Item;

    /// The item at `index`; ends in [`broken`] if there is none.
    fn at(&self, index: usize) -> &Self::Item;

    /// The same, to be changed.
    fn at_mut(&mut self, index: usize) -> &mut Self::Item;
}

impl<T> Row for [T] {
    type Item = T;

    #[inline(always)]
    fn at(&self, index: usize) -> &T {
        self.get(index).unwrap_or_else(|| broken())
    }

    #[inline(always)]
    fn at_mut(&mut self, index: usize) -> &mut T {
        self.get_mut(index).unwrap_or_else(|| broken())
    }
}

/// An invariant is broken.
#[cold]
#[inline(never)]
pub fn broken() -> ! {
    panic!("an index outside of its row")
}

#[cfg(test)]
mod tests {
    use super::Row;

    #[test]
    fn items_are_found_and_changed() {
        let mut row = [1, 2, 3];
        *row.at_mut(2) = 5;
        assert_eq!((*row.at(0), *row.at(2)), (1, 5));
    }

    #[test]
    #[should_panic = "an index outside of its row"]
    fn an_index_outside_ends_it() {
        [1, 2, 3].at(3);
    }
}
