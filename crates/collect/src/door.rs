//! The thread that processes of the program talk to: it numbers them, gives ring sets and sees ends.
//!
//! It is apart from the drain so that a process that begins never waits for a drain that sleeps or
//! works. Whatever it learns goes to the drain as a [`Message`], in order.
//!
//! Invariant: a number is given to one image of one process; an `exec` ends one and begins another.

use crate::mapping::{self, Shared};
use crate::socket::{Caller, Listener};
use crate::spool::facts::FactWriter;
use crate::watch::Told;
use freehold_record::hello::{FORK, Hello, IMAGE, LAST, MAGIC, MORE, NOBODY, Welcome};
use freehold_record::ring_set::RingSet;
use freehold_trace::{Begin, Ending};
use rustc_hash::FxHashMap;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::Sender;
use std::thread;

/// What the drain is told.
pub enum Message {
    /// A process began; the fact is for the spool.
    Process(u32, FactWriter, Shared<RingSet>),
    /// A process has more rings.
    More(u32, Shared<RingSet>),
    /// What a process has in memory; the fact is for the spool.
    Look(u32, FactWriter),
    /// A process ended (or goes on without us).
    End(u32, Leaving),
    /// Nothing more will come.
    Finish,
}

/// How a process leaves the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaving {
    /// It ended; how is known or not.
    Ended(Option<Ending>),
    /// It became another program.
    Exec,
    /// It still ran when the recording ended.
    Alive,
}

/// What each process is told.
#[derive(Clone, Copy)]
pub struct Asked {
    /// See [`Welcome::clock`].
    pub clock: u32,
    /// See [`Welcome::stacks`].
    pub stacks: u32,
}

/// The door's state.
pub struct Door {
    listener: Listener,
    doorbell: OwnedFd,
    asked: Asked,
    drain: Sender<Message>,
    watch: Sender<Told>,
    root: i32,
    epoll: OwnedFd,
    /// Live processes by the kernel's number: ours, and what tells of the end.
    live: FxHashMap<i32, (u32, Option<OwnedFd>)>,
    next: u32,
}

/// Epoll data of the listener and of the descriptor that tells to finish; others are process ids.
const LISTENER: u64 = u64::MAX;
const FINISH: u64 = u64::MAX - 1;

impl Door {
    /// A door for the processes of `root`, which is about to be started.
    pub fn new(
        listener: Listener,
        doorbell: OwnedFd,
        asked: Asked,
        drain: Sender<Message>,
        watch: Sender<Told>,
    ) -> io::Result<Door> {
        // SAFETY: makes a descriptor, which is ours.
        let epoll = unsafe {
            let fd = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        let live = FxHashMap::default();
        let root = 0;
        let door = Door { listener, doorbell, asked, drain, watch, root, epoll, live, next: 0 };
        door.watch(door.listener.as_raw_fd(), LISTENER)?;
        Ok(door)
    }

    fn watch(&self, fd: RawFd, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: data };
        // SAFETY: both descriptors are open; the event is read only.
        let done =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Serves until `finish` becomes readable; `ending` then answers for the root, whose process id
    /// is `root`. Tells the watch to finish before the drain hears of the end. Returns how many processes were seen.
    pub fn serve(
        mut self,
        root: i32,
        finish: &OwnedFd,
        ending: impl FnOnce() -> Ending,
        watch: thread::JoinHandle<()>,
    ) -> u32 {
        self.root = root;
        if self.watch(finish.as_raw_fd(), FINISH).is_ok() {
            while !self.serve_once(-1) {}
        }
        // What was under way when the root ended.
        self.serve_once(0);
        let _ = self.watch.send(Told::Finish);
        // If it failed, there are looks too few.
        let _ = watch.join();
        self.close(ending());
        self.next
    }

    /// Waits for something and handles it; true once it is time to finish.
    fn serve_once(&mut self, timeout_ms: i32) -> bool {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: the kernel writes at most the events given.
        let count = unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), 64, timeout_ms)
        };
        let mut finish = false;
        for event in events.iter().take(usize::try_from(count).unwrap_or(0)) {
            match event.u64 {
                LISTENER => {
                    while let Some(caller) = self.listener.accept() {
                        self.answer(caller);
                    }
                }
                FINISH => finish = true,
                pid => self.ended(pid as i32),
            }
        }
        finish
    }

    /// One exchange. A caller that cannot be served is left to end its own recording.
    fn answer(&mut self, caller: Caller) {
        let Some(hello) = caller.hear().filter(|hello| self.listener.believes(hello)) else {
            return;
        };
        let Some(pid) = caller.pid() else { return };
        if hello.what == LAST {
            let known = self.live.get(&pid).is_some_and(|known| known.0 == hello.process);
            let told = known.then(|| self.watch.send(Told::Ends(hello.process, caller)));
            debug_assert!(told.is_none_or(|told| told.is_ok()), "the watch outlives the door");
            return;
        }
        let Ok((set, memory)) = mapping::new_ring_set() else { return };
        let message = match hello.what {
            MORE => Message::More(hello.process, set),
            FORK | IMAGE => self.begin(pid, &hello, set),
            _ => return,
        };
        let number = match &message {
            Message::Process(number, ..) | Message::More(number, _) => *number,
            _ => return,
        };
        // The drain is told first: it must know the rings before anything is in them. It is gone
        // only after the door.
        let _ = self.drain.send(message);
        let Asked { clock, stacks } = self.asked;
        let welcome = Welcome { magic: MAGIC, process: number, clock, stacks };
        // A caller that died meanwhile is seen to end by its descriptor.
        let _ = caller.welcome(welcome, [&memory, &self.doorbell]);
    }

    /// Numbers a process that has just begun, and notes all that is known of it.
    fn begin(&mut self, pid: i32, hello: &Hello, set: Shared<RingSet>) -> Message {
        let number = self.next;
        self.next += 1;
        let before = self.live.get(&pid).map(|(number, _)| *number);
        let (begins, parent) = match hello.what {
            FORK => (Begin::Fork, Some(hello.process)),
            _ => match before.or_else(|| self.parent_of(pid)) {
                Some(parent) => (Begin::Exec, Some(parent)),
                None => (Begin::Root, None),
            },
        };
        match self.live.get_mut(&pid) {
            Some(known) => {
                let _ = self.watch.send(Told::Ended(known.0));
                let _ = self.drain.send(Message::End(known.0, Leaving::Exec));
                known.0 = number;
            }
            None => {
                let tells = self.pidfd(pid);
                self.live.insert(pid, (number, tells));
            }
        }
        let _ = self.watch.send(Told::Began(number, pid));
        // A child has its parent's, whose map was read already.
        let malloc = if begins == Begin::Fork { None } else { file_at(pid, hello.malloc) };
        let malloc = malloc.unwrap_or_default();
        let fact = FactWriter::default()
            .number(begins as u64)
            .number(u64::from(parent.unwrap_or(NOBODY)))
            .number(u64::from(hello.thread))
            .number(hello.tick)
            .number(pid as u64)
            .texts(&command_of(pid))
            .text(&malloc);
        Message::Process(number, fact, set)
    }

    /// The descriptor that tells when the process ends, watched. The root's end is told by `finish`.
    fn pidfd(&self, pid: i32) -> Option<OwnedFd> {
        if pid == self.root {
            return None;
        }
        // SAFETY: makes a descriptor, which is ours.
        let tells = unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as RawFd;
            (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))?
        };
        self.watch(tells.as_raw_fd(), pid as u64).ok()?;
        Some(tells)
    }

    /// Our number of the process that started this one, if we know it.
    fn parent_of(&self, pid: i32) -> Option<u32> {
        let parent: i32 = stat_field(pid, 4)?.parse().ok()?;
        self.live.get(&parent).map(|(number, _)| *number)
    }

    fn ended(&mut self, pid: i32) {
        if let Some((number, _)) = self.live.remove(&pid) {
            let _ = self.watch.send(Told::Ended(number));
            let _ = self.drain.send(Message::End(number, Leaving::Ended(ending_of(pid))));
        }
    }

    /// The recording ends: the root has, all others are let go.
    fn close(&mut self, ending: Ending) {
        let root = self.root;
        for (pid, (number, _)) in self.live.drain() {
            let leaving = if pid == root { Leaving::Ended(Some(ending)) } else { Leaving::Alive };
            let _ = self.drain.send(Message::End(number, leaving));
        }
        let _ = self.drain.send(Message::Finish);
    }
}

/// Program and arguments.
pub fn command_of(pid: i32) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let text = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    text.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The file whose mapping holds the address.
fn file_at(pid: i32, address: u64) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    text.lines().find_map(|line| {
        // `start-end perms offset device inode name`.
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let [start, end] = [start, end].map(|hex| u64::from_str_radix(hex, 16).unwrap_or(0));
        let name = words.nth(4)?.trim();
        let name = name.strip_suffix(" (deleted)").unwrap_or(name);
        ((start..end).contains(&address) && name.starts_with('/')).then(|| name.to_owned())
    })
}

/// A field of `/proc/PID/stat`, numbered from 1 as in proc(5); only those after the name.
fn stat_field(pid: i32, field: usize) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = text.rsplit_once(')')?.1;
    after_name.split_ascii_whitespace().nth(field - 3).map(str::to_owned)
}

/// How a process ended that is not our child: known while nobody has waited for it.
fn ending_of(pid: i32) -> Option<Ending> {
    if stat_field(pid, 3)? != "Z" {
        return None;
    }
    let status: i32 = stat_field(pid, 52)?.parse().ok()?;
    Some(if libc::WIFSIGNALED(status) {
        Ending::Signal(libc::WTERMSIG(status))
    } else {
        Ending::Code(libc::WEXITSTATUS(status))
    })
}
