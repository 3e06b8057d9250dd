//! The thread that looks at the memory of the program's processes, from outside, while they run and as they end.
//!
//! ```text
//!   every 10 to 250 ms   /proc/PID/statm: has it grown?        some microseconds
//!   then, or now and then /proc/PID/smaps: what is it?         some 100 µs, and 25 ms for each GiB in pages of 4 KiB
//!   of huge pages, some   are they used, or zeroes?             at most 10 ms (`zeroes`)
//!   of small ones, some   which lines are used?                 at most some ms (`blank`)
//! ```
//!
//! A process that is about to end says so and waits for the last look (`freehold_record::hello::LAST`).
//!
//! Invariants: of its time, no process is looked at for more than [`MOST_COST`], but for looks at one that has grown by a quarter: they take as long as it is
//! large, so all of them together take five times as long as the last; the older it is, the rarer the looks, so
//! the spool grows with the logarithm of the time; a process that is gone is not looked at, because its number stays its
//! own until its end was told.

use crate::blank;
use crate::clock::Clock;
use crate::door::{Message, command_of};
use crate::smaps;
use crate::socket::Caller;
use crate::spool::facts::FactWriter;
use crate::zeroes;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How often the size is asked for: the youngest and the oldest processes.
const GLANCE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));
/// In between, this part of a process's age.
const GLANCE_PART: u32 = 64;
/// How often the map is read though nothing has grown, and the part of a process's age.
const LOOK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
const LOOK_PART: u32 = 16;
/// Between two looks, at least so many times what the last one took: two per cent of a processor.
const MOST_COST: u32 = 50;
/// A process that has grown by this since its greatest size is looked at: a part, and pages.
const GROWN_PART: u64 = 50;
const GROWN_PAGES: u64 = 16;
/// One that has grown by this part is looked at whatever that costs.
const GROWN_MUCH: u64 = 4;

/// What the door tells.
pub enum Told {
    /// A process began, by our number and the kernel's.
    Began(u32, i32),
    /// It is another's number now, or nobody's.
    Ended(u32),
    /// It is about to end, and waits until the caller is dropped.
    Ends(u32, Caller),
    /// Nothing more will come.
    Finish,
}

/// How often processes were looked at, and for how long.
#[derive(Default)]
pub struct Cost {
    /// Maps read.
    pub looks: AtomicU64,
    /// Nanoseconds of this thread.
    pub ns: AtomicU64,
}

/// The watch's state.
pub struct Watch {
    /// From the door.
    pub told: Receiver<Told>,
    /// Takes what was seen.
    pub drain: Sender<Message>,
    /// Stamps it.
    pub clock: Clock,
    /// For others to see.
    pub cost: Arc<Cost>,
    /// Processes by our number.
    pub seen: BTreeMap<u32, Seen>,
}

/// A process.
pub struct Seen {
    pid: i32,
    began: Instant,
    /// When to ask for its size, and before when not to read its map.
    next: Instant,
    may_look: Instant,
    must_look: Instant,
    /// Greatest size at a look, pages.
    greatest: u64,
    /// Its command as it began.
    command: Vec<String>,
}

impl Watch {
    /// Watches until told to finish.
    pub fn run(mut self) {
        loop {
            let wait = self.seen.values().map(|seen| seen.next).min();
            let told = match wait {
                None => self.told.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(next) => {
                    self.told.recv_timeout(next.saturating_duration_since(Instant::now()))
                }
            };
            let begun = thread_ns();
            match told {
                Ok(Told::Began(number, pid)) => {
                    self.seen.insert(number, Seen::new(pid));
                }
                Ok(Told::Ended(number)) => drop(self.seen.remove(&number)),
                Ok(Told::Ends(number, caller)) => {
                    self.look(number, true);
                    drop(caller);
                }
                Ok(Told::Finish) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => self.glance(),
            }
            self.cost.ns.fetch_add(thread_ns() - begun, Ordering::Relaxed);
        }
    }

    /// Asks all that are due for their size.
    fn glance(&mut self) {
        let now = Instant::now();
        let due = self.seen.iter_mut().filter(|(_, seen)| seen.next <= now);
        let looks: Vec<u32> = due
            .filter_map(|(&number, seen)| seen.is_to_be_looked_at(now).then_some(number))
            .collect();
        for number in looks {
            self.look(number, false);
        }
    }

    /// Reads the map of a process and hands it on.
    fn look(&mut self, number: u32, at_end: bool) {
        let Some(seen) = self.seen.get_mut(&number) else { return };
        let begun = Instant::now();
        let tick = self.clock.now();
        let rows = fs::read_to_string(format!("/proc/{}/smaps", seen.pid));
        // One that is gone has an empty map.
        let rows = rows.ok().and_then(|text| smaps::parse(&text));
        let Some(mut rows) = rows.filter(|rows| !rows.is_empty()) else { return };
        zeroes::look(seen.pid, &mut rows);
        let pages = blank::look(seen.pid, &rows);
        let resident: u64 = rows.iter().map(|row| row.resident).sum();
        let marks = [u64::from(at_end), high_water(seen.pid)];
        let fact = marks.into_iter().fold(FactWriter::default().number(tick), FactWriter::number);
        let fact = blank::write(smaps::write(fact.text(&seen.title()), &rows), &pages);
        // The drain is gone only after us.
        let _ = self.drain.send(Message::Look(number, fact));
        self.cost.looks.fetch_add(1, Ordering::Relaxed);
        seen.looked(begun, resident / PAGE);
    }
}

/// What `statm` counts in.
const PAGE: u64 = 4096;

impl Seen {
    fn new(pid: i32) -> Seen {
        let began = Instant::now();
        let next = began + GLANCE.0;
        let command = command_of(pid);
        Seen { pid, began, next, may_look: next, must_look: next, greatest: 0, command }
    }

    /// Whether its map is worth reading; when it is asked next.
    fn is_to_be_looked_at(&mut self, now: Instant) -> bool {
        self.next = now + (self.began.elapsed() / GLANCE_PART).clamp(GLANCE.0, GLANCE.1);
        let Some(pages) = resident_pages(self.pid) else { return false };
        let grown_by = |part| pages > self.greatest + self.greatest / part + GROWN_PAGES;
        let may_look = now >= self.may_look || grown_by(GROWN_MUCH);
        may_look && (now >= self.must_look || grown_by(GROWN_PART))
    }

    fn looked(&mut self, begun: Instant, pages: u64) {
        let now = Instant::now();
        self.greatest = self.greatest.max(pages);
        self.may_look = now + (now - begun) * MOST_COST;
        self.must_look = now + (self.began.elapsed() / LOOK_PART).clamp(LOOK.0, LOOK.1);
    }

    /// What it calls itself by now, if that is not its command.
    fn title(&self) -> String {
        let command = command_of(self.pid);
        if command == self.command { String::new() } else { command.join(" ").trim().to_owned() }
    }
}

fn resident_pages(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    text.split(' ').nth(1)?.parse().ok()
}

/// Most bytes that were ever resident; 0 where unknown.
fn high_water(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mark = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = mark.and_then(|mark| mark.trim().split(' ').next()?.parse::<u64>().ok());
    kilobytes.map_or(0, |kilobytes| kilobytes.saturating_mul(1024))
}

/// The time that this thread has computed.
fn thread_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on every Linux, and `time` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
