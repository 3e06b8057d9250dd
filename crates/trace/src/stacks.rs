//! Call stacks: who called the functions that allocate, by module and offset, and by name.
//!
//! ```text
//!   event ─ number ─▶ node ─ parent ─▶ node ─ parent ─▶ … ─▶ 0
//!                      │ frame          │ frame
//!                      ▼                ▼
//!                    module + offset, and the calls that stand there (inlined ones first)
//! ```
//!
//! Stacks share their outer frames, so they are kept as a trie: a node is a frame and the node of its caller. A
//! stack is the number of its innermost node. One trie serves all processes: a frame names a module of the trace,
//! never an address.
//!
//! Invariants: the parent of a node has a smaller number; a frame names a module that is there; [`FrameId::CUT`]
//! stands where a stack could not be followed any further, so no stack is silently short.
//!
//! Neighbours: the column of stacks (`codec`) gives events their numbers; `stacks::blocks` stores the tables.

mod blocks;

pub(crate) use blocks::{read, store};

use serde::{Deserialize, Serialize};

/// A call stack, by the number of its innermost node; 0 is none.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct StackId(pub u32);

impl StackId {
    /// The event has no stack, or the node has no caller.
    pub const NONE: StackId = StackId(0);
}

/// A frame, numbered from 1.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct FrameId(pub u32);

impl FrameId {
    /// The callers are unknown from here on: the stack could not be followed.
    pub const CUT: FrameId = FrameId(0);
}

/// A program or library whose code stands in stacks.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Module {
    /// Its file, as the loader named it.
    pub path: String,
    /// The build id in hexadecimal digits; empty where it has none.
    #[serde(default)]
    pub build_id: String,
}

/// A place in the code from which something was called.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// The module, by its place in [`Stacks::modules`]; none for code that belongs to no file (made at run time).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<u32>,
    /// The return address, as an offset in the module's own address space (as its symbol table counts); the address
    /// itself where there is no module.
    pub offset: u64,
    /// The offset is that of the instruction itself, because a signal came there; else the call lies before it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
    /// What stands there by name: functions inlined into one another, the innermost first. Empty where nothing is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<Call>,
}

/// A function of a frame, by name.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug, Serialize, Deserialize)]
pub struct Call {
    /// Its name, demangled.
    pub function: String,
    /// The source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// A node of the trie.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Node {
    pub(crate) parent: StackId,
    pub(crate) frame: FrameId,
}

/// All call stacks of a trace.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Stacks {
    /// Number less one.
    nodes: Vec<Node>,
    frames: Vec<Frame>,
    modules: Vec<Module>,
}

impl Stacks {
    /// Adds a module; its place is what frames name it by.
    pub fn add_module(&mut self, module: Module) -> u32 {
        self.modules.push(module);
        self.modules.len() as u32 - 1
    }

    /// Adds a frame.
    pub fn add_frame(&mut self, frame: Frame) -> FrameId {
        debug_assert!(frame.module.is_none_or(|module| (module as usize) < self.modules.len()));
        self.frames.push(frame);
        FrameId(self.frames.len() as u32)
    }

    /// Adds the stack whose innermost frame is `frame`, called from `parent`. Does not look whether it is there already.
    pub fn add(&mut self, parent: StackId, frame: FrameId) -> StackId {
        debug_assert!(parent.0 as usize <= self.nodes.len());
        self.nodes.push(Node { parent, frame });
        StackId(self.nodes.len() as u32)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many nodes there are: stacks are numbered from 1 to this.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The modules, by their places.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// All frames, in the order of their numbers.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The frames, to be given names.
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.frames
    }

    /// A frame; none for [`FrameId::CUT`].
    pub fn frame(&self, id: FrameId) -> Option<&Frame> {
        self.frames.get((id.0 as usize).checked_sub(1)?)
    }

    /// The caller of a stack's innermost frame, and that frame. None for [`StackId::NONE`] and unknown numbers.
    pub fn node(&self, stack: StackId) -> Option<(StackId, FrameId)> {
        let node = self.nodes.get((stack.0 as usize).checked_sub(1)?)?;
        Some((node.parent, node.frame))
    }

    /// The frames of a stack, the innermost first; [`FrameId::CUT`] is the last where its callers are unknown.
    pub fn walk(&self, mut stack: StackId) -> impl Iterator<Item = FrameId> + '_ {
        std::iter::from_fn(move || {
            let (parent, frame) = self.node(stack)?;
            stack = parent;
            Some(frame)
        })
    }
}
