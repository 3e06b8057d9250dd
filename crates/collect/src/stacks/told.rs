//! What one thread says of its stacks, heard in its order: the other end of the recorder's `stacks/enabled.rs`.
//!
//! Invariant: where something is missing (a damaged block), stacks are unknown until the thread says one from its
//! beginning; none is guessed.

use super::{Mapped, Trie};
use crate::spool::codec::Hears;
use freehold_record::packed::{DATA_BYTES, Kind, MODULE_WORDS, Packed, Stack};
use freehold_trace::{FrameId, StackId};
use std::fmt::Write;

/// Most events that one message takes: more frames than a recorder keeps.
const MOST_DATA: usize = 1 << 15;

/// A thread's last stack and table.
pub struct Told {
    process: u32,
    generation: u64,
    last: StackId,
    table: Vec<StackId>,
    /// A message whose data are not all there yet.
    pending: Option<Stack>,
    data: Vec<Packed>,
}

impl Told {
    /// Of a thread of that process, which has said nothing.
    pub fn of(process: u32) -> Told {
        let (last, table, data) = (StackId::NONE, Vec::new(), Vec::new());
        Told { process, generation: 0, last, table, pending: None, data }
    }

    /// Something is missing.
    pub fn forget(&mut self) {
        *self = Told { generation: self.generation, ..Told::of(self.process) };
    }

    /// The stack of an event of that kind that comes now.
    #[inline]
    pub fn stack_of(&self, trie: &Trie, kind: Kind) -> StackId {
        match kind {
            Kind::Free | Kind::ReallocBegin if !trie.of_frees => StackId::NONE,
            Kind::ThreadStart | Kind::ThreadEnd | Kind::Access => StackId::NONE,
            _ => self.last,
        }
    }

    fn apply(&mut self, trie: &mut Trie, said: Stack) {
        match said {
            Stack::Entry(entry) => {
                self.last = self.table.get(entry as usize).copied().unwrap_or_default();
            }
            Stack::New { keep, push, entry, cut } => {
                self.last = self.new_stack(trie, keep, push, cut);
                if entry < 256 {
                    self.table.resize(self.table.len().max(entry as usize + 1), StackId::NONE);
                    self.table[entry as usize] = self.last;
                }
            }
            Stack::Unknown => self.last = StackId::NONE,
            Stack::Generation(generation) => {
                self.forget();
                self.generation = generation;
            }
            Stack::Module { build_id, path } => {
                if let Some(module) = self.module(build_id as usize, path as usize) {
                    let family = trie.family(self.process);
                    let modules = trie.modules.entry(family).or_default();
                    if !modules.contains(&module) {
                        modules.push(module);
                    }
                }
            }
        }
        self.data.clear();
    }

    fn new_stack(&self, trie: &mut Trie, keep: u32, push: u32, cut: bool) -> StackId {
        if trie.depth(self.last) < keep {
            return StackId::NONE; // of one that was not heard
        }
        let family = trie.family(self.process);
        let mut stack = trie.outer(self.last, keep);
        if cut {
            stack = trie.child(stack, FrameId::CUT);
        }
        let words = self.data.iter().flat_map(|data| [data.address(), data.1]);
        for word in words.take(push as usize) {
            let frame = trie.frame(family, self.generation, word);
            stack = trie.child(stack, frame);
        }
        stack
    }

    fn module(&self, build_id: usize, path: usize) -> Option<Mapped> {
        let [first, second, bytes @ ..] = &self.data[..] else { return None };
        const _: () = assert!(MODULE_WORDS == 3);
        let text: Vec<u8> = bytes
            .iter()
            .flat_map(|data| {
                let [low, high] = [data.address().to_le_bytes(), data.1.to_le_bytes()];
                low.into_iter().take(DATA_BYTES - 8).chain(high)
            })
            .collect();
        let (id, rest) = text.split_at_checked(build_id)?;
        let build_id = id.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        Some(Mapped {
            generation: self.generation,
            start: first.address(),
            end: first.1,
            bias: second.1,
            build_id,
            path: String::from_utf8_lossy(rest.get(..path)?).into_owned(),
        })
    }
}

impl Hears for (&mut Trie, &mut Told) {
    fn hear(&mut self, kind: Kind, said: Packed) {
        let (trie, told) = self;
        if kind == Kind::Stack {
            told.data.clear();
            told.pending = Stack::unpack(said).filter(|said| said.data() <= MOST_DATA);
        } else if told.pending.is_some() {
            told.data.push(said);
        }
        if let Some(said) = told.pending.filter(|said| said.data() == told.data.len()) {
            told.pending = None;
            told.apply(trie, said);
        }
    }
}
