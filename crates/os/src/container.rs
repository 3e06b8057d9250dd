//! What the container leaves of memory: the control groups of this process, its own and all above it, of version 2
//! (`memory.max`, `memory.high`) or 1 (`memory.limit_in_bytes`), and the stalls that the system counts (`memory.pressure`).
//!
//! Nothing is kept between two questions, for limits change and processes are moved. A question reads five to twenty files.

use crate::small_file::{MOST, SmallFile, each_line};
use freehold_core::machine::Room;

/// Where groups are, and what their files are called.
struct Version {
    folder: &'static [u8],
    limits: &'static [&'static [u8]],
    used: &'static [u8],
}

const FIRST: Version = Version {
    folder: b"/sys/fs/cgroup/memory",
    limits: &[b"/memory.limit_in_bytes"],
    used: b"/memory.usage_in_bytes",
};
const SECOND: Version = Version {
    folder: b"/sys/fs/cgroup",
    limits: &[b"/memory.max", b"/memory.high"],
    used: b"/memory.current",
};
/// A limit from here on is none: the first version says so by a number that is nearly all-ones.
const NO_LIMIT: u64 = 1 << 60;
/// Percent of the last ten seconds in which somebody waited for memory, from which on there is none left.
const STALLED: u64 = 10;

/// What is left by the group that leaves least; `None` when none has a limit, or nobody says.
pub fn room() -> Option<Room> {
    let mut own = Group::UNKNOWN;
    each_line(b"/proc/self/cgroup", |line| own.consider(line));
    let (version, group) = own.known()?;
    let mut room: Option<Room> = None;
    // A container sees its own group as the uppermost, whatever the path says.
    for above in prefixes(group) {
        let here = version.room(above);
        room = [room, here].into_iter().flatten().min_by_key(|room| room.free);
    }
    let stalled = is_stalled(group).then_some(Room { free: 0, capacity: u64::MAX });
    stalled.or(room)
}

/// The memory group of a process.
struct Group {
    version: Option<&'static Version>,
    path: [u8; LONGEST],
    len: usize,
}

/// Bytes of a path that are looked at; where it is longer, the groups above are asked.
const LONGEST: usize = 256;

impl Group {
    const UNKNOWN: Group = Group { version: None, path: [0; LONGEST], len: 0 };

    /// Looks at a line of the process's `cgroup` file, `number:controllers:path`. The second version has one without
    /// controllers, which counts where no line names memory.
    fn consider(&mut self, line: &[u8]) {
        let mut parts = line.splitn(3, |&byte| byte == b':');
        let (_, Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            return;
        };
        let first = controllers.split(|&byte| byte == b',').any(|one| one == b"memory");
        if first || (controllers.is_empty() && self.version.is_none()) {
            self.version = Some(if first { &FIRST } else { &SECOND });
            self.len = self.path.iter_mut().zip(path).map(|(to, from)| *to = *from).count();
        }
    }

    fn known(&self) -> Option<(&'static Version, &[u8])> {
        Some((self.version?, self.path.get(..self.len)?))
    }
}

/// A path and all above it; the last is empty.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    core::iter::successors(Some(path), |path| {
        let at = path.iter().rposition(|&byte| byte == b'/')?;
        path.get(..at)
    })
}

impl Version {
    fn number(&self, group: &[u8], name: &[u8]) -> Option<u64> {
        SmallFile::of_parts([self.folder, group, name])?.numbers().next()
    }

    /// What one group leaves of its limit.
    fn room(&self, group: &[u8]) -> Option<Room> {
        let limits = self.limits.iter().filter_map(|name| self.number(group, name));
        let capacity = limits.min().filter(|&limit| limit < NO_LIMIT)?;
        let mut free = capacity.saturating_sub(self.number(group, self.used)?);
        if free < capacity / 4 {
            // Copies of files that nobody used lately go before anything else does.
            let files = SmallFile::of_parts([self.folder, group, b"/memory.stat"]);
            free += files.and_then(|file| file.number_of(b"inactive_file")).unwrap_or(0);
        }
        Some(Room { free, capacity })
    }
}

/// Whether processes of a group of the second version wait for memory; of no group, those of the whole system.
fn is_stalled(group: &[u8]) -> bool {
    let own = SmallFile::of_parts([SECOND.folder, group, b"/memory.pressure"]);
    let file = own.or_else(|| SmallFile::at(b"/proc/pressure/memory"));
    file.and_then(|file| file.number_of(b"avg10=")).is_some_and(|percent| percent >= STALLED)
}

const _: () =
    assert!(MOST >= 1024, "`inactive_file` is in the first thousand bytes of `memory.stat`");

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn the_group_is_the_line_of_memory_or_the_one_without_controllers() {
        let group = |text: &'static str| {
            let mut found = Group::UNKNOWN;
            text.lines().for_each(|line| found.consider(line.as_bytes()));
            found.known().map(|(version, path)| (version.folder, path.to_vec()))
        };
        let (first, second) = (FIRST.folder, SECOND.folder);
        assert_eq!(group("0::/a/b\n"), Some((second, b"/a/b".to_vec())));
        assert_eq!(group("5:cpu,memory:/d:e\n0::/a\n"), Some((first, b"/d:e".to_vec())));
        assert_eq!(group("0::/a\n5:cpu,memory:/d:e\n"), Some((first, b"/d:e".to_vec())));
        assert_eq!(group("5:cpu:/d\n0::/\n"), Some((second, b"/".to_vec())));
        assert_eq!((group("5:cpu:/d\n"), group(""), group("nonsense")), (None, None, None));
    }

    #[test]
    fn all_groups_above_are_asked_up_to_the_uppermost() {
        let all = |path: &'static str| prefixes(path.as_bytes()).collect::<Vec<_>>();
        assert_eq!(all("/a/bc"), [&b"/a/bc"[..], b"/a", b""]);
        assert_eq!((all("/"), all("")), ([&b""[..]].to_vec(), [&b""[..]].to_vec()));
    }

    #[test]
    fn here_a_question_has_an_answer_or_none() {
        if let Some(room) = room() {
            assert!(room.capacity > 0);
        }
    }
}
