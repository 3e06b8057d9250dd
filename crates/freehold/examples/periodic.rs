//! A periodic task with a deadline allocates; another thread frees what it was handed.
//!
//! ```sh
//! cargo run --release -p freehold --example periodic            # 1,000 periods of 1 ms
//! cargo run --release -p freehold --example periodic 200 5000   # 200 periods of 5 ms
//! ```
//!
//! Every period the task allocates a message and hands it on; the consumer reads it and gives the block back by
//! the heap's inbox, which is wait-free. The heap is strict and as long as its proof wants: at most `LIVE`
//! bytes of messages are on their way, so no allocation can fail, in whatever order blocks come back.

use freehold::realtime::{Block, Inbox, Pages, RealTimeHeap, ReserveError, StrictHeap};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// The longest message, and the smallest block.
const LONGEST: usize = 4096;
const SMALLEST: u64 = 64;
/// Messages on their way: the channel's capacity, one at the consumer, and one each for the sender and the
/// inbox, which malloc empties by one each time.
const ON_THE_WAY: usize = 64;
const LIVE: u64 = ((ON_THE_WAY + 3) * LONGEST) as u64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let periods: usize = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    let micros: u64 = arguments.next().map_or(Ok(1000), |text| text.parse())?;
    play(periods, micros)
}

/// So many periods of so many microseconds.
pub fn play(periods: usize, micros: u64) -> Result<(), Box<dyn std::error::Error>> {
    let mut heap = reserve()?;
    let inbox = heap.inbox();
    let (sender, receiver) = sync_channel(ON_THE_WAY);
    let consumer = std::thread::spawn(move || consume(&receiver, inbox));
    let (worst, late) = produce(&mut heap, &sender, periods, Duration::from_micros(micros));
    drop(sender);
    let sum = consumer.join().map_err(|_| "the consumer failed")?;
    while heap.take_in() {}
    heap.check()?;
    println!("{periods} messages, sum of their bytes {sum}");
    println!("longest malloc {worst:?}, late periods {late}");
    Ok(())
}

/// Locked memory if the system allows it, else touched.
fn reserve() -> Result<RealTimeHeap<'static, StrictHeap>, ReserveError> {
    match RealTimeHeap::reserve_strict(LIVE, LONGEST as u64, SMALLEST, Pages::Locked) {
        Err(ReserveError::NotLocked { .. }) => {
            RealTimeHeap::reserve_strict(LIVE, LONGEST as u64, SMALLEST, Pages::Touched)
        }
        other => other,
    }
}

/// The task: one message a period. The longest malloc, and how often a period was over too early.
fn produce(
    heap: &mut RealTimeHeap<'static, StrictHeap>,
    sender: &SyncSender<Block<'static>>,
    periods: usize,
    period: Duration,
) -> (Duration, usize) {
    let (mut worst, mut late) = (Duration::ZERO, 0);
    let mut deadline = Instant::now() + period;
    for number in 0..periods {
        let len = 1 + number * 37 % LONGEST;
        let start = Instant::now();
        let block = heap.malloc(len);
        worst = worst.max(start.elapsed());
        let mut block = block.expect("the proof says that there is room");
        for byte in block.iter_mut() {
            byte.write(number as u8);
        }
        // A full channel waits here, and then messages on their way are as many as they may be.
        if sender.send(block).is_err() {
            break;
        }
        late += usize::from(Instant::now() > deadline);
        std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
        deadline += period;
    }
    (worst, late)
}

/// Reads every message and gives its block back.
fn consume(receiver: &Receiver<Block<'static>>, inbox: Inbox<'static>) -> u64 {
    let mut sum = 0;
    for block in receiver {
        // SAFETY: the producer wrote every byte.
        sum += block.iter().map(|byte| u64::from(unsafe { byte.assume_init() })).sum::<u64>();
        inbox.free(block).expect("the block is of this heap, and nobody else frees it");
    }
    sum
}
