//! A path: which kinds of place a request tries, in which order.
//!
//! The chapter's test cases use three: `local`, `local>shared>search` and `search`. What it calls
//! "ideal" as a step of a path is the whole [`RemoteSearch`](super::RemoteSearch), which may well
//! end at a node that is not ideal; so it is called `search` here.

use super::{NodeId, NodeSet};
use core::fmt;
use core::str::FromStr;

/// The most stops of a path.
pub const MAX_STOPS: usize = 3;

/// One stop of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The memory of the asking processor's node.
    Local,
    /// The memory that all nodes share.
    Shared,
    /// The node or nodes that the remote search finds.
    Search,
}

impl Stop {
    const ALL: [Stop; MAX_STOPS] = [Stop::Local, Stop::Shared, Stop::Search];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Stop::Local => "local",
            Stop::Shared => "shared",
            Stop::Search => "search",
        }
    }
}

/// The memories of a machine, as a request asks them on its way along a path.
pub trait Memories {
    /// What a memory answers that serves the request.
    type Found;

    /// Asks the memory of a node.
    fn node(&mut self, node: NodeId) -> Option<Self::Found>;

    /// Asks the memory that all nodes share; where there are several, the nearest first.
    fn shared(&mut self) -> Option<Self::Found>;

    /// Asks those nodes that the remote search finds; those of `tried` were asked already.
    fn search(&mut self, tried: NodeSet) -> Option<Self::Found>;
}

/// One to three different stops, in order. Written `local>shared>search`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Those from `len` on are `Local`, so that equal paths are equal values.
    stops: [Stop; MAX_STOPS],
    len: u8,
}

impl Path {
    /// The own node or nothing.
    pub const LOCAL: Path = Path { stops: [Stop::Local; MAX_STOPS], len: 1 };
    /// The search at once.
    pub const SEARCH: Path = Path { stops: [Stop::Search, Stop::Local, Stop::Local], len: 1 };
    /// The own node, then shared memory, then the search.
    pub const LOCAL_SHARED_SEARCH: Path = Path { stops: Stop::ALL, len: 3 };

    /// These stops; `None` when there is none, or one comes twice.
    pub fn new(stops: &[Stop]) -> Option<Path> {
        let repeats = stops.iter().enumerate().any(|(i, stop)| stops[..i].contains(stop));
        if stops.is_empty() || repeats {
            return None;
        }
        let mut path = Path { stops: [Stop::Local; MAX_STOPS], len: stops.len() as u8 };
        path.stops[..stops.len()].copy_from_slice(stops);
        Some(path)
    }

    /// The stops, in order.
    pub fn stops(&self) -> &[Stop] {
        self.stops.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// Goes along the path for a processor of node `here` until a memory serves; the number of the stop, from 0, and what that
    /// memory answered. (Sections 4.1.1 and 4.2.1.)
    pub fn walk<M: Memories>(&self, here: NodeId, memories: &mut M) -> Option<(usize, M::Found)> {
        let mut tried = NodeSet::default();
        self.stops().iter().enumerate().find_map(|(number, stop)| {
            let found = match stop {
                Stop::Local => {
                    tried = tried.with(here);
                    memories.node(here)
                }
                Stop::Shared => memories.shared(),
                Stop::Search => memories.search(tried),
            };
            found.map(|found| (number, found))
        })
    }

    /// Whether `stop` is on the path.
    pub fn visits(&self, stop: Stop) -> bool {
        self.stops().contains(&stop)
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, stop) in self.stops().iter().enumerate() {
            write!(f, "{}{}", if i > 0 { ">" } else { "" }, stop.name())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownPath;

impl fmt::Display for UnknownPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path is one to three different of local, shared and search, joined by >")
    }
}

impl core::error::Error for UnknownPath {}

impl FromStr for Path {
    type Err = UnknownPath;

    fn from_str(text: &str) -> Result<Path, UnknownPath> {
        let (mut stops, mut len) = ([Stop::Local; MAX_STOPS], 0);
        for name in text.split('>').map(str::trim) {
            let stop = Stop::ALL.into_iter().find(|stop| stop.name() == name).ok_or(UnknownPath)?;
            *stops.get_mut(len).ok_or(UnknownPath)? = stop;
            len += 1;
        }
        stops.get(..len).and_then(Path::new).ok_or(UnknownPath)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn every_path_reads_back_as_it_is_written() {
        for path in [Path::LOCAL, Path::SEARCH, Path::LOCAL_SHARED_SEARCH] {
            assert_eq!(path.to_string().parse(), Ok(path));
        }
        assert_eq!("local>shared>search".parse(), Ok(Path::LOCAL_SHARED_SEARCH));
        assert_eq!("shared > local".parse::<Path>().unwrap().stops(), [Stop::Shared, Stop::Local]);
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", "locl", "local>local", "local>", "local>shared>search>local", "ideal"] {
            assert_eq!(text.parse::<Path>(), Err(UnknownPath), "{text:?}");
        }
        assert_eq!(Path::new(&[]), None);
    }
}
