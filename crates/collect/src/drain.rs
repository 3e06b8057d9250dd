//! The thread that empties all rings into the spool.
//!
//! It sleeps while there is little to do: a producer rings the doorbell when a quarter of its ring is
//! full, so an idle or slow program costs ten wake-ups a second and a quick one as many as needed.
//!
//! Invariant: rings are emptied whatever happens to the spool; a full disk turns storing into
//! counting, so that no producer ever waits for a disk that will not come back.

use crate::clock::Clock;
use crate::door::{Leaving, Message};
use crate::live::Live;
use crate::lost::Lost;
use crate::mapping::Shared;
use crate::spool::facts::FactWriter;
use crate::spool::{Kind, SpoolWriter};
use freehold_record::ring_set::{Doorbell, SLOTS};
use freehold_trace::Ending;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Longest sleep; also how often the heartbeat is seen.
const SLEEP: Duration = Duration::from_millis(100);
/// How much time may pass before what waits is stored, at first and later: a recorder that is killed within its first
/// second has most of that second, and a long recording has no blocks shorter than a second's.
const LAG: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// In between, this part of the time that the recording has taken.
const LAG_PART: u32 = 4;

/// Events of a round that make another one worth while at once.
const ENOUGH: u64 = SLOTS as u64 / 4;

/// What a round came to.
struct Round {
    events: u64,
    is_last: bool,
}

/// What the drain has done so far, for those who show it.
#[derive(Default)]
pub struct Tally {
    /// Events taken from rings.
    pub events: AtomicU64,
    /// Bytes of the spool.
    pub bytes: AtomicU64,
}

/// The drain's state.
pub struct Drain {
    /// The spool.
    pub spool: SpoolWriter,
    /// What wakes us.
    pub doorbell: Arc<Shared<Doorbell>>,
    /// From the door.
    pub messages: Receiver<Message>,
    /// For others to see.
    pub tally: Arc<Tally>,
    /// For the rate of ticks, which a killed parent must have left behind.
    pub clock: Clock,
    /// Processes by number.
    pub live: BTreeMap<u32, Live>,
}

impl Drain {
    /// Drains until the door says that all is over; gives the spool back.
    pub fn run(mut self) -> SpoolWriter {
        let begun = Instant::now();
        let mut stored = begun;
        let mut round = self.round();
        while !round.is_last {
            if stored.elapsed() > (begun.elapsed() / LAG_PART).clamp(LAG.0, LAG.1) {
                self.store_all();
                stored = Instant::now();
            }
            round = if round.events < ENOUGH { self.sleep() } else { self.round() };
        }
        self.store_all();
        self.spool
    }

    /// True for the last message.
    fn hear(&mut self, message: Message) -> bool {
        match message {
            Message::Process(number, fact, set) => {
                self.spool.fact(Kind::Process, number, &fact);
                self.live.insert(number, Live::new(number, set));
            }
            Message::More(number, set) => {
                if let Some(process) = self.live.get_mut(&number) {
                    process.add(set);
                }
            }
            Message::Look(number, fact) => self.spool.fact(Kind::Look, number, &fact),
            Message::End(number, leaving) => self.end(number, leaving),
            Message::Finish => return true,
        }
        false
    }

    fn end(&mut self, number: u32, leaving: Leaving) {
        let Some(mut process) = self.live.remove(&number) else { return };
        process.stop();
        process.look();
        let events = process.drain(&mut self.spool);
        self.tally.events.fetch_add(events, Ordering::Relaxed);
        process.flush(&mut self.spool);
        let lost = process.lost();
        self.spool.lose(lost);
        self.spool.fact(Kind::End, number, &end_fact(leaving, &lost));
    }

    /// Looks at all rings, hears what the door says, and empties the rings: of what a process was given between look and
    /// hearing, only what comes before what was seen.
    fn round(&mut self) -> Round {
        self.doorbell.heartbeat.fetch_add(1, Ordering::Relaxed);
        self.live.values_mut().for_each(Live::look);
        let mut is_last = false;
        while let Ok(message) = self.messages.try_recv() {
            is_last |= self.hear(message);
        }
        let spool = &mut self.spool;
        let events = self.live.values_mut().map(|process| process.drain(spool)).sum();
        self.tally.events.fetch_add(events, Ordering::Relaxed);
        self.tally.bytes.store(self.spool.bytes(), Ordering::Relaxed);
        Round { events, is_last }
    }

    fn store_all(&mut self) {
        for process in self.live.values_mut() {
            process.flush(&mut self.spool);
        }
        let rate = self.clock.ticks_per_second();
        self.spool.fact(Kind::Clock, 0, &FactWriter::default().number(rate));
    }

    /// A round after which, if there was little to do, it sleeps until the doorbell rings. The fence orders `sleeping` against
    /// the last look at the rings; it pairs with the one in the preload library's `ring_doorbell`.
    fn sleep(&mut self) -> Round {
        self.doorbell.sleeping.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let round = self.round();
        if round.events < ENOUGH && !round.is_last {
            wait(&self.doorbell, SLEEP);
        }
        self.doorbell.sleeping.store(0, Ordering::SeqCst);
        round
    }
}

/// Ending as a number: 0 unknown, 1 code, 2 signal, 3 exec, 4 alive; its value; events lost.
fn end_fact(leaving: Leaving, lost: &Lost) -> FactWriter {
    let (how, value) = match leaving {
        Leaving::Ended(Some(Ending::Code(code))) => (1, code as u64),
        Leaving::Ended(Some(Ending::Signal(signal))) => (2, signal as u64),
        Leaving::Ended(_) => (0, 0),
        Leaving::Exec => (3, 0),
        Leaving::Alive => (4, 0),
    };
    lost.write(FactWriter::default().number(how).number(value))
}

fn wait(doorbell: &Doorbell, longest: Duration) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
    let word = &raw const doorbell.sleeping;
    // SAFETY: the kernel reads the word and the time; the futex is shared between processes.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 1, &raw const time) };
}

/// Wakes the drain, from within this process.
pub fn ring(doorbell: &Doorbell) {
    if doorbell.sleeping.swap(0, Ordering::SeqCst) != 0 {
        let word = &raw const doorbell.sleeping;
        // SAFETY: the kernel reads the address only.
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, i32::MAX) };
    }
}
