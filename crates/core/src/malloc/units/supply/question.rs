//! Questions to the machine, and its answers. Reading its files takes as long as touching some dozen pages, and no thread
//! should wait for that: the holder of the lock notes a question, releases the lock, asks, and takes the lock again.

use crate::machine::{Nodes, Room, Survey};
use crate::place::NodeId;

/// A question. All-zero is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Question {
    /// Nothing.
    #[default]
    None,
    /// What a node has.
    Room(NodeId),
    /// What all nodes have, as seen from one.
    Survey(NodeId),
}

impl Question {
    /// Asks, holding no lock.
    #[cold]
    pub fn ask(self, nodes: &dyn Nodes) -> Answer {
        match self {
            Question::None => Answer::None,
            Question::Room(node) => Answer::Room(node, nodes.room(node)),
            Question::Survey(from) => Answer::Survey(from, nodes.survey(from)),
        }
    }
}

/// The answer to a question of the same name, about that node. All-zero is none.
#[derive(Debug, Default)]
#[repr(u8)]
#[expect(
    clippy::large_enum_variant,
    reason = "nothing can be allocated, and it lives for one question"
)]
pub enum Answer {
    /// None yet.
    #[default]
    None,
    /// What the node has; `None`: nobody knows.
    Room(NodeId, Option<Room>),
    /// What all nodes have.
    Survey(NodeId, Survey),
}

impl Answer {
    /// What a node has, if that was answered.
    pub fn room(&self, node: NodeId) -> Option<Option<Room>> {
        match self {
            Answer::Room(of, room) if *of == node => Some(*room),
            Answer::Survey(from, survey) if *from == node => {
                Some(Some(survey.rooms.get(node.index()).copied().unwrap_or_default()))
            }
            _ => None,
        }
    }

    /// What all nodes have as seen from one, if that was answered.
    pub fn survey(&self, from: NodeId) -> Option<&Survey> {
        match self {
            Answer::Survey(of, survey) if *of == from => Some(survey),
            _ => None,
        }
    }

    /// So many bytes of a node were given since.
    pub fn spend(&mut self, node: NodeId, bytes: u64) {
        let room = match self {
            Answer::Room(of, Some(room)) if *of == node => Some(room),
            Answer::Survey(_, survey) => survey.rooms.get_mut(node.index()),
            _ => None,
        };
        if let Some(room) = room {
            room.free = room.free.saturating_sub(bytes);
        }
    }
}
