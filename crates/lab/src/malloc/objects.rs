//! The objects that the program has: where each lies, how long it was asked to be, how long its block is.

use freehold_trace::ObjectId;

/// An object alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// What the malloc gave.
    pub block: *mut u8,
    /// Bytes asked for.
    pub size: u64,
    /// Bytes that its block has for it.
    pub usable: u64,
}

/// By their ids, which are dense.
#[derive(Default)]
pub struct Objects(Vec<Option<Object>>);

impl Objects {
    /// The object, which has no entry afterwards.
    pub fn take(&mut self, id: ObjectId) -> Option<Object> {
        self.0.get_mut(id.0 as usize)?.take()
    }

    /// The object.
    pub fn get(&self, id: ObjectId) -> Option<Object> {
        *self.0.get(id.0 as usize)?
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (ObjectId, Object)> {
        let objects = self.0.iter().enumerate();
        objects.filter_map(|(id, object)| object.map(|object| (ObjectId(id as u32), object)))
    }

    /// Gives the id to an object.
    pub fn set(&mut self, id: ObjectId, object: Object) {
        let index = id.0 as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        self.0[index] = Some(object);
    }
}
