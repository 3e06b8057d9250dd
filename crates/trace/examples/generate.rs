//! Writes a trace of any length with a bounded number of live objects, to show that readers'
//! memory does not grow with the length of a trace:
//!
//! ```text
//! cargo run --release -p freehold-trace --example generate -- big.fht 1000000000 100000
//! ```
//!
//! The first number is the least length of the file in bytes, the second the live objects.

use freehold_trace::*;
use std::error::Error;

const THREADS: u32 = 4;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, bytes, live] = &args[..] else {
        return Err("usage: generate FILE BYTES LIVE_OBJECTS".into());
    };
    let (bytes, live): (u64, u64) = (bytes.parse()?, live.parse()?);
    let header = Header {
        ticks_per_second: 1_000_000_000,
        recorder: "generate, an example of freehold-trace".into(),
        ..Header::default()
    };
    let mut writer = Writer::create(path, header)?;
    let mut random = Random(0x5eed);
    let mut tick = 0;
    // The objects of each thread; an object's address is only a name for the namer.
    let mut objects: Vec<Vec<u64>> = vec![Vec::new(); THREADS as usize];
    let mut namer = Namer::new();
    let mut next_address = 0;
    while writer.bytes() < bytes {
        let thread = random.below(THREADS.into());
        let own = &mut objects[thread as usize];
        tick += random.below(400);
        let mut refused = Ok(());
        let (process, thread) = (ProcessId(0), ThreadId(thread as u32));
        let mut emit = |event| {
            if let Err(error) = writer.push(&Record { tick: Tick(tick), process, thread, event }) {
                refused = Err(error);
            }
        };
        if own.len() as u64 * u64::from(THREADS) < live || own.is_empty() {
            next_address += 64;
            let request = Request { size: 1 << random.below(13), ..Request::default() };
            own.push(next_address);
            namer.alloc(process, thread, next_address, request, &mut emit);
        } else {
            let victim = random.below(own.len() as u64) as usize;
            namer.free(process, thread, own.swap_remove(victim), &mut emit);
        }
        refused?;
    }
    let summary = writer.finish()?;
    println!("{} events, {} bytes", summary.events, summary.bytes);
    Ok(())
}

/// Marsaglia's xorshift: enough for noise.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound.max(1)
    }
}
