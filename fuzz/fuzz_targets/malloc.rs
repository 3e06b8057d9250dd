//! Any bytes as a program of malloc calls, on several caches and a machine that refuses some of what it is asked; the
//! oracle (`freehold_testkit::ShadowMalloc`) checks every promise.

#![no_main]

use freehold_testkit::{Call, run_calls};
use libfuzzer_sys::fuzz_target;

/// Most calls of one program: a slow program is a program not run.
const MOST_CALLS: usize = 2_000;

fuzz_target!(|data: &[u8]| {
    // The first byte says how often the machine refuses, and how long its pages are.
    let Some((&refuses, rest)) = data.split_first() else { return };
    let page = [4096, 4096, 16 << 10, 64 << 10][usize::from(refuses >> 6)];
    let mut bytes = rest.iter().copied();
    let calls: Vec<Call> = std::iter::from_fn(|| call(&mut bytes)).take(MOST_CALLS).collect();
    if let Err(broken) = run_calls(&calls, u32::from(refuses % 16), page) {
        panic!("{broken}\n    run_calls(&{calls:?}, {}, {page});", refuses % 16);
    }
});

fn call(bytes: &mut impl Iterator<Item = u8>) -> Option<Call> {
    let kind = bytes.next()?;
    Some(match kind % 16 {
        0..5 => Call::Alloc(size(bytes)?),
        5 => Call::Zeroed(size(bytes)?),
        6 => Call::Aligned(size(bytes)?, bytes.next()? % 24),
        7..11 => Call::Free(u32::from(bytes.next()?)),
        11 | 12 => Call::Resize(u32::from(bytes.next()?), size(bytes)?),
        13 => Call::Switch(kind / 16),
        14 => match kind / 16 {
            0..4 => Call::Purge(true),
            4..8 => Call::Purge(false),
            8..10 => Call::Leave,
            _ => Call::Receive,
        },
        _ => Call::Send(u32::from(kind / 16)),
    })
}

/// Five bits of length, eleven bits of detail: 0 to 4 MiB, and two sizes that nobody has.
fn size(bytes: &mut impl Iterator<Item = u8>) -> Option<usize> {
    let code = usize::from(u16::from_le_bytes([bytes.next()?, bytes.next()?]));
    let (log2, detail) = (code >> 11, code & 0x7FF);
    Some(match log2 {
        30 => isize::MAX as usize - detail,
        31 => usize::MAX - detail,
        _ => {
            let base = 1_usize << (log2 * 22 / 29);
            base.saturating_sub(16) + base * detail / 2048
        }
    })
}
