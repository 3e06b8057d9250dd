//! Any bytes as a trace. Checksums are repaired first, or the fuzzer would never get past them.

#![no_main]

use freehold_trace::{Event, StackId, Trace};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut bytes = data.to_vec();
    // The first byte says whether to repair, so that damage is fuzzed too.
    if bytes.first().is_some_and(|first| *first != b'#') {
        repair(&mut bytes);
    }
    let path = std::env::temp_dir().join(format!("freehold-fuzz-{}.fht", std::process::id()));
    std::fs::write(&path, &bytes).expect("the temporary folder takes a small file");
    let Ok(trace) = Trace::open(&path) else { return };
    for process in trace.processes() {
        std::hint::black_box(trace.events_of(process.id));
    }
    let (stacks, _) = trace.stacks().expect("the file can be read");
    for stack in 0..=stacks.len().min(1000) as u32 {
        let frames = stacks.walk(StackId(stack)).filter_map(|frame| stacks.frame(frame));
        let modules = frames.filter_map(|frame| frame.module);
        assert!(modules.into_iter().all(|module| (module as usize) < stacks.modules().len()));
    }
    let mut records = trace.records().expect("the file can be read");
    while let Some(run) = records.next_run().expect("the file can be read") {
        assert!(run.stacks.is_empty() || run.stacks.len() == run.events.len());
    }
    let mut records = trace.records().expect("the file can be read");
    let (mut last, mut given) = (None, 0);
    while let Some(record) = records.next().expect("the file can be read") {
        assert!(last <= Some(record.tick), "out of order");
        if let Event::Realloc { began, .. } = record.event {
            assert!(began <= record.tick, "a realloc ends before it began");
        }
        last = Some(record.tick);
        given += 1;
    }
    assert!(given <= trace.events(), "more events than the blocks promise");
    let lost: u64 = records.damage().iter().filter_map(|damage| damage.events_lost).sum();
    assert!(given + lost <= trace.events(), "events both given and lost");
});

/// Makes the checksums of the header and of all blocks that follow one another right.
fn repair(bytes: &mut [u8]) {
    let Some(json_len) = number(bytes, 12) else { return };
    let mut at = 20usize.saturating_add(json_len as usize);
    if at > bytes.len() {
        return;
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[8..16]);
    crc.update(&bytes[20..at]);
    put(bytes, 16, crc.finalize());
    while let Some(stored_len) = number(bytes, at + 40)
        && bytes.len() >= at + 64
        && bytes[at..].starts_with(b"FhBk")
    {
        let begin = at + 64;
        let end = begin.saturating_add(stored_len as usize);
        if let Some(stored) = bytes.get(begin..end) {
            let crc = crc32fast::hash(stored);
            put(bytes, at + 44, crc);
        }
        let crc = crc32fast::hash(&bytes[at..at + 60]);
        put(bytes, at + 60, crc);
        at = end;
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(four.try_into().ok()?))
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
