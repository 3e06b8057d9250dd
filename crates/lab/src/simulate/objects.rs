//! The objects alive in a policy, by their ids: where each lies and how long it was asked to be.
//!
//! An entry is eight bytes: 100,000 live objects, of which any may be named next, leave most of a
//! second-level cache to the blocks themselves.
//!
//! Invariant: an entry that is not empty names a payload of the region whose base the table was
//! made with. A length that does not fit an entry stands in a map beside the table.

use freehold_blocks::GRANULE;
use rustc_hash::FxHashMap;
use std::ptr::NonNull;

/// In an entry: the length stands in the map.
const LONG: u32 = u32::MAX;

/// The table; see the module.
pub struct Objects {
    base: NonNull<u8>,
    entries: Vec<Entry>,
    long: FxHashMap<u32, u64>,
}

/// Where an object lies and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// What the policy gave.
    pub payload: NonNull<u8>,
    /// Bytes asked for.
    pub size: u64,
}

/// Granule 0 of a region is never a payload's (a tag lies before it), so 0 is nothing.
#[derive(Clone, Copy, Default)]
struct Entry {
    granule: u32,
    size: u32,
}

impl Objects {
    /// Nothing alive. `base` is where the region of the policy begins.
    pub fn new(base: NonNull<u8>) -> Self {
        Self { base, entries: Vec::new(), long: FxHashMap::default() }
    }

    /// One more than the highest id ever set.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The object of that id.
    #[inline]
    pub fn get(&self, id: u32) -> Option<Object> {
        let entry = *self.entries.get(id as usize)?;
        (entry.granule != 0).then(|| self.object(id, entry))
    }

    /// The object of that id, which has none afterwards.
    #[inline]
    pub fn take(&mut self, id: u32) -> Option<Object> {
        let entry = std::mem::take(self.entries.get_mut(id as usize)?);
        (entry.granule != 0).then(|| self.object(id, entry))
    }

    /// Gives the id to `object`.
    #[inline]
    pub fn set(&mut self, id: u32, object: Object) {
        let offset = object.payload.addr().get() - self.base.addr().get();
        let granule = (offset as u64 / GRANULE) as u32;
        let size = u32::try_from(object.size).unwrap_or(LONG);
        if size == LONG {
            self.long.insert(id, object.size);
        }
        if id as usize >= self.entries.len() {
            self.entries.resize(id as usize + 1, Entry::default());
        }
        self.entries[id as usize] = Entry { granule, size };
    }

    #[inline]
    fn object(&self, id: u32, entry: Entry) -> Object {
        let size = if entry.size == LONG { self.long[&id] } else { entry.size.into() };
        Object { payload: self.payload(entry), size }
    }

    #[inline]
    fn payload(&self, entry: Entry) -> NonNull<u8> {
        // SAFETY: the entry's granule is that of a payload of the region at `base` (module
        // invariant), which is one allocation.
        unsafe { self.base.add(entry.granule as usize * GRANULE as usize) }
    }

    /// The payloads of those of `ids` that name an object. No branch depends on an entry, so that
    /// those that miss the caches come all at once.
    #[inline]
    pub fn payloads<const N: usize>(&self, ids: &[u32], payloads: &mut [NonNull<u8>; N]) -> usize {
        let mut count = 0;
        for id in &ids[..ids.len().min(N)] {
            let entry = self.entries.get(*id as usize).copied().unwrap_or_default();
            payloads[count] = self.payload(entry);
            count += usize::from(entry.granule != 0);
        }
        count
    }

    /// Brings the entries of `ids` nearer to the processor.
    #[inline]
    pub fn fetch(&self, ids: &[u32]) {
        #[cfg(target_arch = "x86_64")]
        for id in ids {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let entry = self.entries.as_ptr().wrapping_add(*id as usize);
            // SAFETY: a hint, which reads and writes nothing, and every x86-64 has it (SSE).
            unsafe { _mm_prefetch::<_MM_HINT_T0>(entry.cast()) }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = ids;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_found_until_taken() {
        let mut memory = [0u128; 8];
        let base = NonNull::new(memory.as_mut_ptr()).unwrap().cast::<u8>();
        let at = |granule: usize| base.map_addr(|addr| addr.saturating_add(16 * granule));
        let mut objects = Objects::new(base);
        let lengths = [0, 100, u64::from(LONG) - 1, u64::from(LONG), 1 << 40];
        for (id, size) in (0..).zip(lengths) {
            objects.set(id, Object { payload: at(id as usize + 1), size });
        }
        let mut payloads = [NonNull::dangling(); 4];
        assert_eq!(objects.payloads(&[3, 99, 0], &mut payloads), 2);
        assert_eq!(payloads[..2], [at(4), at(1)]);
        for (id, size) in (0..).zip(lengths) {
            let object = Some(Object { payload: at(id as usize + 1), size });
            assert_eq!((objects.get(id), objects.take(id)), (object, object));
            assert_eq!((objects.get(id), objects.take(id)), (None, None));
        }
        assert_eq!((objects.get(5), objects.take(u32::MAX)), (None, None));
    }
}
