//! Where the memory of some threads comes from.

use super::NodeId;
use core::fmt;

/// A node, or [`Home::ANYWHERE`]: the only one where there is one memory, and that of threads whose program has a
/// memory policy of its own. All-zero is anywhere. Printed `N2` or `anywhere`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct Home(u8);

impl Home {
    /// No node in particular: the machine chooses.
    pub const ANYWHERE: Home = Home(0);

    /// That node.
    pub const fn of(node: NodeId) -> Home {
        Home(node.index() as u8 + 1)
    }

    /// The node; `None` for anywhere.
    pub const fn node(self) -> Option<NodeId> {
        match self.0.checked_sub(1) {
            Some(number) => NodeId::new(number as usize),
            None => None,
        }
    }
}

impl fmt::Debug for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node() {
            Some(node) => fmt::Debug::fmt(&node, f),
            None => f.write_str("anywhere"),
        }
    }
}
